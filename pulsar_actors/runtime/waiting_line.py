"""Those who wait to look again: for a message, or for room. Each waits on a future of its own, in the order they came.

Who waits adds the future and *then* looks; who has something adds it and *then* wakes. So one of the two sees the
other, and a wake-up is no more than leave to look: another may have been faster. The line is a list, whose changes are
one step each for the interpreter, and which is small while nobody waits, as an empty deque is not.
"""

from typing import Any

from pulsar_actors.runtime.future import SlimFuture


class WaitingLine(list[SlimFuture[Any]]):
    """A line of futures. Any thread may use it."""

    __slots__ = ()

    def wake(self, most: int) -> None:
        """Wake so many at most, from the front."""
        for _ in range(most):
            if not self._wake_first():
                return

    def wake_all(self) -> None:
        """Wake everybody."""
        while self._wake_first():
            pass

    def _wake_first(self) -> bool:
        try:
            first = self.pop(0)
        except IndexError:  # there is none, or another thread was faster
            return False
        first.set_result(None)
        return True
