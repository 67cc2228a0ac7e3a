import math

import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.negative_acks_tracker import RedeliveryDelay
from pulsar_actors.machines.trackers.unacked_message_tracker import MOST_REMEMBERED, UnackedMessageTracker


def fresh(*entries: tuple[int, int]) -> list[tuple[tuple[int, int], int]]:
    """Entries that nobody was given before."""
    return [(entry, 0) for entry in entries]


def test_an_entry_is_due_when_nobody_acknowledged_it() -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.handed_out(fresh((1, 1), (1, 2)), 0.0)
    timeouts.acknowledged((1, 1))
    assert timeouts.take_due(9.99) == []
    assert timeouts.next_due() == 10.0
    assert timeouts.take_due(10.0) == [(1, 2)]
    assert timeouts.next_due() is None


def test_a_batch_counts_from_the_last_message_that_was_handed_out() -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.handed_out(fresh((1, 1)), 0.0)
    timeouts.handed_out(fresh((1, 1)), 6.0)
    assert timeouts.take_due(15.0) == []
    assert timeouts.take_due(16.0) == [(1, 1)]


def test_a_cumulative_ack_ends_the_wait_for_all_before_it() -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.handed_out(fresh((1, 8), (1, 9), (2, 0), (2, 1)), 0.0)
    timeouts.acknowledged_up_to((2, 0))
    assert timeouts.take_due(11.0) == [(2, 1)]


def test_nothing_waits_after_a_seek() -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.handed_out(fresh((1, 1)), 0.0)
    timeouts.clear()
    assert timeouts.next_due() is None


def test_what_was_acknowledged_before_its_hand_out_was_reported_is_not_waited_for() -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.acknowledged((1, 5))
    timeouts.acknowledged_up_to((1, 3))
    timeouts.handed_out(fresh((1, 2), (1, 3), (1, 4), (1, 5), (1, 6)), 0.0)
    assert timeouts.take_due(10.0) == [(1, 4), (1, 6)]


def test_a_batch_acknowledged_between_two_reports_of_it_is_not_waited_for() -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.handed_out(fresh((1, 5)), 0.0)
    timeouts.acknowledged((1, 5))
    timeouts.handed_out(fresh((1, 5)), 1.0)
    assert timeouts.next_due() is None


@pytest.mark.parametrize("how", ["reported", "cleared"])
def test_what_is_handed_out_anew_is_waited_for(how: str) -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.acknowledged((1, 5))
    timeouts.acknowledged_up_to((1, 4))
    if how == "reported":
        timeouts.handed_out(fresh((1, 4), (1, 5)), 0.0)
    else:
        timeouts.clear()
    timeouts.handed_out(fresh((1, 4), (1, 5)), 1.0)
    assert timeouts.take_due(11.0) == [(1, 4), (1, 5)]


def test_what_the_broker_refused_to_acknowledge_is_waited_for_again() -> None:
    timeouts = UnackedMessageTracker(10.0)
    timeouts.handed_out(fresh((1, 5)), 0.0)
    timeouts.acknowledged((1, 5))
    timeouts.acknowledged_up_to((1, 4))
    timeouts.refused([(1, 5)], 2.0)
    timeouts.handed_out(fresh((1, 4), (1, 5)), 3.0)
    assert timeouts.take_due(13.0) == [(1, 4), (1, 5)]


def test_no_more_acknowledgements_are_remembered_than_a_report_can_need() -> None:
    timeouts = UnackedMessageTracker(10.0)
    for entry in range(MOST_REMEMBERED + 2):
        timeouts.acknowledged((1, entry))
    timeouts.handed_out(fresh((1, 1), (1, 2)), 0.0)
    assert timeouts.take_due(10.0) == [(1, 1)]


@pytest.mark.parametrize("timeout", [0, -1.0, math.nan, math.inf, 1e308, 1e-300])
def test_a_timeout_that_can_not_be_waited_for_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidArgument, match=r"0.001 to 1,000,000,000 seconds, not"):
        UnackedMessageTracker(timeout)


@pytest.mark.parametrize("timeout", [0.001, 1e9])
def test_a_timeout_at_the_limit_is_waited_for(timeout: float) -> None:
    timeouts = UnackedMessageTracker(timeout)
    timeouts.handed_out(fresh((1, 1)), 1e6)
    due = timeouts.next_due()
    assert due is not None
    assert timeouts.take_due(due) == [(1, 1)]


def test_what_was_redelivered_often_may_take_longer() -> None:
    timeouts = UnackedMessageTracker(10.0, RedeliveryDelay(1.0, 2.0, 5.0))
    timeouts.handed_out([((1, 1), 0), ((1, 2), 2), ((1, 3), 9)], 0.0)
    assert timeouts.take_due(11.0) == [(1, 1)]
    assert timeouts.take_due(13.9) == []
    assert timeouts.take_due(14.0) == [(1, 2)]
    assert timeouts.take_due(15.0) == [(1, 3)]
