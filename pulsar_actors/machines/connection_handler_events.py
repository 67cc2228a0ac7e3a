"""Events and effects that producers and consumers share: those of `connection_handler.py`.

The class of an event is its trigger in the charts. Two numbers connect an event with its cause. `attempt` is the number
of a request to a lookup or to a broker, and the answer carries it. `connection` is the number of an attachment to a
connection, and all events of that connection carry it.
"""

from google.protobuf.message import Message

from pulsar_actors.exceptions import BrokerRefusal, InvalidArgument, PulsarException
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseConsumer, CommandCloseProducer, CommandTopicMigrated

CloseCommand = CommandCloseProducer | CommandCloseConsumer

# Events of our own side.


class Open(NamedTuple):
    """Create the producer or consumer."""


class Close(NamedTuple):
    """End it."""


class EndAtOnce(NamedTuple):
    """End without a command to the broker, and fail all calls with this error: the client ends, or has died."""

    error: PulsarException


# Events of the lookup and of the connection.


class LookedUp(NamedTuple):
    """The broker that serves the topic is known. For `home`, the number of its cluster, and `tls` see `LookupTarget`.

    A `proxied` broker is reached through the proxy of the service URL.
    """

    attempt: int
    broker: object
    home: int = 0
    proxied: bool = False
    tls: bool = False


class LookupFailed(NamedTuple):
    """No broker was found, after all retries."""

    attempt: int
    error: PulsarException


class LookupAttemptFailed(NamedTuple):
    """One attempt of a lookup has failed; the lookup goes on."""

    attempt: int
    error: PulsarException


class Detached(NamedTuple):
    """There is no connection to the broker, or it was lost. Its unanswered requests are not reported separately."""

    connection: int
    error: PulsarException


# Events of the broker.


class RequestRefused(NamedTuple):
    """ERROR, in answer to PRODUCER or SUBSCRIBE; or the request is too large for the broker."""

    attempt: int
    error: BrokerRefusal | InvalidArgument


class CloseAnswered(NamedTuple):
    """SUCCESS, in answer to our close; or ERROR, which means that the broker had nothing to close."""

    attempt: int


class BrokerClosed(NamedTuple):
    """CLOSE_PRODUCER or CLOSE_CONSUMER, from the broker: the topic moves to another broker."""

    connection: int
    command: CloseCommand


class TopicMigrated(NamedTuple):
    """TOPIC_MIGRATED: the topic has moved to another cluster."""

    connection: int
    command: CommandTopicMigrated


class WrongAnswer(NamedTuple):
    """A command that is no answer to the request whose number it has."""

    question: type
    answer: Message


# Events of time.


class RequestTimedOut(NamedTuple):
    """PRODUCER or SUBSCRIBE got no answer. The broker may still perform it."""

    attempt: int


class CloseTimedOut(NamedTuple):
    """Our close got no answer."""

    attempt: int


class FirstCreationTimedOut(NamedTuple):
    """The time limit of the first creation is over."""

    generation: int


class RetryDue(NamedTuple):
    """The pause before the next attempt is over."""

    generation: int


class DrainTimedOut(NamedTuple):
    """The time in which a closed producer or consumer may still send what was pending is over."""

    generation: int


# Effects.


class LookUp(NamedTuple):
    """Find the topic's broker, in the cluster of this URL if one is given; answer with a Lookup event."""

    attempt: int
    topic: str
    cluster_url: str | None


class Attach(NamedTuple):
    """Get a connection to a broker that was looked up or assigned; answer with an Attached event or `Detached`."""

    connection: int
    broker: object


class Detach(NamedTuple):
    """Leave the connection, if there is one. Others may be using it."""

    connection: int


class DropConnection(NamedTuple):
    """Close the connection for all its users: it cannot be trusted."""

    connection: int
    error: PulsarException


class AskToClose(NamedTuple):
    """Send CLOSE_PRODUCER or CLOSE_CONSUMER; answer with one of the Close events."""

    attempt: int
    command: CloseCommand
    timeout: float


class FirstCreationFailed(NamedTuple):
    """Fail the creation."""

    error: PulsarException


class Fail(NamedTuple):
    """Fail the call or the batch with this token."""

    token: object
    error: PulsarException


class HandleEnded(NamedTuple):
    """The producer or consumer has ended: by an error, or by a close."""

    error: PulsarException | None
