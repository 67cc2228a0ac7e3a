from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pulsar_actors.exceptions import AlreadyClosed, ProcessForked, TopicTerminated
from pulsar_actors.machines.consumer_events import HandedOut
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.multi_topics_receiver_queue import MultiTopicsReceiverQueue, TopicQueue
from pulsar_actors.runtime.receiver_queue import ReceiverQueueSettings
from pulsar_actors.version import compiled
from tests.support.entries_in_hand import batch, single
from tests.support.manual_loop import Interrupter
from tests.support.steps import steps

CLOSED = AlreadyClosed("the consumer is closed")
FIRST = Generation(1)
SOUGHT = FIRST.sought()


def make(_: Any, payloads: Any, opened: Any, __: Any) -> list[str]:
    return [f"{opened.topic}{bytes(payload).decode()}" for payload in payloads]


class Bench:
    """The queues of some topics, and what their actors were told."""

    def __init__(self, topics: Iterable[str] = "ab", interleaving: Interleaving = THREADS, **options: bool) -> None:
        self.asked = 0
        self.told: dict[str, list[Any]] = {topic: [] for topic in topics}
        self.queue = MultiTopicsReceiverQueue(self.ask, interleaving, **options)
        self.topic_queues = {
            topic: TopicQueue(
                self.queue, ReceiverQueueSettings(8, topic, make, bytes), self.told[topic].append, interleaving
            )
            for topic in topics
        }
        self.queue.admit(self.topic_queues)
        self.asked = 0
        for topic, topic_queue in self.topic_queues.items():
            topic_queue.clear(FIRST)
            self.told[topic].clear()

    def ask(self) -> None:
        self.asked += 1

    def add(self, topic: str, text: str, entry_id: int = 1) -> None:
        self.topic_queues[topic].add([batch(entry_id, *(letter.encode() for letter in text))])

    def take(self, count: int) -> list[str | None]:
        return [self.queue.take() for _ in range(count)]

    def handed_out(self, topic: str) -> int:
        return sum(report.messages for report in self.told[topic] if isinstance(report, HandedOut))

    def wait(self) -> SlimFuture[None]:
        waiter: SlimFuture[None] = SlimFuture()
        self.queue.wait(waiter)
        return waiter


@pytest.fixture
def bench() -> Bench:
    return Bench()


def many(bench: Bench, most: int) -> list[str]:
    found: list[str] = []
    bench.queue.take_many(most, found)
    return found


def test_many_are_taken_of_one_topic_after_the_other_and_each_call_begins_with_another() -> None:
    bench = Bench("abc")
    bench.add("a", "123456")
    bench.add("b", "12")
    assert many(bench, 7) == ["a1", "a2", "a3", "a4", "a5", "a6", "b1"]
    bench.add("a", "7", entry_id=2)
    bench.add("c", "12")
    assert sorted(many(bench, 9)) == ["a7", "b2", "c1", "c2"]
    assert many(bench, 9) == []
    assert [bench.handed_out(topic) for topic in "abc"] == [7, 2, 2]
    bench.add("a", "8", entry_id=3)
    assert many(bench, 9) == ["a8"]


def test_a_topic_with_many_messages_does_not_keep_others_from_their_turn(bench: Bench) -> None:
    bench.add("a", "1234")
    bench.add("b", "1234")
    assert {one[0] for _ in range(2) for one in many(bench, 2)} == {"a", "b"}


def test_each_topic_with_messages_has_its_turn_after_every_slice_and_keeps_its_order() -> None:
    bench = Bench("abc")
    bench.add("a", "123456")  # a slice ends before half a queue, which is four, is taken
    bench.add("c", "12")
    assert bench.take(9) == ["a1", "a2", "a3", "c1", "c2", "a4", "a5", "a6", None]


def test_permits_are_those_of_the_topic_and_are_reported_when_it_is_found_empty(bench: Bench) -> None:
    bench.add("a", "12")
    bench.add("b", "1")
    assert None not in bench.take(3)
    assert bench.take(1) == [None]
    assert (bench.handed_out("a"), bench.handed_out("b")) == (2, 1)


def test_who_waits_is_woken_by_any_topic(bench: Bench) -> None:
    first, second = bench.wait(), bench.wait()
    bench.add("b", "1")
    assert (first.done(), second.done()) == (True, False)
    bench.add("a", "1")
    assert second.done()


