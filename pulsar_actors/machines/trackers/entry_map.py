"""Collections of entries (a map and a set of due times), and `Generation`, which dates the messages of a consumer.

An entry, identified by its ledger id and its entry id, is the unit that a broker stores, acknowledges and redelivers.
"""

import heapq
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from pulsar_actors.named_tuple import NamedTuple

EntryKey = tuple[int, int]

LAST_ID = 2**63 - 1


def is_real(entry: EntryKey) -> bool:
    """Return whether such an entry can exist: ids are 64-bit numbers, and those below 0 stand for none."""
    ledger_id, entry_id = entry
    return 0 <= ledger_id <= LAST_ID and 0 <= entry_id <= LAST_ID


Value = TypeVar("Value")

SLACK = 64
"""The heap is rebuilt only if it is longer by this than twice the number of entries."""


class EntryMap(Generic[Value]):
    """A value, never None, for each of many entries; all up to one entry can be taken out at the cost of those taken.

    A cumulative acknowledgement settles everything up to an entry, and users send one for each message: a search of the
    whole map each time would make a long backlog slow. So there is a heap of the keys beside the dict. Entries come
    mostly in ascending order, which costs a heap almost nothing. A key that is taken out alone stays in the heap until
    it comes to the top, or until the heap is rebuilt because it is twice as long as it needs to be.

    An entry can also become irrelevant without notice: after a reconnect the broker may give it to another consumer.
    Call `drop_unused` on each reconnect: it drops the entries that were not used since the reconnect before.
    """

    __slots__ = ("_former", "_heap", "_values")

    def __init__(self) -> None:
        self._values: dict[EntryKey, Value] = {}
        self._former: dict[EntryKey, Value] = {}
        self._heap: list[EntryKey] = []

    def __len__(self) -> int:
        return len(self._values) + len(self._former)

    def get(self, entry: EntryKey) -> Value | None:
        """Return the value of an entry."""
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
        if len(self._heap) > 2 * len(self) + SLACK:
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
        """Return the values of all higher entries, which takes a search of the whole map."""
        return [value for values in (self._values, self._former) for key, value in values.items() if key > entry]

    def values(self) -> list[Value]:
        """Return all values."""
        return [*self._values.values(), *self._former.values()]

    def drop_unused(self) -> None:
        """Drop the entries that were not read or written since the last call."""
        self._former, self._values = self._values, {}
        self._make_heap()

    def clear(self) -> None:
        """Drop everything."""
        self._values, self._former, self._heap = {}, {}, []

    def _make_heap(self) -> None:
        self._heap = [*self._values, *self._former]
        heapq.heapify(self._heap)


LONGEST_WAIT = 1e9
"""In seconds, some thirty years. Much longer waits could not be counted in buckets."""


class Deadlines:
    """Entries with a due time each, at the resolution of `width` seconds.

    An exact timer for each message would cost more than the message. So entries go into buckets of equal width in time,
    each due at its end: no entry is due early, none is more than one width late, and one timer, for the first bucket,
    serves all.
    """

    __slots__ = ("_bucket_of", "_buckets", "_ends", "width")

    def __init__(self, width: float) -> None:
        self.width = width
        self._buckets: dict[int, dict[EntryKey, None]] = {}
        self._ends: list[int] = []
        self._bucket_of: EntryMap[int] = EntryMap()

    def put(self, entry: EntryKey, due: float) -> None:
        """Set the due time of an entry, in place of an earlier one."""
        end = math.ceil(due / self.width)
        before = self._bucket_of.get(entry)
        if before == end:
            return
        if before is not None:
            del self._buckets[before][entry]
        bucket = self._buckets.get(end)
        if bucket is None:
            bucket = self._buckets[end] = {}
            heapq.heappush(self._ends, end)
        bucket[entry] = None
        self._bucket_of.put(entry, end)

    def discard(self, entry: EntryKey) -> None:
        """Remove an entry, if it has a due time."""
        end = self._bucket_of.pop(entry)
        if end is not None:
            del self._buckets[end][entry]

    def discard_up_to(self, last: EntryKey, keep: Callable[[EntryKey], bool] | None = None) -> None:
        """Remove an entry and all that are lower, but for those to keep."""
        for entry, end in self._bucket_of.pop_up_to(last):
            if keep is not None and keep(entry):
                self._bucket_of.put(entry, end)
            else:
                del self._buckets[end][entry]

    def clear(self) -> None:
        """Remove all."""
        self._buckets.clear()
        self._ends.clear()
        self._bucket_of.clear()

    def next_due(self) -> float | None:
        """Return the due time of the first bucket that has entries."""
        while self._ends and not self._buckets[self._ends[0]]:
            del self._buckets[heapq.heappop(self._ends)]
        return self._ends[0] * self.width if self._ends else None

    def take_due(self, now: float) -> list[EntryKey]:
        """Take out the entries that are due, earliest first."""
        taken: list[EntryKey] = []
        while self._ends and self._ends[0] * self.width <= now:
            taken += self._buckets.pop(heapq.heappop(self._ends))
        for entry in taken:
            self._bucket_of.pop(entry)
        return taken


class Generation(NamedTuple):
    """Counters that date the messages of a consumer: connection, redelivery epoch and seek. Each only grows.

    A caller's thread may report "these were handed out" while the consumer's actor has just lost its connection, asked
    for redelivery, or sought. Each kind of report compares the counters that matter to it:

    - flow permits belong to one connection and one state of the queue: all counters must be equal;
    - an opened batch outlives a connection, but not what brings its messages again: a redelivery, a seek, and a new
      connection if the broker keeps the position of the subscription; `resent` is the last such connection;
    - an acknowledgement also outlives a redelivery, since the message was processed; only a seek makes it void, or a
      move to another cluster, which counts as one.
    """

    connection: int = 0
    epoch: int = 0
    seek: int = 0
    resent: int = 0

    def attached_to(self, connection: int, *, broker_resends: bool = False) -> "Generation":
        """Return the generation of a new connection, on which the broker may send unacknowledged messages again."""
        return self._replace(connection=connection, resent=connection if broker_resends else self.resent)

    def redelivered_to(self, epoch: int) -> "Generation":
        """Return the generation after a redelivery of everything unacknowledged."""
        return self._replace(epoch=epoch)

    def sought(self) -> "Generation":
        """Return the generation after a seek."""
        return self._replace(seek=self.seek + 1)

    def still_delivers(self, current: "Generation") -> bool:
        """Return whether messages opened in this generation may be handed out in the current one."""
        return self.epoch == current.epoch and self.seek == current.seek and self.resent == current.resent

    def still_acknowledges(self, current: "Generation") -> bool:
        """Return whether acknowledgements of messages of this generation count in the current one."""
        return self.seek == current.seek
