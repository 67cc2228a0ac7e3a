import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from loop_in_hand import Interloper

from pulsar_actors.exceptions import AlreadyClosed, ProcessForked, ProducerQueueIsFull
from pulsar_actors.machines.ledgers.batching import BatchLimits
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.machines.ledgers.send_quota import SendQuota
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.outbox import Outbox

CLOSED = AlreadyClosed("the producer is closed")


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Have threads change places wherever they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


class Reported:
    """What senders were told."""

    def __init__(self) -> None:
        self.failed: list[tuple[bytes, object]] = []

    def __call__(self, ended: Sequence[Any]) -> None:
        self.failed += [(reply, outcome) for replies, outcome in ended for reply in replies]


def outbox(
    places: int = 0, limits: BatchLimits | None = None, interleaving: Interleaving = THREADS
) -> tuple[Outbox, Reported]:
    reported = Reported()
    return Outbox(PendingSends(SendQuota(places), SendQuota(0)), limits, reported, interleaving), reported


def message(payload: bytes = b"payload") -> tuple[bytes, object]:
    """Give a message whose sender wants its payload back."""
    return payload, payload


def taken(box: Outbox, count: int) -> None:
    """Do as the actor does, who has seen to so many."""
    box.take(count, box.look().at(range(count)).size)
    box.has_more()


def test_only_the_first_message_in_an_empty_box_is_news() -> None:
    box, _ = outbox()
    assert [box.put(*message()) for _ in range(3)] == [True, False, False]
    taken(box, 3)
    assert box.put(*message())


def test_what_the_actor_left_there_is_no_news_again() -> None:
    box, _ = outbox()
    for _ in range(3):
        box.put(*message())
    taken(box, 2)
    assert not box.put(*message())


@pytest.mark.parametrize("limits", [BatchLimits(3, 1000, 1.0), BatchLimits(1000, 21, 1.0)], ids=["messages", "bytes"])
def test_the_message_that_fills_a_batch_is_news_too_once(limits: BatchLimits) -> None:
    box, _ = outbox(limits=limits)
    assert [box.put(*message()) for _ in range(5)] == [True, False, True, False, False]
    taken(box, 5)
    assert [box.put(*message()) for _ in range(3)] == [True, False, True]


def test_where_messages_are_not_batched_nothing_is_ever_full() -> None:
    box, _ = outbox()
    assert sum(box.put(*message()) for _ in range(10_000)) == 1


def test_too_many_messages_are_refused_and_leave_no_trace() -> None:
    box, _ = outbox(places=2)
    box.put(*message())
    box.put(*message())
    with pytest.raises(ProducerQueueIsFull, match="block_if_queue_full"):
        box.put(*message())
    assert len(box.buffer) == 4
    assert box.used() == (2, 14)


def test_what_is_pending_takes_room_as_what_is_here_does() -> None:
    box, _ = outbox(places=3)
    for _ in range(3):
        box.put(*message())
    taken(box, 2)
    assert (len(box.buffer), box.pending.used, box.used()) == (2, (2, 14), (3, 21))
    with pytest.raises(ProducerQueueIsFull):
        box.put(*message())
    box.pending.give_back(1, 7)
    box.put(*message())


def test_what_the_actor_has_seen_to_goes_and_what_came_meanwhile_stays() -> None:
    interloper = Interloper()
    box, _ = outbox(interleaving=interloper.interleaving)
    box.put(*message(b"seen"))
    interloper.at(0, lambda: box.put(*message(b"new")))
    box.take(1, 4)
    assert box.look().payloads == [b"new"], "the actor looks for this after it has taken"


def test_what_comes_while_the_actor_lies_down_to_rest_is_seen_or_told() -> None:
    interloper = Interloper()
    box, _ = outbox(interleaving=interloper.interleaving)
    told: list[bool] = []
    interloper.at(0, lambda: told.append(box.put(*message())))
    assert box.has_more()
    assert told == [True], "once too often does no harm"


def test_at_the_end_what_is_here_fails_and_gives_back_its_room() -> None:
    box, reported = outbox(places=2)
    box.put(*message(b"first"))
    box.put(*message(b"second"))
    box.end(CLOSED)
    assert reported.failed == [(b"first", CLOSED), (b"second", CLOSED)]
    assert box.pending.used == (0, 0)
    assert box.closed is CLOSED


