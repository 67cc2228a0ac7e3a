"""When messages are due: at a rate, or as fast as they go.

A sender that fell behind sends at once what has become due meanwhile, and each message has the time at which it should
have left: a latency counted from there hides no wait, as one counted from a late start would.
"""

import threading
import time
from typing import Final

AT_ONCE: Final = 200
"""Messages that a sender without a rate may send before it looks whether the run is over."""

_NAP: Final = 0.5


class Pace:
    """For one sender, from `begin` on. A rate of 0 is as fast as they go; without a limit there is no end."""

    __slots__ = ("_limit", "_over", "_rate", "_sent", "start")

    def __init__(self, rate: float, limit: int | None, over: threading.Event) -> None:
        self.start = 0.0
        self._rate = rate
        self._limit = limit
        self._over = over
        self._sent = 0

    def begin(self) -> None:
        """Let the first message be due now."""
        self.start = time.perf_counter()

    def next(self, most: int = AT_ONCE) -> int:
        """Wait until messages are due, and say how many; 0 if there are no more."""
        while not self._over.is_set():
            left = most if self._limit is None else min(most, self._limit - self._sent)
            due = min(left, self._due_by(time.perf_counter()))
            if due or not left:
                self._sent += due
                return due
            self._over.wait(min(_NAP, max(0.0, self.due_at(self._sent) - time.perf_counter())))
        return 0

    def due_at(self, number: int) -> float:
        """Tell when a message is due, by `time.perf_counter`; the first has the number 0."""
        return self.start + number / self._rate if self._rate else time.perf_counter()

    def _due_by(self, now: float) -> int:
        if not self._rate:
            return self._sent + AT_ONCE
        return int((now - self.start) * self._rate) + 1 - self._sent
