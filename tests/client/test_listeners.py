import gc
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.listeners import MAX_CALLS_IN_A_ROW, EventCaller, ListenerRunner
from pulsar_actors.runtime.engine import Task, Worker
from pulsar_actors.runtime.future import SlimFuture


class Queue:
    """Stands for a receiver queue."""

    def __init__(self, *, prefetches: bool = True) -> None:
        self.messages: deque[str] = deque()
        self.prefetches = prefetches
        self.waiters: list[SlimFuture[None]] = []
        self.given_up = 0
        self.at_checkpoint: Callable[[], object] = lambda: None
        self.at_wait: Callable[[], object] = lambda: None

    def take(self) -> str | None:
        return self.messages.popleft() if self.messages else None

    @property
    def has_messages(self) -> bool:
        return bool(self.messages)

    def wait(self, waiter: SlimFuture[None]) -> None:
        self.at_wait()
        self.waiters.append(waiter)

    def stop_waiting(self, waiter: SlimFuture[None], *, empty_handed: bool) -> None:
        self.waiters.remove(waiter)
        self.given_up += empty_handed

    def checkpoint(self) -> None:
        self.at_checkpoint()


class Hands:
    """Stands for a worker."""

    def __init__(self) -> None:
        self.tasks: deque[Callable[[], object]] = deque()

    def submit(self, task: Callable[[], object]) -> None:
        self.tasks.append(task)

    def work(self) -> None:
        while self.tasks:
            self.tasks.popleft()()


class Bench:
    def __init__(self, *, prefetches: bool = True) -> None:
        self.queue: Any = Queue(prefetches=prefetches)
        self.worker: Any = Hands()
        self.heard: list[Any] = []
        self.bug: BaseException | None = None
        self.runner = ListenerRunner(self.worker, self.listen, "t")

    def listen(self, handle: object, message: Any) -> None:
        assert handle is self
        self.heard.append(message)
        if self.bug is not None:
            raise self.bug

    def arrive(self, *messages: str) -> None:
        self.queue.messages.extend(messages)
        self.runner.messages_arrived()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.runner.start(made, made.queue)
    made.worker.work()
    return made


def test_the_listener_is_called_with_each_message_in_order(bench: Bench) -> None:
    bench.arrive("a", "b")
    bench.worker.work()
    bench.arrive("c")
    bench.worker.work()
    assert bench.heard == ["a", "b", "c"]


def test_nothing_is_listened_to_before_there_is_a_handle() -> None:
    bench = Bench()
    bench.arrive("a")
    assert not bench.worker.tasks
    bench.runner.start(bench, bench.queue)
    bench.worker.work()
    assert bench.heard == ["a"]


def test_it_is_on_its_worker_once_however_often_messages_arrive(bench: Bench) -> None:
    bench.arrive("a")
    bench.arrive("b")
    assert len(bench.worker.tasks) == 1


def test_messages_that_come_while_it_says_that_it_is_idle_are_not_forgotten(bench: Bench) -> None:
    bench.arrive("a")
    bench.queue.at_checkpoint = lambda: (
        bench.queue.messages or (bench.heard == ["a"] and bench.queue.messages.append("b"))
    )
    bench.worker.work()
    assert bench.heard[:2] == ["a", "b"]


def test_after_a_number_of_messages_others_have_their_turn(bench: Bench) -> None:
    bench.arrive(*(str(number) for number in range(MAX_CALLS_IN_A_ROW + 5)))
    bench.worker.submit(lambda: bench.heard.append("another consumer's"))
    bench.worker.work()
    assert bench.heard[MAX_CALLS_IN_A_ROW] == "another consumer's"
    assert len(bench.heard) == MAX_CALLS_IN_A_ROW + 6


def test_a_pause_lets_the_message_in_hand_end_and_keeps_the_others(bench: Bench) -> None:
    bench.arrive("a", "b", "c")
    real = bench.listen

    def pause_in_the_middle(handle: object, message: Any) -> None:
        real(handle, message)
        bench.runner.pause()

    bench.runner._listener = pause_in_the_middle
    bench.worker.work()
    bench.arrive("d")
    bench.worker.work()
    assert bench.heard == ["a"]
    bench.runner._listener = real
    bench.runner.resume()
    bench.worker.work()
    assert bench.heard == ["a", "b", "c", "d"]


