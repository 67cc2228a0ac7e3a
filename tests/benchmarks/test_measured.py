import pytest

from tests.benchmarks.measured import Grown, Line, growth_picture, percentile, picture, table


def line(unit: str = "msg/s", **values: list[float]) -> Line:
    return Line("a contest", unit, values, {client: [2.0, 4.0, 3.0] for client in values}, (30, None))


def test_a_ratio_is_that_of_the_medians_and_above_1_where_ours_is_better() -> None:
    fast = line(ours=[100.0, 300.0, 200.0], official=[10.0, 20.0, 30.0])
    assert fast.ratio("official") == 10.0
    slow = line("ms", ours=[4.0, 4.0], official=[2.0, 2.0])
    assert slow.ratio("official") == 0.5
    assert fast.ratio("java") is None


@pytest.mark.parametrize(("percent", "time"), [(50, 6), (99, 10), (100, 10), (0, 1)])
def test_a_percentile_is_one_of_the_times(percent: float, time: float) -> None:
    assert percentile([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], percent) == time


def test_the_table_has_medians_spreads_ratios_and_what_is_wanted() -> None:
    drawn = table([line(ours=[100.0, 300.0, 200.0], official=[10.0, 20.0, 30.0])]).splitlines()
    assert drawn[2] == "| a contest, msg/s | 200 (100 to 300) | 20 (10 to 30) |  | **10.00** of 30 |  | 3 | 3 |  |"
    assert len({row.count("|") for row in drawn}) == 1


def test_the_picture_has_a_bar_for_each_ratio_in_proportion() -> None:
    drawn = picture([line(ours=[8.0], official=[1.0], java=[4.0]), line("ms", ours=[1.0])])
    assert drawn.count(">a contest<") == 1, "what is compared with nothing has no place"
    assert (">8.00<" in drawn, ">2.00<" in drawn) == (True, True)
    bars = [
        float(part.partition('width="')[2].partition('"')[0]) for part in drawn.splitlines() if 'height="9"' in part
    ]
    assert bars[0] == pytest.approx(3 * bars[1], abs=0.2)  # 8 is three doublings, 2 is one


def test_a_curve_has_a_point_for_each_value_and_decades_are_equally_far_apart() -> None:
    points = [(1, line(ours=[10.0])), (10, line(ours=[100.0])), (100, line(ours=[1000.0]))]
    (path,) = [
        part for part in growth_picture([Grown("topics", points)]).splitlines() if "<polyline" in part and "," in part
    ]
    places = [tuple(map(float, place.split(","))) for place in path.partition('points="')[2].partition('"')[0].split()]
    (x1, y1), (x2, y2), (x3, y3) = places
    assert x2 - x1 == pytest.approx(x3 - x2)
    assert y1 - y2 == pytest.approx(y2 - y3)
    assert y1 > y2, "more is further up"
