from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthorizationError,
    BrokerMetadataError,
    BrokerPersistenceError,
    InvalidTxnStatusError,
    NotAllowedError,
    OutcomeUnknown,
    ProducerQueueIsFull,
    Timeout,
    TransactionHasOperationFailed,
    TransactionNotFound,
    UnknownError,
)
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.repeated_ends import MOST_REPEATED, RepeatedEnds
from pulsar_actors.machines.transaction import State, TransactionMachine
from pulsar_actors.machines.transaction_events import (
    Abort,
    AskToBegin,
    AskToEnd,
    Begin,
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
    RefuseWork,
    Register,
    RepeatEndDue,
    RewindConsumers,
    Settled,
    SettleWork,
    TransactionNotOpened,
    TransactionOpened,
    TransactionTimeoutDue,
)
from pulsar_actors.wire.PulsarApi_pb2 import CommandAddPartitionToTxn, TxnAction
from pulsar_actors.wire.transaction_id import TransactionId
from tests.machines.driven import Driven

ID = TransactionId(0, 0)
NOT_THERE = TransactionNotFound("TransactionNotFound", "who?")
NO_ANSWER = Timeout("no answer")
COMMIT, ABORT = TxnAction.COMMIT, TxnAction.ABORT


def machine(repeated: RepeatedEnds | None = None, *, shared: bool = False) -> TransactionMachine:
    backoff = Backoff(lambda: 0.0, 1.0, 4.0)
    return TransactionMachine(0, 60.0, 30.0, backoff, RepeatedEnds() if repeated is None else repeated, shared=shared)


def transaction(*events: Any) -> Driven:
    return Driven(machine(), Begin(), *events)


def opened(*events: Any) -> Driven:
    return transaction(Begun(ID), *events)


def committing() -> Driven:
    return opened(Commit("caller"), Settled(None))


def aborting() -> Driven:
    return opened(Abort("caller"), Settled(None))


def status(name: str, expected: str = "OPEN") -> InvalidTxnStatusError:
    """Return the refusal of a coordinator whose transaction has this status."""
    text = f"Expect Txn `(0,0)` to be in {expected} status but it is in {name} status"
    return InvalidTxnStatusError("InvalidTxnStatus", text)


def failure(driven: Driven) -> Any:
    """Return the error that the callers of commit or abort got."""
    return next(failed.error for failed in (*driven.did(CallsFailed), *driven.did(RewindConsumers)) if failed.tokens)


def test_it_is_opened_for_its_timeout() -> None:
    driven = transaction()
    (ask,) = driven.did(AskToBegin)
    assert (ask.command.tc_id, ask.command.txn_ttl_millis, ask.timeout) == (0, 60_000, 30.0)
    driven.tell(Begun(ID))
    assert driven.did(TransactionOpened) == [TransactionOpened(ID)]
    assert driven.timers[TransactionTimeoutDue].delay == 60.0


def test_a_commit_waits_for_all_that_has_begun() -> None:
    driven = opened(Commit("caller"))
    assert driven.did(SettleWork)
    assert not driven.did(AskToEnd)
    (ended,) = driven.tell(Settled(None))
    assert (ended.command.txn_action, ended.command.HasField("txn_action")) == (TxnAction.COMMIT, True)
    driven.tell(EndAnswered())
    assert driven.did(CallDone) == [CallDone(("caller",))]


def test_a_transaction_of_which_a_part_failed_is_aborted_and_commit_says_why() -> None:
    cause = ProducerQueueIsFull("full")
    driven = opened(Commit("caller"))
    (ended,) = driven.tell(Settled(cause))
    assert ended.command.txn_action == TxnAction.ABORT
    driven.tell(EndAnswered())
    error = failure(driven)
    assert isinstance(error, TransactionHasOperationFailed)
    assert error.__cause__ is cause
    assert driven.machine.state is State.ABORTED


def test_a_commit_without_an_answer_may_be_repeated_and_never_be_undone() -> None:
    driven = committing()
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    assert isinstance(failure(driven), OutcomeUnknown)
    assert "commit() may be called again" in str(failure(driven))
    driven.tell(Abort("other"))
    assert isinstance(failure(driven), InvalidTxnStatusError)
    (ended,) = driven.tell(Commit("again"))
    assert ended.command.txn_action == TxnAction.COMMIT
    driven.tell(EndAnswered())
    assert driven.did(CallDone) == [CallDone(("again",))]


