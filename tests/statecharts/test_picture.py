import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from pulsar_actors.cli.statecharts.command import all_charts
from pulsar_actors.machines.chart import Chart
from pulsar_actors.statecharts.drawn_chart import DrawnChart, draw_whole, drawn_charts
from pulsar_actors.statecharts.geometry import Font, Word, split_words, text_width, wrap_words
from pulsar_actors.statecharts.picture import MARGIN, draw_picture

DRAWN = [pytest.param(chart, id=chart.name) for chart in drawn_charts(all_charts())]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def root(kettle: tuple[Chart, ModuleType]) -> ET.Element:
    return ET.fromstring(str(draw_picture(draw_whole(*kettle))))  # noqa: S314 - we wrote it


def lines(root: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_text_is_escaped(root: ET.Element) -> None:
    shown = " ".join(lines(root))
    assert "Filled & waiting, but <not> switched on." in shown


def test_shared_steps_name_their_states_or_those_left_out(root: ET.Element) -> None:
    shown = lines(root)
    assert "from every other state" in " ".join(shown)
    assert shown[shown.index("in every state") + 1] == "tapped / ring"


def test_the_end_has_two_frames_and_the_start_a_dot(root: ET.Element) -> None:
    kinds = [element.get("class") for element in root.iter()]
    assert kinds.count("box") == 4
    assert kinds.count("inner") == 1
    assert kinds.count("start") == 1
    assert kinds.count("sign") == 1
    assert kinds.count("line") == kinds.count("tip") == 5


@pytest.mark.parametrize("chart", DRAWN)
def test_every_word_is_on_the_canvas(chart: DrawnChart) -> None:
    drawn = draw_picture(chart)
    root = ET.fromstring(str(drawn))  # noqa: S314 - we wrote it
    right, bottom = drawn.size
    assert root.attrib["viewBox"] == f"0 0 {right} {bottom}"
    assert max(part.size.width for part in drawn.header) <= right - 2 * MARGIN
    for text in root.iter(f"{SVG}text"):
        words = [Word(word, Font("")) for word in "".join(text.itertext()).split()]
        width = text_width(words) // (2 if "text-anchor" in text.attrib else 1)
        assert width < int(text.attrib["x"]) + width < right
        assert 0 < int(text.attrib["y"]) < bottom


@pytest.mark.parametrize("chart", DRAWN)
def test_the_first_state_is_on_top(chart: DrawnChart) -> None:
    boxes = draw_picture(chart).layout.boxes
    others = [area.y for key, area in boxes.items() if key in chart.states and key is not chart.initial]
    assert chart.initial not in boxes or boxes[chart.initial].bottom < min(others)


def test_an_arrow_ends_in_a_tip_that_points_where_it_goes(root: ET.Element) -> None:
    tips = [element.attrib["d"].split() for element in root.iter(f"{SVG}path") if element.get("class") == "tip"]
    upward = [tip for tip in tips if int(tip[5]) > int(tip[2])]
    assert len(upward) == 1  # from BOILING back to HEATING


def test_lines_are_no_longer_than_asked_unless_a_word_is() -> None:
    text = wrap_words([split_words("a few words and one thatislongerthanallotherstogether here", Font(""))], 80)
    too_long = [line for line in text.lines if text_width(line) > 80]
    assert [word.text for line in too_long for word in line] == ["thatislongerthanallotherstogether"]
    assert text.size.height == 16 * len(text.lines)
