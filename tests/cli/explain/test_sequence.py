import xml.etree.ElementTree as ET

import pytest

from pulsar_actors.cli.explain.sequence import cause_of, draw_sequence, lifelines
from pulsar_actors.runtime.state_changes import StateChange

SVG = "{http://www.w3.org/2000/svg}"
PRODUCER, CONNECTION, LOOKUP = "producer 1 on t", "connection to h:1", "lookup 1 of t (LookupTopic)"


def change(actor: str, event: str, time: float = 0.0, dest: str = "READY", error: str | None = None) -> StateChange:
    chart = actor.partition(" ")[0]
    return StateChange(time, actor, chart, event, "IDLE", dest, None, None, error)


OPENED = change(PRODUCER, "open", 0.0, "LOOKING_UP")
FOUND = change(PRODUCER, "looked_up", 0.1, "CONNECTING")
ASKED = change(LOOKUP, "lookup_answered", 0.05, "DONE")
DIALED = change(CONNECTION, "tcp_opened", 0.01)
LOST = change(PRODUCER, "detached", 2.5, "WAITING", "ConnectionLost")
DUE = change(PRODUCER, "retry_due", 2.6, "LOOKING_UP")


def test_the_lifelines_go_from_the_program_to_the_broker() -> None:
    again = change("lookup 2 of t (LookupTopic)", "lookup_answered", 0.2)
    assert lifelines([DIALED, OPENED, ASKED, again, FOUND]) == ["program", PRODUCER, "lookups", CONNECTION, "broker"]


def test_nobody_who_has_done_nothing_has_a_lifeline() -> None:
    assert lifelines([FOUND, DUE]) == [PRODUCER]


@pytest.mark.parametrize(
    ("changed", "others", "cause"),
    [
        (OPENED, [], "program"),
        (FOUND, [ASKED], "lookups"),
        (FOUND, [], None),  # the lookup is not in the history any longer
        (ASKED, [], "broker"),
        (LOST, [DIALED], CONNECTION),
        (LOST, [DIALED, change("connection to h:2", "tcp_opened")], None),  # one of two
        (DUE, [DIALED], None),
        (change(PRODUCER, "of a later version"), [DIALED], None),
    ],
)
def test_an_arrow_comes_from_whoever_has_caused_the_event(
    changed: StateChange, others: list[StateChange], cause: str | None
) -> None:
    assert cause_of(changed, lifelines([changed, *others])) == cause


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 - our own


def test_a_picture_has_a_box_for_each_change_and_an_arrow_for_each_cause() -> None:
    history = [OPENED, DIALED, ASKED, FOUND, LOST, DUE]
    root = ET.fromstring(draw_sequence(history))  # noqa: S314 - our own
    kinds = [element.get("class") for element in root]
    assert kinds.count("box") == 6
    assert kinds.count("tip") == 5
    assert kinds.count("lifeline") == 5
    height, width = int(root.get("height", "")), int(root.get("width", ""))
    for box in root.iter(f"{SVG}rect"):
        assert int(box.get("x", "")) >= 0
        assert int(box.get("x", "")) + int(box.get("width", "")) <= width
        assert int(box.get("y", "")) + int(box.get("height", "")) <= height


def test_a_picture_tells_states_events_errors_times_and_pauses() -> None:
    said = texts(draw_sequence([OPENED, FOUND, LOST]))
    assert [*lifelines([OPENED, FOUND, LOST])] == ["program", PRODUCER]
    assert {"LOOKING_UP", "CONNECTING", "WAITING", "open", "looked_up", "detached (ConnectionLost)"} <= set(said)
    assert {"+0.000 s", "+0.100 s", "+2.500 s", "2.4 s later"} <= set(said)


def test_a_pause_is_a_gap_between_the_boxes() -> None:
    def distance(pause: float) -> int:
        root = ET.fromstring(draw_sequence([FOUND, LOST._replace(time=FOUND.time + pause)]))  # noqa: S314 - our own
        first, second = (int(box.get("y", "")) for box in root.iter(f"{SVG}rect") if box.get("class") == "box")
        return second - first

    assert distance(0.9) == distance(0.001) < distance(1.1) == distance(60.0)


def test_the_state_of_a_part_is_told_from_that_of_the_whole() -> None:
    part = change(PRODUCER, "machine_ended", dest="GONE")._replace(chart="handle_lifetime")
    assert "handle_lifetime GONE" in texts(draw_sequence([part]))
    assert "LOOKING_UP" in texts(draw_sequence([OPENED]))


def test_names_are_texts_and_never_elements() -> None:
    odd = change("producer 1 on <script>&", "open", dest="<b>")
    assert {"<b>"} <= set(texts(draw_sequence([odd])))
