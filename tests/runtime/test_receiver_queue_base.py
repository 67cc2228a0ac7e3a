from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pulsar_actors.exceptions import AlreadyClosed, TopicTerminated
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.loop import THREADS
from pulsar_actors.runtime.receiver_queue_base import ReceiverQueueBase

CLOSED = AlreadyClosed("closed")


class ListQueue(ReceiverQueueBase):
    """A list of messages, of which None is one that turns out to be corrupt. `wanted` is how many were asked for."""

    def __init__(self, *messages: str | None) -> None:
        super().__init__(THREADS)
        self.wanted = 0
        self.messages = list(messages)
        self.at_end = False
        self.meanwhile: Callable[[], object] = lambda: None

    def take(self) -> Any:
        return self.messages.pop(0) if self.messages else None

    @property
    def queued(self) -> int:
        return len(self.messages)

    @property
    def opened_count(self) -> int:
        return 0

    @property
    def prefetches(self) -> bool:
        return False

    def is_terminated(self) -> bool:
        return self.at_end

    def can_answer(self) -> bool:
        self.meanwhile()
        return bool(self.messages) or self.end_reason is not None

    def request_one(self) -> None:
        self.wanted += 1

    def cancel_request(self) -> None:
        self.wanted -= 1

    def still_delivers(self, topic: str, generation: Generation) -> bool:
        return bool(topic) and generation == Generation()

    def end(self, error: Exception) -> None:
        self.closed = error

    forget = end


def waiting(queue: ListQueue) -> SlimFuture[None]:
    waiter: SlimFuture[None] = SlimFuture()
    queue.wait(waiter)
    return waiter


def test_as_many_are_woken_as_there_are_messages_for() -> None:
    queue = ListQueue()
    waiters = [waiting(queue) for _ in range(3)]
    queue.wake_callers(2)
    assert [each.done() for each in waiters] == [True, True, False]
    queue.wake_all_callers()
    assert waiters[2].done()


def test_who_was_woken_for_a_message_that_another_took_wakes_the_next() -> None:
    queue = ListQueue()
    first, second = waiting(queue), waiting(queue)
    queue.messages.append("a")
    queue.wake_callers(1)
    assert (first.done(), second.done()) == (True, False)
    queue.stop_waiting(first, empty_handed=True)
    assert second.done()


def test_who_waits_no_longer_takes_back_what_was_asked_for() -> None:
    queue = ListQueue()
    waiter = waiting(queue)
    assert queue.wanted == 1
    queue.stop_waiting(waiter, empty_handed=True)
    assert queue.wanted == 0


def test_futures_are_served_in_their_order_but_for_those_that_go_ahead() -> None:
    queue = ListQueue()
    first, second, ahead = queue.receive_future(), queue.receive_future(), queue.receive_future(ahead=True)
    queue.messages += ["1", "2", "3"]
    queue.wake_callers(3)
    assert [ahead.result(0), first.result(0), second.result(0)] == ["1", "2", "3"]


def test_a_future_of_what_is_closed_fails_at_once() -> None:
    queue = ListQueue()
    queue.closed = CLOSED
    assert queue.receive_future().exception(0) is CLOSED


def test_the_end_of_a_topic_is_no_close() -> None:
    queue = ListQueue()
    assert queue.end_reason is None
    queue.at_end = True
    assert isinstance(queue.end_reason, TopicTerminated)
    queue.closed = CLOSED
    assert queue.end_reason is CLOSED


def served(queue: ListQueue, count: int) -> list[Future[Any]]:
    futures = [queue.receive_future() for _ in range(count)]
    queue.serve()
    return futures


def test_messages_go_to_the_futures_that_were_made_first() -> None:
    first, second, third = served(ListQueue("a", "b"), 3)
    assert (first.result(0), second.result(0)) == ("a", "b")
    assert third.cancel(), "there is nothing for it yet"


def test_no_message_is_taken_for_a_future_that_was_cancelled() -> None:
    queue = ListQueue("a", "b")
    cancelled, kept = queue.receive_future(), queue.receive_future()
    assert cancelled.cancel()
    queue.serve()
    assert (kept.result(0), queue.messages) == ("a", ["b"])


def test_a_future_that_is_cancelled_while_the_loop_looks_for_a_message_costs_none() -> None:
    queue = ListQueue("a")
    future = queue.receive_future()
    queue.meanwhile = future.cancel
    queue.serve()
    assert future.cancelled()
    assert (queue.messages, queue.wanted) == (["a"], 0)


def test_a_future_whose_message_is_corrupt_gets_the_next_and_cannot_be_cancelled_meanwhile() -> None:
    queue = ListQueue(None)
    (future,) = served(queue, 1)
    assert not future.cancel()
    assert not future.done()
    queue.messages.append("b")
    queue.serve()
    assert future.result(0) == "b"


def test_when_no_message_will_come_all_futures_fail_but_those_that_still_got_one() -> None:
    queue = ListQueue("a")
    queue.at_end = True
    first, *others = served(queue, 3)
    assert first.result(0) == "a"
    assert [type(future.exception(0)) for future in others] == [TopicTerminated, TopicTerminated]