def test_the_first_reason_stays_and_an_end_without_messages_reports_nothing() -> None:
    box, reported = outbox()
    box.end(CLOSED)
    box.end(AlreadyClosed("again"))
    assert box.closed is CLOSED
    assert reported.failed == []


def test_a_message_that_comes_after_the_end_fails_by_itself_with_its_reason() -> None:
    box, reported = outbox(places=1)
    box.end(CLOSED)
    box.put(*message())
    assert reported.failed == [(b"payload", CLOSED)]
    assert box.pending.used == (0, 0)
    assert box.buffer == []


def test_who_waits_for_room_is_woken_when_some_is_freed() -> None:
    box, _ = outbox(places=1)
    box.put(*message())
    first, second = box.room(), box.room()
    assert not first.done()
    box.take(1, 7)
    box.pending.give_back(1, 7)
    box.waiting.wake_all()
    assert first.done()
    assert second.done()


def test_who_finds_room_need_not_wait() -> None:
    box, _ = outbox(places=1)
    assert box.room().done()


def test_room_that_is_freed_between_the_wish_and_the_look_is_seen() -> None:
    interloper = Interloper()
    box, _ = outbox(places=1, interleaving=interloper.interleaving)
    box.put(*message())
    box.take(1, 7)
    interloper.at(0, lambda: box.pending.give_back(1, 7))
    assert box.room().done()


def test_who_waits_for_room_hears_of_the_end_whether_it_comes_before_or_after() -> None:
    box, _ = outbox(places=1)
    box.put(*message())
    before = box.room()
    box.end(CLOSED)
    box.pending.reserve(1, 7)
    assert before.done()
    assert box.room().done()


def test_in_a_forked_child_everything_is_refused_even_if_another_thread_had_the_lock() -> None:
    box, reported = outbox()
    box.put(*message())
    box._lock.__enter__()
    forked = ProcessForked("make a new Client")
    box.forget(forked)
    box.put(*message(b"new"))
    assert reported.failed == [(b"new", forked)], "and not what the parent goes on sending"


@pytest.mark.parametrize("moment", [0, 1])
def test_a_box_that_is_closed_while_somebody_looks_into_it_refuses_the_next_message_too(moment: int) -> None:
    interloper = Interloper()
    box, reported = outbox(limits=BatchLimits(3, 1000, 1.0), interleaving=interloper.interleaving)
    interloper.at(moment, lambda: box.end(CLOSED))
    box.put(*message(b"first"))
    box.look()
    box.put(*message(b"second"))
    assert reported.failed == [(b"first", CLOSED), (b"second", CLOSED)]
    assert box.buffer == []


def send_all(box: Outbox, sender: int, count: int, news: threading.Semaphore) -> None:
    """Do as a caller does that sends again whatever finds no room."""
    for number in range(count):
        while True:
            try:
                is_news = box.put(b"%d %d" % (sender, number), None)
            except ProducerQueueIsFull:
                time.sleep(0)
            else:
                break
        if is_news:
            news.release()


def take_all(box: Outbox) -> tuple[list[bytes], int]:
    """Do as an actor does whose messages are stored at once; give them, and the most that there were at a time."""
    came: list[bytes] = []
    most, more = 0, True
    while more:
        seen = box.look()
        box.take(len(seen), seen.size)
        most = max(most, box.used()[0])
        box.pending.give_back(len(seen), seen.size)
        came += seen.payloads
        more = box.has_more()
    return came, most


def test_threads_lose_nothing_between_them_and_keep_to_the_limit(frequent_switches: None) -> None:
    senders, each, places = 6, 3000, 200
    box, _ = outbox(places=places)
    news = threading.Semaphore(0)
    threads = [
        threading.Thread(target=send_all, args=(box, sender, each, news), daemon=True) for sender in range(senders)
    ]
    for thread in threads:
        thread.start()
    came: list[bytes] = []
    while len(came) < senders * each:
        assert news.acquire(timeout=30), "messages are here, and nobody has told the actor"
        more, most = take_all(box)
        came += more
        assert most <= places + senders, "more than one message of each that was held up after its look"
    for thread in threads:
        thread.join(30)
    for sender in range(senders):
        of_one = [one for one in came if one.startswith(b"%d " % sender)]
        assert of_one == [b"%d %d" % (sender, number) for number in range(each)]
