"""The table of all commands that a broker takes, with their handlers."""

from types import MappingProxyType
from typing import Final

from google.protobuf.message import Message

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.session import connect, consume, lookup, produce, schemas
from pulsar_actors.broker.session.session import CommandHandlers, Session
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

__all__ = ["HANDLERS", "TRANSACTION_HANDLERS"]


def on_transaction(_: Session, __: Message, ___: bytes) -> None:
    """Refuse, as a real broker does if transactions are not enabled."""
    raise Refusal(ServerError.NotAllowedError, "Transaction manager is not enabled: this broker has no transactions")


TRANSACTION_HANDLERS: Final[CommandHandlers] = dict.fromkeys(
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


HANDLERS: Final[CommandHandlers] = MappingProxyType(
    {
        **connect.CONNECT_HANDLERS,
        **lookup.LOOKUP_HANDLERS,
        **produce.PRODUCE_HANDLERS,
        **consume.CONSUME_HANDLERS,
        **schemas.SCHEMA_HANDLERS,
        **TRANSACTION_HANDLERS,
    }
)
