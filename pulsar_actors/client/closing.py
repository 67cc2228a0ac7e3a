"""How a client ends: by `close`, by `shutdown`, with its last reference, or because the process was forked.

The first who closes asks the guardian, waits for as long as everybody may take, and then stops the threads, whether an
answer came or not. Whoever closes as well waits for the first one. On a loop nobody waits: there the guardian's answer
stops the threads.
"""

import threading
from concurrent.futures import Future

from pulsar_actors.client.anew import anew
from pulsar_actors.client.left_open import OPEN
from pulsar_actors.client.log_outlet import Attachment
from pulsar_actors.client.roll import Roll
from pulsar_actors.client.service_link import ServiceLink
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import AlreadyClosed, ProcessForked, Timeout
from pulsar_actors.runtime.actor import Address, forget_actors_on, tell
from pulsar_actors.runtime.client_actor import CloseAll, ShutDown
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, settle

FLUSH = 2.0
"""Seconds beyond the operation timeout within which connections have been closed."""

JOIN = 1.0
"""Seconds to wait for threads that have nothing left to do."""


class Closing:
    """The end of one client. Any thread may use it."""

    def __init__(self, engine: Engine, workshop: Workshop, roll: Roll, log: Attachment, timeout: float) -> None:
        self._engine = engine
        self._workshop = workshop
        self._roll = roll
        self._log = log
        self._timeout = timeout
        self._lock = threading.Lock()
        self._refusal: Exception | None = None
        self.ended: SlimFuture[None] | None = None
        OPEN.add(roll)

    def refuse(self, what: str) -> None:
        """Refuse a call after the end has begun, and one that would wait on a loop."""
        if self._refusal is not None:
            raise anew(self._refusal)
        self._engine.refuse_inside(what, "another thread")

    def refuse_if_forked(self) -> None:
        """Refuse a call in a forked child."""
        if isinstance(self._refusal, ProcessForked):
            raise anew(self._refusal)

    def close(self) -> None:
        """End in good order."""
        self._end(CloseAll, self._timeout + FLUSH)

    def shut_down(self) -> None:
        """End without waiting for brokers."""
        self._end(ShutDown, FLUSH)

    def forget_everything(self) -> None:
        """Become useless, in a forked child, without a word to any broker."""
        self._lock = threading.Lock()
        self._refusal = ProcessForked("the process was forked after this was made: make a new Client in the child")
        for parts in self._workshop.open:
            parts.forget(self._refusal)
        self._engine.forget_everything()

    def _end(self, how: type[CloseAll] | type[ShutDown], timeout: float) -> None:
        self.refuse_if_forked()
        with self._lock:
            first, ended = self.ended is None, self.ended or SlimFuture()
            self.ended = ended
            self._refusal = AlreadyClosed("the client is closed")
        if first:
            self._end_first(how, timeout, ended)
            return
        if how is ShutDown:  # have a close that waits for brokers wait no longer
            tell(self._workshop.guardian, ShutDown(SlimFuture()))
        if not self._engine.is_inside():
            self._engine.block(ended, timeout + FLUSH, "closing the client, which another thread does")

    def _end_first(self, how: type[CloseAll] | type[ShutDown], timeout: float, ended: SlimFuture[None]) -> None:
        done: SlimFuture[None] = SlimFuture()
        tell(self._workshop.guardian, how(done))
        if self._engine.is_inside():
            done.add_done_callback(lambda _: self._finish(ended, 0.0))
            return
        try:
            self._engine.block(done, timeout, "closing the client")
        except Timeout:
            pass
        finally:
            self._finish(ended, JOIN)

    def _finish(self, ended: SlimFuture[None], join: float) -> None:
        self._engine.stop(join)
        forget_actors_on(self._engine.loops)
        closed = AlreadyClosed("the client is closed")
        self._workshop.debts.end(closed)
        for parts in self._workshop.open:
            parts.end(closed)
        self._roll.clear()
        self._log.detach()
        OPEN.discard(self._roll)
        settle(ended, None)


def let_go(guardian: Address, engine: Engine, log: Attachment, link: ServiceLink) -> None:
    """End what a client has left that nobody holds any longer. The garbage collector calls this, in any thread."""
    link.let_go()
    done: SlimFuture[None] = SlimFuture()
    tell(guardian, ShutDown(done))

    def gone(_: "Future[None]") -> None:
        log.detach()
        engine.stop(0.0)

    done.add_done_callback(gone)
