"""The README is run from top to bottom: what a newcomer copies works, and prints what is said of it.

The blocks of Python share their names, as in one session. Of the two one-liners at the top, the part that runs the demo
is run here; `.ci/leg` runs both of them whole, installing included.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as pulsar

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
TEXT = README.read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)

Run = Callable[[str], str]


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    names: dict[str, Any] = {"__name__": "readme"}
    yield names
    names["client"].close()
    names["broker"].stop()


@pytest.fixture(scope="module")
def outputs(names: dict[str, Any]) -> list[str]:
    """What each block prints, all of them run in their order."""
    outputs: list[str] = []
    for block in PYTHON:
        lines: list[str] = []
        names["print"] = lambda *words, lines=lines: lines.append(" ".join(map(str, words)))
        exec(compile(block, str(README), "exec"), names)  # noqa: S102 - our own text
        outputs.append("\n".join(lines))
    return outputs


@pytest.fixture
def output(outputs: list[str]) -> Run:
    """The output of the one block that has these words in it."""

    def find(words: str) -> str:
        (index,) = [index for index, block in enumerate(PYTHON) if words in block]
        return outputs[index]

    return find


def test_what_is_consumed_is_what_was_produced(output: Run) -> None:
    assert output("consumer.receive(timeout") == "b'3 apples' fruit {'customer': '7'}"


def test_iterating_gives_what_came_next(output: Run) -> None:
    assert output("for message in consumer:").splitlines() == ["b'2 pears'", "b'1 plum'"]


def test_a_reader_reads_the_whole_topic(output: Run) -> None:
    assert output("create_reader").splitlines() == ["b'3 apples'", "b'2 pears'", "b'1 plum'"]


def test_a_listener_hears_what_is_sent_from_then_on(output: Run) -> None:
    assert output("message_listener=hear").splitlines() == ["heard b'4 figs'"]


def test_the_futures_have_an_id_and_a_message(output: Run) -> None:
    assert re.fullmatch(r"\(\d+,\d+,-1,-1\) b'4 figs'", output("receive_async"))


def test_all_of_the_many_messages_are_stored(output: Run) -> None:
    assert output("batching_enabled=True") == ""
    assert re.fullmatch(r"10000 0 \d+", output("fast.stats().sent"))


def test_the_fault_of_the_broker_has_happened_and_cost_one_connection(output: Run) -> None:
    assert output("close_connection()") == "1 1"


def test_a_wrong_argument_is_explained(output: Run) -> None:
    assert output("except pulsar.InvalidArgument").startswith("a service URL begins with one of pulsar://, ")


def test_the_example_of_a_machine_shows_a_lookup_that_asks(output: Run) -> None:
    *_, last = output("lookup.handle").splitlines()
    assert last.endswith("timeout=30.0)] -> ASKING")


def test_the_first_one_liner_ends_with_the_demo_and_the_demo_runs() -> None:
    *_, command = SHELL[0].split(" && ")
    python, *arguments = shlex.split(command)
    assert (python, arguments) == (".venv/bin/python", ["-m", "pulsar_actors", "demo"])
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, *arguments, "--messages", "5000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified     all 5,000: " in done.stdout


def test_the_second_one_liner_runs_the_tests() -> None:
    assert SHELL[1].endswith(".venv/bin/python -m pytest\n")
    assert [block.count("\n") for block in SHELL[:2]] == [1, 1]


def test_every_file_that_it_links_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_error_that_it_names_exists() -> None:
    section = TEXT.split("## Errors")[1].split("\n## ")[0]
    errors = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+|Timeout|Interrupted)`", section)) - {"ValueError"}
    assert {"InvalidArgument", "OutcomeUnknown", "InternalError"} <= errors
    assert {name for name in errors if not issubclass(getattr(pulsar, name), pulsar.PulsarException)} == set()
