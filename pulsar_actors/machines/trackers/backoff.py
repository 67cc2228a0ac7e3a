"""Backoff: the wait before the next try.

Each failure in a row doubles the wait, so that a broker that is down is not flooded; the cap keeps recovery within a
minute of its return. Jitter only ever shortens a wait, by up to a tenth: a thousand clients that lost the same broker
do not all come back at the same instant, and no wait exceeds the cap. One success resets the wait.
"""

from collections.abc import Callable

from pulsar_actors.exceptions import InvalidArgument

JITTER_SHARE = 0.1


class Backoff:
    """The wait between the tries of one operation. `jitter` returns numbers in [0, 1)."""

    __slots__ = ("_initial", "_jitter", "_maximum", "_next")

    def __init__(self, jitter: Callable[[], float], initial: float = 0.1, maximum: float = 60.0) -> None:
        if not 0 < initial <= maximum:
            raise InvalidArgument(f"a backoff needs 0 < initial <= maximum, got {initial} and {maximum} seconds")
        self._jitter = jitter
        self._initial = initial
        self._maximum = maximum
        self._next = initial

    def next_delay(self) -> float:
        """Return the seconds to wait now; the next wait is longer."""
        delay = self._next * (1 - JITTER_SHARE * self._jitter())
        self._next = min(self._next * 2, self._maximum)
        return delay

    def reset(self) -> None:
        """Note a success: the wait after the next failure is the shortest again."""
        self._next = self._initial
