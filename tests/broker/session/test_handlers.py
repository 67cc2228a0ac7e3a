import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.session.handlers import HANDLERS
from pulsar_actors.wire.PulsarApi_pb2 import (
    BaseCommand,
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    CommandEndTxnOnPartition,
    CommandEndTxnOnSubscription,
    CommandError,
    CommandNewTxn,
    CommandTcClientConnectRequest,
    ServerError,
)
from tests.support.session_bench import Bench

# What only a client sends, and what a broker may be sent of what both send. Newer brokers' commands are not here.
FOR_A_BROKER = {
    *("connect", "authResponse", "ping", "pong"),
    *("partitionMetadata", "lookupTopic", "getTopicsOfNamespace"),
    *("producer", "send", "close_producer"),
    *("subscribe", "flow", "ack", "redeliverUnacknowledgedMessages", "unsubscribe", "close_consumer"),
    *("seek", "getLastMessageId", "consumerStats"),
    *("getSchema", "getOrCreateSchema"),
    *("tcClientConnectRequest", "newTxn", "addPartitionToTxn", "addSubscriptionToTxn"),
    *("endTxn", "endTxnOnPartition", "endTxnOnSubscription"),
    *("watchTopicList", "watchTopicListClose"),
}


def test_every_command_of_a_client_has_a_handler_and_no_other_has() -> None:
    fields = BaseCommand.DESCRIPTOR.fields_by_name
    assert {fields[name].message_type for name in FOR_A_BROKER} == {kind.DESCRIPTOR for kind in HANDLERS}


@pytest.mark.parametrize(
    "command",
    [
        CommandTcClientConnectRequest(request_id=5, tc_id=0),
        CommandNewTxn(request_id=5),
        CommandAddPartitionToTxn(request_id=5),
        CommandAddSubscriptionToTxn(request_id=5),
        CommandEndTxn(request_id=5),
        CommandEndTxnOnPartition(request_id=5),
        CommandEndTxnOnSubscription(request_id=5),
    ],
)
def test_whoever_asks_for_a_transaction_is_told_that_there_are_none(command: Message) -> None:
    caller = Bench().client()
    (error,) = caller.say(command)
    assert isinstance(error, CommandError)
    assert (error.request_id, error.error) == (5, ServerError.NotAllowedError)
    assert "no transactions" in error.message
    assert not caller.is_closed
