"""The micro-batches of a stream, as Spark's driver plans them: the start of a query, and the range of each batch.

`MicroBatchStream` answers Spark's calls. It finds the partitions of the topics, and asks the broker about each with the
stream's subscription. `SparkProgress`, one for each partition, decides where a batch ends, and which messages are lost.

`SubscriptionCursor` is the stream's subscription. Tasks read without it. Because of the subscription, brokers keep the
messages that are not read yet; those that have been read are acknowledged. It also finds the end of a topic, and shows
if the subscription was moved by others: by an administrator, or by a broker when messages expire.
"""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from pulsar_actors.client.client import Client, subscribe_to_existing
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.message_id import new_message_id
from pulsar_actors.client.receiving import receiving_internals
from pulsar_actors.exceptions import BrokerRefusal, InvalidConfiguration, PulsarException, TopicNotFound
from pulsar_actors.machines.chart import Effect, Event
from pulsar_actors.machines.spark_progress import (
    BeginBatch,
    EndBatch,
    FailOnDataLoss,
    LookAtPartition,
    PartitionMissing,
    PartitionSeen,
    PlanSpan,
    ReadSpan,
    SparkProgress,
    StopAt,
)
from pulsar_actors.runtime.log import LOG
from pulsar_actors.spark.client_pool import refusal_about
from pulsar_actors.spark.offset_bounds import AtTime, Latest
from pulsar_actors.spark.offsets import Offsets, Span
from pulsar_actors.spark.options import DEFAULT_PREFIX, ReadOptions
from pulsar_actors.spark.planning import TriggerLimits, resolve, split_further
from pulsar_actors.spark.read_task import fail_on_data_loss
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

__all__ = ["MicroBatchStream", "SubscriptionCursor"]


DISCOVERY_SECONDS: Final = 5.0
"""Seconds between two discoveries of partitions."""


