import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.session.answers import is_refusable, refusal_answer
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandCloseConsumer,
    CommandConnect,
    CommandConnected,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandError,
    CommandFlow,
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPing,
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSubscribe,
    ServerError,
)

WHY = ServerError.ServiceNotReady
NOBODY = 2**64 - 1


def error(request_id: int) -> CommandError:
    return CommandError(request_id=request_id, error=WHY, message="why")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (CommandConnect(client_version="c"), error(NOBODY)),
        (CommandConnected(server_version="s"), error(NOBODY)),
        (CommandProducer(topic="t", producer_id=1, request_id=5), error(5)),
        (CommandProducerSuccess(request_id=5, producer_name="p"), error(5)),
        (
            CommandSubscribe(topic="t", subscription="s", subType=CommandSubscribe.Shared, consumer_id=1, request_id=5),
            error(5),
        ),
        (CommandCloseConsumer(consumer_id=1, request_id=6), error(6)),
        (
            CommandSend(producer_id=1, sequence_id=2),
            CommandSendError(producer_id=1, sequence_id=2, error=WHY, message="why"),
        ),
        (
            CommandSendReceipt(producer_id=1, sequence_id=2),
            CommandSendError(producer_id=1, sequence_id=2, error=WHY, message="why"),
        ),
        (
            CommandAck(consumer_id=1, ack_type=CommandAck.Individual, request_id=7),
            CommandAckResponse(consumer_id=1, request_id=7, error=WHY, message="why"),
        ),
        (CommandAck(consumer_id=1, ack_type=CommandAck.Individual), None),
        (
            CommandAckResponse(consumer_id=1, request_id=7),
            CommandAckResponse(consumer_id=1, request_id=7, error=WHY, message="why"),
        ),
        (
            CommandLookupTopic(topic="t", request_id=8),
            CommandLookupTopicResponse(
                request_id=8, response=CommandLookupTopicResponse.Failed, error=WHY, message="why"
            ),
        ),
        (
            CommandLookupTopicResponse(request_id=8, response=CommandLookupTopicResponse.Connect),
            CommandLookupTopicResponse(
                request_id=8, response=CommandLookupTopicResponse.Failed, error=WHY, message="why"
            ),
        ),
        (
            CommandPartitionedTopicMetadata(topic="t", request_id=9),
            CommandPartitionedTopicMetadataResponse(
                request_id=9, response=CommandPartitionedTopicMetadataResponse.Failed, error=WHY, message="why"
            ),
        ),
        (
            CommandPartitionedTopicMetadataResponse(request_id=9, partitions=3),
            CommandPartitionedTopicMetadataResponse(
                request_id=9, response=CommandPartitionedTopicMetadataResponse.Failed, error=WHY, message="why"
            ),
        ),
        (
            CommandGetSchema(topic="t", request_id=10),
            CommandGetSchemaResponse(request_id=10, error_code=WHY, error_message="why"),
        ),
        (
            CommandConsumerStats(consumer_id=3, request_id=12),
            CommandConsumerStatsResponse(request_id=12, error_code=WHY, error_message="why"),
        ),
        (
            CommandGetSchemaResponse(request_id=10),
            CommandGetSchemaResponse(request_id=10, error_code=WHY, error_message="why"),
        ),
        (
            CommandGetOrCreateSchema(topic="t", request_id=11),
            CommandGetOrCreateSchemaResponse(request_id=11, error_code=WHY, error_message="why"),
        ),
        (
            CommandGetOrCreateSchemaResponse(request_id=11),
            CommandGetOrCreateSchemaResponse(request_id=11, error_code=WHY, error_message="why"),
        ),
        (CommandFlow(consumer_id=1, messagePermits=1), None),
        (CommandPing(), None),
    ],
)
def test_a_command_and_its_answer_have_the_same_refusal(command: Message, answer: Message | None) -> None:
    refusal = refusal_answer(command, WHY, "why")
    assert refusal == answer
    if refusal is not None:
        encode_command(refusal)  # whole, so that it can be sent
        assert is_refusable(type(command))


def test_what_nobody_waits_for_cannot_be_refused() -> None:
    assert not is_refusable(CommandFlow)
    assert not is_refusable(CommandPing)
