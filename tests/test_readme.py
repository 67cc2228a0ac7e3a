"""The README is run from top to bottom: what a newcomer copies works, and prints what is said of it.

The blocks of Python share their names, as in one session; those below the quick start run alone as well, each in a
process of its own. Of the two one-liners at the top, the part that runs the demo is run here; `.ci/leg` runs both of
them whole, installing included.
"""

import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandSendReceipt

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
TEXT = README.read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
ALONE = [block for block in PYTHON if TEXT.index(block) > TEXT.index("## Connecting and authenticating")]

Run = Callable[[str], str]


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    names: dict[str, Any] = {"__name__": "readme"}
    logger = logging.getLogger("pulsar_actors")
    level = logger.level
    yield names
    logger.setLevel(level)
    names["client"].close()
    names["broker"].stop()


@pytest.fixture(scope="module")
def outputs(names: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each block prints, all of them run in their order."""
    outputs: list[str] = []
    os.chdir(tmp_path_factory.mktemp("readme"))  # one writes a file
    for block in PYTHON:
        lines: list[str] = []
        names["print"] = lambda *words, lines=lines: lines.append(" ".join(map(str, words)))
        exec(compile(block, str(README), "exec"), names)  # noqa: S102 - our own text
        outputs.append("\n".join(lines))
    os.chdir(ROOT)
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


def test_a_table_view_has_the_latest_values(output: Run) -> None:
    assert output("create_table_view").splitlines() == ["apples b'3.20'", "b'3.40' 1 False"]


def test_a_reader_reads_the_whole_topic(output: Run) -> None:
    assert output("with client.create_reader").splitlines() == ["b'3 apples'", "b'2 pears'", "b'1 plum'"]


def test_a_listener_hears_what_is_sent_from_then_on(output: Run) -> None:
    assert output("message_listener=hear").splitlines() == ["heard b'4 figs'"]


def test_the_futures_have_an_id_and_a_message(output: Run) -> None:
    assert re.fullmatch(r"\(\d+,\d+,-1,-1\) b'4 figs'", output("receive_async"))


def test_all_of_the_many_messages_are_stored(output: Run) -> None:
    assert output("batching_enabled=True") == ""
    assert output("fast.send_many") == "5001 stored"
    assert re.fullmatch(r"15001 0 \d+", output("fast.stats().sent"))


def call_web(broker: EmbeddedBroker, method: str, path: str, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    asked = Request(f"{broker.web_url}/admin/v2{path}", body.encode(), headers, method=method)  # noqa: S310 - our own broker
    urlopen(asked, timeout=10).close()  # noqa: S310 - our own broker


def test_the_call_that_makes_a_partitioned_topic_does_so() -> None:
    (call,) = [block for block in SHELL if "/partitions" in block]
    put = r"^curl -X PUT -H 'Content-Type: application/json' -d (\d+) \$web(/persistent/\S+/payments/partitions)$"
    (found,) = re.finditer(put, call, re.MULTILINE)
    with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
        call_web(broker, "PUT", found[2], found[1])
        assert len(client.get_topic_partitions("payments")) == int(found[1])


def test_who_has_a_token_is_let_in_and_who_has_none_is_told_so(output: Run) -> None:
    stored, refused = output("authentication=alice").splitlines()
    assert re.fullmatch(r"stored at \(\d+,0,-1,-1\)", stored)
    assert refused.endswith("this broker wants a token, and the client came with nothing")


def test_the_commands_send_and_write_messages() -> None:
    (block,) = [block for block in SHELL if "pulsar-actors produce" in block]
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


def test_every_name_in_the_table_of_features_can_be_used() -> None:
    table = TEXT.split("| to | use |")[1].split("\n\n")[0]
    calls = (pulsar.Client, pulsar.Client.subscribe, pulsar.Client.create_producer, pulsar.Producer.send)
    handles = {name for one in (pulsar.Client, pulsar.Producer, pulsar.Consumer, pulsar.Reader) for name in dir(one)}
    known = {*handles, *pulsar.__all__, *(name for call in calls for name in signature(call).parameters)}
    named = set(re.findall(r"`(\w+)`", table))
    assert {"deliver_after", "access_mode", "seek"} <= named
    assert named - known == set()


def test_the_fault_of_the_broker_has_happened_and_cost_one_connection(output: Run) -> None:
    assert output("print(fault.happened") == "1 1"


def test_the_history_tells_of_the_lost_connection(output: Run) -> None:
    assert "READY -> WAITING on detached (ConnectionLost)" in output("producer.history()")


def test_a_test_with_the_plugin_passes(pytester: pytest.Pytester) -> None:
    (block,) = [block for block in PYTHON if "pulsar_fault" in block]
    pytester.makepyfile(block)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_receipt_that_is_lost_stores_a_message_twice_unless_there_is_deduplication(output: Run) -> None:
    said = output("Settings(deduplication=True)").splitlines()
    assert said == ["False b'3 apples'", "False b'3 apples'", "True b'3 apples'"]


def run_alone(block: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "error", "-c", block]
    with TemporaryDirectory() as folder:  # one writes a file
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own text


@pytest.mark.parametrize("block", ALONE, ids=lambda block: block.splitlines()[-1].strip())
def test_a_block_below_the_quick_start_runs_alone(block: str) -> None:
    done = run_alone(block)
    assert done.returncode == 0, done.stderr


def test_the_log_tells_of_a_connection_that_is_made_and_one_that_is_closed() -> None:
    (block,) = [block for block in ALONE if "logging.basicConfig" in block]
    assert re.findall(r"^INFO:pulsar_actors:(\D+)", run_alone(block).stderr, re.MULTILINE) == [
        "connected to ",
        "the producer ",
        "the connection to ",
    ]


def test_the_calls_that_switch_deduplication_on_do_so() -> None:
    (calls,) = [block for block in SHELL if "eduplication" in block]
    posts = re.findall(r"^curl -X POST -H 'Content-Type: application/json' -d true \$web(/\S+)$", calls, re.MULTILINE)
    assert len(posts) == 2
    for path in posts:
        with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
            producer = client.create_producer("orders")
            call_web(broker, "POST", path, "true")
            broker.faults.on(CommandSendReceipt).close_connection()
            producer.send(b"3 apples")
            reader = client.create_reader("orders", pulsar.MessageId.earliest)
            assert reader.read_next(10_000).data() == b"3 apples"
            assert not reader.has_message_available()


def test_the_commands_that_measure_work_in_their_order() -> None:
    (block,) = [block for block in SHELL if "perf produce" in block]
    start, *commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert start == ["python", "-m", "pulsar_actors", "broker", "&"]
    with EmbeddedBroker() as broker:
        shorter = {"10": "2", "1000000": "10000", "pulsar://localhost:6650": broker.service_url}
        found: dict[str, Any] = {}
        for python, *words in commands:
            assert python == "python"
            run = subprocess.run(  # noqa: S603 - our own words
                [sys.executable, *(shorter.get(word, word) for word in words), "--json", "--warmup-time", "0"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            found[words[3]] = json.loads(run.stdout.splitlines()[-1])
    assert found["produce"]["messages"] == found["consume"]["messages"] == 10_000
    assert set(found) == {"produce", "consume", "latency", "echo"}
    assert all(summary["messages"] for summary in found.values())


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
        [sys.executable, *arguments, "--messages", "5000", "--no-spark"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified     all 5,000: " in done.stdout


def test_the_second_one_liner_runs_the_tests() -> None:
    assert SHELL[1].endswith(".venv/bin/python -m pytest -n auto\n")
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
