"""An opened entry: verified, decompressed and split into its messages.

The caller's thread opens an entry, except for the messages of `receive_async` and for dead letters: the loop opens
these.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final, Protocol

from pulsar_actors.compiling import mypyc_attr
from pulsar_actors.machines.incoming_entries import UNDECRYPTABLE, DeliveredEntry
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.schema_versions import SchemaVersions
from pulsar_actors.wire.batch import LazyMetadata, is_batch, metadata_of, split_columns
from pulsar_actors.wire.compression import NONE, ZSTD, decompress
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.protobuf import BytesLike, as_bytes
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata

MAX_COMPRESSION_RATIO: Final = 1032
"""The highest ratio that ZLIB can reach; LZ4 and SNAPPY reach less."""

MAX_ZSTD_COMPRESSION_RATIO: Final = 32 * 1024
"""ZSTD has blocks of four bytes for 128 KiB."""

MAX_UNCOMPRESSED_SIZE: Final = 2**30
"""In bytes.

An entry that declares more is refused, and so is one that declares more than its codec's highest ratio allows.
"""

_BATCH_INDEXES: Final = tuple(range(1000))
_NO_METADATA: Final = (None,)
_ONLY_INDEX: Final = (0,)


class DecodeMessage(Protocol):
    """Decodes the value of a message by the schema of its consumer."""

    def __call__(self, message: Any, /) -> object:  # noqa: ANN401 - what MakeMessages makes
        """Decode the value of a message."""
        ...


MakeMessages = Callable[[Sequence[LazyMetadata | None], Sequence[bytes], "OpenedEntry", Sequence[int]], list[Any]]
"""Makes the messages of one entry from their metadata (None if the entry is no batch), payloads and batch indexes."""


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)
class OpenedEntry:
    """The data that the messages of one entry share.

    `size` is the number of messages in the batch; 0 if it is no batch. `data_key` is as in
    `DeliveredEntry`.

    `decode` decodes the value of a message, and `schemas` looks the schemas up that it was written with.

    `acknowledged` has the batch indexes that callers have acknowledged and the consumer's actor has not seen yet, and
    `is_queued` is True while the entry is in the queue of acknowledgements (`ack_queue.py`).
    """

    __slots__ = (
        "acknowledged", "broker_metadata", "data_key", "decode", "generation", "is_queued", "message_id", "metadata",
        "redelivery_count", "schemas", "size", "topic",
    )  # fmt: skip

    def __init__(
        self,
        delivery: DeliveredEntry,
        generation: Generation,
        topic: str,
        decode: DecodeMessage,
        schemas: SchemaVersions | None = None,
    ) -> None:
        entry = delivery.entry
        self.message_id: MessageId = delivery.message_id
        self.metadata: MessageMetadata = entry.metadata
        self.broker_metadata = entry.broker_metadata
        self.redelivery_count = delivery.redelivery_count
        self.data_key = data_key = delivery.data_key
        is_split = data_key is not UNDECRYPTABLE and is_batch(entry.metadata)
        self.size = entry.metadata.num_messages_in_batch if is_split else 0
        self.generation = generation
        self.topic = topic
        self.decode: DecodeMessage = decode
        self.schemas = schemas
        self.acknowledged: list[int] = []
        self.is_queued = False

    @property
    def is_undecryptable(self) -> bool:
        """True if the entry is delivered as it was stored, encrypted."""
        return self.data_key is UNDECRYPTABLE

    def id_of(self, index: int) -> MessageId:
        """Return the id of one of the messages."""
        return self.message_id.in_batch(index, self.size) if self.size else self.message_id


class EntryContents(NamedTuple):
    """The messages of an entry to hand out, as arguments of `MakeMessages`.

    Of a whole entry, `skipped` counts the other messages, and `octets` is the size of the payloads.
    """

    stored: Sequence[LazyMetadata | None]
    payloads: Sequence[bytes]
    entry: OpenedEntry
    indexes: Sequence[int]
    skipped: int = 0
    octets: int = 0


def open_entry(delivery: DeliveredEntry, opened: OpenedEntry, limit: int, *, compacted: bool) -> EntryContents:
    """Verify, decompress and split an entry, and return its messages. Raise an EntryError if it is corrupt.

    An undecryptable entry is one message, as it was stored.
    """
    if delivery.data_key is UNDECRYPTABLE:
        delivery.entry.verify()
        stored = delivery.payload
        return EntryContents(_NO_METADATA, [stored], opened, _ONLY_INDEX, delivery.messages - 1, len(stored))
    payload, begin = _uncompressed_payload(delivery, limit)
    if not opened.size:
        whole = as_bytes(payload)[begin:]
        return EntryContents(_NO_METADATA, [whole], opened, _ONLY_INDEX, 0, len(whole))
    metadata, payloads, octets = split_columns(payload, opened.size, begin)
    indexes: Sequence[int] = batch_indexes(0, opened.size)
    wanted = delivery.wanted
    if wanted.bit_count() != opened.size or compacted:
        indexes = [index for index in indexes if wanted >> index & 1]
        if compacted:
            indexes = [index for index in indexes if not metadata_of(metadata[index]).compacted_out]
        metadata, payloads = [metadata[index] for index in indexes], [payloads[index] for index in indexes]
        octets = sum(map(len, payloads))
    return EntryContents(metadata, payloads, opened, indexes, delivery.messages - len(indexes), octets)


def open_decrypted(encrypted: OpenedEntry, payload: bytes, data_key: object, limit: int) -> EntryContents:
    """Decompress and split an entry that was delivered encrypted, and was decrypted after that."""
    opened = copy(encrypted)
    opened.data_key = data_key
    opened.size = opened.metadata.num_messages_in_batch if is_batch(opened.metadata) else 0
    opened.acknowledged, opened.is_queued = [], False
    plain = decompressed(opened.metadata, payload, limit)
    if not opened.size:
        whole = as_bytes(plain)
        return EntryContents(_NO_METADATA, [whole], opened, _ONLY_INDEX, 0, len(whole))
    metadata, payloads, octets = split_columns(plain, opened.size)
    return EntryContents(metadata, payloads, opened, batch_indexes(0, opened.size), 0, octets)


def batch_indexes(start: int, stop: int) -> tuple[int, ...]:
    """Return batch indexes. For most batches no new integers are created."""
    return _BATCH_INDEXES[start:stop] if stop <= len(_BATCH_INDEXES) else tuple(range(start, stop))


def _uncompressed_payload(delivery: DeliveredEntry, limit: int) -> tuple[BytesLike, int]:
    """Return bytes that end with the payload, and where it begins: so it is copied only once, by those who split it."""
    entry, payload, begin = delivery.entry, delivery.other_payload, 0
    if payload is None:  # others were verified when they were put together of chunks, or before they were decrypted
        entry.verify()
        payload, begin = entry.stored, entry.payload_start
    if entry.metadata.compression == NONE:
        return payload, begin
    return decompressed(entry.metadata, memoryview(payload)[begin:], limit), 0


def decompressed(metadata: MessageMetadata, payload: BytesLike, limit: int) -> BytesLike:
    """Decompress the payload of an entry."""
    codec = metadata.compression
    if codec == NONE:
        return payload
    most = MAX_ZSTD_COMPRESSION_RATIO if codec == ZSTD else MAX_COMPRESSION_RATIO
    limit = max(limit, min(MAX_UNCOMPRESSED_SIZE, most * len(payload)))  # brokers limit compressed bytes
    return decompress(codec, payload, metadata.uncompressed_size, limit)
