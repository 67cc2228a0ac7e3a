import itertools
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_actors.exceptions import AlreadyClosed, ProcessForked, TopicTerminated
from pulsar_actors.machines import consumer_events as events
from pulsar_actors.machines.incoming_entries import CorruptEntry
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.flow_permits import FlowPermits
from pulsar_actors.runtime import receiver_queue
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.receiver_queue import (
    MADE_AT_ONCE,
    MAX_SKIPPED,
    ReadProgress,
    ReceiverQueue,
    ReceiverQueueSettings,
)
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck
from tests.support.entries_in_hand import batch, single
from tests.support.life import SOON, InThread
from tests.support.manual_loop import Interrupter

CLOSED = AlreadyClosed("the consumer is closed")
FIRST = Generation(1)
RECONNECTED = FIRST.attached_to(2)
RESENT = FIRST.attached_to(2, broker_resends=True)
REDELIVERED = RECONNECTED.redelivered_to(1)
SOUGHT = REDELIVERED.sought()


def make(_: Any, payloads: Any, opened: Any, __: Any) -> list[str]:
    return [bytes(payload).decode() for payload in payloads]


class Bench:
    """A queue, and what its actor was told."""

    def __init__(
        self,
        queue_size: int = 8,
        interleaving: Interleaving = THREADS,
        kind: type[ReceiverQueue] = ReceiverQueue,
        **terms: bool,
    ) -> None:
        self.told: list[Any] = []
        self.queue = kind(
            ReceiverQueueSettings(queue_size, "topic", make, bytes, **terms), self.told.append, interleaving
        )
        self.queue.clear(FIRST)
        self.told.clear()

    def take(self, count: int) -> list[str | None]:
        return [self.queue.take() for _ in range(count)]

    def handed_out(self) -> int:
        return sum(report.messages for report in self.told if isinstance(report, events.HandedOut))

    def wait(self) -> SlimFuture[None]:
        waiter: SlimFuture[None] = SlimFuture()
        self.queue.wait(waiter)
        return waiter


def letters(entry_id: int, text: str) -> Any:
    return batch(entry_id, *(letter.encode() for letter in text))


@pytest.fixture(autouse=True, params=[2, MADE_AT_ONCE], ids=["two made at once", "all made at once"])
def _made_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_actors.runtime.receiver_queue.MADE_AT_ONCE", request.param)


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Handing out.


def test_messages_come_out_in_the_order_of_entries_and_batches(bench: Bench) -> None:
    bench.queue.add([single(1, b"a"), letters(2, "bcd"), single(3, b"e")])
    assert bench.take(7) == ["a", "b", "c", "d", "e", None, None]


def test_the_bytes_of_messages_are_counted_but_not_of_those_that_an_ack_set_masks(bench: Bench) -> None:
    bench.queue.add([batch(1, b"a", b"bb", b"cccc", wanted=0b101), letters(2, "de"), single(3, b"12345678")])
    bench.take(6)
    assert (bench.queue.opened_messages, bench.queue.opened_bytes) == (5, 15)


def many(bench: Bench, most: int) -> list[str]:
    found: list[str] = []
    bench.queue.take_many(most, found)
    return found


def test_many_are_taken_in_one_step_across_entries_and_no_more_than_wanted(bench: Bench) -> None:
    bench.queue.add([single(1, b"a"), letters(2, "bcd"), single(3, broken=True), single(4, b"e")])
    assert [many(bench, 3), many(bench, 9), many(bench, 9)] == [["a", "b", "c"], ["d", "e"], []]


def test_who_takes_many_and_who_takes_one_share_a_queue(bench: Bench) -> None:
    bench.queue.add([letters(1, "abcdefgh"), letters(2, "ijklmnop")])
    found = [bench.queue.take(), *many(bench, 2), bench.queue.take(), *many(bench, 5), bench.queue.take()]
    assert [*found, *many(bench, 99)] == list("abcdefghijklmnop")
    assert bench.take(1) == [None]
    assert bench.handed_out() == 16


