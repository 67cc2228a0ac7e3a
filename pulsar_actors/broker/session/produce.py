"""The handlers of PRODUCER, SEND and CLOSE_PRODUCER."""

from typing import Final

from pulsar_actors.broker.model.interfaces import Address, Refusal
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.requests import ProducerRequest
from pulsar_actors.broker.session.close import send_close_producer
from pulsar_actors.broker.session.consume import id_of_position
from pulsar_actors.broker.session.lookup import require_served
from pulsar_actors.broker.session.schemas import schema_of
from pulsar_actors.broker.session.session import AttachedProducer, CommandHandlers, Session
from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.errors import ChecksumMismatch, EntryError
from pulsar_actors.wire.protobuf import signed, unsigned
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    MessageMetadata,
    ServerError,
)
from pulsar_actors.wire.transaction_id import transaction_in

__all__ = ["PRODUCE_HANDLERS"]


class SessionProducer:
    """The link of a producer: it turns the model's calls into commands to the client."""

    __slots__ = ("_command", "_session")

    def __init__(self, session: Session, command: CommandProducer) -> None:
        self._session = session
        self._command = command

    def ready(self) -> None:
        """Send the success that the producer waited for."""
        session, command = self._session, self._command
        _send_success(session, command.request_id, session.producers[command.producer_id].producer)

    def refused(self, refusal: Refusal) -> None:
        """Send the error that ends the wait."""
        self._session.producers.pop(self._command.producer_id, None)
        self._session.refuse(self._command, refusal)

    def closed(self, moved_to: Address | None) -> None:
        """Send the close."""
        producer_id = self._command.producer_id
        self._session.producers.pop(producer_id, None)
        self._session.closed_producers.add(producer_id)
        send_close_producer(self._session, producer_id, moved_to)


def on_producer(session: Session, command: CommandProducer, _: bytes) -> None:
    """Create a producer, or confirm an existing one. If the topic moves to another cluster, that is the only answer."""
    known = session.producers.get(command.producer_id)
    if known is not None:
        if not known.producer.ready:
            raise Refusal(ServerError.ServiceNotReady, "Producer is already present on the connection")
        _send_success(session, command.request_id, known.producer)
        return
    name = require_served(session, command.topic)
    migrating = session.context.cluster.migrations.target_of(name)
    if migrating is not None:
        send_close_producer(session, command.producer_id, migrating)
        return
    topic = session.context.cluster.open_topic(name)
    producer = topic.add_producer(_producer_request(session, command), SessionProducer(session, command))
    session.closed_producers.discard(command.producer_id)
    session.producers[command.producer_id] = AttachedProducer(producer, topic)
    if producer.ready or session.features.supports_partial_producer:
        _send_success(session, command.request_id, producer)


def on_send(session: Session, send: CommandSend, rest: bytes) -> None:
    """Store an entry, and send the receipt.

    A message for a producer that the broker has just closed is ignored: the client sends it again to the new broker.
    """
    found = session.producers.get(send.producer_id)
    if found is None or not found.producer.ready:
        if found is None and send.producer_id in session.closed_producers:
            return
        session.close(f"SEND for the producer {send.producer_id}, which is not there")
        return
    sequence_id = signed(send.sequence_id)
    highest = signed(send.highest_sequence_id) if send.HasField("highest_sequence_id") else -1
    if highest < sequence_id:
        highest = -1
    try:
        producer, topic = found
        data, metadata = _read_entry(session, producer, send, rest)
        position = topic.publish(
            producer,
            data,
            metadata,
            sequence_id=sequence_id,
            highest_sequence_id=highest,
            transaction=transaction_in(send) if send.HasField("txnid_most_bits") else None,  # most have none: one look
        )
    except ChecksumMismatch:
        _send_error(
            session, send, max(sequence_id, highest), ServerError.ChecksumError, "Checksum failed on the broker"
        )
    except Refusal as refusal:
        _send_error(session, send, max(sequence_id, highest), refusal.code, refusal.reason)
    else:
        session.send(
            CommandSendReceipt(
                producer_id=send.producer_id,
                sequence_id=send.sequence_id,
                message_id=id_of_position(position),
                highest_sequence_id=unsigned(highest),
            )
        )


def _read_entry(session: Session, producer: Producer, send: CommandSend, rest: bytes) -> tuple[bytes, MessageMetadata]:
    """Decode an entry. A broker checks only the checksum, and stores an entry that is unreadable otherwise.

    Such an entry counts as one message published now.
    """
    try:
        entry = decode_entry(rest)
    except ChecksumMismatch:
        raise
    except EntryError:
        return rest, MessageMetadata(
            producer_name=producer.name,
            sequence_id=send.sequence_id,
            publish_time=session.context.loop.wall_clock_ms(),
        )
    return entry.stored, entry.metadata


def on_close_producer(session: Session, command: CommandCloseProducer, _: bytes) -> None:
    """Close a producer. An unknown producer counts as closed."""
    session.closed_producers.discard(command.producer_id)
    found = session.producers.pop(command.producer_id, None)
    if found is not None:
        found.topic.remove_producer(found.producer)
    session.send(CommandSuccess(request_id=command.request_id))


def _producer_request(session: Session, command: CommandProducer) -> ProducerRequest:
    return ProducerRequest(
        connection=session,
        producer_id=command.producer_id,
        name=command.producer_name or None,
        epoch=signed(command.epoch),
        access_mode=command.producer_access_mode,
        topic_epoch=signed(command.topic_epoch) if command.HasField("topic_epoch") else None,
        schema=schema_of(command.schema) if command.HasField("schema") else None,
        initial_subscription=command.initial_subscription_name or None,
        encrypted=command.encrypted,
        supports_partial_producer=session.features.supports_partial_producer,
        metadata={pair.key: pair.value for pair in command.metadata},
        address=session.peer,
        client_version=session.version,
    )


def _send_success(session: Session, request_id: int, producer: Producer) -> None:
    session.send(
        CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer.name,
            last_sequence_id=producer.last_sequence_id,
            schema_version=producer.schema_version or b"",
            topic_epoch=None if producer.topic_epoch is None or not producer.ready else unsigned(producer.topic_epoch),
            producer_ready=producer.ready,
        )
    )


def _send_error(
    session: Session, send: CommandSend, sequence_id: int, error: "ServerError.ValueType", text: str
) -> None:
    session.send(
        CommandSendError(producer_id=send.producer_id, sequence_id=unsigned(sequence_id), error=error, message=text)
    )


PRODUCE_HANDLERS: Final[CommandHandlers] = {
    CommandProducer: on_producer,
    CommandSend: on_send,
    CommandCloseProducer: on_close_producer,
}
