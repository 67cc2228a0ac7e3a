"""Hand-written encoders for the two messages that the data path writes most: SEND, and SingleMessageMetadata.

Without batching, most of the cost of a message is protobuf's, for the command and the metadata; with small batches, so
is that of a batch. Few fields differ from one frame of a producer to the next, so `SendEncoder` encodes the rest once.
`runtime/batch_builder.py` writes the same with protobuf, for encrypted messages, chunks and batches by key.

With batching, each message that has a key or properties needs a SingleMessageMetadata. `encode_single_message` writes
it at a quarter of protobuf's cost. Without batching, the same fields are those of the entry, where they have other
numbers: `entry_fields` replaces the numbers.

Fields are in the order of their numbers, as protobuf writes them, except for those of `entry_fields`, which come last.
Tests compare all with protobuf.
"""

import struct
from typing import Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from pulsar_actors.crc32c import crc32c
from pulsar_actors.wire.frames import wrap_command
from pulsar_actors.wire.protobuf import varint
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, KeyValue, MessageMetadata, SingleMessageMetadata

__all__ = ["FrameAndSize", "SendEncoder", "encode_single_message", "entry_fields"]


_SMALL = 4096
"""In bytes: a smaller payload is cheaper to copy than to pass to the socket as a buffer of its own."""

_NUMBER, _BYTES = 0, 2  # protobuf's wire types


def _tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


_SEND_PRODUCER_ID: Final = _tag(CommandSend.PRODUCER_ID_FIELD_NUMBER, _NUMBER)
_SEND_SEQUENCE_ID: Final = _tag(CommandSend.SEQUENCE_ID_FIELD_NUMBER, _NUMBER)
_SEND_MESSAGES: Final = _tag(CommandSend.NUM_MESSAGES_FIELD_NUMBER, _NUMBER)
_SEND_HIGHEST_ID: Final = _tag(CommandSend.HIGHEST_SEQUENCE_ID_FIELD_NUMBER, _NUMBER)

_PRODUCER_NAME: Final = _tag(MessageMetadata.PRODUCER_NAME_FIELD_NUMBER, _BYTES)
_ENTRY_SEQUENCE_ID: Final = _tag(MessageMetadata.SEQUENCE_ID_FIELD_NUMBER, _NUMBER)
_PUBLISH_TIME: Final = _tag(MessageMetadata.PUBLISH_TIME_FIELD_NUMBER, _NUMBER)
_COMPRESSION: Final = _tag(MessageMetadata.COMPRESSION_FIELD_NUMBER, _NUMBER)
_UNCOMPRESSED_SIZE: Final = _tag(MessageMetadata.UNCOMPRESSED_SIZE_FIELD_NUMBER, _NUMBER)
_ENTRY_MESSAGES: Final = _tag(MessageMetadata.NUM_MESSAGES_IN_BATCH_FIELD_NUMBER, _NUMBER)
_SCHEMA_VERSION: Final = _tag(MessageMetadata.SCHEMA_VERSION_FIELD_NUMBER, _BYTES)
_ENTRY_HIGHEST_ID: Final = _tag(MessageMetadata.HIGHEST_SEQUENCE_ID_FIELD_NUMBER, _NUMBER)

_SIZES: Final = struct.Struct(">II")  # of the frame, and of its command
_SIZE: Final = struct.Struct(">I")  # of the metadata, and of the checksum
_MAGIC: Final = bytes.fromhex("0e01")  # the checksum follows
_ENTRY_HEAD_SIZE: Final = len(_MAGIC) + 2 * _SIZE.size


FrameAndSize: TypeAlias = tuple[tuple[bytes, ...], int]
"""The buffers of a frame, and the size of the entry in it. An entry that is too large is not written."""


