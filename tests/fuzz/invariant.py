"""Whatever the bytes, only WireError escapes; what decodes has text for strings, and re-encodes to what decodes equal.

An input is one byte that chooses a decoder, then what that decoder is given. The decoders of the wire are here, what
else takes bytes from outside is in `surfaces.py`. Nothing here needs a fuzzer: `check` holds
one input to the sentence above, and the kept corpus is replayed through it on every Python.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from pulsar_actors.exceptions import WireError
from pulsar_actors.wire.batch import encode_batch, is_batch, split_batch
from pulsar_actors.wire.compression import compress, decompress
from pulsar_actors.wire.entries import checksum, decode_entry, encode_broker_metadata, encode_entry, parse_entry
from pulsar_actors.wire.frames import (
    CARRIERS,
    Frame,
    FrameReader,
    decode_command,
    encode_command,
    encode_payload_command,
)
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.protobuf import readable
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType
from tests.fuzz.surfaces import SURFACES

_T = TypeVar("_T")

LIMIT = 1 << 20  # bytes a payload may inflate to
UNKNOWN_CODEC = cast("CompressionType.ValueType", 99)
CODECS = [*CompressionType.values(), UNKNOWN_CODEC]
CHECKSUM_MAGIC = b"\x0e\x01"


def tried(decode: Callable[..., _T], *arguments: Any) -> _T | None:
    """Decode what may be wrong. Re-encoding what decoded goes without: there even a WireError is a fault of ours."""
    try:
        return decode(*arguments)
    except WireError:
        return None


def same(one: Message | None, other: Message | None) -> bool:
    """Compare as bytes: a NaN in a field of type double is not equal to itself."""
    if one is None or other is None:
        return one is other
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def is_text(message: Message | None) -> bool:
    """Tell whether every string field, at any depth, reads as text and not as bytes."""
    for field, value in [] if message is None else message.ListFields():
        values = [value] if isinstance(value, (str, bytes, int, float, Message)) else value
        if field.message_type is not None and not all(map(is_text, values)):
            return False
        if field.type == FieldDescriptor.TYPE_STRING and not all(isinstance(each, str) for each in values):
            return False
    return True


def read(reader: FrameReader, *pieces: bytes) -> tuple[list[Frame], str]:
    """Feed the pieces; give the frames and the fault that ended the stream, if one did."""
    frames: list[Frame] = []
    try:
        for piece in pieces:
            frames += reader.feed(piece)
    except WireError as fault:
        return frames + reader.frames_before_fault, str(fault)
    return frames, ""


def stream(data: bytes) -> None:
    """One byte says where the stream is split; then the stream, with all that its frames carry."""
    at = data[0] * len(data) // 256 if data else 0
    frames, fault = read(FrameReader(LIMIT), data[1:])
    assert (frames, fault) == read(FrameReader(LIMIT), data[1 : at + 1], data[at + 1 :])
    for frame in frames:
        decoded = tried(decode_command, frame.command)
        if decoded is not None:
            assert is_text(decoded)
            again = written_and_read(decoded, frame.rest)
            assert again.rest == (frame.rest if type(decoded) in CARRIERS else b"")
        any_entry(frame.rest)


def written_and_read(command: Message, rest: bytes) -> Frame:
    """Write a command, with its entry if it carries one, and read it back."""
    carries = type(command) in CARRIERS
    written = b"".join(encode_payload_command(command, rest)) if carries else encode_command(command)
    (frame,) = FrameReader(len(written)).feed(written)
    assert same(decode_command(frame.command), command)
    return frame


def command(data: bytes) -> None:
    """A serialised BaseCommand."""
    decoded = tried(decode_command, data)
    if decoded is not None:
        assert is_text(decoded)
        written_and_read(decoded, b"")


def entry(data: bytes) -> None:
    """One byte says whether to put the checksum right; then an entry."""
    rest = bytearray(data[1:])
    if data and data[0] % 2 and len(rest) >= 6 and rest.startswith(CHECKSUM_MAGIC):
        struct.pack_into(">I", rest, 2, checksum(bytes(rest[6:])))
    any_entry(bytes(rest))


def any_entry(rest: bytes) -> None:
    opened, decoded = tried(parse_entry, rest), tried(decode_entry, rest)
    if decoded is None:
        return
    assert opened == decoded
    front = b"" if decoded.broker_metadata is None else encode_broker_metadata(decoded.broker_metadata)
    again = decode_entry(front + b"".join(encode_entry(decoded.metadata, decoded.payload)))
    assert same(again.broker_metadata, decoded.broker_metadata)
    assert same(again.metadata, decoded.metadata)
    assert again.payload == decoded.payload
    assert is_text(readable(decoded.metadata))
    metadata = decoded.metadata
    inflated = tried(decompress, metadata.compression, decoded.payload, metadata.uncompressed_size, LIMIT)
    if inflated is not None and is_batch(metadata):
        any_batch(bytes(inflated), metadata.num_messages_in_batch)


def payload(data: bytes) -> None:
    """A codec (one byte), a declared size (three), and a compressed payload."""
    if len(data) < 4:
        return
    codec, size, compressed = CODECS[data[0] % len(CODECS)], int.from_bytes(data[1:4], "big"), data[4:]
    inflated = tried(decompress, codec, compressed, size, LIMIT)
    if inflated is None:
        return
    inflated = bytes(inflated)
    assert len(inflated) == (len(compressed) if codec == CompressionType.NONE else size)
    assert decompress(codec, bytes(compress(codec, inflated)), len(inflated), LIMIT) == inflated


def batch(data: bytes) -> None:
    """A count (two bytes) and a batch."""
    any_batch(data[2:], int.from_bytes(data[:2], "big"))


def any_batch(data: bytes, count: int) -> None:
    messages = tried(split_batch, data, count)
    if messages is None:
        return
    assert all(is_text(readable(message.metadata)) for message in messages)
    again = split_batch(encode_batch((message.metadata, message.payload) for message in messages), count)
    assert [message.payload for message in again] == [message.payload for message in messages]
    assert all(same(one.metadata, other.metadata) for one, other in zip(again, messages, strict=True))


def message_id(data: bytes) -> None:
    """A serialised message id."""
    decoded = tried(MessageId.deserialize, data)
    if decoded is None:
        return
    again = MessageId.deserialize(decoded.serialize())
    assert again == decoded
    assert hash(again) == hash(decoded)
    assert again._asdict() == decoded._asdict()  # what equality leaves out must be there too


DECODERS: list[Callable[[bytes], None]] = [stream, command, entry, payload, batch, message_id, *SURFACES]


def check(data: bytes) -> None:
    """Hold one input to the invariant."""
    if data:
        DECODERS[data[0] % len(DECODERS)](data[1:])