@pytest.mark.parametrize("bug", [ValueError("planted"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_listener_that_raises_is_logged_and_called_with_the_next_message(
    bench: Bench, bug: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    bench.bug = bug
    bench.arrive("a", "b")
    bench.worker.work()
    assert bench.heard == ["a", "b"]
    assert "the listener of t raised; the message is not acknowledged" in caplog.text


def test_without_a_queue_it_asks_for_a_message_whenever_it_is_idle() -> None:
    bench = Bench(prefetches=False)
    bench.runner.start(bench, bench.queue)
    bench.worker.work()
    assert len(bench.queue.waiters) == 1
    bench.queue.messages.append("a")
    first = bench.queue.waiters[0]
    first.set_result(None)
    bench.worker.work()
    assert bench.heard == ["a"]
    assert len(bench.queue.waiters) == 1
    assert bench.queue.waiters != [first]


def test_without_a_queue_a_message_that_comes_while_it_asks_is_the_one_that_it_asks_for() -> None:
    bench = Bench(prefetches=False)
    bench.queue.at_wait = lambda: bench.heard or bench.arrive("a")
    bench.runner.start(bench, bench.queue)
    bench.worker.work()
    assert bench.heard == ["a"]
    (waiter,) = bench.queue.waiters
    bench.queue.messages.append("b")
    waiter.set_result(None)
    bench.worker.work()
    assert bench.heard == ["a", "b"]
    assert (len(bench.queue.waiters), bench.queue.given_up) == (1, 0)


def test_without_a_queue_it_does_not_ask_twice_if_it_is_woken_for_nothing() -> None:
    bench = Bench(prefetches=False)
    bench.runner.start(bench, bench.queue)
    bench.worker.work()
    bench.queue.waiters[0].set_result(None)
    bench.worker.work()
    assert (len(bench.queue.waiters), bench.queue.given_up) == (1, 1)


def test_without_a_queue_it_does_not_ask_while_it_is_paused() -> None:
    bench = Bench(prefetches=False)
    bench.runner.resume()
    bench.runner.pause()
    bench.worker.work()
    assert bench.queue.waiters == []


def test_without_a_queue_it_asks_once_however_often_it_is_paused() -> None:
    bench = Bench(prefetches=False)
    bench.runner.start(bench, bench.queue)
    bench.worker.work()
    for _ in range(3):
        bench.runner.pause()
        bench.runner.resume()
        bench.worker.work()
    assert len(bench.queue.waiters) == 1


class Handle:
    """Whatever a user holds."""


class Later(Worker):
    """A listener's thread that does nothing before it is told to."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def is_here(self) -> bool:
        return False

    def run(self) -> None:
        while self._tasks:
            self._tasks.pop(0)()


def test_what_is_said_before_there_is_a_handle_waits_for_it_in_its_order() -> None:
    worker, heard, handle = Later(), list[Any](), Handle()
    event_caller = EventCaller(worker, "t")
    event_caller.call_with_handle(lambda one: heard.append(("first", one)))
    worker.run()
    event_caller.call_with_handle(lambda one: heard.append(("second", one)))
    event_caller.start(handle)
    event_caller.call_with_handle(lambda one: heard.append(("third", one)))
    assert heard == [], "called on the thread of the event"
    worker.run()
    assert heard == [("first", handle), ("second", handle), ("third", handle)]


def test_a_handle_that_nobody_holds_is_told_nothing_but_its_end() -> None:
    worker, heard, handle = Later(), list[Any](), Handle()
    event_caller = EventCaller(worker, "t")
    event_caller.start(handle)
    worker.run()
    del handle
    gc.collect()
    event_caller.call_with_handle(heard.append)
    event_caller.call_without_handle(lambda: heard.append("the end"))
    worker.run()
    assert heard == ["the end"]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_what_raises_is_logged_and_the_next_is_called(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    worker, heard = Later(), list[Any]()
    event_caller = EventCaller(worker, "t")

    def fail() -> None:
        raise error

    event_caller.call_without_handle(fail)
    event_caller.call_without_handle(lambda: heard.append("next"))
    worker.run()
    assert heard == ["next"]
    assert [record.message for record in caplog.records] == ["a listener or interceptor of t raised"]
