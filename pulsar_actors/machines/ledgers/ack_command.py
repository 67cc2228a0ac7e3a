"""What one acknowledgement command says, before it is written."""

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from pulsar_actors.machines.ledgers.ack_set import to_words
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.wire.ids import unsigned
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, MessageIdData

Position = tuple[int, int, int]
Token = Any  # whatever the caller wants back when the acknowledgement has ended

WHOLE = sys.maxsize
"""The place in an entry that is after all its messages."""

NOWHERE: Position = (-1, -1, -1)
"""Before every position."""


class Acknowledged(NamedTuple):
    """One acknowledgement that waits for a receipt."""

    message_id: MessageId
    token: Token


class AckGroup(NamedTuple):
    """What one CommandAck says: entries, each with the set that is missing (0: nothing is)."""

    entries: tuple[tuple[EntryKey, int], ...]
    cumulative: bool = False
    validation_error: "CommandAck.ValidationError.ValueType | None" = None
    acknowledged: tuple[Acknowledged, ...] = ()

    @property
    def position(self) -> Position:
        """How far a cumulative group reaches."""
        (ledger_id, entry_id), missing = self.entries[0]
        lowest = (missing & -missing).bit_length() - 1
        return (ledger_id, entry_id, lowest - 1 if missing else WHOLE)

    def command(self, consumer_id: int) -> CommandAck:
        """Write the group."""
        return CommandAck(
            consumer_id=consumer_id,
            ack_type=CommandAck.AckType.Cumulative if self.cumulative else CommandAck.AckType.Individual,
            message_id=[
                MessageIdData(ledgerId=unsigned(ledger_id), entryId=unsigned(entry_id), ack_set=to_words(missing))
                for (ledger_id, entry_id), missing in self.entries
            ],
            validation_error=self.validation_error,
        )


def corrupt(entries: Iterable[EntryKey], error: "CommandAck.ValidationError.ValueType") -> AckGroup:
    """Acknowledge entries that cannot be read; this is not held back."""
    return AckGroup(tuple((entry, 0) for entry in entries), validation_error=error)
