"""The batch builder of a producer: it plans batches, and packs each into an entry, and each entry into a frame.

The producer's actor makes one for each set of messages that it takes from the send queue. A batch that turns out too
large for the broker is split. Messages that cannot be packed are refused, with the reason.

Packed messages keep their bytes until the broker has stored them or they have failed, since they may have to be written
again. Then they release the bytes at once, even if they still wait to be written on a stalled connection.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pulsar_actors.exceptions import InternalError, MessageTooBig, PulsarException
from pulsar_actors.machines.trackers.batching import (
    BatchLimits,
    PlannedBatch,
    plan_batches,
    plan_chunks,
    plan_key_batches,
    split_batch_plan,
)
from pulsar_actors.machines.trackers.pending_messages import PendingSend, entry_too_big
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import Buffer
from pulsar_actors.runtime.message_crypto import DataKey, ProducerKeys
from pulsar_actors.runtime.send_queue import (
    CompressedPayload,
    MessageHeader,
    OutgoingMessages,
    new_message_header,
)
from pulsar_actors.runtime.transport import OutgoingFrames
from pulsar_actors.wire.batch import encode_batch, encode_plain_batch
from pulsar_actors.wire.compression import NONE, compress
from pulsar_actors.wire.entries import decode_entry, encode_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.fast_encode import SendEncoder, encode_single_message, entry_fields
from pulsar_actors.wire.frames import FrameReader, encode_payload_command, entry_size
from pulsar_actors.wire.protobuf import as_bytes
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CompressionType, MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.transaction_id import TransactionId, set_transaction

FrameBuffers: TypeAlias = tuple[Buffer, ...]

CHUNK_OVERHEAD = 128
"""Bytes for a chunk's own metadata (three numbers, and an id besides its text), and for its frame."""

FIRST_CHUNKS = "/chunks"
"""The end of the producer's name in the metadata of the chunks before the last."""


class ProducerFields(NamedTuple):
    """The metadata that entries of a producer share, and the keys that encrypt them.

    `transaction` is that of all messages which are packed together: no batch has messages of two transactions.
    """

    producer_id: int
    producer_name: str
    codec: "CompressionType.ValueType"
    schema_version: bytes
    keys: ProducerKeys | DataKey | None = None
    transaction: TransactionId | None = None


class PackingLimits(NamedTuple):
    """The publish time, the deadline of the send, and the size of the largest entry that the broker takes.

    `chance` draws a random number in [0, 1), for the ids of chunked messages.
    """

    now_ms: int
    deadline: float | None
    largest: int
    chance: Callable[[], float]


class BatchBuilderSettings(NamedTuple):
    """The options of a producer that matter here.

    `send_timeout` is in seconds, None for none. `largest_chunk` is 0 for chunks as large as the broker takes.
    """

    codec: "CompressionType.ValueType"
    send_timeout: float | None
    by_key: bool
    in_chunks: bool
    largest_chunk: int = 0
    keys: ProducerKeys | None = None


class PackedMessages(ABC):
    """A batch, a message or its chunks, ready to write: the token of a pending send. `size` is that of all payloads.

    There may be thousands at once. Each object costs the garbage collector time, so each of them consists of few
    objects.
    """

    __slots__ = ("_replies", "batched", "frame_count", "size")
    _replies: Sequence[object]
    batched: bool
    frame_count: int
    size: int

    @abstractmethod
    def frames_from(self, first: int) -> OutgoingFrames:
        """Return the frames to write, starting with this one; none after `release`."""

    @abstractmethod
    def entry_sizes(self, first: int) -> list[int]:
        """Return the sizes of the entries in the frames from this one on, as they are written."""

    def largest_entry(self, first: int) -> int:
        """Return the largest of these sizes."""
        return max(self.entry_sizes(first))

    @abstractmethod
    def release(self) -> Sequence[object]:
        """Release the bytes and return the replies. Frames that still wait to be written keep neither of them alive."""

    def is_intact(self) -> bool:
        """Return whether the entries still match their checksums."""
        whole = b"".join(self.frames_from(0).buffers())
        try:
            for frame in FrameReader(sys.maxsize).feed(whole):
                decode_entry(frame.rest)
        except EntryError:
            return False
        return True


