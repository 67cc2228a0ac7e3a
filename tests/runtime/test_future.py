"""Slim futures: every test of their behaviour runs on the standard future too. Then pending calls."""

import asyncio
import concurrent.futures
import contextlib
import gc
import itertools
import logging
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future, InvalidStateError
from typing import Any

import pytest

from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.runtime.future import PendingCalls, SlimFuture, WaiterQueue, settle
from tests.support.manual_loop import Interrupter

PATIENCE = 10.0
AT_ONCE = 0.0

Make = Callable[[], "Future[object]"]


def standard() -> "Future[object]":
    future: Future[object] = Future()
    future.set_running_or_notify_cancel()
    return future


@pytest.fixture(params=[SlimFuture, standard], ids=["slim", "standard"])
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def raised_by(future: "Future[object]") -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is for the caller to see
        future.result(AT_ONCE)
    return caught.value


@pytest.mark.parametrize("result", ["done", None])
def test_a_result_is_returned_at_once_and_again(make: Make, result: object) -> None:
    future = make()
    future.set_result(result)
    assert future.done()
    assert future.result() == future.result(AT_ONCE) == result
    assert future.exception() is None


def test_until_it_is_done_it_is_running_and_afterwards_it_is_not(make: Make) -> None:
    future = make()
    assert (future.running(), future.done(), future.cancelled()) == (True, False, False)
    future.set_result(1)
    assert (future.running(), future.done(), future.cancelled()) == (False, True, False)


@pytest.mark.parametrize("ask", ["result", "exception"])
def test_waiting_ends_with_a_timeout_error_of_concurrent_futures(make: Make, ask: str) -> None:
    future = make()
    with pytest.raises(concurrent.futures.TimeoutError):
        getattr(future, ask)(0.01)
    with pytest.raises(concurrent.futures.TimeoutError):
        getattr(future, ask)(AT_ONCE)
    future.set_result("after all")
    assert future.result() == "after all"


@pytest.mark.parametrize("ask", ["result", "exception"])
@pytest.mark.parametrize("waiters", [1, 5])
def test_everybody_who_waits_is_woken(make: Make, ask: str, waiters: int) -> None:
    future, error = make(), OSError("lost")
    seen: list[object] = []

    def wait() -> None:
        try:
            seen.append(getattr(future, ask)(PATIENCE))
        except OSError as raised:
            seen.append(raised)

    threads = [in_thread(wait) for _ in range(waiters)]
    future.set_exception(error)
    for thread in threads:
        thread.join(PATIENCE)
    assert seen == [error] * waiters


def outcomes() -> list[Callable[["Future[object]"], None]]:
    return [lambda future: future.set_result(2), lambda future: future.set_exception(OSError("second"))]


@pytest.mark.parametrize("again", outcomes(), ids=["result", "error"])
@pytest.mark.parametrize("observe", [id, repr], ids=["unobserved", "observed"])
def test_the_first_outcome_stays(
    make: Make, again: Callable[[Future[object]], None], observe: Callable[[object], object]
) -> None:
    succeeded, failed, error = make(), make(), ValueError("first")
    for future in (succeeded, failed):
        observe(future)
    succeeded.set_result(1)
    failed.set_exception(error)
    with pytest.raises(InvalidStateError):
        again(succeeded)
    with pytest.raises(InvalidStateError):
        again(failed)
    assert succeeded.result() == 1
    assert failed.exception() is error


@pytest.mark.parametrize("end", outcomes(), ids=["result", "error"])
@pytest.mark.parametrize("seconds_waited", [None, AT_ONCE])
def test_callbacks_are_called_once_each_in_order_with_the_future(
    make: Make, end: Callable[[Future[object]], None], seconds_waited: float | None
) -> None:
    future, calls = make(), []
    future.add_done_callback(lambda done: calls.append(("a", done)))
    if seconds_waited is not None:
        concurrent.futures.wait([future], seconds_waited)
    future.add_done_callback(lambda done: calls.append(("b", done)))
    assert calls == []
    end(future)
    future.add_done_callback(lambda done: calls.append(("after", done)))
    assert calls == [("a", future), ("b", future), ("after", future)]


def test_a_callback_may_add_a_callback_which_is_called_at_once(make: Make) -> None:
    future, calls = make(), []

    def first(done: "Future[object]") -> None:
        done.add_done_callback(lambda inner: calls.append(inner.result()))
        calls.append("first")

    future.add_done_callback(first)
    future.add_done_callback(lambda _: calls.append("second"))
    future.set_result("inner")
    assert calls == ["inner", "first", "second"]


