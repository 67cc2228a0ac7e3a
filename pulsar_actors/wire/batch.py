"""Batches: several messages in the payload of one entry.

Each message is the size of its own metadata (4 bytes, big-endian), a SingleMessageMetadata, and its payload, whose size
that metadata gives. Nothing ends a batch but its last message; how many there are stands in the entry's metadata as
`num_messages_in_batch`. That this field is there, even saying 1, means that the payload is a batch; its default of 1
does not.

Messages of one batch mostly have the same metadata (a size and nothing else, when they have no keys or properties), and
protobuf is the larger part of the cost. So both ways do it once for a run of equals: splitting compares each message's
first bytes with those of the one before, and shares the metadata object; writing does the same with the object.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.message import EncodeError as ProtobufEncodeError

from pulsar_actors.wire.errors import EncodeError, MalformedBatch
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata, SingleMessageMetadata

__all__ = ["SingleMessage", "encode_batch", "is_batch", "split_batch"]

_SIZE = struct.Struct(">I")
_SMALLEST_MESSAGE = _SIZE.size + 2  # its metadata has at least the payload's size, a tag and a digit
_LARGEST_PAYLOAD = 2**31 - 1


class SingleMessage(NamedTuple):
    """One message of a batch. Messages may share the metadata object: do not change it."""

    metadata: SingleMessageMetadata
    payload: bytes


def is_batch(metadata: MessageMetadata) -> bool:
    """Tell whether the payload of an entry with this metadata is a batch."""
    return metadata.HasField("num_messages_in_batch")


def split_batch(payload: bytes | memoryview, count: int) -> list[SingleMessage]:
    """Split a batch, already decrypted and decompressed, into the messages that `num_messages_in_batch` declares.

    It is all or nothing: MalformedBatch says that the bytes are not that many messages, no fewer and no more. A batch
    has at least one.
    """
    data = bytes(payload)
    if not 0 < count <= len(data) // _SMALLEST_MESSAGE:
        what = f"a batch declares {count:,} messages, each of {_SMALLEST_MESSAGE} bytes or more, in {len(data):,} bytes"
        raise MalformedBatch(what, 0, len(data))
    messages: list[SingleMessage] = []
    at = 0
    while len(messages) < count:
        metadata, body = _read_metadata(data, at)
        head, size = data[at:body], metadata.payload_size
        at = after_first = body + size
        messages.append(SingleMessage(metadata, data[body:at]))
        stride = len(head) + size
        last_end = at + stride * (count - len(messages))
        while at < last_end and data.startswith(head, at):
            at += stride
        if at > after_first:  # a run: its messages lie at equal distances
            starts = range(after_first + len(head), at + len(head), stride)
            messages += map(
                SingleMessage._make, zip(repeat(metadata), [data[start : start + size] for start in starts])
            )
    # A payload that is cut short shows here too.
    if at != len(data):
        what = f"the {count:,} messages of a batch end at byte {at:,} of {len(data):,}"
        raise MalformedBatch(what, min(at, len(data)), len(data))
    return messages


def _read_metadata(data: bytes, at: int) -> tuple[SingleMessageMetadata, int]:
    """Read the metadata whose size is at `at`, and where it ends."""
    start = at + _SIZE.size
    if start > len(data):
        raise MalformedBatch("a batch that ends before its last message", min(at, len(data)), len(data))
    size: int = _SIZE.unpack_from(data, at)[0]
    end = start + size
    if end > len(data):
        what = f"message metadata of {size:,} bytes does not fit in the {len(data) - start:,} that follow its size"
        raise MalformedBatch(what, at, size)
    try:
        metadata = SingleMessageMetadata.FromString(data[start:end])
    except (DecodeError, ValueError) as fault:
        raise MalformedBatch(f"protobuf can not read a SingleMessageMetadata: {fault}", start, size) from fault
    if not metadata.IsInitialized():
        missing = ", ".join(metadata.FindInitializationErrors())  # type: ignore[attr-defined] # the stub lacks it
        raise MalformedBatch(f"SingleMessageMetadata without its required {missing}", start, size)
    if metadata.payload_size < 0:
        raise MalformedBatch(f"a message declares a payload of {metadata.payload_size:,} bytes", start, size)
    return metadata, end


def encode_batch(messages: Iterable[tuple[SingleMessageMetadata | None, bytes]]) -> bytes:
    """Write a batch of messages, each its metadata and payload. No metadata means none but the payload's size.

    A metadata object that comes again and again is written once: it must not be changed while this runs.
    """
    parts: list[bytes] = []
    previous: SingleMessageMetadata | None = None
    head, head_size = b"", -1
    for metadata, payload in messages:
        if metadata is None:
            parts += (_plain_head(len(payload)), payload)
            continue
        if metadata is not previous:
            head, head_size, previous = _head(metadata), metadata.payload_size, metadata
        if head_size != len(payload):
            what = f"a payload of {len(payload):,} bytes, whose metadata says {head_size:,}"
            raise EncodeError(what, 0, len(payload))
        parts += (head, payload)
    if not parts:
        raise EncodeError("a batch has at least one message", 0, 0)
    return b"".join(parts)


def _head(metadata: SingleMessageMetadata) -> bytes:
    """Write what comes before the payload."""
    try:
        body = metadata.SerializeToString()
    except ProtobufEncodeError as fault:
        raise EncodeError(str(fault), 0, 0) from fault
    return _SIZE.pack(len(body)) + body


@lru_cache(maxsize=1024)
def _plain_head(payload_size: int) -> bytes:
    """Write what comes before a payload of this size, of a message without a key, properties or the like."""
    if payload_size > _LARGEST_PAYLOAD:
        raise EncodeError("a message in a batch is at most 2^31 - 1 bytes long", 0, payload_size)
    return _head(SingleMessageMetadata(payload_size=payload_size))