class PackedEntry(PackedMessages):
    """A batch or a message in one entry, and so in one frame. It is its own `OutgoingFrames`."""

    __slots__ = ("_frame",)
    _frame: FrameBuffers

    def __init__(self, replies: Sequence[object], frame: FrameBuffers, size: int, *, batched: bool) -> None:
        self._replies = replies
        self._frame = frame
        self.size = size
        self.batched = batched
        self.frame_count = 1

    def frames_from(self, first: int) -> OutgoingFrames:
        """Return itself: there is only one frame."""
        return self

    def buffers(self) -> Sequence[Buffer]:
        """Return the buffers of the frame; none after `release`."""
        return self._frame

    def entry_sizes(self, first: int) -> list[int]:
        """Return the size of the only entry."""
        return [entry_size(self._frame[0])]

    def release(self) -> Sequence[object]:
        """Release the frame, and return the replies."""
        replies, self._replies, self._frame = self._replies, (), ()
        return replies


class PackedChunks(PackedMessages):
    """A chunked message: several entries."""

    __slots__ = ("_frames",)

    def __init__(self, replies: Sequence[object], frames: list[FrameBuffers], size: int) -> None:
        self._replies = replies
        self._frames = frames
        self.size = size
        self.batched = False
        self.frame_count = len(frames)

    def frames_from(self, first: int) -> OutgoingFrames:
        """Return the chunks that have no receipt yet."""
        return RemainingChunks(self._frames, first)

    def entry_sizes(self, first: int) -> list[int]:
        """Return the sizes of the chunks that have no receipt yet."""
        return [entry_size(frame[0]) for frame in self._frames[first:]]

    def release(self) -> Sequence[object]:
        """Release the frames, of `RemainingChunks` too, and return the replies."""
        self._frames.clear()
        return self._replies


class RemainingChunks:
    """The chunks of a message, starting with one of them."""

    __slots__ = ("_first", "_frames")

    def __init__(self, frames: list[FrameBuffers], first: int) -> None:
        self._frames = frames
        self._first = first

    def buffers(self) -> Sequence[Buffer]:
        """Return the buffers of the frames; none after `release`."""
        return [buffer for frame in self._frames[self._first :] for buffer in frame]


class BatchBuilder:
    """Packs messages with these sequence ids into pending sends, `items`. Those that cannot be sent are `refused`.

    `sends` is the producer's own `send_encoder`, which outlives the builder.
    """

    __slots__ = ("_batch_settings", "_ids", "_messages", "_packing", "_producer", "_sends", "items", "refused")

    def __init__(  # noqa: PLR0913 - the messages, their producer, and the moment
        self,
        messages: OutgoingMessages,
        ids: Sequence[int],
        producer: ProducerFields,
        sends: SendEncoder,
        batch_settings: BatchBuilderSettings,
        packing: PackingLimits,
    ) -> None:
        sends.publish_at(packing.now_ms, packing.largest)
        self._messages = messages
        self._ids = ids
        self._producer = producer
        self._batch_settings = batch_settings
        self._packing = packing
        self._sends = sends
        self.items: list[PendingSend[PackedMessages]] = []
        self.refused: list[tuple[OutgoingMessages, PulsarException]] = []

    def pack(self, limits: BatchLimits | None) -> None:
        """Pack all messages. `limits` are the limits of a batch; None if messages are not batched."""
        self._refuse_to_drop_transactions()
        settings = self._batch_settings
        is_usual = settings.codec == NONE and not settings.in_chunks and settings.keys is None
        if limits is None and is_usual and self._producer.transaction is None:
            self._pack_usual_singles()
            return
        for batch in self._plan(limits):
            self._pack_or_split(batch)

    def _refuse_to_drop_transactions(self) -> None:
        """Raise if a message of a transaction would be sent in none: readers would see it at once, and for ever."""
        if self._producer.transaction is None and self._messages.has_headers:
            for tag in self._messages.tags:
                if type(tag) is MessageHeader and tag.transaction is not None:
                    raise InternalError(f"a message of {tag.transaction!r} was about to be sent in no transaction")

    def _pack_usual_singles(self) -> None:
        """Pack messages that are not batched, nor compressed, chunked or encrypted, in less time."""
        messages, deadline, largest = self._messages, self._packing.deadline, self._packing.largest
        single, add = self._sends.single, self.items.append
        fields: bytes | None
        for position, number in enumerate(self._ids):
            payload, tag = messages.payloads[position], messages.tags[position]
            reply, fields = tag, b""
            if type(tag) is MessageHeader:
                reply, fields = tag.reply, None if tag.unbatchable else entry_fields(tag.metadata)
            if fields is None:  # it has rare options
                self._pack_or_split(PlannedBatch(range(position, position + 1), number, None, batched=False))
                continue
            frame, entry_size = single(number, payload, fields)
            if frame:
                size = len(payload)
                add(PendingSend(PackedEntry((reply,), frame, size, batched=False), number, number, 1, size, deadline))
            else:
                one = messages.at(range(position, position + 1))
                self.refused.append((one, entry_too_big(entry_size, largest)))

    def _plan(self, limits: BatchLimits | None) -> Sequence[PlannedBatch]:
        messages, ids = self._messages, self._ids
        if limits is None:
            return [PlannedBatch((place,), one, None, batched=False) for place, one in enumerate(ids)]
        if self._batch_settings.by_key:
            keys = list(map(_batch_key, messages.tags))
            return plan_key_batches(ids, messages.sizes, keys, limits, messages.unbatchable)
        return plan_batches(ids, messages.sizes, limits, messages.unbatchable)

    def _pack_or_split(self, batch: PlannedBatch) -> None:
        """Pack a batch; split it if it is too large."""
        members = self._messages.at(batch.positions)
        try:
            packed = self._pack(batch, members)
        except PulsarException as error:
            parts = split_batch_plan(batch, self._ids) if isinstance(error, MessageTooBig) else ()
            if not parts:
                self.refused.append((members, error))
            for part in parts:
                self._pack_or_split(part)
            return
        last = batch.sequence_id if batch.highest_sequence_id is None else batch.highest_sequence_id
        count, frames = len(members), packed.frame_count
        item = PendingSend(packed, batch.sequence_id, last, count, packed.size, self._packing.deadline, frames)
        self.items.append(
            item if self._producer.transaction is None else item.in_transaction(self._producer.transaction)
        )

    def _pack(self, batch: PlannedBatch, members: OutgoingMessages) -> PackedMessages:
        sequence_id, producer, packing = batch.sequence_id, self._producer, self._packing
        is_usual = producer.keys is None and producer.transaction is None
        if batch.batched and batch.highest_sequence_id is not None and is_usual:
            return pack_usual_batch(members, (sequence_id, batch.highest_sequence_id), self._sends, producer, packing)
        if batch.batched:
            return pack_batch(members, (sequence_id, batch.highest_sequence_id), producer, packing)
        producer = _with_key_of(members.tags[0], producer)
        if not self._batch_settings.in_chunks:
            return pack_single(members, sequence_id, producer, packing)
        return pack_chunks(
            members, sequence_id, producer, packing, self._batch_settings.largest_chunk or packing.largest
        )


