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


class HandTurnedLoop:
    """What the executor needs of a loop."""

    def __init__(self) -> None:
        self.posted: SimpleQueue[tuple[Callable[[Any], object], Any]] = SimpleQueue()
        self.timers: list[tuple[float, int, Callable[[Any], object], Any]] = []
        self.clock = 0.0
        self.serial = count()

    def post(self, function: Callable[[Any], object], argument: Any) -> None:
        self.posted.put((function, argument))

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:
        heapq.heappush(self.timers, (self.clock + delay, next(self.serial), function, argument))

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

    def __init__(self, result: object = "late") -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.result = result
        self.thread: threading.Thread | None = None

    def __call__(self) -> object:
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.release.wait(PATIENCE)
        return self.result

    def let_go(self) -> None:
        """Release it, and see its thread end."""
        self.release.set()
        if self.thread is not None:
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive()


def executor_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


@pytest.fixture
def loop() -> HandTurnedLoop:
    return HandTurnedLoop()


@pytest.fixture
def executor() -> Iterator[BlockingExecutor]:
    executor = BlockingExecutor(NAME)
    yield executor
    executor.stop()
    deadline = time.monotonic() + PATIENCE
    for thread in executor_threads():
        thread.join(deadline - time.monotonic())
    assert executor_threads() == []


def test_there_is_no_thread_before_the_first_job_and_one_daemon_after_many(
    executor: BlockingExecutor, loop: HandTurnedLoop
) -> None:
    assert executor_threads() == []
    answers: list[object] = []
    for number in range(5):
        executor.submit(loop, lambda number=number: (number, threading.current_thread()), answers.append, 1.0)
    for _ in range(5):
        loop.turn()
    numbers, threads = zip(*answers, strict=True)
    assert numbers == (0, 1, 2, 3, 4)
    assert list(set(threads)) == executor_threads()
    assert threads[0].daemon


def test_a_job_is_answered_on_the_loop_and_only_there(executor: BlockingExecutor, loop: HandTurnedLoop) -> None:
    answered_in: list[threading.Thread] = []
    executor.submit(loop, int, lambda _: answered_in.append(threading.current_thread()), 1.0)
    loop.turn()
    assert answered_in == [threading.current_thread()]


def test_an_error_is_passed_on(executor: BlockingExecutor, loop: HandTurnedLoop) -> None:
    def fail() -> None:
        raise OSError("no such host")

    answers: list[BaseException] = []
    executor.submit(loop, fail, answers.append, 1.0)
    loop.turn()
    assert type(answers[0]) is OSError
    assert str(answers[0]) == "no such host"


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_would_end_a_thread_is_passed_on_as_an_exception_and_does_not_end_it(
    executor: BlockingExecutor, loop: HandTurnedLoop, end: BaseException
) -> None:
    def leave() -> None:
        raise end

    answers: list[BaseException] = []
    executor.submit(loop, leave, answers.append, 1.0)
    executor.submit(loop, lambda: "still here", answers.append, 1.0)
    loop.turn()
    loop.turn()
    assert isinstance(answers[0], RuntimeError)
    assert repr(end) in str(answers[0])
    assert answers[0].__cause__ is end
    assert answers[1] == "still here"


def test_a_job_that_hangs_is_answered_at_its_deadline_and_the_next_has_another_thread(
    executor: BlockingExecutor, loop: HandTurnedLoop
) -> None:
    answers: list[object] = []
    hanging = Hanging()
    executor.submit(loop, hanging, answers.append, 2.999871)
    executor.submit(loop, threading.current_thread, answers.append, 10.0)
    assert hanging.begun.wait(PATIENCE)
    loop.advance(2.9)
    assert answers == []
    loop.advance(0.1)
    assert isinstance(answers[0], TimeoutError)
    assert str(answers[0]) == "it was not done within 3 seconds"
    loop.turn()
    assert answers[1] is not hanging.thread
    hanging.let_go()


def test_what_comes_of_a_job_that_was_given_up_is_thrown_away_and_its_thread_ends(
    executor: BlockingExecutor, loop: HandTurnedLoop
) -> None:
    answers: list[object] = []
    hanging = Hanging()
    executor.submit(loop, hanging, answers.append, 3.0)
    assert hanging.begun.wait(PATIENCE)
    loop.advance(3.0)
    hanging.let_go()
    loop.turn()
    assert [type(answer) for answer in answers] == [TimeoutError]
    assert executor_threads() == []


