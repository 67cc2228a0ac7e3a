"""Producers: created, sending, closed."""

from typing import Final

from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.model.requests import ProducerRequest
from pulsar_actors.broker.session.farewells import close_producer
from pulsar_actors.broker.session.places import message_id_of
from pulsar_actors.broker.session.schemas import schema_of
from pulsar_actors.broker.session.serving import served_here
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.errors import ChecksumMismatch, EntryError
from pulsar_actors.wire.ids import signed, unsigned
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

__all__ = ["HANDLERS"]


class SessionProducer:
    """What the model says to a producer, on its way to the client."""

    __slots__ = ("_command", "_session")

    def __init__(self, session: Session, command: CommandProducer) -> None:
        self._session = session
        self._command = command

    def ready(self) -> None:
        """Say that the wait is over."""
        session, command = self._session, self._command
        _confirm(session, command.request_id, session.producers[command.producer_id])

    def refused(self, refusal: Refusal) -> None:
        """End the wait with an error."""
        self._session.producers.pop(self._command.producer_id, None)
        self._session.refuse(self._command, refusal)

    def closed(self, moved_to: Address | None) -> None:
        """Say that it is gone, and perhaps where to."""
        producer_id = self._command.producer_id
        self._session.producers.pop(producer_id, None)
        self._session.closed_producers.add(producer_id)
        close_producer(self._session, producer_id, moved_to)


def on_producer(session: Session, asked: CommandProducer, _: memoryview) -> None:
    """Create it, or say again that it is there. Of a topic that goes to another cluster there is no other answer."""
    known = session.producers.get(asked.producer_id)
    if known is not None:
        if not known.ready:
            raise Refusal(ServerError.ServiceNotReady, "Producer is already present on the connection")
        _confirm(session, asked.request_id, known)
        return
    name = served_here(session, asked.topic)
    migrating = session.here.cluster.migrations.target_of(name)
    if migrating is not None:
        close_producer(session, asked.producer_id, migrating)
        return
    topic = session.here.cluster.open_topic(name)
    producer = topic.add_producer(_request(session, asked), SessionProducer(session, asked))
    session.closed_producers.discard(asked.producer_id)
    session.producers[asked.producer_id] = producer
    if producer.ready or session.features.supports_partial_producer:
        _confirm(session, asked.request_id, producer)


def on_send(session: Session, send: CommandSend, rest: memoryview) -> None:
    """Store an entry, and give the receipt for it.

    A message for a producer that the broker has just closed was on its way, and its client sends it again elsewhere.
    """
    producer = session.producers.get(send.producer_id)
    if producer is None or not producer.ready:
        if producer is None and send.producer_id in session.closed_producers:
            return
        session.close(f"SEND for the producer {send.producer_id}, which is not there")
        return
    sequence_id = signed(send.sequence_id)
    highest = signed(send.highest_sequence_id) if send.HasField("highest_sequence_id") else -1
    if highest < sequence_id:
        highest = -1
    try:
        data, metadata = _read(session, producer, send, rest)
        position = producer.publish(data, metadata, sequence_id=sequence_id, highest_sequence_id=highest)
    except ChecksumMismatch:
        _fail(session, send, max(sequence_id, highest), ServerError.ChecksumError, "Checksum failed on the broker")
    except Refusal as refusal:
        _fail(session, send, max(sequence_id, highest), refusal.code, refusal.reason)
    else:
        session.send(
            CommandSendReceipt(
                producer_id=send.producer_id,
                sequence_id=send.sequence_id,
                message_id=message_id_of(position),
                highest_sequence_id=unsigned(highest),
            )
        )


def _read(session: Session, producer: Producer, send: CommandSend, rest: memoryview) -> tuple[bytes, MessageMetadata]:
    """Open an entry, of which a broker only looks at the checksum: what cannot be read beyond is stored as well.

    It then counts as one message that came just now.
    """
    try:
        entry = decode_entry(rest)
    except ChecksumMismatch:
        raise
    except EntryError:
        return bytes(rest), MessageMetadata(
            producer_name=producer.name,
            sequence_id=send.sequence_id,
            publish_time=session.here.loop.wall_clock_ms(),
        )
    return bytes(entry.stored), entry.metadata


def on_close_producer(session: Session, asked: CommandCloseProducer, _: memoryview) -> None:
    """Let it go; one that is not there is gone already."""
    session.closed_producers.discard(asked.producer_id)
    producer = session.producers.pop(asked.producer_id, None)
    if producer is not None:
        producer.close()
    session.send(CommandSuccess(request_id=asked.request_id))


def _request(session: Session, asked: CommandProducer) -> ProducerRequest:
    return ProducerRequest(
        connection=session,
        producer_id=asked.producer_id,
        name=asked.producer_name or None,
        epoch=signed(asked.epoch),
        access_mode=asked.producer_access_mode,
        topic_epoch=signed(asked.topic_epoch) if asked.HasField("topic_epoch") else None,
        schema=schema_of(asked.schema) if asked.HasField("schema") else None,
        initial_subscription=asked.initial_subscription_name or None,
        encrypted=asked.encrypted,
        supports_partial_producer=session.features.supports_partial_producer,
        metadata={pair.key: pair.value for pair in asked.metadata},
        address=session.peer,
        client_version=session.version,
    )


def _confirm(session: Session, request_id: int, producer: Producer) -> None:
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


def _fail(session: Session, send: CommandSend, sequence_id: int, error: "ServerError.ValueType", text: str) -> None:
    session.send(
        CommandSendError(producer_id=send.producer_id, sequence_id=unsigned(sequence_id), error=error, message=text)
    )


HANDLERS: Final[Handlers] = {
    CommandProducer: on_producer,
    CommandSend: on_send,
    CommandCloseProducer: on_close_producer,
}
