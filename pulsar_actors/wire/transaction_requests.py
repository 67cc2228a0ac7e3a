"""The requests to a transaction coordinator, and the topic that names the coordinators."""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import Message

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAddPartitionToTxn,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxn,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxn,
    CommandEndTxnResponse,
    CommandNewTxn,
    CommandNewTxnResponse,
    CommandTcClientConnectRequest,
    CommandTcClientConnectResponse,
    Subscription,
    TxnAction,
)
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId

ASSIGNMENT_TOPIC: Final = TopicName.parse("persistent://pulsar/system/transaction_coordinator_assign")
"""The system topic that has a partition for each coordinator. It only assigns them to brokers and has no messages."""

ANSWER_TYPES: Final[Mapping[type[Message], type[Message]]] = {
    CommandTcClientConnectRequest: CommandTcClientConnectResponse,
    CommandNewTxn: CommandNewTxnResponse,
    CommandAddPartitionToTxn: CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxn: CommandAddSubscriptionToTxnResponse,
    CommandEndTxn: CommandEndTxnResponse,
}
"""The answer to each request to a coordinator."""


def coordinator_topic(coordinator: int) -> str:
    """Return the topic whose broker runs the coordinator of this number."""
    return str(ASSIGNMENT_TOPIC.partition(coordinator))


def new_transaction_request(coordinator: int, timeout: float) -> CommandNewTxn:
    """Return NEW_TXN. The coordinator aborts the transaction when it is open for so many seconds."""
    return CommandNewTxn(request_id=0, tc_id=coordinator, txn_ttl_millis=max(1, round(timeout * 1000)))


def add_partition_request(transaction: TransactionId, topic: str) -> CommandAddPartitionToTxn:
    """Return ADD_PARTITION_TO_TXN for one topic, or one partition."""
    return CommandAddPartitionToTxn(
        request_id=0,
        txnid_most_bits=transaction.most,
        txnid_least_bits=transaction.least,
        partitions=[topic],
    )


def add_subscription_request(transaction: TransactionId, topic: str, subscription: str) -> CommandAddSubscriptionToTxn:
    """Return ADD_SUBSCRIPTION_TO_TXN for a subscription of one topic, or of one partition."""
    return CommandAddSubscriptionToTxn(
        request_id=0,
        txnid_most_bits=transaction.most,
        txnid_least_bits=transaction.least,
        subscription=[Subscription(topic=topic, subscription=subscription)],
    )


def end_request(transaction: TransactionId, *, commit: bool) -> CommandEndTxn:
    """Return END_TXN. COMMIT is 0, the default of the field, and yet has to be written."""
    return CommandEndTxn(
        request_id=0,
        txnid_most_bits=transaction.most,
        txnid_least_bits=transaction.least,
        txn_action=TxnAction.COMMIT if commit else TxnAction.ABORT,
    )
