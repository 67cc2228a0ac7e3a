"""Batches: several messages in the payload of one entry.

Each message is the size of its own metadata (4 bytes, big-endian), a SingleMessageMetadata, and its payload, whose size
that metadata gives. Nothing ends a batch but its last message; how many there are stands in the entry's metadata as
`num_messages_in_batch`. That this field is there, even saying 1, means that the payload is a batch; its default of 1
does not.

Messages of one batch mostly have the same metadata (a size and nothing else, when they have no keys or properties), and
protobuf is the larger part of the cost. So metadata is read once for all messages of a batch that begin with the same
bytes, and a run of such messages is cut at equal distances, by `struct`, which is the fastest to do so.

Half a kilobyte can inflate to a batch of a million messages, whose metadata as objects would take half a gigabyte. All
of it is read before the first message is handed out, for a batch is whole or it is refused; but what has been read is
kept for the first thousand only. The others keep the bytes, and read them again when asked.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from pulsar_actors.wire.errors import EncodeError, MalformedBatch
from pulsar_actors.wire.fields import UNREADABLE, serialise
from pulsar_actors.wire.metadata import read_metadata
from pulsar_actors.wire.octets import Octets, octets
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.strings import parse

__all__ = [
    "SMALLEST_MESSAGE",
    "SingleMessage",
    "Singles",
    "Stored",
    "encode_batch",
    "encode_plain_batch",
    "is_batch",
    "metadata_of",
    "split_batch",
    "split_columns",
]

_SIZE = struct.Struct(">I")
SMALLEST_MESSAGE = _SIZE.size + 2
"""In bytes: its metadata has at least the payload's size, a tag and a digit."""
_LARGEST_PAYLOAD = 2**31 - 1
_PLAIN = 6  # bytes at most, of metadata that is a payload's size: a tag, and 31 bits
_MANY = 8  # messages to each byte of a head, from which on it pays to look at that byte of all at once
_MOST_KNOWN = 1_000  # metadata to remember in one batch

_Known: TypeAlias = dict[bytes, SingleMessageMetadata]


Stored: TypeAlias = SingleMessageMetadata | bytes
"""The metadata of one message, read or as it was written."""


class SingleMessage(NamedTuple):
    """One message of a batch: its metadata, and its payload."""

    stored: Stored
    payload: bytes

    @property
    def metadata(self) -> SingleMessageMetadata:
        """Give the metadata. Messages may share it: do not change it; and read its strings by way of `readable`."""
        return metadata_of(self.stored)


class Singles(NamedTuple):
    """All messages of a batch, as columns: no object is made for each."""

    stored: list[Stored]
    payloads: list[bytes]


def metadata_of(stored: Stored) -> SingleMessageMetadata:
    """Give what may have been kept as it was written."""
    return parse(SingleMessageMetadata, stored) if isinstance(stored, bytes) else stored


def is_batch(metadata: MessageMetadata) -> bool:
    """Tell whether the payload of an entry with this metadata is a batch."""
    return metadata.HasField("num_messages_in_batch")


def split_batch(payload: Octets, count: int) -> list[SingleMessage]:
    """Split a batch, already decrypted and decompressed, into the messages that `num_messages_in_batch` declares.

    It is all or nothing: MalformedBatch says that the bytes are not that many messages, no fewer and no more. A batch
    has at least one.
    """
    return list(map(SingleMessage, *split_columns(payload, count)))


