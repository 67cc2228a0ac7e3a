"""Transactions, which this broker does not have: whoever asks for one is told so."""

from typing import Final

from google.protobuf.message import Message

from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    CommandEndTxnOnPartition,
    CommandEndTxnOnSubscription,
    CommandNewTxn,
    CommandTcClientConnectRequest,
    ServerError,
)

__all__ = ["HANDLERS"]


def on_transaction(_: Session, __: Message, ___: memoryview) -> None:
    """Say no, as a broker does where transactions are not enabled."""
    raise Refusal(ServerError.NotAllowedError, "Transaction manager is not enabled: this broker has no transactions")


HANDLERS: Final[Handlers] = dict.fromkeys(
    (
        CommandTcClientConnectRequest,
        CommandNewTxn,
        CommandAddPartitionToTxn,
        CommandAddSubscriptionToTxn,
        CommandEndTxn,
        CommandEndTxnOnPartition,
        CommandEndTxnOnSubscription,
    ),
    on_transaction,
)
