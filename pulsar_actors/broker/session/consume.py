"""The handlers of SUBSCRIBE, FLOW, ACK, SEEK and the other commands of a consumer."""

from collections.abc import Sequence
from typing import Any, Final

from pulsar_actors.broker.model.consumer import AckedEntry
from pulsar_actors.broker.model.entry import Position
from pulsar_actors.broker.model.interfaces import Address, Delivery, Refusal
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.broker.model.stats import consumer_stats
from pulsar_actors.broker.session.close import send_close_consumer
from pulsar_actors.broker.session.lookup import require_served
from pulsar_actors.broker.session.schemas import schema_of
from pulsar_actors.broker.session.session import AttachedConsumer, CommandHandlers, Session
from pulsar_actors.machines.trackers.ack_set import from_words, to_words
from pulsar_actors.wire.entries import encode_broker_metadata
from pulsar_actors.wire.protobuf import signed, unsigned
from pulsar_actors.wire.PulsarApi_pb2 import (
    BrokerEntryMetadata,
    CommandAck,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandFlow,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandReachedEndOfTopic,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    MessageIdData,
    ServerError,
)
from pulsar_actors.wire.transaction_id import TransactionId, transaction_in

__all__ = ["CONSUME_HANDLERS", "id_of_position"]


def _position_in_id(message_id: MessageIdData) -> Position:
    """Return the position of a message id, whose numbers are unsigned on the wire."""
    return Position(signed(message_id.ledgerId), signed(message_id.entryId))


def id_of_position(position: Position) -> MessageIdData:
    """Return the message id of a position, without a partition."""
    return MessageIdData(ledgerId=unsigned(position.ledger_id), entryId=unsigned(position.entry_id))


class SessionConsumer:
    """The link of a consumer: it turns the model's calls into commands to the client.

    Commands about a consumer that is being attached wait until the client has the answer to SUBSCRIBE.
    """

    __slots__ = ("_adds_metadata", "_consumer_id", "_held", "_partition", "_session")

    def __init__(self, session: Session, consumer_id: int, partition: int) -> None:
        self._session = session
        self._consumer_id = consumer_id
        self._partition = partition
        self._held: list[CommandActiveConsumerChange | CommandReachedEndOfTopic] | None = []
        self._adds_metadata = session.context.broker_entry_metadata and session.features.supports_broker_entry_metadata

    def send_held(self) -> None:
        """Send the commands that waited for the answer to SUBSCRIBE."""
        early, self._held = self._held or [], None
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
        """Return whether the connection takes more."""
        return self._session.has_room()

    def active(self, is_active: bool) -> None:  # noqa: FBT001 - as the model calls it
        """Send ACTIVE_CONSUMER_CHANGE."""
        self._send_or_hold(CommandActiveConsumerChange(consumer_id=self._consumer_id, is_active=is_active))

    def reached_end(self) -> None:
        """Send REACHED_END_OF_TOPIC."""
        self._send_or_hold(CommandReachedEndOfTopic(consumer_id=self._consumer_id))

    def closed(self, moved_to: Address | None) -> None:
        """Send the close."""
        self._session.consumers.pop(self._consumer_id, None)
        send_close_consumer(self._session, self._consumer_id, moved_to)

    def _send_or_hold(self, command: CommandActiveConsumerChange | CommandReachedEndOfTopic) -> None:
        if self._held is not None:
            self._held.append(command)
        else:
            self._session.send(command)


def _attached_consumer(session: Session, consumer_id: int) -> AttachedConsumer:
    """Find a consumer of this connection; Refusal, in Pulsar's own words, for an unknown id."""
    found = session.consumers.get(consumer_id)
    if found is None:
        raise Refusal(ServerError.MetadataError, "Consumer not found")
    return found