def test_a_queue_that_becomes_smaller_reports_once_half_of_the_new_size_is_free() -> None:
    bench = Bench(queue_size=16)
    bench.queue.add([letters(1, "abcdefghijklmnop")])
    assert bench.take(3) == list("abc")
    assert bench.handed_out() == 0
    bench.queue.resize(6)
    assert bench.handed_out() == 3, "that is half of it"
    assert [bench.take(2), bench.handed_out()] == [["d", "e"], 3]
    assert [bench.take(1), bench.handed_out()] == [["f"], 6]


def test_a_slice_that_many_are_taken_of_can_still_be_shortened(bench: Bench) -> None:
    bench.queue.add([letters(1, "abcdefgh")])
    assert [*bench.take(1), *many(bench, 1)] == ["a", "b"]
    bench.queue.note_freed(2)
    assert bench.handed_out() == 2
    assert many(bench, 9) == list("cdefgh")


@pytest.mark.parametrize("most", [1, 3, 4, 100])
def test_with_many_at_once_permits_come_back_at_half_a_queue(most: int) -> None:
    bench = Bench(queue_size=8)
    bench.queue.add([letters(number, "abcdefg") for number in range(10)])
    taken = 0
    while taken < 70:
        taken += len(many(bench, most))
        assert taken - bench.handed_out() < 4
    assert many(bench, most) == []
    assert bench.handed_out() == 70


def test_a_reader_that_takes_many_reports_the_last_message_of_each_entry() -> None:
    bench = Bench(queue_size=8, reports_ids=True)
    bench.queue.add([letters(1, "abcdef"), single(2, b"g"), letters(3, "hi")])
    assert many(bench, 4) == list("abcd")
    assert many(bench, 9) == list("efghi")
    assert many(bench, 9) == []
    ids = [place for report in bench.told for place in report.message_ids]
    assert ids == [MessageId(1, 1, -1, 3, 6), MessageId(1, 1, -1, 5, 6), MessageId(1, 2), MessageId(1, 3, -1, 1, 2)]


def test_who_times_entries_hears_of_each_before_many_are_taken_of_it() -> None:
    bench = Bench(queue_size=100, reports_entries=True)
    bench.queue.add([letters(1, "ab"), letters(2, "de")])
    assert many(bench, 9) == list("abde")
    entries = [report.message_ids[0].entry_id for report in bench.told if report.message_ids]
    assert entries == [1, 2]


def test_many_are_not_taken_of_what_a_seek_has_made_void(bench: Bench) -> None:
    bench.queue.add([letters(1, "abcd")])
    assert many(bench, 2) == ["a", "b"]
    bench.queue.clear(SOUGHT)
    bench.queue.add([letters(2, "e")])
    assert many(bench, 9) == ["e"]
    bench.queue.end(CLOSED)
    assert many(bench, 9) == []


def test_an_entry_can_be_taken_as_a_whole_and_is_reported_without_ids_to_acknowledge() -> None:
    bench = Bench(queue_size=8, reports_ids=True)
    bench.queue.add([letters(1, "abcdef"), single(2, broken=True), batch(3, b"g", b"h", wanted=0b10), single(4, b"i")])
    found = [bench.queue.take_entry() for _ in range(4)]
    assert [one and b"".join(map(bytes, one.payloads)) for one in found] == [b"abcdef", b"h", b"i", None]
    assert [one and list(one.indexes) for one in found] == [[0, 1, 2, 3, 4, 5], [1], [0], None]
    reports = [report for report in bench.told if isinstance(report, events.HandedOut)]
    assert [report.messages for report in reports] == [6, 2]
    assert [report.message_ids for report in reports] == [(), ()]


def test_an_entry_that_was_taken_before_a_seek_is_reported_as_of_then() -> None:
    bench = Bench(queue_size=8, reports_ids=True)
    bench.queue.add([letters(1, "ab")])
    assert bench.queue.take_entry()
    bench.queue.clear(SOUGHT)
    bench.queue.add([letters(2, "c")])
    assert bench.queue.take_entry()
    assert bench.queue.take_entry() is None
    assert [(one.generation, one.messages) for one in bench.told] == [(FIRST, 2), (SOUGHT, 1)]
    bench.queue.end(CLOSED)
    assert bench.queue.take_entry() is None