def send_encoder(producer: ProducerFields) -> SendEncoder:
    """Make the encoder of a producer's messages."""
    return SendEncoder(producer.producer_id, producer.producer_name, producer.schema_version)


def pack_usual_batch(
    messages: OutgoingMessages,
    ids: tuple[int, int],
    sends: SendEncoder,
    producer: ProducerFields,
    packing: PackingLimits,
) -> PackedMessages:
    """Pack messages into a batch like `pack_batch`, in less time. It has all sequence ids, and is not encrypted."""
    payload, compressed = _batch_payload(messages)
    squeezed: tuple[int, int] | None = None
    if producer.codec != NONE:
        compressed = compressed or CompressedPayload(compress(producer.codec, payload), len(payload))
        payload, squeezed = as_bytes(compressed.data), (producer.codec, compressed.uncompressed_size)
    frame, size = sends.batch(ids, len(messages), payload, squeezed)
    if not frame:
        raise entry_too_big(size, packing.largest)
    return PackedEntry(messages.replies, frame, messages.size, batched=True)


def _batch_payload(messages: OutgoingMessages) -> tuple[bytes, CompressedPayload | None]:
    """Return the payload of a batch, or what the caller's thread has compressed."""
    if not messages.has_headers:
        return encode_plain_batch(messages.payloads, messages.sizes), None
    first = messages.tags[0]
    if len(messages) == 1 and type(first) is MessageHeader and first.compressed is not None:
        return b"", first.compressed
    metadata = [(tag.metadata or None) if type(tag) is MessageHeader else None for tag in messages.tags]
    return encode_batch(zip(metadata, messages.payloads, strict=True)), None


