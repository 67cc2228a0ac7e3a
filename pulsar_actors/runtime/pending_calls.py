"""The calls of a handle that are pending, and all else that a handle and its actor share: two futures and counters.

A caller's thread makes a future, tracks it, and tells an actor. If the actor ends at that very moment, nobody would be
left to answer. So the caller adds the future and *then* looks whether the calls are closed; whoever closes them notes
that and *then* fails the futures that are there. One of the two sees the other, and a future that both see ends once.

Handles and actors both keep a link, and outlive each other: a handle may wait for the end of an actor that has gone,
and an actor may go on closing after the last reference to its handle.
"""

from concurrent.futures import Future
from typing import Any, TypeVar

from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.loop import THREADS, Interleaving

T = TypeVar("T")


class PendingCalls:
    """The pending calls of one handle. Any thread may use them."""

    __slots__ = ("_checkpoint", "_open", "closed")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.closed: Exception | None = None
        self._open: dict[Future[Any], None] = {}  # in the order in which the calls came and will end
        self._checkpoint = interleaving.checkpoint

    def track(self, future: SlimFuture[T]) -> SlimFuture[T]:
        """Add the future of a call: it will end."""
        self._open[future] = None
        self._checkpoint()
        if self.closed is not None:
            self.fail(future, self.closed)
        return future

    def untrack(self, future: "Future[Any]") -> None:
        """Forget a future that has ended."""
        self._open.pop(future, None)

    def resolve(self, future: SlimFuture[T], result: T) -> None:
        """End a call with its result, unless it has ended."""
        self._open.pop(future, None)
        settle(future, result)

    def fail(self, future: SlimFuture[T], error: Exception) -> None:
        """End a call with an error, unless it has ended."""
        self._open.pop(future, None)
        settle(future, error)

    def end(self, error: Exception) -> None:
        """Fail all calls, and those that come from now on."""
        if self.closed is None:
            self.closed = error
        self._checkpoint()
        for future in list(self._open):
            self._open.pop(future, None)
            settle(future, error)


class HandleCounters:
    """The counters of one handle, for its `stats`. Its actor writes them, any thread may read them."""

    __slots__ = ("attachments", "last_error")

    def __init__(self) -> None:
        self.attachments = 0
        self.last_error: Exception | None = None

    @property
    def reconnects(self) -> int:
        """The number of times that it was served again after a lost connection."""
        return max(0, self.attachments - 1)

    @property
    def last_error_text(self) -> str | None:
        """The text of the last error."""
        return None if self.last_error is None else str(self.last_error)


class HandleLink:
    """Shared by a handle and its actor. `created` has a result once brokers have accepted it, or an error.

    `ended` has a result once the actor has ended, for whatever reason.
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
