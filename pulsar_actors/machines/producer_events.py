"""Events and effects that only a producer has: those of `producer.py`.

Those that it shares with a consumer stand in `connection_handler_events.py`, which also tells what `attempt` and
`connection` mean.
"""

from typing import Any, NamedTuple

from pulsar_actors.exceptions import BrokerRefusal, InvalidArgument
from pulsar_actors.machines.trackers.pending_messages import PendingSend, StoredSend
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandProducer,
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
)

# Events of our own side.


class Publish(NamedTuple):
    """Send batches. Their room in the queue is reserved and their sequence ids are taken."""

    items: tuple[PendingSend[Any], ...]


class Flush(NamedTuple):
    """Complete the token once everything that is pending now has ended."""

    token: object


# Events of the connection.


class ProducerAttached(NamedTuple):
    """There is a connection to the broker."""

    connection: int


# Events of the broker.


class Created(NamedTuple):
    """PRODUCER_SUCCESS; it comes twice for a producer that has to queue."""

    attempt: int
    command: CommandProducerSuccess


class CreateRefused(NamedTuple):
    """ERROR, in answer to PRODUCER; or PRODUCER is too large for the broker."""

    attempt: int
    error: BrokerRefusal | InvalidArgument


class ReceiptsArrived(NamedTuple):
    """SEND_RECEIPTs that came together, in their order."""

    connection: int
    commands: tuple[CommandSendReceipt, ...]


class SendRefused(NamedTuple):
    """SEND_ERROR."""

    connection: int
    command: CommandSendError

    @property
    def error(self) -> BrokerRefusal:
        """The refusal as an exception."""
        return refusal(self.command.error, self.command.message)


# Events of time.


class CreateTimedOut(NamedTuple):
    """PRODUCER got no answer; the broker may still act on it."""

    attempt: int


class SendTimeoutDue(NamedTuple):
    """The send timeout of the oldest pending batch may be over."""

    generation: int


# Effects.


class AskToCreate(NamedTuple):
    """Send PRODUCER; answer with one of the Create events."""

    attempt: int
    command: CommandProducer
    timeout: float


class SendBatches(NamedTuple):
    """Write batches in this order, each from its `next_frame` on."""

    connection: int
    items: tuple[PendingSend[Any], ...]


class ProducerOpened(NamedTuple):
    """The first creation has succeeded."""

    name: str


class SendsCompleted(NamedTuple):
    """Complete some batches: they are stored."""

    items: tuple[StoredSend[Any], ...]


class HandleRemainingReceipts(NamedTuple):
    """Feed the machine with this event: the receipts behind those that were matched, in the state that they left."""

    event: ReceiptsArrived


class Flushed(NamedTuple):
    """Complete a flush: everything before it has ended."""

    token: object
