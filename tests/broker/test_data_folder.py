"""A broker with a data folder: what it has confirmed to a client is there after any end."""

import importlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as ours
from pulsar_actors.broker.data_folder import FILE, CommittingTransport, DataFolder
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.loop import Buffer, Transport

official: Any = importlib.import_module("pulsar")  # ships no types

WAIT_MS = 20_000


class Killed:
    """A broker in a process of its own, which is killed and started again at the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"pulsar://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "pulsar_actors", "broker", "--deduplication", "--data", str(self._folder)]
        ports = ["--port", str(self._port), "--web-port", "0"]
        self._process = subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own words
        assert self._process.stdout is not None
        while "ready" not in self._process.stdout.readline():
            assert self._process.poll() is None

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def restart(self) -> None:
        self.kill()
        self.start()


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Killed]:
    broker = Killed(tmp_path / "data")
    yield broker
    broker.kill()


@contextmanager
def broker_on(folder: Path, **options: Any) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_folder=folder, **options) as broker:
        yield broker


def received(consumer: Any, count: int) -> list[bytes]:
    return [consumer.receive(WAIT_MS).data() for _ in range(count)]


def nothing_more(consumer: Any) -> bool:
    try:
        consumer.receive(300)
    except (ours.Timeout, official.Timeout):
        return True
    return False


@pytest.mark.parametrize("api", [ours, official], ids=["ours", "the official client"])
def test_what_is_not_acknowledged_comes_again_after_a_restart_and_nothing_else(api: Any, tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker:
        client = api.Client(broker.service_url)
        consumer = client.subscribe("t", "s", api.ConsumerType.Shared)
        producer = client.create_producer("t")
        for number in range(6):
            producer.send(b"%d" % number)
        for message in [consumer.receive(WAIT_MS) for _ in range(6)]:
            if message.data() not in (b"1", b"4"):
                consumer.acknowledge(message)
        client.close()
    with broker_on(tmp_path) as broker:
        client = api.Client(broker.service_url)
        consumer = client.subscribe("t", "s", api.ConsumerType.Shared)
        assert sorted(received(consumer, 2)) == [b"1", b"4"]
        client.create_producer("t").send(b"new")
        assert received(consumer, 1) == [b"new"]
        assert nothing_more(consumer)
        client.close()


def test_partitions_schemas_and_sequence_ids_are_kept(tmp_path: Path) -> None:
    class Point(ours.schema.Record):
        x = ours.schema.Integer()

    class Text(ours.schema.Record):
        x = ours.schema.String()

    with (
        broker_on(tmp_path, settings=Settings(deduplication=True)) as broker,
        ours.Client(broker.service_url) as client,
    ):
        broker.create_topic("p", 3)
        with client.create_producer("t", producer_name="one", schema=ours.schema.AvroSchema(Point)) as producer:
            producer.send(Point(x=1), sequence_id=7)
    with (
        broker_on(tmp_path, settings=Settings(deduplication=True)) as broker,
        ours.Client(broker.service_url) as client,
    ):
        assert len(client.get_topic_partitions("p")) == 3
        with pytest.raises(ours.IncompatibleSchema):
            client.create_producer("t", schema=ours.schema.AvroSchema(Text))
        with client.create_producer("t", producer_name="one", schema=ours.schema.AvroSchema(Point)) as producer:
            assert producer.last_sequence_id() == 7
            producer.send(Point(x=2), sequence_id=7)  # which is not stored: it was sent before
        reader = client.create_reader("t", ours.MessageId.earliest, schema=ours.schema.AvroSchema(Point))
        found: Any = reader.read_next(WAIT_MS).value()
        assert found.x == 1
        assert not reader.has_message_available()


def stored(confirmed: list[int], number: int, result: ours.Result, _: object) -> None:
    assert result == ours.Result.Ok
    confirmed.append(number)


def test_every_message_comes_once_and_in_order_though_the_broker_is_killed(killed: Killed) -> None:
    moments = random.Random(2024)  # noqa: S311 - no secret
    confirmed: list[int] = []
    got: list[int] = []
    with ours.Client(killed.url) as client:
        consumer = client.subscribe("t", "s", ack_receipt_enabled=True)
        producer = client.create_producer("t", batching_enabled=True, send_timeout_millis=0, block_if_queue_full=True)

        sent = 0
        for _ in range(8):
            for _ in range(moments.randrange(50, 400)):
                producer.send_async(b"%d" % sent, partial(stored, confirmed, sent))
                sent += 1
            for _ in range(moments.randrange(0, 40)):
                message = consumer.receive(WAIT_MS)
                got.append(int(message.data()))
                consumer.acknowledge(message)
            killed.restart()
        producer.flush()
        assert confirmed == list(range(sent))
        while len(got) < sent:
            message = consumer.receive(WAIT_MS)
            got.append(int(message.data()))
            consumer.acknowledge(message)
        assert got == list(range(sent))
        killed.restart()
        assert nothing_more(consumer)  # each acknowledgement was confirmed


def test_a_transaction_goes_on_after_the_broker_was_killed(killed: Killed) -> None:
    with ours.Client(killed.url) as client:
        task, result = client.subscribe("tasks", "s"), client.subscribe("results", "s")
        client.create_producer("tasks").send(b"task")
        producer = client.create_producer("results", send_timeout_millis=0)
        with client.new_transaction() as transaction:
            producer.send(b"result", transaction=transaction)
            task.acknowledge(task.receive(WAIT_MS), transaction=transaction)
            assert nothing_more(result)
            killed.restart()
            assert nothing_more(result)
        assert received(result, 1) == [b"result"]
        killed.restart()
        assert nothing_more(task)
        abandoned = client.new_transaction()
        producer.send(b"never", transaction=abandoned)
        abandoned.abort()
        killed.restart()
        producer.send(b"plain")
        assert received(result, 2) == [b"result", b"plain"]  # the first was not acknowledged


def test_a_call_from_another_thread_is_stored_when_it_returns(tmp_path: Path) -> None:
    with broker_on(tmp_path / "a") as broker:
        broker.create_topic("t")
        image = tmp_path / "b"
        image.mkdir()
        for file in (tmp_path / "a").iterdir():
            (image / file.name).write_bytes(file.read_bytes())
    with broker_on(image) as broker, pytest.raises(InvalidArgument, match="already exists"):
        broker.create_topic("t")


def test_only_one_broker_uses_a_folder_and_the_next_one_may(tmp_path: Path) -> None:
    with broker_on(tmp_path), pytest.raises(InvalidArgument, match="in use: another broker has its data there"):
        EmbeddedBroker(data_folder=tmp_path).start()
    with broker_on(tmp_path):
        pass


def test_what_is_not_the_data_of_a_broker_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"my diary" * 100)
    with pytest.raises(InvalidArgument, match="is not the data of a broker"):
        DataFolder(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b"my diary" * 100


@pytest.mark.parametrize("statement", ["CREATE TABLE diary (day TEXT)", "PRAGMA user_version = 99"])
def test_another_format_is_refused(statement: str, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / FILE)
    other.execute(statement)
    other.close()
    with pytest.raises(InvalidArgument, match=r"has format (0|99), and this version reads format 1"):
        DataFolder(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        EmbeddedBroker(data_folder=tmp_path / "file").start()


def test_a_broker_whose_disk_is_full_confirms_nothing_more_and_ends(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker, ours.Client(broker.service_url, operation_timeout_seconds=2) as client:
        producer = client.create_producer("t", send_timeout_millis=1000)
        producer.send(b"stored")
        broker.call(lambda inside: inside._data._sqlite.execute("PRAGMA max_page_count = 1"))  # type: ignore[union-attr]
        with pytest.raises(ours.PulsarException):
            producer.send(bytes(100_000))
        with pytest.raises(OSError, match=r"cannot go on with its data in .*full"):
            broker.wait()
    with broker_on(tmp_path) as broker, ours.Client(broker.service_url) as client:
        reader = client.create_reader("t", ours.MessageId.earliest)
        assert reader.read_next(WAIT_MS).data() == b"stored"


def test_what_is_no_longer_needed_takes_no_space(tmp_path: Path) -> None:
    file = tmp_path / FILE
    with broker_on(tmp_path) as broker, ours.Client(broker.service_url) as client:
        producer = client.create_producer("t")
        for _ in range(20):
            producer.send(bytes(100_000))
    full = file.stat().st_size
    with broker_on(tmp_path) as broker:
        broker.call(lambda inside: inside.cluster.delete_namespace("public/default", force=True))
    with broker_on(tmp_path):
        pass
    assert file.stat().st_size < full / 10


class Wire(Transport):
    def __init__(self) -> None:
        self.sent: list[Buffer] = []

    def send(self, buffers: Sequence[Buffer]) -> int:
        self.sent += buffers
        return sum(len(each) for each in buffers)

    def await_room(self) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


def test_nothing_is_sent_before_it_is_stored(tmp_path: Path) -> None:
    data, wire = DataFolder(tmp_path), Wire()
    transport = CommittingTransport(wire, data)
    written: list[int] = []

    def state() -> int:
        written.append(len(wire.sent))
        return 1

    data.record("kind", "name", state).changed()
    assert transport.send([b"answer"]) == 6
    assert (written, wire.sent) == ([0], [b"answer"])
    data.record("kind", "name", state).changed()
    data.close()
    assert transport.send([b"answer"]) == 0
    assert wire.sent == [b"answer"]
