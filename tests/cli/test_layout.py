from collections.abc import Hashable
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_actors import machines
from pulsar_actors.cli.layout import Layout, Link, lay_out
from pulsar_actors.cli.picture import picture
from pulsar_actors.cli.places import Rectangle, Size
from pulsar_actors.cli.statecharts import find_charts
from pulsar_actors.machines.chart import Chart

CHARTS = [pytest.param(chart, id=chart.name) for chart, _ in find_charts(machines)]


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
    for place in [*layout.boxes.values(), *labels]:
        assert place.x >= 0
        assert place.y >= 0
        assert place.right <= layout.size.width
        assert place.bottom <= layout.size.height


@pytest.mark.parametrize("chart", CHARTS)
def test_no_box_label_or_line_of_a_chart_covers_another(chart: Chart) -> None:
    drawn = picture(chart)
    links: list[tuple[object, object]] = [("start", chart.initial)]
    links += [(arrow.source, arrow.dest) for arrow in drawn.outline.arrows]
    assert_nothing_collides(drawn.layout, links)


@pytest.mark.parametrize("chart", CHARTS)
def test_the_list_below_a_picture_covers_nothing_and_fits(chart: Chart) -> None:
    drawn = picture(chart)
    for a, b in combinations([entry.place for entry in drawn.entries], 2):
        assert not overlap(a, b)
    for entry in drawn.entries:
        assert entry.place.y >= drawn.layout.size.height
        assert entry.place.bottom <= drawn.size.height


sizes = st.builds(Size, st.integers(40, 300), st.integers(20, 200))


@settings(max_examples=50)
@given(data=st.data(), boxes=st.lists(sizes, min_size=1, max_size=7))
def test_nothing_collides_whatever_is_joined(data: st.DataObject, boxes: list[Size]) -> None:
    pairs = [(a, b) for a in range(len(boxes)) for b in range(len(boxes)) if a != b]
    chosen = data.draw(st.lists(st.sampled_from(pairs), max_size=12, unique=True)) if pairs else []
    links = [Link(tail, head, data.draw(sizes)) for tail, head in chosen]
    layout = lay_out(dict(enumerate(boxes)), links, [])
    assert [layout.boxes[key][2:] for key in layout.boxes] == boxes
    assert_nothing_collides(layout, list(chosen))


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
