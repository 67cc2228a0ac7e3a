"""The program prints what it promises; and the Python calls of a message, which no load of the machine changes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.version import compiled
from tests.benchmarks import telemetry_cost
from tests.benchmarks.telemetry_cost import SETUPS, WAYS

LINE = re.compile(r"^  (.+?) +[\d.]+ us, +[\d.]+ times nothing \(.+\); +(\d+) Python calls, (\d+) of", re.MULTILINE)

MOST_CALLS = {"metrics": 6, "times_of_messages": 36, "traces": 125, "traces, 1 of 100 sampled": 115}
"""Python calls of our own for a message in batches."""


@pytest.mark.skipif(compiled, reason="a compiled client has calls that are not counted")
def test_each_setup_has_its_ratio_and_few_calls_are_our_own() -> None:
    with EmbeddedBroker() as broker:
        told = subprocess.run(  # noqa: S603 - a program of ours
            [
                *(sys.executable, telemetry_cost.__file__, "--service-url", broker.service_url),
                *("--messages", "1000", "--rounds", "2"),
            ],
            cwd=Path(telemetry_cost.__file__).parent,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
    lines = LINE.findall(told)
    assert [name for name, _, _ in lines] == [*SETUPS] * len(WAYS), told
    ours = {name: int(calls) for name, _, calls in lines[: len(SETUPS)]}
    assert {name: most for name, most in MOST_CALLS.items() if ours[name] > most} == {}, ours
    (changes,) = re.findall(r"the history: ([\d.]+) changes of state a message", told)
    assert float(changes) == 0.0, "messages are not recorded"