def test_consumers_are_rewound_once_for_an_abort_without_an_answer_however_often_it_is_repeated() -> None:
    driven = aborting()
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    assert driven.did(RewindConsumers) == [RewindConsumers(("caller",), NO_ANSWER)]
    driven.fire(RepeatEndDue)
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    assert driven.did(RewindConsumers) == []
    driven.tell(Abort("again"), EndFailed(NO_ANSWER, repeated=False))
    assert driven.did(CallsFailed) == [CallsFailed(("again",), NO_ANSWER)]
    driven.fire(RepeatEndDue)
    driven.tell(EndAnswered())
    assert driven.did(RewindConsumers) == [RewindConsumers((), None)]


@pytest.mark.parametrize("was_sent_by", ["the handler", "the caller"])
def test_that_a_repeated_commit_is_of_an_unknown_transaction_means_most_probably_that_it_succeeded(
    was_sent_by: str,
) -> None:
    driven = committing()
    if was_sent_by == "the caller":
        driven.tell(EndFailed(NO_ANSWER, repeated=False), Commit("again"))
    driven.tell(EndFailed(NOT_THERE, repeated=was_sent_by == "the handler"))
    assert isinstance(failure(driven), OutcomeUnknown)
    assert "most probably committed" in str(failure(driven))


def test_who_asks_again_after_an_outcome_that_is_not_known_hears_the_same() -> None:
    driven = committing()
    driven.tell(EndFailed(NOT_THERE, repeated=True))
    told = failure(driven)
    assert isinstance(told, OutcomeUnknown)
    driven.tell(Commit("again"))
    assert driven.did(CallsFailed) == [CallsFailed(("again",), told)]


def test_that_a_first_commit_is_of_an_unknown_transaction_means_that_it_is_aborted() -> None:
    driven = committing()
    driven.tell(EndFailed(NOT_THERE, repeated=False))
    assert failure(driven) is NOT_THERE


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(
    "kind", [UnknownError, BrokerPersistenceError, BrokerMetadataError, AuthorizationError, NotAllowedError]
)
def test_a_refusal_that_does_not_end_the_transaction_leaves_the_outcome_of_a_commit_open(
    kind: type[Any], *, repeated: bool
) -> None:
    driven = committing()
    driven.tell(EndFailed(kind(kind.__name__, "the log could not be written"), repeated))
    assert isinstance(failure(driven), OutcomeUnknown)
    (ended,) = driven.tell(Commit("again"))
    assert ended.command.txn_action == TxnAction.COMMIT


def test_a_commit_that_a_refusal_ends_is_none() -> None:
    error = InvalidTxnStatusError("InvalidTxnStatus", "it is being aborted")
    driven = committing()
    driven.tell(EndFailed(error, repeated=False))
    assert failure(driven) is error


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("expected", ["OPEN", "COMMITTING"])
def test_a_commit_that_is_refused_because_the_transaction_is_committed_has_succeeded(
    expected: str, *, repeated: bool
) -> None:
    driven = committing()
    driven.tell(EndFailed(status("COMMITTED", expected), repeated))
    assert driven.did(CallDone) == [CallDone(("caller",))]
    assert driven.machine.state is State.COMMITTED


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("name", ["ABORTING", "ABORTED"])
def test_a_commit_that_is_refused_because_the_transaction_is_aborted_is_none(name: str, *, repeated: bool) -> None:
    driven, refusal = committing(), status(name)
    driven.tell(EndFailed(refusal, repeated))
    assert driven.did(RewindConsumers) == [RewindConsumers(("caller",), refusal)]
    assert driven.machine.state is State.FAILED


