"""Whatever brokers and connections do to a coordinator's handler, each request has one outcome; faults are found."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConnectionLost,
    NotAllowedError,
    ServiceUnitNotReady,
    Timeout,
    TransactionCoordinatorNotFoundError,
    TransactionNotFound,
    UnknownError,
)
from pulsar_actors.machines.chart import INTERNAL
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
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.transaction_coordinator import CHART, CoordinatorHandler, State
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
from pulsar_actors.wire.PulsarApi_pb2 import CommandEndTxn, CommandNewTxn, CommandNewTxnResponse
from tests.machines.mutants import Fault, Hunt, fault, hunting

TIMEOUT = 30.0
LONGEST = 6.0
LOST = ConnectionLost("reset")
MOVED = [
    TransactionCoordinatorNotFoundError("TransactionCoordinatorNotFound", "not here"),
    ServiceUnitNotReady("ServiceNotReady", "loading"),
]
PASSING = UnknownError("UnknownError", "recovering")
FINAL = TransactionNotFound("TransactionNotFound", "who?")
OFF = NotAllowedError("NotAllowedError", "transactions are off")
LOOKING, JOINING, JOINED, ASKED, READY = "looking", "joining", "joined", "asked", "ready"


class AnyCoordinator(RuleBasedStateMachine):
    """The handler, what its broker has of it, and the requests with what was sent and answered."""

    machine_class: Any = CoordinatorHandler
    starts: tuple[int, ...] = (0, 1, 2, 3, 3, 3)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.machine: CoordinatorHandler = self.machine_class(3, Backoff(lambda: 0.0, 0.1, LONGEST), TIMEOUT)
        self.link = ""
        self.attempt = self.connection = 0
        self.waiting: dict[int, float] = {}  # requests without an outcome: their deadlines
        self.opening: set[int] = set()  # those of them that open a transaction
        self.asked: dict[int, int] = {}  # what was sent on the present connection: numbers, and their requests
        self.ever: dict[int, int] = {}  # how often each request was sent in the present cluster
        self.number: dict[int, int] = {}  # under which each request was sent last
        self.numbers: set[int] = set()  # all that were sent
        self.is_leaving = False
        self.tokens = self.transactions = 0
        self.timers: dict[type, StartTimer] = {}
        self.pause = 0.0
        self.is_closing = False
        self.ended: list[Any] = []
        self.was_connected = False

    # What the handler does.

    def tell(self, event: Any) -> None:
        for effect in self.machine.handle(event, self.now):
            match effect:
                case LookUp(attempt, topic):
                    assert topic.endswith("transaction_coordinator_assign-partition-3")
                    self.move(LOOKING, "")
                    self.attempt = attempt
                case Attach(connection):
                    self.move(JOINING, LOOKING)
                    self.connection = connection
                case AskToConnect(attempt, command):
                    assert command.tc_id == 3
                    self.move(ASKED, JOINED)
                    self.attempt = attempt
                case SendToCoordinator():
                    self.take(effect)
                case CoordinatorOutcome():
                    self.hear(effect)
                case StartTimer():
                    self.start(effect)
                case _:
                    self.let_go(effect)

    def move(self, link: str, before: str) -> None:
        assert self.link == before, "loses its way"
        self.link = link

    def take(self, sent: SendToCoordinator) -> None:
        assert self.link == READY, "asks where no coordinator is"
        assert sent.number not in self.asked, "asks twice at once"
        token = sent.command.tc_id if isinstance(sent.command, CommandNewTxn) else sent.command.txnid_least_bits
        assert token in self.waiting, "asks for nobody"
        assert abs(self.now + sent.timeout - self.waiting[token]) < 1e-6, "asks with the wrong time limit"
        self.asked[sent.number] = token
        self.ever[token] = self.ever.get(token, 0) + 1
        self.number[token] = sent.number
        self.numbers.add(sent.number)

    def hear(self, said: CoordinatorOutcome) -> None:
        token: Any = said.token
        assert token in self.waiting, "told twice"
        assert said.repeated == (self.ever.get(token, 0) > 1), "does not know how often it asked"
        if isinstance(said.outcome, Timeout) and "has not answered in time: " in str(said.outcome):
            assert self.now >= self.waiting[token], "gives up too early"
        assert said.outcome not in MOVED, "gives up what another broker can do"
        del self.waiting[token]
        self.asked = {number: other for number, other in self.asked.items() if other != token}

    def start(self, timer: StartTimer) -> None:
        if isinstance(timer.event, RetryDue):
            assert timer.delay > self.pause or timer.delay == LONGEST, "pauses that do not grow"
            self.pause = timer.delay
        self.timers[type(timer.event)] = timer

    def let_go(self, effect: Any) -> None:
        match effect:
            case Detach():
                self.link, self.asked = "", {}
            case EndOpened():
                assert self.is_leaving, "ends what it has opened in this cluster"
                self.is_leaving = False
            case EndTransactions():
                assert self.is_closing, "ends what nobody asked to end"
            case CoordinatorEnded(error):
                self.ended.append(error)
            case _:
                raise AssertionError(effect)

    # What happens to it.

    @initialize(data=st.data())
    def go_some_way(self, data: st.DataObject) -> None:
        self.tell(OpenCoordinator())
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let all that is asked for succeed."""
        if self.link == LOOKING:
            self.tell(LookedUp(self.attempt, "a broker"))
        elif self.link == JOINING:
            self.link = JOINED
            self.tell(CoordinatorAttached(self.connection))
        elif self.link == ASKED:
            self.link, self.was_connected = READY, True
            self.tell(CoordinatorConnected(self.attempt))
        elif self.asked:
            self.answer_first()
        elif RetryDue in self.timers and not self.link and not self.ended:
            self.fire(RetryDue)

    def answer_first(self) -> None:
        number = next(iter(self.asked))
        del self.asked[number]
        self.pause = 0.0
        self.tell(RequestAccepted(number, CommandNewTxnResponse(request_id=0)))

    @precondition(lambda self: not self.ended)
    @rule(opens=st.booleans())
    def something_is_asked(self, *, opens: bool) -> None:
        self.tokens += 1
        self.waiting[self.tokens] = self.now + TIMEOUT
        if opens:
            self.opening.add(self.tokens)
        new = CommandNewTxn(request_id=0, tc_id=self.tokens)
        other = CommandEndTxn(request_id=0, txnid_least_bits=self.tokens)
        self.tell(AskCoordinator(self.tokens, new if opens else other, TIMEOUT))

    @precondition(lambda self: self.attempt and not self.ended)
    @rule()
    def the_client_goes_to_another_cluster(self) -> None:
        """What was opened before ends there. Only what opens a transaction is asked again, as if it never was."""
        self.is_leaving, self.was_connected, self.pause = True, False, 0.0
        self.waiting = {token: deadline for token, deadline in self.waiting.items() if token in self.opening}
        self.ever, self.number = {}, {}
        self.tell(LeaveCluster())
        assert not self.is_leaving, "keeps what was opened in the former cluster"
        assert self.link == LOOKING, "stays in the former cluster"

    @precondition(lambda self: self.link == LOOKING)
    @rule(error=st.sampled_from([LOST, *MOVED, OFF]))
    def is_not_found(self, error: Any) -> None:
        self.link = ""
        self.tell(LookupAttemptFailed(self.attempt, LOST))
        self.tell(LookupFailed(self.attempt, error))
        self.must_have_ended(is_final=error is OFF and not self.was_connected)

    @precondition(lambda self: self.link == ASKED)
    @rule(error=st.sampled_from([*MOVED, OFF, Timeout("late")]))
    def is_refused(self, error: Any) -> None:
        self.link = JOINED
        self.tell(CoordinatorRefused(self.attempt, error))
        self.must_have_ended(is_final=error is OFF and not self.was_connected)

    def must_have_ended(self, *, is_final: bool) -> None:
        assert bool(self.ended) == is_final, "gave up, or did not, against what was said"

    @precondition(lambda self: self.link in {JOINING, JOINED, ASKED, READY})
    @rule()
    def the_connection_is_lost(self) -> None:
        self.link, self.asked = "", {}
        self.tell(Detached(self.connection, LOST))

    @precondition(lambda self: self.asked)
    @rule(error=st.sampled_from([*MOVED, PASSING, FINAL, Timeout("no answer")]))
    def a_request_is_rejected(self, error: Any) -> None:
        number = next(iter(self.asked))
        del self.asked[number]
        self.tell(RequestRejected(self.connection, number, error))

    @precondition(lambda self: self.old_numbers())
    @rule(data=st.data(), error=st.sampled_from([None, FINAL, MOVED[0]]))
    def an_old_answer_comes(self, data: st.DataObject, error: Any) -> None:
        """Let an earlier connection answer what has its outcome, or was asked in another cluster."""
        number, waiting = data.draw(st.sampled_from(self.old_numbers())), set(self.waiting)
        if error is None:
            self.pause = 0.0
            self.tell(RequestAccepted(number, CommandNewTxnResponse(request_id=0)))
        else:
            self.tell(RequestRejected(self.connection, number, error))
        assert set(self.waiting) == waiting, "takes an old answer"

    def old_numbers(self) -> list[int]:
        return sorted(self.numbers - {self.number.get(token) for token in self.waiting})

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def time_passes(self, data: st.DataObject) -> None:
        self.fire(data.draw(st.sampled_from(sorted(self.timers, key=lambda kind: kind.__name__))))

    def fire(self, kind: type) -> None:
        timer = self.timers.pop(kind)
        self.now += timer.delay
        self.tell(timer.event)

    @rule()
    def a_transaction_begins(self) -> None:
        if not self.ended and not self.is_closing:
            self.transactions += 1
            self.tell(TransactionBegun())

    @precondition(lambda self: self.transactions)
    @rule()
    def a_transaction_ends(self) -> None:
        self.transactions -= 1
        self.tell(TransactionOver())

    @precondition(lambda self: self.tokens > 1)
    @rule()
    def the_client_closes(self) -> None:
        self.is_closing = True
        self.tell(CloseCoordinator())

    @precondition(lambda self: self.tokens > 1)
    @rule()
    def the_client_ends(self) -> None:
        self.tell(EndCoordinator(AlreadyClosed("closed")))
        assert self.ended, "goes on after the end"

    # What holds all the time.

    @invariant()
    def every_request_waits_for_something(self) -> None:
        late = CoordinatorRequestsDue in self.timers
        assert not self.waiting or (late and not self.ended), "leaves a request without an outcome"
        unsent = set(self.waiting) - set(self.asked.values())
        may_wait = self.link != READY or RepeatDue in self.timers
        assert not unsent or may_wait, "does not ask what it could"

    @invariant()
    def it_tries_until_its_end(self) -> None:
        assert len(self.ended) <= 1, "ended twice"
        assert bool(self.ended) == (self.machine.state is State.OVER), "ended, or not, against what was said"
        assert self.ended or self.link or RetryDue in self.timers or self.attempt == 0, "waits for nothing"
        assert not self.ended or not self.link, "keeps its connection after the end"

    @invariant()
    def it_closes_with_its_last_transaction(self) -> None:
        if self.is_closing and not self.ended:
            assert self.transactions, "does not close"
            assert CoordinatorCloseDue in self.timers, "closes without a time limit"


