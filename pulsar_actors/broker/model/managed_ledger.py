"""The entries of one topic, in the order of writing, in one or more ledgers.

Clients know an entry by its position: the ledger id and the entry id. The broker mostly uses the offset, which counts
the topic's entries from 0 through all ledgers; the next entry, the entries between two and their number are then plain
arithmetic. Positions are converted to offsets and back by a search in the list of ledgers. Each time the topic is
unloaded, a new ledger is created.

The oldest entries are dropped when no subscription needs them and they take too much memory. Offsets do not change:
`base` is the offset of the oldest entry that is left.
"""

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from pulsar_actors.machines.trackers.message_routing import murmur3_32
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


class Position(NamedTuple):
    """A ledger id and an entry id. Positions sort in the order of writing."""

    ledger_id: int
    entry_id: int


EARLIEST_POSITION: Final = Position(-1, -1)
"""The position before every entry. In a receipt: the entry was not stored, because the topic has it already."""
LATEST_POSITION: Final = Position(2**63 - 1, 2**63 - 1)
"""The position after every entry."""


_31_BITS = 0x7FFFFFFF


class StoredEntry:
    """One entry of a topic: the bytes of the producer, unchanged, and the facts that dispatch depends on.

    `data` is from the checksum on. `messages` is the number of messages by the metadata. `offset` counts the topic's
    entries from 0 through all ledgers. `index` counts its messages, up to the last one of this entry.
    `ManagedLedger.append` sets both. `deliver_at` is 0 for at once. `is_batch` distinguishes a batch of one from a
    plain message. A hidden entry is never delivered: it was aborted, or it is a marker.
    """

    __slots__ = (
        "_author",
        "_hash",
        "_key",
        "_sequence_id",
        "broker_timestamp",
        "chunk_of",
        "data",
        "deliver_at",
        "entry_id",
        "index",
        "is_batch",
        "is_hidden",
        "is_last_chunk",
        "ledger_id",
        "messages",
        "offset",
        "publish_time",
    )

    def __init__(self, data: bytes, metadata: MessageMetadata, author: str, now_ms: int) -> None:
        self.data = data
        self.ledger_id = 0
        self.entry_id = 0
        self.offset = -1
        self.index = -1
        self.is_hidden = False
        self.broker_timestamp = now_ms
        self.publish_time = metadata.publish_time
        self.deliver_at = metadata.deliver_at_time
        self.is_batch = metadata.HasField("num_messages_in_batch")
        self.messages = max(1, metadata.num_messages_in_batch)
        self.chunk_of = metadata.uuid or None
        self.is_last_chunk = self.chunk_of is None or metadata.chunk_id == metadata.num_chunks_from_msg - 1
        self._key = _key(metadata)
        self._author = author
        self._sequence_id = metadata.sequence_id
        self._hash = -1

    @property
    def position(self) -> Position:
        """The ledger id and the entry id."""
        return Position(self.ledger_id, self.entry_id)

    @property
    def key_hash(self) -> int:
        """The hash that Key_Shared uses, in 31 bits.

        It is the hash of the ordering key; without one, of the key; without either, of the producer's name and the
        sequence id, so that messages without a key are distributed. It is computed on first use, because most topics
        have no such subscription.
        """
        if self._hash == -1:
            key = self._key if self._key is not None else f"{self._author}-{self._sequence_id}".encode()
            self._hash = murmur3_32(key) & _31_BITS
        return self._hash


def _key(metadata: MessageMetadata) -> bytes | None:
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return None
    key: str | bytes = metadata.partition_key  # bytes if the key is not UTF-8
    raw = key if isinstance(key, bytes) else key.encode()
    if metadata.partition_key_b64_encoded:
        try:
            return base64.b64decode(raw, validate=True)
        except binascii.Error:
            return raw
    return raw


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
        "base",
        "end",
        "is_held",
        "messages",
        "readable_end",
        "size",
        "unneeded_bytes",
    )

    def __init__(self, next_ledger: Callable[[], int]) -> None:
        self._next_ledger = next_ledger
        self._entries: list[StoredEntry] = []
        self._ledgers = [next_ledger()]  # their ids, in ascending order
        self._first_offsets = [0]  # the first offset of each ledger
        self._counted_up_to = 0  # entries before this offset are counted as not needed
        self.base = 0
        self.end = 0
        self.readable_end = 0
        self.is_held = False
        self.messages = 0
        self.size = 0
        self.unneeded_bytes = 0

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
        offset = entry.offset = self.end
        self.end += 1
        if not self.is_held:
            self.readable_end = self.end
        entry.ledger_id = self._ledgers[-1]
        entry.entry_id = offset - self._first_offsets[-1]
        self.messages += entry.messages
        entry.index = self.messages - 1
        self.size += len(entry.data)
        self._entries.append(entry)

    def roll(self) -> None:
        """Begin a new ledger. If the last one is empty, it is dropped."""
        if self._first_offsets[-1] == self.end:
            self._ledgers.pop()
            self._first_offsets.pop()
        self._ledgers.append(self._next_ledger())
        self._first_offsets.append(self.end)

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
        del self._entries[:count]
        self.base += count

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
