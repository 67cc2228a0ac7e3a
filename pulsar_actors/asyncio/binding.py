"""Binds a client to the event loop of its first call, and closes it with the loop.

A loop that ends with `shutdown_asyncgens`, as `asyncio.run` and `asyncio.Runner` do, closes asynchronous generators. So
one generator for each loop waits for that, and then closes the clients of the loop that are still open. A loop that is
closed without it is noticed with the next completion for it, or the next client; a client that is not referenced any
longer ends in any case, as the synchronous one does.

An error has the frames of the coroutines that it has passed, and none of them keeps the future that has it: see
`result_of` in `runtime/future.py`.
"""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

from pulsar_actors.asyncio.completions import Completions, LoopReply
from pulsar_actors.asyncio.listeners import ListenerTask
from pulsar_actors.client.client import Client as SyncClient
from pulsar_actors.runtime.future import copied

T = TypeVar("T")


class LoopBinding:
    """The event loop of one client and of its producers, consumers and readers. `client` is the synchronous client.

    `start_thread` starts a thread with a function, in which that client's blocking calls are made.
    """

    __slots__ = ("__weakref__", "_client", "_completions", "_listeners", "_start_thread")

    def __init__(self, client: SyncClient, start_thread: Callable[[Callable[[], object]], object]) -> None:
        self._client = weakref.ref(client)
        self._start_thread = start_thread
        self._completions: Completions | None = None
        self._listeners: weakref.WeakSet[ListenerTask] = weakref.WeakSet()

    def completions(self) -> Completions:
        """Return the completions of the loop; raise if this is not the loop of the client."""
        loop = asyncio.get_running_loop()
        bound = self._completions
        if bound is None:
            self._completions = bound = Completions(loop, self.shut_down)
            _close_with(loop, self)
        elif bound.loop is not loop:
            raise RuntimeError(
                f"this client belongs to the event loop {bound.loop!r}, and was used in {loop!r}: make a client "
                "in each loop"
            )
        return bound

    def add_listener(self, listener: ListenerTask) -> None:
        """Add a listener, which ends with the client."""
        self._listeners.add(listener)

    def stop_listeners(self) -> list[ListenerTask]:
        """Call no listener any more, and return them."""
        listeners = list(self._listeners)
        for listener in listeners:
            listener.stop()
        return listeners

    async def close(self) -> None:
        """Close the client, if it is still there, and wait for the calls of listeners that are running."""
        client = self._client()
        if client is None:
            return
        listeners = self.stop_listeners()
        await self.in_thread(client.close)
        for listener in listeners:
            await listener.wait()

    def shut_down(self) -> None:
        """Shut the client down, if it is still there. A loop that runs in this thread does not wait for the end."""
        self.stop_listeners()
        client = self._client()
        if client is None:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            client.shutdown()
        else:
            self._start_thread(client.shutdown)

    async def in_thread(self, call: Callable[[], T], abandoned: Callable[[T], object] | None = None) -> T:
        """Run a blocking call in a thread of its own. If the caller is cancelled, the call goes on to its end.

        Then `abandoned` gets its result.
        """
        reply: LoopReply[T] = LoopReply(self.completions())
        reply.abandoned = abandoned
        self._start_thread(partial(_run, call, reply))
        try:
            return await reply.future
        finally:
            del reply

    def future_of(self, ended: "Future[T]") -> "asyncio.Future[T]":
        """Return a future of the loop that ends like a future of the synchronous client."""
        reply: LoopReply[T] = LoopReply(self.completions())

        def done(future: "Future[T]") -> None:
            error = future.exception()
            if error is None:
                reply.set_result(future.result())
            else:
                reply.set_exception(copied(error))

        ended.add_done_callback(done)
        return reply.future

    async def wait_for(self, ended: "Future[T]") -> T:
        """Wait for a future of the synchronous client."""
        return await self.future_of(ended)


def _run(call: Callable[[], T], reply: LoopReply[T]) -> None:
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        reply.set_exception(error)
    else:
        reply.set_result(result)
    finally:
        del reply


def start_thread(call: Callable[[], object]) -> None:
    """Start a thread that does not keep the process alive."""
    threading.Thread(target=call, name="pulsar_actors-asyncio-call", daemon=True).start()


class _LoopClients:
    """The clients of one loop, and the generator that the loop closes at its end."""

    def __init__(self) -> None:
        self.bindings: weakref.WeakSet[LoopBinding] = weakref.WeakSet()
        self._at_end = self._wait_for_end()
        with suppress(StopIteration):
            self._at_end.__anext__().send(None)

    async def _wait_for_end(self) -> AsyncGenerator[None, None]:
        bindings = self.bindings
        try:
            yield
        finally:
            for binding in list(bindings):
                await binding.close()


_clients: dict[asyncio.AbstractEventLoop, _LoopClients] = {}


def _close_with(loop: asyncio.AbstractEventLoop, binding: LoopBinding) -> None:
    for other in list(_clients):
        if other.is_closed():
            ended = _clients.pop(other, None)
            for left in [] if ended is None else list(ended.bindings):
                left.shut_down()
    clients = _clients.get(loop)
    if clients is None:
        clients = _clients[loop] = _LoopClients()
    clients.bindings.add(binding)
