import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.negative_acks_tracker import (
    NegativeAcksTracker,
    RedeliverAll,
    RedeliverEntries,
    RedeliveryDelay,
)


def test_a_refused_message_comes_again_after_a_minute() -> None:
    redelivery = NegativeAcksTracker(ordered=False)
    redelivery.negatively_acknowledged((1, 1), 0, now=0.0)
    assert redelivery.next_due() == pytest.approx(60.0)
    assert redelivery.take_due(59.9) == []
    assert redelivery.take_due(60.1) == [(1, 1)]
    assert redelivery.next_due() is None


def test_messages_of_one_entry_come_again_together_after_the_latest_delay() -> None:
    redelivery = NegativeAcksTracker(ordered=False, delay=RedeliveryDelay(10.0))
    redelivery.negatively_acknowledged((1, 1), 0, now=0.0)
    redelivery.negatively_acknowledged((1, 1), 0, now=5.0)
    assert redelivery.take_due(14.0) == []
    assert redelivery.take_due(15.1) == [(1, 1)]


def test_an_entry_that_is_acknowledged_after_all_does_not_come_again() -> None:
    redelivery = NegativeAcksTracker(ordered=False, delay=RedeliveryDelay(1.0))
    for entry in range(5):
        redelivery.negatively_acknowledged((1, entry), 0, now=0.0)
    redelivery.acknowledged((1, 4))
    redelivery.acknowledged_up_to((1, 2))
    assert redelivery.take_due(2.0) == [(1, 3)]
    redelivery.negatively_acknowledged((1, 1), 0, now=0.0)
    redelivery.clear()
    assert redelivery.next_due() is None


def test_a_shared_subscription_lists_entries_a_thousand_at_a_time() -> None:
    redelivery = NegativeAcksTracker(ordered=False)
    entries = [(1, entry) for entry in range(2500)]
    redelivery.negatively_acknowledged((1, 7), 0, now=0.0)
    requests = redelivery.request([*entries, (1, 0)])
    lists = [request.entries for request in requests if isinstance(request, RedeliverEntries)]
    assert [len(one) for one in lists] == [1000, 1000, 500]
    assert [entry for one in lists for entry in one] == entries
    assert redelivery.next_due() is None, "it is asked for already"


def test_an_ordered_subscription_asks_for_everything_in_a_new_epoch() -> None:
    redelivery = NegativeAcksTracker(ordered=True)
    redelivery.negatively_acknowledged((1, 2), 0, now=0.0)
    assert redelivery.request([(1, 1)]) == [RedeliverAll(1)]
    assert redelivery.next_due() is None
    assert redelivery.request([(1, 1)]) == [RedeliverAll(2)]
    assert [redelivery.is_stale(epoch) for epoch in (0, 1, 2, None)] == [True, True, False, False]


def test_epochs_mean_nothing_to_a_shared_subscription() -> None:
    redelivery = NegativeAcksTracker(ordered=False)
    assert redelivery.request_all() == RedeliverAll(1)
    assert not redelivery.is_stale(0)


def test_nothing_to_ask_for_is_no_command() -> None:
    assert NegativeAcksTracker(ordered=False).request([]) == []
    assert NegativeAcksTracker(ordered=True).request([]) == []


@pytest.mark.parametrize("ordered", [False, True])
def test_of_a_topic_that_is_not_stored_nothing_is_asked_for_again(*, ordered: bool) -> None:
    redelivery = NegativeAcksTracker(ordered=ordered, persistent=False)
    redelivery.negatively_acknowledged((0, 0), 0, 0.0)
    assert redelivery.request(redelivery.take_due(100.0)) == []
    assert redelivery.epoch == 0


@pytest.mark.parametrize(
    ("delay", "delays"),
    [
        (RedeliveryDelay(), [60.0, 60.0, 60.0]),
        (RedeliveryDelay(0.0), [0.0, 0.0, 0.0]),
        (RedeliveryDelay(1.0, 2.0, 5.0), [1.0, 2.0, 4.0, 5.0, 5.0]),
        (RedeliveryDelay(3.0, 2.0, 3.0), [3.0, 3.0]),
    ],
)
def test_the_delay_grows_by_its_factor_to_its_longest(delay: RedeliveryDelay, delays: list[float]) -> None:
    assert [delay.after(count) for count in range(len(delays))] == delays


@given(st.floats(0, 100), st.floats(1, 1000), st.floats(0, 1000), st.integers(0, 2**32 - 1))
def test_no_count_makes_the_delay_overflow(first: float, factor: float, more: float, count: int) -> None:
    assert first <= RedeliveryDelay(first, factor, first + more).after(count) <= first + more


@given(st.integers(0, 100), st.integers(1, 9), st.integers(0, 1000), st.integers(0, 12))
def test_whole_numbers_make_the_same_delay_as_floats(first: int, factor: int, more: int, count: int) -> None:
    floats = RedeliveryDelay(float(first), float(factor), float(first + more))
    assert RedeliveryDelay(first, factor, first + more).after(count) == floats.after(count)


def test_no_count_makes_a_delay_in_whole_numbers_take_for_ever() -> None:
    assert RedeliveryDelay(1, 3, 600).after(2**32 - 1) == 600, "a power of two thousand million digits"


@pytest.mark.parametrize(
    "delay",
    [
        RedeliveryDelay(-1.0),
        RedeliveryDelay(math.nan),
        RedeliveryDelay(1.0, 0.5, 2.0),
        RedeliveryDelay(5.0, 2.0, 4.0),
        RedeliveryDelay(5.0, 2.0),
        RedeliveryDelay(1.0, 2.0, 1e308),
        RedeliveryDelay(1e308),
        RedeliveryDelay(math.inf),
        RedeliveryDelay(1.0, math.inf, 5.0),
        RedeliveryDelay(1.0, math.nan, 5.0),
        RedeliveryDelay(1.0, 2.0, math.nan),
    ],
)
def test_a_delay_that_makes_no_sense_is_refused(delay: RedeliveryDelay) -> None:
    with pytest.raises(InvalidArgument, match="delay"):
        NegativeAcksTracker(ordered=False, delay=delay)


def test_the_longest_delay_can_be_waited_for() -> None:
    redelivery = NegativeAcksTracker(ordered=False, delay=RedeliveryDelay(1.0, 2.0, 1e9))
    redelivery.negatively_acknowledged((1, 1), 2**32 - 1, now=1e6)
    assert redelivery.next_due() == pytest.approx(1e9 + 1e6)


@pytest.mark.parametrize(("delay", "rest"), [(0.0, 10.0), (5.0, 10.0), (60.0, 60.0)])
def test_what_the_consumer_sets_aside_rests_however_short_the_delay_is(delay: float, rest: float) -> None:
    redelivery = NegativeAcksTracker(ordered=True, delay=RedeliveryDelay(delay))
    redelivery.set_aside((1, 1), 0, now=100.0)
    assert redelivery.next_due() == pytest.approx(100.0 + rest)
    redelivery.came((1, 1))
    assert redelivery.next_due() is None
