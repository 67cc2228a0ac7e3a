"""An entry as the broker keeps it: the producer's bytes, unchanged, and the few facts that dispatch depends on.

The facts are read once, when the entry comes; where it is stored is filled in by the log. What decides between the
consumers of a Key_Shared subscription is the ordering key, else the key, else the producer's name and the sequence id,
so that messages without any key are spread. It is hashed when first asked for: most topics have no such subscription.
"""

import base64
import binascii

from pulsar_actors.broker.model.position import Position
from pulsar_actors.machines.ledgers.hashing import murmur3_32
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata

_31_BITS = 0x7FFFFFFF


class StoredEntry:
    """One entry of a topic.

    `data` is what the producer wrote, from the checksum on; `messages` is how many messages the metadata says it
    holds. `offset` counts the topic's entries from 0, whatever ledger they are in, and `index` its messages: it is that
    of the entry's last one. `deliver_at` is 0 for at once. `is_batch` tells a batch of one from a plain message.
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
        """Its ledger and its place in it."""
        return Position(self.ledger_id, self.entry_id)

    @property
    def key_hash(self) -> int:
        """What Key_Shared goes by, in 31 bits."""
        if self._hash == -1:
            key = self._key if self._key is not None else f"{self._author}-{self._sequence_id}".encode()
            self._hash = murmur3_32(key) & _31_BITS
        return self._hash


def _key(metadata: MessageMetadata) -> bytes | None:
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return None
    key: str | bytes = metadata.partition_key  # bytes, where it is not UTF-8
    raw = key if isinstance(key, bytes) else key.encode()
    if metadata.partition_key_b64_encoded:
        try:
            return base64.b64decode(raw, validate=True)
        except binascii.Error:
            return raw
    return raw