def on_subscribe(session: Session, command: CommandSubscribe, _: bytes) -> None:
    """Attach a consumer, or confirm an attached one. If the topic moves to another cluster, that is the only answer."""
    if command.consumer_id not in session.consumers:
        name = require_served(session, command.topic)
        migrating = session.context.cluster.migrations.target_of(name, command.subscription)
        if migrating is not None:
            send_close_consumer(session, command.consumer_id, migrating)
            return
        topic = session.context.cluster.open_topic(name, create=command.force_topic_creation)
        link = SessionConsumer(session, command.consumer_id, name.partition_index)
        consumer = topic.subscribe(_subscribe_request(session, command), link)
        subscription = topic.subscriptions[command.subscription]
        session.consumers[command.consumer_id] = AttachedConsumer(consumer, subscription, name.partition_index)
        session.send(CommandSuccess(request_id=command.request_id))
        link.send_held()
    else:
        session.send(CommandSuccess(request_id=command.request_id))


def on_flow(session: Session, flow: CommandFlow, _: bytes) -> None:
    """Add permits; ignored for an unknown consumer."""
    found = session.consumers.get(flow.consumer_id)
    if found is not None:
        found.subscription.flow(found.consumer, flow.messagePermits)


def on_unsubscribe(session: Session, command: CommandUnsubscribe, _: bytes) -> None:
    """Close the consumer, and delete the subscription. If that fails the consumer stays closed, as in Apache Pulsar."""
    found = _attached_consumer(session, command.consumer_id)
    try:
        found.subscription.unsubscribe(found.consumer, force=command.force)
    finally:
        if found.consumer not in found.subscription.consumers:
            session.consumers.pop(command.consumer_id, None)
    session.send(CommandSuccess(request_id=command.request_id))


def on_close_consumer(session: Session, command: CommandCloseConsumer, _: bytes) -> None:
    """Close a consumer. An unknown consumer counts as closed."""
    found = session.consumers.pop(command.consumer_id, None)
    if found is not None:
        found.subscription.detach(found.consumer)
    session.send(CommandSuccess(request_id=command.request_id))


def _subscribe_request(session: Session, command: CommandSubscribe) -> SubscribeRequest:
    key_shared = command.keySharedMeta
    return SubscribeRequest(
        connection=session,
        consumer_id=command.consumer_id,
        subscription=command.subscription,
        subscription_type=command.subType,
        name=command.consumer_name or None,
        priority_level=command.priority_level,
        durable=command.durable,
        earliest=command.initialPosition == CommandSubscribe.Earliest,
        start=_position_in_id(command.start_message_id) if command.HasField("start_message_id") else None,
        rollback_seconds=command.start_message_rollback_duration_sec,
        read_compacted=command.read_compacted,
        replicated=command.replicate_subscription_state if command.HasField("replicate_subscription_state") else None,
        schema=schema_of(command.schema) if command.HasField("schema") else None,
        key_shared_mode=key_shared.keySharedMode,
        hash_ranges=[(each.start, each.end) for each in key_shared.hashRanges],
        allow_out_of_order=key_shared.allowOutOfOrderDelivery,
        consumer_epoch=signed(command.consumer_epoch) if command.HasField("consumer_epoch") else -1,
        metadata={pair.key: pair.value for pair in command.metadata},
        properties={pair.key: pair.value for pair in command.subscription_properties},
        address=session.peer,
        client_version=session.version,
    )


def on_ack(session: Session, ack: CommandAck, _: bytes) -> None:
    """Acknowledge, and answer if the client wants an answer. Ignored for an unknown consumer, as by a real broker.

    Messages that a client acknowledges with a validation error are acknowledged like any other. A cumulative
    acknowledgement that does not name exactly one message is ignored.
    """
    found = session.consumers.get(ack.consumer_id)
    if found is None:
        return
    acknowledged = [_acked_entry(message_id) for message_id in ack.message_id]
    transaction = transaction_in(ack)
    if transaction is not None:
        if not len(session.context.cluster.coordinators):
            raise Refusal(ServerError.NotAllowedError, "Server don't support transaction ack")
        _acknowledge_in_transaction(found, ack, acknowledged, transaction)
    elif ack.ack_type == CommandAck.Individual:
        found.subscription.acknowledge(found.consumer, acknowledged)
    elif len(acknowledged) == 1:
        found.subscription.acknowledge_cumulative(acknowledged[0])
    if ack.HasField("request_id"):
        session.send(CommandAckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id))


