"""Keys that fall due, gathered in coarse steps.

An exact timer for each message would cost more than the message. What waits is instead put into buckets of equal width
in time; a bucket is due when its end is, so that nothing is due early and nothing is more than one width late, and one
timer, for the first bucket, serves all.
"""

import heapq
import math
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=tuple[int, int])


class Deadlines(Generic[Key]):
    """Keys with a due time each, at the resolution of `width` seconds."""

    __slots__ = ("_buckets", "_ends", "_place", "width")

    def __init__(self, width: float) -> None:
        self.width = width
        self._buckets: dict[int, dict[Key, None]] = {}
        self._ends: list[int] = []
        self._place: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, key: Key) -> bool:
        return key in self._place

    def put(self, key: Key, due: float) -> None:
        """Let a key fall due at a time, instead of any earlier one."""
        end = math.ceil(due / self.width)
        before = self._place.get(key)
        if before == end:
            return
        if before is not None:
            del self._buckets[before][key]
        bucket = self._buckets.get(end)
        if bucket is None:
            bucket = self._buckets[end] = {}
            heapq.heappush(self._ends, end)
        bucket[key] = None
        self._place[key] = end

    def discard(self, key: Key) -> None:
        """Forget a key, if it is here."""
        end = self._place.pop(key, None)
        if end is not None:
            del self._buckets[end][key]

    def discard_up_to(self, last: Key) -> None:
        """Forget a key and all that are lower."""
        for key in [key for key in self._place if key <= last]:
            self.discard(key)

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

    def take_due(self, now: float) -> list[Key]:
        """Take out the keys that are due, the longest waiting first."""
        taken: list[Key] = []
        while self._ends and self._ends[0] * self.width <= now:
            taken += self._buckets.pop(heapq.heappop(self._ends))
        for key in taken:
            del self._place[key]
        return taken
