import logging
from concurrent.futures import Future

import pytest
from loop_in_hand import Interloper

from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.runtime.debts import Debts
from pulsar_actors.runtime.future import SlimFuture

CLOSED = AlreadyClosed("the producer is closed")
OTHER = AlreadyClosed("another reason")


def owed(debts: Debts) -> SlimFuture[str]:
    return debts.owe(SlimFuture())


def test_what_is_paid_has_its_result_whatever_comes_later() -> None:
    debts = Debts()
    future = owed(debts)
    debts.pay(future, "done")
    debts.end(CLOSED)
    debts.fail(future, OTHER)
    assert future.result(0) == "done"


def test_what_has_failed_keeps_its_error() -> None:
    debts = Debts()
    future = owed(debts)
    debts.fail(future, OTHER)
    debts.pay(future, "done")
    debts.end(CLOSED)
    assert future.exception(0) is OTHER


def test_at_the_end_all_open_calls_fail_in_the_order_in_which_they_came() -> None:
    debts = Debts()
    ended: list[int] = []
    for number in range(5):
        owed(debts).add_done_callback(lambda _, number=number: ended.append(number))
    debts.end(CLOSED)
    assert ended == [0, 1, 2, 3, 4]


def test_what_is_owed_after_the_end_fails_at_once_with_the_first_reason() -> None:
    debts = Debts()
    debts.end(CLOSED)
    debts.end(OTHER)
    assert owed(debts).exception(0) is CLOSED


def test_a_call_that_is_made_while_everything_ends_ends_once() -> None:
    interloper = Interloper()
    debts = Debts(interloper.interleaving)
    late: list[SlimFuture[str]] = []
    interloper.at(
        0, lambda: late.append(owed(debts))
    )  # between the word that it is over and the failing of what is there
    debts.end(CLOSED)
    assert late[0].exception(0) is CLOSED


def test_a_call_whose_handle_ends_between_the_promise_and_the_look_ends_once() -> None:
    interloper = Interloper()
    debts = Debts(interloper.interleaving)
    interloper.at(0, lambda: debts.end(CLOSED))
    future = owed(debts)
    assert future.exception(0) is CLOSED


def test_a_callback_that_owes_more_while_everything_ends_is_answered_too() -> None:
    debts = Debts()
    more: list[SlimFuture[str]] = []
    owed(debts).add_done_callback(lambda _: more.append(owed(debts)))
    debts.end(CLOSED)
    assert more[0].exception(0) is CLOSED


def test_a_callback_that_ends_the_program_does_not_keep_others_from_their_results(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave(_: Future[str]) -> None:
        raise SystemExit(3)

    debts = Debts()
    owed(debts).add_done_callback(leave)
    second = owed(debts)
    with caplog.at_level(logging.ERROR, "pulsar_actors"):
        debts.end(CLOSED)
    assert second.exception(0) is CLOSED
    assert "sys.exit()" in caplog.text
