"""The demo's second half, and what it says where Spark cannot be had."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.cli.pipeline import show_pipeline
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, ServerError

TOPIC = "persistent://public/default/rows"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.mark.spark
def test_the_demo_ends_with_a_pipeline_and_leaves_nothing_on_the_broker(
    broker: EmbeddedBroker, subscriptions: Callable[[], list[str]]
) -> None:
    command = [sys.executable, "-m", "pulsar_actors", "demo", "--messages", "20", "--service-url", broker.service_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)  # noqa: S603 - our own words
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(
        r"^a pipeline on a Spark that is started for it\n"
        r"written      20,000 rows in \d+\.\d\d s, from a table to a topic\n"
        r"copied       20,000 rows in \d+\.\d\d s, by a stream, doubled, to another topic\n"
        r"read         20,000 rows in \d+\.\d\d s, from there, into a table\n"
        r"verified     all 20,000: none is missing\n\Z",
        done.stdout,
        re.MULTILINE,
    )
    assert subscriptions() == []


@pytest.mark.spark
def test_a_pipeline_that_fails_prints_the_log_of_spark_and_makes_the_exit_status_1(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.faults.on(CommandSend, times=None).refuse(ServerError.TopicTerminatedError, "it is over")
    assert show_pipeline(broker.service_url, TOPIC) == 1
    said = capsys.readouterr()
    assert said.err.startswith("failed:\n")
    assert "TopicTerminated" in said.err
    assert "verified" not in said.out


@pytest.mark.spark
def test_ctrl_c_ends_a_pipeline_and_leaves_nothing_on_the_broker(
    broker: EmbeddedBroker, subscriptions: Callable[[], list[str]]
) -> None:
    program = f"from pulsar_actors.cli.pipeline import show_pipeline; show_pipeline({broker.service_url!r}, {TOPIC!r})"
    with subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("written"):
            assert process.poll() is None
        broker.faults.on(CommandSend, times=None).stall()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert said.strip().endswith("KeyboardInterrupt")
    assert subscriptions() == []


def test_a_missing_pyspark_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pyspark'] = None")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert_says(capsys, "pulsar_actors.spark needs PySpark and PyArrow: pip install 'pulsar-actors[spark]'")


@pytest.mark.spark
@pytest.mark.parametrize("version", ["3.5.1", "4.0.0"])
def test_an_old_pyspark_is_reported(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyspark.py").write_text(f"__version__ = {version!r}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert_says(capsys, f"pulsar_actors.spark needs PySpark 4.1 or later, and this is {version}")


@pytest.mark.spark
def test_a_missing_java_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_says(capsys, "Spark needs Java 17 or later, and there is no java")


@pytest.mark.spark
@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_an_old_java_is_reported(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert_says(capsys, f'Spark needs Java 17 or later, and {java} says that it is openjdk version "{version}"')


def assert_says(capsys: pytest.CaptureFixture[str], missing: str) -> None:
    assert show_pipeline("pulsar://127.0.0.1:1", TOPIC) == 0
    assert capsys.readouterr().out.startswith(f"Spark        is not shown: {missing}")
