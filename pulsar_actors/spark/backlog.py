"""What a stream has at the brokers, from its driver: a subscription that keeps what has not been read.

Tasks read without it. The subscription is here so that a broker keeps what is still to be read, and lets go of what has
been; it acknowledges what a batch has committed. And it tells where the topic ends, and whether anybody has moved it:
an administrator, or a broker that keeps messages for so long and no longer. A topic that was deleted is not made again
by it, as one that other consumers have is.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from pulsar_actors.client.client import Client, subscribe_to_existing
from pulsar_actors.client.consuming.consumer import Consumer
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.receiving_handle import last_in
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import BrokerRefusal, PulsarException
from pulsar_actors.runtime.log import LOG
from pulsar_actors.spark.position import Position
from pulsar_actors.spark.refusals import told_of
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Backlog", "Seen"]


class Seen(NamedTuple):
    """One partition as its broker sees it: where it ends, and what the subscription has next."""

    end: Position
    kept_from: Position | None


class Backlog:
    """The subscription of one stream, on all its partitions."""

    def __init__(self, client: Client, subscription: str) -> None:
        self._client = client
        self.subscription = subscription
        self._consumers: dict[TopicName, Consumer] = {}
        self._released: dict[TopicName, Position] = {}

    def watch(self, topics: Iterable[TopicName]) -> None:
        """Subscribe where that has not been done: what is there already, and what comes, is kept from now on."""
        for topic in topics:
            self._consumer_of(topic)

    def forget(self, topic: TopicName) -> None:
        """Leave a partition that is no more; should it be there again, it is another."""
        self._released.pop(topic, None)
        consumer = self._consumers.pop(topic, None)
        if consumer is not None:
            consumer.close_soon()

    def look(self, topic: TopicName) -> Seen:
        """Ask how far a partition goes."""
        last = last_in(self._consumer_of(topic))
        end = Position.behind(last.message_id)
        return Seen(end, None if last.acknowledged is None else Position.behind(last.acknowledged))

    def release(self, positions: Mapping[TopicName, Position]) -> None:
        """Let the brokers go of what is before these positions, and wait until they know: this process ends unasked.

        What cannot be done now is done with the next batch.
        """
        asked = {topic: self._acknowledge(topic, position) for topic, position in positions.items()}
        for topic, done in asked.items():
            try:
                if done is not None:
                    done.result()
                    self._released[topic] = positions[topic]
            except PulsarException as error:
                LOG.warning("%s was not told what has been read of %s: %s", self.subscription, topic, error)

    def _consumer_of(self, topic: TopicName) -> Consumer:
        consumer = self._consumers.get(topic)
        if consumer is None or not consumer.is_open:
            options = ConsumerOptions(
                str(topic),
                self.subscription,
                consumer_type=ConsumerType.Failover,  # a driver that was cut off may be there for a while
                initial_position=InitialPosition.Earliest,
                receiver_queue_size=0,
                ack_receipt_enabled=True,
                ack_grouping_time_ms=0,
            )
            try:
                consumer = self._consumers[topic] = subscribe_to_existing(self._client, options)
            except BrokerRefusal as refusal:
                raise told_of(f"no subscription {self.subscription} on {topic}", refusal) from refusal
        return consumer

    def _acknowledge(self, topic: TopicName, position: Position) -> "Future[None] | None":
        """Acknowledge the entry before a position; nothing, where there is none in its ledger, or that was done."""
        consumer = self._consumers.get(topic)
        if consumer is None or position.entry_id < 1 or self._released.get(topic) == position:
            return None
        before = WireMessageId(position.ledger_id, position.entry_id - 1, topic.partition_index)
        return consumer.acknowledge_cumulative_async(MessageId.wrap(before, str(topic)))