def test_a_job_that_was_given_up_and_returns_does_not_count_as_the_one_in_hand(
    executor: BlockingExecutor, loop: HandTurnedLoop
) -> None:
    answers: list[object] = []
    first, second = Hanging("first"), Hanging("second")
    executor.submit(loop, first, answers.append, 3.0)
    assert first.begun.wait(PATIENCE)
    loop.advance(3.0)
    executor.submit(loop, second, answers.append, 3.0)
    assert second.begun.wait(PATIENCE)
    executor.submit(loop, lambda: "third", answers.append, 9.0)
    first.let_go()
    loop.turn()
    assert len(answers) == 1
    loop.advance(3.0)
    loop.turn()
    assert isinstance(answers[1], TimeoutError)
    assert answers[2:] == ["third"]
    second.let_go()


def test_a_job_whose_time_runs_out_in_the_queue_is_answered_then_and_never_begun(
    executor: BlockingExecutor, loop: HandTurnedLoop
) -> None:
    answers: list[object] = []
    begun: list[str] = []
    hanging = Hanging()
    executor.submit(loop, hanging, answers.append, 9.0)
    executor.submit(loop, lambda: begun.append("never"), answers.append, 2.0)
    executor.submit(loop, lambda: "last", answers.append, 9.0)
    assert hanging.begun.wait(PATIENCE)
    loop.advance(2.0)
    assert [type(answer) for answer in answers] == [TimeoutError]
    hanging.release.set()
    loop.turn()
    loop.turn()
    assert answers[1:] == ["late", "last"]
    assert begun == []


def test_a_deadline_after_the_answer_does_nothing(executor: BlockingExecutor, loop: HandTurnedLoop) -> None:
    answers: list[object] = []
    executor.submit(loop, lambda: 1, answers.append, 3.0)
    loop.turn()
    hanging = Hanging()
    executor.submit(loop, hanging, answers.append, 9.0)
    loop.advance(3.0)
    hanging.release.set()
    loop.turn()
    assert answers == [1, "late"]
    assert len(executor_threads()) == 1


def test_an_answer_may_ask_for_more(executor: BlockingExecutor, loop: HandTurnedLoop) -> None:
    answers: list[object] = []

    def ask_again(answer: object) -> None:
        answers.append(answer)
        executor.submit(loop, lambda: "second", answers.append, 1.0)

    executor.submit(loop, lambda: "first", ask_again, 1.0)
    loop.turn()
    loop.turn()
    assert answers == ["first", "second"]


def test_an_answer_that_raises_does_not_hold_up_the_next_job(executor: BlockingExecutor, loop: HandTurnedLoop) -> None:
    answers: list[object] = []
    executor.submit(loop, int, lambda _: 1 // 0, 1.0)
    executor.submit(loop, lambda: "next", answers.append, 1.0)
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    loop.turn()
    assert answers == ["next"]


def test_stop_waits_for_nothing_and_nobody_is_answered_after_it(
    executor: BlockingExecutor, loop: HandTurnedLoop
) -> None:
    answers: list[object] = []
    hanging = Hanging()
    executor.submit(loop, hanging, answers.append, 3.0)
    executor.submit(loop, lambda: "waiting", answers.append, 3.0)
    assert hanging.begun.wait(PATIENCE)
    executor.stop()
    executor.stop()
    executor.submit(loop, lambda: "too late", answers.append, 3.0)
    assert hanging.thread is not None
    assert hanging.thread.is_alive()
    hanging.let_go()
    loop.turn()
    loop.advance(9.0)
    assert answers == []
    assert loop.posted.empty()


def test_a_thread_that_cannot_be_had_is_the_jobs_error_and_the_next_tries_again(
    executor: BlockingExecutor, loop: HandTurnedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    answers: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        executor.submit(loop, lambda: "never", answers.append, 1.0)
    executor.submit(loop, lambda: "done", answers.append, 1.0)
    assert answers == []
    loop.turn()
    loop.turn()
    assert str(answers[0]) == "can't start new thread"
    assert answers[1] == "done"


def test_an_idle_thread_keeps_nothing_of_its_last_job_alive(executor: BlockingExecutor, loop: HandTurnedLoop) -> None:
    class Secret:
        def work(self) -> None:
            return None

    secret = Secret()
    gone = threading.Event()
    weakref.finalize(secret, gone.set)
    executor.submit(loop, secret.work, lambda _: None, 1.0)
    loop.turn()
    loop.advance(1.0)
    del secret
    assert gone.wait(PATIENCE)
    assert len(executor_threads()) == 1