class MicroBatchStream:
    """The stream of one query, with a client of its own."""

    def __init__(self, options: ReadOptions, discovery_seconds: float = DISCOVERY_SECONDS) -> None:
        self._options = options
        self._discovery_seconds = discovery_seconds
        self._client = options.cluster.client()
        self._limits = TriggerLimits(options, self._client)
        self._cursor: SubscriptionCursor | None = None
        self._partitions: list[TopicName] | None = None
        self._discovered_at = 0.0
        self._progress: dict[TopicName, SparkProgress] = {}
        self._stop_at: Mapping[TopicName, TopicPosition] | None = None  # the end of the query, once it is set
        self._last: Offsets | None = None

    def begin(self) -> Offsets:
        """Find the start of a new query, and create the subscription, so that brokers keep later messages."""
        options = self._options
        topics = self._discover()
        options.topics.require(topics)
        options.starting.check(topics, options.topics.awaited)
        cursor = self._cursor_of(self._subscription_name())
        cursor.subscribe(topics)
        self._refuse_future_time(topics)
        positions = {topic: self._initial_position(cursor, topic) for topic in topics}
        cursor.acknowledge(positions)
        self._last = Offsets(cursor.subscription, positions)
        return self._last

    def stop_at_current_end(self) -> None:
        """End the query where the topics end now. Its last batch waits for nothing."""
        self._limits.delays = False
        self._stop_at = {topic: resolve(self._client, topic, Latest(), self._options) for topic in self._discover()}
        for topic, progress in self._progress.items():
            progress.handle(StopAt(self._stop_at.get(topic)), time.monotonic())

    def last_end(self) -> Offsets:
        """Return the start of the next batch, for PySpark 4.1, which does not pass it.

        After a restart it is unknown.
        """
        return self._last or Offsets(self._subscription_name(), {})

    def latest(self, start: Offsets, *, is_limited: bool) -> Offsets:
        """Return the end of the next batch.

        The messages before its start are committed. Spark reports that commit only when there is another batch.
        """
        ends = self._batch_ends(start)
        self.acknowledge(start)
        limited = self._limits.limit(start, ends, time.monotonic()) if is_limited else ends
        return Offsets(start.subscription, limited)

    def progress_report(self, read: Offsets) -> dict[str, Any]:
        """Return the ends of the topics, and the backlog up to them, if statistics are available."""
        ends = {topic: progress.end for topic, progress in self._progress.items() if progress.end is not None}
        report = Offsets(read.subscription, ends).write()
        try:
            return {**report, **self._limits.backlog(read, ends)}
        except PulsarException as fault:  # missing statistics do not end a query
            LOG.warning("how far the query is behind cannot be told: %s", fault)
            return report

    def spans(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Return the spans that the tasks of a batch read."""
        self._last = end
        cursor = self._cursor_of(start.subscription)
        existing = set(self._discover())
        missing = PartitionMissing(is_in_offsets=True)  # it was there when the batch was planned for the first time
        spans: list[Span] = []
        for topic, until in end.positions.items():
            event = PlanSpan(start.at(topic), until) if topic in existing else missing
            for effect in self._decide(cursor, topic, event, missing):
                if isinstance(effect, ReadSpan):
                    moved = None if effect.moved_to is None else _moved_clause(start.subscription, effect.moved_to)
                    spans.append(Span(str(topic), effect.start, effect.end, moved))
                elif isinstance(effect, FailOnDataLoss):
                    fail_on_data_loss(f"{topic} {effect.what}", self._options)
        return split_further(spans, self._options)

    def acknowledge(self, read: Offsets) -> None:
        """Acknowledge the messages that have been read, so that brokers may delete them."""
        self._cursor_of(read.subscription).acknowledge(read.positions)

    def close(self) -> None:
        """Close the client. The subscription stays for a query that restarts from the checkpoint."""
        try:
            self._limits.close()
        finally:
            self._client.close()

    def _initial_position(self, cursor: "SubscriptionCursor", topic: TopicName) -> TopicPosition:
        """Find the start of a partition: from the options, or the position of a predefined subscription."""
        options = self._options
        if options.subscription is not None and not options.starting.is_given_for(topic):
            return cursor.look_at(topic).cursor or TOPIC_START
        return resolve(self._client, topic, options.starting.of(topic), options)

    def _refuse_future_time(self, topics: Sequence[TopicName]) -> None:
        """Refuse a startingTime in the future: the messages to skip until then could not be identified."""
        now = time.time() * 1000
        for topic in topics:
            bound = self._options.starting.of(topic)
            if isinstance(bound, AtTime) and bound.ms > now:
                raise InvalidConfiguration(f"startingTime of {topic} is {bound.ms - now:,.0f} ms ahead")

    def _batch_ends(self, start: Offsets) -> dict[TopicName, TopicPosition]:
        """Return the end of the next batch on each partition, including partitions that no longer exist."""
        cursor = self._cursor_of(start.subscription)
        existing = dict.fromkeys(self._discover())
        ends: dict[TopicName, TopicPosition] = {}
        losses: dict[str, list[TopicName]] = {}
        for topic in [*existing, *({*start.positions, *self._progress} - set(existing))]:
            missing = PartitionMissing(is_in_offsets=topic in start.positions)
            event = BeginBatch(start.positions.get(topic)) if topic in existing else missing
            for effect in self._decide(cursor, topic, event, missing):
                if isinstance(effect, EndBatch):
                    ends[topic] = effect.end
                elif isinstance(effect, FailOnDataLoss):
                    losses.setdefault(effect.what, []).append(topic)
        for what, topics in losses.items():
            fail_on_data_loss(f"{', '.join(map(str, sorted(topics)))} {what}", self._options)
        return ends

    def _decide(
        self, cursor: "SubscriptionCursor", topic: TopicName, event: Event, missing: PartitionMissing
    ) -> Iterable[Effect]:
        """Feed the `SparkProgress` of a partition an event, and ask the broker if an effect requires it.

        `missing` is the answer of a broker that does not have the partition: it was deleted after the discovery.
        """
        progress = self._progress.get(topic)
        if progress is None:
            progress = self._progress[topic] = SparkProgress()
            if self._stop_at is not None:
                progress.handle(StopAt(self._stop_at.get(topic)), time.monotonic())
        effects = progress.handle(event, time.monotonic())
        if any(isinstance(effect, LookAtPartition) for effect in effects):
            effects = progress.handle(_look(cursor, topic, missing), time.monotonic())
        if progress.is_over:
            del self._progress[topic]
            cursor.forget(topic)
        return effects

    def _subscription_name(self) -> str:
        """Return the subscription's name: the configured one, or a random one, which the checkpoint keeps."""
        return self._configured_name() or f"{DEFAULT_PREFIX}-{secrets.token_hex(8)}"

    def _configured_name(self) -> str | None:
        options = self._options
        return options.subscription or (None if options.prefix == DEFAULT_PREFIX else options.prefix)

    def _cursor_of(self, subscription: str) -> "SubscriptionCursor":
        if self._cursor is None:
            name = self._configured_name()
            if name not in {None, subscription}:
                raise InvalidConfiguration(
                    f"the subscription of this checkpoint is {subscription}, and the options name {name}: leave that "
                    "out, or begin with a new checkpoint"
                )
            self._cursor = SubscriptionCursor(self._client, subscription)
        return self._cursor

    def _discover(self) -> list[TopicName]:
        """List the partitions, from the broker if the last list is too old."""
        if self._partitions is None or time.monotonic() - self._discovered_at >= self._discovery_seconds:
            self._partitions = self._options.topics.partitions(self._client)
            self._discovered_at = time.monotonic()
        return self._partitions


def _look(
    cursor: "SubscriptionCursor", topic: TopicName, missing: PartitionMissing
) -> PartitionSeen | PartitionMissing:
    try:
        return cursor.look_at(topic)
    except TopicNotFound:
        return missing


def _moved_clause(subscription: str, moved_to: TopicPosition) -> str:
    return (
        f"the subscription {subscription} was moved to {moved_to.text(-1)}, by an administrator, or by "
        "the broker, which keeps messages no longer than its time to live and its backlog quota allow"
    )


class SubscriptionCursor:
    """The subscription of one stream, on all its partitions."""

    def __init__(self, client: Client, subscription: str) -> None:
        self._client = client
        self.subscription = subscription
        self._consumers: dict[TopicName, Consumer] = {}
        self._acknowledged: dict[TopicName, TopicPosition] = {}

    def subscribe(self, topics: Iterable[TopicName]) -> None:
        """Subscribe to partitions, so that brokers keep their messages, present and future."""
        for topic in topics:
            self._consumer_of(topic)

    def forget(self, topic: TopicName) -> None:
        """Close the consumer of a partition that does not exist any longer."""
        self._acknowledged.pop(topic, None)
        consumer = self._consumers.pop(topic, None)
        if consumer is not None:
            consumer.close_soon()

    def look_at(self, topic: TopicName) -> PartitionSeen:
        """Ask the broker for the end of a partition, and for the subscription's position."""
        last = receiving_internals(self._consumer_of(topic)).last_message()
        cursor = None if last.acknowledged is None else TopicPosition.after(last.acknowledged)
        return PartitionSeen(TopicPosition.after(last.message_id), cursor)

    def acknowledge(self, positions: Mapping[TopicName, TopicPosition]) -> None:
        """Acknowledge the messages before these positions, and wait for receipts: this process may end at any moment.

        An acknowledgement that fails is repeated with the next batch.
        """
        receipts = {topic: self._acknowledge(topic, position) for topic, position in positions.items()}
        for topic, receipt in receipts.items():
            try:
                if receipt is not None:
                    receipt.result()
                    self._acknowledged[topic] = positions[topic]
            except PulsarException as error:
                LOG.warning("%s was not told what has been read of %s: %s", self.subscription, topic, error)

    def _consumer_of(self, topic: TopicName) -> Consumer:
        """Return the partition's consumer. Unlike other consumers, it does not create a topic that was deleted."""
        consumer = self._consumers.get(topic)
        if consumer is None or not consumer.is_open:
            options = ConsumerOptions(
                str(topic),
                self.subscription,
                consumer_type=ConsumerType.Failover,  # an earlier driver may still be connected for a while
                initial_position=InitialPosition.Earliest,
                receiver_queue_size=0,
                ack_receipt_enabled=True,
                ack_grouping_time_ms=0,
            )
            try:
                consumer = self._consumers[topic] = subscribe_to_existing(self._client, options)
            except BrokerRefusal as refusal:
                raise refusal_about(f"no subscription {self.subscription} on {topic}", refusal) from refusal
        return consumer

    def _acknowledge(self, topic: TopicName, position: TopicPosition) -> "Future[None] | None":
        """Acknowledge the entry before a position; return None if its ledger has none, or if that was done before."""
        consumer = self._consumers.get(topic)
        if consumer is None or position.entry_id < 1 or self._acknowledged.get(topic) == position:
            return None
        before = WireMessageId(position.ledger_id, position.entry_id - 1, topic.partition_index)
        return consumer.acknowledge_cumulative_async(new_message_id(before, str(topic)))
