from typing import Any

import pytest

from tests.benchmarks.measured import WINDOW, Line, Spread, has_settled, lines, percentile


def line(unit: str = "msg/s", **values: list[float]) -> Line:
    return Line("a contest", unit, values, {})


def test_a_ratio_is_the_median_of_those_of_the_rounds_and_not_of_the_medians() -> None:
    fast = line(ours=[100.0, 200.0, 900.0], official=[10.0, 100.0, 90.0])
    assert fast.ratio("official") == Spread(10.0, 2.0, 10.0)
    assert fast.ratio("java") is None


def test_a_ratio_is_above_1_where_ours_takes_less_time() -> None:
    assert line("ms", ours=[1.0, 4.0], official=[3.0, 2.0]).ratio("official") == Spread(1.75, 0.5, 3.0)


def test_a_client_that_failed_is_compared_in_the_rounds_before() -> None:
    assert line(ours=[10.0, 50.0], official=[5.0]).ratio("official") == Spread(2.0, 2.0, 2.0)
    assert line(ours=[10.0], official=[]).ratio("official") is None
    assert line(ours=[10.0], official=[]).spread("official") is None


@pytest.mark.parametrize(("percent", "time"), [(50, 6), (99, 10), (100, 10), (0, 1)])
def test_a_percentile_is_one_of_the_times(percent: float, time: float) -> None:
    assert percentile([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], percent) == time


@pytest.mark.parametrize(
    ("before", "last", "settled"),
    [(100.0, 109.0, True), (100.0, 91.0, True), (100.0, 111.0, False), (100.0, 89.0, False)],
)
def test_a_rate_has_settled_when_its_median_changes_by_less_than_a_tenth(
    before: float, last: float, *, settled: bool
) -> None:
    assert has_settled([before] * WINDOW + [last] * WINDOW) is settled


def test_one_round_aside_unsettles_nothing_and_old_rounds_do_not_count() -> None:
    assert has_settled([1.0, 2.0, *[100.0] * (2 * WINDOW - 1), 500.0])


def test_a_rate_has_not_settled_before_there_are_two_windows() -> None:
    assert not has_settled([100.0] * (2 * WINDOW - 1))


def test_rates_and_cpu_time_are_of_a_message() -> None:
    answers = {"ours": [{"messages": 200, "seconds": 2.0, "cpu": 0.1, "resident": 3 << 20}]}
    (found,) = lines("a contest", "msg/s", answers, "3.13.0")
    assert (found.spread("ours"), found.cpu("ours")) == (Spread(100.0, 100.0, 100.0), Spread(500.0, 500.0, 500.0))
    assert (found.mebibytes["ours"], found.build) == ([3.0], "3.13.0")


def test_times_have_two_lines_in_milliseconds_and_cpu_time_where_it_was_measured() -> None:
    answers: dict[str, list[dict[str, Any]]] = {
        "ours": [{"times": [0.001, 0.002, 0.009], "messages": 3, "cpu": 0.003}],
        "official": [{"times": [0.5]}],
    }
    half, most = lines("a contest", "ms", answers)
    assert (half.name, half.values) == ("a contest, p50", {"ours": [2.0], "official": [500.0]})
    assert (most.name, most.values) == ("a contest, p99", {"ours": [9.0], "official": [500.0]})
    assert (half.cpu("ours"), half.cpu("official")) == (Spread(1000.0, 1000.0, 1000.0), None)
    assert most.cpu("ours") is None
