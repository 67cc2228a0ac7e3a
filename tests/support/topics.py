"""What tests ask of the topics of an embedded broker, or do to them, past all clients."""

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName


def create_partitioned(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(topic), partitions))


def grow(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    broker.call(lambda inside: inside.cluster.grow(TopicName.parse(topic), partitions))


def terminate(broker: EmbeddedBroker, topic: str) -> None:
    broker.call(lambda inside: open_topic(inside, topic).terminate())


def delete(broker: EmbeddedBroker, topic: str) -> None:
    broker.call(lambda inside: inside.cluster.delete_topic(TopicName.parse(topic), force=True))


def backlog(broker: EmbeddedBroker, topic: str, subscription: str = "s") -> int:
    return broker.call(lambda inside: open_topic(inside, topic).subscriptions[subscription].backlog())


def subscriptions(broker: EmbeddedBroker, topic: str) -> list[str]:
    return broker.call(lambda inside: list(open_topic(inside, topic).subscriptions))


def skip(broker: EmbeddedBroker, topic: str, entries: int | None = None) -> None:
    """Move each subscription beyond so many unacknowledged entries, or all, as brokers do when messages expire."""

    def move(inside: Broker) -> None:
        for subscription in open_topic(inside, topic).subscriptions.values():
            subscription.skip(entries)

    broker.call(move)


def messages_in(broker: EmbeddedBroker, topic: str) -> int:
    """Count the messages that were published to a topic."""
    return broker.call(lambda inside: open_topic(inside, topic).counters.messages_in)


def handles(broker: EmbeddedBroker, topic: str) -> int:
    """Count the producers and consumers that the broker knows on a topic."""

    def count(inside: Broker) -> int:
        found = open_topic(inside, topic)
        return len(found.producers) + sum(len(one.consumers) for one in found.subscriptions.values())

    return broker.call(count)


def open_topic(inside: Broker, topic: str) -> Topic:
    return inside.cluster.open_topic(TopicName.parse(topic))


def fail_deletion(topic: Topic, subscription: str = "s") -> None:
    """Let the deletion of a subscription fail."""

    def fail(_: Subscription) -> None:
        raise Refusal(ServerError.PersistenceError, "Bookie operation timeout")

    topic.subscriptions[subscription]._delete = fail
