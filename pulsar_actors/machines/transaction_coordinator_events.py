"""Events and effects of a transaction coordinator's handler: those of `transaction_coordinator.py`.

`attempt` and `connection` are as in `connection_handler_events.py`. The effects `LookUp`, `Attach` and `Detach`, and
the events of lookups and of the connection, are those of producers and consumers.
"""

from google.protobuf.message import Message

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import CommandTcClientConnectRequest

# Events of our own side.


class OpenCoordinator(NamedTuple):
    """Find the coordinator."""


class AskCoordinator(NamedTuple):
    """Send a request to the coordinator. `CoordinatorOutcome` follows with its token, within the timeout."""

    token: object
    command: Message
    timeout: float


class TransactionBegun(NamedTuple):
    """There is one more transaction of this coordinator."""


class TransactionOver(NamedTuple):
    """A transaction of this coordinator has ended."""


class LeaveCluster(NamedTuple):
    """The client goes to another cluster, whose coordinators know nothing of the transactions here."""


class CloseCoordinator(NamedTuple):
    """The client closes: end the transactions, then end."""


class EndCoordinator(NamedTuple):
    """End at once, with this error for all requests."""

    error: PulsarException


# Events of the connection and of the broker.


class CoordinatorAttached(NamedTuple):
    """There is a connection to the coordinator's broker."""

    connection: int


class CoordinatorConnected(NamedTuple):
    """TC_CLIENT_CONNECT is accepted: the broker runs the coordinator, and takes requests for it."""

    attempt: int


class CoordinatorRefused(NamedTuple):
    """TC_CLIENT_CONNECT is refused, or was not answered in time."""

    attempt: int
    error: PulsarException


class RequestAccepted(NamedTuple):
    """The coordinator has done what a request asks for. An answer may come from an earlier connection."""

    number: int
    answer: Message


class RequestRejected(NamedTuple):
    """The coordinator refuses a request, or has not answered it in time."""

    connection: int
    number: int
    error: PulsarException


# Events of time.


class RepeatDue(NamedTuple):
    """Requests that were refused for the moment are to be sent again."""

    generation: int


class CoordinatorRequestsDue(NamedTuple):
    """The deadline of a request may have passed."""

    generation: int


class CoordinatorCloseDue(NamedTuple):
    """The time for a close is over, and some transactions have not ended."""

    generation: int


# Effects.


class AskToConnect(NamedTuple):
    """Send TC_CLIENT_CONNECT; answer with `CoordinatorConnected` or `CoordinatorRefused`."""

    attempt: int
    command: CommandTcClientConnectRequest
    timeout: float


class SendToCoordinator(NamedTuple):
    """Send a request; answer with `RequestAccepted` or `RequestRejected` of the same number."""

    number: int
    command: Message
    timeout: float


class CoordinatorOutcome(NamedTuple):
    """Report the outcome of a request: the answer or an error. It is `repeated` if it was sent more than once."""

    token: object
    outcome: Message | PulsarException
    repeated: bool


class EndTransactions(NamedTuple):
    """End all transactions: abort those that are open. `TransactionOver` follows for each."""


class EndOpened(NamedTuple):
    """End at once, with this error, all transactions that the coordinator of the former cluster has opened."""

    error: PulsarException


class CoordinatorEnded(NamedTuple):
    """The handler has ended. The error is the reason, None after a close."""

    error: PulsarException | None
