"""Hand-written encoders for the two messages that the data path writes most: SEND, and SingleMessageMetadata.

Without batching, most of the cost of a message is protobuf's, for the command and the metadata. Only the sequence id
differs from one plain message to the next, so `PlainSendEncoder` serialises the rest once for many messages.
`runtime/batch_builder.py` writes the same with protobuf, for messages of all kinds.

With batching, each message that has a key or properties needs a SingleMessageMetadata. `encode_single_message` writes
it at a quarter of protobuf's cost, with the fields in the order of their numbers, as protobuf does.

Tests compare both with what protobuf writes.
"""

import struct
from collections.abc import Mapping
from typing import Final

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.entries import checksum, wrap_entry
from pulsar_actors.wire.frames import wrap_command
from pulsar_actors.wire.protobuf import varint
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, KeyValue, MessageMetadata, SingleMessageMetadata

__all__ = ["PlainSendEncoder", "encode_single_message"]


_SMALL = 4096
"""In bytes: a smaller payload is cheaper to copy than to pass to the socket as a buffer of its own."""

_NO_ID = varint(0)
"""The sequence id 0, in the position of the real one: protobuf writes fields in the order of their numbers."""

_FRAME_SIZES = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_COMMAND_SIZE_BYTES = 4  # bytes of the size of a command
_MAGIC_BYTES = 2  # bytes before the checksum


class _FrameShape(NamedTuple):
    """The parts that all frames share whose sequence ids take the same number of bytes."""

    command_size: int
    command_start: bytes
    magic: bytes
    metadata_start: bytes
    head_size: int  # of the entry, without the payload


class PlainSendEncoder:
    """Writes the SEND frames of one producer for messages whose metadata differs in the sequence id only."""

    __slots__ = ("_after", "_before", "_command", "_shapes")

    def __init__(self, producer_id: int, metadata: MessageMetadata) -> None:
        command = CommandSend(producer_id=producer_id, sequence_id=0)
        self._command = command.SerializeToString().removesuffix(_NO_ID)
        before = MessageMetadata(producer_name=metadata.producer_name, sequence_id=0)
        self._before = before.SerializePartialToString().removesuffix(_NO_ID)
        after = MessageMetadata()
        after.CopyFrom(metadata)
        after.ClearField("producer_name")
        after.ClearField("sequence_id")
        self._after = after.SerializePartialToString()
        self._shapes: dict[int, _FrameShape] = {}

    def frame(self, sequence_id: int, payload: bytes) -> tuple[tuple[bytes, ...], int]:
        """Write one frame: return its buffers, and the size of the entry in it."""
        number = varint(sequence_id)
        shape = self._shapes.get(len(number)) or self._shape(number)
        command_size, command_start, magic, metadata_start, entry_size = shape
        entry_size += len(payload)
        sizes = _FRAME_SIZES.pack(_COMMAND_SIZE_BYTES + command_size + entry_size, command_size)
        start = (sizes, command_start, number, magic)
        if len(payload) < _SMALL:
            checked = b"".join((metadata_start, number, self._after, payload))
            return (b"".join((*start, _CHECKSUM.pack(checksum(checked)), checked)),), entry_size
        sized = b"".join((metadata_start, number, self._after))
        return (b"".join((*start, _CHECKSUM.pack(checksum(sized, payload)), sized)), payload), entry_size

    def _shape(self, number: bytes) -> _FrameShape:
        """Take the shared parts out of a frame that the general encoders write."""
        command = wrap_command(CommandSend, self._command + number)
        head = bytes(wrap_entry(self._before + number + self._after, b"")[0])
        magic, sized = head[:_MAGIC_BYTES], head[_MAGIC_BYTES + _CHECKSUM.size :]
        start = sized.removesuffix(number + self._after)
        shape = _FrameShape(len(command), command.removesuffix(number), magic, start, len(head))
        self._shapes[len(number)] = shape
        return shape


_NUMBER, _BYTES = 0, 2  # protobuf's wire types


def _tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


