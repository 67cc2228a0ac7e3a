"""The commands on the pages do what is said of them."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import pulsar_actors as pulsar
from pulsar_actors.__main__ import COMMANDS
from pulsar_actors.broker import EmbeddedBroker
from tests.docs.pages import ROOT, blocks, shell


def call_web(broker: EmbeddedBroker, method: str, path: str, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    asked = Request(f"{broker.web_url}/admin/v2{path}", body.encode(), headers, method=method)  # noqa: S310 - our own broker
    urlopen(asked, timeout=10).close()  # noqa: S310 - our own broker


def test_the_call_that_makes_a_partitioned_topic_does_so() -> None:
    call = shell("docs/sending-and-receiving.md", "/partitions")
    put = r"^curl -X PUT -H 'Content-Type: application/json' -d (\d+) \$web(/persistent/\S+/payments/partitions)$"
    (found,) = re.finditer(put, call, re.MULTILINE)
    with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
        call_web(broker, "PUT", found[2], found[1])
        assert len(client.get_topic_partitions("payments")) == int(found[1])


def test_the_calls_that_switch_deduplication_on_do_so() -> None:
    calls = shell("docs/testing.md", "eduplication")
    posts = re.findall(r"^curl -X POST -H 'Content-Type: application/json' -d true \$web(/\S+)$", calls, re.MULTILINE)
    assert len(posts) == 2
    for path in posts:
        with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
            producer = client.create_producer("orders")
            call_web(broker, "POST", path, "true")
            broker.faults.on("receipt").close_connection()
            producer.send(b"3 apples")
            reader = client.create_reader("orders", pulsar.MessageId.earliest)
            assert reader.read_next(10_000).data() == b"3 apples"
            assert not reader.has_message_available()


def test_the_commands_send_and_write_messages() -> None:
    block = shell("docs/command-line.md", "pulsar-actors produce orders")
    with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
        command = rf"{sys.executable} -m pulsar_actors \1 -u {broker.service_url}"
        lines = [re.sub(r"pulsar-actors (\w+)", command, line.partition("#")[0]) for line in block.splitlines()]
        done = [
            subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603, S607
            for line in lines
        ]
        assert [each.stdout for each in done] == ["", "3 apples\n", ""]
        copy = client.create_reader("copies", pulsar.MessageId.earliest).read_next(10_000)
        assert (copy.data(), copy.partition_key()) == (b"3 apples", "shop 7")


def test_the_commands_with_a_schema_send_a_value_on(tmp_path: Path) -> None:
    block = shell("docs/command-line.md", "json:fruit.json")
    with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
        command = rf"{sys.executable} -m pulsar_actors \1 -u {broker.service_url}"
        script = re.sub(r"pulsar-actors (\w+)", command, block)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment, timeout=60, check=True)  # noqa: S603, S607
        reader = client.create_reader("fruit", pulsar.MessageId.earliest)
        assert [json.loads(reader.read_next(10_000).data()) for _ in range(2)] == [{"kind": "pear"}] * 2


def test_the_commands_that_measure_work_in_their_order() -> None:
    block = shell("docs/performance.md", "perf produce")
    start, *commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert start == ["pulsar-actors", "broker", "&"]
    with EmbeddedBroker() as broker:
        shorter = {"10": "2", "1000000": "10000", "pulsar://localhost:6650": broker.service_url}
        found: dict[str, Any] = {}
        for script, *words in commands:
            assert script == "pulsar-actors"
            given = [shorter.get(word, word) for word in words]
            run = subprocess.run(  # noqa: S603 - our own words
                [sys.executable, "-m", "pulsar_actors", *given, "--json", "--warmup-time", "0"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            found[words[1]] = json.loads(run.stdout.splitlines()[-1])
    assert found["produce"]["messages"] == found["consume"]["messages"] == 10_000
    assert set(found) == {"produce", "consume", "latency", "echo"}
    assert all(summary["messages"] for summary in found.values())


def test_every_command_is_in_the_table_and_no_other() -> None:
    table = (ROOT / "docs/command-line.md").read_text().split("## Messages")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == {command.name for command in COMMANDS}


def test_the_first_one_liner_ends_with_the_demo_and_the_demo_runs() -> None:
    first = blocks(ROOT / "README.md", "sh")[0].code
    *_, command = first.split(" && ")
    python, *arguments = shlex.split(command)
    assert (python, arguments) == (".venv/bin/python", ["-m", "pulsar_actors", "demo"])
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, *arguments, "--messages", "5000", "--no-spark"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified     all 5,000: " in done.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_commands_that_install_are_lines_of_their_own(page: str) -> None:
    commands = [block.code for block in blocks(ROOT / page, "sh")]
    assert [block.count("\n") for block in commands] == [1, 1]
    assert all(".venv/bin/python" in block for block in commands)


def test_the_second_one_liner_runs_the_tests() -> None:
    assert blocks(ROOT / "README.md", "sh")[1].code.endswith(".venv/bin/python -m pytest -n auto\n")
