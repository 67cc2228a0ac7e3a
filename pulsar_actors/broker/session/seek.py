"""Where a consumer is in its topic: moved by SEEK, told by GET_LAST_MESSAGE_ID and CONSUMER_STATS."""

from typing import Any, Final

from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.session.places import message_id_of, position_of
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.subscribe import attached
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.machines.ledgers.ack_set import from_words
from pulsar_actors.wire.ids import unsigned
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandSeek,
    CommandSubscribe,
    CommandSuccess,
    ServerError,
)

__all__ = ["HANDLERS"]


def on_seek(session: Session, seek: CommandSeek, _: memoryview) -> None:
    """Move the subscription. A close of the consumer, if there is one, comes before the answer."""
    consumer = attached(session, seek.consumer_id).consumer
    if seek.HasField("message_id"):
        consumer.seek(position_of(seek.message_id), from_words(seek.message_id.ack_set) or None)
    elif seek.HasField("message_publish_time"):
        consumer.seek_to_time(seek.message_publish_time)
    else:
        raise Refusal(ServerError.MetadataError, "Message id and message publish time were not present")
    session.send(CommandSuccess(request_id=seek.request_id))


def on_last_message_id(session: Session, asked: CommandGetLastMessageId, _: memoryview) -> None:
    """Say where the topic ends, and how far the subscription is."""
    consumer, partition = attached(session, asked.consumer_id)
    last, batch_index = consumer.last_position()
    last_id = message_id_of(last)
    last_id.partition = partition
    last_id.batch_index = batch_index
    session.send(
        CommandGetLastMessageIdResponse(
            request_id=asked.request_id,
            last_message_id=last_id,
            consumer_mark_delete_position=message_id_of(consumer.mark_delete_position()),
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
"""What the answer has in common with the statistics of a topic, under the same names."""


def on_consumer_stats(session: Session, asked: CommandConsumerStats, _: memoryview) -> None:
    """Give the statistics of one consumer."""
    found = session.consumers.get(asked.consumer_id)
    answer: Any = CommandConsumerStatsResponse(request_id=asked.request_id)
    if found is None:
        answer.error_code = ServerError.ConsumerNotFound
        answer.error_message = f"there is no consumer {asked.consumer_id} on this connection"
    else:
        statistics = found.consumer.stats()
        for name in _STATISTICS:
            setattr(answer, name, statistics[name])
        answer.type = CommandSubscribe.SubType.Name(found.consumer.request.kind)
        answer.availablePermits = unsigned(statistics["availablePermits"])  # less than none, if a batch overdrew them
        answer.msgBacklog = found.consumer.subscription.backlog()
    session.send(answer)


HANDLERS: Final[Handlers] = {
    CommandSeek: on_seek,
    CommandGetLastMessageId: on_last_message_id,
    CommandConsumerStats: on_consumer_stats,
}
