"""The entries of one topic, in the order of writing, in one or more ledgers.

Clients know an entry by its position: the ledger id and the entry id. The broker mostly uses the offset, which counts
the topic's entries from 0 through all ledgers; the next entry, the entries between two and their number are then plain
arithmetic. Positions are converted to offsets and back by a search in the list of ledgers. Each time the topic is
unloaded, a new ledger is created.

The oldest entries are dropped when no subscription needs them and they take too much memory. Offsets do not change:
`base` is the offset of the oldest entry that is left.

A broker that restarts reads the stored entries, and begins a new ledger, as after an unload.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter

from pulsar_actors.broker.model.entry import EARLIEST_POSITION, Position, StoredEntry
from pulsar_actors.broker.model.storage import IN_MEMORY, State, TopicStorage


class ManagedLedger:
    """The entries of a topic. `end` is the offset of the next entry.

    Entries from `readable_end` on may not be read: a transaction holds them. It is `end`, unless `is_held` is set.

    `messages` counts all messages ever stored, `size` the bytes of the entries that are left, and `unneeded_bytes` the
    bytes of those that no subscription needs.
    """

    __slots__ = (
        "_counted_up_to",
        "_entries",
        "_first_offsets",
        "_ledgers",
        "_next_ledger",
        "_record",
        "_storage",
        "base",
        "end",
        "is_held",
        "messages",
        "readable_end",
        "size",
        "unneeded_bytes",
    )

    def __init__(self, next_ledger: Callable[[], int], storage: TopicStorage = IN_MEMORY) -> None:
        self._next_ledger = next_ledger
        self._storage = storage
        self._record = storage.record("managed ledger", "", self._state)
        self._entries: list[StoredEntry] = []
        self._ledgers: list[int] = []  # their ids, in ascending order
        self._first_offsets: list[int] = []  # the first offset of each ledger
        self._counted_up_to = 0  # entries before this offset are counted as not needed
        self.base = 0
        self.end = 0
        self.readable_end = 0
        self.is_held = False
        self.messages = 0
        self.size = 0
        self.unneeded_bytes = 0
        if (stored := self._record.stored) is not None:
            self._restore(stored)
        self.roll()

    @property
    def ledgers(self) -> list[tuple[int, int]]:
        """The id of each ledger, and its number of entries."""
        ends = [*self._first_offsets[1:], self.end]
        return [
            (ledger, end - first) for ledger, first, end in zip(self._ledgers, self._first_offsets, ends, strict=True)
        ]

    @property
    def last_position(self) -> Position:
        """The position of the last entry; if there is none, the one before the first."""
        return self.position(self.end - 1)

    def append(self, entry: StoredEntry) -> None:
        """Store an entry, and set its ledger id, entry id, offset and index."""
        self._add(entry, -1)
        if not self.is_held:
            self.readable_end = self.end
        self._storage.put(entry)

    def hide(self, entry: StoredEntry) -> None:
        """Never deliver an entry."""
        entry.is_hidden = True
        self._storage.put(entry)

    def roll(self) -> None:
        """Begin a new ledger. If the last one is empty, it is dropped."""
        if self._first_offsets and self._first_offsets[-1] == self.end:
            self._ledgers.pop()
            self._first_offsets.pop()
        self._ledgers.append(self._next_ledger())
        self._first_offsets.append(self.end)
        self._record.changed()

    def entry(self, offset: int) -> StoredEntry:
        """Return the entry of an offset from `base` to `end` - 1."""
        return self._entries[offset - self.base]

    def position(self, offset: int) -> Position:
        """Return the position of an offset; of -1, the position before the first entry."""
        at = max(0, bisect_right(self._first_offsets, offset) - 1)
        return Position(self._ledgers[at], offset - self._first_offsets[at])

    def find(self, position: Position) -> int | None:
        """Return the offset of an entry, or None if it is not here."""
        offset = self.first_from(position)
        return offset if offset < self.end and self.entry(offset).position == position else None

    def first_from(self, position: Position) -> int:
        """Return the offset of the first entry at that position or after it; `end` if there is none."""
        at = bisect_left(self._ledgers, position.ledger_id)
        if at == len(self._ledgers):
            return self.end
        offset = self._first_offsets[at]
        if self._ledgers[at] == position.ledger_id:
            behind = self._first_offsets[at + 1] if at + 1 < len(self._first_offsets) else self.end
            offset = min(offset + max(0, position.entry_id), behind)
        return max(offset, self.base)

    def first_since(self, publish_time_ms: int) -> int:
        """Return the offset of the first entry that was published then or later, or `end`."""
        return self.base + bisect_left(self._entries, publish_time_ms, key=attrgetter("publish_time"))

    def size_from(self, offset: int, entries: int | None = None) -> int:
        """Add up the bytes from an offset on, of all entries or of so many."""
        until = self.end if entries is None else offset + entries
        return sum(len(entry.data) for entry in self._entries[max(0, offset - self.base) : max(0, until - self.base)])

    def trim(self, needed_from: int, kept_bytes: int) -> None:
        """Drop the oldest entries before an offset until no more than so many bytes of these are left."""
        for offset in range(self._counted_up_to, needed_from):
            self.unneeded_bytes += len(self.entry(offset).data)
        for offset in range(max(needed_from, self.base), self._counted_up_to):
            self.unneeded_bytes -= len(self.entry(offset).data)
        self._counted_up_to = max(needed_from, self.base)
        count = 0
        while self.unneeded_bytes > kept_bytes:
            size = len(self._entries[count].data)
            self.unneeded_bytes -= size
            self.size -= size
            count += 1
        if count:
            del self._entries[:count]
            self.base += count
            self._storage.trim(self.base)
            self._record.changed()

    @property
    def last_message(self) -> tuple[Position, int]:
        """The position of the last entry that may be delivered, and the index of its last message; or EARLIEST.

        The index is -1 if the entry is no batch.
        """
        for offset in range(self.readable_end - 1, self.base - 1, -1):
            entry = self.entry(offset)
            if not entry.is_hidden:
                return entry.position, entry.messages - 1 if entry.is_batch else -1
        return EARLIEST_POSITION, -1

    def _add(self, entry: StoredEntry, ledger: int) -> None:
        """Add an entry to a ledger, by its index."""
        offset = entry.offset = self.end
        self.end += 1
        entry.ledger_id = self._ledgers[ledger]
        entry.entry_id = offset - self._first_offsets[ledger]
        self.messages += entry.messages
        entry.index = self.messages - 1
        self.size += len(entry.data)
        self._entries.append(entry)

    def _state(self) -> State:
        """Return the ledgers, and how many entries and messages were dropped."""
        dropped = self._entries[0].index + 1 - self._entries[0].messages if self._entries else self.messages
        ledgers = list(zip(self._ledgers, self._first_offsets, strict=True))
        return {"ledgers": ledgers, "base": self.base, "dropped_messages": dropped}

    def _restore(self, stored: State) -> None:
        self._ledgers = [ledger for ledger, _ in stored["ledgers"]]
        self._first_offsets = [first for _, first in stored["ledgers"]]
        self.base = self.end = self._counted_up_to = stored["base"]
        self.messages = stored["dropped_messages"]
        for entry in self._storage.entries(self.base):
            self._add(entry, bisect_right(self._first_offsets, self.end) - 1)
        self.readable_end = self.end
