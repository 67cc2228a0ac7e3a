"""The handler of one transaction coordinator: it keeps a connection to the coordinator, and sends it requests.

Each coordinator has a partition of a system topic, and the broker that serves the partition runs the coordinator. So
the handler looks up the partition as a producer would, and then sends TC_CLIENT_CONNECT, which has the broker load the
coordinator. It never creates a producer or a consumer there.

Requests wait while there is no coordinator. One that has no answer when the connection is lost, or when the coordinator
turns out to have moved, is sent again to the new broker. All this happens within the deadline of the request: there is
no other time limit, and a handler tries to reach its coordinator for as long as the client is open. Only an error that
another try would meet again ends it, such as a broker that has transactions switched off. Once it has reached its
coordinator, it survives more errors, as a producer does.

The first coordinator to be asked opens the transaction, and all later requests about it go there. `transaction.py`
decides what is asked.

A client may go to another cluster. Its coordinators have the same numbers, and give their transactions the same ids. So
what was opened before ends, and no request about it is sent there: it would be about a transaction of somebody else.
Only requests to open one go along.
"""

from collections.abc import Iterable
from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerMetadataError,
    BrokerPersistenceError,
    BrokerRefusal,
    CertificateRefused,
    InvalidArgument,
    InvalidTxnStatusError,
    LookupsRefused,
    OperationNotSupported,
    PulsarException,
    ServiceUnitNotReady,
    Timeout,
    TransactionCoordinatorNotFoundError,
    UnknownError,
    UnsupportedVersionError,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler_events import (
    Attach,
    Detach,
    Detached,
    LookedUp,
    LookUp,
    LookupAttemptFailed,
    LookupFailed,
    RetryDue,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.coordinator_requests import CoordinatorRequests, PendingRequest
from pulsar_actors.machines.trackers.server_errors import RetryVerdict, last_failure_text, meaning_of
from pulsar_actors.machines.transaction_coordinator_events import (
    AskCoordinator,
    AskToConnect,
    CloseCoordinator,
    CoordinatorAttached,
    CoordinatorCloseDue,
    CoordinatorConnected,
    CoordinatorEnded,
    CoordinatorOutcome,
    CoordinatorRefused,
    CoordinatorRequestsDue,
    EndCoordinator,
    EndOpened,
    EndTransactions,
    LeaveCluster,
    OpenCoordinator,
    RepeatDue,
    RequestAccepted,
    RequestRejected,
    SendToCoordinator,
    TransactionBegun,
    TransactionOver,
)
from pulsar_actors.wire.PulsarApi_pb2 import CommandNewTxn, CommandTcClientConnectRequest
from pulsar_actors.wire.transaction_requests import coordinator_topic

MOVED: Final = (TransactionCoordinatorNotFoundError, ServiceUnitNotReady)
"""The broker does not run the coordinator, or not yet."""

PASSING: Final = (UnknownError, BrokerMetadataError, BrokerPersistenceError, LookupsRefused)
"""Errors that a coordinator also gives while it recovers."""

MOST_REFUSALS: Final = 5
"""So many times a request is refused with a passing error before its caller gets the error."""

REPEAT_AFTER: Final = 0.1
"""Seconds after which a request that was refused with a passing error is sent again."""


@unique
class State(Enum):
    """The states of a coordinator's handler."""

    IDLE = "Created, but not opened yet."
    LOOKING_UP = "The broker that runs the coordinator is being found."
    CONNECTING = "The broker is known; a connection to it is awaited."
    REGISTERING = "TC_CLIENT_CONNECT is sent; the broker has to load the coordinator."
    READY = "The coordinator takes requests."
    WAITING = "Something failed; after a pause the coordinator is looked up again."
    OVER = "Closed with the client, or ended by an error that a retry cannot cure."


IDLE, LOOKING_UP, CONNECTING, REGISTERING, READY, WAITING, OVER = State

ATTACHED: Final = (CONNECTING, REGISTERING, READY)
WITHOUT_COORDINATOR: Final = (IDLE, LOOKING_UP, CONNECTING, REGISTERING, WAITING)
OPENED: Final = (LOOKING_UP, CONNECTING, REGISTERING, READY, WAITING)
ACTIVE: Final = (IDLE, *OPENED)

# fmt: off
ROWS: Final = (
    #   trigger                 source               dest         guard                   does
    Row(OpenCoordinator,        IDLE,                LOOKING_UP,  None,                   "look_up"),
    Row(LookedUp,               LOOKING_UP,          CONNECTING,  None,                   "attach"),
    Row(LookupAttemptFailed,    LOOKING_UP,          INTERNAL,    None,                   "note_failure"),
    Row(LookupFailed,           LOOKING_UP,          OVER,        "is_final",             "end_refused"),
    Row(LookupFailed,           LOOKING_UP,          WAITING,     None,                   "back_off"),
    Row(CoordinatorAttached,    CONNECTING,          REGISTERING, None,                   "register"),
    Row(CoordinatorConnected,   REGISTERING,         READY,       None,                   "begin"),
    Row(CoordinatorRefused,     REGISTERING,         OVER,        "is_final",             "end_refused"),
    Row(CoordinatorRefused,     REGISTERING,         WAITING,     None,                   "leave_and_back_off"),
    Row(Detached,               CONNECTING,          OVER,        "is_final",             "end_refused"),
    Row(Detached,               ATTACHED,            WAITING,     None,                   "back_off"),
    Row(RetryDue,               WAITING,             LOOKING_UP,  None,                   "look_up"),
    Row(LeaveCluster,           OPENED,              LOOKING_UP,  None,                   "leave_cluster"),

    # Requests.
    Row(AskCoordinator,         WITHOUT_COORDINATOR, INTERNAL,    None,                   "hold"),
    Row(AskCoordinator,         READY,               INTERNAL,    None,                   "send"),
    Row(RequestAccepted,        ACTIVE,              INTERNAL,    None,                   "give_answer"),
    Row(RequestRejected,        READY,               WAITING,     "has_moved",            "leave_and_back_off"),
    Row(RequestRejected,        READY,               INTERNAL,    "may_pass",             "repeat_later"),
    Row(RequestRejected,        READY,               INTERNAL,    None,                   "give_error"),
    Row(RepeatDue,              READY,               INTERNAL,    None,                   "send_waiting"),
    Row(CoordinatorRequestsDue, ACTIVE,              INTERNAL,    None,                   "fail_late"),

    # The end.
    Row(TransactionBegun,       ACTIVE,              INTERNAL,    None,                   "count_begun"),
    Row(TransactionOver,        ACTIVE,              OVER,        "closes_with_the_last", "end"),
    Row(TransactionOver,        ACTIVE,              INTERNAL,    None,                   "count_over"),
    Row(CloseCoordinator,       ACTIVE,              OVER,        "has_no_transaction",   "end"),
    Row(CloseCoordinator,       ACTIVE,              INTERNAL,    None,                   "end_transactions"),
    Row(CoordinatorCloseDue,    ACTIVE,              OVER,        None,                   "end"),
    Row(EndCoordinator,         ACTIVE,              OVER,        None,                   "end_at_once"),
)

IGNORES: Final = (
    Ignore((LookedUp, LookupAttemptFailed, LookupFailed), (IDLE, CONNECTING, REGISTERING, READY, WAITING, OVER)),
    Ignore(CoordinatorAttached,                           (IDLE, LOOKING_UP, REGISTERING, READY, WAITING, OVER)),
    Ignore((CoordinatorConnected, CoordinatorRefused),    (IDLE, LOOKING_UP, CONNECTING, READY, WAITING, OVER)),
    Ignore(Detached,                                      (IDLE, LOOKING_UP, WAITING, OVER)),
    Ignore(RetryDue,                                      (IDLE, LOOKING_UP, CONNECTING, REGISTERING, READY, OVER)),
    Ignore(RequestRejected,                               (*WITHOUT_COORDINATOR, OVER)),
    Ignore(RequestAccepted,                               OVER),
    Ignore(RepeatDue,                                     (*WITHOUT_COORDINATOR, OVER)),
    Ignore((CoordinatorRequestsDue, CoordinatorCloseDue), OVER),
    Ignore(LeaveCluster,                                  (IDLE, OVER)),
    Ignore((TransactionBegun, TransactionOver),           OVER),
    Ignore((CloseCoordinator, EndCoordinator),            OVER),
)
# fmt: on

OURS: Final = (
    OpenCoordinator, AskCoordinator, TransactionBegun, TransactionOver, LeaveCluster, CloseCoordinator, EndCoordinator,
)  # fmt: skip

CHART: Final = Chart(
    "transaction_coordinator", states=State, initial=IDLE, final=[OVER], ours=OURS, rows=ROWS, ignores=IGNORES
)


class CoordinatorHandler(StateMachine, chart=CHART, current=("attempt", "connection")):
    """The guards and actions of the chart, in its order."""

    __slots__ = (
        "_backoff", "_closing", "_coordinator", "_ending", "_last_error", "_operation_timeout", "_requests",
        "_transactions", "_was_ready", "attempt", "connection", "home",
    )  # fmt: skip

    def __init__(self, coordinator: int, backoff: Backoff, operation_timeout: float) -> None:
        super().__init__()
        self.attempt = 0
        self.connection = 0
        self.home = 0  # the number of the cluster
        self._coordinator = coordinator
        self._backoff = backoff
        self._operation_timeout = operation_timeout
        self._requests = CoordinatorRequests()
        self._last_error: PulsarException | None = None
        self._ending: PulsarException = AlreadyClosed("the client is closed")
        self._was_ready = False
        self._transactions = 0
        self._closing = False

    def look_up(self, event: OpenCoordinator | RetryDue, now: float) -> Effects:
        """Find the broker that serves the coordinator's partition."""
        return [self._look_up()]

    def attach(self, event: LookedUp, now: float) -> Effects:
        """Get a connection to that broker."""
        self.connection += 1
        self.home = event.home
        return [Attach(self.connection, event.broker)]

    def note_failure(self, event: LookupAttemptFailed, now: float) -> Effects:
        """Remember the error, for a request that times out before the lookup has ended."""
        self._last_error = event.error
        return []

    def is_final(self, event: LookupFailed | CoordinatorRefused | Detached, now: float) -> bool:
        """Return whether another try would fail in the same way."""
        error = event.error
        if isinstance(error, (UnsupportedVersionError, OperationNotSupported)):
            return True
        if isinstance(error, BrokerRefusal):
            meaning = meaning_of(error)
            return (meaning.once_created if self._was_ready else meaning.first_creation) is RetryVerdict.FAIL
        return isinstance(error, (CertificateRefused, InvalidArgument))

    def end_refused(self, event: LookupFailed | CoordinatorRefused | Detached, now: float) -> Effects:
        """End with the error, which all requests get."""
        return self._end(event.error)

    def back_off(self, event: LookupFailed | Detached, now: float) -> Effects:
        """Remember the error, and wait before the next lookup. What was sent will be sent again."""
        return self._back_off(event.error)

    def register(self, event: CoordinatorAttached, now: float) -> Effects:
        """Send TC_CLIENT_CONNECT."""
        self.attempt += 1
        command = CommandTcClientConnectRequest(request_id=0, tc_id=self._coordinator)
        return [AskToConnect(self.attempt, command, self._operation_timeout)]

    def begin(self, event: CoordinatorConnected, now: float) -> Effects:
        """Send all requests that wait."""
        self._was_ready = True
        return self._send_waiting(now)

    def leave_and_back_off(self, event: CoordinatorRefused | RequestRejected, now: float) -> Effects:
        """Leave the connection, which stays open for others, and wait before the next lookup."""
        return [Detach(self.connection), *self._back_off(event.error)]

    def leave_cluster(self, event: LeaveCluster, now: float) -> Effects:
        """End what was opened here, and find the coordinator of this number in the other cluster."""
        self._was_ready = False
        self._backoff.reset()
        self._requests.start_over_with(CommandNewTxn)
        what = "the client has gone to another cluster; the former one aborts the transaction after its timeout"
        ended = EndOpened(InvalidTxnStatusError("InvalidTxnStatus", what))
        return [Detach(self.connection), self._look_up(), *self._watch(now), ended]

    # Requests.

    def hold(self, event: AskCoordinator, now: float) -> Effects:
        """Keep a request until the coordinator is found."""
        self._requests.add(event.token, event.command, now + event.timeout)
        return self._watch(now)

    def send(self, event: AskCoordinator, now: float) -> Effects:
        """Send a request, and all that wait to be repeated."""
        self._requests.add(event.token, event.command, now + event.timeout)
        return self._send_waiting(now)

    def give_answer(self, event: RequestAccepted, now: float) -> Effects:
        """Report the answer. It shows that the coordinator works."""
        self._backoff.reset()
        request = self._requests.end(event.number)
        return [] if request is None else [CoordinatorOutcome(request.token, event.answer, request.sends > 1)]

    def has_moved(self, event: RequestRejected, now: float) -> bool:
        """Return whether the broker does not run the coordinator any longer. The request is then sent elsewhere."""
        return isinstance(event.error, MOVED) and self._requests.find(event.number) is not None

    def may_pass(self, event: RequestRejected, now: float) -> bool:
        """Return whether the coordinator may accept the request a moment later."""
        request = self._requests.find(event.number)
        return request is not None and isinstance(event.error, PASSING) and request.refusals < MOST_REFUSALS

    def repeat_later(self, event: RequestRejected, now: float) -> Effects:
        """Send the request again after a moment."""
        self._last_error = event.error
        self._requests.put_back(event.number)
        return self.timers.ensure(RepeatDue, now + REPEAT_AFTER, now)

    def send_waiting(self, event: RepeatDue, now: float) -> Effects:
        """Send again what was refused."""
        return self._send_waiting(now)

    def give_error(self, event: RequestRejected, now: float) -> Effects:
        """Report the error."""
        request = self._requests.end(event.number)
        return [] if request is None else [CoordinatorOutcome(request.token, event.error, request.sends > 1)]

    def fail_late(self, event: CoordinatorRequestsDue, now: float) -> Effects:
        """Fail the requests whose deadline has passed."""
        late = self._requests.expire(now)
        what = f"transaction coordinator {self._coordinator} has not answered in time"
        error = Timeout(f"{what}: its handler is {self.state.name}{last_failure_text(self._last_error)}")
        return [*_outcomes(late, error), *self._watch(now)]

    # The end.

    def count_begun(self, event: TransactionBegun, now: float) -> Effects:
        """Count one more transaction."""
        self._transactions += 1
        return []

    def closes_with_the_last(self, event: TransactionOver, now: float) -> bool:
        """Return whether the close has waited for this transaction only."""
        return self._closing and self._transactions == 1

    def count_over(self, event: TransactionOver, now: float) -> Effects:
        """Count one transaction less."""
        self._transactions -= 1
        return []

    def has_no_transaction(self, event: CloseCoordinator, now: float) -> bool:
        """Return whether all transactions have ended."""
        return not self._transactions

    def end_transactions(self, event: CloseCoordinator, now: float) -> Effects:
        """End the transactions first; the coordinator is still needed for that.

        Each has to wait for its sends and then for the coordinator, but all together for no longer than any close.
        """
        self._closing = True
        return [self.timers.start(CoordinatorCloseDue, self._operation_timeout), EndTransactions()]

    def end(self, event: CloseCoordinator | TransactionOver | CoordinatorCloseDue, now: float) -> Effects:
        """End. No broker has to be told: a coordinator keeps nothing for a client."""
        return self._end(None)

    def end_at_once(self, event: EndCoordinator, now: float) -> Effects:
        """End with the error."""
        return self._end(event.error)

    def _look_up(self) -> LookUp:
        self.attempt += 1
        return LookUp(self.attempt, coordinator_topic(self._coordinator), None)

    def _back_off(self, error: PulsarException) -> Effects:
        self._last_error = error
        self._requests.unsend_all()
        return [self.timers.start(RetryDue, self._backoff.next_delay())]

    def _send_waiting(self, now: float) -> Effects:
        sent = [SendToCoordinator(*request) for request in self._requests.take_unsent(now)]
        return [*sent, *self._watch(now)]

    def _end(self, error: PulsarException | None) -> Effects:
        if error is not None:
            self._ending = error
        failed = _outcomes(self._requests.drain(), self._ending)
        return [*failed, Detach(self.connection), CoordinatorEnded(error)]

    def _watch(self, now: float) -> Effects:
        return self.timers.ensure(CoordinatorRequestsDue, self._requests.next_deadline(), now)


def _outcomes(requests: Iterable[PendingRequest], error: PulsarException) -> Effects:
    return [CoordinatorOutcome(request.token, error, request.sends > 1) for request in requests]
