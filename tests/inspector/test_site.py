"""What is at the addresses of the page, and that nothing is without the secret."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors import machines
from pulsar_actors.broker import session
from pulsar_actors.cli.statecharts.command import all_charts
from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.inspector.site import Site
from pulsar_actors.inspector.snapshot import MachineNow, Shown, Snapshot, machine_now
from pulsar_actors.runtime.state_changes import StateChange
from pulsar_actors.statecharts.drawn_chart import DrawnChart, draw_whole

CHANGE = StateChange(5.0, "door 1", "door", "push", "SHUT", "OPEN", "is_strong", "creak", "Timeout")
SHOWN = Shown("door 1", "door", [MachineNow("door", "OPEN", {"door": "OPEN"})], {"pushes": 3}, {"people waiting": 0})
SNAPSHOT = Snapshot("A house", {"street": "Elm"}, [SHOWN], 2, [CHANGE])


def site(snapshot: Callable[[], Snapshot] = lambda: SNAPSHOT, **faults: Callable[[], object]) -> Site:
    return Site(snapshot, (machines, session), faults)


def read(site: Site, name: str) -> Any:
    answer = site.get(site.root + name)
    assert answer.status == 200
    return json.loads(answer.body)


def test_the_snapshot_is_json_with_the_labels_of_the_faults() -> None:
    assert read(site(ring=lambda: None), "snapshot") == {
        "title": "A house",
        "facts": {"street": "Elm"},
        "shown": [
            {
                "name": "door 1",
                "kind": "door",
                "machines": [{"chart": "door", "state": "OPEN", "pictures": {"door": "OPEN"}}],
                "counters": {"pushes": 3},
                "gauges": {"people waiting": 0},
            }
        ],
        "left_out": 2,
        "changes": [
            {
                "time": 5.0,
                "actor": "door 1",
                "chart": "door",
                "text": "door SHUT -> OPEN on push (Timeout) [is_strong] / creak",
                "failed": True,
            }
        ],
        "faults": ["ring"],
    }


@pytest.mark.parametrize(("name", "kind"), [("", "html"), ("page.css", "css"), ("page.js", "javascript")])
def test_the_files_of_the_page_are_there(name: str, kind: str) -> None:
    one = site()
    answer = one.get(one.root + name)
    assert (answer.status, answer.content_type) == (200, f"text/{kind}; charset=utf-8")


def test_the_page_loads_nothing_from_elsewhere() -> None:
    one = site()
    files = [one.get(one.root + name).body.decode() for name in ("", "page.css", "page.js")]
    addresses = re.findall(r"https?://[^\"'` ]*", "".join(files))
    assert set(addresses) == {"http://www.w3.org/2000/svg"}, "the name of a kind of XML, which no browser loads"


@pytest.mark.parametrize("chart", [draw_whole(*found) for found in all_charts()], ids=lambda chart: chart.name)
def test_each_state_has_a_group_in_a_picture_of_its_chart(chart: DrawnChart) -> None:
    one = site()
    for state in chart.states:
        pictures = machine_now(chart.machine, state).pictures
        answers = {name: one.get(f"{one.root}charts/{name}.svg") for name in pictures}
        assert all(answer.status == 200 and b"<style" not in answer.body for answer in answers.values())
        assert any(is_drawn(pictures[name], answer.body) for name, answer in answers.items()), state


def is_drawn(state: str, picture: bytes) -> bool:
    groups = [element.get("data-state") for element in ET.fromstring(picture).iter()]  # noqa: S314 - our own
    return groups.count(state) == 1


OTHERS = ["", "/", "/snapshot", "{wrong}snapshot", "{half}snapshot", "/é/", "{root}nothing", "{root}page"]
OTHERS += ["{root}charts/none.svg", "{root}charts/", "{root}../server.py", "{root}page/page.css", "{root}page.css/x"]
OTHERS += ["{root}snapshot/x"]


@pytest.mark.parametrize("target", OTHERS)
def test_nothing_else_is_there(target: str) -> None:
    one = site()
    given = target.format(root=one.root, wrong=site().root, half=one.root[:8])
    assert one.get(given).status == 404
    assert one.post(given).status == 404


def test_a_fault_is_set_by_its_place_in_the_list_and_only_with_the_secret() -> None:
    done: list[str] = []
    one = site(first=lambda: done.append("first"), second=lambda: done.append("second"))
    assert one.post(f"{one.root}faults/1").status == 204
    assert [one.post(one.root + name).status for name in ("faults/2", "faults/-1", "faults/", "faults/x")] == [404] * 4
    assert one.post("/faults/0").status == 404
    assert one.get(f"{one.root}faults/0").status == 404
    assert done == ["second"]


def test_what_has_ended_says_so() -> None:
    def ended() -> Snapshot:
        raise AlreadyClosed("the broker is not running")

    one = site(ended, cut=ended)
    answers = [one.get(f"{one.root}snapshot"), one.post(f"{one.root}faults/0")]
    assert [(answer.status, json.loads(answer.body)) for answer in answers] == [
        (503, {"reason": "the broker is not running"})
    ] * 2
