"""The entries of one topic, in the order of writing: a row of ledgers, each a row of entries.

Clients know an entry by its position, the ledger and the place in it. Here it is mostly known by its offset, which
counts the topic's entries from 0 through all ledgers: what is next, what lies between and how many there are is then
plain arithmetic. Positions are turned into offsets and back at the edge, by a search among the ledgers, of which there
is one more each time that the topic is unloaded.

The oldest entries are dropped when nobody needs them and they take too much memory. Offsets do not move when that
happens: `base` is the offset of the oldest one that is left.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.position import EARLIEST, Position


class Log:
    """The entries of a topic. `end` is the offset that the next one gets.

    `messages` counts all that ever came, `size` the bytes of those that are left, `unneeded` of those that may go.
    """

    __slots__ = (
        "_entries",
        "_firsts",
        "_floor",
        "_ledgers",
        "_next_ledger",
        "base",
        "end",
        "messages",
        "size",
        "unneeded",
    )

    def __init__(self, next_ledger: Callable[[], int]) -> None:
        self._next_ledger = next_ledger
        self._entries: list[StoredEntry] = []
        self._ledgers = [next_ledger()]  # their ids, rising
        self._firsts = [0]  # the offset that each begins with
        self._floor = 0  # what lies before it has been counted as not needed
        self.base = 0
        self.end = 0
        self.messages = 0
        self.size = 0
        self.unneeded = 0

    @property
    def ledgers(self) -> list[tuple[int, int]]:
        """The id of each ledger, and how many entries it got."""
        ends = [*self._firsts[1:], self.end]
        return [(ledger, end - first) for ledger, first, end in zip(self._ledgers, self._firsts, ends, strict=True)]

    @property
    def last_position(self) -> Position:
        """The position of the last entry; if there is none, the one before the first."""
        return self.position(self.end - 1)

    def append(self, entry: StoredEntry) -> None:
        """Store an entry, and tell it where."""
        offset = entry.offset = self.end
        self.end += 1
        entry.ledger_id = self._ledgers[-1]
        entry.entry_id = offset - self._firsts[-1]
        self.messages += entry.messages
        entry.index = self.messages - 1
        self.size += len(entry.data)
        self._entries.append(entry)

    def roll(self) -> None:
        """Go on in a new ledger. One that has no entries is forgotten."""
        if self._firsts[-1] == self.end:
            self._ledgers.pop()
            self._firsts.pop()
        self._ledgers.append(self._next_ledger())
        self._firsts.append(self.end)

    def entry(self, offset: int) -> StoredEntry:
        """Give an entry that is there."""
        return self._entries[offset - self.base]

    def position(self, offset: int) -> Position:
        """Give the position of an offset; of -1, the position before the first entry."""
        at = max(0, bisect_right(self._firsts, offset) - 1)
        return Position(self._ledgers[at], offset - self._firsts[at])

    def find(self, position: Position) -> int | None:
        """Give the offset of an entry that is there, or None."""
        offset = self.first_from(position)
        return offset if offset < self.end and self.entry(offset).position == position else None

    def first_from(self, position: Position) -> int:
        """Give the offset of the first entry at that position or after it; `end` if there is none."""
        at = bisect_left(self._ledgers, position.ledger_id)
        if at == len(self._ledgers):
            return self.end
        offset = self._firsts[at]
        if self._ledgers[at] == position.ledger_id:
            behind = self._firsts[at + 1] if at + 1 < len(self._firsts) else self.end
            offset = min(offset + max(0, position.entry_id), behind)
        return max(offset, self.base)

    def first_since(self, publish_time_ms: int) -> int:
        """Give the offset of the first entry that was published then or later, or `end`."""
        return self.base + bisect_left(self._entries, publish_time_ms, key=attrgetter("publish_time"))

    def size_from(self, offset: int, entries: int | None = None) -> int:
        """Add up the bytes from an offset on, or of so many entries from there on."""
        until = self.end if entries is None else offset + entries
        return sum(len(entry.data) for entry in self._entries[max(0, offset - self.base) : max(0, until - self.base)])

    def trim(self, needed_from: int, kept_bytes: int) -> None:
        """Drop the oldest of what lies before an offset, as far as it is more than so many bytes."""
        for offset in range(self._floor, needed_from):
            self.unneeded += len(self.entry(offset).data)
        for offset in range(max(needed_from, self.base), self._floor):
            self.unneeded -= len(self.entry(offset).data)
        self._floor = max(needed_from, self.base)
        count = 0
        while self.unneeded > kept_bytes:
            size = len(self._entries[count].data)
            self.unneeded -= size
            self.size -= size
            count += 1
        del self._entries[:count]
        self.base += count

    @property
    def last_message(self) -> tuple[Position, int]:
        """Where the last entry is, and the index of its last message, -1 if it is no batch; EARLIEST for none."""
        if not self._entries:
            return EARLIEST, -1
        entry = self._entries[-1]
        return entry.position, entry.messages - 1 if entry.is_batch else -1
