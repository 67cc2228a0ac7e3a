from collections.abc import Hashable
from itertools import combinations, pairwise, product
from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_actors.cli.statecharts.command import all_charts
from pulsar_actors.statecharts.drawn_chart import DrawnChart, drawn_charts
from pulsar_actors.statecharts.geometry import Rectangle, Size
from pulsar_actors.statecharts.layout import Layout, Link, lay_out, spaced_positions
from pulsar_actors.statecharts.picture import draw_picture

CHARTS = [pytest.param(chart, id=chart.name) for chart in drawn_charts(all_charts())]


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a.x < b.right and b.x < a.right and a.y < b.bottom and b.y < a.bottom


def assert_nothing_collides(layout: Layout, links: list[tuple[object, object]]) -> None:
    labels = [route.label for route in layout.routes if route.label.width]
    for a, b in combinations([*layout.boxes.values(), *labels], 2):
        assert not overlap(a, b), (a, b)
    for (tail, head), route in zip(links, layout.routes, strict=True):
        assert route.points[0][0] in range(layout.boxes[tail].x, layout.boxes[tail].right + 1)
        assert route.points[-1][0] in range(layout.boxes[head].x, layout.boxes[head].right + 1)
        others = [box for key, box in layout.boxes.items() if key not in {tail, head}]
        others += [label for label in labels if label is not route.label]
        for (x1, y1), (x2, y2) in zip(route.points, route.points[1:], strict=False):
            swept = Rectangle(min(x1, x2), min(y1, y2), abs(x1 - x2), abs(y1 - y2))
            assert not any(overlap(swept, other) for other in others), (tail, head, swept)
    ends = [point for route in layout.routes for point in (route.points[0], route.points[-1])]
    for (x1, y1), (x2, y2) in combinations(ends, 2):
        assert y1 != y2 or abs(x1 - x2) > 12, "the tips of two arrows touch"
    for area in [*layout.boxes.values(), *labels]:
        assert area.x >= 0
        assert area.y >= 0
        assert area.right <= layout.size.width
        assert area.bottom <= layout.size.height


@pytest.mark.parametrize("chart", CHARTS)
def test_no_box_label_or_line_of_a_chart_covers_another(chart: DrawnChart) -> None:
    drawn = draw_picture(chart)
    links: list[tuple[object, object]] = [("start", chart.initial)] if chart.initial in drawn.boxes else []
    links += [(arrow if arrow in drawn.signs else arrow.source, arrow.dest) for arrow in drawn.outline.arrows]
    assert_nothing_collides(drawn.layout, links)
    runs = [[sorted(run) for run in pairwise(route.points)] for route in drawn.layout.routes]
    for one, other in combinations(runs, 2):
        for (a, b), (c, d) in product(one, other):
            for along, across in ((0, 1), (1, 0)):
                beside = a[across] == b[across] and c[across] == d[across] and abs(a[across] - c[across]) < 4
                assert not (beside and a[along] < d[along] and c[along] < b[along]), "two arrows run on each other"


@pytest.mark.parametrize("chart", CHARTS)
def test_the_list_below_a_picture_covers_nothing_and_fits(chart: DrawnChart) -> None:
    drawn = draw_picture(chart)
    for a, b in combinations([entry.area for entry in drawn.entries], 2):
        assert not overlap(a, b)
    for entry in drawn.entries:
        assert entry.area.y >= drawn.layout.size.height
        assert entry.area.bottom <= drawn.size.height - drawn.top
        assert entry.area.right <= drawn.size.width


sizes = st.builds(Size, st.integers(40, 300), st.integers(20, 200))


@settings(max_examples=50)
@given(data=st.data(), boxes=st.lists(sizes, min_size=1, max_size=7))
def test_nothing_collides_whatever_is_joined(data: st.DataObject, boxes: list[Size]) -> None:
    pairs = [(a, b) for a in range(len(boxes)) for b in range(len(boxes)) if a != b]
    chosen = data.draw(st.lists(st.sampled_from(pairs), max_size=12, unique=True)) if pairs else []
    links = [Link(tail, head, data.draw(sizes)) for tail, head in chosen]
    layout = lay_out(dict(enumerate(boxes)), links, [])
    assert all(area.width >= size.width for area, size in zip(layout.boxes.values(), boxes, strict=True))
    assert_nothing_collides(layout, list(chosen))


def test_a_label_that_settles_beside_the_left_box_is_inside_the_picture() -> None:
    size, pairs = Size(40, 20), [(0, 2), (2, 3), (2, 4), (0, 3)]
    layout = lay_out(dict.fromkeys(range(7), size), [Link(tail, head, size) for tail, head in pairs], [])
    assert_nothing_collides(layout, list(pairs))


def test_an_arrow_to_a_later_box_points_down_and_one_back_points_up() -> None:
    boxes: dict[Hashable, Size] = dict.fromkeys(("first", "second"), Size(100, 40))
    layout = lay_out(boxes, [Link("first", "second", Size(9, 9)), Link("second", "first", Size(9, 9))], [])
    down, up = (route.points for route in layout.routes)
    assert down[0][1] == layout.boxes["first"].bottom
    assert down[-1][1] == layout.boxes["second"].y
    assert up[0][1] == layout.boxes["second"].y
    assert up[-1][1] == layout.boxes["first"].bottom


def test_a_box_that_no_arrow_reaches_still_stands_below_what_leads_to_it() -> None:
    boxes: dict[Hashable, Size] = dict.fromkeys(("first", "second"), Size(100, 40))
    layout = lay_out(boxes, [], [("first", "second")])
    assert layout.boxes["second"].y > layout.boxes["first"].bottom


def test_what_is_not_in_the_way_stands_where_it_wishes() -> None:
    assert spaced_positions([], [], []) == []
    assert spaced_positions([0, 10, 30], [1, 1, 1], [10, 10]) == [0, 10, 30]


def test_two_that_wish_for_one_place_give_way_by_their_weights() -> None:
    assert spaced_positions([0, 0], [1, 1], [10]) == [-5, 5]
    assert spaced_positions([0, 0], [3, 1], [8]) == [-2, 6]


@given(
    things=st.lists(
        st.tuples(st.integers(-100, 100), st.integers(1, 9), st.integers(0, 50)),
        min_size=1,
        max_size=8,
    ),
    nudges=st.lists(st.sampled_from([-1, 0, 1]), min_size=8, max_size=8),
)
def test_distances_are_kept_and_no_small_move_would_be_better(
    things: list[tuple[int, int, int]], nudges: list[int]
) -> None:
    wishes, weights, all_gaps = zip(*things, strict=True)
    gaps = all_gaps[1:]

    def keeps(places: list[float]) -> bool:
        return all(b - a >= gap - 1e-9 for a, b, gap in zip(places, places[1:], gaps, strict=False))

    def cost(places: list[float]) -> float:
        return sum(weight * (place - wish) ** 2 for place, wish, weight in zip(places, wishes, weights, strict=True))

    places = spaced_positions(wishes, weights, gaps)
    assert keeps(places)
    moved = [place + nudge / 64 for place, nudge in zip(places, nudges, strict=False)]
    assert not keeps(moved) or cost(moved) >= cost(places) or isclose(cost(moved), cost(places))
