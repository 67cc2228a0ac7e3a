"""The one consumer of an Exclusive or Failover subscription that is served; the others of a Failover stand by.

In Failover it is one of those with the lowest priority level. On a partition they are put in the order of their names
and the partition's number counts through them, so that the partitions of a topic are spread over its consumers. On a
topic without partitions each puts a hundred points on a ring of hashes, and the first point from the hash of the topic
on decides, so that many topics are spread likewise. Both are Pulsar's ways, so the same consumer is chosen.
"""

from pulsar_actors.broker.model.choices import Choice
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.machines.ledgers.hashing import HASHES, HashingScheme
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ServerError
from pulsar_actors.wire.topic_name import TopicName

_POINTS = 100
_hash = HASHES[HashingScheme.MURMUR3_32]


class ActiveConsumer(Choice):
    """The consumers of an Exclusive or Failover subscription."""

    __slots__ = ("_topic", "active")

    def __init__(self, topic: TopicName) -> None:
        super().__init__()
        self._topic = topic
        self.active: Consumer | None = None

    def add(self, consumer: Consumer) -> None:
        """Take one more; in Exclusive it must be the only one."""
        if self.consumers and consumer.kind == CommandSubscribe.SubType.Exclusive:
            raise Refusal(ServerError.ConsumerBusy, "Exclusive consumer is already connected")
        self.consumers.append(consumer)
        self._choose()

    def remove(self, consumer: Consumer) -> None:
        """Let one go; another may be active then."""
        self.consumers.remove(consumer)
        self._choose()

    def of(self, entry: StoredEntry) -> Consumer | None:
        """Give the active one, whatever the entry."""
        del entry
        return self.active if self.active is not None and self.active.available else None

    def announce(self) -> None:
        """Tell each consumer whether it is the active one; in Exclusive that goes without saying."""
        for consumer in self.consumers:
            if consumer.kind == CommandSubscribe.SubType.Failover:
                consumer.link.active(consumer is self.active)

    def _choose(self) -> None:
        if not self.consumers:
            self.active = None
            return
        self.consumers.sort(key=lambda consumer: (consumer.request.priority_level, consumer.name))
        first_level = self.consumers[0].request.priority_level
        foremost = [consumer for consumer in self.consumers if consumer.request.priority_level == first_level]
        partition = self._topic.partition_index
        self.active = foremost[partition % len(foremost)] if partition >= 0 else self._first_on_ring(foremost)

    def _first_on_ring(self, consumers: list[Consumer]) -> Consumer:
        if len(consumers) == 1:
            return consumers[0]
        ring = {_hash(f"{consumer.name}{point}"): consumer for consumer in consumers for point in range(_POINTS)}
        start = _hash(str(self._topic))
        behind = [point for point in ring if point >= start]
        return ring[min(behind or ring)]
