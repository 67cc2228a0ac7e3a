from pulsar_actors.broker.session.handlers import HANDLERS
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand

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
