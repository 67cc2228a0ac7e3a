"""The refusal of each command: most are refused with ERROR, some with an error inside their own answer.

The form depends only on the command, so it is in a table, which handlers and scripted faults both use. Commands without
an answer have no refusal.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from google.protobuf.message import Message

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandAddPartitionToTxn,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxn,
    CommandAddSubscriptionToTxnResponse,
    CommandConnect,
    CommandConnected,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandEndTxn,
    CommandEndTxnResponse,
    CommandError,
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandNewTxn,
    CommandNewTxnResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandTcClientConnectRequest,
    CommandTcClientConnectResponse,
    ServerError,
)
from pulsar_actors.wire.transaction_id import set_transaction, transaction_in

__all__ = ["NO_REQUEST_ID", "ServerErrorCode", "is_refusable", "refusal_answer"]


ServerErrorCode: TypeAlias = "ServerError.ValueType"

NO_REQUEST_ID = 2**64 - 1
"""The request id of commands that answer no request, and of the refusal of CONNECT, which has no id: -1, unsigned."""


def refusal_answer(command: Message, error: ServerErrorCode, text: str) -> Message | None:
    """Build the answer that refuses a client's command, or that replaces a broker's answer.

    None for commands without an answer.
    """
    make = _REFUSALS.get(type(command))
    if make is not None:
        return make(command, error, text)
    if "request_id" in command.DESCRIPTOR.fields_by_name:
        with_id: Any = command
        return CommandError(request_id=with_id.request_id, error=error, message=text)
    return None


def is_refusable(kind: type[Message]) -> bool:
    """Return whether commands of this class have a refusal."""
    return kind in _REFUSALS or "request_id" in kind.DESCRIPTOR.fields_by_name


def _connect(_: Message, error: ServerErrorCode, text: str) -> Message:
    return CommandError(request_id=NO_REQUEST_ID, error=error, message=text)


def _send(send: CommandSend | CommandSendReceipt, error: ServerErrorCode, text: str) -> Message:
    return CommandSendError(producer_id=send.producer_id, sequence_id=send.sequence_id, error=error, message=text)


def _ack(ack: CommandAck | CommandAckResponse, error: ServerErrorCode, text: str) -> Message | None:
    if not ack.HasField("request_id"):
        return None
    return CommandAckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id, error=error, message=text)


def _lookup(command: CommandLookupTopic | CommandLookupTopicResponse, error: ServerErrorCode, text: str) -> Message:
    failed = CommandLookupTopicResponse.Failed
    return CommandLookupTopicResponse(request_id=command.request_id, response=failed, error=error, message=text)


def _partitions(
    command: CommandPartitionedTopicMetadata | CommandPartitionedTopicMetadataResponse,
    error: ServerErrorCode,
    text: str,
) -> Message:
    return CommandPartitionedTopicMetadataResponse(
        request_id=command.request_id,
        response=CommandPartitionedTopicMetadataResponse.Failed,
        error=error,
        message=text,
    )


def _get_schema(command: CommandGetSchema | CommandGetSchemaResponse, error: ServerErrorCode, text: str) -> Message:
    return CommandGetSchemaResponse(request_id=command.request_id, error_code=error, error_message=text)


def _create_schema(
    command: CommandGetOrCreateSchema | CommandGetOrCreateSchemaResponse, error: ServerErrorCode, text: str
) -> Message:
    return CommandGetOrCreateSchemaResponse(request_id=command.request_id, error_code=error, error_message=text)


def _statistics(
    command: CommandConsumerStats | CommandConsumerStatsResponse, error: ServerErrorCode, text: str
) -> Message:
    return CommandConsumerStatsResponse(request_id=command.request_id, error_code=error, error_message=text)


def _connect_to_coordinator(
    command: CommandTcClientConnectRequest | CommandTcClientConnectResponse, error: ServerErrorCode, text: str
) -> Message:
    return CommandTcClientConnectResponse(request_id=command.request_id, error=error, message=text)


def _new_transaction(command: CommandNewTxn | CommandNewTxnResponse, error: ServerErrorCode, text: str) -> Message:
    coordinator = command.tc_id if isinstance(command, CommandNewTxn) else command.txnid_most_bits
    return CommandNewTxnResponse(request_id=command.request_id, txnid_most_bits=coordinator, error=error, message=text)


def _about_transaction(answer: Callable[..., Message]) -> Callable[[Any, ServerErrorCode, str], Message]:
    def refuse(command: Any, error: ServerErrorCode, text: str) -> Message:  # noqa: ANN401 - a request or its answer
        refusal = answer(request_id=command.request_id, error=error, message=text)
        transaction = transaction_in(command)
        if transaction is not None:
            set_transaction(refusal, transaction)
        return refusal

    return refuse


_add_topics = _about_transaction(CommandAddPartitionToTxnResponse)
_add_subscriptions = _about_transaction(CommandAddSubscriptionToTxnResponse)
_end_transaction = _about_transaction(CommandEndTxnResponse)

_REFUSALS: Mapping[type[Message], Callable[[Any, ServerErrorCode, str], Message | None]] = MappingProxyType(
    {
        CommandConnect: _connect,
        CommandConnected: _connect,
        CommandSend: _send,
        CommandSendReceipt: _send,
        CommandAck: _ack,
        CommandAckResponse: _ack,
        CommandLookupTopic: _lookup,
        CommandLookupTopicResponse: _lookup,
        CommandPartitionedTopicMetadata: _partitions,
        CommandPartitionedTopicMetadataResponse: _partitions,
        CommandGetSchema: _get_schema,
        CommandGetSchemaResponse: _get_schema,
        CommandGetOrCreateSchema: _create_schema,
        CommandGetOrCreateSchemaResponse: _create_schema,
        CommandConsumerStats: _statistics,
        CommandConsumerStatsResponse: _statistics,
        CommandTcClientConnectRequest: _connect_to_coordinator,
        CommandTcClientConnectResponse: _connect_to_coordinator,
        CommandNewTxn: _new_transaction,
        CommandNewTxnResponse: _new_transaction,
        CommandAddPartitionToTxn: _add_topics,
        CommandAddPartitionToTxnResponse: _add_topics,
        CommandAddSubscriptionToTxn: _add_subscriptions,
        CommandAddSubscriptionToTxnResponse: _add_subscriptions,
        CommandEndTxn: _end_transaction,
        CommandEndTxnResponse: _end_transaction,
    }
)
