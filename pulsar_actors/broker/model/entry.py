"""One stored entry of a topic, and its position.

Clients know an entry by its position: the ledger id and the entry id. The broker mostly uses the offset, which counts
the topic's entries from 0 through all ledgers.
"""

import base64
import binascii
from typing import Final

from pulsar_actors.machines.trackers.message_routing import murmur3_32
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.entries import parse_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.protobuf import signed
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
    plain message. A hidden entry is never delivered: it was aborted, or it is a marker. `producer_name` is that of the
    metadata, `author` that of the producer.
    """

    __slots__ = (
        "_hash",
        "_key",
        "_sequence_id",
        "author",
        "broker_timestamp",
        "chunk_of",
        "data",
        "deliver_at",
        "entry_id",
        "highest_sequence_id",
        "index",
        "is_batch",
        "is_hidden",
        "is_last_chunk",
        "ledger_id",
        "messages",
        "offset",
        "producer_name",
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
        self.author = author
        self.producer_name = _producer_name(metadata, author)
        self._sequence_id = metadata.sequence_id
        self.highest_sequence_id = max(signed(metadata.highest_sequence_id), signed(metadata.sequence_id))
        self._hash = -1

    @property
    def position(self) -> Position:
        """The ledger id and the entry id."""
        return Position(self.ledger_id, self.entry_id)

    @property
    def key_hash(self) -> int:
        """The hash that Key_Shared uses, in 31 bits.

        It is the hash of the ordering key; without one, of the key; without either, of the producer's name and the
        sequence id in the metadata, so that messages without a key are distributed. It is computed on first use,
        because most topics have no such subscription.
        """
        if self._hash == -1:
            key = self._key if self._key is not None else f"{self.producer_name}-{self._sequence_id}".encode()
            self._hash = murmur3_32(key) & _31_BITS
        return self._hash


def _producer_name(metadata: MessageMetadata, author: str) -> str:
    name: str | bytes = metadata.producer_name  # bytes if it is not UTF-8
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return author if text == author else text  # so that all entries of a producer share one text


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


def metadata_of(entry: bytes, author: str, now_ms: int) -> MessageMetadata:
    """Read the metadata of a stored entry. One that is unreadable counts as one message that was published now.

    Its checksum is not verified: clients do that, and report it.
    """
    try:
        return parse_entry(entry).metadata
    except EntryError:
        return MessageMetadata(producer_name=author, publish_time=now_ms)