def test_what_comes_before_a_topic_is_admitted_waits_for_that(bench: Bench) -> None:
    late = TopicQueue(bench.queue, ReceiverQueueSettings(8, "c", make, bytes), bench.told["a"].append, THREADS)
    late.clear(FIRST)
    waiter = bench.wait()
    late.add([single(1, b"1")])
    assert bench.take(1) == [None]
    assert not waiter.done()
    bench.queue.admit({"c": late})
    assert waiter.done()
    assert bench.take(1) == ["c1"]
    late.add([single(2, b"2")])
    assert bench.take(1) == ["c2"]


def test_what_comes_to_a_topic_that_was_dismissed_is_not_handed_out_and_wakes_nobody() -> None:
    bench = Bench("ab")
    bench.queue.dismiss(["a", "unknown"])
    waiter = bench.wait()
    bench.add("a", "1")
    assert not waiter.done()
    assert bench.take(1) == [None]
    assert not bench.queue.still_delivers("a", FIRST)


def test_when_the_last_topic_that_went_on_is_dismissed_what_is_left_may_be_at_its_end() -> None:
    bench = Bench("ab")
    bench.add("b", "1")
    assert bench.take(2) == ["b1", None]
    bench.topic_queues["a"].mark_end()
    waiter = bench.wait()
    assert bench.queue.end_reason is None
    bench.queue.dismiss(["b"])
    assert waiter.done()
    assert isinstance(bench.queue.end_reason, TopicTerminated)


def test_it_has_messages_as_long_as_any_topic_has(bench: Bench) -> None:
    assert not bench.queue.has_messages
    bench.add("b", "12")
    assert bench.queue.has_messages
    bench.take(1)
    assert bench.queue.has_messages
    bench.take(1)
    assert not bench.queue.has_messages


def crowd(size: int) -> Bench:
    """So many topic_queues, each of which has two messages, and a caller who waits for them."""
    return Bench([f"topic {number}, " for number in range(size)])


def come_one_by_one(bench: Bench) -> None:
    queue = MultiTopicsReceiverQueue(bench.ask)
    for topic, topic_queue in bench.topic_queues.items():
        topic_queue.is_admitted = False
        queue.admit({topic: topic_queue})


def go_one_by_one(bench: Bench) -> None:
    for topic in bench.topic_queues:
        bench.queue.dismiss([topic])


def take_from_all(bench: Bench) -> None:
    for topic_queue in bench.topic_queues.values():
        topic_queue.add([single(1, b"x")])
    for _ in bench.topic_queues:
        assert bench.queue.take() is not None
    assert bench.queue.take() is None


def take_and_look_whether_there_is_more(bench: Bench) -> None:
    for topic_queue in bench.topic_queues.values():
        topic_queue.add([single(1, b"x"), single(2, b"x")])
    while bench.queue.has_messages:
        bench.queue.take()


def wait_and_be_served(bench: Bench) -> None:
    for number, topic_queue in enumerate(bench.topic_queues.values()):
        future = bench.queue.receive_future()
        assert bench.queue.end_reason is None
        topic_queue.add([single(number, b"x")])
        bench.queue.serve()
        assert future.done()


@pytest.mark.skipif(compiled, reason="the steps of compiled code cannot be counted")
@pytest.mark.parametrize(
    "what",
    [come_one_by_one, go_one_by_one, take_from_all, take_and_look_whether_there_is_more, wait_and_be_served],
    ids=lambda what: str(what.__name__),
)
def test_twice_as_many_topics_take_twice_as_many_steps(what: Callable[[Bench], None]) -> None:
    some, more = (crowd(size) for size in (100, 200))
    assert steps(lambda: what(more)) < 2.2 * steps(lambda: what(some))


def test_a_topic_that_leaves_the_ring_is_compared_with_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[TopicQueue] = []
    bench = crowd(50)
    monkeypatch.setattr(TopicQueue, "__eq__", lambda self, other: compared.append(other) or self is other)
    monkeypatch.setattr(TopicQueue, "__hash__", object.__hash__)
    take_from_all(bench)
    assert compared == []


def test_a_seek_in_one_topic_voids_what_is_opened_there_and_nothing_else(bench: Bench) -> None:
    bench.add("a", "12")
    bench.add("b", "12")
    first = bench.queue.take()
    assert first is not None
    bench.topic_queues[first[0]].clear(SOUGHT)
    other = "a" if first[0] == "b" else "b"
    assert bench.take(3) == [f"{other}1", f"{other}2", None]
    assert not bench.queue.still_delivers(first[0], FIRST)
    assert bench.queue.still_delivers(other, FIRST)
    assert not bench.queue.still_delivers("gone", FIRST)


