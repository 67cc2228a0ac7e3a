from typing import Any

from pulsar_actors.exceptions import AlreadyClosed, TopicTerminated
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import THREADS
from pulsar_actors.runtime.supply import Supply

CLOSED = AlreadyClosed("closed")


class Box(Supply):
    """A list of messages. `wanted` is how many were asked for."""

    def __init__(self, *messages: str) -> None:
        self.wanted = 0
        super().__init__(THREADS)
        self.messages = list(messages)
        self.at_end = False

    def take(self) -> Any:
        return self.messages.pop(0) if self.messages else None

    @property
    def queued(self) -> int:
        return len(self.messages)

    @property
    def left_open(self) -> int:
        return 0

    @property
    def asks_by_itself(self) -> bool:
        return False

    def is_at_its_end(self) -> bool:
        return self.at_end

    def is_due(self) -> bool:
        return bool(self.messages) or self.over is not None

    def await_one(self) -> None:
        self.wanted += 1

    def give_up_one(self) -> None:
        self.wanted -= 1

    def still_delivers(self, topic: str, generation: Generation) -> bool:
        return bool(topic) and generation == Generation()

    def end(self, error: Exception) -> None:
        self.closed = error

    forget = end


def waiting(box: Box) -> SlimFuture[None]:
    waiter: SlimFuture[None] = SlimFuture()
    box.wait(waiter)
    return waiter


def test_as_many_are_woken_as_there_are_messages_for() -> None:
    box = Box()
    waiters = [waiting(box) for _ in range(3)]
    box.announce(2)
    assert [each.done() for each in waiters] == [True, True, False]
    box.announce_all()
    assert waiters[2].done()


def test_who_was_woken_for_a_message_that_another_took_wakes_the_next() -> None:
    box = Box()
    first, second = waiting(box), waiting(box)
    box.messages.append("a")
    box.announce(1)
    assert (first.done(), second.done()) == (True, False)
    box.leave(first, empty_handed=True)
    assert second.done()


def test_who_waits_no_longer_takes_back_what_was_asked_for() -> None:
    box = Box()
    waiter = waiting(box)
    assert box.wanted == 1
    box.leave(waiter, empty_handed=True)
    assert box.wanted == 0


def test_futures_are_served_in_their_order_but_for_those_that_go_ahead() -> None:
    box = Box()
    first, second, ahead = box.promise(), box.promise(), box.promise(ahead=True)
    box.messages += ["1", "2", "3"]
    box.announce(3)
    assert [ahead.result(0), first.result(0), second.result(0)] == ["1", "2", "3"]


def test_a_future_of_what_is_closed_fails_at_once() -> None:
    box = Box()
    box.closed = CLOSED
    assert box.promise().exception(0) is CLOSED


def test_the_end_of_a_topic_is_no_close() -> None:
    box = Box()
    assert box.over is None
    box.at_end = True
    assert isinstance(box.over, TopicTerminated)
    box.closed = CLOSED
    assert box.over is CLOSED
