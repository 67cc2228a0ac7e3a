"""SEND of messages that travel alone and say nothing of themselves, put together by hand.

Where a producer does not batch, most of what a message costs is the making of its command and its metadata. Of these,
only the sequence id differs from one message to the next; so the rest is written once for many. `packing.py` writes the
same by way of protobuf, for messages of all kinds, and a test holds the two against each other.
"""

import struct
from typing import NamedTuple

from pulsar_actors.wire.checksum import checksum
from pulsar_actors.wire.commands import wrap_command
from pulsar_actors.wire.entries import wrap_entry
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, MessageMetadata
from pulsar_actors.wire.varint import varint

__all__ = ["PlainSends"]

_SMALL = 4096
"""In bytes: a payload that is cheaper to copy than to hand to the socket by itself."""

_NO_ID = varint(0)
"""What stands where the sequence id will be; both messages are written in the order of their fields' numbers."""

_SIZES = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_SIZE = 4  # bytes of the size of a command
_MAGIC = 2  # bytes before the checksum


class _Shape(NamedTuple):
    """What frames have in common whose sequence ids take as many bytes."""

    command_size: int
    command_start: bytes
    magic: bytes
    metadata_start: bytes
    head_size: int  # of the entry, without the payload


class PlainSends:
    """Those of one producer, with metadata that is alike but for the sequence id."""

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
        self._shapes: dict[int, _Shape] = {}

    def frame(self, sequence_id: int, payload: bytes) -> tuple[tuple[bytes, ...], int]:
        """Write one: give its buffers, and the size of the entry in it."""
        number = varint(sequence_id)
        shape = self._shapes.get(len(number)) or self._shape(number)
        command_size, command_start, magic, metadata_start, entry_size = shape
        entry_size += len(payload)
        sizes = _SIZES.pack(_SIZE + command_size + entry_size, command_size)
        start = (sizes, command_start, number, magic)
        if len(payload) < _SMALL:
            checked = b"".join((metadata_start, number, self._after, payload))
            return (b"".join((*start, _CHECKSUM.pack(checksum(checked)), checked)),), entry_size
        sized = b"".join((metadata_start, number, self._after))
        return (b"".join((*start, _CHECKSUM.pack(checksum(sized, payload)), sized)), payload), entry_size

    def _shape(self, number: bytes) -> _Shape:
        """Find out how such frames look, by having one of them written by those who write all others."""
        command = wrap_command(CommandSend, self._command + number)
        head = bytes(wrap_entry(self._before + number + self._after, b"")[0])
        magic, sized = head[:_MAGIC], head[_MAGIC + _CHECKSUM.size :]
        start = sized.removesuffix(number + self._after)
        shape = _Shape(len(command), command.removesuffix(number), magic, start, len(head))
        self._shapes[len(number)] = shape
        return shape
