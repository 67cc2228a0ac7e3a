import pytest
from google.protobuf.message import Message
from session_bench import Bench

from pulsar_actors.wire.PulsarApi_pb2 import (
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
