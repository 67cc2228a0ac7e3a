import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from pulsar_actors.cli.perf.plot import HEIGHT, LEFT, WIDTH, PlotPoint, PlotPoints, draw_plot, thinned

SVG = "{http://www.w3.org/2000/svg}"


def point(at: float, rate: float = 1000.0, p50: float = 0.001, *, is_warm: bool = True) -> PlotPoint:
    return PlotPoint(at, rate, p50, 4 * p50, 10 * p50, is_warm)


def parsed(points: list[PlotPoint], title: str = "t") -> ET.Element:
    return ET.fromstring(draw_plot(title, points))  # noqa: S314 - our own


def texts(root: ET.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def curves(root: ET.Element) -> list[list[tuple[float, float]]]:
    return [
        [(float(x), float(y)) for x, y in (place.split(",") for place in line.get("points", "").split())]
        for line in root.iter(f"{SVG}polyline")
    ]


def test_each_interval_is_a_point_of_the_rate_and_of_three_latencies() -> None:
    rate, longest, p99, p50 = curves(parsed([point(1), point(2, 500), point(4, 0)]))
    assert [x for x, _ in rate] == [LEFT + WIDTH / 4, LEFT + WIDTH / 2, LEFT + WIDTH]
    assert [y for _, y in rate] == sorted(y for _, y in rate)  # slower is further down
    assert rate[2][1] - rate[0][1] == HEIGHT
    for at in range(3):
        assert longest[at][1] < p99[at][1] < p50[at][1]


def test_the_scale_ends_at_a_round_number() -> None:
    said = texts(parsed([point(1, 1_234_567.0), point(10, 1.0)], "produce t"))
    assert {"produce t", "2,000,000", "400,000", "0", "10 s", "p50", "p99", "max"} <= set(said)


def test_the_times_below_are_round_numbers() -> None:
    def times(end: float) -> list[str]:
        return [said for said in texts(parsed([point(end / 2), point(end)])) if said.endswith(" s")]

    assert times(3.81) == ["0 s", "1 s", "2 s", "3 s"]
    assert times(120.4) == ["0 s", "50 s", "100 s"]
    assert times(0.3) == ["0 s", "0.1 s", "0.2 s", "0.3 s"]


def test_a_warm_up_is_shaded() -> None:
    def shaded(root: ET.Element) -> list[float]:
        return [float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect") if rect.get("fill") == "#f3f1ea"]

    assert shaded(parsed([point(1, is_warm=False), point(4)])) == [WIDTH / 4] * 2
    assert shaded(parsed([point(1), point(4)])) == []


def test_one_point_is_a_dot_and_none_is_no_error() -> None:
    assert len(list(parsed([point(1)]).iter(f"{SVG}circle"))) == 4
    assert curves(parsed([])) == [[], [], [], []]


def test_what_is_left_out_is_never_the_worst() -> None:
    points = [point(at, rate=1000.0) for at in range(10_000)]
    points[4321] = point(4321, rate=3.0, p50=0.7)
    shown = thinned(points, WIDTH)
    assert len(shown) <= WIDTH
    assert min(each.rate for each in shown) == 3.0
    assert max(each.longest for each in shown) == pytest.approx(7.0)
    assert shown[-1].at == 9999
    assert thinned(points[:5], WIDTH) == points[:5]


def test_a_run_of_days_keeps_no_more_points_than_a_picture_shows_and_none_of_its_worst_is_lost() -> None:
    points = PlotPoints()
    for second in range(1, 100_001):
        points.add(point(second, rate=3.0 if second == 54_321 else 1000.0, p50=0.7 if second == 9 else 0.001))
        assert len(points.all()) <= 2 * WIDTH + 1
    kept = points.all()
    assert (kept[0].at < 200, kept[-1].at) == (True, 100_000)
    steps = {later.at - earlier.at for earlier, later in pairwise(kept[:-1])}
    assert len(steps) == 1  # the beginning is as fine as the end
    assert min(each.rate for each in kept) == 3.0
    assert max(each.longest for each in kept) == pytest.approx(7.0)


def test_a_title_is_text_and_never_an_element() -> None:
    assert "<b>&" in texts(parsed([point(1)], "<b>&"))