def test_another_thread_can_use_the_future_while_a_callback_runs(make: Make) -> None:
    future, seen = make(), []

    def ask_elsewhere(done: "Future[object]") -> None:
        in_thread(lambda: seen.append(done.exception(PATIENCE))).join(PATIENCE)
        in_thread(lambda: done.add_done_callback(lambda _: seen.append("added"))).join(PATIENCE)

    future.add_done_callback(ask_elsewhere)
    future.set_result(1)
    assert seen == [None, "added"]


def test_a_callback_that_raises_is_logged_and_the_next_is_called(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    future, calls = make(), []
    future.add_done_callback(lambda _: 1 // 0)
    future.add_done_callback(calls.append)
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        future.set_result(1)
    assert calls == [future]
    assert "ZeroDivisionError" in caplog.text


def test_wait_takes_those_that_are_done_and_those_that_are_not(make: Make) -> None:
    done, failed, pending = make(), make(), make()
    done.set_result(1)
    failed.set_exception(OSError())
    assert concurrent.futures.wait([done, failed, pending], AT_ONCE) == ({done, failed}, {pending})
    assert concurrent.futures.wait([done, pending], return_when=FIRST_COMPLETED) == ({done}, {pending})
    assert concurrent.futures.wait([failed, pending], return_when=FIRST_EXCEPTION) == ({failed}, {pending})


@pytest.mark.parametrize("how", [ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION])
def test_wait_ends_when_what_it_waits_for_has_happened(make: Make, how: str) -> None:
    futures = [make() for _ in range(5)]
    in_thread(lambda: [future.set_exception(OSError()) for future in futures])
    done, pending = concurrent.futures.wait(futures, PATIENCE, how)
    assert done
    assert all(future.done() for future in done)
    assert done | pending == set(futures)
    assert how != ALL_COMPLETED or not pending


def test_as_completed_gives_them_in_the_order_in_which_they_end(make: Make) -> None:
    first, second, third = make(), make(), make()
    first.set_result(1)
    completed = concurrent.futures.as_completed([third, second, first], PATIENCE)
    assert next(completed) is first
    third.set_result(3)
    assert next(completed) is third
    second.set_exception(OSError())
    assert list(completed) == [second]


def test_asyncio_awaits_it_wherever_it_ends(make: Make) -> None:
    before, during, failed = make(), make(), make()
    before.set_result("before")

    async def main() -> list[object]:
        awaited = [asyncio.wrap_future(future) for future in (before, during, failed)]
        in_thread(lambda: during.set_result("during"))
        in_thread(lambda: failed.set_exception(OSError("failed")))
        return await asyncio.wait_for(asyncio.gather(*awaited, return_exceptions=True), PATIENCE)

    *results, error = asyncio.run(main())
    assert results == ["before", "during"]
    assert repr(error) == "OSError('failed')"


def test_it_cannot_be_started_as_it_is_running_already(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="unexpected state"):
        make().set_running_or_notify_cancel()
    assert "unexpected state" in caplog.text


def test_ctrl_c_interrupts_a_wait() -> None:
    future: SlimFuture[object] = SlimFuture()
    main = threading.main_thread().ident
    assert main is not None

    def press_when_waiting() -> None:
        while future._made is None:  # it is made by the one who waits
            threading.Event().wait(0.001)
        signal.pthread_kill(main, signal.SIGINT)

    thread = in_thread(press_when_waiting)
    with pytest.raises(KeyboardInterrupt):
        future.result(PATIENCE)
    thread.join(PATIENCE)
    future.set_result("unharmed")
    assert future.result() == "unharmed"


def test_an_error_raised_many_times_keeps_a_short_traceback_with_its_origin() -> None:
    def origin() -> None:
        raise OSError("lost")

    future: SlimFuture[object] = SlimFuture()
    try:
        origin()
    except OSError as error:
        future.set_exception(error)
    lengths = {len(traceback.extract_tb(raised_by(future).__traceback__)) for _ in range(5)}
    assert len(lengths) == 1
    assert "origin" in {frame.name for frame in traceback.extract_tb(raised_by(future).__traceback__)}


def test_futures_that_share_an_error_do_not_share_its_traceback() -> None:
    error = OSError("lost")
    futures: list[SlimFuture[object]] = [SlimFuture() for _ in range(5)]
    for future in futures:
        future.set_exception(error)
    lengths = {len(traceback.extract_tb(raised_by(future).__traceback__)) for future in futures}
    assert len(lengths) == 1


def test_raising_an_error_makes_no_cycle() -> None:
    future: SlimFuture[object] = SlimFuture()
    gone = weakref.ref(future)
    future.set_exception(OSError("lost"))
    gc.disable()
    try:
        with contextlib.suppress(OSError):
            gone().result()
        del future
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("eager_switching")
def test_what_was_waited_for_keeps_nothing_of_those_who_waited() -> None:
    future: SlimFuture[int] = SlimFuture()
    waiting = threading.Thread(target=lambda: future.result(PATIENCE), daemon=True)
    waiting.start()
    while not any(isinstance(each, threading.Condition) for each in tuple(vars(future).values())):
        assert waiting.is_alive()
    future.set_result(1)
    waiting.join(PATIENCE)
    assert not any(isinstance(each, threading.Condition) for each in tuple(vars(future).values()))


@pytest.mark.parametrize("watched", [False, True])
def test_who_was_called_is_kept_no_longer_and_a_second_end_keeps_nobody_from_being_called(*, watched: bool) -> None:
    class Called:
        def __call__(self, future: "Future[int]") -> None:
            settle(future, 2)  # which comes too late
            heard.append(future.result(0))

    heard: list[int] = []
    future: SlimFuture[int] = SlimFuture()
    if watched:
        concurrent.futures.wait([future], 0)
    first, second = Called(), Called()
    future.add_done_callback(first)
    future.add_done_callback(second)
    future.set_result(1)
    assert heard == [1, 1]
    kept = [weakref.ref(first), weakref.ref(second)]
    del first, second
    assert [each() for each in kept] == [None, None]


def test_a_result_and_the_first_waiter_never_miss_each_other() -> None:
    rounds = 3000
    futures: list[SlimFuture[int]] = [SlimFuture() for _ in range(rounds)]
    called = itertools.count()
    ways: list[Callable[[SlimFuture[int]], object]] = [
        lambda future: future.result(PATIENCE),
        lambda future: future.exception(PATIENCE),
        lambda future: future.add_done_callback(lambda _: next(called)),
        lambda future: concurrent.futures.wait([future], PATIENCE).done.pop(),
        lambda future: next(concurrent.futures.as_completed([future], PATIENCE)),
    ]
    line = threading.Barrier(len(ways) + 1)
    faults: list[BaseException] = []

    def run(do: Callable[[SlimFuture[int]], object]) -> None:
        try:
            for future in futures:
                line.wait(PATIENCE)
                do(future)
        except BaseException as fault:  # noqa: BLE001 - for the test to see
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(way,), daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    run(lambda future: future.set_result(1))
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert faults == []
    assert next(called) == rounds


@pytest.mark.usefixtures("eager_switching")
def test_many_who_race_to_end_it_leave_one_winner() -> None:
    line = threading.Barrier(4)
    winners: list[int] = []
    futures: list[SlimFuture[int]] = [SlimFuture() for _ in range(500)]

    def run(number: int) -> None:
        for index, future in enumerate(futures):
            line.wait(PATIENCE)
            try:
                future.set_result(number) if number % 2 else future.set_exception(OSError(number))
                winners.append(index)
            except InvalidStateError:
                continue

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(winners) == list(range(len(futures)))
    assert all((future.exception() is None) == isinstance(future._result, int) for future in futures)


def test_no_condition_is_made_for_one_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    condition = threading.Condition
    monkeypatch.setattr(threading, "Condition", lambda lock: made.append(lock) or condition(lock))
    future: SlimFuture[int] = SlimFuture()
    future.add_done_callback(lambda done: done.result())
    assert (future.done(), future.cancel(), future.cancelled()) == (False, False, False)
    future.set_result(1)
    assert (future.done(), future.running(), future.result(), future.exception()) == (True, False, 1, None)
    assert made == []
    concurrent.futures.wait([future])
    assert len(made) == 1


def test_the_first_outcome_that_a_future_is_settled_with_counts(make: Make) -> None:
    future = make()
    settle(future, "first")
    settle(future, "second")
    settle(future, ValueError("third"))
    assert future.result(AT_ONCE) == "first"


# Callers that wait to look again.


def line_of(count: int) -> tuple[WaiterQueue, list[SlimFuture[Any]]]:
    waiters: list[SlimFuture[Any]] = [SlimFuture() for _ in range(count)]
    return WaiterQueue(waiters), waiters


@pytest.mark.parametrize("most", [0, 1, 2, 3, 9])
def test_so_many_are_woken_from_the_front(most: int) -> None:
    line, waiters = line_of(3)
    line.wake(most)
    assert [waiter.done() for waiter in waiters] == [place < most for place in range(3)]
    assert list(line) == waiters[most:]


def test_everybody_is_woken_and_those_who_came_while_that_was_done() -> None:
    line, waiters = line_of(2)
    late: SlimFuture[Any] = SlimFuture()
    waiters[1].add_done_callback(lambda _: line.append(late))
    line.wake_all()
    assert all(waiter.done() for waiter in (*waiters, late))


def test_two_threads_may_wake_at_once() -> None:
    class Contested(WaiterQueue):
        """Says that somebody waits when another thread has just woken it."""

        def __bool__(self) -> bool:
            return True

        def __len__(self) -> int:
            return 1

    Contested().wake_all()
    Contested().wake(1)


CLOSED = AlreadyClosed("the producer is closed")
OTHER = AlreadyClosed("another reason")


@pytest.fixture
def pending_calls() -> PendingCalls:
    return PendingCalls()


def tracked(pending_calls: PendingCalls) -> SlimFuture[str]:
    return pending_calls.track(SlimFuture())


def test_a_call_with_a_result_keeps_it(pending_calls: PendingCalls) -> None:
    future = tracked(pending_calls)
    pending_calls.resolve(future, "done")
    pending_calls.end(CLOSED)
    pending_calls.fail(future, OTHER)
    assert future.result(0) == "done"


def test_a_call_that_has_failed_keeps_its_error(pending_calls: PendingCalls) -> None:
    future = tracked(pending_calls)
    pending_calls.fail(future, OTHER)
    pending_calls.resolve(future, "done")
    pending_calls.end(CLOSED)
    assert repr(future.exception(0)) == repr(OTHER)


def test_each_call_gets_an_error_of_its_own_so_that_no_traceback_keeps_the_frames_of_another(
    pending_calls: PendingCalls,
) -> None:
    errors: list[BaseException | None] = [OTHER, CLOSED]
    for _ in range(2):
        future = tracked(pending_calls)
        pending_calls.fail(future, OTHER)
        errors.append(future.exception(0))
    futures = [tracked(pending_calls) for _ in range(2)]
    pending_calls.end(CLOSED)
    errors += [future.exception(0) for future in futures]
    assert len(set(map(id, errors))) == len(errors)


def test_a_call_that_has_ended_otherwise_is_left_alone(pending_calls: PendingCalls) -> None:
    future = tracked(pending_calls)
    pending_calls.untrack(future)
    pending_calls.end(CLOSED)
    assert not future.done()


def test_at_the_end_all_open_calls_fail_in_the_order_in_which_they_came(pending_calls: PendingCalls) -> None:
    ended: list[int] = []
    for number in range(5):
        tracked(pending_calls).add_done_callback(lambda _, number=number: ended.append(number))
    pending_calls.end(CLOSED)
    assert ended == [0, 1, 2, 3, 4]


def test_a_call_after_the_end_fails_at_once_with_the_first_reason(pending_calls: PendingCalls) -> None:
    pending_calls.end(CLOSED)
    pending_calls.end(OTHER)
    assert repr(tracked(pending_calls).exception(0)) == repr(CLOSED)


def test_a_call_that_is_made_while_everything_ends_ends_once() -> None:
    interrupter = Interrupter()
    pending_calls = PendingCalls(interrupter.interleaving)
    late: list[SlimFuture[str]] = []
    interrupter.at(0, lambda: late.append(tracked(pending_calls)))  # marked as closed, and no future has failed yet
    pending_calls.end(CLOSED)
    assert repr(late[0].exception(0)) == repr(CLOSED)


def test_a_call_whose_handle_ends_while_it_is_tracked_ends_once() -> None:
    interrupter = Interrupter()
    pending_calls = PendingCalls(interrupter.interleaving)
    interrupter.at(0, lambda: pending_calls.end(CLOSED))
    future = tracked(pending_calls)
    assert repr(future.exception(0)) == repr(CLOSED)


def test_a_call_that_a_callback_makes_while_everything_ends_fails_too(pending_calls: PendingCalls) -> None:
    more: list[SlimFuture[str]] = []
    tracked(pending_calls).add_done_callback(lambda _: more.append(tracked(pending_calls)))
    pending_calls.end(CLOSED)
    assert repr(more[0].exception(0)) == repr(CLOSED)


def test_a_callback_that_raises_system_exit_does_not_keep_other_calls_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave(_: Future[str]) -> None:
        raise SystemExit(3)

    pending_calls = PendingCalls()
    tracked(pending_calls).add_done_callback(leave)
    second = tracked(pending_calls)
    with caplog.at_level(logging.ERROR, "pulsar_actors"):
        pending_calls.end(CLOSED)
    assert repr(second.exception(0)) == repr(CLOSED)
    assert "sys.exit()" in caplog.text
