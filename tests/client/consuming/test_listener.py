from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.consuming.listener import IN_A_ROW, Pump
from pulsar_actors.runtime.future import SlimFuture


class Queue:
    """Stands for a hand-off queue."""

    def __init__(self, *, asks_by_itself: bool = True) -> None:
        self.messages: deque[str] = deque()
        self.asks_by_itself = asks_by_itself
        self.waiters: list[SlimFuture[None]] = []
        self.at_checkpoint: Callable[[], object] = lambda: None

    def take(self) -> str | None:
        return self.messages.popleft() if self.messages else None

    @property
    def has_messages(self) -> bool:
        return bool(self.messages)

    def wait(self, waiter: SlimFuture[None]) -> None:
        self.waiters.append(waiter)

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
    def __init__(self, *, asks_by_itself: bool = True) -> None:
        self.queue: Any = Queue(asks_by_itself=asks_by_itself)
        self.worker: Any = Hands()
        self.heard: list[Any] = []
        self.bug: BaseException | None = None
        self.pump = Pump(self.queue, self.worker, self.listen, "t")

    def listen(self, handle: object, message: Any) -> None:
        assert handle is self
        self.heard.append(message)
        if self.bug is not None:
            raise self.bug

    def arrive(self, *messages: str) -> None:
        self.queue.messages.extend(messages)
        self.pump.arrived()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.pump.begin(made)
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
    bench.pump.begin(bench)
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
    bench.arrive(*(str(number) for number in range(IN_A_ROW + 5)))
    bench.worker.submit(lambda: bench.heard.append("another consumer's"))
    bench.worker.work()
    assert bench.heard[IN_A_ROW] == "another consumer's"
    assert len(bench.heard) == IN_A_ROW + 6


def test_a_pause_lets_the_message_in_hand_end_and_keeps_the_others(bench: Bench) -> None:
    bench.arrive("a", "b", "c")
    real = bench.listen

    def pause_in_the_middle(handle: object, message: Any) -> None:
        real(handle, message)
        bench.pump.pause()

    bench.pump._listener = pause_in_the_middle
    bench.worker.work()
    bench.arrive("d")
    bench.worker.work()
    assert bench.heard == ["a"]
    bench.pump._listener = real
    bench.pump.resume()
    bench.worker.work()
    assert bench.heard == ["a", "b", "c", "d"]


@pytest.mark.parametrize("bug", [ValueError("planted"), SystemExit(3)], ids=repr)
def test_a_listener_that_raises_is_logged_and_called_with_the_next_message(
    bench: Bench, bug: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    bench.bug = bug
    bench.arrive("a", "b")
    bench.worker.work()
    assert bench.heard == ["a", "b"]
    assert "the listener of t raised; the message is not acknowledged" in caplog.text


def test_without_a_queue_it_asks_for_a_message_whenever_it_is_idle() -> None:
    bench = Bench(asks_by_itself=False)
    bench.pump.begin(bench)
    bench.worker.work()
    assert len(bench.queue.waiters) == 1
    bench.queue.messages.append("a")
    bench.queue.waiters[0].set_result(None)
    bench.worker.work()
    assert bench.heard == ["a"]
    assert len(bench.queue.waiters) == 2


def test_without_a_queue_it_does_not_ask_while_it_is_paused() -> None:
    bench = Bench(asks_by_itself=False)
    bench.pump.resume()
    bench.pump.pause()
    bench.worker.work()
    assert bench.queue.waiters == []
