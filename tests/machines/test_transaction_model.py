"""Whatever a coordinator, the network and callers do to a transaction, its promises hold; a broken chart is found."""

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
    BrokerRefusal,
    InvalidTxnStatusError,
    OutcomeUnknown,
    ProducerQueueIsFull,
    PulsarException,
    Timeout,
    TransactionHasOperationFailed,
    TransactionNotFound,
    UnknownError,
)
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.repeated_ends import RepeatedEnds
from pulsar_actors.machines.transaction import CHART, State, TransactionMachine
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
    ForgetTransaction,
    FreeSubscriptions,
    Join,
    Leave,
    RefuseWork,
    Register,
    Registered,
    RegistrationFailed,
    RepeatEndDue,
    RewindConsumers,
    Settled,
    SettleWork,
    TransactionNotOpened,
    TransactionOpened,
    TransactionTimeoutDue,
)
from pulsar_actors.wire.PulsarApi_pb2 import TxnAction
from pulsar_actors.wire.transaction_id import TransactionId
from pulsar_actors.wire.transaction_requests import add_partition_request
from tests.machines.mutants import Fault, Hunt, fault, hunting

ID = TransactionId(3, 0)
UNANSWERED = Timeout("no answer")
UNKNOWN_THERE = TransactionNotFound("TransactionNotFound", "who?")
WRONG_STATUS = InvalidTxnStatusError("InvalidTxnStatus", "no")
BROKEN = UnknownError("UnknownError", "oops")
REFUSED = ProducerQueueIsFull("full")
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


