import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from pulsar_actors.cli.statecharts.geometry import Font, split_words, text_width, wrap_words
from pulsar_actors.cli.statecharts.picture import draw_picture
from pulsar_actors.machines.chart import Chart

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def root(kettle: tuple[Chart, ModuleType]) -> ET.Element:
    return ET.fromstring(str(draw_picture(kettle[0])))  # noqa: S314 - we wrote it


def lines(root: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_text_is_escaped(root: ET.Element) -> None:
    shown = " ".join(lines(root))
    assert "Filled & waiting, but <not> switched on." in shown


def test_shared_steps_name_their_states_or_those_left_out(root: ET.Element) -> None:
    shown = lines(root)
    assert shown[shown.index("dropped / apologise → BROKEN") + 1] == "from every other state"
    assert shown[shown.index("tapped / ring") + 1] == "in every state"


def test_the_end_has_two_frames_and_the_start_a_dot(root: ET.Element) -> None:
    kinds = [element.get("class") for element in root.iter()]
    assert kinds.count("box") == 4
    assert kinds.count("inner") == 1
    assert kinds.count("start") == 1
    assert kinds.count("line") == kinds.count("tip") == 4


def test_every_word_is_on_the_canvas(root: ET.Element) -> None:
    right, bottom = int(root.attrib["width"]), int(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {right} {bottom}"
    for text in root.iter(f"{SVG}text"):
        assert 0 < int(text.attrib["x"]) < right
        assert 0 < int(text.attrib["y"]) < bottom


def test_an_arrow_ends_in_a_tip_that_points_where_it_goes(root: ET.Element) -> None:
    tips = [element.attrib["d"].split() for element in root.iter(f"{SVG}path") if element.get("class") == "tip"]
    upward = [tip for tip in tips if int(tip[5]) > int(tip[2])]
    assert len(upward) == 1  # from BOILING back to HEATING


def test_lines_are_no_longer_than_asked_unless_a_word_is() -> None:
    text = wrap_words([split_words("a few words and one thatislongerthanallotherstogether here", Font(""))], 80)
    too_long = [line for line in text.lines if text_width(line) > 80]
    assert [word.text for line in too_long for word in line] == ["thatislongerthanallotherstogether"]
    assert text.size.height == 16 * len(text.lines)
