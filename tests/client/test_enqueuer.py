import time
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.enqueuer import SendQueueEnqueuer
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.exceptions import AlreadyClosed, ProducerFenced, ProducerQueueIsFull
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, SendQuota
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.producer_actor import MessagesEnqueued, TriggerFlush
from pulsar_actors.runtime.send_queue import SendQueue

MESSAGE = (b"x", None)
CLOSED = AlreadyClosed("closed")


class Bench:
    """An enqueuer with room for two messages, and an engine whose every wait is `meanwhile`."""

    def __init__(self, *, waits: bool = False) -> None:
        self.told: list[Any] = []
        self.attended: list[Any] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.send_queue = SendQueue(PendingMessages(SendQuota(2), SendQuota(0)), None, lambda *_: None)
        engine: Any = self
        self.enqueuer = SendQueueEnqueuer(
            engine, self.send_queue, SendCallbacks("t", -1, time.monotonic), self.told.append, waits=waits
        )

    def refuse_on_io_thread(self, what: str, instead: str) -> None:
        """Stand in for an engine, outside of its loops."""

    def attend(self, start: Callable[[], object], future: SlimFuture[None], what: str) -> None:
        self.attended.append((future, what))
        start()

    def block(self, room: SlimFuture[None], timeout: float | None, what: str) -> None:
        self.meanwhile()
        assert room.done()


def test_the_actor_hears_of_the_first_message_only_and_of_each_that_is_not_to_wait() -> None:
    bench = Bench()
    bench.enqueuer.enqueue(*MESSAGE)
    bench.enqueuer.enqueue_and_flush(*MESSAGE, SlimFuture())
    assert bench.told == [MessagesEnqueued(), TriggerFlush()]


def test_a_caller_that_waits_attends_the_loop_if_its_message_is_the_only_one() -> None:
    bench = Bench()
    alone, after_another = SlimFuture[None](), SlimFuture[None]()
    bench.enqueuer.enqueue_and_flush(*MESSAGE, alone)
    assert bench.attended == [(alone, "send() to t")]
    bench.enqueuer.enqueue_and_flush(*MESSAGE, after_another)
    bench.send_queue.take(2, 2)
    bench.send_queue.pending.give_back(1, 1)
    bench.enqueuer.enqueue_and_flush(*MESSAGE, after_another)
    assert bench.attended == [(alone, "send() to t")], "another one was in the queue, or pending"
    assert bench.told == [TriggerFlush()] * 3


def test_a_full_queue_is_an_error() -> None:
    bench = Bench()
    bench.enqueuer.enqueue(*MESSAGE)
    bench.enqueuer.try_enqueue(*MESSAGE)
    with pytest.raises(ProducerQueueIsFull):
        bench.enqueuer.enqueue(*MESSAGE)


def test_a_full_queue_is_waited_for_where_that_is_wanted() -> None:
    bench = Bench(waits=True)
    bench.meanwhile = lambda: (
        bench.send_queue.take(1, 1),
        bench.send_queue.pending.give_back(1, 1),
        bench.send_queue.waiting.wake(1),
    )
    for _ in range(3):
        bench.enqueuer.enqueue(*MESSAGE)
    assert len(bench.send_queue.begin_take()) == 2
    with pytest.raises(ProducerQueueIsFull):
        bench.enqueuer.try_enqueue(*MESSAGE)


def test_an_interrupted_caller_tells_the_actor_of_what_it_may_have_left() -> None:
    bench = Bench(waits=True)
    bench.enqueuer.enqueue(*MESSAGE)
    bench.enqueuer.enqueue(*MESSAGE)

    def interrupt() -> None:
        raise KeyboardInterrupt

    bench.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        bench.enqueuer.enqueue(*MESSAGE)
    assert bench.told[-1] == TriggerFlush()


@pytest.mark.parametrize("way", ["enqueue", "enqueue_and_flush", "try_enqueue"])
def test_nothing_is_left_once_it_is_closed(way: str) -> None:
    bench = Bench()
    bench.send_queue.end(CLOSED)
    with pytest.raises(AlreadyClosed):
        getattr(bench.enqueuer, way)(*MESSAGE, *([SlimFuture()] if way == "enqueue_and_flush" else []))
    assert bench.enqueuer.has_ended_by(AlreadyClosed("another"))
    assert not bench.enqueuer.has_ended_by(ProducerFenced("ProducerFenced", "no"))
