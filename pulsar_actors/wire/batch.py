"""Batches: several messages in the payload of one entry.

Each message consists of the size of its metadata (4 bytes, big-endian), a SingleMessageMetadata, and a payload. The
metadata has the size of the payload. Size and metadata are called the head of the message here. Nothing marks the end
of a batch; the entry's metadata has the number of messages as `num_messages_in_batch`. A payload is a batch if this
field is present, even with the value 1; its default of 1 does not count.

Messages of one batch mostly have the same metadata (the payload's size and nothing else, if they have no keys or
properties), and parsing it is the larger part of the cost. So equal heads are parsed once for each batch, and a run of
messages with the same head is cut at equal distances by `struct`, the fastest way to do so. Whether a whole batch is
such a run is checked in few steps of Python's, too.

Half a kilobyte can inflate to a batch of a million messages, whose metadata as objects would take half a gigabyte. All
of it is parsed before the first message is handed out, since a batch is either whole or refused. But only the first
thousand different metadata are kept parsed; the others stay serialised, and are parsed again when needed.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import TypeAlias

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.entries import read_metadata
from pulsar_actors.wire.errors import EncodeError, MalformedBatch
from pulsar_actors.wire.protobuf import UNREADABLE, BytesLike, as_bytes, parse, serialise
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata, SingleMessageMetadata

__all__ = [
    "SMALLEST_MESSAGE",
    "LazyMetadata",
    "MessageColumns",
    "SingleMessage",
    "encode_batch",
    "encode_plain_batch",
    "is_batch",
    "metadata_of",
    "split_batch",
    "split_columns",
]


_SIZE = struct.Struct(">I")
SMALLEST_MESSAGE = _SIZE.size + 2
"""The size in bytes of the smallest message: the size of its metadata, and metadata of two bytes (the payload's size).
"""
_LARGEST_PAYLOAD = 2**31 - 1
_PLAIN = 6  # the most bytes of metadata that is only a payload's size: a tag, and 31 bits
_MANY = 64  # with so many messages for each byte of a head, comparing that byte in all of them at once is fastest
_SMALL = 1024  # the size of messages up to which joining them again, to compare the whole, is faster than a loop
_CUT_AT_ONCE = 100  # a tuple and an iterator for each payload would take four times as long
_MOST_KNOWN = 1_000  # different metadata to keep parsed in one batch

_Known: TypeAlias = dict[bytes, SingleMessageMetadata]


LazyMetadata: TypeAlias = SingleMessageMetadata | bytes
"""The metadata of one message, parsed or still serialised."""


class SingleMessage(NamedTuple):
    """One message of a batch."""

    lazy_metadata: LazyMetadata
    payload: bytes

    @property
    def metadata(self) -> SingleMessageMetadata:
        """The parsed metadata. Messages may share it, so do not change it; read its strings through `readable`."""
        return metadata_of(self.lazy_metadata)


class MessageColumns(NamedTuple):
    """All messages of a batch as columns, which takes no object for each message, and the size of all payloads."""

    metadata: list[LazyMetadata]
    payloads: list[bytes]
    octets: int


def metadata_of(lazy: LazyMetadata) -> SingleMessageMetadata:
    """Parse the metadata of a message, unless that is done already."""
    return parse(SingleMessageMetadata, lazy) if isinstance(lazy, bytes) else lazy


def is_batch(metadata: MessageMetadata) -> bool:
    """Return whether the payload of an entry with this metadata is a batch."""
    return metadata.HasField("num_messages_in_batch")


def split_batch(payload: BytesLike, count: int) -> list[SingleMessage]:
    """Split a batch, already decrypted and decompressed, into the messages that `num_messages_in_batch` declares.

    Raises MalformedBatch if the bytes are not exactly that many messages, or if `count` is 0.
    """
    metadata, payloads, _ = split_columns(payload, count)
    return list(map(SingleMessage, metadata, payloads))


def split_columns(payload: BytesLike, count: int, begin: int = 0) -> MessageColumns:
    """Split a batch like `split_batch`, into columns and in less time. The batch may begin inside the bytes."""
    data = as_bytes(payload)
    octets = len(data) - begin
    if not 0 < count <= octets // SMALLEST_MESSAGE:
        what = f"a batch declares {count:,} messages, each of {SMALLEST_MESSAGE} bytes or more, in {octets:,} bytes"
        raise MalformedBatch(what, begin, octets)
    known: _Known = {}
    head, metadata, size = _read_head(data, begin, known)
    stride = len(head) + size
    if octets == count * stride and data.startswith(head, begin + stride):
        alike = _payloads_if_alike(data, begin, head, size, count)
        if alike is not None:
            return MessageColumns([metadata] * count, alike, count * size)
    all_metadata: list[LazyMetadata] = []
    payloads: list[bytes] = []
    at, heads = begin, 0
    while len(payloads) < count:
        head, metadata, size = _read_head(data, at, known)
        start, stride = at, len(head) + size
        at += stride
        last_end = start + stride * (count - len(payloads))
        while at < last_end and data.startswith(head, at):
            at += stride
        if at > len(data):
            raise MalformedBatch(f"a message ends at byte {at:,} of a batch of {len(data):,}", len(data), len(data))
        if at == start + stride:
            all_metadata.append(metadata)
            payloads.append(data[start + len(head) : at])
            heads += len(head)
            continue
        run = (at - start) // stride
        all_metadata.extend(repeat(metadata, run))
        payloads.extend(_cut(memoryview(data)[start:at], len(head), size))
        heads += run * len(head)
    if at != len(data):
        what = f"the {count:,} messages of a batch end at byte {at:,} of {len(data):,}"
        raise MalformedBatch(what, min(at, len(data)), len(data))
    return MessageColumns(all_metadata, payloads, octets - heads)


def _payloads_if_alike(data: bytes, begin: int, head: bytes, size: int, count: int) -> list[bytes] | None:
    """Return the payloads if all messages have the same head. None also where a loop finds that out faster.

    In a large batch each byte of the head is compared in all messages at once. In others the payloads are cut out as if
    all heads were the same, and joined with that head again. Both read the whole batch, so this is done only once, for
    the head of the first message.
    """
    stride = len(head) + size
    if count >= _MANY * len(head):
        alike = all(data[offset::stride].count(byte) == count for offset, byte in enumerate(head, begin))
        return _cut(memoryview(data)[begin:], len(head), size) if alike else None
    if stride > _SMALL:
        return None
    payloads = _cut(memoryview(data)[begin:], len(head), size)
    return payloads if data.endswith(head.join((b"", *payloads))) else None


def _cut(run: memoryview, head_size: int, payload_size: int) -> list[bytes]:
    """Cut the payloads out of a run of messages of one size: many with each step of the iterator, and then the rest."""
    payloads: list[bytes] = []
    rest = 0
    if len(run) >= _CUT_AT_ONCE * (head_size + payload_size):
        many = _cutter(head_size, payload_size, _CUT_AT_ONCE)
        rest = len(run) - len(run) % many.size
        for cut in many.iter_unpack(run[:rest]):
            payloads += cut
    payloads.extend(chain.from_iterable(_cutter(head_size, payload_size, 1).iter_unpack(run[rest:])))
    return payloads


@lru_cache(maxsize=1024)
def _cutter(head_size: int, payload_size: int, messages: int) -> struct.Struct:
    """Return the struct that cuts the payloads out of so many messages of one size."""
    return struct.Struct(f"{head_size}x{payload_size}s" * messages)


@lru_cache(maxsize=1024)
def _read_plain(written: bytes) -> SingleMessageMetadata | None:
    """Parse metadata that is a payload's size and nothing else, once for many batches; None for any other."""
    metadata = _read_valid(written)
    return None if metadata is None or len(metadata.ListFields()) != 1 else metadata


def _read_valid(written: bytes) -> SingleMessageMetadata | None:
    """Parse metadata without a fault; None for any other."""
    try:
        metadata = SingleMessageMetadata.FromString(written)
    except UNREADABLE:
        return None
    return metadata if metadata.IsInitialized() else None


def _read_head(data: bytes, at: int, known: _Known) -> tuple[bytes, SingleMessageMetadata | bytes, int]:
    """Read the head of the message at `at`: return its bytes, the metadata to keep, and the payload's size."""
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
    metadata = _read_plain(written) if size <= _PLAIN else _read_valid(written)
    metadata = metadata or read_metadata(SingleMessageMetadata, written, start, MalformedBatch)
    payload_size = metadata.payload_size
    if payload_size < 0:
        raise MalformedBatch(f"a message declares a payload of {payload_size:,} bytes", start, size)
    if len(known) >= _MOST_KNOWN:
        return head, written, payload_size
    known[head] = metadata
    return head, metadata, payload_size


def encode_batch(messages: Iterable[tuple[LazyMetadata | None, BytesLike]]) -> bytes:
    """Write a batch of messages, each a pair of metadata and payload.

    None stands for metadata that has nothing but the payload's size. Serialised metadata is not checked. A metadata
    object that repeats is serialised once, so it must not change meanwhile.
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


def encode_plain_batch(payloads: Sequence[bytes], sizes: Sequence[int]) -> bytes:
    """Write a batch of messages whose metadata is the payload's size only, in less time than `encode_batch`."""
    if sizes.count(sizes[0]) == len(sizes):
        head = _plain_head(sizes[0])
        return head + head.join(payloads)
    return b"".join(chain.from_iterable(zip(map(_plain_head, sizes), payloads, strict=True)))


def _payload(payload: BytesLike) -> bytes:
    try:
        return as_bytes(payload)
    except TypeError as fault:
        raise EncodeError(f"a payload is bytes, not {type(payload).__name__}", 0, 0) from fault


def _head(metadata: SingleMessageMetadata) -> bytes:
    """Write the metadata after its size."""
    body = serialise(metadata)
    return _SIZE.pack(len(body)) + body


@lru_cache(maxsize=1024)
def _plain_head(payload_size: int) -> bytes:
    """Write the head of a message whose metadata is the payload's size only."""
    if payload_size > _LARGEST_PAYLOAD:
        raise EncodeError("a message in a batch is at most 2^31 - 1 bytes long", 0, payload_size)
    return _head(SingleMessageMetadata(payload_size=payload_size))
