"""Entries: what follows the command in a SEND or MESSAGE frame, and what a broker stores in a ledger.

From the first byte on: perhaps the magic number 0x0e02 with a size (4 bytes) and a BrokerEntryMetadata, which the
broker put in front on the way to a consumer; then what the producer wrote: perhaps the magic number 0x0e01 with a
checksum (4 bytes), then the size of the metadata (4 bytes), a MessageMetadata, and the payload up to the frame's end.
The checksum is the CRC32-C of all that follows it.

Where 0x0e01 is absent there is no checksum and the metadata's size comes at once. The two cannot be mistaken for each
other: a size that begins with 0x0e01 would be that of metadata of 235 MB or more.

Opening an entry reads its headers and metadata, which is all that an actor needs to count its messages; `verify` runs
over every byte, which is left to the thread that uses them.
"""

import struct
from typing import NamedTuple

from pulsar_actors.wire.checksum import checksum
from pulsar_actors.wire.errors import ChecksumMismatch, DecompressionFailed, EntryError, MalformedEntry
from pulsar_actors.wire.fields import serialise, unknown_enum
from pulsar_actors.wire.metadata import read_metadata
from pulsar_actors.wire.PulsarApi_pb2 import BrokerEntryMetadata, MessageMetadata

__all__ = ["Entry", "decode_entry", "encode_broker_metadata", "encode_entry", "open_entry", "wrap_entry"]

_CHECKSUM_MAGIC = 0x0E01
_BROKER_MAGIC = 0x0E02
_MAGIC = struct.Struct(">H")
_SIZE = struct.Struct(">I")
_MAGIC_AND_SIZE = struct.Struct(">HI")  # 0x0e02 and the size of the broker's metadata
_MAGIC_AND_CHECKSUM = struct.Struct(">HI")
_MORE = 0x80  # set in a byte of a varint that others follow, as in a tag that takes more bytes than it needs
_COMPRESSION_TAG = MessageMetadata.COMPRESSION_FIELD_NUMBER << 3
"""The byte that every encoder puts before the codec (an enum is a varint, whose wire type is 0): without it there is
nothing to look for."""


class Entry(NamedTuple):
    """One entry, opened. `stored` is what the producer wrote, unchanged: what a broker keeps and sends again.

    `checksum` is the one that came with it, None where none did. `payload` is still compressed, encrypted or a batch,
    as the metadata says; it and `stored` are views of the frame. Strings of the metadata may be anything: whoever reads
    them passes it through `strings.readable` first.
    """

    broker_metadata: BrokerEntryMetadata | None
    checksum: int | None
    metadata: MessageMetadata
    payload: memoryview
    stored: memoryview

    def verify(self) -> None:
        """Raise ChecksumMismatch unless the bytes are those that were summed; without a checksum all are welcome."""
        _verify(self.stored, self.checksum)


def open_entry(rest: memoryview) -> Entry:
    """Read the headers and metadata of an entry, without verifying its checksum.

    Raises MalformedEntry for headers or metadata that cannot be read and DecompressionFailed for a codec that this
    client does not know, unless a wrong checksum explains either: then it is ChecksumMismatch. Positions after the
    broker's metadata count from its end.
    """
    broker_metadata, start = _read_broker_metadata(rest)
    stored = rest[start:]
    declared, at = _read_checksum(stored)
    try:
        metadata, end = _read_metadata(stored, at)
    except EntryError:
        _verify(stored, declared)
        raise
    return Entry(broker_metadata, declared, metadata, stored[end:], stored)


def decode_entry(rest: memoryview) -> Entry:
    """Open an entry and verify its checksum."""
    entry = open_entry(rest)
    entry.verify()
    return entry


def encode_entry(metadata: MessageMetadata, payload: bytes | memoryview) -> list[bytes | memoryview]:
    """Write an entry with its checksum: buffers for one gathered write, of which the last is the payload itself."""
    return wrap_entry(serialise(metadata), payload)


def wrap_entry(metadata: bytes, payload: bytes | memoryview) -> list[bytes | memoryview]:
    """Write an entry whose metadata is written already."""
    sized = _SIZE.pack(len(metadata)) + metadata
    return [_MAGIC_AND_CHECKSUM.pack(_CHECKSUM_MAGIC, checksum(sized, payload)) + sized, payload]


def encode_broker_metadata(metadata: BrokerEntryMetadata) -> bytes:
    """Write what a broker puts in front of a stored entry."""
    body = serialise(metadata)
    return _MAGIC_AND_SIZE.pack(_BROKER_MAGIC, len(body)) + body


def _has_magic(data: memoryview, magic: int) -> bool:
    return len(data) >= _MAGIC.size and _MAGIC.unpack_from(data)[0] == magic


def _read_broker_metadata(rest: memoryview) -> tuple[BrokerEntryMetadata | None, int]:
    """Read the broker's metadata, if any, and where it ends."""
    if not _has_magic(rest, _BROKER_MAGIC):
        return None, 0
    data, end = _sized(rest, _MAGIC.size, "the broker's entry metadata")
    return read_metadata(BrokerEntryMetadata, data, _MAGIC_AND_SIZE.size, MalformedEntry), end


def _read_checksum(stored: memoryview) -> tuple[int | None, int]:
    """Read the declared checksum, if any, and where it ends."""
    if not _has_magic(stored, _CHECKSUM_MAGIC):
        return None, 0
    if len(stored) < _MAGIC_AND_CHECKSUM.size:
        raise MalformedEntry("an entry that ends within its checksum", _MAGIC.size, len(stored))
    return _MAGIC_AND_CHECKSUM.unpack_from(stored)[1], _MAGIC_AND_CHECKSUM.size


def _read_metadata(stored: memoryview, at: int) -> tuple[MessageMetadata, int]:
    """Read the metadata whose size is at `at`, and where it ends."""
    data, end = _sized(stored, at, "the message metadata")
    at += _SIZE.size
    metadata = read_metadata(MessageMetadata, data, at, MalformedEntry)
    if _COMPRESSION_TAG in data or _COMPRESSION_TAG | _MORE in data:
        _refuse_unknown_codec(metadata, at, len(data))
    return metadata, end


def _sized(data: memoryview, at: int, name: str) -> tuple[bytes, int]:
    """Read the bytes that follow their size, and where they end."""
    start = at + _SIZE.size
    if len(data) < start:
        raise MalformedEntry(f"an entry that ends within the size of {name}", at, len(data))
    size = _SIZE.unpack_from(data, at)[0]
    if size > len(data) - start:
        what = f"{name} of {size:,} bytes does not fit in the {len(data) - start:,} that follow its size"
        raise MalformedEntry(what, at, size)
    return bytes(data[start : start + size]), start + size


def _refuse_unknown_codec(metadata: MessageMetadata, at: int, size: int) -> None:
    """Look for a codec that protobuf put aside as unknown, so that the field reads as NONE or as another codec."""
    unknown = unknown_enum(metadata)
    if unknown is not None:
        raise DecompressionFailed(f"a payload compressed by the unknown codec {unknown[1]}", at, size)


def _verify(stored: memoryview, declared: int | None) -> None:
    if declared is None:
        return
    covered = stored[_MAGIC_AND_CHECKSUM.size :]
    actual = checksum(covered)
    if actual != declared:
        what = f"an entry that declares the checksum {declared:08x} and has {actual:08x}"
        raise ChecksumMismatch(what, _MAGIC.size, len(covered))
