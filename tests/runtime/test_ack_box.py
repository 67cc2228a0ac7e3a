from typing import Any

import pytest
from entries_in_hand import batch
from loop_in_hand import Interloper

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.ack_groups import MAX_ENTRIES
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.ack_box import MOMENT, AckBox, AcksLeft
from pulsar_actors.runtime.gathered_acks import Receipt
from pulsar_actors.runtime.opened import Opened
from pulsar_actors.wire.message_id import MessageId

NOW = Generation(1)
LATER = Generation(2)
FIRST, SECOND, THIRD = (MessageId(1, entry) for entry in (1, 2, 3))


def test_the_first_acknowledgement_in_an_empty_box_tells_the_actor_and_the_next_does_not() -> None:
    told: list[Any] = []
    box = AckBox(told.append)
    assert not box
    box.acknowledge(FIRST, NOW)
    box.acknowledge(SECOND, NOW)
    assert box
    assert told == [AcksLeft(MOMENT)]
    box.empty()
    box.acknowledge(THIRD, NOW)
    assert told == [AcksLeft(MOMENT)] * 2


def test_the_one_that_makes_a_commands_worth_tells_the_actor_that_the_box_is_full() -> None:
    told: list[Any] = []
    box = AckBox(told.append)
    for entry in range(MAX_ENTRIES + 5):
        box.acknowledge(MessageId(1, entry), NOW)
    assert told == [AcksLeft(MOMENT), AcksLeft(0.0)]


def test_acknowledgements_come_out_in_their_order_those_of_a_kind_and_generation_together() -> None:
    box = AckBox(lambda _: None)
    box.acknowledge(FIRST, NOW)
    box.acknowledge(SECOND, NOW)
    box.acknowledge_up_to(THIRD, NOW)
    box.acknowledge(FIRST, NOW)
    box.acknowledge(SECOND, LATER)
    box.acknowledge(THIRD, LATER)
    assert box.empty() == [
        Acknowledge(NOW, (FIRST, SECOND)),
        AcknowledgeUpTo(NOW, THIRD),
        Acknowledge(NOW, (FIRST,)),
        Acknowledge(LATER, (SECOND, THIRD)),
    ]
    assert not box
    assert box.empty() == []


def test_what_the_actor_has_seen_is_counted() -> None:
    box = AckBox(lambda _: None)
    box.acknowledge(FIRST, NOW)
    box.acknowledge_up_to(SECOND, NOW)
    assert box.emptied == 0
    box.empty()
    assert box.emptied == 2


def test_who_acknowledges_while_the_box_is_being_emptied_tells_the_actor_again_or_is_in_it() -> None:
    told: list[Any] = []
    interloper = Interloper()
    box = AckBox(told.append, interloper.interleaving)
    box.acknowledge(FIRST, NOW)
    told.clear()
    interloper.at(0, lambda: box.acknowledge(SECOND, NOW))
    assert box.empty() == [Acknowledge(NOW, (FIRST, SECOND))]
    assert told == [AcksLeft(MOMENT)]


def test_who_has_appended_and_not_told_yet_is_told_of_though_the_box_was_emptied_in_between() -> None:
    told: list[Any] = []
    interloper = Interloper()
    box = AckBox(told.append, interloper.interleaving)
    interloper.at(0, box.empty)
    box.acknowledge(FIRST, NOW)
    assert box.emptied == 1
    box.acknowledge(SECOND, NOW)
    assert told, "nobody would ever look at the second"
    assert box.empty() == [Acknowledge(NOW, (SECOND,))]


def test_the_actor_is_told_at_once_of_an_acknowledgement_that_somebody_waits_for() -> None:
    told: list[Any] = []
    box = AckBox(told.append)
    box.acknowledge(FIRST, NOW, Receipt("a", at_once=False))
    assert told == [AcksLeft(MOMENT)]
    box.acknowledge(SECOND, NOW, Receipt("b", at_once=True))
    box.acknowledge_up_to(THIRD, NOW, Receipt("c", at_once=False))
    assert told == [AcksLeft(MOMENT), AcksLeft(0.0)]
    assert box.empty() == [
        Acknowledge(NOW, (FIRST, SECOND), ("a", "b"), at_once=True),
        AcknowledgeUpTo(NOW, THIRD, "c"),
    ]


def test_a_box_is_full_and_emptied_as_early_as_it_was_told() -> None:
    told: list[Any] = []
    box = AckBox(told.append, full=2, moment=0.0)
    box.acknowledge(FIRST, NOW)
    box.acknowledge(SECOND, NOW)
    assert told == [AcksLeft(0.0)] * 2


def entry(entry_id: int, size: int = 4) -> Opened:
    return Opened(batch(entry_id, *[b"x"] * size), NOW, "t", bytes)


def noted(opened: Opened, messages: int) -> Acknowledge:
    return Acknowledge(NOW, (), parts=((opened.message_id._replace(batch_size=opened.size), messages),))


def test_the_first_message_of_an_entry_puts_it_into_the_box_and_the_others_are_noted_there() -> None:
    told: list[Any] = []
    box, opened = AckBox(told.append, full=2), entry(5)
    for index in (0, 1, 3):
        box.acknowledge_opened(opened, index)
    assert told == [AcksLeft(MOMENT)]
    assert box.empty() == [noted(opened, 0b1011)]
    assert box.emptied == 3
    assert not box
    box.acknowledge_opened(opened, 2)
    assert told == [AcksLeft(MOMENT)] * 2
    assert box.empty() == [noted(opened, 0b0100)]


def test_the_entry_that_makes_a_commands_worth_tells_the_actor_that_the_box_is_full() -> None:
    told: list[Any] = []
    box = AckBox(told.append, full=2)
    for opened in (entry(5), entry(6)):
        for index in range(4):
            box.acknowledge_opened(opened, index)
    assert told == [AcksLeft(MOMENT), AcksLeft(0.0)]


@pytest.mark.parametrize("checkpoint", range(2))
def test_a_message_of_an_entry_that_is_just_taken_out_is_in_it_or_puts_it_back(checkpoint: int) -> None:
    told: list[Any] = []
    interloper = Interloper()
    box, opened = AckBox(told.append, interloper.interleaving), entry(5)
    box.acknowledge_opened(opened, 0)
    told.clear()
    interloper.at(checkpoint, lambda: box.acknowledge_opened(opened, 1))
    events = box.empty()
    if events == [noted(opened, 0b01)]:
        assert told, "nobody would ever look at the second"
    else:
        assert events == [noted(opened, 0b11)]
    assert box.empty() in ([], [noted(opened, 0b10)])
    assert box.emptied == 2


def test_an_entry_that_is_just_put_into_the_box_has_what_others_note_meanwhile() -> None:
    told: list[Any] = []
    interloper = Interloper()
    box, opened = AckBox(told.append, interloper.interleaving), entry(5)
    interloper.at(0, lambda: (box.acknowledge_opened(opened, 1), box.empty()))
    box.acknowledge_opened(opened, 0)
    assert told == [AcksLeft(MOMENT)]
    assert box.empty() == [noted(opened, 0b11)]


def test_an_entry_that_ctrl_c_kept_out_of_the_box_is_there_all_the_same() -> None:
    def press_ctrl_c() -> None:
        raise KeyboardInterrupt

    interloper = Interloper()
    box, opened = AckBox(lambda _: None, interloper.interleaving), entry(5)
    interloper.at(0, press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        box.acknowledge_opened(opened, 0)
    box.acknowledge_opened(opened, 1)
    assert box.empty() == [noted(opened, 0b11)]
