"""What one task reads: the messages of one partition from one position up to another."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from pulsar_actors.spark.position import Position

__all__ = ["Span"]


@dataclass(frozen=True)
class Span(InputPartition):
    """Messages of `topic`, which is a partition or has none.

    `moved` says that somebody else has moved the subscription that kept the messages from here on, and how.
    """

    topic: str
    start: Position
    end: Position
    moved: str | None = None
