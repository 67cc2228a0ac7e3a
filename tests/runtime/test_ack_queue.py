from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.trackers.ack_grouping_tracker import MAX_ENTRIES
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.ack_queue import DEFAULT_GROUP_TIME, AckQueue, AcksQueued
from pulsar_actors.runtime.opened_entry import OpenedEntry
from pulsar_actors.wire.message_id import MessageId
from tests.support.entries_in_hand import batch, single
from tests.support.manual_loop import Interrupter

NOW = Generation(1)
LATER = Generation(2)
FIRST, SECOND, THIRD = (MessageId(1, entry) for entry in (1, 2, 3))
BEGUN, DUE = AcksQueued(DEFAULT_GROUP_TIME), AcksQueued(0.0)


def opened(entry_id: int, size: int = 4, generation: Generation = NOW) -> OpenedEntry:
    delivery = batch(entry_id, *[b"x"] * size) if size else single(entry_id, b"x")
    return OpenedEntry(delivery, generation, "t", bytes)


def part(entry: OpenedEntry, messages: int) -> tuple[MessageId, int]:
    return entry.message_id._replace(batch_size=entry.size), messages


def marked(entry: OpenedEntry, messages: int) -> Acknowledge:
    return Acknowledge(NOW, (), parts=(part(entry, messages),))


@pytest.fixture
def told() -> list[Any]:
    """What the actor was told."""
    return []


@pytest.fixture
def acks(told: list[Any]) -> AckQueue:
    return AckQueue(told.append)


# When the actor hears.


def test_the_first_acknowledgement_of_a_group_tells_the_actor_and_the_next_does_not(
    acks: AckQueue, told: list[Any]
) -> None:
    acks.acknowledge(FIRST, NOW)
    acks.acknowledge(SECOND, NOW)
    assert told == [BEGUN]
    acks.end_group()
    acks.acknowledge(THIRD, NOW)
    assert told == [BEGUN, BEGUN]


def test_several_of_an_entry_are_acknowledged_in_one_step(acks: AckQueue, told: list[Any]) -> None:
    entry, alone = opened(1), opened(2, size=0)
    acks.acknowledge_many(entry, [0, 1])
    acks.acknowledge_many(alone, [0])
    acks.acknowledge_many(entry, [3])
    assert told == [BEGUN]
    assert acks.end_group() == [Acknowledge(NOW, (alone.message_id,), parts=(part(entry, 0b1011),))]
    assert acks.drained == 4


def test_what_is_drained_before_the_end_of_its_group_begins_no_other(acks: AckQueue, told: list[Any]) -> None:
    acks.acknowledge(FIRST, NOW)
    assert acks.drain() == [Acknowledge(NOW, (FIRST,))]
    acks.acknowledge(SECOND, NOW)
    assert acks.end_group() == [Acknowledge(NOW, (SECOND,))]
    assert told == [BEGUN]


def test_the_one_that_fills_the_group_tells_the_actor_and_the_next_does_not(acks: AckQueue, told: list[Any]) -> None:
    for entry in range(MAX_ENTRIES + 5):
        acks.acknowledge(MessageId(1, entry), NOW)
    assert told == [BEGUN, DUE]


def test_what_was_drained_early_counts_towards_a_full_group(told: list[Any]) -> None:
    acks = AckQueue(told.append, group_size=3)
    acks.acknowledge(FIRST, NOW)
    acks.drain()
    acks.acknowledge(SECOND, NOW)
    acks.drain()
    assert told == [BEGUN]
    acks.acknowledge(THIRD, NOW)
    assert told == [BEGUN, DUE]


def test_one_that_fills_the_group_while_some_are_drained_early_is_not_left_behind(told: list[Any]) -> None:
    interloper = Interrupter()
    acks = AckQueue(told.append, interloper.interleaving, group_size=2)
    acks.acknowledge(FIRST, NOW)
    interloper.at(0, lambda: acks.acknowledge(SECOND, NOW))
    acks.drain()
    assert DUE in told, "the group is full, and nobody has told the actor"


def test_a_group_of_no_time_is_due_with_its_first_acknowledgement(told: list[Any]) -> None:
    acks = AckQueue(told.append, group_time=0.0)
    acks.acknowledge(FIRST, NOW)
    assert told == [DUE]


def test_the_actor_is_told_at_once_where_a_caller_waits(acks: AckQueue, told: list[Any]) -> None:
    acks.acknowledge(FIRST, NOW, "a")
    acks.flush()
    assert told == [BEGUN, DUE]


def test_a_group_is_begun_for_what_the_machine_holds_unless_one_is_open(acks: AckQueue, told: list[Any]) -> None:
    acks.begin_group()
    acks.begin_group()
    acks.acknowledge(FIRST, NOW)
    assert told == [BEGUN]


# What the actor gets.


def test_acknowledgements_come_out_in_their_order_those_of_a_kind_and_generation_together(acks: AckQueue) -> None:
    acks.acknowledge(FIRST, NOW)
    acks.acknowledge(SECOND, NOW)
    acks.acknowledge_up_to(THIRD, NOW)
    acks.acknowledge(FIRST, NOW)
    acks.acknowledge(SECOND, LATER)
    acks.acknowledge(THIRD, LATER)
    assert acks.drain() == [
        Acknowledge(NOW, (FIRST, SECOND)),
        AcknowledgeUpTo(NOW, THIRD),
        Acknowledge(NOW, (FIRST,)),
        Acknowledge(LATER, (SECOND, THIRD)),
    ]
    assert acks.drain() == []