class AnyTransaction(RuleBasedStateMachine):
    """A transaction, its coordinator with what has become of it there, and its callers with what they were told."""

    machine_class: Any = TransactionMachine
    starts: tuple[int, ...] = (0, 1, 1, 2, 3)
    shared = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        backoff = Backoff(lambda: 0.0, 0.1, 6.0)
        self.machine: TransactionMachine = self.machine_class(
            ID.most, 60.0, 30.0, backoff, RepeatedEnds(), shared=self.shared
        )
        self.there: str | None = None  # what it is at the coordinator
        self.begins = self.is_out = self.is_not_out = False
        self.registering: list[object] = []
        self.waiting: dict[object, str] = {}  # callers that were told nothing yet, and what they want
        self.tokens = 0
        self.sent: bool | None = None  # the last END_TXN: commit, or abort
        self.in_flight = self.may_have_arrived = False
        self.refused = self.settling = self.settled = self.dropped = False
        self.failure: PulsarException | None = None
        self.timers: dict[type, StartTimer] = {}
        self.is_closing = self.told_of_failure = self.leaving = False
        self.is_forgotten = False
        self.is_answered = False  # an END_TXN, with its outcome or a refusal
        self.is_refused = False  # the last END_TXN

    # What the transaction does.

    def tell(self, event: Any) -> None:
        if isinstance(event, EndFailed):
            self.is_refused = isinstance(event.error, BrokerRefusal)
            self.is_answered = self.is_answered or self.is_refused
        for effect in self.machine.handle(event, self.now):
            match effect:
                case AskToBegin(command):
                    assert (command.tc_id, command.txn_ttl_millis) == (3, 60_000)
                    self.begins = True
                case TransactionOpened() | TransactionNotOpened():
                    self.hear_of_the_opening(effect)
                case StartTimer():
                    self.timers[type(effect.event)] = effect
                case AskToRegister(token):
                    assert self.sent is None, "registers in what it has ended"
                    self.registering.append(token)
                case AskToEnd(command):
                    self.send_end(commit=command.txn_action == TxnAction.COMMIT)
                case CallDone(tokens):
                    self.tell_callers(tokens, None)
                case CallsFailed(tokens, error):
                    self.tell_callers(tokens, error)
                case _:
                    self.handle_work(effect)

    def tell_callers(self, tokens: tuple[object, ...], error: PulsarException | None) -> None:
        for token in tokens:
            if error is None:
                self.hear_success(self.waiting.pop(token))
            else:
                self.hear_failure(self.waiting.pop(token), error)

    def hear_of_the_opening(self, effect: Any) -> None:
        assert not self.is_out, "handed out twice"
        if isinstance(effect, TransactionOpened):
            assert effect.transaction == ID
            self.is_out = True
        else:
            self.is_not_out = True

    def send_end(self, *, commit: bool) -> None:
        assert self.sent in {None, commit}, "ends in two ways"
        assert not self.leaving, "ends what it has left to others"
        timed_out = self.machine.state in {State.TIMED_OUT, State.EXPIRED}
        assert self.settled or timed_out, "ends before its work has ended"
        assert self.refused, "takes work after its end"
        assert not (commit and self.failure), "commits without a part of it"
        assert not self.in_flight, "ends twice at once"
        self.sent, self.in_flight = commit, True

    def hear_success(self, wanted: str) -> None:
        if wanted == "commit":
            assert self.there == COMMITTED, "told of a commit that is none"
        elif wanted == "abort":
            assert self.there != COMMITTED, "told of an abort that is none"
        elif wanted == "leave":
            assert self.settled, "left before its work has ended"
            assert self.failure is None, "left without a part of it, and nobody is told"

    def hear_failure(self, wanted: str, error: PulsarException) -> None:
        if wanted != "commit":
            return
        if isinstance(error, OutcomeUnknown):
            assert self.sent or self.there == COMMITTED, "not sure of a commit that was not sent"
        elif isinstance(error, TransactionHasOperationFailed):
            assert error.__cause__ is self.failure is not None, "does not say what has failed"
        elif "cannot be" not in str(error):
            self.told_of_failure = True

    def handle_work(self, effect: Any) -> None:
        match effect:
            case RefuseWork():
                self.refused = True
            case SettleWork():
                assert not self.settling, "settles twice"
                self.settling = True
            case DropWork():
                self.dropped = True
            case FreeSubscriptions():
                pass
            case RewindConsumers(tokens, error):
                is_unsure = isinstance(error, OutcomeUnknown)
                assert is_unsure or self.there != COMMITTED, "delivers again what is committed"
                self.tell_callers(tokens, error)
            case _:
                raise AssertionError(effect)

    # What happens to it.

    @initialize(data=st.data())
    def go_some_way(self, data: st.DataObject) -> None:
        self.begin()
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    def begin(self) -> None:
        self.tell(Begin())

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let all that is asked for succeed, and commit."""
        if self.begins:
            self.open()
        elif self.in_flight:
            self.deliver_end(None)
        elif self.settling and not self.settled:
            self.settle(None)
        elif self.is_out and self.machine.state is State.OPEN:
            self.tell(Commit(self.caller("commit")))

    def caller(self, wanted: str) -> object:
        self.tokens += 1
        self.waiting[self.tokens] = wanted
        return self.tokens

    def open(self) -> None:
        self.begins, self.there = False, OPEN
        self.tell(Begun(ID))

    @precondition(lambda self: self.begins)
    @rule(error=st.sampled_from([UNANSWERED, BROKEN]))
    def is_not_opened(self, error: PulsarException) -> None:
        self.begins = False
        self.tell(BeginFailed(error))

    @precondition(lambda self: self.is_out)
    @rule(wanted=st.sampled_from(["commit", "abort"]))
    def is_to_end(self, wanted: str) -> None:
        self.tell((Commit if wanted == "commit" else Abort)(self.caller(wanted)))

    @precondition(lambda self: self.is_out)
    @rule()
    def is_left(self) -> None:
        self.leaving = self.leaving or self.machine.state is State.OPEN
        self.tell(Leave(self.caller("leave")))

    @precondition(lambda self: self.is_out)
    @rule()
    def something_is_registered(self) -> None:
        token = self.caller("register")
        self.tell(Register(token, add_partition_request(ID, "t")))

    @precondition(lambda self: self.registering)
    @rule(error=st.sampled_from([None, UNANSWERED, UNKNOWN_THERE]))
    def a_registration_is_answered(self, error: PulsarException | None) -> None:
        token = self.registering.pop(0)
        self.tell(Registered(token) if error is None else RegistrationFailed(token, error))

    @precondition(lambda self: self.settling and not self.settled and not self.dropped)
    @rule(failure=st.sampled_from([None, REFUSED]))
    def work_ends(self, failure: PulsarException | None) -> None:
        self.settle(failure)

    def settle(self, failure: PulsarException | None) -> None:
        self.settled, self.failure = True, failure
        self.tell(Settled(failure))

    @precondition(lambda self: self.there == OPEN)
    @rule()
    def the_coordinator_aborts(self) -> None:
        self.there = ABORTED

    @precondition(lambda self: self.in_flight)
    @rule(error=st.sampled_from([None, UNANSWERED, BROKEN]))
    def end_arrives(self, error: PulsarException | None) -> None:
        self.deliver_end(error)

    def deliver_end(self, error: PulsarException | None) -> None:
        """Let END_TXN arrive. Without an answer, the handler of the coordinator says so; an error may be wrong."""
        wanted = COMMITTED if self.sent else ABORTED
        known = self.there == OPEN
        repeated, self.may_have_arrived, self.in_flight = self.may_have_arrived, True, False
        self.there = wanted if known else self.there
        self.is_answered = self.is_answered or error is None
        if error is not None:
            self.tell(EndFailed(error, repeated))
        elif known:
            self.tell(EndAnswered())
        else:
            self.tell(EndFailed(UNKNOWN_THERE, repeated))

    @precondition(lambda self: self.in_flight)
    @rule()
    def end_arrives_twice(self) -> None:
        """Lose the first answer together with the connection. The coordinator has forgotten it when it comes again."""
        self.there = (COMMITTED if self.sent else ABORTED) if self.there == OPEN else self.there
        self.may_have_arrived, self.in_flight = True, False
        self.tell(EndFailed(UNKNOWN_THERE, repeated=True))

    @precondition(lambda self: self.in_flight and self.there != COMMITTED)
    @rule(error=st.sampled_from([UNANSWERED, WRONG_STATUS, BROKEN]))
    def end_is_refused(self, error: PulsarException) -> None:
        self.in_flight = False
        if error is WRONG_STATUS:
            self.there = ABORTED
        self.tell(EndFailed(error, self.may_have_arrived))

    @precondition(lambda self: self.in_flight)
    @rule(is_done=st.booleans())
    def end_loses_a_race(self, is_done: bool) -> None:  # noqa: FBT001 -- drawn
        """Refuse it, because the same end was asked for before, or the coordinator has aborted it."""
        wanted = COMMITTED if self.sent else ABORTED
        self.there = wanted if self.there == OPEN else self.there
        self.refuse_for_its_status(is_done=is_done)
        assert not (is_done and self.there == wanted) or self.machine.is_over, "doubts the outcome that it was told"

    @precondition(lambda self: RepeatEndDue in self.timers)
    @rule()
    def it_is_to_ask_again(self) -> None:
        in_flight = self.in_flight
        self.fire(RepeatEndDue)
        assert in_flight or not (self.in_flight and self.is_refused), "asks again where it was refused"

    def refuse_for_its_status(self, *, is_done: bool) -> None:
        self.in_flight = False
        assert self.there is not None
        status = self.there.upper() if is_done else {COMMITTED: "COMMITTING", ABORTED: "ABORTING"}[self.there]
        text = f"Expect Txn `(3,0)` to be in OPEN status but it is in {status} status"
        self.tell(EndFailed(InvalidTxnStatusError("InvalidTxnStatus", text), self.may_have_arrived))

    @precondition(lambda self: TransactionTimeoutDue in self.timers)
    @rule(runs=st.booleans())
    def time_passes(self, runs: bool) -> None:  # noqa: FBT001 -- drawn
        """Let the timeout be over, also for the coordinator, if it runs anywhere."""
        self.there = ABORTED if self.there == OPEN and runs and not self.in_flight else self.there
        self.fire(TransactionTimeoutDue)

    def fire(self, kind: type) -> None:
        timer = self.timers.pop(kind)
        self.now += timer.delay
        self.tell(timer.event)

    @precondition(lambda self: self.is_out)
    @rule()
    def nothing_refers_to_it(self) -> None:
        self.is_forgotten = True
        self.leaving = self.leaving or (self.shared and self.machine.state is State.OPEN)
        self.tell(ForgetTransaction())

    @rule()
    def the_client_closes(self) -> None:
        self.is_closing = True
        self.leaving = self.leaving or (self.shared and self.machine.state is State.OPEN)
        self.tell(CloseTransaction())

    @rule()
    def the_client_ends(self) -> None:
        self.is_closing = True
        self.tell(EndTransaction(AlreadyClosed("closed")))

    # What holds all the time.

    @invariant()
    def callers_are_told(self) -> None:
        waits = self.in_flight or (self.settling and not self.settled) or bool(self.registering)
        assert not self.waiting or (waits and not self.machine.is_over), "left callers without an answer"

    @invariant()
    def its_state_is_true(self) -> None:
        state = self.machine.state
        assert (state in {State.LEAVE_SETTLING, State.LEFT}) <= self.leaving, "is left, and nobody wanted that"
        assert (state is State.COMMITTED) <= (self.there == COMMITTED), "is not committed"
        assert (state is State.ABORTED) <= (self.there != COMMITTED), "is not aborted"
        timed_out = state in {State.TIMED_OUT, State.EXPIRED}
        assert timed_out <= (self.there != COMMITTED or self.shared), "is not aborted"
        assert not (self.told_of_failure and self.there == COMMITTED), "told that a commit failed that did not"
        assert self.is_out or not self.is_not_out or state is State.FAILED, "was not opened, and goes on"

    @invariant()
    def it_takes_work_only_while_it_is_open(self) -> None:
        assert self.refused <= (self.machine.state is not State.OPEN), "refuses work while it is open"
        may_take = self.machine.state is State.OPEN or not self.is_out
        assert may_take or self.refused, "takes work after its end"

    @invariant()
    def nothing_more_is_sent_of_one_that_timed_out(self) -> None:
        assert (self.machine.state in {State.TIMED_OUT, State.EXPIRED}) <= self.dropped, "goes on to send"

    @invariant()
    def an_open_one_has_an_end(self) -> None:
        assert self.machine.state is not State.OPEN or TransactionTimeoutDue in self.timers, "is open for ever"
        waits = {State.OPENING, State.OPEN, State.COMMIT_UNANSWERED, State.ABORT_UNANSWERED, State.TIMED_OUT}
        assert not (self.is_closing and self.machine.state in waits), "stays open"
        assert not (self.is_forgotten and self.machine.state is State.OPEN), "stays open"

    @invariant()
    def an_end_is_repeated_until_there_is_an_answer(self) -> None:
        if self.sent is None or self.is_closing:
            return
        assert self.is_answered or not self.machine.is_over, "gives up"
        goes_on = self.in_flight or RepeatEndDue in self.timers or self.is_refused
        assert goes_on or self.machine.is_over, "does not ask again"

    @invariant()
    def one_that_was_refused_is_kept_for_callers_only(self) -> None:
        waits = self.is_refused and not self.in_flight and not self.machine.is_over
        assert not (waits and self.is_forgotten), "is kept for nobody"
        assert not (waits and self.machine.state is State.TIMED_OUT), "is kept for nobody"


class AnySharedTransaction(AnyTransaction):
    """One that other clients share, and that another one has opened."""

    shared = True

    def begin(self) -> None:
        self.there = OPEN
        self.tell(Join(ID))

    @precondition(lambda self: self.in_flight and self.there == OPEN and not self.told_of_failure)
    @rule(is_done=st.booleans())
    def another_client_commits(self, is_done: bool) -> None:  # noqa: FBT001 -- drawn
        """Commit it there, unless a commit has failed here: one client ends it."""
        self.there = COMMITTED
        self.refuse_for_its_status(is_done=is_done)


class AnyTransactionThatOthersJoin(AnySharedTransaction):
    """One that other clients share, and that this one has opened."""

    def begin(self) -> None:
        self.tell(Begin())


MODEL = settings(max_examples=200, stateful_step_count=30)
HUNT = hunting(MODEL, 20)


@pytest.mark.parametrize("model", [AnyTransaction, AnySharedTransaction, AnyTransactionThatOthersJoin])
def test_every_promise_of_a_transaction_holds(model: type[AnyTransaction]) -> None:
    run_state_machine_as_test(model, settings=MODEL)


def complete(machine: TransactionMachine, event: Any, now: float) -> Any:
    return [CallDone(machine._take_callers())]


def end_without_settling(machine: TransactionMachine, event: Any, now: float) -> Any:
    return [*machine.settle(event, now), machine._ask_to_end(commit=isinstance(event, Commit))]


def fail_as_refused(machine: TransactionMachine, event: Any, now: float) -> Any:
    return machine._fail(WRONG_STATUS)


def send_the_other(machine: TransactionMachine, event: Any, now: float) -> Any:
    return [machine._ask_to_end(commit=False)]


def leave_open_once(machine: TransactionMachine, event: Any, now: float) -> Any:
    return machine._leave_open("", event.error)


def never(machine: TransactionMachine, event: Any, now: float) -> bool:
    return False


FURTHER: dict[str, Callable[..., Any]] = {
    method.__name__: method
    for method in (complete, end_without_settling, fail_as_refused, send_the_other, leave_open_once, never)
}

# fmt: off
FAULTS = [
    # All of it, or nothing.
    fault(Settled, State.COMMIT_SETTLING, "abort_instead", {"guard": "never"},
          "commits without a part", "go_on", "work_ends"),
    fault(Commit, State.OPEN, "settle", {"does": "end_without_settling"},
          "ends before its work", "go_on"),
    fault(Abort, State.OPEN, "settle", {"does": "end_without_settling"},
          "ends before its work", "is_to_end", "go_on"),
    fault(Abort, State.COMMIT_UNANSWERED, "refuse", {"does": "send_the_other"},
          "ends in two ways|ends before|without an answer", "go_on", "end_arrives", "is_to_end"),
    fault(Commit, State.ABORT_UNANSWERED, "refuse", {"does": "send_commit"},
          "ends in two ways|ends before|without an answer", "go_on", "end_arrives", "is_to_end", "work_ends"),
    fault(Settled, State.COMMIT_SETTLING, "send_commit", {"does": "send_the_other"},
          "is not committed|told of a commit", "go_on"),
    # What callers are told is true.
    fault(EndFailed, State.COMMITTING, "fail_as_unknown", {"guard": "never"},
          "told that a commit failed|delivers again", "go_on", "end_arrives_twice"),
    fault(EndFailed, State.COMMITTING, "leave_commit_open", {"does": "fail_as_refused"},
          "told that a commit failed|does not ask again", "go_on", "end_arrives"),
    fault(EndFailed, State.COMMITTING, "fail", {"dest": State.COMMITTED, "does": "complete"},
          "told of a commit", "go_on", "end_is_refused"),
    fault(EndFailed, State.COMMITTING, "ask_again", {"does": None},
          "without an answer|does not ask again", "go_on", "end_loses_a_race"),
    fault(EndFailed, State.COMMITTING, "complete", {"guard": "never"},
          "doubts the outcome", "go_on", "end_loses_a_race"),
    fault(EndFailed, State.ABORTING, "leave_abort_open", {"does": None},
          "without an answer|does not ask again", "is_to_end", "go_on", "work_ends", "end_arrives", "end_is_refused"),
    fault(EndAnswered, State.COMMITTING, "complete", {"does": None},
          "without an answer|takes work", "go_on"),
    fault(Commit, State.COMMITTING, "join", {"does": None},
          "without an answer", "go_on", "is_to_end"),
    fault(Commit, State.COMMITTED, "refuse", {"does": None},
          "without an answer", "go_on", "is_to_end"),
    fault(Commit, State.TIMED_OUT, "refuse", {"does": "join"},
          "without an answer|told of a commit", "go_on", "is_to_end", "time_passes"),
    fault(Register, State.COMMITTING, "refuse_registration", {"does": "ask_to_register"},
          "registers in what|without an answer", "go_on", "something_is_registered"),
    fault(Registered, State.OPEN, "complete_registration", {"does": None},
          "without an answer", "go_on", "something_is_registered", "a_registration_is_answered"),
    fault(RegistrationFailed, State.OPEN, "fail_registration", {"does": None},
          "without an answer", "go_on", "something_is_registered", "a_registration_is_answered"),
    # Its end.
    fault(TransactionTimeoutDue, State.OPEN, "time_out_and_abort", {"does": None},
          "goes on to send|takes work|without an answer", "go_on", "time_passes"),
    fault(TransactionTimeoutDue, State.COMMIT_SETTLING, "time_out_and_abort", {"does": "complete"},
          "told of a commit|goes on to send|takes work|without an answer", "go_on", "time_passes"),
    fault(TransactionTimeoutDue, State.COMMITTING, None, {"does": "time_out"},
          "told that a commit failed|delivers again", "go_on", "time_passes", "end_arrives"),
    fault(CloseTransaction, State.OPEN, "settle_and_close", {"dest": INTERNAL, "does": None},
          "stays open", "go_on", "the_client_closes"),
    fault(CloseTransaction, State.COMMITTING, "note_close", {"does": None},
          "stays open", "go_on", "the_client_closes", "end_arrives"),
    fault(EndFailed, State.ABORTING, "end_with_abort_open", {"guard": "never"},
          "stays open", "go_on", "the_client_closes", "end_is_refused"),
    fault(EndFailed, State.ABORTING, "end_with_abort_open", {"does": "leave_abort_open"},
          "without an answer", "go_on", "something_is_registered", "the_client_closes", "end_is_refused"),
    fault(CloseTransaction, State.OPENING, "give_up_opening", {"dest": INTERNAL, "does": None},
          "stays open", "the_client_closes"),
    fault(EndTransaction, State.COMMITTING, "end_committing", {"does": None},
          "without an answer|takes work", "go_on", "the_client_ends"),
    fault(EndTransaction, State.COMMITTING, "end_committing", {"does": "fail_as_refused"},
          "told that a commit failed", "go_on", "the_client_ends", "end_arrives"),
    fault(BeginFailed, State.OPENING, "fail_opening", {"dest": INTERNAL},
          "was not opened, and goes on", "is_not_opened"),
    # Without an answer.
    fault(EndFailed, State.COMMITTING, "repeat_commit_later", {"does": "leave_open_once"},
          "does not ask again", "go_on", "end_arrives"),
    fault(RepeatEndDue, State.COMMIT_UNANSWERED, "send_commit", {"does": None},
          "does not ask again", "go_on", "end_arrives", "it_is_to_ask_again"),
    fault(RepeatEndDue, State.COMMIT_UNANSWERED, "send_commit", {"does": "send_the_other"},
          "ends in two ways", "go_on", "end_arrives", "it_is_to_ask_again"),
    fault(RepeatEndDue, State.ABORT_UNANSWERED, "send_abort", {"does": None},
          "does not ask again", "go_on", "end_arrives", "it_is_to_ask_again", "is_to_end"),
    fault(EndFailed, State.TIMED_OUT, "repeat_later", {"does": None},
          "does not ask again", "go_on", "end_arrives", "time_passes"),
    fault(EndFailed, State.TIMED_OUT, "repeat_later", {"guard": "never"},
          "gives up", "go_on", "end_arrives", "time_passes"),
    fault(EndFailed, State.TIMED_OUT, "stop_repeating", {"dest": INTERNAL},
          "is kept for nobody", "go_on", "end_is_refused", "time_passes"),
    fault(EndFailed, State.COMMITTING, "leave_commit_open", {"does": "repeat_commit_later"},
          "asks again where", "go_on", "end_is_refused", "it_is_to_ask_again"),
    fault(EndFailed, State.ABORTING, "leave_abort_open", {"does": "repeat_abort_later"},
          "asks again where", "is_to_end", "go_on", "end_is_refused", "it_is_to_ask_again"),
    fault(EndFailed, State.COMMITTING, "end_committing", {"guard": "never"},
          "is kept for nobody", "go_on", "nothing_refers_to_it", "end_is_refused"),
    fault(EndFailed, State.ABORTING, "end_aborting", {"guard": "never"},
          "is kept for nobody", "go_on", "nothing_refers_to_it", "end_is_refused"),
    fault(ForgetTransaction, State.COMMIT_UNANSWERED, "give_up_unanswered", {"dest": INTERNAL, "does": None},
          "is kept for nobody", "go_on", "end_is_refused", "nothing_refers_to_it"),
    fault(CloseTransaction, State.TIMED_OUT, "stop_repeating", {"dest": INTERNAL},
          "stays open", "go_on", "the_client_closes", "time_passes"),
    fault(TransactionTimeoutDue, State.COMMIT_SETTLING, "time_out_and_abort", {"guard": "never"},
          "stays open", "go_on", "the_client_closes", "time_passes", guard="is_closing"),
    fault(Commit, State.COMMITTED, "tell_of_success", {"does": None},
          "without an answer", "go_on", "end_is_refused", "it_is_to_ask_again", "is_to_end"),
    fault(Commit, State.FAILED, "tell_of_error", {"does": "tell_of_success"},
          "told of a commit", "go_on", "end_is_refused", "it_is_to_ask_again", "is_to_end"),
    fault(ForgetTransaction, State.OPEN, "settle_and_abort", {"dest": INTERNAL, "does": None},
          "stays open", "go_on", "nothing_refers_to_it"),
    # Left to others.
    fault(Leave, State.OPEN, "settle", {"dest": State.ABORT_SETTLING},
          "ends what it has left", "is_left", "go_on"),
    fault(Settled, State.LEAVE_SETTLING, "fail_leave", {"guard": "never"},
          "left without a part", "is_left", "go_on", "work_ends"),
    fault(Settled, State.LEAVE_SETTLING, "complete_leave", {"does": None},
          "without an answer", "is_left", "go_on"),
    fault(Settled, State.LEAVE_SETTLING, "complete_leave", {"does": "send_commit"},
          "ends what it has left", "is_left", "go_on"),
    fault(Leave, State.COMMITTING, "refuse", {"does": None},
          "without an answer", "go_on", "is_left"),
]
SHARED_FAULTS = [
    fault(CloseTransaction, State.OPEN, "settle_and_leave", {"guard": "never"},
          "ends what it has left", "the_client_closes", "go_on", guard="is_shared"),
    fault(EndFailed, State.ABORTING, "fail_abort", {"dest": State.ABORTED, "does": "complete_abort"},
          "is not aborted|told of an abort|delivers again", "is_to_end", "go_on", "another_client_commits"),
    fault(Join, State.OPENING, "take_part", {"does": None},
          "is open for ever|takes work", "the_client_closes"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    Hunt(CHART, TransactionMachine, AnyTransaction, FURTHER, HUNT).find_out(fault, 0)


@pytest.mark.parametrize("fault", SHARED_FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_of_a_shared_one_is_found_out(fault: Fault) -> None:
    Hunt(CHART, TransactionMachine, AnySharedTransaction, FURTHER, HUNT).find_out(fault, 0)
