import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.ack_timeouts import AckTimeouts


def test_an_entry_is_due_when_nobody_acknowledged_it() -> None:
    timeouts = AckTimeouts(10.0)
    timeouts.handed_out([(1, 1), (1, 2)], 0.0)
    timeouts.acknowledged((1, 1))
    assert timeouts.take_due(9.99) == []
    assert timeouts.next_due() == 10.0
    assert timeouts.take_due(10.0) == [(1, 2)]
    assert len(timeouts) == 0


def test_a_batch_counts_from_the_last_message_that_was_handed_out() -> None:
    timeouts = AckTimeouts(10.0)
    timeouts.handed_out([(1, 1)], 0.0)
    timeouts.handed_out([(1, 1)], 6.0)
    assert timeouts.take_due(15.0) == []
    assert timeouts.take_due(16.0) == [(1, 1)]


def test_a_cumulative_ack_ends_the_wait_for_all_before_it() -> None:
    timeouts = AckTimeouts(10.0)
    timeouts.handed_out([(1, 8), (1, 9), (2, 0), (2, 1)], 0.0)
    timeouts.acknowledged_up_to((2, 0))
    assert timeouts.take_due(11.0) == [(2, 1)]


def test_nothing_waits_after_a_seek() -> None:
    timeouts = AckTimeouts(10.0)
    timeouts.handed_out([(1, 1)], 0.0)
    timeouts.clear()
    assert timeouts.next_due() is None


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_is_more_than_nothing(timeout: float) -> None:
    with pytest.raises(InvalidArgument, match="more than 0"):
        AckTimeouts(timeout)
