"""Messages into entries, and entries into frames: what a producer's actor does once for each batch.

What is packed keeps its bytes until it is stored or has failed, for it may have to be written again; then it lets go of
them at once, even if it still waits to be written on a connection that stands still.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pulsar_actors.exceptions import MessageTooBig
from pulsar_actors.machines.ledgers.chunk_plan import plan_chunks
from pulsar_actors.runtime.loop import Buffer
from pulsar_actors.runtime.outgoing import SAID, Outgoing
from pulsar_actors.wire.batch import encode_batch, encode_plain_batch
from pulsar_actors.wire.compression import compress
from pulsar_actors.wire.entries import decode_entry, encode_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.frames import encode_payload_command
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CompressionType, MessageMetadata, SingleMessageMetadata

Entry = list[bytes | memoryview]

CHUNK_OVERHEAD = 128
"""Room for what a chunk's metadata says besides the message's: three numbers, and how it is framed."""


class Sender(NamedTuple):
    """What all entries of a producer have in common."""

    producer_id: int
    producer_name: str
    codec: "CompressionType.ValueType"
    schema_version: bytes


class Packed:
    """Some messages, as the frames that carry them. It is the token of a pending send."""

    __slots__ = ("batched", "entries", "frames", "messages")

    def __init__(self, messages: Sequence[Outgoing], *, batched: bool) -> None:
        self.messages = messages
        self.batched = batched
        self.entries: list[Entry] = []
        self.frames: list[Entry] = []

    def add(self, command: CommandSend, entry: Entry) -> None:
        """Add an entry with its command."""
        self.entries.append(entry)
        self.frames.append(encode_payload_command(command, *entry))

    def release(self) -> None:
        """Let go of the bytes, and have nothing left to write."""
        self.entries.clear()
        self.frames.clear()

    def is_intact(self) -> bool:
        """Tell whether the entries still agree with their checksums."""
        try:
            for entry in self.entries:
                decode_entry(memoryview(b"".join(entry)))
        except EntryError:
            return False
        return True


class PackedParcel:
    """What is to be written of something packed, from one of its frames on."""

    __slots__ = ("_first", "_frames")

    def __init__(self, packed: Packed, first: int) -> None:
        self._frames = packed.frames  # and not the rest of it: this may wait for long, and payloads would wait along
        self._first = first

    def buffers(self) -> Sequence[Buffer]:
        """Give the frames, unless they are needed no longer."""
        return [buffer for frame in self._frames[self._first :] for buffer in frame]


def pack_batch(
    messages: Sequence[Outgoing], ids: tuple[int, int | None], sender: Sender, now_ms: int, largest: int
) -> Packed:
    """Pack messages into one entry, as a batch. `ids` are its lowest sequence id, and its highest if that is said."""
    payload = (
        encode_batch([(single, payload) for payload, single, _, _ in messages])
        if any(map(SAID, messages))
        else encode_plain_batch([message[0] for message in messages])
    )
    sequence_id, highest = ids
    metadata = _metadata(sender, sequence_id, now_ms)
    metadata.num_messages_in_batch = len(messages)
    command = CommandSend(producer_id=sender.producer_id, sequence_id=sequence_id, num_messages=len(messages))
    if highest is not None:
        metadata.highest_sequence_id = command.highest_sequence_id = highest
    if highest is None and messages[0][1] is not None:
        _say_keys(metadata, messages[0][1])  # a batch without a range is one of a single key
    packed = Packed(messages, batched=True)
    packed.add(command, _entry(metadata, _squeeze(metadata, payload, sender), largest))
    return packed


def pack_alone(message: Outgoing, sequence_id: int, sender: Sender, now_ms: int, largest: int) -> Packed:
    """Pack a message as an entry of its own."""
    metadata = _alone_metadata(message, sequence_id, sender, now_ms)
    packed = Packed((message,), batched=False)
    command = CommandSend(producer_id=sender.producer_id, sequence_id=sequence_id)
    packed.add(command, _entry(metadata, _squeeze(metadata, message[0], sender), largest))
    return packed


def pack_chunks(message: Outgoing, sequence_id: int, sender: Sender, now_ms: int, limits: tuple[int, int]) -> Packed:
    """Pack a message into as many entries as it takes; into one, if that will do.

    `limits` are those of an entry, and of the payload of each.
    """
    largest, largest_payload = limits
    payload = message[0]
    metadata = _alone_metadata(message, sequence_id, sender, now_ms)
    squeezed = _squeeze(metadata, payload, sender)
    room = min(largest - len(metadata.SerializePartialToString()) - CHUNK_OVERHEAD, largest_payload)
    if room < 1:
        raise MessageTooBig(f"keys and properties leave no room for content in the broker's limit of {largest:,}")
    if len(squeezed) <= room:
        return pack_alone(message, sequence_id, sender, now_ms, largest)
    packed = Packed((message,), batched=False)
    for chunk in plan_chunks(len(squeezed), room, f"{sender.producer_name}-{sequence_id}"):
        part = MessageMetadata()
        part.CopyFrom(metadata)
        part.uuid, part.chunk_id = chunk.uuid, chunk.chunk_id
        part.num_chunks_from_msg, part.total_chunk_msg_size = chunk.num_chunks_from_msg, chunk.total_chunk_msg_size
        command = CommandSend(producer_id=sender.producer_id, sequence_id=sequence_id, is_chunk=True)
        packed.add(command, _entry(part, memoryview(squeezed)[chunk.start : chunk.stop], largest))
    return packed


def _metadata(sender: Sender, sequence_id: int, now_ms: int) -> MessageMetadata:
    metadata = MessageMetadata(producer_name=sender.producer_name, sequence_id=sequence_id, publish_time=now_ms)
    if sender.schema_version:
        metadata.schema_version = sender.schema_version
    return metadata


def _alone_metadata(message: Outgoing, sequence_id: int, sender: Sender, now_ms: int) -> MessageMetadata:
    metadata = _metadata(sender, sequence_id, now_ms)
    _, single, alone, _ = message
    if single is not None:
        _say_of_entry(metadata, single)
    if alone is not None:
        if alone.deliver_at_ms is not None:
            metadata.deliver_at_time = alone.deliver_at_ms
        metadata.replicate_to.extend(alone.replicate_to)
    return metadata


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
    if sender.codec == CompressionType.NONE:
        return payload
    metadata.compression = sender.codec
    metadata.uncompressed_size = len(payload)
    return compress(sender.codec, payload)


def _entry(metadata: MessageMetadata, payload: Buffer, largest: int) -> Entry:
    entry = encode_entry(metadata, payload if isinstance(payload, bytes) else memoryview(payload))
    size = len(entry[0]) + len(entry[1])
    if size > largest:
        raise MessageTooBig(f"an entry of {size:,} bytes, metadata included, is over the broker's limit of {largest:,}")
    return entry