MODEL = settings(max_examples=200, stateful_step_count=30)
HUNT = hunting(MODEL, 20)


def test_every_promise_of_a_handler_holds() -> None:
    run_state_machine_as_test(AnyCoordinator, settings=MODEL)


def back_off_as_before(machine: CoordinatorHandler, event: Any, now: float) -> Any:
    machine._backoff.reset()
    return machine.back_off(event, now)


def back_off_and_lose(machine: CoordinatorHandler, event: Any, now: float) -> Any:
    return [machine.timers.start(RetryDue, machine._backoff.next_delay())]


def put_back(machine: CoordinatorHandler, event: Any, now: float) -> Any:
    machine._requests.put_back(event.number)
    return []


def leave_with_all(machine: CoordinatorHandler, event: Any, now: float) -> Any:
    requests, pending = machine._requests, dict(machine._requests._pending)
    requests.unsend_all()
    effects = machine.leave_cluster(event, now)
    requests._pending = pending
    return effects


def never(machine: CoordinatorHandler, event: Any, now: float) -> bool:
    return False


FURTHER: dict[str, Callable[..., Any]] = {
    method.__name__: method for method in (back_off_as_before, back_off_and_lose, put_back, leave_with_all, never)
}

# fmt: off
FAULTS = [
    # Each request has one outcome.
    fault(AskCoordinator, State.LOOKING_UP, "hold", {"does": None},
          "without an outcome", "something_is_asked"),
    fault(AskCoordinator, State.READY, "send", {"does": "hold"},
          "does not ask what it could", "something_is_asked", "go_on"),
    fault(CoordinatorConnected, State.REGISTERING, "begin", {"does": None},
          "does not ask what it could", "something_is_asked", "go_on"),
    fault(RequestAccepted, State.READY, "give_answer", {"does": None},
          "without an outcome|does not ask", "something_is_asked", "go_on"),
    fault(RequestRejected, State.READY, "give_error", {"does": None},
          "without an outcome|does not ask", "something_is_asked", "go_on", "a_request_is_rejected"),
    fault(RequestRejected, State.READY, "repeat_later", {"does": "put_back"},
          "does not ask what it could", "something_is_asked", "go_on", "a_request_is_rejected"),
    fault(RepeatDue, State.READY, "send_waiting", {"does": None},
          "does not ask what it could", "something_is_asked", "go_on", "a_request_is_rejected", "time_passes"),
    fault(CoordinatorRequestsDue, State.READY, "fail_late", {"does": None},
          "without an outcome", "something_is_asked", "go_on", "time_passes"),
    # What another broker can do is asked there.
    fault(RequestRejected, State.READY, "leave_and_back_off", {"guard": "never"},
          "gives up what another", "something_is_asked", "go_on", "a_request_is_rejected"),
    fault(RequestRejected, State.READY, "leave_and_back_off", {"does": "back_off"},
          "loses its way|does not ask", "something_is_asked", "go_on", "a_request_is_rejected"),
    fault(Detached, State.READY, "back_off", {"does": "back_off_and_lose"},
          "does not ask what it could", "something_is_asked", "go_on", "the_connection_is_lost"),
    fault(Detached, State.READY, "back_off", {"does": "back_off_as_before"},
          "pauses that do not grow", "go_on", "the_connection_is_lost"),
    fault(RetryDue, State.WAITING, "look_up", {"does": None},
          "waits for nothing", "go_on", "the_connection_is_lost", "time_passes"),
    # In another cluster its transactions are those of somebody else.
    fault(LeaveCluster, State.READY, "leave_cluster", {"does": "look_up", "guard": None},
          "loses its way", "the_client_goes_to_another_cluster", "go_on"),
    fault(LeaveCluster, State.READY, "leave_cluster", {"does": None},
          "keeps what was opened", "the_client_goes_to_another_cluster", "go_on"),
    fault(LeaveCluster, State.READY, "leave_cluster", {"does": "leave_with_all"},
          "asks for nobody|takes an old answer|told twice", "the_client_goes_to_another_cluster", "go_on",
          "something_is_asked", "an_old_answer_comes"),
    # What no retry cures ends it.
    fault(LookupFailed, State.LOOKING_UP, "end_refused", {"guard": "never"},
          "against what was said", "is_not_found"),
    fault(CoordinatorRefused, State.REGISTERING, "end_refused", {"guard": "never"},
          "against what was said", "is_refused", "go_on"),
    # The end.
    fault(CloseCoordinator, State.READY, "end", {"guard": "never"},
          "does not close", "something_is_asked", "go_on", "the_client_closes"),
    fault(TransactionOver, State.READY, "end", {"guard": "never"},
          "does not close", "something_is_asked", "go_on", "the_client_closes", "a_transaction_begins",
          "a_transaction_ends"),
    fault(CoordinatorCloseDue, State.READY, "end", {"dest": INTERNAL, "does": None},
          "without a time limit", "something_is_asked", "go_on", "the_client_closes", "a_transaction_begins",
          "time_passes"),
    fault(EndCoordinator, State.READY, "end_at_once", {"dest": INTERNAL},
          "against what was said", "something_is_asked", "go_on", "the_client_ends"),
]
# fmt: on
STEPS_TO: dict[Any, int] = {State.LOOKING_UP: 0, State.REGISTERING: 2}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    never_stuck = fault._replace(rules=fault.rules | {"go_on"})  # most of the others wait for something
    Hunt(CHART, CoordinatorHandler, AnyCoordinator, FURTHER, HUNT).find_out(never_stuck, STEPS_TO.get(fault.state, 3))
