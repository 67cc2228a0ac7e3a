import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from pulsar_actors import exceptions
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, SendQuota
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.send_queue import NONE_IS_SMALL, MessageHeader, SendQueue
from tests.support.manual_loop import Interrupter

CLOSED = exceptions.AlreadyClosed("the producer is closed")


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Switch threads as often as the interpreter can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


class Reported:
    """Collects the outcomes that are reported."""

    def __init__(self) -> None:
        self.failed: list[tuple[bytes, object]] = []

    def __call__(self, ended: Sequence[Any]) -> None:
        self.failed += [(reply, outcome) for replies, outcome in ended for reply in replies]


def new_queue(
    places: int = 0, limits: BatchLimits | None = None, interleaving: Interleaving = THREADS
) -> tuple[SendQueue, Reported]:
    reported = Reported()
    return SendQueue(PendingMessages(SendQuota(places), SendQuota(0)), limits, reported, interleaving), reported


def message(payload: bytes = b"payload") -> tuple[bytes, object]:
    """Give a message whose reply is its payload."""
    return payload, payload


def taken(queue: SendQueue, count: int) -> None:
    """Take messages as the actor does."""
    queue.take(count, queue.begin_take().at(range(count)).size)
    queue.idle_if_empty()


def test_the_first_message_in_an_empty_queue_notifies_the_actor() -> None:
    queue, _ = new_queue()
    assert [queue.put(*message()) for _ in range(3)] == [True, False, False]
    taken(queue, 3)
    assert queue.put(*message())


def test_while_the_actor_has_left_messages_in_the_queue_the_next_does_not_notify_it() -> None:
    queue, _ = new_queue()
    for _ in range(3):
        queue.put(*message())
    taken(queue, 2)
    assert not queue.put(*message())


@pytest.mark.parametrize("limits", [BatchLimits(3, 1000, 1.0), BatchLimits(1000, 21, 1.0)], ids=["messages", "bytes"])
def test_the_message_that_fills_a_batch_notifies_the_actor_once(limits: BatchLimits) -> None:
    queue, _ = new_queue(limits=limits)
    assert [queue.put(*message()) for _ in range(5)] == [True, False, True, False, False]
    taken(queue, 5)
    assert [queue.put(*message()) for _ in range(3)] == [True, False, True]


def test_without_batching_no_message_fills_anything() -> None:
    queue, _ = new_queue()
    assert sum(queue.put(*message()) for _ in range(10_000)) == 1


def test_a_message_over_the_limit_is_refused() -> None:
    queue, _ = new_queue(places=2)
    queue.put(*message())
    queue.put(*message())
    with pytest.raises(exceptions.ProducerQueueIsFull, match="block_if_queue_full"):
        queue.put(*message())
    assert len(queue.buffer) == 4
    assert queue.used() == (2, 14)


def test_pending_messages_count_against_the_limit_too() -> None:
    queue, _ = new_queue(places=3)
    for _ in range(3):
        queue.put(*message())
    taken(queue, 2)
    assert (len(queue.buffer), queue.pending.used, queue.used()) == (2, (2, 14), (3, 21))
    with pytest.raises(exceptions.ProducerQueueIsFull):
        queue.put(*message())
    queue.pending.give_back(1, 7)
    queue.put(*message())


def test_the_actor_takes_what_it_has_packed_and_leaves_what_came_meanwhile() -> None:
    interloper = Interrupter()
    queue, _ = new_queue(interleaving=interloper.interleaving)
    queue.put(*message(b"seen"))
    interloper.at(0, lambda: queue.put(*message(b"new")))
    queue.take(1, 4)
    assert queue.begin_take().payloads == [b"new"], "the actor looks for this after it has taken"


def test_a_message_that_comes_as_the_actor_goes_idle_is_noticed() -> None:
    interloper = Interrupter()
    queue, _ = new_queue(interleaving=interloper.interleaving)
    told: list[bool] = []
    interloper.at(0, lambda: told.append(queue.put(*message())))
    assert not queue.idle_if_empty()
    assert told == [True], "once too often does no harm"


