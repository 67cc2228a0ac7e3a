"""The offset of a stream, as Spark keeps it in a checkpoint: JSON that can be read.

    {"subscription": "spark-pulsar-3f9c…", "positions": {"persistent://public/default/orders-partition-0": "12:6"}}

A position is what comes next. The subscription is what keeps the messages from there on at the broker; its name is kept
here, for a query that goes on from a checkpoint has nothing else to know it by.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Offsets"]


class Offsets(NamedTuple):
    """How far all partitions have come."""

    subscription: str
    positions: Mapping[TopicName, Position]

    @classmethod
    def read(cls, offset: Mapping[str, Any]) -> "Offsets":
        """Read what `write` gave."""
        try:
            positions = {TopicName.parse(topic): Position.parse(text) for topic, text in offset["positions"].items()}
            return cls(str(offset["subscription"]), positions)
        except (KeyError, TypeError, AttributeError, InvalidArgument) as fault:
            raise InvalidArgument(f"the checkpoint has an offset that is none of this source: {fault!r}") from fault

    def at(self, topic: TopicName) -> Position:
        """Tell how far a partition has come; one that was not there has been read nothing of."""
        return self.positions.get(topic, EARLIEST)

    def write(self) -> dict[str, Any]:
        """Give it as JSON has it: the same for the same, for Spark compares the text."""
        positions = {str(topic): at.text(topic.partition_index) for topic, at in sorted(self.positions.items())}
        return {"subscription": self.subscription, "positions": positions}
