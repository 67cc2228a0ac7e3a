"""An outbox whose client has a memory limit: what was taken is given back, once, whatever becomes of the message."""

import signal

import pytest
from loop_in_hand import Interloper

from pulsar_actors.exceptions import AlreadyClosed, MemoryBufferIsFull, ProducerQueueIsFull
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.machines.ledgers.send_quota import SendQuota
from pulsar_actors.runtime.gated_outbox import GatedOutbox
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.memory_gate import GatedQuota, MemoryGate
from pulsar_actors.runtime.waiting_line import WaitingLine

CLOSED = AlreadyClosed("the producer is closed")
MESSAGE = (b"payload", None)


def outbox(gate: MemoryGate, places: int = 0, interleaving: Interleaving = THREADS) -> GatedOutbox:
    pending = PendingSends[object](SendQuota(places), GatedQuota(gate))
    return GatedOutbox(gate, pending, None, lambda _: None, interleaving)


def ended(box: GatedOutbox) -> None:
    """Have its one message be stored."""
    box.take(1, 7)
    box.pending.give_back(1, 7)


def test_the_messages_of_all_boxes_count() -> None:
    gate = MemoryGate(14)
    one, other = outbox(gate), outbox(gate)
    one.put(*MESSAGE)
    other.put(*MESSAGE)
    with pytest.raises(MemoryBufferIsFull, match="block_if_queue_full"):
        one.put(*MESSAGE)
    assert (one.used(), other.used(), gate.used) == ((1, 7), (1, 7), 14)


def test_who_has_no_place_takes_no_memory() -> None:
    gate = MemoryGate(100)
    box = outbox(gate, places=1)
    box.put(*MESSAGE)
    with pytest.raises(ProducerQueueIsFull):
        box.put(*MESSAGE)
    assert gate.used == 7


def test_what_ends_gives_back_its_memory() -> None:
    gate = MemoryGate(100)
    box = outbox(gate)
    box.put(*MESSAGE)
    box.end(CLOSED)
    assert gate.used == 0
    box.put(*MESSAGE)
    assert gate.used == 0, "it came after the end"


def test_who_waits_is_woken_by_what_another_box_frees() -> None:
    gate = MemoryGate(7)
    one, other = outbox(gate), outbox(gate)
    one.put(*MESSAGE)
    room = other.room()
    assert not room.done()
    ended(one)
    assert room.done()


def test_who_finds_room_need_not_wait() -> None:
    assert outbox(MemoryGate(7)).room().done()


def test_room_that_is_made_and_taken_between_the_wish_and_the_look_is_waited_for_again() -> None:
    interloper = Interloper()
    gate = MemoryGate(7)
    one, other = outbox(gate), outbox(gate, interleaving=interloper.interleaving)
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


def test_who_waits_is_in_line_before_the_gate_knows_of_the_line() -> None:
    class Busy(MemoryGate):
        def wakes(self, line: WaitingLine) -> None:
            super().wakes(line)
            self.free(7)
            self.take(7)

    gate = Busy(7)
    gate.take(7)
    assert outbox(gate).room().done(), "the room was made, and is gone again: nobody will wake it a second time"


def test_ctrl_c_comes_before_a_message_or_after_it() -> None:
    class Interrupting(MemoryGate):
        def take(self, size: int) -> bool:
            signal.raise_signal(signal.SIGINT)
            return super().take(size)

    interrupted = Interrupting(100)
    box = outbox(interrupted)
    with pytest.raises(KeyboardInterrupt):
        box.put(*MESSAGE)
    assert (len(box.look()), box.used(), interrupted.used) == (1, (1, 7), 7)