HEADER = MessageHeader(b"", "key", None, None, None, "reply")
ENQUEUE: dict[str, Callable[[SendQueue, bytes, object], object]] = {
    "alone": SendQueue.put,
    "with others": lambda queue, payload, tag: queue.put_many([b"", payload], ["other reply", tag]),
}


@pytest.mark.parametrize("enqueue", ENQUEUE.values(), ids=ENQUEUE)
def test_a_header_behind_messages_without_one_is_told_from_a_reply(
    enqueue: Callable[[SendQueue, bytes, object], object],
) -> None:
    queue, reported = new_queue()
    queue.put(*message())
    assert not queue.begin_take().has_headers
    enqueue(queue, b"payload", HEADER)
    assert queue.begin_take().replies[-1] == "reply"
    queue.end(CLOSED)
    assert reported.failed[-1] == ("reply", CLOSED)


def test_at_the_end_messages_in_the_queue_fail() -> None:
    queue, reported = new_queue(places=2)
    queue.put(*message(b"first"))
    queue.put(*message(b"second"))
    queue.end(CLOSED)
    assert reported.failed == [(b"first", CLOSED), (b"second", CLOSED)]
    assert queue.pending.used == (0, 0)
    assert queue.closed is CLOSED
    assert queue.small == NONE_IS_SMALL


def test_the_first_reason_of_the_end_stays_and_an_empty_queue_reports_nothing() -> None:
    queue, reported = new_queue()
    queue.end(CLOSED)
    queue.end(exceptions.AlreadyClosed("again"))
    assert queue.closed is CLOSED
    assert reported.failed == []


def test_a_message_that_comes_after_the_end_fails_with_the_reason() -> None:
    queue, reported = new_queue(places=1)
    queue.end(CLOSED)
    queue.put(*message())
    assert reported.failed == [(b"payload", CLOSED)]
    assert queue.pending.used == (0, 0)
    assert queue.buffer == []


def test_a_closed_queue_keeps_what_it_has_and_a_late_message_fails_alone() -> None:
    queue, reported = new_queue(places=3)
    queue.put(*message(b"first"))
    queue.put(*message(b"second"))
    waits = queue.room()
    queue.close(CLOSED)
    assert waits.done()
    assert (queue.closed, queue.small) == (CLOSED, NONE_IS_SMALL)
    assert not queue.put(*message(b"late"))
    queue.close(CLOSED)
    assert reported.failed == [(b"late", CLOSED)]
    assert queue.held(0).payloads == [b"first", b"second"]
    assert queue.held(1).payloads == [b"second"]
    assert queue.used() == (2, 11)
    queue.take(1, 5)
    assert queue.held(0).payloads == [b"second"]
    assert queue.used() == (2, 11)
    queue.end(exceptions.AlreadyClosed("shut down"))
    assert [reply for reply, _ in reported.failed] == [b"late", b"second"]
    assert queue.used() == (1, 5)
    assert queue.closed is CLOSED


@pytest.mark.parametrize("moment", [0, 1])
def test_a_queue_that_is_closed_while_a_caller_looks_keeps_the_message_of_the_caller(moment: int) -> None:
    interloper = Interrupter()
    queue, reported = new_queue(limits=BatchLimits(3, 1000, 1.0), interleaving=interloper.interleaving)
    queue.put(*message(b"first"))
    interloper.at(moment, lambda: queue.close(CLOSED))
    queue.begin_take()
    queue.put(*message(b"second"))
    queue.put(*message(b"third"))
    assert queue.held(0).payloads + [reply for reply, _ in reported.failed] == [b"first", b"second", b"third"]
    assert queue.buffer == []


def test_a_caller_that_waits_for_room_is_woken_when_some_is_freed() -> None:
    queue, _ = new_queue(places=1)
    queue.put(*message())
    first, second = queue.room(), queue.room()
    assert not first.done()
    queue.take(1, 7)
    queue.pending.give_back(1, 7)
    queue.waiting.wake_all()
    assert first.done()
    assert second.done()


def test_a_caller_that_finds_room_need_not_wait() -> None:
    queue, _ = new_queue(places=1)
    assert queue.room().done()


def test_room_that_is_freed_before_the_caller_looks_is_noticed() -> None:
    interloper = Interrupter()
    queue, _ = new_queue(places=1, interleaving=interloper.interleaving)
    queue.put(*message())
    queue.take(1, 7)
    interloper.at(0, lambda: queue.pending.give_back(1, 7))
    assert queue.room().done()


