"""How a refusal looks: most requests are refused with ERROR, some with an error inside their own answer.

Which is which is a property of the command alone, so it is a table; handlers and scripted faults both use it. Commands
that nobody waits for have no refusal at all.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from google.protobuf.message import Message

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandConnect,
    CommandConnected,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandError,
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    ServerError,
)

__all__ = ["BROKERS_REQUEST", "Error", "is_refusable", "refusal_of"]

Error: TypeAlias = "ServerError.ValueType"

BROKERS_REQUEST = 2**64 - 1
"""The request id of what the broker says by itself, and of the refusal of CONNECT, which has no id of its own: -1."""


def refusal_of(command: Message, error: Error, text: str) -> Message | None:
    """Make the answer that refuses a client's command, or that a broker gives in the place of the answer it has.

    None where nobody waits for one.
    """
    make = _REFUSALS.get(type(command))
    if make is not None:
        return make(command, error, text)
    if "request_id" in command.DESCRIPTOR.fields_by_name:
        asked: Any = command
        return CommandError(request_id=asked.request_id, error=error, message=text)
    return None


def is_refusable(kind: type[Message]) -> bool:
    """Tell whether commands of this class can be refused."""
    return kind in _REFUSALS or "request_id" in kind.DESCRIPTOR.fields_by_name


def _connect(_: Message, error: Error, text: str) -> Message:
    return CommandError(request_id=BROKERS_REQUEST, error=error, message=text)


def _send(send: CommandSend | CommandSendReceipt, error: Error, text: str) -> Message:
    return CommandSendError(producer_id=send.producer_id, sequence_id=send.sequence_id, error=error, message=text)


def _ack(ack: CommandAck | CommandAckResponse, error: Error, text: str) -> Message | None:
    if not ack.HasField("request_id"):
        return None
    return CommandAckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id, error=error, message=text)


def _lookup(asked: CommandLookupTopic | CommandLookupTopicResponse, error: Error, text: str) -> Message:
    failed = CommandLookupTopicResponse.Failed
    return CommandLookupTopicResponse(request_id=asked.request_id, response=failed, error=error, message=text)


def _partitions(
    asked: CommandPartitionedTopicMetadata | CommandPartitionedTopicMetadataResponse, error: Error, text: str
) -> Message:
    return CommandPartitionedTopicMetadataResponse(
        request_id=asked.request_id,
        response=CommandPartitionedTopicMetadataResponse.Failed,
        error=error,
        message=text,
    )


def _get_schema(asked: CommandGetSchema | CommandGetSchemaResponse, error: Error, text: str) -> Message:
    return CommandGetSchemaResponse(request_id=asked.request_id, error_code=error, error_message=text)


def _create_schema(
    asked: CommandGetOrCreateSchema | CommandGetOrCreateSchemaResponse, error: Error, text: str
) -> Message:
    return CommandGetOrCreateSchemaResponse(request_id=asked.request_id, error_code=error, error_message=text)


def _statistics(asked: CommandConsumerStats | CommandConsumerStatsResponse, error: Error, text: str) -> Message:
    return CommandConsumerStatsResponse(request_id=asked.request_id, error_code=error, error_message=text)


_REFUSALS: Mapping[type[Message], Callable[[Any, Error, str], Message | None]] = MappingProxyType(
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
    }
)
