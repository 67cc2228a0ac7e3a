"""Acknowledgements, and what is wanted again."""

from typing import Final

from pulsar_actors.broker.model.consumer import Acknowledged
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.session.places import position_of
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.machines.ledgers.ack_set import from_words
from pulsar_actors.wire.ids import signed
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandRedeliverUnacknowledgedMessages,
    MessageIdData,
    ServerError,
)

__all__ = ["HANDLERS"]


def on_ack(session: Session, ack: CommandAck, _: memoryview) -> None:
    """Acknowledge, and say so if the client wants to hear it; for a consumer that is gone a broker says nothing.

    What is acknowledged because it cannot be read is acknowledged like anything else. A cumulative acknowledgement that
    does not name one message means nothing.
    """
    found = session.consumers.get(ack.consumer_id)
    if found is None:
        return
    if ack.HasField("txnid_least_bits") or ack.HasField("txnid_most_bits"):
        raise Refusal(ServerError.NotAllowedError, "this broker has no transactions")
    acknowledged = [_acknowledged(message_id) for message_id in ack.message_id]
    if ack.ack_type == CommandAck.Individual:
        found.consumer.acknowledge(acknowledged)
    elif len(acknowledged) == 1:
        found.consumer.acknowledge_cumulative(acknowledged[0])
    if ack.HasField("request_id"):
        session.send(CommandAckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id))


def on_redeliver(session: Session, asked: CommandRedeliverUnacknowledgedMessages, _: memoryview) -> None:
    """Deliver these again, or all; for a consumer that is gone it means nothing."""
    found = session.consumers.get(asked.consumer_id)
    if found is not None:
        epoch = signed(asked.consumer_epoch) if asked.HasField("consumer_epoch") else -1
        found.consumer.redeliver([position_of(message_id) for message_id in asked.message_ids], epoch)


def _acknowledged(message_id: MessageIdData) -> Acknowledged:
    return Acknowledged(position_of(message_id), from_words(message_id.ack_set) or None)


HANDLERS: Final[Handlers] = {
    CommandAck: on_ack,
    CommandRedeliverUnacknowledgedMessages: on_redeliver,
}