@pytest.mark.parametrize("name", ["OPEN", None])
def test_a_repeated_commit_that_is_refused_for_a_status_that_tells_nothing_has_an_open_outcome(
    name: str | None,
) -> None:
    refusal = status(name) if name else InvalidTxnStatusError("InvalidTxnStatus", "no")
    driven = committing()
    driven.tell(EndFailed(refusal, repeated=True))
    assert isinstance(failure(driven), OutcomeUnknown)
    (ended,) = driven.tell(Commit("again"))
    assert ended.command.txn_action == COMMIT


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(
    ("begin", "name", "action"), [(committing, "COMMITTING", COMMIT), (aborting, "ABORTING", ABORT)]
)
def test_an_end_that_is_under_way_already_is_asked_for_once_more(
    begin: Any, name: str, action: Any, *, repeated: bool
) -> None:
    driven = begin()
    (ended,) = driven.tell(EndFailed(status(name), repeated))
    assert ended.command.txn_action == action
    driven.tell(EndAnswered())
    (done,) = (*driven.did(CallDone), *driven.did(RewindConsumers))
    assert done.tokens == ("caller",)
    assert driven.machine.state in {State.COMMITTED, State.ABORTED}


@pytest.mark.parametrize("refusal", [NOT_THERE, status("COMMITTED", "COMMITTING")])
def test_a_commit_that_was_decided_and_is_forgotten_has_succeeded(refusal: Any) -> None:
    driven = committing()
    driven.tell(EndFailed(status("COMMITTING"), repeated=False), EndFailed(refusal, repeated=True))
    assert driven.did(CallDone) == [CallDone(("caller",))]


def test_a_commit_stays_open_if_the_coordinator_says_nothing_else_again() -> None:
    driven = committing()
    driven.tell(EndFailed(status("COMMITTING"), repeated=False), EndFailed(status("COMMITTING"), repeated=False))
    assert isinstance(failure(driven), OutcomeUnknown)
    assert not driven.did(AskToEnd)
    driven.tell(Commit("again"), EndFailed(NOT_THERE, repeated=False))
    assert driven.did(CallDone) == [CallDone(("again",))]


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("name", ["COMMITTING", "COMMITTED"])
def test_an_abort_of_what_another_client_commits_fails_and_nothing_is_delivered_again(
    name: str, *, repeated: bool
) -> None:
    driven, refusal = aborting(), status(name)
    driven.tell(EndFailed(refusal, repeated))
    assert driven.did(CallsFailed)[-1] == CallsFailed(("caller",), refusal)
    assert not driven.did(RewindConsumers)
    assert driven.machine.state is State.FAILED


def test_a_commit_that_aborts_what_another_client_commits_says_that_a_part_of_it_failed() -> None:
    driven = opened(Commit("caller"), Settled(ProducerQueueIsFull("full")))
    driven.tell(EndFailed(status("COMMITTED"), repeated=False))
    assert isinstance(failure(driven), OutcomeUnknown)
    assert "another client commits it, and a part of it failed here: full" in str(failure(driven))


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("refusal", [status("ABORTED"), InvalidTxnStatusError("InvalidTxnStatus", "no")])
def test_an_abort_of_what_is_aborted_succeeds(refusal: Any, *, repeated: bool) -> None:
    driven = aborting()
    driven.tell(EndFailed(refusal, repeated))
    assert driven.did(RewindConsumers) == [RewindConsumers(("caller",), None)]
    assert driven.machine.state is State.ABORTED


def test_an_abort_of_what_is_open_may_be_repeated() -> None:
    driven = aborting()
    driven.tell(EndFailed(status("OPEN"), repeated=False))
    (ended,) = driven.tell(Abort("again"))
    assert ended.command.txn_action == ABORT


@pytest.mark.parametrize("begin", [committing, aborting])
def test_others_may_acknowledge_in_another_way_once_it_is_over_and_before_its_callers_go_on(begin: Any) -> None:
    driven = begin()
    assert not driven.did(FreeSubscriptions)
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    assert not driven.did(FreeSubscriptions)
    driven.tell(Commit("again") if begin is committing else Abort("again"))
    kinds = [type(effect) for effect in driven.tell(EndAnswered())]
    assert kinds.index(FreeSubscriptions) < kinds.index(CallDone if begin is committing else RewindConsumers)