def split_columns(payload: Octets, count: int) -> Singles:
    """Do the same in less time: give all that is said of the messages, and all payloads."""
    data = octets(payload)
    if not 0 < count <= len(data) // SMALLEST_MESSAGE:
        what = f"a batch declares {count:,} messages, each of {SMALLEST_MESSAGE} bytes or more, in {len(data):,} bytes"
        raise MalformedBatch(what, 0, len(data))
    singles = Singles([], [])
    known: _Known = {}
    at = 0
    while len(singles.payloads) < count:
        head, stored, size = _read_head(data, at, known)
        start, stride = at, len(head) + size
        at += stride
        last_end = start + stride * (count - len(singles.payloads))
        if start == 0 and _are_alike(data, head, stride, count):
            at = last_end
        while at < last_end and data.startswith(head, at):
            at += stride
        if at > len(data):
            raise MalformedBatch(f"a message ends at byte {at:,} of a batch of {len(data):,}", len(data), len(data))
        singles.stored.extend(repeat(stored, (at - start) // stride))
        singles.payloads.extend(chain.from_iterable(_cutter(len(head), size).iter_unpack(memoryview(data)[start:at])))
    if at != len(data):
        what = f"the {count:,} messages of a batch end at byte {at:,} of {len(data):,}"
        raise MalformedBatch(what, min(at, len(data)), len(data))
    return singles


def _are_alike(data: bytes, head: bytes, stride: int, count: int) -> bool:
    """Tell whether all messages begin alike, by each byte of all heads at once; not if that would take longer.

    This is asked of the first message only, for every answer takes a look at the whole batch.
    """
    if len(data) != stride * count or count < _MANY * len(head):
        return False
    return all(data[place::stride].count(byte) == count for place, byte in enumerate(head))


@lru_cache(maxsize=1024)
def _read_plain(written: bytes) -> SingleMessageMetadata | None:
    """Read metadata that is a payload's size and nothing else, once for many batches; None of any other."""
    try:
        metadata = SingleMessageMetadata.FromString(written)
    except UNREADABLE:
        return None
    return metadata if len(metadata.ListFields()) == 1 and metadata.IsInitialized() else None


@lru_cache(maxsize=1024)
def _cutter(head_size: int, payload_size: int) -> struct.Struct:
    """Give what cuts the payloads out of a run of messages."""
    return struct.Struct(f"{head_size}x{payload_size}s")


def _read_head(data: bytes, at: int, known: _Known) -> tuple[bytes, SingleMessageMetadata | bytes, int]:
    """Read what comes before the payload at `at`: give its bytes, what to keep of it, and the payload's size."""
    start = at + _SIZE.size
    if start > len(data):
        raise MalformedBatch("a batch that ends before its last message", min(at, len(data)), len(data))
    size: int = _SIZE.unpack_from(data, at)[0]
    end = start + size
    if end > len(data):
        what = f"message metadata of {size:,} bytes does not fit in the {len(data) - start:,} that follow its size"
        raise MalformedBatch(what, at, size)
    head = data[at:end]
    metadata = known.get(head)
    if metadata is not None:
        return head, metadata, metadata.payload_size
    written = data[start:end]
    if size <= _PLAIN:
        metadata = _read_plain(written)
    metadata = metadata or read_metadata(SingleMessageMetadata, written, start, MalformedBatch)
    payload_size = metadata.payload_size
    if payload_size < 0:
        raise MalformedBatch(f"a message declares a payload of {payload_size:,} bytes", start, size)
    if len(known) >= _MOST_KNOWN:
        return head, written, payload_size
    known[head] = metadata
    return head, metadata, payload_size


def encode_batch(messages: Iterable[tuple[Stored | None, Octets]]) -> bytes:
    """Write a batch of messages, each its metadata and payload. No metadata means none but the payload's size.

    Metadata that is written already is believed. An object that comes again and again is written once: it must not be
    changed while this runs.
    """
    parts: list[bytes] = []
    previous: SingleMessageMetadata | None = None
    head, head_size = b"", -1
    for metadata, payload in messages:
        data = payload if type(payload) is bytes else _payload(payload)
        if metadata is None:
            parts += (_plain_head(len(data)), data)
            continue
        if isinstance(metadata, bytes):
            parts += (_SIZE.pack(len(metadata)), metadata, data)
            continue
        if metadata is not previous:
            head, head_size, previous = _head(metadata), metadata.payload_size, metadata
        if head_size != len(data):
            what = f"a payload of {len(data):,} bytes, whose metadata says {head_size:,}"
            raise EncodeError(what, 0, len(data))
        parts += (head, data)
    if not parts:
        raise EncodeError("a batch has at least one message", 0, 0)
    return b"".join(parts)


def encode_plain_batch(payloads: Sequence[bytes]) -> bytes:
    """Write the same of messages of which nothing is said but the payload's size, in less time."""
    sizes = set(map(len, payloads))
    if len(sizes) == 1:
        head = _plain_head(*sizes)
        return head + head.join(payloads)
    return b"".join(chain.from_iterable(zip(map(_plain_head, map(len, payloads)), payloads, strict=True)))


def _payload(payload: Octets) -> bytes:
    try:
        return octets(payload)
    except TypeError as fault:
        raise EncodeError(f"a payload is bytes, not {type(payload).__name__}", 0, 0) from fault


def _head(metadata: SingleMessageMetadata) -> bytes:
    """Write what comes before the payload."""
    body = serialise(metadata)
    return _SIZE.pack(len(body)) + body


@lru_cache(maxsize=1024)
def _plain_head(payload_size: int) -> bytes:
    """Write what comes before a payload of this size, of a message without a key, properties or the like."""
    if payload_size > _LARGEST_PAYLOAD:
        raise EncodeError("a message in a batch is at most 2^31 - 1 bytes long", 0, payload_size)
    return _head(SingleMessageMetadata(payload_size=payload_size))
