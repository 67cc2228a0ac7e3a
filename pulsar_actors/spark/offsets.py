"""The offset of a stream, which Spark keeps in a checkpoint, and the span of messages that one task reads.

An offset is JSON that people can read:

    {"subscription": "spark-pulsar-3f9c…", "positions": {"persistent://public/default/orders-partition-0": "12:6"}}

Each position is that of the next message to read. Because of the subscription, the broker keeps the messages from there
on. The subscription's name is part of the offset because a query that restarts from a checkpoint has no other way to
find it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

__all__ = ["Offsets", "Span"]


class Offsets(NamedTuple):
    """The positions up to which all partitions have been read."""

    subscription: str
    positions: Mapping[TopicName, TopicPosition]

    @classmethod
    def read(cls, offset: Mapping[str, Any]) -> "Offsets":
        """Read the JSON value that `write` has returned."""
        try:
            positions = {
                TopicName.parse(topic): TopicPosition.parse(text) for topic, text in offset["positions"].items()
            }
            return cls(str(offset["subscription"]), positions)
        except (KeyError, TypeError, AttributeError, InvalidArgument) as fault:
            raise InvalidArgument(f"the checkpoint has an offset that is none of this source: {fault!r}") from fault

    def at(self, topic: TopicName) -> TopicPosition:
        """Return the position of a partition: the earliest, for a partition that the offset does not name."""
        return self.positions.get(topic, TOPIC_START)

    def write(self) -> dict[str, Any]:
        """Return the JSON value. Equal offsets give equal text, because Spark compares offsets as text."""
        positions = {str(topic): at.text(topic.partition_index) for topic, at in sorted(self.positions.items())}
        return {"subscription": self.subscription, "positions": positions}


@dataclass(frozen=True)
class Span(InputPartition):
    """The messages of `topic`, a partition or an unpartitioned topic, from `start` up to `end`, which is excluded.

    `moved` is set if another program has moved the subscription beyond `start`: a clause for the error message.
    """

    topic: str
    start: TopicPosition
    end: TopicPosition
    moved: str | None = None
