"""The pending calls of a handle, and the other data that a handle and its actor share: two futures and counters.

A caller's thread creates a future, tracks it, and tells an actor. If the actor ends at the same moment, it will never
answer. So the caller adds the future and *then* checks if the calls are closed. The actor marks the calls as closed and
*then* fails all futures that are there (the rule "append, then look" of `loop.py`). A future that both sides see ends
only once.

A handle and its actor share a `HandleLink`, because either may exist longer than the other: a handle may be used after
its actor has ended, and an actor may still be closing when its handle has been collected.
"""

from concurrent.futures import Future
from typing import Any, TypeVar

from pulsar_actors.runtime.future import SlimFuture, copy_error, settle
from pulsar_actors.runtime.loop import THREADS, Interleaving

T = TypeVar("T")


class PendingCalls:
    """The pending calls of one handle. Any thread may use them."""

    __slots__ = ("_checkpoint", "_open", "closed")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.closed: Exception | None = None
        self._open: dict[Future[Any], None] = {}  # in the order of the calls, in which they will end
        self._checkpoint = interleaving.checkpoint

    def track(self, future: SlimFuture[T]) -> SlimFuture[T]:
        """Add the future of a call. It ends with the handle's actor at the latest."""
        self._open[future] = None
        self._checkpoint()
        if self.closed is not None:
            self.fail(future, self.closed)
        return future

    def untrack(self, future: "Future[Any]") -> None:
        """Remove a future that has ended."""
        self._open.pop(future, None)

    def resolve(self, future: SlimFuture[T], result: T) -> None:
        """End a call with its result, unless it has ended."""
        self._open.pop(future, None)
        settle(future, result)

    def fail(self, future: "Future[Any]", error: Exception) -> None:
        """End a call with an error of its own, unless it has ended."""
        self._open.pop(future, None)
        settle(future, copy_error(error))

    def end(self, error: Exception) -> None:
        """Fail all calls, and refuse further ones."""
        if self.closed is None:
            self.closed = error
        self._checkpoint()
        for future in list(self._open):
            self.fail(future, error)


class HandleCounters:
    """The counters of one handle, for its `stats`. Its actor writes them, any thread may read them."""

    __slots__ = ("attachments", "last_error")

    def __init__(self) -> None:
        self.attachments = 0
        self.last_error: Exception | None = None

    @property
    def reconnects(self) -> int:
        """The number of times that the handle was registered with a broker again, after the first time."""
        return max(0, self.attachments - 1)

    @property
    def last_error_text(self) -> str | None:
        """The text of the last error."""
        return None if self.last_error is None else str(self.last_error)


class HandleLink:
    """The data shared by a handle and its actor.

    `created` gets a result when the brokers have accepted it, or an error.

    `ended` gets a result when the actor has ended, for whatever reason.
    """

    __slots__ = ("counters", "created", "ended", "pending_calls")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.created: SlimFuture[None] = SlimFuture()
        self.ended: SlimFuture[None] = SlimFuture()
        self.pending_calls = PendingCalls(interleaving)
        self.counters = HandleCounters()


class ClientCounters:
    """The counters of one client, for its `stats`. Each has one writer; any thread may read them."""

    __slots__ = ("connections", "lookups")

    def __init__(self) -> None:
        self.connections = 0
        self.lookups = 0