def pack_batch(
    messages: OutgoingMessages, ids: tuple[int, int | None], producer: ProducerFields, packing: PackingLimits
) -> PackedMessages:
    """Pack messages into one entry, a batch. `ids` are its lowest and highest sequence id, or its last and None."""
    payload, compressed = _batch_payload(messages)
    sequence_id, highest = ids
    metadata = _entry_metadata(producer, sequence_id, packing)
    metadata.num_messages_in_batch = len(messages)
    command = CommandSend(producer_id=producer.producer_id, sequence_id=sequence_id, num_messages=len(messages))
    if highest is not None:
        metadata.highest_sequence_id = command.highest_sequence_id = highest
    first = messages.tags[0]
    if highest is None and type(first) is MessageHeader:
        _copy_keys(metadata, _parsed_header(first))  # a key-based batch: all its messages have this key
    frame = _encode_frame(command, metadata, _compress(metadata, payload, producer, compressed), producer, packing)
    return PackedEntry(messages.replies, frame, messages.size, batched=True)


def pack_single(
    message: OutgoingMessages, sequence_id: int, producer: ProducerFields, packing: PackingLimits
) -> PackedMessages:
    """Pack a message as an entry of its own."""
    ((payload,), (tag,)) = message.payloads, message.tags
    metadata = _single_metadata(tag, sequence_id, producer, packing)
    command = CommandSend(producer_id=producer.producer_id, sequence_id=sequence_id)
    compressed = _compress(metadata, payload, producer, _compressed_in(tag))
    frame = _encode_frame(command, metadata, compressed, producer, packing)
    return PackedEntry(message.replies, frame, len(payload), batched=False)


def pack_chunks(
    message: OutgoingMessages, sequence_id: int, producer: ProducerFields, packing: PackingLimits, largest_payload: int
) -> PackedMessages:
    """Pack a message into chunks, or into one entry if it fits."""
    ((payload,), (tag,)) = message.payloads, message.tags
    metadata = _single_metadata(tag, sequence_id, producer, packing)
    compressed = _compress(metadata, payload, producer, _compressed_in(tag))
    not_last = _metadata_of_first_chunks(metadata)
    uuid = _chunked_message_uuid(producer.producer_name, sequence_id, packing.chance)
    overhead = CHUNK_OVERHEAD + len(uuid.encode()) + (0 if producer.keys is None else producer.keys.overhead)
    room = min(packing.largest - len(not_last.SerializePartialToString()) - overhead, largest_payload)
    if room < 1:
        what = "keys and properties leave no room for content in the broker's limit"
        raise MessageTooBig(f"{what} of {packing.largest:,}")
    if len(compressed) <= room:
        return pack_single(message, sequence_id, producer, packing)
    frames: list[FrameBuffers] = []
    for chunk in plan_chunks(len(compressed), room, uuid):
        part = MessageMetadata()
        part.CopyFrom(metadata if chunk.stop == len(compressed) else not_last)
        part.uuid, part.chunk_id = chunk.uuid, chunk.chunk_id
        part.num_chunks_from_msg, part.total_chunk_msg_size = chunk.num_chunks_from_msg, chunk.total_chunk_msg_size
        command = CommandSend(producer_id=producer.producer_id, sequence_id=sequence_id, is_chunk=True)
        content = memoryview(compressed)[chunk.start : chunk.stop]
        frames.append(_encode_frame(command, part, content, producer, packing))
    return PackedChunks(message.replies, frames, len(payload))


def _metadata_of_first_chunks(metadata: MessageMetadata) -> MessageMetadata:
    """Return the metadata of the chunks before the last. The message has that of its last chunk, for every client.

    A broker with deduplication that loads a topic again counts each stored entry by the producer's name and the
    sequence id in its metadata, first chunks too. By the name of their producer they would count as the whole message,
    and the last chunk would be dropped. A lower sequence id would not do: the last entry of a name counts, and the
    first chunks of a message that is stored already may be stored again behind it.

    A Key_Shared subscription distributes messages without a key by that name and id, so the first chunks have both as
    their key.
    """
    first = MessageMetadata()
    first.CopyFrom(metadata)
    if not (metadata.HasField("partition_key") or metadata.HasField("ordering_key")):
        first.ordering_key = f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    first.producer_name += FIRST_CHUNKS
    return first


def _chunked_message_uuid(producer_name: str, sequence_id: int, chance: Callable[[], float]) -> str:
    """Make the id that the chunks of one message share, and no others.

    Without deduplication, a producer that is created again with the same name has the same sequence ids again.
    """
    return f"{producer_name}-{sequence_id}-{int(chance() * 2**53):014x}"


def _entry_metadata(producer: ProducerFields, sequence_id: int, packing: PackingLimits) -> MessageMetadata:
    metadata = MessageMetadata(
        producer_name=producer.producer_name, sequence_id=sequence_id, publish_time=packing.now_ms
    )
    if producer.schema_version:
        metadata.schema_version = producer.schema_version
    if producer.transaction is not None:
        set_transaction(metadata, producer.transaction)
    return metadata


