"""Entries that fall due, gathered in coarse steps.

An exact timer for each message would cost more than the message. What waits is instead put into buckets of equal width
in time; a bucket is due when its end is, so that nothing is due early and nothing is more than one width late, and one
timer, for the first bucket, serves all.
"""

import heapq
import math

from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.ledgers.entry_map import EntryMap

LONGEST = 1e9
"""The longest wait in seconds, some thirty years: far beyond it times are too large to be counted in buckets."""


class Deadlines:
    """Entries with a due time each, at the resolution of `width` seconds."""

    __slots__ = ("_buckets", "_ends", "_place", "width")

    def __init__(self, width: float) -> None:
        self.width = width
        self._buckets: dict[int, dict[EntryKey, None]] = {}
        self._ends: list[int] = []
        self._place: EntryMap[int] = EntryMap()

    def put(self, entry: EntryKey, due: float) -> None:
        """Let an entry fall due at a time, instead of any earlier one."""
        end = math.ceil(due / self.width)
        before = self._place.get(entry)
        if before == end:
            return
        if before is not None:
            del self._buckets[before][entry]
        bucket = self._buckets.get(end)
        if bucket is None:
            bucket = self._buckets[end] = {}
            heapq.heappush(self._ends, end)
        bucket[entry] = None
        self._place.put(entry, end)

    def discard(self, entry: EntryKey) -> None:
        """Forget an entry, if it is here."""
        end = self._place.pop(entry)
        if end is not None:
            del self._buckets[end][entry]

    def discard_up_to(self, last: EntryKey) -> None:
        """Forget an entry and all that are lower."""
        for entry, end in self._place.pop_up_to(last):
            del self._buckets[end][entry]

    def clear(self) -> None:
        """Forget all."""
        self._buckets.clear()
        self._ends.clear()
        self._place.clear()

    def next_due(self) -> float | None:
        """Give the time of the first bucket that holds anything."""
        while self._ends and not self._buckets[self._ends[0]]:
            del self._buckets[heapq.heappop(self._ends)]
        return self._ends[0] * self.width if self._ends else None

    def take_due(self, now: float) -> list[EntryKey]:
        """Take out the entries that are due, the longest waiting first."""
        taken: list[EntryKey] = []
        while self._ends and self._ends[0] * self.width <= now:
            taken += self._buckets.pop(heapq.heappop(self._ends))
        for entry in taken:
            self._place.pop(entry)
        return taken
