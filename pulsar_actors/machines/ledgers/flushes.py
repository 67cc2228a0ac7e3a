"""Who waits until everything that was pending at some moment has ended.

Sends end in order, at the head of the queue, so it is enough to count: a flush is finished when as many batches have
ended as were pending when it was asked for. A batch that fails alone may have been before or behind that moment. It is
not counted, so that a flush can be late, by a batch for each that fails alone, but never early; with nothing pending
every flush is finished.
"""

from typing import Generic, TypeVar

T = TypeVar("T")


class Flushes(Generic[T]):
    """The flushes of one producer, oldest first."""

    __slots__ = ("_ended", "_waiting")

    def __init__(self) -> None:
        self._ended = 0
        self._waiting: list[tuple[int, T]] = []

    def ask(self, token: T, pending: int) -> None:
        """Wait for what is pending now."""
        self._waiting.append((self._ended + pending, token))

    def head_ended(self) -> None:
        """Note that the oldest pending batch has ended."""
        self._ended += 1

    def take_finished(self, pending: int) -> list[T]:
        """Give the flushes that need not wait any longer, in order, when so many batches are pending."""
        finished: list[T] = []
        while self._waiting and (not pending or self._waiting[0][0] <= self._ended):
            finished.append(self._waiting.pop(0)[1])
        return finished
