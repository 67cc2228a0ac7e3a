"""`topics` with a web server that is none of Pulsar's. With brokers: tests/real_broker/test_topics_command.py."""

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from pulsar_actors.__main__ import main
from pulsar_actors.broker import EmbeddedBroker
from tests.support.ports import free_ports
from tests.support.web_server import Said, web_server

TOPIC = "persistent://public/default/t"


WORDS = [["list"], ["stats", TOPIC], ["peek", TOPIC, "-s", "s"], ["terminate", TOPIC]]
BODIES = [b"<html>", b"[" * 100_000, b"7", b"[7]", b"{}", b'{"partitions": 0}']


@pytest.mark.parametrize(
    ("words", "body"),
    [(words, body) for words in WORDS for body in BODIES if words != ["list"] or not body.startswith(b"{")],
)
def test_what_is_no_answer_of_pulsar_is_told_in_a_line(
    words: list[str], body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with web_server() as server:
        server.answer = lambda _: Said(body=body)
        assert main(["topics", *words, "-u", server.url]) == 1
    said = capsys.readouterr().err
    assert said.startswith("failed: ")
    assert len(said.splitlines()) == 1


def test_a_server_that_does_not_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "-u", f"http://127.0.0.1:{free_ports(1)[0]}"]) == 1
    assert capsys.readouterr().err.startswith("failed: no connection to 127.0.0.1:")


@pytest.mark.parametrize("url", ["nonsense", "pulsar://127.0.0.1:6650", ""])
def test_an_address_that_is_none_of_a_web_server_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "-u", url]) == 1
    needed = "--admin-url is the address of the brokers' web server, such as http://host:8080"
    assert capsys.readouterr().err == f"failed: {needed}\n"


@pytest.mark.parametrize("rest", ["/foo", "/admin/v2", "//", "?a=b", "#top"])
def test_an_address_with_a_path_is_refused(rest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "-u", f"http://127.0.0.1:8080{rest}"]) == 1
    needed = "--admin-url ends after its hosts, as http://host:8080 does: it takes no path"
    assert capsys.readouterr().err == f"failed: {needed}\n"


@pytest.mark.parametrize(("words", "partitions"), [([], 0), (["-p", "2"], 2)])
def test_what_is_created_and_terminated_is_told_in_json(
    words: list[str], partitions: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedBroker() as broker:
        for action in ("create", TOPIC, *words), ("terminate", TOPIC):
            assert main(["topics", *action, "--json", "-u", broker.web_url]) == 0
    created, terminated = map(json.loads, capsys.readouterr().out.splitlines())
    assert created == {"topic": TOPIC, "partitions": partitions}
    last = [terminated] if not partitions else [terminated["0"], terminated["1"]]
    assert all(isinstance(each["ledgerId"], int) and each["entryId"] == -1 for each in last)


def program(*words: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pulsar_actors", "topics", *words]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # noqa: S603


def test_ctrl_c_while_a_server_does_not_answer_is_told_in_a_line() -> None:
    asked, ends = threading.Event(), threading.Event()

    def silent(_: object) -> Said:
        asked.set()
        ends.wait(60)
        return Said()

    with web_server() as server:
        server.answer = silent
        with program("list", "-u", server.url) as running:
            assert asked.wait(60)
            running.send_signal(signal.SIGINT)
            try:
                assert running.communicate(timeout=30) == ("", "stopped\n")
            finally:
                ends.set()
            assert running.returncode == 130


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_who_reads_the_output_may_go_away(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with web_server() as server:
        server.answer = lambda _: Said(body=b'["t"]')
        with program("list", "-u", server.url, env=environment) as running:
            assert running.stdout is not None
            running.stdout.close()
            assert running.wait(60) == 141
            assert running.stderr is not None
            assert running.stderr.read() == ""
