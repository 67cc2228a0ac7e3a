import re

import pytest

from tests.benchmarks.measured import Line
from tests.benchmarks.picture import COLOURS, Grown, growth_picture, picture


def line(unit: str = "msg/s", build: str = "", **values: list[float]) -> Line:
    return Line("a contest", unit, values, {}, build)


def bars(drawn: str, client: str) -> list[tuple[float, float]]:
    found = re.findall(rf'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="9" fill="{COLOURS[client]}"', drawn)
    return [(float(x), float(x) + float(width)) for x, width in found]


def test_a_bar_reaches_from_the_worst_round_to_the_best_and_both_are_told_alike() -> None:
    drawn = picture([line(ours=[2.0, 4.0, 16.0], official=[1.0, 1.0, 1.0], java=[2.0, 2.0, 2.0])])
    (official,), (java,) = bars(drawn, "official"), bars(drawn, "java")
    assert official[1] - official[0] == pytest.approx(java[1] - java[0], abs=0.2), "three doublings each"
    assert official[0] - java[0] == pytest.approx((official[1] - official[0]) / 3, abs=0.2), "one doubling"
    texts = dict(re.findall(r"<text ([^>]*)>([\d.]+)</text>", drawn)[::-1])
    sizes = [re.search(r'font-size="\d+"', where) for where, what in texts.items() if what in {"2.00", "16.00"}]
    assert [size and size.group() for size in sizes] == ['font-size="10"'] * 2


def test_the_notch_is_at_the_median() -> None:
    drawn = picture([line(ours=[1.0, 2.0, 4.0], official=[1.0, 1.0, 1.0])])
    ((worst, best),) = bars(drawn, "official")
    (notch,) = re.findall(r'<rect x="([\d.]+)" y="\d+" width="2" height="9" fill="black"', drawn)
    assert float(notch) + 1 == pytest.approx((worst + best) / 2, abs=0.2)


def test_ratios_beyond_the_ends_are_told_and_drawn_within_the_picture() -> None:
    drawn = picture([line(ours=[1.0, 1000.0], official=[100.0, 1.0])])
    assert (">0.01<" in drawn, ">1000.00<" in drawn) == (True, True)
    ((worst, best),) = bars(drawn, "official")
    width = re.search(r'<svg [^>]*width="(\d+)"', drawn)
    assert width is not None
    assert 0 < worst < best < int(width.group(1))


def test_what_is_compared_with_nothing_has_no_bar_and_builds_are_told_apart() -> None:
    drawn = picture([line("ms", ours=[1.0]), line(build="3.13.0, compiled", ours=[1.0], official=[1.0])])
    assert re.findall(r">(a contest[^<]*)<", drawn) == ["a contest (3.13.0, compiled)"]


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
