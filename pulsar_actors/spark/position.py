"""How far along a topic somebody is: what comes next, whether it is there yet or not.

Messages of a topic have no numbers without gaps, so a position is a ledger, an entry of it, and a message of that
entry: the first one that has not been read. A span of messages is from one position up to another, without the message
there, so that spans which meet have every message between them once. Ledgers follow each other without saying where one
ends: behind the last entry of one is an entry that never comes, and then the next ledger.

As text it is what Pulsar prints of message ids: `ledger:entry`, or `ledger:entry:partition:index` for a message that is
not the first of its batch; and `earliest`, for what comes before all.
"""

import re
from typing import Final, NamedTuple

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.errors import MalformedMessageId
from pulsar_actors.wire.message_id import MessageId

__all__ = ["EARLIEST", "Position"]

_TEXT: Final = re.compile(r"\(?(\d+)[:,](\d+)(?:[:,]-?\d+(?:[:,](-?\d+))?)?\)?")


class Position(NamedTuple):
    """What comes next: the message at a `batch_index` in an entry. They have an order, as their parts have it."""

    ledger_id: int
    entry_id: int
    batch_index: int = 0

    @classmethod
    def of(cls, message_id: MessageId) -> "Position":
        """Give the position of a message."""
        return cls(message_id.ledger_id, message_id.entry_id, max(0, message_id.batch_index))

    @classmethod
    def behind(cls, message_id: MessageId) -> "Position":
        """Give the position behind the entry of a message; behind none at all, the earliest."""
        if message_id.ledger_id < 0:
            return EARLIEST
        return cls(message_id.ledger_id, message_id.entry_id + 1)

    @property
    def is_first_of_its_ledger(self) -> bool:
        """Tell whether nothing in its ledger comes before it."""
        return self[1:] == (0, 0)

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read what `text` writes, or Pulsar for a message id."""
        if text.strip().lower() == "earliest":
            return EARLIEST
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InvalidArgument(f"a position is ledger:entry or ledger:entry:partition:index, not {text!r}")
        return cls(int(match[1]), int(match[2]), max(0, int(match[3] or 0)))

    @classmethod
    def deserialize(cls, data: bytes) -> "Position":
        """Read the bytes of a message id, as `__messageId` has them."""
        try:
            return cls.of(MessageId.deserialize(data))
        except MalformedMessageId as fault:
            raise InvalidArgument(f"no position: {fault}") from fault

    def text(self, partition: int) -> str:
        """Write it; `partition` is the number of the topic's, or -1."""
        if self == EARLIEST:
            return "earliest"
        entry = f"{self.ledger_id}:{self.entry_id}"
        return f"{entry}:{partition}:{self.batch_index}" if self.batch_index else entry

    @property
    def message_id(self) -> MessageId:
        """The id of the message that comes next, as a start that includes it."""
        return MessageId(self.ledger_id, self.entry_id, -1, self.batch_index or -1)


EARLIEST: Final = Position(-1, -1)