def test_tokens_go_along_with_their_acknowledgements(acks: AckQueue) -> None:
    acks.acknowledge(FIRST, NOW, "a")
    acks.acknowledge(SECOND, NOW, "b")
    acks.acknowledge_up_to(THIRD, NOW, "c")
    assert acks.drain() == [Acknowledge(NOW, (FIRST, SECOND), ("a", "b")), AcknowledgeUpTo(NOW, THIRD, "c")]


def test_what_the_actor_has_seen_is_counted(acks: AckQueue) -> None:
    entry = opened(5)
    acks.acknowledge(FIRST, NOW)
    acks.acknowledge_up_to(SECOND, NOW)
    for index in range(3):
        acks.acknowledge_opened(entry, index)
    assert acks.drained == 0
    acks.drain()
    assert acks.drained == 5


def test_messages_of_a_batch_become_one_set(acks: AckQueue, told: list[Any]) -> None:
    entry = opened(5)
    for index in (0, 1, 3):
        acks.acknowledge_opened(entry, index)
    assert told == [BEGUN]
    assert acks.end_group() == [marked(entry, 0b1011)]
    acks.acknowledge_opened(entry, 2)
    assert told == [BEGUN, BEGUN]
    assert acks.end_group() == [marked(entry, 0b0100)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_the_set_has_each_message_that_was_acknowledged_and_no_other(indexes: list[int]) -> None:
    acks, entry = AckQueue(lambda _: None), opened(5, 10)
    for index in indexes:
        acks.acknowledge_opened(entry, index)
    assert acks.drain() == [marked(entry, sum(1 << index for index in set(indexes)))]


def test_batches_and_single_messages_go_together() -> None:
    acks, first, second, alone = AckQueue(lambda _: None), opened(5, 2), opened(6, 2), opened(7, 0)
    for entry, index in ((first, 0), (first, 1), (alone, 0), (second, 1)):
        acks.acknowledge_opened(entry, index)
    acks.acknowledge(MessageId(1, 8), NOW)
    assert acks.drain() == [
        Acknowledge(NOW, (MessageId(1, 7), MessageId(1, 8)), parts=(part(first, 0b11), part(second, 0b10)))
    ]


def test_each_generation_has_an_event_of_its_own(acks: AckQueue) -> None:
    first = opened(5, 2)
    acks.acknowledge_opened(first, 0)
    acks.acknowledge_opened(opened(6, 0, LATER), 0)
    acks.acknowledge(MessageId(1, 7), LATER)
    assert acks.drain() == [marked(first, 0b01), Acknowledge(LATER, (MessageId(1, 6), MessageId(1, 7)))]


# Two threads at once.


@pytest.mark.parametrize("checkpoint", range(3))
def test_one_that_comes_while_the_group_is_ended_is_taken_or_begins_another(told: list[Any], checkpoint: int) -> None:
    interloper = Interrupter()
    acks = AckQueue(told.append, interloper.interleaving)
    acks.acknowledge(FIRST, NOW)
    told.clear()
    interloper.at(checkpoint, lambda: acks.acknowledge(SECOND, NOW))
    if acks.end_group() == [Acknowledge(NOW, (FIRST,))] and acks.queued:
        assert told, "nobody would ever look at the second"
    acks.acknowledge(THIRD, NOW)
    assert told


def test_a_caller_who_is_slow_to_tell_the_actor_of_its_group_tells_it_though_others_ended_the_group(
    told: list[Any],
) -> None:
    interloper = Interrupter()
    acks = AckQueue(told.append, interloper.interleaving)
    interloper.at(0, acks.end_group)
    acks.acknowledge(FIRST, NOW)
    assert acks.drained == 1
    acks.acknowledge(SECOND, NOW)
    assert told, "nobody would ever look at the second"
    assert acks.drain() == [Acknowledge(NOW, (SECOND,))]


@pytest.mark.parametrize("checkpoint", range(2))
def test_a_message_of_an_entry_that_is_just_taken_out_is_taken_or_queues_the_entry_again(
    told: list[Any], checkpoint: int
) -> None:
    interloper = Interrupter()
    acks, entry = AckQueue(told.append, interloper.interleaving), opened(5)
    acks.acknowledge_opened(entry, 0)
    told.clear()
    interloper.at(checkpoint, lambda: acks.acknowledge_opened(entry, 1))
    events = acks.end_group()
    if events == [marked(entry, 0b01)]:
        assert told, "nobody would ever look at the second"
    else:
        assert events == [marked(entry, 0b11)]
    assert acks.drain() in ([], [marked(entry, 0b10)])
    assert acks.drained == 2


def test_an_entry_that_is_just_queued_has_what_others_mark_meanwhile(told: list[Any]) -> None:
    interloper = Interrupter()
    acks, entry = AckQueue(told.append, interloper.interleaving), opened(5)
    interloper.at(0, lambda: (acks.acknowledge_opened(entry, 1), acks.drain()))
    acks.acknowledge_opened(entry, 0)
    assert told == [BEGUN]
    assert acks.drain() == [marked(entry, 0b11)]


def test_an_entry_that_ctrl_c_kept_out_of_the_queue_is_there_all_the_same() -> None:
    def press_ctrl_c() -> None:
        raise KeyboardInterrupt

    interloper = Interrupter()
    acks, entry = AckQueue(lambda _: None, interloper.interleaving), opened(5)
    interloper.at(0, press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        acks.acknowledge_opened(entry, 0)
    acks.acknowledge_opened(entry, 1)
    assert acks.drain() == [marked(entry, 0b11)]
