import random
import statistics
import sys

import pytest

from pulsar_actors.cli.perf.histogram import Histogram

PERCENTILES = [0, 1, 25, 50, 75, 95, 99, 99.9, 99.99, 100]


def recorded(times: list[float]) -> Histogram:
    histogram = Histogram()
    for each in times:
        histogram.record(each)
    return histogram


def skewed(count: int, seed: int) -> list[float]:
    dice = random.Random(seed)  # noqa: S311 - times, no secrets
    return [dice.lognormvariate(-6, 2) for _ in range(count)]


@pytest.mark.parametrize("percentile", PERCENTILES)
def test_a_percentile_is_that_of_the_sorted_times_to_within_a_thousandth(percentile: float) -> None:
    times = skewed(50_000, seed=1)
    exact = sorted(times)[max(0, -(-int(percentile * len(times)) // 100) - 1)]
    assert recorded(times).at(percentile) == pytest.approx(exact, rel=1e-3, abs=1e-6)


def test_mean_and_deviation_are_those_of_the_times() -> None:
    times = skewed(20_000, seed=2)
    histogram = recorded(times)
    assert histogram.mean() == pytest.approx(statistics.fmean(times), rel=1e-3)
    assert histogram.deviation() == pytest.approx(statistics.pstdev(times), rel=1e-2)


def test_up_to_two_milliseconds_each_microsecond_is_told() -> None:
    times = [number / 1e6 for number in range(2048)]
    assert recorded(times).buckets() == [(each, 1) for each in times]


def test_a_histogram_of_nothing_has_nothing_to_say() -> None:
    nothing = Histogram()
    assert (len(nothing), nothing.at(99), nothing.mean(), nothing.deviation()) == (0, 0.0, 0.0, 0.0)


def test_the_difference_to_an_earlier_copy_is_what_came_since() -> None:
    histogram = recorded([0.001, 0.002, 0.5])
    earlier = histogram.copy()
    histogram.record(0.002)
    histogram.record(0.0015)
    assert (histogram - earlier).buckets() == [(0.0015, 1), (0.002, 1)]


def test_the_sum_of_two_has_what_both_have() -> None:
    both = recorded([0.001, 0.002]) + recorded([0.002])
    assert both.buckets() == [(0.001, 1), (0.002, 2)]


def test_a_time_below_nothing_counts_as_none() -> None:
    assert recorded([-0.5]).buckets() == [(0.0, 1)]


def test_a_million_times_take_no_more_memory_than_their_buckets() -> None:
    histogram = recorded(skewed(100_000, seed=3))
    assert sys.getsizeof(histogram._counts) < 2_000_000
    assert len(histogram) == 100_000
