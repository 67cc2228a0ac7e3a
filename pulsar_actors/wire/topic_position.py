"""A position in a topic: the message that comes next, whether it has been published yet or not.

Message ids have gaps, so a position is a ledger, an entry of the ledger, and a message of that entry: the first one
that has not been read. A range of messages goes from one position up to another position, and excludes the message
there. So adjacent ranges contain every message exactly once. A ledger does not say where it ends: the position after
its last entry names an entry that is never written, and reading continues with the next ledger.

As text a position is what Pulsar prints for a message id: `ledger:entry`, or `ledger:entry:partition:index` for a
message that is not the first of its batch; and `earliest`, for the start of the topic.
"""

import re
from typing import Final

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import MalformedMessageId
from pulsar_actors.wire.message_id import MessageId

__all__ = ["TOPIC_START", "TopicPosition"]


_TEXT: Final = re.compile(r"\(?(\d+)[:,](\d+)(?:[:,]-?\d+(?:[:,](-?\d+))?)?\)?")

_LARGEST: Final = 2**63 - 1
_LARGEST_INDEX: Final = 2**31 - 1
"""The numbers on the wire are no larger."""


class TopicPosition(NamedTuple):
    """The message with index `batch_index` in an entry. Positions are ordered as the messages of the topic are."""

    ledger_id: int
    entry_id: int
    batch_index: int = 0

    @classmethod
    def of(cls, message_id: MessageId) -> "TopicPosition":
        """Return the position of a message."""
        return cls(message_id.ledger_id, message_id.entry_id, max(0, message_id.batch_index))

    @classmethod
    def after(cls, message_id: MessageId) -> "TopicPosition":
        """Return the position after the entry of a message; `TOPIC_START` if no message has this id."""
        if message_id.ledger_id < 0:
            return TOPIC_START
        return cls(message_id.ledger_id, message_id.entry_id + 1)

    @property
    def is_first_of_its_ledger(self) -> bool:
        """True if no message of the ledger comes before it."""
        return self[1:] == (0, 0)

    @classmethod
    def parse(cls, text: str) -> "TopicPosition":
        """Read what `text` writes, or what Pulsar prints for a message id."""
        if text.strip().lower() == "earliest":
            return TOPIC_START
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InvalidArgument(f"a position is ledger:entry or ledger:entry:partition:index, not {text!r}")
        position = cls(int(match[1]), int(match[2]), max(0, int(match[3] or 0)))
        if max(position) > _LARGEST or position.batch_index > _LARGEST_INDEX:
            raise InvalidArgument(f"no message has the position {text!r}: a number is too large")
        return position

    @classmethod
    def deserialize(cls, data: bytes) -> "TopicPosition":
        """Read a serialized message id, such as Spark's column `__messageId` has."""
        try:
            return cls.of(MessageId.deserialize(data))
        except MalformedMessageId as fault:
            raise InvalidArgument(f"no position: {fault}") from fault

    def text(self, partition: int) -> str:
        """Write the position; `partition` is the index of the topic's partition, or -1."""
        if self == TOPIC_START:
            return "earliest"
        entry = f"{self.ledger_id}:{self.entry_id}"
        return f"{entry}:{partition}:{self.batch_index}" if self.batch_index else entry

    @property
    def message_id(self) -> MessageId:
        """The id of the message that comes next, for a reader whose start is inclusive."""
        return MessageId(self.ledger_id, self.entry_id, -1, self.batch_index or -1)


TOPIC_START: Final = TopicPosition(-1, -1)
"""The start of every topic."""
