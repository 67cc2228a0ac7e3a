import re
import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.version import compiled
from tests.benchmarks import hot_paths


@pytest.mark.skipif(compiled, reason="a compiled client has no stopwatches")
def test_every_step_is_found_and_takes_time() -> None:
    with EmbeddedBroker() as broker:
        told = subprocess.run(  # noqa: S603 - a program of ours
            [sys.executable, hot_paths.__file__, "--service-url", broker.service_url, "--messages", "4000"],
            cwd=Path(hot_paths.__file__).parent,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
    produce, rest = told.split("receive, data and acknowledge:")
    consume, sends = rest.split("send, one after the other")
    (calls,) = re.findall(r"(\d+) Python calls", sends)
    assert 100 < int(calls) < 300
    assert re.search(r" 0\.0  transitions$", sends, re.MULTILINE)
    (ours, library), *_ = re.findall(r"charts: ([\d,]+) ns .*; ([\d,]+) as", sends)
    assert 2 * int(ours.replace(",", "")) < int(library.replace(",", ""))
    paths = re.findall(r"([\d.]+) rows, .* ns, ([\d.]+) of them recorded, for (.*)$", sends, re.MULTILINE)
    rows = {what: float(many) for many, _, what in paths}
    assert rows["a message sent in a batch"] < rows["a send()"] / 4
    created_and_closed = 40 / min(4000, 2 * hot_paths.SENDS + hot_paths.COUNTED)
    assert all(float(recorded) < created_and_closed for _, recorded, _ in paths), "messages are not recorded"
    for part, steps in ((produce, hot_paths.PRODUCING), (consume, hot_paths.CONSUMING)):
        for step in steps:
            found = re.search(rf"[\d,]+  {re.escape(step.what)}$", part, re.MULTILINE)
            assert found, f"{step.what} is no longer what {step.name} does, or not on this path"
