import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.session.answers import is_refusable, refusal_answer
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import encode_command

WHY = pb.ServerError.ServiceNotReady
NOBODY = 2**64 - 1
LOOKUP, METADATA = pb.CommandLookupTopicResponse, pb.CommandPartitionedTopicMetadataResponse
ERROR = {"error": WHY, "message": "why"}
ERROR_CODE = {"error_code": WHY, "error_message": "why"}
PRODUCER = {"topic": "t", "producer_id": 1, "request_id": 5}
CONSUMER = {"topic": "t", "subscription": "s", "subType": pb.CommandSubscribe.Shared, "consumer_id": 1, "request_id": 5}
ACK = {"consumer_id": 1, "ack_type": pb.CommandAck.Individual}

CASES = [
    (pb.CommandError(request_id=NOBODY, **ERROR), pb.CommandConnect(client_version="c")),
    (pb.CommandError(request_id=NOBODY, **ERROR), pb.CommandConnected(server_version="s")),
    (pb.CommandError(request_id=5, **ERROR), pb.CommandProducer(**PRODUCER)),
    (pb.CommandError(request_id=5, **ERROR), pb.CommandProducerSuccess(request_id=5, producer_name="p")),
    (pb.CommandError(request_id=5, **ERROR), pb.CommandSubscribe(**CONSUMER)),
    (pb.CommandError(request_id=6, **ERROR), pb.CommandCloseConsumer(consumer_id=1, request_id=6)),
    (pb.CommandSendError(producer_id=1, sequence_id=2, **ERROR), pb.CommandSend(producer_id=1, sequence_id=2)),
    (pb.CommandSendError(producer_id=1, sequence_id=2, **ERROR), pb.CommandSendReceipt(producer_id=1, sequence_id=2)),
    (pb.CommandAckResponse(consumer_id=1, request_id=7, **ERROR), pb.CommandAck(**ACK, request_id=7)),
    (pb.CommandAckResponse(consumer_id=1, request_id=7, **ERROR), pb.CommandAckResponse(consumer_id=1, request_id=7)),
    (LOOKUP(request_id=8, response=LOOKUP.Failed, **ERROR), pb.CommandLookupTopic(topic="t", request_id=8)),
    (LOOKUP(request_id=8, response=LOOKUP.Failed, **ERROR), LOOKUP(request_id=8, response=LOOKUP.Connect)),
    (
        METADATA(request_id=9, response=METADATA.Failed, **ERROR),
        pb.CommandPartitionedTopicMetadata(topic="t", request_id=9),
    ),
    (METADATA(request_id=9, response=METADATA.Failed, **ERROR), METADATA(request_id=9, partitions=3)),
    (pb.CommandGetSchemaResponse(request_id=10, **ERROR_CODE), pb.CommandGetSchema(topic="t", request_id=10)),
    (pb.CommandGetSchemaResponse(request_id=10, **ERROR_CODE), pb.CommandGetSchemaResponse(request_id=10)),
    (
        pb.CommandGetOrCreateSchemaResponse(request_id=11, **ERROR_CODE),
        pb.CommandGetOrCreateSchema(topic="t", request_id=11),
    ),
    (
        pb.CommandGetOrCreateSchemaResponse(request_id=11, **ERROR_CODE),
        pb.CommandGetOrCreateSchemaResponse(request_id=11),
    ),
    (
        pb.CommandConsumerStatsResponse(request_id=12, **ERROR_CODE),
        pb.CommandConsumerStats(consumer_id=3, request_id=12),
    ),
]


@pytest.mark.parametrize(("answer", "command"), CASES)
def test_a_command_and_its_answer_have_the_same_refusal(answer: Message, command: Message) -> None:
    refusal = refusal_answer(command, WHY, "why")
    assert refusal == answer
    encode_command(answer)  # whole, so that it can be sent
    assert is_refusable(type(command))


def test_what_nobody_waits_for_cannot_be_refused() -> None:
    for command in (pb.CommandAck(**ACK), pb.CommandFlow(consumer_id=1, messagePermits=1), pb.CommandPing()):
        assert refusal_answer(command, WHY, "why") is None
    assert not is_refusable(pb.CommandFlow)
    assert not is_refusable(pb.CommandPing)