def test_a_client_that_ends_during_a_commit_does_not_know_its_outcome() -> None:
    driven = committing()
    driven.tell(EndTransaction(AlreadyClosed("the client is closed")))
    assert isinstance(failure(driven), OutcomeUnknown)
    assert driven.machine.state is State.FAILED


def test_an_abort_of_what_the_coordinator_has_ended_itself_succeeds() -> None:
    driven = opened(Abort("caller"), Settled(None), EndFailed(NOT_THERE, repeated=False))
    assert driven.did(RewindConsumers) == [RewindConsumers(("caller",), None)]
    assert driven.machine.state is State.ABORTED


def test_after_an_abort_what_was_acknowledged_cumulatively_is_delivered_again_before_callers_go_on() -> None:
    driven = opened(Abort("caller"), Settled(None), EndAnswered())
    assert driven.did(RewindConsumers) == [RewindConsumers(("caller",), None)]
    assert not driven.did(CallDone)
    driven = committing()
    driven.tell(EndAnswered())
    assert not driven.did(RewindConsumers)


@pytest.mark.parametrize("repeated", [False, True])
def test_after_a_commit_that_is_none_what_was_acknowledged_cumulatively_is_delivered_again(*, repeated: bool) -> None:
    driven = committing()
    driven.tell(EndFailed(NOT_THERE, repeated))
    (rewound,) = driven.did(RewindConsumers)
    assert rewound.tokens == ("caller",)


def test_after_an_abort_without_an_answer_what_was_acknowledged_cumulatively_is_delivered_again() -> None:
    driven = opened(Abort("caller"), Settled(None), EndFailed(NO_ANSWER, repeated=False))
    assert driven.did(RewindConsumers) == [RewindConsumers(("caller",), NO_ANSWER)]


def test_after_its_timeout_nothing_of_it_is_sent() -> None:
    driven = opened()
    driven.fire(TransactionTimeoutDue)
    (dropped,), (refused,) = driven.did(DropWork), driven.did(RefuseWork)
    assert dropped.error is refused.error
    assert "open for longer than its timeout of 60 s" in str(dropped.error)
    driven.tell(Commit("caller"))
    assert "is TIMED_OUT, and cannot be committed" in str(failure(driven))


def asked_again(driven: Driven) -> Any:
    """Let the pause be over, and return what the coordinator is asked for."""
    driven.fire(RepeatEndDue)
    (ask,) = driven.did(AskToEnd)
    return ask.command.txn_action


def test_after_its_timeout_the_coordinator_is_asked_for_the_abort_until_it_answers_and_nobody_waits_for_that() -> None:
    driven = opened(Commit("caller"))
    driven.fire(TransactionTimeoutDue)
    (ask,) = driven.did(AskToEnd)
    assert ask.command.txn_action == ABORT
    assert "open for longer than its timeout" in str(failure(driven))
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    assert (asked_again(driven), driven.machine.state) == (ABORT, State.TIMED_OUT)
    driven.tell(EndAnswered())
    assert driven.machine.state is State.EXPIRED


NOT_WRITTEN = BrokerPersistenceError("PersistenceError", "the log could not be written")
FORBIDDEN = AuthorizationError("AuthorizationError", "not allowed")


@pytest.mark.parametrize(
    "refusal",
    [NOT_THERE, status("ABORTED"), status("COMMITTING"), status("ABORTING"), status("OPEN"), NOT_WRITTEN, FORBIDDEN],
)
def test_the_abort_of_one_that_has_timed_out_is_left_to_a_coordinator_that_runs(refusal: Any) -> None:
    driven = opened()
    driven.fire(TransactionTimeoutDue)
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    driven.fire(RepeatEndDue)
    driven.tell(EndFailed(refusal, repeated=False))
    assert driven.machine.state is State.EXPIRED


REFUSED_ENDS = [
    (begin, call, refusal)
    for begin, call, name in ((committing, Commit, "COMMITTING"), (aborting, Abort, "OPEN"))
    for refusal in (FORBIDDEN, NOT_WRITTEN, status(name))
]


def refused(begin: Any, refusal: Any, *events: Any) -> Driven:
    """Return a transaction whose end is refused, once more if the coordinator says that it goes on with it."""
    driven = begin()
    driven.tell(*events, EndFailed(refusal, repeated=False))
    if driven.did(AskToEnd):
        driven.tell(EndFailed(refusal, repeated=False))
    return driven


