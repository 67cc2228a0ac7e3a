"""The names in the tables of the pages exist, and their links lead to something."""

import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.faults import Faults
from pulsar_actors.otel.metrics import COUNTERS, GAUGES
from tests.docs.pages import DOCS, ROOT, blocks, pages


def test_every_name_in_the_table_of_features_can_be_used() -> None:
    table = (DOCS / "sending-and-receiving.md").read_text().split("| to | use |")[1].split("\n\n")[0]
    calls = (pulsar.Client, pulsar.Client.subscribe, pulsar.Client.create_producer, pulsar.Producer.send)
    handles = {name for one in (pulsar.Client, pulsar.Producer, pulsar.Consumer, pulsar.Reader) for name in dir(one)}
    known = {*handles, *pulsar.__all__, *(name for call in calls for name in signature(call).parameters)}
    named = set(re.findall(r"`(\w+)`", table))
    assert {"deliver_after", "access_mode", "seek"} <= named
    assert named - known == set()


def test_the_commands_of_faults_are_sent_by_the_side_that_the_table_names() -> None:
    table = (DOCS / "testing.md").read_text().split("| sent by | names |")[1].split("\n\n")[0]
    faults = Faults(lambda: None)
    for row in table.strip().splitlines()[1:]:
        for name in re.findall(r'"(\w+)"', row):
            assert f"sent_by='{row[2:8]}'" in repr(faults.on(name).drop())


def test_every_error_that_is_named_exists() -> None:
    section = (DOCS / "looking-inside.md").read_text().split("## Errors")[1].split("\n## ")[0]
    errors = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+|Timeout|Interrupted)`", section))
    errors -= {"ValueError", "TypeError", "KeyError", "RuntimeError", "CancelledError"}  # Python's own
    assert {"InvalidArgument", "OutcomeUnknown", "InternalError"} <= errors
    assert {name for name in errors if not issubclass(getattr(pulsar, name), pulsar.PulsarException)} == set()


def test_the_table_of_telemetry_names_each_metric() -> None:
    text = (DOCS / "telemetry.md").read_text()
    table = text[text.index("| name, below") : text.index("Those of producers and consumers")]
    named: set[str] = set()
    for row in table.strip().splitlines()[2:]:
        first, *others = re.findall(r"`([^`]*)`", row.split("|")[1])
        stem = first.rpartition(".")[0]  # which a suffix such as `.size` follows
        named |= {first, *(f"{stem}{one}" if one.startswith(".") else one for one in others)}
    read = {one.name for table in (COUNTERS, GAUGES) for several in table.values() for one in several}
    assert read <= named


def test_the_log_tells_of_a_connection_that_is_made_and_one_that_is_closed() -> None:
    (block,) = [each for each in blocks(DOCS / "looking-inside.md", "python") if "logging.basicConfig" in each.code]
    done = subprocess.run(  # noqa: S603 - our own text
        [sys.executable, "-c", block.code], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.findall(r"^INFO:pulsar_actors:(\D+)", done.stderr, re.MULTILINE) == [
        "connected to ",
        "the producer ",
        "the connection to ",
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lost: list[str] = []
    for link in re.findall(r"\]\(((?!\w+:)[^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            lost.append(link)
    assert lost == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_site_has_every_page_in_its_menu() -> None:
    menu = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    made = {"statecharts/README.md", "examples/index.md", "security.md", "contributing.md", "changelog.md"}  # by a hook
    assert menu == made | {page.relative_to(DOCS).as_posix() for page in pages()[1:]}
