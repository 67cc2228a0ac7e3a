"""What a producer or consumer is told when the broker lets it go.

A close says so, and may name the broker that has the topic now. Of a topic that goes to another cluster something else
is said first, with the address of that cluster; the close that follows names nobody.
"""

from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.session.answers import BROKERS_REQUEST
from pulsar_actors.broker.session.session import Session
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseConsumer, CommandCloseProducer, CommandTopicMigrated

__all__ = ["close_consumer", "close_producer"]


def close_producer(session: Session, producer_id: int, moved_to: Address | None) -> None:
    """Let a producer go."""
    _say_migrated(session, CommandTopicMigrated.Producer, producer_id, moved_to)
    close = CommandCloseProducer(producer_id=producer_id, request_id=BROKERS_REQUEST)
    session.send(_naming(close, moved_to))


def close_consumer(session: Session, consumer_id: int, moved_to: Address | None) -> None:
    """Let a consumer go."""
    _say_migrated(session, CommandTopicMigrated.Consumer, consumer_id, moved_to)
    close = CommandCloseConsumer(consumer_id=consumer_id, request_id=BROKERS_REQUEST)
    session.send(_naming(close, moved_to))


def _say_migrated(
    session: Session, kind: "CommandTopicMigrated.ResourceType.ValueType", number: int, moved_to: Address | None
) -> None:
    if moved_to is not None and moved_to.is_cluster:
        session.send(
            CommandTopicMigrated(
                resource_type=kind,
                resource_id=number,
                brokerServiceUrl=moved_to.service_url or None,
                brokerServiceUrlTls=moved_to.service_url_tls or None,
            )
        )


def _naming(
    close: CommandCloseProducer | CommandCloseConsumer, moved_to: Address | None
) -> CommandCloseProducer | CommandCloseConsumer:
    if moved_to is not None and not moved_to.is_cluster:
        if moved_to.service_url:
            close.assignedBrokerServiceUrl = moved_to.service_url
        if moved_to.service_url_tls:
            close.assignedBrokerServiceUrlTls = moved_to.service_url_tls
    return close