def _single_metadata(
    tag: object, sequence_id: int, producer: ProducerFields, packing: PackingLimits
) -> MessageMetadata:
    metadata = _entry_metadata(producer, sequence_id, packing)
    if type(tag) is MessageHeader:
        if tag.metadata:  # empty in the header of a message that was only compressed
            _copy_to_entry(metadata, _parsed_header(tag))
        if tag.unbatchable is not None:
            if tag.unbatchable.deliver_at_ms is not None:
                metadata.deliver_at_time = tag.unbatchable.deliver_at_ms
            metadata.replicate_to.extend(tag.unbatchable.replicate_to)
    return metadata


def _with_key_of(tag: object, producer: ProducerFields) -> ProducerFields:
    """Use the data key that a message brings along: a letter is encrypted as its original was."""
    if type(tag) is not MessageHeader or tag.unbatchable is None or not isinstance(tag.unbatchable.data_key, DataKey):
        return producer
    return producer._replace(keys=tag.unbatchable.data_key)


def _parsed_header(header: MessageHeader) -> SingleMessageMetadata:
    return SingleMessageMetadata.FromString(header.metadata)


def _copy_to_entry(metadata: MessageMetadata, single: SingleMessageMetadata) -> None:
    """Copy the metadata of an entry's only message to the entry."""
    metadata.properties.extend(single.properties)
    _copy_keys(metadata, single)
    if single.HasField("event_time"):
        metadata.event_time = single.event_time
    if single.null_value:
        metadata.null_value = True


def _copy_keys(metadata: MessageMetadata, single: SingleMessageMetadata) -> None:
    if single.HasField("partition_key"):
        metadata.partition_key = single.partition_key
    if single.partition_key_b64_encoded:  # also of an empty key
        metadata.partition_key_b64_encoded = True
    if single.null_partition_key:
        metadata.null_partition_key = True
    if single.HasField("ordering_key"):
        metadata.ordering_key = single.ordering_key


def compress_message(
    payload: bytes, tag: object, codec: "CompressionType.ValueType", *, as_batch_of_one: bool
) -> MessageHeader:
    """Compress a message that has an entry of its own, and return its tag.

    Callers' threads do this (`client/enqueuer.py`), so that large payloads do not hold up an I/O thread, which serves
    many producers. Batches are compressed on the I/O thread.
    """
    if type(tag) is MessageHeader:
        uncompressed = encode_batch([(tag.metadata or None, payload)]) if as_batch_of_one else payload
        return tag._replace(compressed=CompressedPayload(compress(codec, uncompressed), len(uncompressed)))
    metadata = encode_single_message(len(payload), None) if as_batch_of_one else b""
    uncompressed = encode_batch([(metadata, payload)]) if as_batch_of_one else payload
    compressed = CompressedPayload(compress(codec, uncompressed), len(uncompressed))
    return new_message_header((metadata, None, None, None, None, tag, compressed, None))


def _compressed_in(tag: object) -> CompressedPayload | None:
    return tag.compressed if type(tag) is MessageHeader else None


def _compress(
    metadata: MessageMetadata, payload: bytes, producer: ProducerFields, compressed: CompressedPayload | None
) -> Buffer:
    if producer.codec == NONE:
        return payload
    metadata.compression = producer.codec
    if compressed is not None:
        metadata.uncompressed_size = compressed.uncompressed_size
        return compressed.data
    metadata.uncompressed_size = len(payload)
    return compress(producer.codec, payload)


def _encode_frame(
    command: CommandSend, metadata: MessageMetadata, payload: Buffer, producer: ProducerFields, packing: PackingLimits
) -> FrameBuffers:
    """Encrypt the payload of an entry, and frame it. A frame that is sent again is not encrypted again.

    The transaction is in the command and in the metadata: a broker appends by the first, and hides by the second.
    """
    if producer.transaction is not None:
        set_transaction(command, producer.transaction)
    if producer.keys is not None:
        payload = producer.keys.encrypt(metadata, payload)
    entry = encode_entry(metadata, payload if isinstance(payload, bytes) else memoryview(payload))
    size = len(entry[0]) + len(entry[1])
    if size > packing.largest:
        raise entry_too_big(size, packing.largest)
    return tuple(encode_payload_command(command, *entry))


def _batch_key(tag: object) -> object:
    """Return the key that the messages of a key-based batch share: the ordering key, or else the partition key."""
    return (tag.ordering_key or tag.partition_key or None) if type(tag) is MessageHeader else None
