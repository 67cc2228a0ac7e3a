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

import pytest

from pulsar_actors.__main__ import main
from pulsar_actors.cli import broker
from pulsar_actors.cli.broker import BROKER
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


def test_it_says_where_it_listens_when_it_does_and_ends_on_ctrl_c_without_a_trace() -> None:
    with running(*FREE) as process:
        said = lines_until_ready(process)
        urls = re.findall(r"(pulsar|http)://127\.0\.0\.1:(\d+)", said)
        assert [scheme for scheme, _ in urls] == ["pulsar", "http"]
        for _, port in urls:
            socket.create_connection(("127.0.0.1", int(port)), timeout=10).close()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
        assert (process.returncode, out, errors) == (0, "stopped\n", "")


def test_a_port_that_is_in_use_is_a_sentence_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        for arguments in (("--port", port, "--web-port", "0"), ("--port", "0", "--web-port", port)):
            assert main(["broker", *arguments]) == 1
            said = capsys.readouterr()
            assert said.err.startswith(f"cannot listen on port {port} of 127.0.0.1: ")
            assert len(said.err.splitlines()) == 1
            assert said.out == ""


def test_an_address_that_is_none_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--host", "", *FREE]) == 1
    said = capsys.readouterr()
    assert said.err == "host is the address to listen on, such as 127.0.0.1, not ''\n"
    assert said.out == ""


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
@pytest.mark.parametrize("which", ["--port", "--web-port"])
def test_a_port_that_is_none_is_refused_with_the_range(
    which: str, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["broker", f"{which}={port}"])
    said = capsys.readouterr().err
    assert said.startswith("usage: python -m pulsar_actors broker ")
    assert f"argument {which}: takes a whole number from 0 to 65,535, got '{port}'" in said


@pytest.mark.parametrize(("option", "stored"), [((), 2), (("--deduplication",), 1)])
def test_what_is_sent_again_is_stored_once_if_that_is_asked_for(option: tuple[str, ...], stored: int) -> None:
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


def test_pulsars_own_ports_are_the_usual_ones() -> None:
    parser = ArgumentParser()
    BROKER.configure(parser)
    parsed = parser.parse_args([])
    assert (parsed.host, parsed.port, parsed.web_port) == ("127.0.0.1", 6650, 8080)
    assert "6650" in parser.format_help()
    assert "8080" in parser.format_help()


def test_it_waits_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupter = threading.Thread(target=signal.pthread_kill, args=(threading.get_ident(), signal.SIGINT), daemon=True)

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            interrupter.start()
            return super().wait(timeout)

    monkeypatch.setattr(broker, "threading", SimpleNamespace(Event=Interrupted))
    with pytest.raises(KeyboardInterrupt):
        broker.wait_for_ever()
    interrupter.join()


def test_it_ends_well_when_it_is_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before = threading.enumerate()
    monkeypatch.setattr(broker, "wait_for_ever", interrupt)
    assert main(["broker", *FREE]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("stopped\n")
    assert said.err == ""
    assert threading.enumerate() == before
