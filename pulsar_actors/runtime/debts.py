"""What a handle still owes to its callers: the futures of its calls, and the error with which all of them end.

A caller's thread makes a future, owes it, and tells an actor. If the actor ends at that very moment, nobody would be
left to answer. So: the caller adds the future and *then* looks whether it is over; whoever ends it says so and *then*
fails what is there. One of the two sees the other, and a future that both see ends once.
"""

from concurrent.futures import Future
from typing import Any, TypeVar

from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.interleaving import THREADS, Interleaving

T = TypeVar("T")


class Debts:
    """The open calls of one handle. Any thread may use it."""

    __slots__ = ("_checkpoint", "_owed", "closed")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.closed: Exception | None = None
        self._owed: dict[Future[Any], None] = {}  # in the order in which they came, so that they end in it
        self._checkpoint = interleaving.checkpoint

    def owe(self, future: SlimFuture[T]) -> SlimFuture[T]:
        """Promise that it will end."""
        self._owed[future] = None
        self._checkpoint()
        if self.closed is not None:
            self.fail(future, self.closed)
        return future

    def pay(self, future: SlimFuture[T], result: T) -> None:
        """End it well, unless it has ended."""
        self._owed.pop(future, None)
        settle(future, result)

    def fail(self, future: SlimFuture[T], error: Exception) -> None:
        """End it with an error, unless it has ended."""
        self._owed.pop(future, None)
        settle(future, error)

    def end(self, error: Exception) -> None:
        """End all, and whatever is owed from now on."""
        if self.closed is None:
            self.closed = error
        self._checkpoint()
        for future in list(self._owed):
            self._owed.pop(future, None)
            settle(future, error)
