"""The commands that close a producer or a consumer on the broker's initiative.

A close may name the broker that has the topic now. If the topic moves to another cluster, TOPIC_MIGRATED with the
address of that cluster comes first, and the close names no broker.
"""

from pulsar_actors.broker.model.interfaces import Address
from pulsar_actors.broker.session.answers import NO_REQUEST_ID
from pulsar_actors.broker.session.session import Session
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseConsumer, CommandCloseProducer, CommandTopicMigrated

__all__ = ["send_close_consumer", "send_close_producer"]


def send_close_producer(session: Session, producer_id: int, moved_to: Address | None) -> None:
    """Tell the client that its producer is closed, and where to go."""
    _send_topic_migrated(session, CommandTopicMigrated.Producer, producer_id, moved_to)
    close = CommandCloseProducer(producer_id=producer_id, request_id=NO_REQUEST_ID)
    session.send(_with_new_owner(close, moved_to))


def send_close_consumer(session: Session, consumer_id: int, moved_to: Address | None) -> None:
    """Tell the client that its consumer is closed, and where to go."""
    _send_topic_migrated(session, CommandTopicMigrated.Consumer, consumer_id, moved_to)
    close = CommandCloseConsumer(consumer_id=consumer_id, request_id=NO_REQUEST_ID)
    session.send(_with_new_owner(close, moved_to))


def _send_topic_migrated(
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


def _with_new_owner(
    close: CommandCloseProducer | CommandCloseConsumer, moved_to: Address | None
) -> CommandCloseProducer | CommandCloseConsumer:
    if moved_to is not None and not moved_to.is_cluster:
        if moved_to.service_url:
            close.assignedBrokerServiceUrl = moved_to.service_url
        if moved_to.service_url_tls:
            close.assignedBrokerServiceUrlTls = moved_to.service_url_tls
    return close
