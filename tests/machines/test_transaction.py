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
    RefuseWork,
    Register,
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


def transaction(*events: Any) -> Driven:
    return Driven(TransactionMachine(0, 60.0, 30.0), Begin(), *events)


def opened(*events: Any) -> Driven:
    return transaction(Begun(ID), *events)


def committing() -> Driven:
    return opened(Commit("caller"), Settled(None))


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
