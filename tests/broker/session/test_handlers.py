from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.session.handlers import HANDLERS
from pulsar_actors.wire.PulsarApi_pb2 import (
    BaseCommand,
    ServerError,
)
from tests.support.session_bench import Bench

TRANSACTIONS = {
    *("tcClientConnectRequest", "newTxn", "addPartitionToTxn", "addSubscriptionToTxn"),
    *("endTxn", "endTxnOnPartition", "endTxnOnSubscription"),
}
# What only a client sends, and what a broker may be sent of what both send. Newer brokers' commands are not here.
FOR_A_BROKER = {
    *("connect", "authResponse", "ping", "pong"),
    *("partitionMetadata", "lookupTopic", "getTopicsOfNamespace"),
    *("producer", "send", "close_producer"),
    *("subscribe", "flow", "ack", "redeliverUnacknowledgedMessages", "unsubscribe", "close_consumer"),
    *("seek", "getLastMessageId", "consumerStats"),
    *("getSchema", "getOrCreateSchema"),
    *("watchTopicList", "watchTopicListClose"),
    *TRANSACTIONS,
}


def test_every_command_of_a_client_has_a_handler_and_no_other_has() -> None:
    fields = BaseCommand.DESCRIPTOR.fields_by_name
    assert {fields[name].message_type for name in FOR_A_BROKER} == {kind.DESCRIPTOR for kind in HANDLERS}


@pytest.mark.parametrize("name", sorted(TRANSACTIONS))
def test_whoever_asks_for_a_transaction_where_they_are_not_enabled_is_told_so(name: str) -> None:
    command: Any = GetMessageClass(BaseCommand.DESCRIPTOR.fields_by_name[name].message_type)(request_id=5)
    if name == "tcClientConnectRequest":
        command.tc_id = 0
    caller = Bench(settings=Settings(transaction_coordinators=0)).client()
    error = caller.refusal(command)
    assert (error.request_id, error.error) == (5, ServerError.NotAllowedError)
    assert "no transactions" in error.message
    assert not caller.is_closed
