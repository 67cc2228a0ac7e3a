"""The messages between connections, the actors of handlers, and the guardian, which is the client's actor.

Those of lookups are in `lookup_actor.py`.

A *handler* is a producer, a consumer or a watcher that uses a connection. Its `number` counts the connections it has
used, so that late messages of an earlier one are recognised.
"""

from typing import Any

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.lookup_events import AssignedBroker, LookupTarget
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef
from pulsar_actors.runtime.loop import Loop


class HandlerRef(NamedTuple):
    """A handler on one connection. Commands name it by `kind` and `id`; `address` is its actor."""

    kind: str
    id: int
    address: ActorRef
    number: int


class ReplyTo(NamedTuple):
    """The actor that gets the answer, and the request that the answer repeats."""

    address: ActorRef
    request: Any


class ConnectionReady(NamedTuple):
    """From a connection: the handler can use it."""

    number: int
    connection: ActorRef
    max_message_size: int
    can_watch: bool = False


class ConnectionUnavailable(NamedTuple):
    """From a connection: the handler cannot use it, or cannot use it any longer."""

    number: int
    error: PulsarException


class CommandsReceived(NamedTuple):
    """From a connection: all commands for the handler in one read, each with its entry if it has one."""

    number: int
    commands: tuple[tuple[Any, bytes], ...]


class RequestAnswered(NamedTuple):
    """From a connection: the broker's answer to a request, or an error."""

    request: Any
    answer: Any


class Registration(NamedTuple):
    """The id of a new producer, consumer or watcher, its loop, and the slot of the broker connection that it uses."""

    kind: str
    id: int
    guardian: ActorRef
    slot: int
    loop: Loop


class FindBroker(NamedTuple):
    """To the guardian: find the broker of a topic, in this cluster if one is named."""

    topic: str
    cluster_url: str | None
    reply_to: ReplyTo


class LookupRetrying(NamedTuple):
    """From lookups: an attempt has failed, and another follows."""

    request: int
    error: PulsarException


class BrokerFound(NamedTuple):
    """From lookups: the broker, or why it was not found."""

    request: int
    outcome: LookupTarget | PulsarException


class AttachHandler(NamedTuple):
    """To the guardian: register this handler with a connection to the broker.

    `instead_of` is one to the service URL whose host did not serve it.
    """

    broker: LookupTarget | AssignedBroker
    slot: int
    handler: HandlerRef
    instead_of: ActorRef | None = None


class ConnectionAssigned(NamedTuple):
    """From the guardian: the connection, which sends `ConnectionReady` or `ConnectionUnavailable`."""

    number: int
    connection: ActorRef


class ActorStarted(NamedTuple):
    """To the guardian: a producer or consumer has started. End it with the client.

    `belongs_to_cluster`: it is to be told with `ClusterChanged` when the client goes to another one.
    `has_messages`: messages wait for this producer, also if the client closes already.
    """

    who: ActorRef
    belongs_to_cluster: bool = False
    has_messages: bool = False


class ClusterChanged(NamedTuple):
    """From the guardian: the client goes to another cluster. Its connections have not ended yet."""


class ActorEnded(NamedTuple):
    """To the guardian: a producer or consumer has ended."""

    who: ActorRef


class CloseHandle(NamedTuple):
    """Close the producer, consumer or watcher; `ActorEnded` follows."""