@pytest.mark.parametrize(("begin", "call", "refusal"), REFUSED_ENDS)
def test_an_end_that_was_refused_is_repeated_for_a_caller_only(begin: Any, call: Any, refusal: Any) -> None:
    driven = refused(begin, refusal)
    assert RepeatEndDue not in driven.timers
    assert driven.tell(call("again"))


@pytest.mark.parametrize(("begin", "call", "refusal"), REFUSED_ENDS)
def test_a_refusal_ends_the_repeats_of_an_end(begin: Any, call: Any, refusal: Any) -> None:
    driven = begin()
    driven.tell(EndFailed(NO_ANSWER, repeated=False), call("again"), EndFailed(refusal, repeated=False))
    if driven.did(AskToEnd):
        driven.tell(EndFailed(refusal, repeated=False))
    assert driven.fire(RepeatEndDue) == []


@pytest.mark.parametrize(("begin", "call", "refusal"), REFUSED_ENDS)
def test_a_transaction_whose_end_was_refused_is_over_once_nothing_refers_to_it(
    begin: Any, call: Any, refusal: Any
) -> None:
    driven = refused(begin, refusal, ForgetTransaction())
    assert driven.machine.is_over
    assert isinstance(failure(driven), OutcomeUnknown) or begin is aborting
    driven = refused(begin, refusal)
    assert not driven.machine.is_over
    driven.tell(ForgetTransaction())
    assert driven.machine.is_over


def unanswered(repeated: RepeatedEnds) -> Driven:
    """Return a transaction whose commit had no answer, of a coordinator with others."""
    events = (Begin(), Begun(ID), Commit("caller"), Settled(None), EndFailed(NO_ANSWER, repeated=False))
    return Driven(machine(repeated), *events)


@pytest.mark.parametrize(
    "events",
    [
        (EndAnswered(),),
        (EndFailed(FORBIDDEN, repeated=False),),
        (EndFailed(NOT_THERE, repeated=False),),
        (EndFailed(status("ABORTED"), repeated=False),),
        (CloseTransaction(),),
        (EndTransaction(AlreadyClosed("the client is closed")),),
    ],
)
def test_only_so_many_transactions_of_a_coordinator_are_repeated_until_there_is_an_answer(events: Any) -> None:
    repeated = RepeatedEnds()
    first, *_ = [unanswered(repeated) for _ in range(MOST_REPEATED)]
    left = unanswered(repeated)
    assert RepeatEndDue not in left.timers
    left.tell(ForgetTransaction())
    assert left.machine.is_over
    assert asked_again(first) == COMMIT
    first.tell(EndFailed(NO_ANSWER, repeated=False))
    assert asked_again(first) == COMMIT
    first.tell(*events)
    assert RepeatEndDue in unanswered(repeated).timers


@pytest.mark.parametrize(
    "event",
    [
        EndAnswered(),
        EndFailed(FORBIDDEN, repeated=False),
        CloseTransaction(),
        EndTransaction(AlreadyClosed("the client is closed")),
    ],
)
def test_those_that_have_timed_out_are_among_them(event: Any) -> None:
    repeated = RepeatedEnds()
    driven = Driven(machine(repeated), Begin(), Begun(ID))
    driven.fire(TransactionTimeoutDue)
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    others = [unanswered(repeated) for _ in range(MOST_REPEATED)]
    assert RepeatEndDue not in others[-1].timers
    late = Driven(machine(repeated), Begin(), Begun(ID))
    late.fire(TransactionTimeoutDue)
    late.tell(EndFailed(NO_ANSWER, repeated=False))
    assert late.machine.state is State.EXPIRED
    driven.tell(event)
    assert RepeatEndDue in unanswered(repeated).timers