class SendEncoder:
    """Writes the SEND frames of one producer. `publish_at` comes before the first one."""

    __slots__ = ("_after", "_before", "_bodies", "_command", "_largest", "_schema")

    def __init__(self, producer_id: int, producer_name: str, schema_version: bytes) -> None:
        self._command = b"".join((_SEND_PRODUCER_ID, varint(producer_id), _SEND_SEQUENCE_ID))
        self._before = b"".join((*_sized(_PRODUCER_NAME, producer_name.encode()), _ENTRY_SEQUENCE_ID))
        self._after = b""
        self._schema = b"".join(_sized(_SCHEMA_VERSION, schema_version)) if schema_version else b""
        self._largest = 0
        self._bodies: dict[int, bytes] = {}  # the start of the command of a single message, by the size of its id

    def publish_at(self, publish_time: int, largest: int) -> None:
        """Set the time at which the next messages are published, and the size of the largest entry then."""
        self._after = _PUBLISH_TIME + varint(publish_time)
        self._largest = largest

    def single(self, sequence_id: int, payload: bytes, fields: bytes = b"") -> FrameAndSize:
        """Write a message that is an entry of its own, with further fields of its metadata."""
        number = varint(sequence_id)
        body = self._bodies.get(len(number))
        if body is None:
            body = wrap_command(CommandSend, self._command + number)[: -len(number)]
            self._bodies[len(number)] = body
        return self._frame(body + number, b"".join((self._before, number, self._after, self._schema, fields)), payload)

    def batch(
        self, ids: tuple[int, int], messages: int, payload: bytes, compressed: tuple[int, int] | None = None
    ) -> FrameAndSize:
        """Write a batch, with its lowest and highest sequence id; if compressed, its codec and its size before."""
        lowest, highest, count = varint(ids[0]), varint(ids[1]), varint(messages)
        command = b"".join((self._command, lowest, _SEND_MESSAGES, count, _SEND_HIGHEST_ID, highest))
        codec = b""
        if compressed is not None:
            codec = b"".join((_COMPRESSION, varint(compressed[0]), _UNCOMPRESSED_SIZE, varint(compressed[1])))
        batch = (codec, _ENTRY_MESSAGES, count, self._schema, _ENTRY_HIGHEST_ID, highest)
        metadata = b"".join((self._before, lowest, self._after, *batch))
        return self._frame(wrap_command(CommandSend, command), metadata, payload)

    def _frame(self, command: bytes, metadata: bytes, payload: bytes) -> FrameAndSize:
        entry_size = _ENTRY_HEAD_SIZE + len(metadata) + len(payload)
        if entry_size > self._largest:
            return (), entry_size
        sizes = _SIZES.pack(_SIZE.size + len(command) + entry_size, len(command))
        size = _SIZE.pack(len(metadata))
        if len(payload) < _SMALL:
            checked = b"".join((size, metadata, payload))
            checksum = _SIZE.pack(crc32c(checked))
            return (b"".join((sizes, command, _MAGIC, checksum, checked)),), entry_size
        checksum = _SIZE.pack(crc32c(payload, crc32c(size + metadata)))
        return (b"".join((sizes, command, _MAGIC, checksum, size, metadata)), payload), entry_size


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
_SHORT_SIZES: Final = [chr(size) for size in range(_SHORT + 1)]
_SIZED_PAIRS: Final = [f"{_PAIR.decode()}{size}{_PAIR_KEY.decode()}" for size in _SHORT_SIZES]
_SIZED_VALUES: Final = [_PAIR_VALUE.decode() + size for size in _SHORT_SIZES]
_KEY_TEXT: Final = _PARTITION_KEY.decode()


def encode_single_message(  # noqa: PLR0913 - the fields of a message
    payload_size: int,
    properties: dict[str, str] | None,
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
    texts = _short_texts(properties, partition_key)
    parts = _texts(properties, partition_key) if texts is None else [texts]
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


def _short_texts(properties: dict[str, str] | None, partition_key: str | None) -> bytes | None:
    """Write the properties and the key as one text, in half of the time; None if any is long, or not ASCII.

    The tags and the sizes are ASCII, too, if all are of one byte.
    """
    texts: list[str] = []
    if properties is not None:
        for key, value in properties.items():
            size = len(key) + len(value) + _PAIR_FRAMES
            if size > _SHORT:
                return None
            texts += (_SIZED_PAIRS[size], _SHORT_SIZES[len(key)], key, _SIZED_VALUES[len(value)], value)
    if partition_key is not None:
        if len(partition_key) > _SHORT:
            return None
        texts += (_KEY_TEXT, _SHORT_SIZES[len(partition_key)], partition_key)
    whole = "".join(texts)
    return whole.encode() if whole.isascii() else None


def _texts(properties: dict[str, str] | None, partition_key: str | None) -> list[bytes]:
    """Write the properties and the key, whatever they are."""
    parts: list[bytes] = []
    if properties is not None:
        for key, value in properties.items():
            pair = b"".join((*_sized(_PAIR_KEY, key.encode()), *_sized(_PAIR_VALUE, value.encode())))
            parts += _sized(_PAIR, pair)
    if partition_key is not None:
        parts += _sized(_PARTITION_KEY, partition_key.encode())
    return parts


def _sized(tag: bytes, data: bytes) -> tuple[bytes, bytes, bytes]:
    return tag, varint(len(data)), data


_SIZED_TYPES: Final = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE}
_LEFT_OUT: Final = {"payload_size", "sequence_id", "compacted_out"}
_OF_ENTRY: Final = MessageMetadata.DESCRIPTOR.fields_by_name
_AS_IN_ENTRY: Final = {
    _tag(field.number, wire_type)[0]: (
        b"" if field.name in _LEFT_OUT else _tag(_OF_ENTRY[field.name].number, wire_type)
    )
    for field in SingleMessageMetadata.DESCRIPTOR.fields
    for wire_type in (_BYTES if field.type in _SIZED_TYPES else _NUMBER,)
}
"""Tag of a field in SingleMessageMetadata, which is one byte -> that in MessageMetadata; nothing if it is left out."""

_MORE: Final = 0x80


def entry_fields(single: bytes) -> bytes | None:
    """Write the fields of a SingleMessageMetadata as those of an entry; None if there are any that are not known."""
    parts: list[bytes] = []
    at = 0
    while at < len(single):
        tag, start = single[at], at + 1
        as_in_entry = _AS_IN_ENTRY.get(tag)
        if as_in_entry is None:
            return None
        end, value, shift = start + 1, single[start], 7
        if value & _MORE:
            value &= ~_MORE
            while single[end - 1] & _MORE:
                value |= (single[end] & ~_MORE) << shift
                end, shift = end + 1, shift + 7
        at = end + value if tag & 7 == _BYTES else end
        if as_in_entry:
            parts += (as_in_entry, single[start:at])
    return b"".join(parts)
