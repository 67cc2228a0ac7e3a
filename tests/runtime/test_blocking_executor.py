"""The executor's thread is real; the loop is turned by hand, and its clock moves when the test says so."""

import heapq
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from queue import SimpleQueue
from typing import Any

import pytest

from pulsar_actors.runtime.blocking_executor import BlockingExecutor

PATIENCE = 10.0
NAME = "a-blocking-under-test"


class Bench:
    """An executor, what it needs of a loop, and what jobs were answered."""

    def __init__(self) -> None:
        self.executor = BlockingExecutor(NAME)
        self.answers: list[Any] = []
        self.posted: SimpleQueue[tuple[Callable[[Any], object], Any]] = SimpleQueue()
        self.timers: list[tuple[float, int, Callable[[Any], object], Any]] = []
        self.clock = 0.0
        self.serial = count()

    def post(self, function: Callable[[Any], object], argument: Any) -> None:
        self.posted.put((function, argument))

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:
        heapq.heappush(self.timers, (self.clock + delay, next(self.serial), function, argument))

    def submit(self, work: Callable[[], object], timeout: float = 1.0) -> None:
        self.executor.submit(self, work, self.answers.append, timeout)

    def hang(self, timeout: float) -> "Hanging":
        """Have it hang in a job that has begun."""
        hanging = Hanging()
        self.submit(hanging, timeout)
        assert hanging.begun.wait(PATIENCE)
        return hanging

    def turn(self) -> None:
        """Wait for one thing that is posted, and run it."""
        function, argument = self.posted.get(timeout=PATIENCE)
        function(argument)

    def advance(self, seconds: float) -> None:
        self.clock += seconds
        while self.timers and self.timers[0][0] <= self.clock:
            _, _, function, argument = heapq.heappop(self.timers)
            function(argument)


class Hanging:
    """Work that hangs until it is released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> object:
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.release.wait(PATIENCE)
        return "late"

    def let_go(self) -> None:
        """Release it, and see its thread end."""
        self.release.set()
        if self.thread is not None:
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive()


def executor_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.executor.stop()
    deadline = time.monotonic() + PATIENCE
    for thread in executor_threads():
        thread.join(deadline - time.monotonic())
    assert executor_threads() == []


def test_there_is_no_thread_before_the_first_job_and_one_daemon_after_many(bench: Bench) -> None:
    assert executor_threads() == []
    for number in range(5):
        bench.submit(lambda number=number: (number, threading.current_thread()), 1.0)
    for _ in range(5):
        bench.turn()
    numbers, threads = zip(*bench.answers, strict=True)
    assert numbers == (0, 1, 2, 3, 4)
    assert list(set(threads)) == executor_threads()
    assert threads[0].daemon


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_would_end_a_thread_is_passed_on_as_an_exception_and_does_not_end_it(
    bench: Bench, end: BaseException
) -> None:
    def leave() -> None:
        raise end

    bench.submit(leave, 1.0)
    bench.submit(lambda: "still here", 1.0)
    bench.turn()
    bench.turn()
    assert isinstance(bench.answers[0], RuntimeError)
    assert repr(end) in str(bench.answers[0])
    assert bench.answers[0].__cause__ is end
    assert bench.answers[1] == "still here"


def test_a_job_that_hangs_is_answered_at_its_deadline_and_the_next_has_another_thread(bench: Bench) -> None:
    hanging = bench.hang(2.999871)
    bench.submit(threading.current_thread, 10.0)
    bench.advance(2.9)
    assert bench.answers == []
    bench.advance(0.1)
    assert isinstance(bench.answers[0], TimeoutError)
    assert str(bench.answers[0]) == "it was not done within 3 seconds"
    bench.turn()
    assert bench.answers[1] is not hanging.thread
    hanging.let_go()


def test_what_comes_of_a_job_that_was_given_up_is_thrown_away_and_its_thread_ends(bench: Bench) -> None:
    hanging = bench.hang(3.0)
    bench.advance(3.0)
    hanging.let_go()
    bench.turn()
    assert [type(answer) for answer in bench.answers] == [TimeoutError]
    assert executor_threads() == []


def test_a_job_that_was_given_up_and_returns_does_not_count_as_the_one_in_hand(bench: Bench) -> None:
    first = bench.hang(3.0)
    bench.advance(3.0)
    second = bench.hang(3.0)
    bench.submit(lambda: "third", 9.0)
    first.let_go()
    bench.turn()
    assert len(bench.answers) == 1
    bench.advance(3.0)
    bench.turn()
    assert isinstance(bench.answers[1], TimeoutError)
    assert bench.answers[2:] == ["third"]
    second.let_go()


def test_a_job_whose_time_runs_out_in_the_queue_is_answered_then_and_never_begun(bench: Bench) -> None:
    begun: list[str] = []
    hanging = bench.hang(9.0)
    bench.submit(lambda: begun.append("never"), 2.0)
    bench.submit(lambda: "last", 9.0)
    bench.advance(2.0)
    assert [type(answer) for answer in bench.answers] == [TimeoutError]
    hanging.release.set()
    bench.turn()
    bench.turn()
    assert bench.answers[1:] == ["late", "last"]
    assert begun == []


def test_a_deadline_after_the_answer_does_nothing(bench: Bench) -> None:
    bench.submit(lambda: 1, 3.0)
    bench.turn()
    hanging = bench.hang(9.0)
    bench.advance(3.0)
    hanging.release.set()
    bench.turn()
    assert bench.answers == [1, "late"]
    assert len(executor_threads()) == 1


def test_an_answer_may_ask_for_more(bench: Bench) -> None:
    def ask_again(answer: object) -> None:
        bench.answers.append(answer)
        bench.submit(lambda: "second", 1.0)

    bench.executor.submit(bench, lambda: "first", ask_again, 1.0)
    bench.turn()
    bench.turn()
    assert bench.answers == ["first", "second"]


def test_an_answer_that_raises_does_not_hold_up_the_next_job(bench: Bench) -> None:
    bench.executor.submit(bench, int, lambda _: 1 // 0, 1.0)
    bench.submit(lambda: "next", 1.0)
    with pytest.raises(ZeroDivisionError):
        bench.turn()
    bench.turn()
    assert bench.answers == ["next"]


def test_stop_waits_for_nothing_and_nobody_is_answered_after_it(bench: Bench) -> None:
    hanging = bench.hang(3.0)
    bench.submit(lambda: "waiting", 3.0)
    bench.executor.stop()
    bench.executor.stop()
    bench.submit(lambda: "too late", 3.0)
    assert hanging.thread is not None
    assert hanging.thread.is_alive()
    hanging.let_go()
    bench.turn()
    bench.advance(9.0)
    assert bench.answers == []
    assert bench.posted.empty()


def test_a_thread_that_cannot_be_had_is_the_jobs_error_and_the_next_tries_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        bench.submit(lambda: "never", 1.0)
    bench.submit(lambda: "done", 1.0)
    assert bench.answers == []
    bench.turn()
    bench.turn()
    assert str(bench.answers[0]) == "can't start new thread"
    assert bench.answers[1] == "done"


def test_an_idle_thread_keeps_nothing_of_its_last_job_alive(bench: Bench) -> None:
    class Secret:
        def work(self) -> None:
            return None

    secret = Secret()
    gone = threading.Event()
    weakref.finalize(secret, gone.set)
    bench.submit(secret.work)
    bench.turn()
    bench.advance(1.0)
    del secret
    assert gone.wait(PATIENCE)
    assert len(executor_threads()) == 1
