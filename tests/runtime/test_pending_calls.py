import logging
from concurrent.futures import Future

import pytest

from pulsar_actors.exceptions import AlreadyClosed, ConnectionLost
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.pending_calls import HandleCounters, PendingCalls
from tests.support.manual_loop import Interrupter

CLOSED = AlreadyClosed("the producer is closed")
OTHER = AlreadyClosed("another reason")


@pytest.fixture
def pending_calls() -> PendingCalls:
    return PendingCalls()


def owed(pending_calls: PendingCalls) -> SlimFuture[str]:
    return pending_calls.track(SlimFuture())


def test_what_is_paid_has_its_result_whatever_comes_later(pending_calls: PendingCalls) -> None:
    future = owed(pending_calls)
    pending_calls.resolve(future, "done")
    pending_calls.end(CLOSED)
    pending_calls.fail(future, OTHER)
    assert future.result(0) == "done"


def test_what_has_failed_keeps_its_error(pending_calls: PendingCalls) -> None:
    future = owed(pending_calls)
    pending_calls.fail(future, OTHER)
    pending_calls.resolve(future, "done")
    pending_calls.end(CLOSED)
    assert repr(future.exception(0)) == repr(OTHER)


def test_each_call_gets_an_error_of_its_own_so_that_no_traceback_keeps_the_frames_of_another(
    pending_calls: PendingCalls,
) -> None:
    errors: list[BaseException | None] = [OTHER, CLOSED]
    for _ in range(2):
        future = owed(pending_calls)
        pending_calls.fail(future, OTHER)
        errors.append(future.exception(0))
    futures = [owed(pending_calls) for _ in range(2)]
    pending_calls.end(CLOSED)
    errors += [future.exception(0) for future in futures]
    assert len(set(map(id, errors))) == len(errors)


def test_a_call_that_has_ended_otherwise_is_left_alone(pending_calls: PendingCalls) -> None:
    future = owed(pending_calls)
    pending_calls.untrack(future)
    pending_calls.end(CLOSED)
    assert not future.done()


def test_at_the_end_all_open_calls_fail_in_the_order_in_which_they_came(pending_calls: PendingCalls) -> None:
    ended: list[int] = []
    for number in range(5):
        owed(pending_calls).add_done_callback(lambda _, number=number: ended.append(number))
    pending_calls.end(CLOSED)
    assert ended == [0, 1, 2, 3, 4]


def test_what_is_owed_after_the_end_fails_at_once_with_the_first_reason(pending_calls: PendingCalls) -> None:
    pending_calls.end(CLOSED)
    pending_calls.end(OTHER)
    assert repr(owed(pending_calls).exception(0)) == repr(CLOSED)


def test_a_call_that_is_made_while_everything_ends_ends_once() -> None:
    interloper = Interrupter()
    pending_calls = PendingCalls(interloper.interleaving)
    late: list[SlimFuture[str]] = []
    interloper.at(
        0, lambda: late.append(owed(pending_calls))
    )  # between the word that it is over and the failing of what is there
    pending_calls.end(CLOSED)
    assert repr(late[0].exception(0)) == repr(CLOSED)


def test_a_call_whose_handle_ends_between_the_promise_and_the_look_ends_once() -> None:
    interloper = Interrupter()
    pending_calls = PendingCalls(interloper.interleaving)
    interloper.at(0, lambda: pending_calls.end(CLOSED))
    future = owed(pending_calls)
    assert repr(future.exception(0)) == repr(CLOSED)


def test_a_callback_that_owes_more_while_everything_ends_is_answered_too(pending_calls: PendingCalls) -> None:
    more: list[SlimFuture[str]] = []
    owed(pending_calls).add_done_callback(lambda _: more.append(owed(pending_calls)))
    pending_calls.end(CLOSED)
    assert repr(more[0].exception(0)) == repr(CLOSED)


def test_a_callback_that_ends_the_program_does_not_keep_others_from_their_results(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave(_: Future[str]) -> None:
        raise SystemExit(3)

    pending_calls = PendingCalls()
    owed(pending_calls).add_done_callback(leave)
    second = owed(pending_calls)
    with caplog.at_level(logging.ERROR, "pulsar_actors"):
        pending_calls.end(CLOSED)
    assert repr(second.exception(0)) == repr(CLOSED)
    assert "sys.exit()" in caplog.text


@pytest.mark.parametrize(("attachments", "reconnects"), [(0, 0), (1, 0), (2, 1), (5, 4)])
def test_the_first_time_at_a_broker_is_no_reconnect(attachments: int, reconnects: int) -> None:
    counters = HandleCounters()
    counters.attachments = attachments
    assert counters.reconnects == reconnects


def test_what_went_wrong_last_is_told_in_words() -> None:
    counters = HandleCounters()
    assert counters.last_error_text is None
    counters.last_error = ConnectionLost("gone")
    assert counters.last_error_text == "gone"
