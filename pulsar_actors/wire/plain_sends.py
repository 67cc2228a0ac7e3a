"""SEND of messages that travel alone and say nothing of themselves, put together by hand.

Where a producer does not batch, most of what a message costs is the making of its command and its metadata. Of these,
only the sequence id differs from one message to the next; so the rest is written once for many. `packing.py` writes the
same by way of protobuf, for messages of all kinds, and a test holds the two against each other.
"""

from pulsar_actors.wire.commands import wrap_command
from pulsar_actors.wire.entries import wrap_entry
from pulsar_actors.wire.frames import wrap_frame
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, MessageMetadata
from pulsar_actors.wire.varint import varint

__all__ = ["PlainSends"]

_SMALL = 4096
"""In bytes: a payload that is cheaper to copy than to hand to the socket by itself."""

_NO_ID = varint(0)
"""What stands where the sequence id will be; both messages are written in the order of their fields' numbers."""


class PlainSends:
    """Those of one producer, with metadata that is alike but for the sequence id."""

    __slots__ = ("_command", "_metadata_after", "_metadata_before")

    def __init__(self, producer_id: int, metadata: MessageMetadata) -> None:
        command = CommandSend(producer_id=producer_id, sequence_id=0)
        self._command = command.SerializeToString().removesuffix(_NO_ID)
        before = MessageMetadata(producer_name=metadata.producer_name, sequence_id=0)
        self._metadata_before = before.SerializePartialToString().removesuffix(_NO_ID)
        after = MessageMetadata()
        after.CopyFrom(metadata)
        after.ClearField("producer_name")
        after.ClearField("sequence_id")
        self._metadata_after = after.SerializePartialToString()

    def frame(self, sequence_id: int, payload: bytes) -> tuple[list[bytes | memoryview], int]:
        """Write one: give its buffers, and the size of the entry in it."""
        number = varint(sequence_id)
        entry = wrap_entry(self._metadata_before + number + self._metadata_after, payload)
        frame = wrap_frame(wrap_command(CommandSend, self._command + number), *entry)
        return [b"".join(frame)] if len(payload) < _SMALL else frame, len(entry[0]) + len(payload)
