"""The plan of a batch: positions of bounds, the split of spans into more tasks, and the limits of a stream's batch.

A limit of messages is exact: `message_counter.py` counts them. One of bytes is not: `admin_stats.py` estimates the
bytes between two positions. There each partition gets at least one entry, because the stream would not go on otherwise.
With statistics, each partition gets a share in proportion to its backlog, so that all reach their ends together.

A minimum of messages delays a batch until there are so many, or until the last one was long ago. Nothing is delayed
after a restart, when that is not known, nor in a query that ends where its topics end.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from pyspark.sql.datasource import InputPartition

from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.receiving import receiving_internals
from pulsar_actors.spark.admin_stats import AdminStats
from pulsar_actors.spark.message_counter import MessageCounters
from pulsar_actors.spark.offset_bounds import AtTime, Latest, OffsetBound
from pulsar_actors.spark.offsets import Offsets, Span
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.read_task import MISS_NOTHING, NoMessageInTime, first_position, next_entry, none_came
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TopicPosition

__all__ = ["TriggerLimits", "resolve", "split_further"]


def resolve(client: Client, topic: TopicName, bound: OffsetBound, options: ReadOptions) -> TopicPosition:
    """Return the position of a bound."""
    if isinstance(bound, TopicPosition):
        return bound
    with client.create_reader(
        str(topic), MessageId.earliest, receiver_queue_size=0, subscription_role_prefix=options.prefix, **MISS_NOTHING
    ) as reader:
        return _position_after_last(reader) if isinstance(bound, Latest) else _position_at_time(reader, bound, options)


def _position_after_last(reader: Reader) -> TopicPosition:
    return TopicPosition.after(receiving_internals(reader).last_message().message_id)


def _position_at_time(reader: Reader, bound: AtTime, options: ReadOptions) -> TopicPosition:
    """Return the position of the first entry of a time, or else the end of the topic.

    If the entry cannot be read, that is for the task to report.
    """
    end = _position_after_last(reader)
    reader.seek(bound.ms)
    if not reader.has_message_available():
        return end
    try:
        contents = next_entry(reader, options.poll_timeout_ms)
    except NoMessageInTime:
        raise none_came(reader.topic(), f"{bound.ms} (ms since 1970)", options) from None
    skipped, _ = receiving_internals(reader).take_skipped()
    unreadable = (TopicPosition(*one.entry) for one in skipped)
    return min([end if contents is None else first_position(contents), *unreadable])


def split_further(spans: Sequence[Span], options: ReadOptions) -> list[InputPartition]:
    """Split spans if there are fewer than `minPartitions`; each gets tasks in proportion to its entries."""
    if len(spans) >= options.min_partitions or not spans:
        return list(spans)
    with closing(AdminStats(options.cluster)) as statistics:
        ledgers = [statistics.ledgers(TopicName.parse(span.topic)) for span in spans]
    counts = [one.entries(span.start, span.end) for one, span in zip(ledgers, spans, strict=True)]
    total = sum(counts)
    parts: list[InputPartition] = []
    for span, one, count in zip(spans, ledgers, counts, strict=True):
        share = -(-options.min_partitions * count // total) if total else 1
        cuts = one.split(span.start, span.end, share)
        parts += [replace(span, start=start, end=end) for start, end in cuts]
    return parts


class TriggerLimits:
    """The limits of one stream's batches."""

    def __init__(self, options: ReadOptions, client: Client) -> None:
        self._messages = options.max_messages
        self._bytes = options.max_bytes
        self._least = options.min_messages
        self._longest_delay = options.longest_delay_seconds
        self._counters = MessageCounters(client, options)
        self._statistics = None if options.cluster.admin_url is None else AdminStats(options.cluster)
        self._last_batch_at: float | None = None
        self.delays = True  # as long as the end of the query is open

    def limit(
        self, start: Offsets, ends: Mapping[TopicName, TopicPosition], now: float
    ) -> Mapping[TopicName, TopicPosition]:
        """Move the ends of a batch back to the limits; to its start, if it is to be delayed."""
        starts = {topic: start.at(topic) for topic, end in ends.items() if start.at(topic) < end}
        self._counters.close_others(ends)
        limited = dict(ends)
        if self._messages is not None:
            weights = {topic: self._backlog(topic, at, ends[topic]) for topic, at in starts.items()}
            _, positions = self._counters.positions_after(self._messages, starts, ends, weights)
            limited |= positions
        if self._is_delayed(starts, ends, now):
            return start.positions
        if self._bytes is not None and self._statistics is not None:
            ledgers = {topic: self._statistics.ledgers(topic) for topic in starts}
            sizes = {topic: ledgers[topic].size(at, limited[topic]) for topic, at in starts.items()}
            for topic, share in _shares(sizes, self._bytes).items():
                limited[topic] = ledgers[topic].after_bytes(starts[topic], limited[topic], share)
        return limited

    def _is_delayed(
        self, starts: Mapping[TopicName, TopicPosition], ends: Mapping[TopicName, TopicPosition], now: float
    ) -> bool:
        """Return whether the minimum is not there yet. A batch is delayed no longer than it says since the last one."""
        may_be_late = self._last_batch_at is None or now - self._last_batch_at >= self._longest_delay
        if self._least is not None and self.delays and not may_be_late:
            count, _ = self._counters.positions_after(self._least, starts, ends, dict.fromkeys(starts, 1.0))
            if count < self._least:
                return True
        if starts:
            self._last_batch_at = now
        return False

    def _backlog(self, topic: TopicName, start: TopicPosition, end: TopicPosition) -> float:
        return 1.0 if self._statistics is None else self._statistics.ledgers(topic).messages(start, end)

    def backlog(self, start: Offsets, ends: Mapping[TopicName, TopicPosition]) -> dict[str, int]:
        """Return how much has not been read, for the query's progress; nothing without statistics."""
        if self._statistics is None:
            return {}
        unread = [(topic, start.at(topic), end) for topic, end in ends.items() if start.at(topic) < end]
        ledgers = [(self._statistics.ledgers(topic), at, end) for topic, at, end in unread]
        return {
            "partitionsBehind": len(unread),
            "entriesBehind": sum(one.entries(at, end) for one, at, end in ledgers),
            "messagesBehind": sum(one.messages(at, end) for one, at, end in ledgers),
            "bytesBehind": round(sum(one.size(at, end) for one, at, end in ledgers)),
        }

    def close(self) -> None:
        """Close the connections to the web server."""
        if self._statistics is not None:
            self._statistics.close()


def _shares(sizes: Mapping[TopicName, float], most: int) -> dict[TopicName, float]:
    """Divide the limit in proportion to the sizes; return no shares if everything is within the limit."""
    total = sum(sizes.values())
    return {topic: most * size / total for topic, size in sizes.items()} if total > most else {}
