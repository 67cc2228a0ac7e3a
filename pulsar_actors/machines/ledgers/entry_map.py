"""What is kept for each of many entries, so that all up to one can go at the cost of those that go.

A cumulative acknowledgement settles everything up to an entry, and users make one for each message: to look through all
that is kept each time would make a long backlog slow. So besides a dict there is a heap of the keys, lowest first.
Entries come mostly in rising order, where a heap costs next to nothing. A key that is taken out by itself stays in the
heap until it comes to the top, or until the heap is twice as long as it needs to be and is made anew.

What concerns an entry may also stop to matter without a word: after a reconnect the broker may give the entry to
somebody else. `turn` is called on each reconnect, and drops what nobody has asked for since the one before.
"""

import heapq
from typing import Generic, TypeVar

from pulsar_actors.machines.ledgers.entry_key import EntryKey

Value = TypeVar("Value")

SLACK = 64
"""A heap that is too long by less than this is left alone."""


class EntryMap(Generic[Value]):
    """A value for each of some entries; never None."""

    __slots__ = ("_former", "_heap", "_values")

    def __init__(self) -> None:
        self._values: dict[EntryKey, Value] = {}
        self._former: dict[EntryKey, Value] = {}
        self._heap: list[EntryKey] = []

    def get(self, entry: EntryKey) -> Value | None:
        """Give the value of an entry."""
        value = self._values.get(entry)
        if value is None and entry in self._former:
            value = self._values[entry] = self._former.pop(entry)
        return value

    def put(self, entry: EntryKey, value: Value) -> None:
        """Set the value of an entry."""
        if self.get(entry) is None:
            heapq.heappush(self._heap, entry)
        self._values[entry] = value

    def pop(self, entry: EntryKey) -> Value | None:
        """Take out the value of an entry."""
        value = self.get(entry)
        if value is None:
            return None
        del self._values[entry]
        if len(self._heap) > 2 * (len(self._values) + len(self._former)) + SLACK:
            self._make_heap()
        return value

    def pop_up_to(self, last: EntryKey) -> list[tuple[EntryKey, Value]]:
        """Take out an entry and all that are lower."""
        taken: list[tuple[EntryKey, Value]] = []
        while self._heap and self._heap[0] <= last:
            entry = heapq.heappop(self._heap)
            value = self.get(entry)
            if value is not None:
                del self._values[entry]
                taken.append((entry, value))
        return taken

    def above(self, entry: EntryKey) -> list[Value]:
        """Give the values of the entries that are higher, which costs a look at all."""
        return [value for values in (self._values, self._former) for key, value in values.items() if key > entry]

    def turn(self) -> None:
        """Drop what nobody has asked for since the last turn."""
        self._former, self._values = self._values, {}
        self._make_heap()

    def clear(self) -> None:
        """Drop everything."""
        self._values, self._former, self._heap = {}, {}, []

    def _make_heap(self) -> None:
        self._heap = [*self._values, *self._former]
        heapq.heapify(self._heap)
