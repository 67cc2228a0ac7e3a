import signal
import threading

import pytest

from pulsar_actors.exceptions import AlreadyClosed, InternalError, MemoryBufferIsFull, ProducerQueueIsFull
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, SendQuota
from pulsar_actors.runtime.future import SlimFuture, WaiterQueue
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.memory_limit import MemoryLimitController, MemoryLimitedQuota, MemoryLimitedSendQueue
from tests.support.manual_loop import Interrupter

CLOSED = AlreadyClosed("the producer is closed")
MESSAGE = (b"payload", None)


def limited_queue(
    limiter: MemoryLimitController, places: int = 0, interleaving: Interleaving = THREADS
) -> MemoryLimitedSendQueue:
    pending = PendingMessages[object](SendQuota(places), MemoryLimitedQuota(limiter))
    return MemoryLimitedSendQueue(limiter, pending, None, lambda _: None, interleaving)


def ended(queue: MemoryLimitedSendQueue) -> None:
    """Have the one message of a queue stored."""
    queue.take(1, 7)
    queue.pending.give_back(1, 7)


def test_the_messages_of_all_producers_count() -> None:
    limiter = MemoryLimitController(14)
    one, other = limited_queue(limiter), limited_queue(limiter)
    one.put(*MESSAGE)
    other.put(*MESSAGE)
    with pytest.raises(MemoryBufferIsFull, match="block_if_queue_full"):
        one.put(*MESSAGE)
    assert (one.used(), other.used(), limiter.used) == ((1, 7), (1, 7), 14)


def test_a_message_that_finds_its_producers_queue_full_takes_no_memory() -> None:
    limiter = MemoryLimitController(100)
    queue = limited_queue(limiter, places=1)
    queue.put(*MESSAGE)
    with pytest.raises(ProducerQueueIsFull):
        queue.put(*MESSAGE)
    assert limiter.used == 7


def test_messages_that_fail_in_the_queue_give_back_their_memory() -> None:
    limiter = MemoryLimitController(100)
    queue = limited_queue(limiter)
    queue.put(*MESSAGE)
    queue.end(CLOSED)
    assert limiter.used == 0
    queue.put(*MESSAGE)
    assert limiter.used == 0, "it came after the end"


def test_a_waiting_caller_is_woken_by_what_another_producer_frees() -> None:
    limiter = MemoryLimitController(7)
    one, other = limited_queue(limiter), limited_queue(limiter)
    one.put(*MESSAGE)
    room = other.room()
    assert not room.done()
    ended(one)
    assert room.done()


def test_room_that_comes_and_goes_before_the_caller_looks_is_waited_for_again() -> None:
    interloper = Interrupter()
    limiter = MemoryLimitController(7)
    one, other = (
        limited_queue(limiter),
        limited_queue(limiter, interleaving=interloper.interleaving),
    )
    one.put(*MESSAGE)

    def meanwhile() -> None:
        ended(one)
        one.put(*MESSAGE)

    interloper.at(0, meanwhile)
    assert other.room().done(), "it was woken, and will look again"
    again = other.room()
    assert not again.done()
    ended(one)
    assert again.done()


def test_a_caller_is_in_its_line_before_the_controller_knows_the_line() -> None:
    class Busy(MemoryLimitController):
        def wake_when_free(self, line: WaiterQueue) -> None:
            super().wake_when_free(line)
            self.free(7)
            self.take(7)

    limiter = Busy(7)
    limiter.take(7)
    assert limited_queue(limiter).room().done(), (
        "the room was made, and is gone again: nobody will wake it a second time"
    )


def test_ctrl_c_interrupts_before_a_message_is_enqueued_or_after() -> None:
    class Interrupting(MemoryLimitController):
        def take(self, size: int) -> bool:
            signal.raise_signal(signal.SIGINT)
            return super().take(size)

    interrupted = Interrupting(100)
    queue = limited_queue(interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.put(*MESSAGE)
    assert (len(queue.begin_take()), queue.used(), interrupted.used) == (1, (1, 7), 7)


def waiting(limiter: MemoryLimitController) -> tuple[WaiterQueue, SlimFuture[None]]:
    line, future = WaiterQueue(), SlimFuture[None]()
    line.append(future)
    limiter.wake_when_free(line)
    return line, future


def test_freed_room_wakes_the_lines_of_all_producers() -> None:
    limiter = MemoryLimitController(10)
    assert limiter.take(12)
    futures = [waiting(limiter)[1] for _ in range(3)]
    limiter.free(1)
    assert not any(future.done() for future in futures), "there is no room yet"
    limiter.free(5)
    assert all(future.done() for future in futures)


def test_a_line_is_woken_once() -> None:
    limiter = MemoryLimitController(10)
    limiter.take(10)
    line, _ = waiting(limiter)
    limiter.free(10)
    limiter.take(10)
    late = SlimFuture[None]()
    line.append(late)
    limiter.free(10)
    assert not late.done()


def test_bytes_that_a_producer_frees_are_free_for_its_client() -> None:
    limiter = MemoryLimitController(10)
    quota = MemoryLimitedQuota(limiter)
    limiter.take(8)
    quota.take(8)
    quota.free(8)
    assert (quota.used, limiter.used) == (0, 0)


def test_bytes_that_a_producer_frees_twice_do_not_count_for_the_client() -> None:
    limiter = MemoryLimitController(10)
    quota = MemoryLimitedQuota(limiter)
    limiter.take(8)
    with pytest.raises(InternalError):
        quota.free(8)
    assert limiter.used == 8


def test_threads_that_take_and_free_at_once_leave_nothing_taken() -> None:
    limiter = MemoryLimitController(100)

    def work() -> None:
        for _ in range(2000):
            if limiter.take(7):
                limiter.free(7)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert limiter.used == 0