def test_a_caller_that_waits_for_room_is_woken_by_the_end_whether_it_comes_before_or_after() -> None:
    queue, _ = new_queue(places=1)
    queue.put(*message())
    before = queue.room()
    queue.end(CLOSED)
    queue.pending.reserve(1, 7)
    assert before.done()
    assert queue.room().done()


def test_in_a_forked_child_everything_is_refused_even_if_another_thread_had_the_lock() -> None:
    queue, reported = new_queue()
    queue.put(*message())
    queue._lock.__enter__()
    forked = exceptions.ProcessForked("make a new Client")
    queue.forget(forked)
    assert queue.small == NONE_IS_SMALL
    queue.put(*message(b"new"))
    assert reported.failed == [(b"new", forked)], "and not what the parent goes on sending"


@pytest.mark.parametrize("moment", [0, 1])
def test_a_queue_that_is_closed_while_the_actor_looks_into_it_refuses_the_next_message_too(moment: int) -> None:
    interloper = Interrupter()
    queue, reported = new_queue(limits=BatchLimits(3, 1000, 1.0), interleaving=interloper.interleaving)
    interloper.at(moment, lambda: queue.end(CLOSED))
    queue.put(*message(b"first"))
    queue.begin_take()
    queue.put(*message(b"second"))
    assert reported.failed == [(b"first", CLOSED), (b"second", CLOSED)]
    assert queue.buffer == []


def send_all(queue: SendQueue, sender: int, count: int, notified: threading.Semaphore) -> None:
    """Send as a caller that sends again whatever finds no room."""
    for number in range(count):
        while True:
            try:
                must_notify = queue.put(b"%d %d" % (sender, number), None)
            except exceptions.ProducerQueueIsFull:
                time.sleep(0)
            else:
                break
        if must_notify:
            notified.release()


def take_all(queue: SendQueue) -> tuple[list[bytes], int]:
    """Take messages as an actor whose messages are stored at once. Give them, and their largest number at a time."""
    came: list[bytes] = []
    most, more = 0, True
    while more:
        seen = queue.begin_take()
        queue.take(len(seen), seen.size)
        most = max(most, queue.used()[0])
        queue.pending.give_back(len(seen), seen.size)
        came += seen.payloads
        more = not queue.idle_if_empty()
    return came, most


def test_threads_lose_nothing_between_them_and_keep_to_the_limit(frequent_switches: None) -> None:
    senders, each, places = 6, 3000, 200
    queue, _ = new_queue(places=places)
    notified = threading.Semaphore(0)
    threads = [
        threading.Thread(target=send_all, args=(queue, sender, each, notified), daemon=True)
        for sender in range(senders)
    ]
    for thread in threads:
        thread.start()
    came: list[bytes] = []
    while len(came) < senders * each:
        assert notified.acquire(timeout=30), "there are messages of which the actor was not notified"
        more, most = take_all(queue)
        came += more
        assert most <= places + senders, "more than one message of each that was held up after its look"
    for thread in threads:
        thread.join(30)
    for sender in range(senders):
        of_one = [one for one in came if one.startswith(b"%d " % sender)]
        assert of_one == [b"%d %d" % (sender, number) for number in range(each)]


def test_a_queue_that_is_closed_while_threads_send_keeps_or_fails_each_message(frequent_switches: None) -> None:
    senders, before, each = 6, 50, 2000
    queue, reported = new_queue()
    for number in range(before):
        queue.put(*message(b"before %d" % number))
    threads = [threading.Thread(target=send_named, args=(queue, sender, each)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    queue.close(CLOSED)
    for thread in threads:
        thread.join()
    held, failed = list(queue.held(0).payloads), [reply for reply, _ in reported.failed]
    assert held[:before] == [b"before %d" % number for number in range(before)]
    assert sorted(held[before:] + failed) == sorted(
        b"%d %d" % (sender, number) for sender in range(senders) for number in range(each)
    )
    assert queue.buffer == []


def send_named(queue: SendQueue, sender: int, count: int) -> None:
    for number in range(count):
        queue.put(*message(b"%d %d" % (sender, number)))
