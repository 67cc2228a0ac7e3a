"""The actor of one transaction coordinator: it sends requests there, and runs the transactions that it coordinates.

It has one machine for the way to the coordinator (`machines/transaction_coordinator.py`), and one for each transaction
(`machines/transaction.py`), which asks the first to send its requests.

A client has an actor for each coordinator that it has used. It ends with the client, once its transactions have ended.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    InternalError,
    InvalidArgument,
    InvalidTxnStatusError,
    Misdirected,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.chart import Event
from pulsar_actors.machines.connection_commands import COORDINATOR
from pulsar_actors.machines.connection_events import RemoveHandler, SendRequest
from pulsar_actors.machines.connection_handler_events import (
    Attach,
    Detach,
    Detached,
    EndAtOnce,
    LookedUp,
    LookUp,
    LookupAttemptFailed,
    LookupFailed,
)
from pulsar_actors.machines.consumer_events import DropTransactionalAcks
from pulsar_actors.machines.lookup_events import LookupTarget
from pulsar_actors.machines.machine_history import MOST_ENDED, MachineHistory
from pulsar_actors.machines.producer_events import DropTransaction
from pulsar_actors.machines.state_machine import StartTimer, StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.repeated_ends import RepeatedEnds
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.machines.transaction import TransactionMachine
from pulsar_actors.machines.transaction_coordinator import CoordinatorHandler
from pulsar_actors.machines.transaction_coordinator_events import (
    AskCoordinator,
    AskToConnect,
    CloseCoordinator,
    CoordinatorAttached,
    CoordinatorConnected,
    CoordinatorEnded,
    CoordinatorOutcome,
    CoordinatorRefused,
    EndCoordinator,
    EndOpened,
    EndTransactions,
    LeaveCluster,
    OpenCoordinator,
    RequestAccepted,
    RequestRejected,
    SendToCoordinator,
    TransactionBegun,
    TransactionOver,
)
from pulsar_actors.machines.transaction_events import (
    Abort,
    AskToBegin,
    AskToEnd,
    AskToRegister,
    Begin,
    BeginFailed,
    Begun,
    CallDone,
    CallsFailed,
    CloseTransaction,
    Commit,
    DropWork,
    EndAnswered,
    EndFailed,
    EndTransaction,
    FreeSubscriptions,
    Join,
    Leave,
    RefuseWork,
    Register,
    Registered,
    RegistrationFailed,
    RewindConsumers,
    Settled,
    SettleWork,
    TransactionNotOpened,
    TransactionOpened,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, MachineActor, tell
from pulsar_actors.runtime.future import PendingCalls, SlimFuture
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.messages import (
    ActorEnded,
    ActorStarted,
    AttachHandler,
    BrokerFound,
    CloseHandle,
    ClusterChanged,
    ConnectionAssigned,
    ConnectionReady,
    ConnectionUnavailable,
    FindBroker,
    HandlerRef,
    LookupRetrying,
    Registration,
    ReplyTo,
    RequestAnswered,
)
from pulsar_actors.runtime.producer_actor import TriggerFlush
from pulsar_actors.runtime.transaction_work import SubscriptionAcks, TransactionCall, TransactionWork
from pulsar_actors.wire.transaction_id import TransactionId, transaction_in
from pulsar_actors.wire.transaction_requests import ANSWER_TYPES

ANSWERS: Final = (BrokerRefusal, InvalidArgument, Timeout, Misdirected)
"""The errors that end a request: a refusal, one of our own side, no answer in time, a wrong answer."""


class NewTransaction(NamedTuple):
    """From a caller: open a transaction, or join one by its id, and complete the future with its work."""

    timeout: float
    opened: SlimFuture["OpenedTransaction"]
    shared: bool = False
    joined: TransactionId | None = None


class OpenedTransaction(NamedTuple):
    """A transaction that is open: its name, its machine, for the state, and its work."""

    name: str
    machine: TransactionMachine
    work: TransactionWork
    serial: int
    coordinator: ActorRef


Effectful = Callable[[Any, int, Any, Any], object]  # a method for an effect of a transaction


class _Transaction:
    """A transaction of the actor. `work` is None until it is open."""

    __slots__ = ("machine", "name", "opened", "work")

    def __init__(self, name: str, machine: TransactionMachine, opened: SlimFuture[OpenedTransaction]) -> None:
        self.name = name
        self.machine = machine
        self.opened = opened
        self.work: TransactionWork | None = None


class TransactionCoordinatorActor(MachineActor[CoordinatorHandler]):
    """The actor of one coordinator of a client."""

    def __init__(  # noqa: PLR0913 - an actor is built whole
        self,
        registration: Registration,
        machine: CoordinatorHandler,
        coordinator: int,
        operation_timeout: float,
        new_backoff: Callable[[], Backoff],
        pending_calls: PendingCalls,
        interleaving: Interleaving = THREADS,
        subscription_acks: SubscriptionAcks | None = None,
    ) -> None:
        super().__init__(registration.loop, registration.guardian)
        self.machine = machine
        self._registration = registration
        self._coordinator = coordinator
        self._operation_timeout = operation_timeout
        self._new_backoff = new_backoff  # between the repeats of an END_TXN
        self._repeated_ends = RepeatedEnds()
        self._pending_calls = pending_calls
        self._interleaving = interleaving
        self._subscription_acks = subscription_acks
        self._connection: ActorRef | None = None
        self._transactions: dict[int, _Transaction] = {}
        self._serial = 0
        self._ended: deque[tuple[str, MachineHistory]] = deque(maxlen=MOST_ENDED)

    def __str__(self) -> str:
        return f"transaction coordinator {self._coordinator}"

    def machines(self) -> Iterator[tuple[str, StateMachine]]:
        """Iterate over the coordinator and its transactions."""
        yield from super().machines()
        for transaction in tuple(self._transactions.values()):
            yield transaction.name, transaction.machine

    def ended_histories(self) -> Iterator[tuple[str, MachineHistory]]:
        """Iterate over the histories of the transactions that ended last."""
        yield from tuple(self._ended)

    def on_start(self) -> None:
        """Register with the guardian, which closes this actor with the client, and find the coordinator."""
        self.tell_guardian(ActorStarted(self.actor_ref, belongs_to_cluster=True))
        self.feed(OpenCoordinator())

    def receive(self, message: object) -> None:  # noqa: C901, PLR0912 - one line for each message
        """Take messages of callers, of lookups, of the connection and of the guardian."""
        current = self.machine.connection
        match message:
            case TransactionCall(serial, event, machine):
                if machine is None or not machine.is_over:
                    self._feed_transaction(serial, event)
                else:
                    self._handle(serial, _Transaction(f"transaction {serial} of {self}", machine, SlimFuture()), event)
            case NewTransaction():
                self._begin(message)
            case RequestAnswered(request, answer):
                self._answered(request, answer)
            case LookupRetrying(attempt, error):
                self.feed(LookupAttemptFailed(attempt, error))
            case BrokerFound(attempt, outcome):
                self._broker_found(attempt, outcome)
            case ConnectionAssigned(number, connection):
                if number == current:
                    self._connection = connection
                else:
                    tell(connection, RemoveHandler(self._handler_ref(number)))
            case ConnectionReady(number):
                self.feed(CoordinatorAttached(number))
            case ConnectionUnavailable(number, error):
                if number == current:
                    self._connection = None
                self.feed(Detached(number, error))
            case ClusterChanged():
                self.feed(LeaveCluster())
            case CloseHandle():
                self.feed(CloseCoordinator())
            case EndAtOnce(error):
                self._end_at_once(error)
            case _:
                raise InternalError(f"a transaction coordinator does not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """Leave the connection, and fail all callers."""
        self._detach(Detach(self.machine.connection))
        for transaction in self._transactions.values():
            self._pending_calls.fail(transaction.opened, bug)
            self._fail_calls(transaction.machine.drop_all(), bug)
            if transaction.work is not None:
                transaction.work.refuse(bug)

    def missed(self, message: object) -> None:
        """Leave a connection that was assigned too late, and fail callers."""
        error = self.bug or AlreadyClosed("the client is closed")
        match message:
            case ConnectionAssigned(number, connection):
                tell(connection, RemoveHandler(self._handler_ref(number)))
            case NewTransaction(_, opened):
                self._pending_calls.fail(opened, error)
            case TransactionCall(_, Register(token) | Commit(token) | Abort(token) | Leave(token)):
                self._fail_calls((token,), error)
            case _:
                pass

    def over(self) -> None:
        """End the actor."""
        self.tell_guardian(ActorEnded(self.actor_ref))
        self.finish()

    def _begin(self, new: NewTransaction) -> None:
        self._serial += 1
        machine = TransactionMachine(
            *(self._coordinator, new.timeout, self._operation_timeout, self._new_backoff(), self._repeated_ends),
            shared=new.shared,
        )
        name = f"transaction {self._serial} of {self}"
        self._transactions[self._serial] = _Transaction(name, machine, new.opened)
        self.feed(TransactionBegun())
        self._feed_transaction(self._serial, Begin() if new.joined is None else Join(new.joined))

    def _end_at_once(self, error: PulsarException) -> None:
        for serial in list(self._transactions):
            self._feed_transaction(serial, EndTransaction(error))
        self.feed(EndCoordinator(error))

    def _broker_found(self, attempt: int, outcome: LookupTarget | PulsarException) -> None:
        if isinstance(outcome, PulsarException):
            self.feed(LookupFailed(attempt, outcome))
        else:
            self.feed(LookedUp(attempt, outcome, outcome.home))

    def _answered(self, request: tuple[type, int, int, type], answer: Any) -> None:  # noqa: ANN401 - any answer
        """Feed the answer to TC_CLIENT_CONNECT, or to a request. A lost connection comes as `ConnectionUnavailable`."""
        kind, connection, number, expected = request
        error = _error_in(answer, expected)
        if error is not None and not isinstance(error, ANSWERS):
            return
        if kind is AskToConnect:
            self.feed(CoordinatorConnected(number) if error is None else CoordinatorRefused(number, error))
        elif error is None:
            self.feed(RequestAccepted(number, answer))
        else:
            self.feed(RequestRejected(connection, number, error))

    def _handler_ref(self, number: int) -> HandlerRef:
        return HandlerRef(COORDINATOR, self._registration.id, self.actor_ref, number)

    def _ask_broker(self, kind: type, number: int, command: Any, timeout: float) -> None:  # noqa: ANN401 - any request
        if self._connection is not None:
            request = (kind, self.machine.connection, number, ANSWER_TYPES[type(command)])
            tell(self._connection, SendRequest(command, ReplyTo(self.actor_ref, request), timeout))

    # Effects of the coordinator's machine.

    def _look_up(self, effect: LookUp) -> None:
        self.tell_guardian(FindBroker(effect.topic, effect.cluster_url, ReplyTo(self.actor_ref, effect.attempt)))

    def _attach(self, effect: Attach) -> None:
        broker = effect.broker
        assert isinstance(broker, LookupTarget)  # noqa: S101 - what lookups give
        self.tell_guardian(AttachHandler(broker, self._registration.slot, self._handler_ref(effect.connection)))

    def _detach(self, effect: Detach) -> None:
        if self._connection is not None:
            tell(self._connection, RemoveHandler(self._handler_ref(effect.connection)))
        self._connection = None

    def _ask_to_connect(self, effect: AskToConnect) -> None:
        self._ask_broker(AskToConnect, effect.attempt, effect.command, effect.timeout)

    def _send(self, effect: SendToCoordinator) -> None:
        self._ask_broker(SendToCoordinator, effect.number, effect.command, effect.timeout)

    def _report_outcome(self, effect: CoordinatorOutcome) -> None:
        token: Any = effect.token
        serial, event_of = token
        self._feed_transaction(serial, event_of(effect.outcome, effect.repeated))

    def _end_transactions(self, _: EndTransactions) -> None:
        for serial in list(self._transactions):
            self._feed_transaction(serial, CloseTransaction())

    def _end_opened(self, effect: EndOpened) -> None:
        for serial, transaction in list(self._transactions.items()):
            if transaction.machine.id is not None:
                self._feed_transaction(serial, EndTransaction(effect.error))

    def _report_end(self, effect: CoordinatorEnded) -> None:
        if effect.error is not None:
            LOG.warning("%s cannot be used: %s", self, effect.error)
        for serial in list(self._transactions):
            self._feed_transaction(serial, EndTransaction(effect.error or AlreadyClosed("the client is closed")))

    # Transactions: the events and the effects of their machines.

    def _feed_transaction(self, serial: int, event: Event) -> None:
        transaction = self._transactions.get(serial)
        if transaction is None:
            if isinstance(event, Register):
                ended = InvalidTxnStatusError("InvalidTxnStatus", "the transaction has ended already")
                self._fail_calls((event.token,), ended)
            return
        self._handle(serial, transaction, event)
        if transaction.machine.is_over and self._transactions.pop(serial, None) is not None:
            self._ended.append((transaction.name, transaction.machine.history))
            self.feed(TransactionOver())

    def _handle(self, serial: int, transaction: _Transaction, event: Event) -> None:
        for effect in self.handled(transaction.name, transaction.machine, event):
            if isinstance(effect, StartTimer):
                self.later(effect.delay, self._transaction_timer_over, (serial, effect.event))
            else:
                perform = self.TRANSACTION_PERFORMS[type(effect)]
                perform(self, serial, transaction, effect)

    def _transaction_timer_over(self, timer: tuple[int, Event]) -> None:
        serial, event = timer
        if serial in self._transactions:
            self._feed_transaction(serial, event)

    def _ask_coordinator(
        self, serial: int, effect: AskToBegin | AskToRegister | AskToEnd, event_of: Callable[[Any, bool], Event]
    ) -> None:
        self.feed(AskCoordinator((serial, event_of), effect.command, effect.timeout))

    def _ask_to_begin(self, serial: int, _: _Transaction, effect: AskToBegin) -> None:
        self._ask_coordinator(serial, effect, _begun_or_not)

    def _ask_to_register(self, serial: int, _: _Transaction, effect: AskToRegister) -> None:
        self._ask_coordinator(serial, effect, partial(_registered_or_not, effect.token))

    def _ask_to_end(self, serial: int, transaction: _Transaction, effect: AskToEnd) -> None:
        _work_of(transaction).let_go()
        self._ask_coordinator(serial, effect, _ended_or_not)

    def _opened(self, serial: int, transaction: _Transaction, effect: TransactionOpened) -> None:
        work = TransactionWork(
            *(effect.transaction, self.actor_ref, serial, self._interleaving, self.machine.home),
            subscription_acks=self._subscription_acks,
        )
        transaction.work = work
        opened = OpenedTransaction(transaction.name, transaction.machine, work, serial, self.actor_ref)
        self._pending_calls.resolve(transaction.opened, opened)

    def _not_opened(self, _: int, transaction: _Transaction, effect: TransactionNotOpened) -> None:
        self._pending_calls.fail(transaction.opened, effect.error)

    def _refuse_work(self, _: int, transaction: _Transaction, effect: RefuseWork) -> None:
        _work_of(transaction).refuse(effect.error)

    def _free_subscriptions(self, _: int, transaction: _Transaction, __: FreeSubscriptions) -> None:
        _work_of(transaction).forget_claims()

    def _settle_work(self, serial: int, transaction: _Transaction, _: SettleWork) -> None:
        work = _work_of(transaction)
        for producer in list(work.producers):
            tell(producer, TriggerFlush())

        def report(failure: Exception | None) -> None:
            tell(self.actor_ref, TransactionCall(serial, Settled(failure)))  # type: ignore[arg-type] # of sends and acks

        work.when_settled(report)

    def _drop_work(self, _: int, transaction: _Transaction, effect: DropWork) -> None:
        work = _work_of(transaction)
        work.dropped = effect.error
        for producer in list(work.producers):
            tell(producer, DropTransaction(work.id, effect.error))
            tell(producer, TriggerFlush())  # refuses those that are still in its queue
        for consumer in list(work.consumers):
            tell(consumer, DropTransactionalAcks(work.id, effect.error))

    def _rewind(self, _: int, transaction: _Transaction, effect: RewindConsumers) -> None:
        """Rewind one consumer after the other. A future may end on any thread."""
        left = list(_work_of(transaction).rewinds.values())

        def go_on(_: object) -> None:
            if left:
                left.pop()().add_done_callback(go_on)
            elif effect.error is None:
                self._complete(effect.tokens)
            else:
                self._fail_calls(effect.tokens, effect.error)

        go_on(None)

    def _done(self, _: int, __: _Transaction, effect: CallDone) -> None:
        self._complete(effect.tokens)

    def _failed(self, _: int, __: _Transaction, effect: CallsFailed) -> None:
        self._fail_calls(effect.tokens, effect.error)

    def _complete(self, tokens: Sequence[object]) -> None:
        for token in tokens:
            done: Any = token  # the future of a caller
            self._pending_calls.resolve(done, None)

    def _fail_calls(self, tokens: Sequence[object], error: PulsarException) -> None:
        for token in tokens:
            done: Any = token
            self._pending_calls.fail(done, error)

    PERFORMS: ClassVar = {
        LookUp: _look_up,
        Attach: _attach,
        Detach: _detach,
        AskToConnect: _ask_to_connect,
        SendToCoordinator: _send,
        CoordinatorOutcome: _report_outcome,
        EndTransactions: _end_transactions,
        EndOpened: _end_opened,
        CoordinatorEnded: _report_end,
    }
    TRANSACTION_PERFORMS: ClassVar[Mapping[type, Effectful]] = {
        AskToBegin: _ask_to_begin,
        AskToRegister: _ask_to_register,
        AskToEnd: _ask_to_end,
        TransactionOpened: _opened,
        TransactionNotOpened: _not_opened,
        RefuseWork: _refuse_work,
        FreeSubscriptions: _free_subscriptions,
        SettleWork: _settle_work,
        DropWork: _drop_work,
        RewindConsumers: _rewind,
        CallDone: _done,
        CallsFailed: _failed,
    }


def _work_of(transaction: _Transaction) -> TransactionWork:
    assert transaction.work is not None  # noqa: S101 - it is open, or was
    return transaction.work


def _error_in(answer: Any, expected: type) -> PulsarException | None:  # noqa: ANN401 - any answer
    """Return the error in an answer, or that it is the answer to another request; None if there is none."""
    if isinstance(answer, PulsarException):
        return answer
    is_ours = type(answer) is expected
    if not is_ours:
        return Misdirected(f"the broker answered a transaction's request with {type(answer).__name__}")
    return refusal(answer.error, answer.message) if answer.HasField("error") else None


def _begun_or_not(outcome: Any, repeated: bool) -> Begun | BeginFailed:  # noqa: ANN401, ARG001, FBT001 - see above
    if isinstance(outcome, PulsarException):
        return BeginFailed(outcome)
    transaction = transaction_in(outcome)
    if transaction is None:
        return BeginFailed(Misdirected("the broker has opened a transaction and does not name it"))
    return Begun(transaction)


def _registered_or_not(token: object, outcome: Any, repeated: bool) -> Registered | RegistrationFailed:  # noqa: ANN401, ARG001, FBT001
    return RegistrationFailed(token, outcome) if isinstance(outcome, PulsarException) else Registered(token)


def _ended_or_not(outcome: Any, repeated: bool) -> EndAnswered | EndFailed:  # noqa: ANN401, FBT001 - see above
    return EndFailed(outcome, repeated) if isinstance(outcome, PulsarException) else EndAnswered()
