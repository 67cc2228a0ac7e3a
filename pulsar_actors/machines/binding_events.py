"""What producers and consumers alike hear and answer with while they bind: events and effects of `binding.py`.

Each event's class is its trigger in the charts. Nothing here decides anything.

Two numbers tie an event to what caused it. An `attempt` is one question to a lookup or to a broker, and its answer
carries the same number. A `connection` is one attachment to a connection, and whatever comes over it carries that.
"""

from typing import NamedTuple

from google.protobuf.message import Message

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseConsumer, CommandCloseProducer, CommandTopicMigrated

CloseCommand = CommandCloseProducer | CommandCloseConsumer

# Events of our own side.


class Open(NamedTuple):
    """Create the producer or consumer."""


class Close(NamedTuple):
    """End it."""


class EndAtOnce(NamedTuple):
    """End it without a word to the broker, and fail with this error whatever waits: the client ends, or has died."""

    error: PulsarException


# Events of the lookup and of the connection.


class LookedUp(NamedTuple):
    """The broker that serves the topic is known."""

    attempt: int
    broker: object


class LookupFailed(NamedTuple):
    """No broker was found, though what is worth repeating was repeated."""

    attempt: int
    error: PulsarException


class LookupStumbled(NamedTuple):
    """The lookup goes on, but something that is worth repeating has failed."""

    attempt: int
    error: PulsarException


class Detached(NamedTuple):
    """There is no connection to the broker, or no longer. Requests that end with it are not reported one by one."""

    connection: int
    error: PulsarException


# Events of the broker.


class CloseAnswered(NamedTuple):
    """SUCCESS, in answer to our close; or ERROR, which says that there was nothing to close."""

    attempt: int


class BrokerClosed(NamedTuple):
    """CLOSE_PRODUCER or CLOSE_CONSUMER, from the broker: the topic moves elsewhere."""

    connection: int
    command: CloseCommand


class Migrated(NamedTuple):
    """TOPIC_MIGRATED: the topic lives in another cluster."""

    connection: int
    command: CommandTopicMigrated


class Misanswered(NamedTuple):
    """A command that does not answer the question that it claims to answer."""

    question: type
    answer: Message


# Events of time.


class CloseTimedOut(NamedTuple):
    """Our close got no answer."""

    attempt: int


class CreationTimedOut(NamedTuple):
    """The user has waited for the first creation as long as was agreed."""

    generation: int


class RetryDue(NamedTuple):
    """The pause before the next attempt is over."""

    generation: int


# Effects.


class LookUp(NamedTuple):
    """Find the topic's broker, in the cluster of this URL if there is one; answer with a Lookup event."""

    attempt: int
    topic: str
    cluster_url: str | None


class Attach(NamedTuple):
    """Get a connection, new or shared, to a broker that was looked up, or to a URL; answer `Attached` or `Detached`."""

    connection: int
    broker: object


class Detach(NamedTuple):
    """Let go of the connection, if there is one. Others may be using it."""

    connection: int


class DropConnection(NamedTuple):
    """Close the connection for everybody: it cannot be trusted."""

    connection: int
    error: PulsarException


class AskToClose(NamedTuple):
    """Send CLOSE_PRODUCER or CLOSE_CONSUMER; answer with one of the Close events."""

    attempt: int
    command: CloseCommand
    timeout: float


class CreationFailed(NamedTuple):
    """Tell the user that there will be no producer or consumer."""

    error: PulsarException


class Fail(NamedTuple):
    """Tell whoever holds the token why it failed."""

    token: object
    error: PulsarException


class Ended(NamedTuple):
    """Tell everybody that it is over: by an error, or as it was asked to."""

    error: PulsarException | None
