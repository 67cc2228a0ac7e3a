"""Entries that may not be delivered yet, in the order in which they may be.

They are kept until their time, to the millisecond. (A real broker looks once a second, and lets go up to a second too
early what is due before it looks again.) One timer is set at a time, for the earliest; a timer that was overtaken finds
nothing to do when it fires.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.entry import StoredEntry

_MS = 1000.0


class Delays:
    """The entries of one subscription that wait for their time; `due` is called when there may be some."""

    __slots__ = ("_clock", "_due", "_timer", "_waiting")

    def __init__(self, clock: Clock, due: Callable[[], None]) -> None:
        self._clock = clock
        self._due = due
        self._timer = 0  # when the next timer fires that has not been overtaken; 0: there is none
        self._waiting: list[tuple[int, int]] = []  # when, and which offset

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, entry: StoredEntry) -> bool:
        """Keep an entry whose time has not come; tells whether it is kept."""
        if entry.deliver_at <= self._clock.wall_clock_ms():
            return False
        heappush(self._waiting, (entry.deliver_at, entry.offset))
        self._set_timer()
        return True

    def release(self) -> list[int]:
        """Give the offsets of those whose time has come."""
        now_ms = self._clock.wall_clock_ms()
        released: list[int] = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            released.append(heappop(self._waiting)[1])
        self._set_timer()
        return released

    def clear(self) -> None:
        """Forget them all."""
        self._waiting.clear()
        self._timer = 0

    def _set_timer(self) -> None:
        if not self._waiting:
            return
        earliest = self._waiting[0][0]
        if not self._timer or earliest < self._timer:
            self._timer = earliest
            self._clock.later((earliest - self._clock.wall_clock_ms()) / _MS, self._fired, earliest)

    def _fired(self, timer: int) -> None:
        if timer == self._timer:
            self._timer = 0
            self._due()
            self._set_timer()
