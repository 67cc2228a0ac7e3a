"""Consumers: attached, given messages, let go."""

from collections.abc import Sequence
from typing import Final

from pulsar_actors.broker.model.links import Address, Delivery
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.broker.session.farewells import close_consumer
from pulsar_actors.broker.session.places import position_of
from pulsar_actors.broker.session.schemas import schema_of
from pulsar_actors.broker.session.serving import served_here
from pulsar_actors.broker.session.session import Attached, Session
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.machines.ledgers.ack_set import to_words
from pulsar_actors.wire.entries import encode_broker_metadata
from pulsar_actors.wire.ids import signed, unsigned
from pulsar_actors.wire.PulsarApi_pb2 import (
    BrokerEntryMetadata,
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandFlow,
    CommandMessage,
    CommandReachedEndOfTopic,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    MessageIdData,
    ServerError,
)

__all__ = ["HANDLERS", "attached"]


class SessionConsumer:
    """What the model says to a consumer, on its way to the client.

    What it says while the consumer is being attached waits until the client has been told that it is.
    """

    __slots__ = ("_adds_metadata", "_consumer_id", "_early", "_partition", "_session")

    def __init__(self, session: Session, consumer_id: int, partition: int) -> None:
        self._session = session
        self._consumer_id = consumer_id
        self._partition = partition
        self._early: list[CommandActiveConsumerChange | CommandReachedEndOfTopic] | None = []
        self._adds_metadata = session.here.broker_entry_metadata and session.features.supports_broker_entry_metadata

    def begin(self) -> None:
        """Say what had to wait."""
        early, self._early = self._early or [], None
        for command in early:
            self._session.send(command)

    def deliver(self, deliveries: Sequence[Delivery], consumer_epoch: int) -> None:
        """Send the entries."""
        session, consumer_id = self._session, self._consumer_id
        for entry, redelivery_count, ack_set in deliveries:
            message_id = MessageIdData(
                ledgerId=unsigned(entry.ledger_id), entryId=unsigned(entry.entry_id), partition=self._partition
            )
            command = CommandMessage(consumer_id=consumer_id, message_id=message_id)
            if redelivery_count:
                command.redelivery_count = redelivery_count
            if ack_set is not None:
                command.ack_set.extend(to_words(ack_set))
            if consumer_epoch >= 0:
                command.consumer_epoch = consumer_epoch
            if self._adds_metadata:
                ahead = BrokerEntryMetadata(broker_timestamp=entry.broker_timestamp, index=entry.index)
                session.send(command, (encode_broker_metadata(ahead), entry.data))
            else:
                session.send(command, (entry.data,))

    def has_room(self) -> bool:
        """Tell whether the connection takes more."""
        return self._session.has_room()

    def active(self, is_active: bool) -> None:  # noqa: FBT001 - as the model calls it
        """Say whose turn it is."""
        self._say(CommandActiveConsumerChange(consumer_id=self._consumer_id, is_active=is_active))

    def reached_end(self) -> None:
        """Say that nothing more will come."""
        self._say(CommandReachedEndOfTopic(consumer_id=self._consumer_id))

    def closed(self, moved_to: Address | None) -> None:
        """Say that it is gone, and perhaps where to."""
        self._session.consumers.pop(self._consumer_id, None)
        close_consumer(self._session, self._consumer_id, moved_to)

    def _say(self, command: CommandActiveConsumerChange | CommandReachedEndOfTopic) -> None:
        if self._early is not None:
            self._early.append(command)
        else:
            self._session.send(command)


def attached(session: Session, consumer_id: int) -> Attached:
    """Find a consumer of this connection; Refusal, in Pulsar's own words, if it has none of that id."""
    found = session.consumers.get(consumer_id)
    if found is None:
        raise Refusal(ServerError.MetadataError, "Consumer not found")
    return found


def on_subscribe(session: Session, asked: CommandSubscribe, _: memoryview) -> None:
    """Attach it, or say again that it is attached; or send it on to another cluster, without an answer."""
    if asked.consumer_id not in session.consumers:
        name = served_here(session, asked.topic)
        migrating = session.here.cluster.migrations.target_of(name, asked.subscription)
        if migrating is not None:
            close_consumer(session, asked.consumer_id, migrating)
            return
        topic = session.here.cluster.open_topic(name, create=asked.force_topic_creation)
        link = SessionConsumer(session, asked.consumer_id, name.partition_index)
        consumer = topic.subscribe(_request(session, asked), link)
        session.consumers[asked.consumer_id] = Attached(consumer, name.partition_index)
        session.send(CommandSuccess(request_id=asked.request_id))
        link.begin()
    else:
        session.send(CommandSuccess(request_id=asked.request_id))


def on_flow(session: Session, flow: CommandFlow, _: memoryview) -> None:
    """Give it permits; for one that is gone they mean nothing."""
    found = session.consumers.get(flow.consumer_id)
    if found is not None:
        found.consumer.flow(flow.messagePermits)


def on_unsubscribe(session: Session, asked: CommandUnsubscribe, _: memoryview) -> None:
    """Delete its subscription, and let it go."""
    attached(session, asked.consumer_id).consumer.unsubscribe(force=asked.force)
    session.consumers.pop(asked.consumer_id, None)
    session.send(CommandSuccess(request_id=asked.request_id))


def on_close_consumer(session: Session, asked: CommandCloseConsumer, _: memoryview) -> None:
    """Let it go; one that is not there is gone already."""
    found = session.consumers.pop(asked.consumer_id, None)
    if found is not None:
        found.consumer.close()
    session.send(CommandSuccess(request_id=asked.request_id))


def _request(session: Session, asked: CommandSubscribe) -> SubscribeRequest:
    key_shared = asked.keySharedMeta
    return SubscribeRequest(
        connection=session,
        consumer_id=asked.consumer_id,
        subscription=asked.subscription,
        kind=asked.subType,
        name=asked.consumer_name or None,
        priority_level=asked.priority_level,
        durable=asked.durable,
        earliest=asked.initialPosition == CommandSubscribe.Earliest,
        start=position_of(asked.start_message_id) if asked.HasField("start_message_id") else None,
        rollback_seconds=asked.start_message_rollback_duration_sec,
        read_compacted=asked.read_compacted,
        replicated=asked.replicate_subscription_state if asked.HasField("replicate_subscription_state") else None,
        schema=schema_of(asked.schema) if asked.HasField("schema") else None,
        key_shared_mode=key_shared.keySharedMode,
        hash_ranges=[(each.start, each.end) for each in key_shared.hashRanges],
        allow_out_of_order=key_shared.allowOutOfOrderDelivery,
        consumer_epoch=signed(asked.consumer_epoch) if asked.HasField("consumer_epoch") else -1,
        metadata={pair.key: pair.value for pair in asked.metadata},
        properties={pair.key: pair.value for pair in asked.subscription_properties},
        address=session.peer,
        client_version=session.version,
    )


HANDLERS: Final[Handlers] = {
    CommandSubscribe: on_subscribe,
    CommandFlow: on_flow,
    CommandUnsubscribe: on_unsubscribe,
    CommandCloseConsumer: on_close_consumer,
}
