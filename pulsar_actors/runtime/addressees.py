"""Whom a command of a broker is for: the connection itself, whoever asked, or a producer, consumer or watch.

It is a property of the command's class, so it is a table. What is in none of these is not a broker's to say.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from pulsar_actors.machines.connection_events import Challenged, Connected, Pinged, Ponged, Refused
from pulsar_actors.runtime.members import CONSUMER, PRODUCER, WATCHER
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandAuthChallenge,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnected,
    CommandConsumerStatsResponse,
    CommandError,
    CommandGetLastMessageIdResponse,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandPartitionedTopicMetadataResponse,
    CommandPing,
    CommandPong,
    CommandProducerSuccess,
    CommandReachedEndOfTopic,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    CommandTopicMigrated,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)

CONTROL: dict[type[Message], Callable[[Any], object]] = {
    CommandConnected: Connected,
    CommandAuthChallenge: Challenged,
    CommandError: Refused,
    CommandPing: lambda _: Pinged(),
    CommandPong: lambda _: Ponged(),
}
"""The commands that the connection itself understands, and the event that each is."""

ANSWERS = frozenset(
    {
        CommandAckResponse,
        CommandConsumerStatsResponse,
        CommandGetLastMessageIdResponse,
        CommandGetOrCreateSchemaResponse,
        CommandGetSchemaResponse,
        CommandGetTopicsOfNamespaceResponse,
        CommandLookupTopicResponse,
        CommandPartitionedTopicMetadataResponse,
        CommandProducerSuccess,
        CommandSuccess,
        CommandWatchTopicListSuccess,
    }
)
"""Those that answer a request, whose id they carry."""

TO_PRODUCERS = frozenset({CommandSendReceipt, CommandSendError, CommandCloseProducer})
TO_CONSUMERS = frozenset({CommandMessage, CommandCloseConsumer, CommandActiveConsumerChange, CommandReachedEndOfTopic})
TO_MEMBERS = TO_PRODUCERS | TO_CONSUMERS | {CommandTopicMigrated, CommandWatchTopicUpdate}


def addressee(command: Any) -> tuple[str, int]:  # noqa: ANN401 - any command to a member
    """Name the member that it is for."""
    if type(command) in TO_PRODUCERS:
        return PRODUCER, command.producer_id
    if type(command) in TO_CONSUMERS:
        return CONSUMER, command.consumer_id
    if type(command) is CommandWatchTopicUpdate:
        return WATCHER, command.watcher_id
    is_producer = command.resource_type == CommandTopicMigrated.Producer
    return (PRODUCER if is_producer else CONSUMER), command.resource_id
