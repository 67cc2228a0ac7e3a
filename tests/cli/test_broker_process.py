import io
import os
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

import pulsar_actors as pulsar
from pulsar_actors.cli import broker_process
from pulsar_actors.cli.broker_process import BrokerProcess, serve


def test_it_serves_clients_from_a_process_of_its_own_and_ends_with_the_block() -> None:
    with BrokerProcess() as broker:
        process = broker._process
        assert process.pid != os.getpid()
        assert os.getsid(process.pid) != os.getsid(0)  # so Ctrl-C, in a terminal, does not reach it
        with pulsar.Client(broker.service_url) as client, client.create_producer("t") as producer:
            producer.send(b"hello")
    assert process.returncode == 0


def test_it_stores_a_message_once_that_is_published_twice() -> None:
    with BrokerProcess() as broker, pulsar.Client(broker.service_url) as client:
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        with client.create_producer("t") as producer:
            for content, sequence_id in ((b"one", 1), (b"one", 1), (b"two", 2)):
                producer.send(content, sequence_id=sequence_id)
        assert [reader.read_next(10_000).data() for _ in range(2)] == [b"one", b"two"]
        assert not reader.has_message_available()


def test_it_ends_when_its_parent_is_killed() -> None:
    script = (
        "from pulsar_actors.cli.broker_process import BrokerProcess\n"
        "with BrokerProcess() as broker: print(broker.service_url, flush=True); input()"
    )
    with subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        url = urlsplit(parent.stdout.readline().strip())
        with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
            parent.kill()
            assert connection.recv(1) == b""  # the broker is gone, and its connections with it


def test_one_that_does_not_end_in_time_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_process, "_STOP_SECONDS", 0.2)
    with BrokerProcess() as broker:
        process = broker._process
        process.send_signal(signal.SIGSTOP)
    assert process.returncode == -signal.SIGKILL


def test_one_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_process, "_COMMAND", (sys.executable, "-c", ""))
    with pytest.raises(OSError, match="the embedded broker did not start"):
        BrokerProcess().__enter__()


def test_the_child_says_its_url_and_serves_until_its_input_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[list[str]] = []

    class Input(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            with pulsar.Client(capsys.readouterr().out.strip()) as client:
                served.append(client.get_topic_partitions("t"))
            return ""

    monkeypatch.setattr(sys, "stdin", Input())
    serve()
    assert served == [["persistent://public/default/t"]]
