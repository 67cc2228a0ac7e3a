"""The end of a client for its callers: by `close`, by `shutdown`, with its last reference, or after a fork.

The client's actor ends the other actors, in the order of `machines/client_close.py`. This module has the part of the
callers' threads. The first caller that closes tells the client's actor, waits for its answer no longer than all actors
may take, and then stops the threads of loops and listeners, even without an answer. Other callers wait for the first.
On a loop no caller may wait: there the answer of the client's actor stops the threads.
"""

import threading
from concurrent.futures import Future

from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.loggers import LogDestination
from pulsar_actors.client.open_handles import OPEN_CLIENTS, OpenHandles
from pulsar_actors.client.service_switch import ServiceSwitch
from pulsar_actors.exceptions import AlreadyClosed, ProcessForked, Timeout
from pulsar_actors.machines.client_close import CloseClient, ShutDownClient
from pulsar_actors.runtime.actor import ActorRef, forget_actors_on, tell
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, copy_error, settle

FLUSH_TIME = 2.0
"""Seconds for the connections to close, in addition to the operation timeout."""

JOIN_TIME = 1.0
"""Seconds to wait for threads that have been told to end."""


class ClientShutdown:
    """The end of one client. Any thread may use it."""

    def __init__(
        self, engine: Engine, context: ClientContext, open_handles: OpenHandles, log: LogDestination, timeout: float
    ) -> None:
        self._engine = engine
        self._context = context
        self._open_handles = open_handles
        self._log = log
        self._timeout = timeout
        self._lock = threading.Lock()
        self._refusal: Exception | None = None
        self.ended: SlimFuture[None] | None = None
        OPEN_CLIENTS.add(open_handles)

    def refuse(self, what: str) -> None:
        """Raise if the client is closed or forked, or if the call would block a loop."""
        if self._refusal is not None:
            raise copy_error(self._refusal)
        self._engine.refuse_on_io_thread(what, "another thread")

    def refuse_if_forked(self) -> None:
        """Raise in a forked child."""
        if isinstance(self._refusal, ProcessForked):
            raise copy_error(self._refusal)

    def close(self) -> None:
        """Close all producers, consumers and readers, then the connections."""
        self._end(CloseClient, self._timeout + FLUSH_TIME)

    def shut_down(self) -> None:
        """Close without waiting for brokers."""
        self._end(ShutDownClient, FLUSH_TIME)

    def forget_everything(self) -> None:
        """Refuse all calls from now on, in a forked child. Nothing is sent."""
        self._lock = threading.Lock()
        self._refusal = ProcessForked("the process was forked after this was made: make a new Client in the child")
        self._context.pending_calls.closed = self._refusal
        for state in self._context.open_states:
            state.forget(self._refusal)
        self._engine.forget_everything()

    def _end(self, how: type[CloseClient] | type[ShutDownClient], timeout: float) -> None:
        self.refuse_if_forked()
        with self._lock:
            first, ended = self.ended is None, self.ended or SlimFuture()
            self.ended = ended
            self._refusal = AlreadyClosed("the client is closed")
        if first:
            self._end_first(how, timeout, ended)
            return
        tell(self._context.guardian, how(SlimFuture()))  # a running close stops waiting for brokers if it is a shutdown
        if not self._engine.is_on_io_thread():
            self._engine.block(ended, timeout + FLUSH_TIME, "closing the client, which another thread does")

    def _end_first(
        self, how: type[CloseClient] | type[ShutDownClient], timeout: float, ended: SlimFuture[None]
    ) -> None:
        done: SlimFuture[None] = SlimFuture()
        tell(self._context.guardian, how(done))
        if self._engine.is_on_io_thread():
            done.add_done_callback(lambda _: self._finish(ended, 0.0))
            return
        try:
            self._engine.block(done, timeout, "closing the client")
        except Timeout:
            pass
        finally:
            self._finish(ended, JOIN_TIME)

    def _finish(self, ended: SlimFuture[None], join: float) -> None:
        self._engine.stop(join)
        forget_actors_on(self._engine.loops)
        closed = AlreadyClosed("the client is closed")
        self._context.pending_calls.end(closed)
        for state in self._context.open_states:
            state.end(closed)
        self._open_handles.clear()
        self._log.detach()
        OPEN_CLIENTS.discard(self._open_handles)
        settle(ended, None)


def shut_down_abandoned(guardian: ActorRef, engine: Engine, log: LogDestination, service_switch: ServiceSwitch) -> None:
    """Shut down a client without references. The garbage collector calls this, in any thread."""
    service_switch.close_in_background()
    done: SlimFuture[None] = SlimFuture()
    tell(guardian, ShutDownClient(done))

    def ended(_: "Future[None]") -> None:
        log.detach()
        engine.stop(0.0)
        forget_actors_on(engine.loops)  # an actor may have started after the client's actor ended

    done.add_done_callback(ended)
