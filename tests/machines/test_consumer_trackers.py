from typing import Any

import pytest

from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckOutcome
from pulsar_actors.wire.message_id import EARLIEST, MessageId
from tests.support.consumer_bench import trackers

FIRST, SECOND = (1, 0), (1, 1)
LATER = 1000.0


@pytest.fixture
def busy() -> ConsumerTrackers:
    """Two entries, handed out and negatively acknowledged, each on its last try."""
    made = trackers(ack_timeout=5.0, max_redeliver_count=1)
    assert made.unacked_messages is not None
    assert made.dead_letters is not None
    delivery: Any = "a delivery"
    for entry in (FIRST, SECOND):
        made.negative_acks.negatively_acknowledged(entry, 0, 0.0)
        made.dead_letters.arrived(entry, 1, (delivery,))
    made.unacked_messages.handed_out([(FIRST, 0), (SECOND, 0)], 0.0)
    return made


def wanted(busy: ConsumerTrackers) -> list[list[tuple[int, int]]]:
    """Return what is due in the end: negatively acknowledged, not acknowledged in time, and dead letters."""
    assert busy.unacked_messages is not None
    assert busy.dead_letters is not None
    dead = [entry for entry in (FIRST, SECOND) if busy.dead_letters.last_try_failed(entry)]
    return [*(sorted(tracker.take_due(LATER)) for tracker in (busy.negative_acks, busy.unacked_messages)), dead]


def test_an_acknowledged_entry_is_neither_redelivered_nor_a_dead_letter(busy: ConsumerTrackers) -> None:
    busy.settle(AckOutcome(entries=[FIRST]))
    assert wanted(busy) == [[SECOND], [SECOND], [SECOND]]


def test_a_negatively_acknowledged_entry_comes_after_its_own_delay_and_not_when_it_is_overdue(
    busy: ConsumerTrackers,
) -> None:
    busy.negatively_acknowledged(FIRST, 0, 1.0)
    assert wanted(busy)[:2] == [[FIRST, SECOND], [SECOND]]


def test_a_cumulative_acknowledgement_settles_all_entries_before_it(busy: ConsumerTrackers) -> None:
    busy.settle(AckOutcome(up_to=SECOND))
    assert wanted(busy) == [[], [], []]


@pytest.mark.parametrize("target", [0, EARLIEST])
def test_after_a_seek_nothing_from_before_it_is_due(busy: ConsumerTrackers, target: int | MessageId) -> None:
    busy.seek(target)
    assert busy.next_redelivery() is None
    assert wanted(busy) == [[], [], []]


def test_without_a_binding_nothing_is_due(busy: ConsumerTrackers) -> None:
    assert busy.next_redelivery() is not None
    busy.unbind()
    assert busy.next_redelivery() is None
    assert wanted(busy) == [[], [], []]


def test_a_consumer_without_ack_timeout_and_dead_letters_settles_acknowledgements() -> None:
    bare = trackers()
    bare.negatively_acknowledged(FIRST, 0, 0.0)
    bare.settle(AckOutcome(entries=[FIRST], up_to=SECOND))
    bare.unbind()
    bare.seek(0)
    assert bare.next_redelivery() is None