def test_the_end_of_a_topic_is_that_of_all_once_all_have_ended_and_never_for_a_pattern() -> None:
    bench, pattern = Bench(), Bench(awaits_topics=True)
    for each in (bench, pattern):
        waiter = each.wait()
        each.topic_queues["a"].mark_end()
        assert waiter.done()
        assert each.queue.end_reason is None
        each.topic_queues["b"].mark_end()
    assert isinstance(bench.queue.end_reason, TopicTerminated)
    assert pattern.queue.end_reason is None
    assert MultiTopicsReceiverQueue(bench.ask).end_reason is None  # nobody is there yet


def test_a_topic_that_ends_is_no_end_for_the_others(bench: Bench) -> None:
    bench.add("a", "1")
    bench.add("b", "1")
    bench.topic_queues["a"].end(CLOSED)
    assert bench.take(2) == ["b1", None]
    assert bench.queue.closed is None


def test_futures_are_served_on_the_loop_of_the_set_that_is_asked_for_it_only_if_one_waits(bench: Bench) -> None:
    bench.add("a", "1")
    assert bench.asked == 0
    future, other = bench.queue.receive_future(), bench.queue.receive_future()
    bench.queue.serve()
    assert future.result(0) == "a1"
    assert not other.done()
    bench.add("b", "1")
    assert bench.asked == 1
    bench.queue.serve()
    assert other.result(0) == "b1"


def test_a_future_can_be_cancelled_while_nothing_is_there_also_after_topics_have_been_emptied(bench: Bench) -> None:
    bench.add("a", "1")
    assert bench.take(2) == ["a1", None]
    future = bench.queue.receive_future()
    bench.queue.serve()
    assert future.cancel()


def test_the_end_of_all_topics_ends_all_waiting_callers(bench: Bench) -> None:
    bench.add("a", "1")
    waiter, future = bench.wait(), bench.queue.receive_future()
    bench.queue.end(CLOSED)
    assert waiter.done()
    assert future.exception(0) is CLOSED
    assert bench.take(1) == [None]
    assert bench.queue.end_reason is CLOSED


def test_a_forked_child_takes_nothing(bench: Bench) -> None:
    bench.add("a", "12")
    bench.queue.take()
    bench.queue.forget(ProcessForked("forked"))
    assert bench.take(1) == [None]


@pytest.mark.parametrize("moment", range(12))
def test_what_arrives_while_a_caller_finds_a_topic_empty_is_not_left_outside(moment: int) -> None:
    interloper, came = Interrupter(), list[bool]()
    bench = Bench("a", interloper.interleaving)
    bench.add("a", "1")
    assert bench.queue.take() == "a1"
    interloper.at(moment, lambda: (bench.add("a", "2", 2), came.append(True)))
    got = [bench.queue.take() or bench.queue.take()]
    assert got == (["a2"] if came else [None])


@pytest.mark.parametrize("moment", range(6))
@pytest.mark.parametrize("is_admitted_first", [True, False])
def test_what_arrives_while_a_topic_is_admitted_is_not_left_outside(moment: int, *, is_admitted_first: bool) -> None:
    interloper = Interrupter()
    bench = Bench("a", interloper.interleaving)
    late = TopicQueue(
        bench.queue, ReceiverQueueSettings(8, "c", make, bytes), bench.told["a"].append, interloper.interleaving
    )
    late.clear(FIRST)
    steps: list[Callable[[], None]] = [
        lambda: bench.queue.admit({"c": late}),
        lambda: late.add([single(1, b"1")]),
    ]
    steps = steps if is_admitted_first else steps[::-1]
    interloper.at(moment, steps[1])
    steps[0]()
    if late.is_admitted and late.queued:
        assert bench.take(1) == ["c1"]


def test_a_single_entry_of_each_of_many_topics_comes_once() -> None:
    bench = Bench("abcdefgh")
    for topic, topic_queue in bench.topic_queues.items():
        topic_queue.add([single(1, b"x")])
        assert topic_queue.is_in_ring, topic
    assert sorted(filter(None, bench.take(9))) == [f"{topic}x" for topic in "abcdefgh"]
    assert not any(topic_queue.is_in_ring for topic_queue in bench.topic_queues.values())