def test_every_message_that_was_handed_out_is_reported_once(bench: Bench) -> None:
    bench.queue.add([letters(number, "abcdefg") for number in range(10)])
    assert None not in bench.take(70)
    assert bench.take(1) == [None]
    assert bench.handed_out() == 70
    assert bench.take(1) == [None]
    assert bench.handed_out() == 70


@pytest.mark.parametrize(("places", "step"), [(1, 1), (2, 1), (3, 1), (4, 2), (10, 5)])
def test_what_comes_one_by_one_is_reported_with_the_message_that_makes_half_a_queue(places: int, step: int) -> None:
    bench = Bench(queue_size=places)
    for number in range(3 * step):
        bench.queue.add([single(number, b"x")])
        assert bench.take(1) == ["x"]
        assert bench.handed_out() == (number + 1) // step * step


@pytest.mark.parametrize("size", [1, 3, 49, 50, 51, 99])
def test_permits_come_back_at_half_a_queue_whatever_the_size_of_batches(size: int) -> None:
    bench = Bench(queue_size=100)
    bench.queue.add([batch(entry, *[b"x"] * size) for entry in range(1 + 300 // size)])
    for taken in range(1, 301):
        assert bench.take(1) == ["x"]
        assert taken - bench.handed_out() < 50


class Permits:
    """A queue whose actor counts permits, some time after it was told."""

    def __init__(self, queue_size: int, interleaving: Interleaving = THREADS) -> None:
        self.flow = FlowPermits(queue_size)
        self.flow.subscribed(FIRST)
        self.bench = Bench(queue_size, interleaving, compacted=True)
        self.sent: list[int] = []
        self._numbers = itertools.count()

    def arrive(self, messages: int, discarded: int, broken: Any) -> None:
        """Let an entry come, of which so many messages are discarded when it is opened."""
        numbers = [next(self._numbers) for _ in range(messages)]
        if broken:
            entry = single(numbers[0], broken=True)
        else:
            payloads = [b"%d" % number for number in numbers]
            entry = batch(numbers[0], *payloads, compacted_out=tuple(range(discarded)))
            self.sent += numbers[discarded:]
        self.flow.arrived(FIRST, entry.messages)
        self.bench.queue.add([entry])

    def drop(self, messages: int) -> None:
        """Let messages come that the actor drops."""
        self.flow.arrived(FIRST, messages)
        self.flow.returned(FIRST, messages)
        self.bench.queue.note_freed(self.flow.freed)

    def count(self, reports: int) -> None:
        """Let the actor count so many reports."""
        for _ in range(min(reports, len(self.bench.told))):
            report = self.bench.told.pop(0)
            if isinstance(report, events.HandedOut):
                self.flow.handed_out(FIRST, report.messages)
            else:
                self.flow.returned(FIRST, report.messages)
            self.bench.queue.note_freed(self.flow.freed)

    def not_granted(self) -> int:
        """Count the room that is free and not granted, once all reports are counted."""
        while self.bench.told:
            self.count(1)
        return self.flow.queue_size - self.flow.at_broker - self.bench.queue.queued

    def take(self, count: int) -> list[int]:
        return [int(message) for message in self.bench.take(count) if message is not None]


steps = st.one_of(
    st.tuples(st.just("arrive"), st.integers(2, 12), st.integers(0, 2), st.integers(0, 9).map(lambda one: one == 9)),
    st.tuples(st.just("drop"), st.integers(1, 6)),
    st.tuples(st.just("take"), st.integers(1, 9)),
    st.tuples(st.just("count"), st.integers(1, 3)),
)


@settings(max_examples=300)
@given(st.integers(1, 30), st.lists(steps, min_size=20, max_size=40), st.booleans())
def test_less_than_half_a_queue_is_ever_free_and_not_granted(queue_size: int, todo: list[Any], at_once: Any) -> None:
    permits = Permits(queue_size)
    taken: list[int] = []
    for step, *numbers in todo:
        if step == "take":
            taken += permits.take(*numbers)
        elif step == "arrive":
            permits.arrive(*numbers)
        else:
            getattr(permits, step)(*numbers)
        if at_once:
            assert permits.not_granted() < permits.flow.threshold
    assert permits.not_granted() < permits.flow.threshold
    taken += permits.take(permits.bench.queue.queued)
    assert taken == permits.sent


def test_a_count_that_comes_while_a_slice_is_set_up_shortens_it() -> None:
    at_checkpoints: list[Callable[[], object]] = []
    noted = threading.Event()
    bench = Bench(20, Interleaving(threading.Lock, lambda: at_checkpoints and at_checkpoints.pop(0)()))
    actors: list[InThread] = []

    def count_again() -> None:  # the slice has its size, and callers do not see it yet
        actors.append(InThread(lambda: bench.queue.note_freed(5)))
        assert noted.wait(SOON)

    bench.queue.add([letters(1, "abcdefghijklmnopqrst")])
    bench.queue.note_freed(5)
    bench.take(4)
    bench.queue.note_freed(0)
    at_checkpoints += [lambda: None, count_again, noted.set]
    bench.take(1)
    actors[0].result()
    assert bench.handed_out() == 5, "with the room that was free before, that is half a queue"


def test_ids_are_those_of_messages_that_were_handed_out_when_a_slice_was_shortened() -> None:
    bench = Bench(queue_size=12, reports_ids=True)
    bench.queue.add([letters(1, "abcdef")])
    bench.take(1)
    bench.queue.note_freed(3)
    bench.take(2)
    assert [report.message_ids for report in bench.told] == [(MessageId(1, 1, -1, 2, 6),)]


def test_who_wants_ids_gets_that_of_the_last_message_of_each_entry() -> None:
    bench = Bench(queue_size=12, reports_ids=True)
    bench.queue.add([single(1, b"a"), letters(2, "bc"), batch(3, b"d", b"e", b"f", wanted=0b011)])
    bench.take(6)
    ids = [message_id for report in bench.told for message_id in report.message_ids]
    assert ids == [MessageId(1, 1), MessageId(1, 2, -1, 1, 2), MessageId(1, 3, -1, 1, 3)]


def test_who_times_entries_hears_of_each_before_anybody_has_a_message_of_it_and_again_with_each_slice() -> None:
    bench = Bench(queue_size=4, reports_entries=True)
    bench.queue.add([single(1, b"a"), letters(2, "bcde")])
    bench.take(1)
    assert bench.told == [events.HandedOut(FIRST, 0, (MessageId(1, 1),), (2,))]
    bench.take(5)
    timed = [report for report in bench.told if not report.messages]
    assert [report.message_ids for report in timed] == [(MessageId(1, entry),) for entry in (1, 2, 2)]
    assert bench.handed_out() == 5


def test_messages_that_nobody_wants_to_see_give_back_their_permits() -> None:
    bench = Bench(compacted=True)
    bench.queue.add([batch(1, b"a", b"b", compacted_out=(0,)), batch(2, b"c", b"d", compacted_out=(0, 1))])
    assert bench.take(2) == ["b", None]
    assert bench.told == [
        events.MessagesDiscarded(FIRST, 1),
        events.MessagesDiscarded(FIRST, 2),
        events.HandedOut(FIRST, 1),
    ]


def test_a_corrupt_entry_is_reported_and_costs_only_itself(bench: Bench) -> None:
    bench.queue.add([single(1, broken=True), single(2, b"good")])
    assert bench.take(2) == ["good", None]
    assert bench.told[0] == events.EntryCorrupt(FIRST, (1, 1), 1, CommandAck.ChecksumMismatch)
    assert bench.queue.progress.take_skipped() == ([], 0)


def test_a_reader_finds_what_was_corrupt_until_it_goes_elsewhere() -> None:
    bench = Bench(reports_ids=True)
    bench.queue.add([single(1, broken=True), single(2, b"good")])
    assert bench.take(2) == ["good", None]
    bench.queue.add([single(3, broken=True)])
    assert bench.take(1) == [None]
    assert bench.queue.progress.furthest == (1, 3)
    bench.queue.clear(RECONNECTED)
    corrupt = [CorruptEntry((1, entry), CommandAck.ChecksumMismatch) for entry in (1, 3)]
    assert bench.queue.progress.take_skipped() == (corrupt, 0)
    bench.queue.progress.add_skipped(corrupt)
    bench.queue.clear(SOUGHT)
    assert bench.queue.progress.take_skipped() == ([], 0)
    assert bench.queue.progress.furthest is None


def test_a_reader_is_as_far_as_it_has_opened_or_passed_since_the_queue_was_cleared() -> None:
    bench = Bench(reports_ids=True)
    assert bench.queue.progress.furthest is None
    bench.queue.progress.passed = (1, 3)
    assert bench.queue.progress.furthest == (1, 3)
    bench.queue.add([single(4, b"a")])
    assert bench.take(1) == ["a"]
    assert bench.queue.progress.furthest == (1, 4)
    bench.queue.progress.passed = (1, 6)
    assert bench.queue.progress.furthest == (1, 6)
    bench.queue.clear(RECONNECTED)
    assert bench.queue.progress.furthest == (1, 4)


def test_what_was_opened_last_is_known_and_counted(bench: Bench) -> None:
    queue = bench.queue
    queue.add([single(1, b"a"), letters(2, "bcd")])
    assert queue.progress.opened is None
    bench.take(1)
    assert (queue.progress.opened, queue.opened_messages, queue.opened_count) == (MessageId(1, 2), 4, 3)
    assert queue.queued == 3
    queue.add([letters(3, "fg")])
    assert queue.queued == 5


def test_of_a_large_batch_only_some_messages_are_made_before_they_are_taken() -> None:
    made: list[int] = []

    def make_few(stored: Any, payloads: Any, opened: Any, indexes: Any) -> list[str]:
        made.append(len(payloads))
        return make(stored, payloads, opened, indexes)

    queue = ReceiverQueue(ReceiverQueueSettings(10_000, "topic", make_few, bytes), lambda _: None)
    queue.add([batch(1, *[b"x"] * 1_300)])
    assert queue.take() == "x"
    assert made == [receiver_queue.MADE_AT_ONCE]
    assert queue.queued == 1_299
    assert [queue.take() for _ in range(1_300)] == ["x"] * 1_299 + [None]
    assert (sum(made), max(made)) == (1_300, receiver_queue.MADE_AT_ONCE)


# Generations.


def test_a_reconnect_that_brings_nothing_again_keeps_what_is_opened_and_drops_what_is_queued() -> None:
    bench = Bench(queue_size=4)
    bench.queue.add([letters(1, "abcdef"), letters(2, "gh")])
    bench.take(1)
    bench.queue.clear(RECONNECTED)
    assert bench.queue.progress.opened == MessageId(1, 1)
    assert bench.take(6) == ["b", "c", "d", "e", "f", None]
    bench.queue.add([letters(2, "gh")])
    assert bench.take(3) == ["g", "h", None]


@pytest.mark.parametrize("generation", [REDELIVERED, SOUGHT, RESENT], ids=["redelivery", "seek", "reconnect"])
def test_what_comes_again_is_not_handed_out_from_before(generation: Generation) -> None:
    bench = Bench(queue_size=4)
    bench.queue.add([letters(1, "abcdef")])
    bench.take(1)
    bench.queue.clear(generation)
    assert bench.take(1) == [None]
    bench.queue.add([letters(1, "abcdef")])
    assert bench.take(1) == ["a"]


def test_only_a_seek_forgets_what_was_opened_and_that_the_topic_has_ended(bench: Bench) -> None:
    bench.queue.add([letters(1, "ab")])
    bench.take(2)
    bench.queue.mark_end()
    bench.queue.clear(REDELIVERED)
    assert bench.queue.progress.opened == MessageId(1, 1)
    assert isinstance(bench.queue.end_reason, TopicTerminated)
    bench.queue.clear(SOUGHT)
    assert bench.queue.progress.opened is None
    assert bench.queue.end_reason is None


def test_what_was_handed_out_before_a_redelivery_is_counted_to_the_message() -> None:
    bench = Bench(queue_size=8)
    bench.queue.add([letters(1, "abcd")])
    bench.take(3)
    bench.queue.clear(REDELIVERED)
    assert bench.handed_out() == 3


def test_messages_opened_before_a_reconnect_are_not_reported_as_of_the_new_connection() -> None:
    bench = Bench(queue_size=4)
    bench.queue.add([letters(1, "abcdef")])
    bench.take(1)
    bench.queue.clear(RECONNECTED)
    bench.queue.add([letters(2, "gh")])
    bench.take(8)
    assert [(report.generation, report.messages) for report in bench.told] == [
        (FIRST, 1), (FIRST, 2), (FIRST, 2), (FIRST, 1), (RECONNECTED, 2),
    ]  # fmt: skip


def test_a_seek_between_the_opening_of_an_entry_and_the_taking_from_it_voids_it() -> None:
    interloper = Interrupter()
    bench = Bench(queue_size=4, interleaving=interloper.interleaving)
    bench.queue.add([letters(1, "abcd")])
    bench.take(1)
    next_messages = bench.queue.next_messages  # a caller stands just before its `pop`
    bench.queue.clear(SOUGHT)
    assert next_messages == []


def test_a_message_that_was_taken_is_kept_by_nobody() -> None:
    class Message:
        pass

    terms = ReceiverQueueSettings(8, "t", lambda _, payloads, *__: [Message() for _ in payloads], bytes)
    queue = ReceiverQueue(terms, lambda _: None)
    queue.add([letters(1, "ab")])
    taken = weakref.ref(queue.take())
    assert taken() is None, "before the next one is taken"


# The end.


def test_after_the_end_nothing_is_handed_out_and_the_first_reason_stays(bench: Bench) -> None:
    bench.queue.add([letters(1, "abc"), letters(2, "de")])
    bench.take(1)
    bench.queue.end(CLOSED)
    bench.queue.end(AlreadyClosed("again"))
    assert bench.take(1) == [None]
    assert bench.queue.end_reason is CLOSED
    bench.queue.add([letters(3, "fg")])
    assert bench.take(1) == [None]


def test_the_end_of_the_topic_is_said_after_what_is_queued(bench: Bench) -> None:
    bench.queue.add([letters(1, "ab")])
    bench.queue.mark_end()
    assert bench.take(3) == ["a", "b", None]
    assert isinstance(bench.queue.end_reason, TopicTerminated)
    bench.queue.end(CLOSED)
    assert bench.queue.end_reason is CLOSED


def test_in_a_forked_child_nothing_is_handed_out_even_if_another_thread_had_the_lock(bench: Bench) -> None:
    bench.queue.add([letters(1, "ab"), letters(2, "cd")])
    bench.take(1)
    bench.queue._lock.__enter__()
    forked = ProcessForked("make a new Client")
    bench.queue.forget(forked)
    assert bench.take(1) == [None]
    assert bench.queue.end_reason is forked
    assert bench.queue.queued == 0


# Waiting.


def test_as_many_are_woken_as_there_are_messages(bench: Bench) -> None:
    waiters = [bench.wait() for _ in range(4)]
    bench.queue.add([letters(1, "ab"), batch(2, b"c", b"d", wanted=0b10)])
    assert [waiter.done() for waiter in waiters] == [True, True, True, False]


@pytest.mark.parametrize("end", [lambda queue: queue.end(CLOSED), ReceiverQueue.mark_end], ids=["closed", "ended"])
def test_everybody_who_waits_is_woken_at_the_end(bench: Bench, end: Callable[[ReceiverQueue], None]) -> None:
    waiters = [bench.wait() for _ in range(3)]
    end(bench.queue)
    assert all(waiter.done() for waiter in waiters)


def test_one_that_leaves_before_it_was_woken_leaves_no_trace(bench: Bench) -> None:
    first, second = bench.wait(), bench.wait()
    bench.queue.stop_waiting(first, empty_handed=True)
    bench.queue.add([single(1)])
    assert (first.done(), second.done()) == (False, True)


def test_one_that_was_woken_and_leaves_without_a_message_wakes_another_if_there_is_one(bench: Bench) -> None:
    first, second = bench.wait(), bench.wait()
    bench.queue.add([single(1)])
    assert first.done()
    bench.queue.stop_waiting(first, empty_handed=True)
    assert second.done()


def test_a_wake_up_that_led_to_a_message_or_to_an_empty_queue_is_not_passed_on(bench: Bench) -> None:
    first, second, third = bench.wait(), bench.wait(), bench.wait()
    bench.queue.add([single(1), single(2)])
    bench.take(1)
    bench.queue.stop_waiting(first, empty_handed=False)
    bench.take(1)
    bench.queue.stop_waiting(second, empty_handed=True)
    assert not third.done()


def test_entries_that_come_between_the_look_and_the_waiting_wake_the_caller() -> None:
    interloper = Interrupter()
    bench = Bench(interleaving=interloper.interleaving)
    interloper.at(1, lambda: bench.queue.add([single(1, b"a")]))  # after the waiter is there
    assert bench.wait().done()
    interloper.at(0, lambda: bench.queue.add([single(2, b"b")]))  # before it is: the look that follows finds it
    assert not bench.wait().done()
    assert bench.take(2) == ["a", "b"]


def test_callers_may_empty_the_queue_while_entries_are_being_added() -> None:
    interloper = Interrupter()
    bench = Bench(interleaving=interloper.interleaving)
    waiter = bench.wait()
    interloper.at(0, lambda: bench.take(3))
    bench.queue.add([letters(1, "ab"), single(2)])
    assert waiter.done()


# A queue without places of its own.


def test_without_a_queue_each_one_who_waits_asks_and_each_who_leaves_in_vain_takes_it_back() -> None:
    bench = Bench(queue_size=0)
    first, second = bench.wait(), bench.wait()
    bench.queue.stop_waiting(first, empty_handed=True)
    bench.queue.add([single(1, b"a")])
    assert bench.take(1) == ["a"]
    bench.queue.stop_waiting(second, empty_handed=False)
    assert bench.told == [
        events.ReceiverWaits(),
        events.ReceiverWaits(),
        events.ReceiverGaveUp(),
        events.HandedOut(FIRST, 1),
    ]


def test_without_a_queue_what_was_handed_out_is_reported_at_once() -> None:
    bench = Bench(queue_size=0)
    bench.queue.add([letters(1, "abc")])
    bench.take(1)
    assert bench.handed_out() == 1


# Futures of messages.


def test_futures_get_messages_in_their_order_but_for_those_that_go_ahead(bench: Bench) -> None:
    futures = [bench.queue.receive_future() for _ in range(2)]
    ahead = bench.queue.receive_future(ahead=True)
    bench.queue.add([letters(1, "ab")])
    assert (ahead.result(0), futures[0].result(0)) == ("a", "b")
    assert not futures[1].done()
    bench.queue.add([single(2, b"c")])
    assert futures[1].result(0) == "c"


def test_a_future_that_is_cancelled_while_the_loop_looks_for_a_message_costs_none() -> None:
    class Cancelling(ReceiverQueue):
        def can_answer(self) -> bool:
            answer = super().can_answer()
            future.cancel()
            return answer

    bench = Bench(kind=Cancelling)
    future = bench.queue.receive_future()
    bench.queue.add([single(1, b"a")])
    assert future.cancelled()
    assert bench.take(1) == ["a"]


def test_at_the_end_of_the_topic_futures_fail_but_for_those_that_still_get_a_message(bench: Bench) -> None:
    bench.queue.add([single(1, b"a")])
    first, second = bench.queue.receive_future(), bench.queue.receive_future()
    bench.queue.mark_end()
    assert first.result(0) == "a"
    assert isinstance(second.exception(0), TopicTerminated)


def test_a_future_that_was_cancelled_costs_no_message(bench: Bench) -> None:
    first, second = bench.queue.receive_future(), bench.queue.receive_future()
    assert first.cancel()
    bench.queue.add([single(1, b"a")])
    assert second.result(0) == "a"


def test_a_future_that_was_cancelled_is_kept_no_longer_and_those_who_wait_for_it_hear_of_it(bench: Bench) -> None:
    kept = bench.queue.receive_future()
    cancelled = [bench.queue.receive_future() for _ in range(3)]
    assert [future.cancel() for future in (*cancelled, *cancelled)] == 6 * [True]
    assert wait(cancelled, 0).not_done == set()
    references = [weakref.ref(future) for future in cancelled]
    cancelled.clear()
    assert [reference() for reference in references] == 3 * [None]
    assert kept.cancel()


def test_a_future_that_was_cancelled_asks_no_more_however_it_leaves_the_line() -> None:
    bench = Bench(queue_size=0)
    future = bench.queue.receive_future()
    assert future.cancel()
    assert future.cancel()
    assert bench.told == [events.ReceiverWaits(), events.ReceiverGaveUp()]
    Future.cancel(late := bench.queue.receive_future())  # as far as one comes that the actor is faster than
    bench.queue.add([single(1, b"a")])
    assert late.cancel()
    assert bench.told[2:] == [events.ReceiverWaits(), events.ReceiverGaveUp()]


def test_a_future_whose_message_turns_out_corrupt_gets_the_next_one(bench: Bench) -> None:
    future = bench.queue.receive_future()
    bench.queue.add([single(1, broken=True)])
    assert not future.cancel(), "the loop may have a message for it any moment"
    assert not future.done()
    bench.queue.add([single(2, b"good")])
    assert future.result(0) == "good"


def test_futures_fail_at_the_end_of_the_queue_and_of_the_topic(bench: Bench) -> None:
    closed = bench.queue.receive_future()
    bench.queue.end(CLOSED)
    assert closed.exception(0) is CLOSED
    other = Bench()
    ended = other.queue.receive_future()
    other.queue.mark_end()
    assert isinstance(ended.exception(0), TopicTerminated)


def test_a_future_that_finds_the_queue_closed_is_no_longer_in_the_line_where_it_could_end_twice(bench: Bench) -> None:
    bench.queue.end(CLOSED)
    future = bench.queue.receive_future()
    bench.queue.serve()
    assert future.exception(0) is CLOSED


def test_a_future_that_is_just_being_served_while_the_queue_closes_ends_once() -> None:
    interloper = Interrupter()
    bench = Bench(interleaving=interloper.interleaving)
    interloper.at(0, lambda: bench.queue.end(CLOSED))
    assert bench.queue.receive_future().exception(0) is CLOSED


def test_who_waits_by_a_future_reports_the_last_message_or_no_other_would_come() -> None:
    bench = Bench(queue_size=1)
    bench.queue.add([single(1, b"a")])
    assert bench.take(1) == ["a"]
    future = bench.queue.receive_future()
    bench.queue.serve()
    assert not future.done()
    assert bench.handed_out() == 1


def test_a_future_is_served_with_what_a_caller_leaves_who_is_just_opening_an_entry() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def stop_inside() -> None:
        if threading.current_thread() is opener and not bench.queue._entries:
            inside.set()
            assert go_on.wait(20)

    opener: threading.Thread | None = None
    bench = Bench(interleaving=Interleaving(threading.Lock, stop_inside))
    opener = threading.Thread(target=bench.queue.take, daemon=True)
    bench.queue.add([letters(1, "ab")])
    future = bench.queue.receive_future()
    opener.start()
    assert inside.wait(20)
    server = threading.Thread(target=bench.queue.serve, daemon=True)
    server.start()
    server.join(0.05)  # it has looked, or waits for the lock
    go_on.set()
    opener.join(20)
    server.join(20)
    assert future.result(0) == "b"


def corrupt(entry: int) -> CorruptEntry:
    return CorruptEntry((1, entry), CommandAck.ChecksumMismatch)


def test_of_what_was_left_out_the_latest_are_kept_and_the_others_counted() -> None:
    progress = ReadProgress(keeps_skipped=True)
    progress.add_skipped(corrupt(entry) for entry in range(MAX_SKIPPED))
    progress.found_corrupt(corrupt(MAX_SKIPPED))
    kept, forgotten = progress.take_skipped()
    assert (kept[0], kept[-1], len(kept)) == (corrupt(1), corrupt(MAX_SKIPPED), MAX_SKIPPED)
    assert forgotten == 1
    assert progress.take_skipped() == ([], 0)
