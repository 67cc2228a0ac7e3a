import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

import pulsar_actors as pulsar
from pulsar_actors.__main__ import main
from pulsar_actors.cli import broker
from pulsar_actors.cli.broker import BROKER, BrokerProcess, serve_until_stdin_ends
from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId

FREE = ("--port", "0", "--web-port", "0")


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "pulsar_actors", "broker", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        try:
            yield process
        finally:
            process.kill()


def lines_until_ready(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    said = ""
    while "ready" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


def test_the_broker_prints_its_addresses_and_ends_on_ctrl_c_without_a_traceback() -> None:
    with running(*FREE) as process:
        said = lines_until_ready(process)
        urls = re.findall(r"(pulsar|http)://127\.0\.0\.1:(\d+)", said)
        assert [scheme for scheme, _ in urls] == ["pulsar", "http"]
        for _, port in urls:
            socket.create_connection(("127.0.0.1", int(port)), timeout=10).close()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
        assert (process.returncode, out, errors) == (0, "stopped\n", "")


def test_a_port_that_is_in_use_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        for arguments in (("--port", port, "--web-port", "0"), ("--port", "0", "--web-port", port)):
            assert main(["broker", *arguments]) == 1
            said = capsys.readouterr()
            assert said.err.startswith(f"cannot listen on port {port} of 127.0.0.1: ")
            assert len(said.err.splitlines()) == 1
            assert said.out == ""


def test_an_invalid_address_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--host", "", *FREE]) == 1
    said = capsys.readouterr()
    assert said.err == "host is the address to listen on, such as 127.0.0.1, not ''\n"
    assert said.out == ""


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
@pytest.mark.parametrize("which", ["--port", "--web-port"])
def test_a_port_out_of_range_is_refused_with_the_range(
    which: str, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["broker", f"{which}={port}"])
    said = capsys.readouterr().err
    assert said.startswith("usage: python -m pulsar_actors broker ")
    assert f"argument {which}: takes a whole number from 0 to 65,535, got '{port}'" in said


@pytest.mark.parametrize(("option", "stored"), [((), 2), (("--deduplication",), 1)])
def test_with_deduplication_a_repeated_message_is_stored_once(option: tuple[str, ...], stored: int) -> None:
    with running(*FREE, *option) as process:
        (url,) = re.findall(r"pulsar://\S+", lines_until_ready(process))
        with Client(url) as client:
            for _ in range(2):
                with client.create_producer("t", producer_name="till-3") as producer:
                    producer.send(b"3 apples", sequence_id=7)
            with client.create_reader("t", MessageId.earliest) as reader:
                assert [reader.read_next(10_000).data() for _ in range(stored)] == [b"3 apples"] * stored
                assert not reader.has_message_available()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_the_default_ports_are_those_of_pulsar() -> None:
    parser = ArgumentParser()
    BROKER.configure(parser)
    parsed = parser.parse_args([])
    assert (parsed.host, parsed.port, parsed.web_port) == ("127.0.0.1", 6650, 8080)
    assert "6650" in parser.format_help()
    assert "8080" in parser.format_help()


def test_the_broker_waits_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupter = threading.Thread(target=signal.pthread_kill, args=(threading.get_ident(), signal.SIGINT), daemon=True)

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            interrupter.start()
            return super().wait(timeout)

    monkeypatch.setattr(broker, "threading", SimpleNamespace(Event=Interrupted))
    with pytest.raises(KeyboardInterrupt):
        broker.wait_for_ctrl_c()
    interrupter.join()


def test_an_interrupt_is_a_regular_end_of_the_broker(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    monkeypatch.setattr(broker, "wait_for_ctrl_c", interrupt)
    assert main(["broker", *FREE]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("stopped\n")
    assert said.err == ""
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended meanwhile


def test_a_broker_process_serves_clients_and_ends_with_the_block() -> None:
    with BrokerProcess() as started:
        process = started._process
        assert process.pid != os.getpid()
        assert os.getsid(process.pid) != os.getsid(0)  # so Ctrl-C, in a terminal, does not reach it
        with pulsar.Client(started.service_url) as client, client.create_producer("t") as producer:
            producer.send(b"hello")
    assert process.returncode == 0


def test_a_broker_process_stores_a_repeated_message_once() -> None:
    with BrokerProcess() as started, pulsar.Client(started.service_url) as client:
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        with client.create_producer("t") as producer:
            for content, sequence_id in ((b"one", 1), (b"one", 1), (b"two", 2)):
                producer.send(content, sequence_id=sequence_id)
        assert [reader.read_next(10_000).data() for _ in range(2)] == [b"one", b"two"]
        assert not reader.has_message_available()


def test_a_broker_process_ends_when_its_parent_is_killed() -> None:
    script = (
        "from pulsar_actors.cli.broker import BrokerProcess\n"
        "with BrokerProcess() as started: print(started.service_url, flush=True); input()"
    )
    with subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        url = urlsplit(parent.stdout.readline().strip())
        with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
            parent.kill()
            assert connection.recv(1) == b""  # the broker is gone, and its connections with it


def test_a_broker_process_that_does_not_end_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_STOP_SECONDS", 0.2)
    with BrokerProcess() as started:
        process = started._process
        process.send_signal(signal.SIGSTOP)
    assert process.returncode == -signal.SIGKILL


def test_a_broker_process_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_CHILD_COMMAND", (sys.executable, "-c", ""))
    with pytest.raises(OSError, match="the embedded broker did not start"):
        BrokerProcess().__enter__()


def test_the_child_prints_its_url_and_serves_until_its_input_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[list[str]] = []

    class Input(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            with pulsar.Client(capsys.readouterr().out.strip()) as client:
                served.append(client.get_topic_partitions("t"))
            return ""

    monkeypatch.setattr(sys, "stdin", Input())
    serve_until_stdin_ends()
    assert served == [["persistent://public/default/t"]]
