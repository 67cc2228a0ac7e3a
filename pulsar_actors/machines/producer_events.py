"""What only a producer hears and answers with: the events and effects of `producer.py`.

Those that it shares with a consumer, and what `attempt` and `connection` mean, stand in `binding_events.py`.
"""

from typing import Any, NamedTuple

from pulsar_actors.exceptions import BrokerRefusal, InvalidArgument
from pulsar_actors.machines.ledgers.pending_sends import Pending, Stored
from pulsar_actors.machines.ledgers.server_errors import refusal
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandProducer,
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
)

# Events of our own side.


class Publish(NamedTuple):
    """Send batches, whose room is reserved and whose sequence ids are taken."""

    items: tuple[Pending[Any], ...]


class Flush(NamedTuple):
    """Tell the token when everything that is pending now has ended."""

    token: object


# Events of the connection.


class Attached(NamedTuple):
    """There is a connection to the broker."""

    connection: int


# Events of the broker.


class Created(NamedTuple):
    """PRODUCER_SUCCESS; twice for a producer that has to queue."""

    attempt: int
    command: CommandProducerSuccess


class CreateRefused(NamedTuple):
    """ERROR, in answer to PRODUCER; or it is too large for the broker."""

    attempt: int
    error: BrokerRefusal | InvalidArgument


class Persisted(NamedTuple):
    """SEND_RECEIPTs, in the order in which they came: there may be many at once."""

    connection: int
    commands: tuple[CommandSendReceipt, ...]


class SendRefused(NamedTuple):
    """SEND_ERROR."""

    connection: int
    command: CommandSendError

    @property
    def error(self) -> BrokerRefusal:
        """The broker's words."""
        return refusal(self.command.error, self.command.message)


# Events of time.


class CreateTimedOut(NamedTuple):
    """PRODUCER got no answer; the broker may still act on it."""

    attempt: int


class SendsDue(NamedTuple):
    """The oldest pending batch may have timed out."""

    generation: int


# Effects.


class AskToCreate(NamedTuple):
    """Send PRODUCER; answer with one of the Create events."""

    attempt: int
    command: CommandProducer
    timeout: float


class Send(NamedTuple):
    """Write batches in this order, each from its `next_frame` on."""

    connection: int
    items: tuple[Pending[Any], ...]


class Opened(NamedTuple):
    """Tell the user that the producer exists."""

    name: str


class Complete(NamedTuple):
    """Tell the senders of some batches that they are stored."""

    items: tuple[Stored[Any], ...]


class HearRest(NamedTuple):
    """Feed the machine with this: receipts of which the first has to be judged anew, after those before it."""

    event: Persisted


class Flushed(NamedTuple):
    """Tell the token of a flush that everything before it has ended."""

    token: object
