import itertools
import operator
from typing import Any

from entries_in_hand import batch, single
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.gathered_acks import Left, Receipt, gathered
from pulsar_actors.runtime.opened import Opened
from pulsar_actors.wire.message_id import MessageId

NOW, LATER = Generation(1), Generation(2)


def opened(entry_id: int, size: int, generation: Generation = NOW) -> Opened:
    delivery = batch(entry_id, *[b"x"] * size) if size else single(entry_id, b"x")
    return Opened(delivery, generation, "t", bytes)


def one(entry_id: int, generation: Generation = NOW, receipt: Receipt | None = None) -> tuple[Left, int]:
    return (generation, MessageId(1, entry_id), False, receipt), -1


def up_to(entry_id: int, receipt: Receipt | None = None) -> tuple[Left, int]:
    return (NOW, MessageId(1, entry_id), True, receipt), -1


def events_of(*left: tuple[Any, int]) -> list[Acknowledge | AcknowledgeUpTo]:
    runs = itertools.groupby(left, key=operator.itemgetter(0))
    return gathered((owner, [index for _, index in run]) for owner, run in runs)


def of_entry(entry_id: int, size: int) -> MessageId:
    return MessageId(1, entry_id, batch_size=size)


def test_messages_of_a_batch_become_one_set() -> None:
    entry = opened(5, 4)
    assert events_of((entry, 0), (entry, 1), (entry, 3)) == [Acknowledge(NOW, (), parts=((of_entry(5, 4), 0b1011),))]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_the_set_has_each_message_that_was_acknowledged_and_no_other(indexes: list[int]) -> None:
    entry = opened(5, 10)
    (event,) = events_of(*((entry, index) for index in indexes))
    assert isinstance(event, Acknowledge)
    ((_, messages),) = event.parts
    assert messages == sum(1 << index for index in set(indexes))


def test_batches_and_single_messages_go_together() -> None:
    first, second, alone = opened(5, 2), opened(6, 2), opened(7, 0)
    assert events_of((first, 0), (first, 1), (alone, 0), (second, 1), one(8)) == [
        Acknowledge(NOW, (MessageId(1, 7), MessageId(1, 8)), parts=((of_entry(5, 2), 0b11), (of_entry(6, 2), 0b10)))
    ]


def test_each_generation_has_an_event_of_its_own() -> None:
    assert events_of((opened(5, 2), 0), (opened(6, 0, LATER), 0), one(7, LATER)) == [
        Acknowledge(NOW, (), parts=((of_entry(5, 2), 0b01),)),
        Acknowledge(LATER, (MessageId(1, 6), MessageId(1, 7))),
    ]


def test_one_that_counts_for_all_before_it_keeps_its_place() -> None:
    entry = opened(5, 2)
    assert events_of((entry, 0), up_to(6), (entry, 1)) == [
        Acknowledge(NOW, (), parts=((of_entry(5, 2), 0b01),)),
        AcknowledgeUpTo(NOW, MessageId(1, 6)),
        Acknowledge(NOW, (), parts=((of_entry(5, 2), 0b10),)),
    ]


def test_whom_to_tell_goes_along() -> None:
    waits, goes_on = Receipt("waits", at_once=True), Receipt("goes on", at_once=False)
    assert events_of(one(5, receipt=waits), one(6, receipt=goes_on), up_to(7, waits), one(8, receipt=goes_on)) == [
        Acknowledge(NOW, (MessageId(1, 5), MessageId(1, 6)), ("waits", "goes on"), at_once=True),
        AcknowledgeUpTo(NOW, MessageId(1, 7), "waits", at_once=True),
        Acknowledge(NOW, (MessageId(1, 8),), ("goes on",)),
    ]


def test_nothing_left_is_no_event() -> None:
    assert events_of() == []
