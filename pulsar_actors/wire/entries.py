"""Entries: the bytes after the command in a SEND or MESSAGE frame, which a broker stores in a ledger.

From the first byte on: optionally the magic number 0x0e02, a size (4 bytes) and a BrokerEntryMetadata, which the broker
adds on the way to a consumer. Then what the producer wrote: optionally the magic number 0x0e01 and a checksum (4
bytes), then the size of the metadata (4 bytes), a MessageMetadata, and the payload up to the frame's end. The checksum
is the CRC32-C (Castagnoli, RFC 3720 appendix B.4) of all that follows it; `zlib.crc32` is another polynomial.

Without 0x0e01 there is no checksum, and the metadata's size comes at once. The two cannot be confused: a size that
begins with 0x0e01 would be that of metadata of 235 MB or more.

`parse_entry` reads the headers and metadata only, which is all that an actor needs to count messages. `Entry.verify`
runs over every byte and is left to the thread that uses them.
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from pulsar_actors.crc32c import crc32c
from pulsar_actors.exceptions import WireError
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import ChecksumMismatch, DecompressionFailed, EntryError, MalformedEntry
from pulsar_actors.wire.protobuf import UNREADABLE, first_missing_field, parse, serialise, unknown_enum
from pulsar_actors.wire.PulsarApi_pb2 import BrokerEntryMetadata, MessageMetadata

__all__ = [
    "Entry",
    "checksum",
    "decode_entry",
    "encode_broker_metadata",
    "encode_entry",
    "parse_entry",
    "read_metadata",
    "wrap_entry",
]


def checksum(*buffers: bytes | memoryview) -> int:
    """Return the CRC32-C of the buffers as if they were one; they are not joined."""
    total = 0
    for buffer in buffers:
        total = crc32c(buffer, total)
    return total


_M = TypeVar("_M", bound=Message)


def read_metadata(kind: type[_M], data: bytes, at: int, blame: Callable[[str, int, int], WireError]) -> _M:
    """Read metadata found at position `at`, or raise the error that `blame` makes of a text, a position and a size.

    Strings may be anything: pass the message through `protobuf.readable` before reading one.
    """
    try:
        message = parse(kind, data)
    except UNREADABLE as fault:
        raise blame(f"protobuf cannot read a {kind.__name__}: {fault}", at, len(data)) from fault
    if not message.IsInitialized():
        missing = first_missing_field(message)
        raise blame(f"{kind.__name__} without its required {missing}", at, len(data))
    return message


_CHECKSUM_MAGIC = 0x0E01
_BROKER_MAGIC = 0x0E02
_MAGIC = struct.Struct(">H")
_SIZE = struct.Struct(">I")
_MAGIC_AND_SIZE = struct.Struct(">HI")  # 0x0e02, and the size of the broker metadata
_MAGIC_AND_CHECKSUM = struct.Struct(">HI")
_USUAL_HEAD = struct.Struct(">HII")  # 0x0e01, the checksum, and the size of the metadata
_MORE = 0x80  # set in each byte of a varint but the last, as in a tag that takes more bytes than it needs
_COMPRESSION_TAG = MessageMetadata.COMPRESSION_FIELD_NUMBER << 3
"""The byte before the codec (an enum is a varint, wire type 0). Metadata without this byte has no codec."""
_KEYS_TAG = MessageMetadata.ENCRYPTION_KEYS_FIELD_NUMBER << 3 | 2
"""The byte before an encryption key (a message has wire type 2). To ask the metadata itself takes ten times as long."""


class Entry(NamedTuple):
    """One entry with its metadata read. `stored` are the bytes of the producer, which a broker stores and sends again.

    `checksum` is the declared one, or None. Strings of the metadata may be anything: pass it through
    `protobuf.readable` before reading one. An entry is encrypted exactly if its metadata has encryption keys.

    Many entries wait in a receiver queue, so each consists of few objects: the payload is cut out when it is needed.
    """

    broker_metadata: BrokerEntryMetadata | None
    checksum: int | None
    metadata: MessageMetadata
    stored: bytes
    payload_start: int
    is_encrypted: bool = False

    @property
    def payload(self) -> bytes:
        """A copy of the payload, still compressed, encrypted or a batch, as the metadata says."""
        return self.stored[self.payload_start :]

    @property
    def payload_size(self) -> int:
        """The size of the payload in bytes."""
        return len(self.stored) - self.payload_start

    def verify(self) -> None:
        """Raise ChecksumMismatch if the bytes do not match the declared checksum."""
        declared = self.checksum
        if declared is not None and crc32c(memoryview(self.stored)[_MAGIC_AND_CHECKSUM.size :]) != declared:
            _verify(self.stored, declared)  # raises


_tuple: Any = tuple
_new_entry: Callable[[tuple[BrokerEntryMetadata | None, int | None, MessageMetadata, bytes, int, bool]], Entry] = (
    partial(_tuple.__new__, Entry)
)
"""Makes an Entry from a tuple of all fields, in a third of the time."""


def parse_entry(rest: bytes) -> Entry:
    """Read the headers and metadata of an entry, without verifying its checksum.

    Raises MalformedEntry for headers or metadata that cannot be read and DecompressionFailed for an unknown codec,
    unless a wrong checksum explains either: then it is ChecksumMismatch. Positions after the broker metadata count from
    its end.
    """
    return _parse_usual(rest) or _parse_any(rest)


def _parse_usual(rest: bytes) -> Entry | None:
    """Read an entry that begins with its checksum, in less than half of the time; None for any other or faulty one."""
    if len(rest) < _USUAL_HEAD.size:
        return None
    magic, declared, size = _USUAL_HEAD.unpack_from(rest)
    end = _USUAL_HEAD.size + size
    if magic != _CHECKSUM_MAGIC or end > len(rest):
        return None
    data = rest[_USUAL_HEAD.size : end]
    try:
        metadata = MessageMetadata.FromString(data)
    except UNREADABLE:
        return None
    if not metadata.IsInitialized() or (_may_have_codec(data) and unknown_enum(metadata) is not None):
        return None
    is_encrypted = _may_have_keys(data) and bool(metadata.encryption_keys)
    return _new_entry((None, declared, metadata, rest, end, is_encrypted))


def _parse_any(rest: bytes) -> Entry:
    """Read any entry, or raise an error that says what is wrong with it."""
    broker_metadata, start = _read_broker_metadata(rest)
    stored = rest[start:]
    declared, at = _read_declared_checksum(stored)
    try:
        metadata, end, is_encrypted = _read_message_metadata(stored, at)
    except EntryError:
        _verify(stored, declared)
        raise
    return Entry(broker_metadata, declared, metadata, stored, end, is_encrypted)


def decode_entry(rest: bytes) -> Entry:
    """Open an entry and verify its checksum."""
    entry = parse_entry(rest)
    entry.verify()
    return entry


def encode_entry(metadata: MessageMetadata, payload: bytes | memoryview) -> list[bytes | memoryview]:
    """Write an entry with its checksum, as buffers for one gathered write; the last is the payload itself."""
    return wrap_entry(serialise(metadata), payload)


def wrap_entry(metadata: bytes, payload: bytes | memoryview) -> list[bytes | memoryview]:
    """Write an entry whose metadata is serialised already."""
    sized = _SIZE.pack(len(metadata)) + metadata
    return [_MAGIC_AND_CHECKSUM.pack(_CHECKSUM_MAGIC, checksum(sized, payload)) + sized, payload]


def encode_broker_metadata(metadata: BrokerEntryMetadata) -> bytes:
    """Write the broker metadata that stands in front of a stored entry."""
    body = serialise(metadata)
    return _MAGIC_AND_SIZE.pack(_BROKER_MAGIC, len(body)) + body


def _has_magic(data: bytes, magic: int) -> bool:
    return len(data) >= _MAGIC.size and _MAGIC.unpack_from(data)[0] == magic


def _read_broker_metadata(rest: bytes) -> tuple[BrokerEntryMetadata | None, int]:
    """Return the broker metadata, if any, and where it ends."""
    if not _has_magic(rest, _BROKER_MAGIC):
        return None, 0
    data, end = _sized(rest, _MAGIC.size, "the broker's entry metadata")
    return read_metadata(BrokerEntryMetadata, data, _MAGIC_AND_SIZE.size, MalformedEntry), end


def _read_declared_checksum(stored: bytes) -> tuple[int | None, int]:
    """Return the declared checksum, if any, and where it ends."""
    if not _has_magic(stored, _CHECKSUM_MAGIC):
        return None, 0
    if len(stored) < _MAGIC_AND_CHECKSUM.size:
        raise MalformedEntry("an entry that ends within its checksum", _MAGIC.size, len(stored))
    return _MAGIC_AND_CHECKSUM.unpack_from(stored)[1], _MAGIC_AND_CHECKSUM.size


def _read_message_metadata(stored: bytes, at: int) -> tuple[MessageMetadata, int, bool]:
    """Return the metadata whose size stands at `at`, where it ends, and whether the entry is encrypted."""
    data, end = _sized(stored, at, "the message metadata")
    at += _SIZE.size
    metadata = read_metadata(MessageMetadata, data, at, MalformedEntry)
    if _may_have_codec(data):
        _reject_unknown_codec(metadata, at, len(data))
    return metadata, end, _may_have_keys(data) and bool(metadata.encryption_keys)


def _may_have_codec(data: bytes) -> bool:
    return _COMPRESSION_TAG in data or _COMPRESSION_TAG | _MORE in data


def _may_have_keys(data: bytes) -> bool:
    return _KEYS_TAG in data or _KEYS_TAG | _MORE in data


def _sized(data: bytes, at: int, name: str) -> tuple[bytes, int]:
    """Return the bytes that follow their size, and where they end."""
    start = at + _SIZE.size
    if len(data) < start:
        raise MalformedEntry(f"an entry that ends within the size of {name}", at, len(data))
    size = _SIZE.unpack_from(data, at)[0]
    if size > len(data) - start:
        what = f"{name} of {size:,} bytes does not fit in the {len(data) - start:,} that follow its size"
        raise MalformedEntry(what, at, size)
    return data[start : start + size], start + size


def _reject_unknown_codec(metadata: MessageMetadata, at: int, size: int) -> None:
    """Raise for a codec that protobuf has put aside as unknown: the field reads as NONE or as another codec."""
    unknown = unknown_enum(metadata)
    if unknown is not None:
        raise DecompressionFailed(f"a payload compressed by the unknown codec {unknown[1]}", at, size)


def _verify(stored: bytes, declared: int | None) -> None:
    if declared is None:
        return
    covered = memoryview(stored)[_MAGIC_AND_CHECKSUM.size :]
    actual = checksum(covered)
    if actual != declared:
        what = f"an entry that declares the checksum {declared:08x} and has {actual:08x}"
        raise ChecksumMismatch(what, _MAGIC.size, len(covered))
