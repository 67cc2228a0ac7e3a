import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import pytest

from pulsar_actors.exceptions import AlreadyClosed, Interrupted, OperationNotSupported, Timeout
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interrupts import is_ctrl_c, is_for_main
from pulsar_actors.runtime.thread_engine import ThreadEngine, ThreadWorker
from tests.support.life import SOON, InThread, until

PATIENCE = 20.0


@pytest.fixture
def engine() -> Iterator[ThreadEngine]:
    made = ThreadEngine(2, 2)
    yield made
    made.stop(PATIENCE)


def done(result: str) -> Future[str]:
    future: Future[str] = SlimFuture()
    future.set_result(result)
    return future


def outcome_on(start: Callable[[Callable[[], None]], object], function: Callable[[], Any]) -> Any:
    """Do something on another thread, and give what it raised or returned."""
    found: list[Any] = []
    event = threading.Event()

    def run() -> None:
        try:
            found.append(function())
        except Exception as error:  # noqa: BLE001 - it is what came of it
            found.append(error)
        event.set()

    start(run)
    assert event.wait(PATIENCE)
    return found[0]


def test_who_waits_gets_the_result_or_the_error_itself(engine: ThreadEngine) -> None:
    assert engine.block(done("result"), 1.0, "a call") == "result"
    failed: Future[str] = SlimFuture()
    failed.set_exception(AlreadyClosed("closed"))
    with pytest.raises(AlreadyClosed, match="closed"):
        engine.block(failed, None, "a call")


def test_who_waits_in_vain_is_told_for_what_and_how_long(engine: ThreadEngine) -> None:
    with pytest.raises(Timeout, match=r"send\(\) to t took longer than 0.01 s"):
        engine.block(SlimFuture(), 0.01, "send() to t")


def test_a_timeout_that_is_the_calls_own_error_is_passed_on(engine: ThreadEngine) -> None:
    own = FutureTimeout("of another kind")
    failed: Future[str] = SlimFuture()
    failed.set_exception(own)
    with pytest.raises(FutureTimeout, match="of another kind"):
        engine.block(failed, 1.0, "a call")


def test_a_result_that_comes_in_the_very_moment_of_the_timeout_counts(engine: ThreadEngine) -> None:
    class JustLate(Future[str]):
        """Is done when the waiting is over, and not a moment earlier."""

        def exception(self, timeout: float | None = None) -> BaseException | None:
            if not self.done():
                self.set_result("in time")
                raise FutureTimeout
            return super().exception(timeout)

    assert engine.block(JustLate(), 0.0, "a call") == "in time"


def test_ctrl_c_ends_the_waiting_with_an_error_that_says_whose(engine: ThreadEngine) -> None:
    class Impatient(Future[str]):
        def exception(self, timeout: float | None = None) -> BaseException | None:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="receiving was interrupted") as caught:
        engine.block(Impatient(), None, "receiving")
    assert isinstance(caught.value, KeyboardInterrupt)


def test_on_a_loop_nobody_may_wait_and_the_error_says_what_to_do_instead(engine: ThreadEngine) -> None:
    engine.refuse_on_io_thread("send()", "send_async()")
    for loop in engine.loops:
        error = outcome_on(
            lambda run, loop=loop: loop.post(lambda _: run(), None),
            lambda: engine.refuse_on_io_thread("send()", "send_async()"),
        )
        assert isinstance(error, OperationNotSupported)
        assert "send_async()" in str(error)


def test_on_a_listeners_thread_everything_may_wait(engine: ThreadEngine) -> None:
    assert outcome_on(engine.workers[0].submit, lambda: engine.block(done("result"), 1.0, "a call")) == "result"
    assert outcome_on(engine.workers[0].submit, engine.is_on_io_thread) is False


def test_its_clock_is_that_of_its_loops(engine: ThreadEngine) -> None:
    assert engine.loops[0].now() <= engine.now() <= engine.loops[1].now()


def test_when_an_engine_stops_all_its_threads_end() -> None:
    before = set(threading.enumerate())
    engine = ThreadEngine(3, 2)
    for worker in engine.workers:
        worker.submit(lambda: None)
    assert len(set(threading.enumerate()) - before) == 5
    engine.stop(PATIENCE)
    engine.stop(PATIENCE)
    assert set(threading.enumerate()) <= before


def test_an_engine_waits_for_all_its_threads_together_no_longer_than_told() -> None:
    engine = ThreadEngine(1, 2)
    release = threading.Event()
    for worker in engine.workers:
        worker.submit(lambda: release.wait(PATIENCE))
    engine.stop(0.05)
    assert [worker._thread is not None and worker._thread.is_alive() for worker in engine.workers] == [True, True]
    release.set()
    engine.stop(PATIENCE)


def test_an_engine_may_be_stopped_from_its_own_loop() -> None:
    engine = ThreadEngine(1, 1)
    assert outcome_on(lambda run: engine.loops[0].post(lambda _: run(), None), lambda: engine.stop(0.0)) is None
    engine.stop(PATIENCE)


