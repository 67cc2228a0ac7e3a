"""Where reading begins and ends, as positions: what users said, once the broker has been asked."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from pyspark.sql.datasource import InputPartition

from pulsar_actors.client.client import Client
from pulsar_actors.client.consuming.reader import Reader
from pulsar_actors.client.consuming.receiving_handle import last_in
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.places import AtTime, Latest, Place
from pulsar_actors.spark.position import Position
from pulsar_actors.spark.span import Span
from pulsar_actors.spark.statistics import Statistics
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["resolve", "split_further"]

PROMPT: Final = 10_000
"""Milliseconds for a message that the broker says is there."""


def resolve(client: Client, topic: TopicName, place: Place, prefix: str) -> Position:
    """Make a position of a place."""
    if isinstance(place, Position):
        return place
    with client.create_reader(
        str(topic), MessageId.earliest, receiver_queue_size=0, subscription_role_prefix=prefix
    ) as reader:
        return _behind_last(reader) if isinstance(place, Latest) else _at_time(reader, place)


def _behind_last(reader: Reader) -> Position:
    return Position.behind(last_in(reader).message_id)


def _at_time(reader: Reader, place: AtTime) -> Position:
    """Find the first message of a time, or else the end of the topic."""
    end = _behind_last(reader)
    reader.seek(place.ms)
    if not reader.has_message_available():
        return end
    return Position.of(reader.read_next(PROMPT).message_id().wire)


def split_further(spans: Sequence[Span], options: ReadOptions) -> list[InputPartition]:
    """Cut spans into smaller ones, where more tasks are wanted than there are; each gets its share by its entries."""
    if len(spans) >= options.least_partitions or not spans:
        return list(spans)
    with closing(Statistics(options.cluster)) as statistics:
        ledgers = [statistics.ledgers(TopicName.parse(span.topic)) for span in spans]
    counts = [one.entries(span.start, span.end) for one, span in zip(ledgers, spans, strict=True)]
    whole = sum(counts)
    parts: list[InputPartition] = []
    for span, one, count in zip(spans, ledgers, counts, strict=True):
        share = -(-options.least_partitions * count // whole) if whole else 1
        cuts = one.split(span.start, span.end, share)
        parts += [replace(span, start=start, end=end) for start, end in cuts]
    return parts
