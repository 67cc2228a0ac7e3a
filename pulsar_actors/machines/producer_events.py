"""Events and effects that only a producer has: those of `producer.py`.

Those that it shares with a consumer are in `connection_handler_events.py`, which also explains `attempt` and
`connection`.
"""

from typing import Any

from pulsar_actors.exceptions import BrokerRefusal, InvalidArgument, PulsarException
from pulsar_actors.machines.trackers.pending_messages import PendingSend, StoredSend
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandProducer,
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
)
from pulsar_actors.wire.transaction_id import TransactionId

# Events of our own side.


class Publish(NamedTuple):
    """Send batches. Their room in the queue is reserved and their sequence ids are taken."""

    items: tuple[PendingSend[Any], ...]


class Flush(NamedTuple):
    """Complete the token when all batches that are pending now have ended."""

    token: object


class Drained(NamedTuple):
    """Nothing that was enqueued before the close waits for the transaction coordinator any longer."""


class DropTransaction(NamedTuple):
    """Fail what is pending of a transaction that is over, with this error."""

    transaction: TransactionId
    error: PulsarException


# Events of the connection.


class ProducerAttached(NamedTuple):
    """There is a connection to the broker, which takes entries of `largest` bytes at most."""

    connection: int
    largest: int


# Events of the broker.


class ProducerCreated(NamedTuple):
    """PRODUCER_SUCCESS. It comes twice for a producer that has to wait for its turn."""

    attempt: int
    command: CommandProducerSuccess


class LineChecked(NamedTuple):
    """ERROR, in answer to the question if the topic is taken; or the question is too large for the broker."""

    attempt: int
    error: BrokerRefusal | InvalidArgument


class ReceiptsArrived(NamedTuple):
    """SEND_RECEIPTs of one read, in order."""

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


class SendTimeoutDue(NamedTuple):
    """The send timeout of the oldest pending batch may be over."""

    generation: int


class LineCheckDue(NamedTuple):
    """A producer that waits for its turn asks again if the topic is taken."""

    generation: int


class LineCheckTimedOut(NamedTuple):
    """The question if the topic is taken got no answer."""

    attempt: int


# Effects.


class AskIfTaken(NamedTuple):
    """Send a PRODUCER that is refused in any case; answer with one of the LineCheck events."""

    attempt: int
    command: CommandProducer
    timeout: float


class AskToCreate(NamedTuple):
    """Send PRODUCER; answer with one of the Create events."""

    attempt: int
    command: CommandProducer
    timeout: float


class SendBatches(NamedTuple):
    """Write batches in this order, each from its `next_frame` on."""

    connection: int
    items: tuple[PendingSend[Any], ...]


class StopDraining(NamedTuple):
    """Fail the messages that wait for the transaction coordinator with this error, and publish those behind them."""

    error: PulsarException


class TakeWaiting(NamedTuple):
    """Look again at the messages of transactions that wait: there is another cluster, which may be theirs."""


class ProducerOpened(NamedTuple):
    """The first creation has succeeded."""

    name: str


class SendsCompleted(NamedTuple):
    """Complete some batches: they are stored."""

    items: tuple[StoredSend, ...]


class FeedRemainingReceipts(NamedTuple):
    """Feed the machine this event: the receipts after those that were matched, for its new state."""

    event: ReceiptsArrived


class Flushed(NamedTuple):
    """Complete a flush: everything before it has ended."""

    token: object