def _acknowledge_in_transaction(
    found: AttachedConsumer, ack: CommandAck, acknowledged: list[AckedEntry], transaction: TransactionId
) -> None:
    if ack.ack_type == CommandAck.Individual:
        found.subscription.acknowledge_in_transaction(found.consumer, transaction, acknowledged)
    elif len(acknowledged) == 1:
        found.subscription.acknowledge_cumulative_in_transaction(transaction, acknowledged[0])


def on_redeliver(session: Session, command: CommandRedeliverUnacknowledgedMessages, _: bytes) -> None:
    """Deliver these entries again, or all. Ignored for an unknown consumer."""
    found = session.consumers.get(command.consumer_id)
    if found is not None:
        epoch = signed(command.consumer_epoch) if command.HasField("consumer_epoch") else -1
        positions = [_position_in_id(message_id) for message_id in command.message_ids]
        found.subscription.redeliver(found.consumer, positions, epoch)


def _acked_entry(message_id: MessageIdData) -> AckedEntry:
    return AckedEntry(_position_in_id(message_id), from_words(message_id.ack_set) or None)


def on_seek(session: Session, seek: CommandSeek, _: bytes) -> None:
    """Move the subscription. The close of its consumers comes before the answer."""
    subscription = _attached_consumer(session, seek.consumer_id).subscription
    if seek.HasField("message_id"):
        subscription.reset(_position_in_id(seek.message_id), from_words(seek.message_id.ack_set) or None)
    elif seek.HasField("message_publish_time"):
        subscription.reset_to_time(seek.message_publish_time)
    else:
        raise Refusal(ServerError.MetadataError, "Message id and message publish time were not present")
    session.send(CommandSuccess(request_id=seek.request_id))


def on_last_message_id(session: Session, command: CommandGetLastMessageId, _: bytes) -> None:
    """Answer with the last message of the topic, and the mark-delete position of the subscription."""
    found = _attached_consumer(session, command.consumer_id)
    last, batch_index = found.subscription.last_message()
    last_id = id_of_position(last)
    last_id.partition = found.partition
    last_id.batch_index = batch_index
    session.send(
        CommandGetLastMessageIdResponse(
            request_id=command.request_id,
            last_message_id=last_id,
            consumer_mark_delete_position=id_of_position(found.subscription.cursor.mark_delete_position),
        )
    )


_STATISTICS: Final = (
    "msgRateOut",
    "msgThroughputOut",
    "msgRateRedeliver",
    "consumerName",
    "unackedMessages",
    "blockedConsumerOnUnackedMsgs",
    "address",
    "connectedSince",
    "messageAckRate",
)
"""The fields of the answer that have the same names in the statistics of a topic."""


def on_consumer_stats(session: Session, command: CommandConsumerStats, _: bytes) -> None:
    """Answer with the statistics of one consumer."""
    found = session.consumers.get(command.consumer_id)
    answer: Any = CommandConsumerStatsResponse(request_id=command.request_id)
    if found is None:
        answer.error_code = ServerError.ConsumerNotFound
        answer.error_message = f"there is no consumer {command.consumer_id} on this connection"
    else:
        statistics = consumer_stats(found.consumer, found.subscription.now_ms())
        for name in _STATISTICS:
            setattr(answer, name, statistics[name])
        answer.type = CommandSubscribe.SubType.Name(found.consumer.request.subscription_type)
        answer.availablePermits = unsigned(statistics["availablePermits"])  # negative if a batch overdrew them
        answer.msgBacklog = found.subscription.backlog()
    session.send(answer)


CONSUME_HANDLERS: Final[CommandHandlers] = {
    CommandSubscribe: on_subscribe,
    CommandFlow: on_flow,
    CommandAck: on_ack,
    CommandRedeliverUnacknowledgedMessages: on_redeliver,
    CommandSeek: on_seek,
    CommandGetLastMessageId: on_last_message_id,
    CommandConsumerStats: on_consumer_stats,
    CommandUnsubscribe: on_unsubscribe,
    CommandCloseConsumer: on_close_consumer,
}