_PAIR: Final = _tag(SingleMessageMetadata.PROPERTIES_FIELD_NUMBER, _BYTES)
_PAIR_KEY: Final = _tag(KeyValue.KEY_FIELD_NUMBER, _BYTES)
_PAIR_VALUE: Final = _tag(KeyValue.VALUE_FIELD_NUMBER, _BYTES)
_PAIR_FRAMES: Final = len(_PAIR_KEY + _PAIR_VALUE) + 2
_PARTITION_KEY: Final = _tag(SingleMessageMetadata.PARTITION_KEY_FIELD_NUMBER, _BYTES)
_PAYLOAD_SIZE: Final = _tag(SingleMessageMetadata.PAYLOAD_SIZE_FIELD_NUMBER, _NUMBER)
_EVENT_TIME: Final = _tag(SingleMessageMetadata.EVENT_TIME_FIELD_NUMBER, _NUMBER)
_KEY_IS_BASE64: Final = _tag(SingleMessageMetadata.PARTITION_KEY_B64_ENCODED_FIELD_NUMBER, _NUMBER) + varint(1)
_ORDERING_KEY: Final = _tag(SingleMessageMetadata.ORDERING_KEY_FIELD_NUMBER, _BYTES)
_SEQUENCE_ID: Final = _tag(SingleMessageMetadata.SEQUENCE_ID_FIELD_NUMBER, _NUMBER)
_NULL_KEY: Final = _tag(SingleMessageMetadata.NULL_PARTITION_KEY_FIELD_NUMBER, _NUMBER) + varint(1)
_NULL_VALUE: Final = _tag(SingleMessageMetadata.NULL_VALUE_FIELD_NUMBER, _NUMBER) + varint(1)

# Tags and sizes between the texts of a pair, for sizes of one byte: if the pair's size is one byte, those inside are.
_SHORT: Final = 127
_SHORT_SIZES: Final = [varint(size) for size in range(_SHORT + 1)]
_SIZED_PAIRS: Final = [_PAIR + size + _PAIR_KEY for size in _SHORT_SIZES]
_SIZED_VALUES: Final = [_PAIR_VALUE + size for size in _SHORT_SIZES]


def encode_single_message(  # noqa: C901, PLR0913 - the fields of a message
    payload_size: int,
    properties: Mapping[str, str] | None,
    partition_key: str | None = None,
    ordering_key: bytes | None = None,
    sequence_id: int | None = None,
    event_time: int | None = None,
    *,
    null_value: bool = False,
    key_is_base64: bool = False,
    null_key: bool = False,
) -> bytes:
    """Write a SingleMessageMetadata. None leaves a field out; 0 and "" are values."""
    parts: list[bytes] = []
    if properties is not None:
        for name, text in properties.items():
            key, value = name.encode(), text.encode()
            size = len(key) + len(value) + _PAIR_FRAMES
            if size <= _SHORT:
                parts += (_SIZED_PAIRS[size], _SHORT_SIZES[len(key)], key, _SIZED_VALUES[len(value)], value)
            else:
                pair = b"".join((*_sized(_PAIR_KEY, key), *_sized(_PAIR_VALUE, value)))
                parts += _sized(_PAIR, pair)
    if partition_key is not None:
        parts += _sized(_PARTITION_KEY, partition_key.encode())
    parts += (_PAYLOAD_SIZE, varint(payload_size))
    if event_time is not None:
        parts += (_EVENT_TIME, varint(event_time))
    if key_is_base64:
        parts.append(_KEY_IS_BASE64)
    if ordering_key is not None:
        parts += _sized(_ORDERING_KEY, ordering_key)
    if sequence_id is not None:
        parts += (_SEQUENCE_ID, varint(sequence_id))
    if null_value:
        parts.append(_NULL_VALUE)
    if null_key:
        parts.append(_NULL_KEY)
    return b"".join(parts)


def _sized(tag: bytes, data: bytes) -> tuple[bytes, bytes, bytes]:
    return tag, varint(len(data)), data
