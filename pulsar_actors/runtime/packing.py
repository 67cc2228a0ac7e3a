"""Messages into entries, and entries into frames: what a producer's actor does once for each batch.

What is packed keeps its bytes until it is stored or has failed, for it may have to be written again; then it lets go of
them at once, even if it still waits to be written on a connection that stands still.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from pulsar_actors.exceptions import MessageTooBig
from pulsar_actors.machines.ledgers.chunk_plan import plan_chunks
from pulsar_actors.runtime.loop import Buffer
from pulsar_actors.runtime.outgoing import Outgoing, Said
from pulsar_actors.runtime.write_queue import Parcel
from pulsar_actors.wire.batch import encode_batch, encode_plain_batch
from pulsar_actors.wire.compression import NONE, compress
from pulsar_actors.wire.entries import decode_entry, encode_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.frames import FrameReader, encode_payload_command
from pulsar_actors.wire.plain_sends import PlainSends
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CompressionType, MessageMetadata, SingleMessageMetadata

Frame: TypeAlias = tuple[Buffer, ...]

CHUNK_OVERHEAD = 128
"""Room for what a chunk's metadata says besides the message's: three numbers, and how it is framed."""


class Sender(NamedTuple):
    """What all entries of a producer have in common."""

    producer_id: int
    producer_name: str
    codec: "CompressionType.ValueType"
    schema_version: bytes


class Moment(NamedTuple):
    """When it is packed: by the wall clock, and when it is late; and the largest entry that the broker takes."""

    now_ms: int
    deadline: float | None
    largest: int


class Packed(ABC):
    """Some messages, ready to be written: the token of a pending send. `size` is that of all payloads.

    There may be thousands at once, and every object of theirs that the garbage collector has to look at makes all sends
    slower: so there are as few as can be.
    """

    __slots__ = ("_replies", "batched", "frame_count", "size")
    _replies: Sequence[object]
    batched: bool
    frame_count: int
    size: int

    @abstractmethod
    def parcel(self, first: int) -> Parcel:
        """Give what is to be written of it, from one of its frames on; nothing is, once it is released."""

    @abstractmethod
    def release(self) -> Sequence[object]:
        """Let go of the bytes, and give the replies: a parcel may wait for long, and neither is to wait with it."""

    def is_intact(self) -> bool:
        """Tell whether the entries still agree with their checksums."""
        whole = b"".join(self.parcel(0).buffers())
        try:
            for frame in FrameReader(sys.maxsize).feed(whole):
                decode_entry(frame.rest)
        except EntryError:
            return False
        return True


class PackedEntry(Packed):
    """A batch or a message in one entry, and so in one frame: it is its own parcel."""

    __slots__ = ("_frame",)

    def __init__(self, replies: Sequence[object], frame: Frame, size: int, *, batched: bool) -> None:
        self._replies = replies
        self._frame = frame
        self.size = size
        self.batched = batched
        self.frame_count = 1

    def parcel(self, first: int) -> Parcel:
        """Give itself, as there is no frame but the first."""
        return self

    def buffers(self) -> Sequence[Buffer]:
        """Give the frame, unless it is needed no longer."""
        return self._frame

    def release(self) -> Sequence[object]:
        """Forget both."""
        replies, self._replies, self._frame = self._replies, (), ()
        return replies


class PackedChunks(Packed):
    """A message in several entries."""

    __slots__ = ("_frames",)

    def __init__(self, replies: Sequence[object], frames: list[Frame], size: int) -> None:
        self._replies = replies
        self._frames = frames
        self.size = size
        self.batched = False
        self.frame_count = len(frames)

    def parcel(self, first: int) -> Parcel:
        """Give the chunks that have no receipt."""
        return ChunksParcel(self._frames, first)

    def release(self) -> Sequence[object]:
        """Empty the list, which parcels have too."""
        self._frames.clear()
        return self._replies


class ChunksParcel:
    """What is to be written of a message in chunks, from one of them on."""

    __slots__ = ("_first", "_frames")

    def __init__(self, frames: list[Frame], first: int) -> None:
        self._frames = frames
        self._first = first

    def buffers(self) -> Sequence[Buffer]:
        """Give the frames, unless they are needed no longer."""
        return [buffer for frame in self._frames[self._first :] for buffer in frame]


def pack_batch(messages: Outgoing, ids: tuple[int, int | None], sender: Sender, moment: Moment) -> Packed:
    """Pack messages into one entry, as a batch. `ids` are its lowest sequence id, and its highest if that is said."""
    said = list(messages.said) if messages.says else []
    payload = (
        encode_batch(zip([one and one.metadata for one in said], messages.payloads, strict=True))
        if said
        else encode_plain_batch(messages.payloads)
    )
    sequence_id, highest = ids
    metadata = _metadata(sender, sequence_id, moment)
    metadata.num_messages_in_batch = len(messages)
    command = CommandSend(producer_id=sender.producer_id, sequence_id=sequence_id, num_messages=len(messages))
    if highest is not None:
        metadata.highest_sequence_id = command.highest_sequence_id = highest
    if highest is None and said and said[0] is not None:
        _say_keys(metadata, _single(said[0]))  # a batch without a range is one of a single key
    frame = _frame(command, metadata, _squeeze(metadata, payload, sender), moment)
    return PackedEntry(messages.replies, frame, messages.size, batched=True)


def pack_alone(message: Outgoing, sequence_id: int, sender: Sender, moment: Moment) -> Packed:
    """Pack a message as an entry of its own."""
    ((payload,), (place,)) = message.payloads, message.places
    metadata = _alone_metadata(place, sequence_id, sender, moment)
    command = CommandSend(producer_id=sender.producer_id, sequence_id=sequence_id)
    frame = _frame(command, metadata, _squeeze(metadata, payload, sender), moment)
    return PackedEntry(message.replies, frame, len(payload), batched=False)


def pack_each(messages: Outgoing, ids: Sequence[int], sender: Sender, moment: Moment) -> list[tuple[Packed, int]]:
    """Do the same with many that say nothing and are not squeezed, in less time; give the size of each entry too."""
    sends = PlainSends(sender.producer_id, _metadata(sender, 0, moment))
    packed: list[tuple[Packed, int]] = []
    for payload, reply, sequence_id in zip(messages.payloads, messages.places, ids, strict=True):
        frame, size = sends.frame(sequence_id, payload)
        packed.append((PackedEntry((reply,), frame, len(payload), batched=False), size))
    return packed


def pack_chunks(message: Outgoing, sequence_id: int, sender: Sender, moment: Moment, largest_payload: int) -> Packed:
    """Pack a message into as many entries as it takes; into one, if that will do."""
    ((payload,), (place,)) = message.payloads, message.places
    metadata = _alone_metadata(place, sequence_id, sender, moment)
    squeezed = _squeeze(metadata, payload, sender)
    room = min(moment.largest - len(metadata.SerializePartialToString()) - CHUNK_OVERHEAD, largest_payload)
    if room < 1:
        what = "keys and properties leave no room for content in the broker's limit"
        raise MessageTooBig(f"{what} of {moment.largest:,}")
    if len(squeezed) <= room:
        return pack_alone(message, sequence_id, sender, moment)
    frames: list[Frame] = []
    for chunk in plan_chunks(len(squeezed), room, f"{sender.producer_name}-{sequence_id}"):
        part = MessageMetadata()
        part.CopyFrom(metadata)
        part.uuid, part.chunk_id = chunk.uuid, chunk.chunk_id
        part.num_chunks_from_msg, part.total_chunk_msg_size = chunk.num_chunks_from_msg, chunk.total_chunk_msg_size
        command = CommandSend(producer_id=sender.producer_id, sequence_id=sequence_id, is_chunk=True)
        frames.append(_frame(command, part, memoryview(squeezed)[chunk.start : chunk.stop], moment))
    return PackedChunks(message.replies, frames, len(payload))


def _metadata(sender: Sender, sequence_id: int, moment: Moment) -> MessageMetadata:
    metadata = MessageMetadata(producer_name=sender.producer_name, sequence_id=sequence_id, publish_time=moment.now_ms)
    if sender.schema_version:
        metadata.schema_version = sender.schema_version
    return metadata


def _alone_metadata(place: object, sequence_id: int, sender: Sender, moment: Moment) -> MessageMetadata:
    metadata = _metadata(sender, sequence_id, moment)
    if type(place) is Said:
        _say_of_entry(metadata, _single(place))
        if place.alone is not None:
            if place.alone.deliver_at_ms is not None:
                metadata.deliver_at_time = place.alone.deliver_at_ms
            metadata.replicate_to.extend(place.alone.replicate_to)
    return metadata


def _single(said: Said) -> SingleMessageMetadata:
    return SingleMessageMetadata.FromString(said.metadata)


def _say_of_entry(metadata: MessageMetadata, single: SingleMessageMetadata) -> None:
    """Say of an entry what was said of its one message."""
    metadata.properties.extend(single.properties)
    _say_keys(metadata, single)
    if single.HasField("event_time"):
        metadata.event_time = single.event_time
    if single.null_value:
        metadata.null_value = True


def _say_keys(metadata: MessageMetadata, single: SingleMessageMetadata) -> None:
    if single.HasField("partition_key"):
        metadata.partition_key = single.partition_key
        metadata.partition_key_b64_encoded = single.partition_key_b64_encoded
    if single.HasField("ordering_key"):
        metadata.ordering_key = single.ordering_key


def _squeeze(metadata: MessageMetadata, payload: bytes, sender: Sender) -> Buffer:
    if sender.codec == NONE:
        return payload
    metadata.compression = sender.codec
    metadata.uncompressed_size = len(payload)
    return compress(sender.codec, payload)


def _frame(command: CommandSend, metadata: MessageMetadata, payload: Buffer, moment: Moment) -> Frame:
    entry = encode_entry(metadata, payload if isinstance(payload, bytes) else memoryview(payload))
    size = len(entry[0]) + len(entry[1])
    if size > moment.largest:
        raise refusal_of(size, moment.largest)
    return tuple(encode_payload_command(command, *entry))


def refusal_of(size: int, largest: int) -> MessageTooBig:
    """Say that an entry has so many bytes, which is too many."""
    return MessageTooBig(f"an entry of {size:,} bytes, metadata included, is over the broker's limit of {largest:,}")
