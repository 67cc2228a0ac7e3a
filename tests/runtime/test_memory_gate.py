"""One limit for the producers of a client, on many threads."""

import threading

import pytest

from pulsar_actors.exceptions import InternalError
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.memory_gate import GatedQuota, MemoryGate
from pulsar_actors.runtime.waiting_line import WaitingLine


def waiting(gate: MemoryGate) -> tuple[WaitingLine, SlimFuture[None]]:
    line, future = WaitingLine(), SlimFuture[None]()
    line.append(future)
    gate.wakes(line)
    return line, future


def test_whoever_makes_room_wakes_the_lines_of_all_producers() -> None:
    gate = MemoryGate(10)
    assert gate.take(12)
    futures = [waiting(gate)[1] for _ in range(3)]
    gate.free(1)
    assert not any(future.done() for future in futures), "there is no room yet"
    gate.free(5)
    assert all(future.done() for future in futures)


def test_a_line_that_was_woken_has_to_ask_again() -> None:
    gate = MemoryGate(10)
    gate.take(10)
    line, _ = waiting(gate)
    gate.free(10)
    gate.take(10)
    late = SlimFuture[None]()
    line.append(late)
    gate.free(10)
    assert not late.done()


def test_what_a_producer_frees_its_client_has_again() -> None:
    gate = MemoryGate(10)
    quota = GatedQuota(gate)
    gate.take(8)
    quota.take(8)
    quota.free(8)
    assert (quota.used, gate.used) == (0, 0)


def test_what_a_producer_frees_twice_is_not_taken_from_others() -> None:
    gate = MemoryGate(10)
    quota = GatedQuota(gate)
    gate.take(8)
    with pytest.raises(InternalError):
        quota.free(8)
    assert gate.used == 8


def test_threads_that_take_and_free_at_once_leave_nothing_behind() -> None:
    gate = MemoryGate(100)

    def work() -> None:
        for _ in range(2000):
            if gate.take(7):
                gate.free(7)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert gate.used == 0