def test_a_forked_child_lets_go_of_every_loop(engine: ThreadEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[object] = []
    monkeypatch.setattr(type(engine.loops[0]), "forget_everything", lambda loop: forgotten.append(loop))  # noqa: PLW0108 - a method needs a function
    engine.forget_everything()
    assert forgotten == list(engine.loops)


def test_a_worker_does_tasks_in_their_order_on_one_thread_which_begins_with_the_first() -> None:
    worker = ThreadWorker("worker")
    assert "worker" not in {thread.name for thread in threading.enumerate()}
    threads: list[tuple[int, threading.Thread]] = []
    for number in range(50):
        worker.submit(lambda number=number: threads.append((number, threading.current_thread())))
    worker.stop(PATIENCE)
    assert [number for number, _ in threads] == list(range(50))
    assert {thread.name for _, thread in threads} == {"worker"}
    assert not threads[0][1].is_alive()
    assert threads[0][1].daemon


def test_after_its_end_a_worker_does_nothing_even_if_it_never_began() -> None:
    for began in (True, False):
        worker = ThreadWorker("worker")
        seen: list[str] = []
        if began:
            worker.submit(lambda: None)
        worker.stop(PATIENCE)
        worker.submit(lambda seen=seen: seen.append("late"))
        worker.stop(PATIENCE)
        assert seen == []


def test_a_worker_that_is_stopped_by_its_own_task_does_not_wait_for_itself() -> None:
    worker = ThreadWorker("worker")
    stopped = threading.Event()
    worker.submit(lambda: (worker.stop(PATIENCE), stopped.set()))
    assert stopped.wait(PATIENCE / 2)


def test_a_worker_at_rest_keeps_nothing_alive() -> None:
    class Task:
        def __call__(self) -> None:
            """Nothing to do."""

    worker = ThreadWorker("worker")
    task = Task()
    gone = weakref.ref(task)
    ended = threading.Event()
    weakref.finalize(task, ended.set)
    worker.submit(task)
    del task
    assert ended.wait(PATIENCE)
    assert gone() is None
    worker.stop(PATIENCE)


def test_a_worker_may_be_stopped_while_its_thread_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    start = threading.Thread.start

    def start_slowly(thread: threading.Thread) -> None:
        if thread.name == "slow worker":
            begun.set()
            assert go_on.wait(SOON)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_slowly)
    worker = ThreadWorker("slow worker")
    submitting = InThread(lambda: worker.submit(lambda: None))
    assert begun.wait(SOON)
    worker.stop(SOON)
    go_on.set()
    submitting.result()
    until(lambda: "slow worker" not in [thread.name for thread in threading.enumerate()])


# Callers that attend a loop: `test_attending_callers.py` has what they do there.


class Attended:
    """An engine of so many loops, of which it is noted whether a caller attends the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, loops: int = 1) -> None:
        self.engine = ThreadEngine(loops, 1)
        self.calls = 0
        self.started = 0
        self.begun: Callable[[], object] = lambda: None
        monkeypatch.setattr(self.engine._loops[0], "attend", self._attend)

    def _attend(self, start: Callable[[], None], _: Future[str], __: float) -> None:
        self.calls += 1
        start()

    def _start(self) -> None:
        self.begun()
        self.started += 1

    def call(self) -> bool:
        """Make a call, and tell whether its caller attended."""
        before = self.calls, self.started
        try:
            self.engine.attend(self._start, SlimFuture(), "a call")
        finally:
            assert self.started == before[1] + 1
        return self.calls > before[0]


@pytest.fixture
def attended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Attended]:
    made = Attended(monkeypatch)
    yield made
    made.engine.stop(PATIENCE)


@pytest.fixture
def own_handler() -> Iterator[None]:
    """A signal handler of the program, which may raise."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_caller_that_waits_attends_the_loop(attended: Attended) -> None:
    assert attended.call()
    assert InThread(attended.call).result()


def test_a_caller_that_a_signal_handler_may_interrupt_does_not_attend(attended: Attended, own_handler: None) -> None:
    assert not attended.call()
    assert InThread(attended.call).result(), "only the main thread runs handlers"


def test_a_signal_handler_that_has_no_hash_is_the_programs_own(attended: Attended) -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, *_: object) -> None:
            """Do nothing."""

    before = signal.signal(signal.SIGTERM, Unhashable())
    try:
        assert not attended.call()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_caller_deep_in_a_recursion_does_not_attend(attended: Attended) -> None:
    def deep(left: int) -> bool:
        return deep(left - 1) if left else attended.call()

    assert attended.call()
    assert not InThread(lambda: deep(sys.getrecursionlimit() - 120)).result()


def test_a_caller_does_not_attend_one_of_several_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    attended = Attended(monkeypatch, loops=2)
    assert not attended.call()
    attended.engine.stop(PATIENCE)


def test_ctrl_c_ends_a_call_only_when_its_caller_does_not_attend_any_longer(attended: Attended) -> None:
    attended.begun = lambda: signal.raise_signal(signal.SIGINT)
    with pytest.raises(Interrupted, match="a call was interrupted"):
        attended.call()
    assert attended.started == 1
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_what_is_raised_where_a_caller_attends_is_not_for_the_main_thread(attended: Attended) -> None:
    def look() -> None:
        assert not is_ctrl_c(KeyboardInterrupt())
        assert not is_for_main(SystemExit())

    assert is_ctrl_c(KeyboardInterrupt())
    assert is_for_main(SystemExit())
    attended.begun = look
    assert attended.call()
    assert is_ctrl_c(KeyboardInterrupt())
    assert not is_for_main(ValueError())