@pytest.mark.parametrize(("begin", "call", "action"), [(committing, Commit, COMMIT), (aborting, Abort, ABORT)])
def test_an_end_without_an_answer_is_repeated_after_growing_pauses_and_who_asks_again_is_told_the_outcome(
    begin: Any, call: Any, action: Any
) -> None:
    driven = begin()
    for pause in (1.0, 2.0, 4.0, 4.0):
        driven.tell(EndFailed(NO_ANSWER, repeated=False))
        assert driven.timers[RepeatEndDue].delay == pause
        assert asked_again(driven) == action
    driven.tell(EndAnswered())
    assert driven.machine.is_over
    assert driven.tell(call("again")) == [CallDone(("again",))]


def test_who_asks_again_while_an_end_is_repeated_waits_for_that() -> None:
    driven = committing()
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    driven.fire(RepeatEndDue)
    assert driven.tell(Commit("again")) == []
    driven.tell(EndAnswered())
    assert driven.did(CallDone) == [CallDone(("again",))]


@pytest.mark.parametrize(
    ("begin", "call", "refusal"), [(committing, Commit, status("ABORTED")), (aborting, Abort, status("COMMITTED"))]
)
def test_who_asks_again_is_told_that_a_repeated_end_was_refused(begin: Any, call: Any, refusal: Any) -> None:
    driven = begin()
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    driven.fire(RepeatEndDue)
    driven.tell(EndFailed(refusal, repeated=False))
    assert driven.tell(call("again")) == [CallsFailed(("again",), refusal)]


def test_who_asks_again_when_the_answer_was_none_and_the_client_has_closed_does_not_know_the_outcome() -> None:
    driven = committing()
    driven.tell(EndFailed(NO_ANSWER, repeated=False), CloseTransaction(), Commit("again"))
    assert isinstance(failure(driven), OutcomeUnknown)
    assert "called again" not in str(failure(driven))


@pytest.mark.parametrize("begin", [committing, aborting])
def test_a_close_waits_for_an_end_and_not_for_one_that_is_only_repeated(begin: Any) -> None:
    driven = begin()
    driven.tell(CloseTransaction())
    assert not driven.machine.is_over
    driven = begin()
    driven.tell(EndFailed(NO_ANSWER, repeated=False))
    driven.fire(RepeatEndDue)
    driven.tell(CloseTransaction())
    assert driven.machine.is_over
    driven = opened()
    driven.fire(TransactionTimeoutDue)
    driven.tell(CloseTransaction())
    assert driven.machine.is_over


def test_the_abort_of_a_forgotten_transaction_is_repeated() -> None:
    driven = opened(ForgetTransaction(), Settled(None), EndFailed(NO_ANSWER, repeated=False))
    assert asked_again(driven) == ABORT
    driven.tell(ForgetTransaction(), EndAnswered())
    assert driven.machine.state is State.ABORTED


def test_a_shared_transaction_whose_timeout_is_over_is_aborted_by_the_client_that_has_opened_it() -> None:
    driven = Driven(machine(shared=True), Begin(), Begun(ID))
    driven.fire(TransactionTimeoutDue)
    (ask,) = driven.did(AskToEnd)
    assert ask.command.txn_action == ABORT


def test_a_shared_transaction_is_not_aborted_by_who_has_joined_it_and_does_not_know_its_timeout() -> None:
    driven = Driven(machine(shared=True), Join(ID))
    driven.fire(TransactionTimeoutDue)
    assert driven.did(AskToEnd) == []
    assert driven.machine.is_over


def test_the_timeout_does_not_count_once_the_end_is_sent() -> None:
    driven = committing()
    assert driven.fire(TransactionTimeoutDue) == []


def test_a_client_that_closes_aborts_what_is_open() -> None:
    driven = opened(CloseTransaction(), Settled(None))
    assert [ended.command.txn_action for ended in driven.did(AskToEnd)] == [TxnAction.ABORT]


def test_a_client_that_closes_does_not_wait_for_one_that_is_being_opened() -> None:
    driven = transaction(CloseTransaction())
    (failed,) = driven.did(TransactionNotOpened)
    assert isinstance(failed.error, AlreadyClosed)


def test_nothing_is_registered_after_the_end_was_sent() -> None:
    driven = committing()
    driven.tell(Register("late", CommandAddPartitionToTxn(request_id=0)))
    assert isinstance(failure(driven), InvalidTxnStatusError)
