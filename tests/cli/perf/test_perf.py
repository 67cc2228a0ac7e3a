"""Whole measurements, on the embedded broker: what they say is held against what the broker has."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import pulsar_actors
from pulsar_actors.__main__ import main
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, ServerError
from tests.support.life import SOON, closed_port

Perf = Callable[..., dict[str, Any]]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def perf(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> Perf:
    """Measure, and give the summary that it says in JSON."""

    def measured(*words: str, status: int = 0) -> dict[str, Any]:
        assert main(["perf", *words, "-u", broker.service_url, "--json", "--warmup-time", "0"]) == status
        *_, summary = capsys.readouterr().out.splitlines()
        found = json.loads(summary)
        assert found["kind"] == "summary"
        return found

    return measured


def stored(broker: EmbeddedBroker, topic: str) -> list[pulsar_actors.Message]:
    with pulsar_actors.Client(broker.service_url) as client:
        reader = client.create_reader(topic, pulsar_actors.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(10_000))
        return found


def subscriptions(broker: EmbeddedBroker, topic: str) -> list[str]:
    with urlopen(f"{broker.web_url}/admin/v2/persistent/public/default/{topic}/subscriptions", timeout=10) as answer:  # noqa: S310 - our own broker
        return json.load(answer)


def test_produce_sends_as_many_messages_as_it_reports(broker: EmbeddedBroker, perf: Perf) -> None:
    summary = perf("produce", "t", "-r", "0", "-m", "2500", "-s", "60", "--property", "a=b", "-mk", "autoIncrement")
    assert (summary["messages"], summary["bytes"], summary["failed"]) == (2500, 150_000, 0)
    assert summary["latency_ms"]["timed"] == 50
    found = stored(broker, "t")
    assert [message.partition_key() for message in found] == [str(number) for number in range(2500)]
    assert {len(message.data()) for message in found} == {60}
    assert {tuple(message.properties().items()) for message in found} == {(("a", "b"),)}


def test_produce_spreads_over_topics_producers_and_threads(broker: EmbeddedBroker, perf: Perf) -> None:
    summary = perf("produce", "t", "-r", "0", "-m", "1201", "-t", "3", "-n", "2", "-threads", "2")
    assert summary["messages"] == 1201
    assert sum(len(stored(broker, f"t-{number}")) for number in range(3)) == 1201


def test_produce_keeps_its_rate_and_times_each_message(perf: Perf) -> None:
    summary = perf("produce", "t", "-r", "400", "-m", "1000")
    assert summary["seconds"] >= 2.4
    assert summary["latency_ms"]["timed"] == summary["messages"] == 1000


def test_produce_ends_when_its_time_is_up(perf: Perf) -> None:
    summary = perf("produce", "t", "-r", "400", "-time", "1.5")
    assert summary["seconds"] >= 1.5
    assert 0 < summary["messages"] <= 400 * summary["seconds"] + 1


def test_failed_messages_are_counted_and_make_the_exit_status_1(broker: EmbeddedBroker, perf: Perf) -> None:
    broker.faults.on(CommandSend, times=None).refuse(ServerError.TopicTerminatedError, "it is over")
    summary = perf("produce", "t", "-r", "0", "-m", "7", "-db", status=1)
    assert (summary["messages"], summary["failed"]) == (0, 7)


def test_payloads_come_from_a_file(broker: EmbeddedBroker, perf: Perf, tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_text("one,two,three")
    assert perf("produce", "t", "-r", "0", "-m", "4", "-f", str(file), "-e", ",")["messages"] == 4
    assert [message.data() for message in stored(broker, "t")] == [b"one", b"two", b"three", b"one"]


def test_consume_ends_after_the_given_number_of_messages(broker: EmbeddedBroker, perf: Perf) -> None:
    perf("produce", "t", "-r", "0", "-m", "1000", "-s", "10")
    taken = ("-m", "600", "-sp", "Earliest", "-ss", "mine")
    summary = perf("consume", "t", *taken)
    assert (summary["messages"], summary["bytes"]) == (600, 6000)
    assert summary["latency_ms"]["timed"] == 12
    assert subscriptions(broker, "t") == ["mine"]


def test_consumers_share_the_number_of_messages(perf: Perf) -> None:
    perf("produce", "t", "-r", "0", "-m", "500", "-t", "2")
    shared = ("-st", "Shared", "-n", "3", "-ns", "2", "-t", "2", "-sp", "Earliest", "-q", "1")
    assert perf("consume", "t", *shared, "-m", "1000")["messages"] == 1000


def test_latency_times_from_end_to_end_and_leaves_no_subscription(broker: EmbeddedBroker, perf: Perf) -> None:
    summary = perf("latency", "t", "-m", "200", "-r", "500", "-s", "100")
    assert (summary["messages"], summary["bytes"], summary["latency_ms"]["timed"]) == (200, 20_000, 200)
    assert 0 < summary["latency_ms"]["p50"] <= summary["seconds"] * 1000
    assert 0.3 < summary["seconds"] < 10
    assert subscriptions(broker, "t") == []


def test_echo_waits_for_each_answer_and_leaves_no_subscription(broker: EmbeddedBroker, perf: Perf) -> None:
    summary = perf("echo", "t", "-m", "50", "-s", "20")
    assert (summary["messages"], summary["bytes"], summary["latency_ms"]["timed"]) == (50, 1000, 50)
    assert len(stored(broker, "t")) == len(stored(broker, "t-echo")) == 50
    assert summary["latency_ms"]["mean"] * 50 <= summary["seconds"] * 1000
    assert subscriptions(broker, "t") == subscriptions(broker, "t-echo") == []


def test_latencies_are_written_to_a_file(perf: Perf, tmp_path: Path) -> None:
    file = tmp_path / "latency.hgrm"
    perf("produce", "t", "-r", "1000", "-m", "30", "--histogram-file", str(file))
    assert "Total count    =           30]" in file.read_text()


def test_the_rate_and_the_latencies_are_drawn_over_time(perf: Perf, tmp_path: Path) -> None:
    file = tmp_path / "run.svg"
    perf("produce", "t", "-r", "1000", "-time", "1", "-i", "0.1", "--plot", str(file))
    picture = file.read_text()
    assert "perf produce t" in picture
    assert picture.count("<polyline") == 4


def test_a_plot_without_intervals_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["perf", "produce", "t", "-i", "0", "--plot", str(tmp_path / "run.svg")])
    assert "--plot draws a point for each interval" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--plot", "{here}/p.png"], "--plot writes SVG, so its file ends with .svg, not 'p.png'"),
        (["--plot", "{here}/none/p.svg"], "--plot: '{here}/none/p.svg' cannot be written"),
        (["--plot", "{here}/folder.svg"], "--plot: '{here}/folder.svg' cannot be written"),
        (["--histogram-file", "{here}/none/h"], "--histogram-file: '{here}/none/h' cannot be written"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["perf", "produce", "t", "-m", "1", *(word.format(here=tmp_path) for word in words)])
    assert ended.value.code == 2
    assert says.format(here=tmp_path) in capsys.readouterr().err


def test_a_run_without_messages_says_so(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    words = "perf", "consume", "t", "-time", "0.4", "--warmup-time", "0", "-i", "0.1", "-u", broker.service_url
    assert main(words) == 0
    *intervals, received, failed, latency = capsys.readouterr().out.splitlines()
    assert intervals
    assert all(line.endswith("no latencies") for line in intervals)
    assert received.startswith("received     0 messages in ")
    assert failed == "failed       0"
    assert latency == "latency      not measured: no message was timed"


def test_the_summary_has_the_settings_without_secrets(perf: Perf) -> None:
    summary = perf("produce", "t", "-m", "1", "--auth-plugin", "token", "--auth-params", "token:canary")
    assert summary["settings"]["num_messages"] == 1
    assert summary["settings"]["message_key_generation_mode"] == "none"
    assert "canary" not in json.dumps(summary)


def test_without_a_service_url_a_broker_is_started_and_intervals_are_reported() -> None:
    arguments = ["-r", "1000", "-time", "3", "--warmup-time", "0.3", "-i", "0.2"]
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-W", "error", "-m", "pulsar_actors", "perf", "produce", "t", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    warming = [line.endswith("(warming up)") for line in lines[:-5] if " msg/s " in line]
    assert warming == sorted(warming, reverse=True), "first it warms up, then it does not"
    assert len(set(warming)) == 2
    assert [line.split()[0] for line in lines[-5:]] == ["sent", "failed", "CPU", "latency", "mean"]


def test_ctrl_c_is_a_regular_end(broker: EmbeddedBroker) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-m", "pulsar_actors", "perf", "produce", "t", "-u", broker.service_url, "-i", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "msg/s" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "latency" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-r", "-1"], "takes a number from 0"),
        (["-r", "fast"], "takes a number from 0"),
        (["-s", "x"], "takes a whole number"),
        (["-t", "0"], "takes a whole number from 1"),
        (["-mk", "sometimes"], "invalid"),
        (["-z", "GZIP"], "invalid choice"),
        (["--property", "a"], "takes NAME=VALUE"),
        (["--warmup-time", "nan"], "takes a number from 0"),
    ],
    ids=" ".join,
)
def test_a_bad_argument_is_refused(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["perf", "produce", "t", *words])
    assert left.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-ch"], ["-f", "no-such-file"], ["-u", "nowhere"]], ids=" ".join)
def test_a_measurement_that_cannot_run_prints_the_reason(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["perf", "produce", "t", *words]) == 1
    assert capsys.readouterr().err.startswith("failed: ")


@pytest.mark.parametrize("command", ["produce", "consume", "latency", "echo"])
def test_a_measurement_without_a_broker_says_so_within_seconds(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closed_port() as nobody:
        began = time.monotonic()
        assert main(["perf", command, "t", "-u", nobody]) == 1
        assert time.monotonic() - began < SOON, "a call of the client would wait for half a minute"
        complaint = capsys.readouterr().err
        assert complaint.startswith(f"failed: ConnectError: no broker answers at {nobody}: start one, such as ")
        assert "Connection refused" in complaint


def test_without_a_measurement_all_of_them_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["perf"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("produce", "consume", "latency", "echo"))
