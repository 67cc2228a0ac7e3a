"""The tables of the commands that a broker sends: commands for the connection, answers, and commands for handlers.

The class of a command decides if it is for the connection itself, answers a request, or is for a producer, a consumer
or a topic list watcher. The handler of a transaction coordinator gets answers only. No broker sends a command that is
in none of these tables.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import Message

from pulsar_actors.machines.connection_events import Answered, Challenged, Connected, PeerActive, Pinged, Refused
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxnResponse,
    CommandAuthChallenge,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnected,
    CommandConsumerStatsResponse,
    CommandEndTxnResponse,
    CommandError,
    CommandGetLastMessageIdResponse,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandNewTxnResponse,
    CommandPartitionedTopicMetadataResponse,
    CommandPing,
    CommandPong,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    CommandTcClientConnectResponse,
    CommandTopicMigrated,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)

PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
WATCHER: Final = "watcher"
COORDINATOR: Final = "transaction coordinator"

CONTROL: Mapping[type[Message], Callable[[Any], object]] = MappingProxyType(
    {
        CommandConnected: Connected,
        CommandAuthChallenge: Challenged,
        CommandError: Refused,
        CommandPing: lambda _: Pinged(),
        CommandPong: lambda _: PeerActive(),
    }
)
"""Commands for the connection itself, and the event that each becomes."""

ANSWERS: Final = frozenset(
    {
        CommandAckResponse,
        CommandAddPartitionToTxnResponse,
        CommandAddSubscriptionToTxnResponse,
        CommandConsumerStatsResponse,
        CommandEndTxnResponse,
        CommandGetLastMessageIdResponse,
        CommandGetOrCreateSchemaResponse,
        CommandGetSchemaResponse,
        CommandGetTopicsOfNamespaceResponse,
        CommandLookupTopicResponse,
        CommandNewTxnResponse,
        CommandPartitionedTopicMetadataResponse,
        CommandProducerSuccess,
        CommandSuccess,
        CommandTcClientConnectResponse,
        CommandWatchTopicListSuccess,
    }
)
"""Answers to requests. They carry the id of the request."""

TO_PRODUCERS: Final = frozenset({CommandSendReceipt, CommandSendError, CommandCloseProducer})
TO_CONSUMERS: Final = frozenset(
    {CommandMessage, CommandCloseConsumer, CommandActiveConsumerChange, CommandReachedEndOfTopic}
)
TO_HANDLERS: Final = TO_PRODUCERS | TO_CONSUMERS | {CommandTopicMigrated, CommandWatchTopicUpdate}


def event_of(command: Message) -> object | None:
    """Return the event that a command for the connection or an answer becomes; None if no broker sends it."""
    kind = type(command)
    make = CONTROL.get(kind)
    if make is not None:
        return make(command)
    return Answered(command) if kind in ANSWERS else None


def handler_key(command: Any) -> tuple[str, int]:  # noqa: ANN401 - any of TO_HANDLERS
    """Return the kind and id of the producer, consumer or watcher that a command is for."""
    if type(command) in TO_CONSUMERS:
        return CONSUMER, command.consumer_id
    if type(command) in TO_PRODUCERS:
        return PRODUCER, command.producer_id
    if type(command) is CommandWatchTopicUpdate:
        return WATCHER, command.watcher_id
    is_producer = command.resource_type == CommandTopicMigrated.Producer
    return (PRODUCER if is_producer else CONSUMER), command.resource_id
