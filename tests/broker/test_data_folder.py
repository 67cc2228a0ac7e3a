"""A broker with a data folder: what it has confirmed to a client is there after any end."""

import importlib
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
from tests.support.certificates import Authority
from tests.support.life import until
from tests.support.ports import free_ports

official: Any = importlib.import_module("pulsar")  # ships no types

WAIT_MS = 20_000


class Killed:
    """A broker in a process of its own, which is killed and started again at the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (self._port,) = free_ports(1)
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


def broker_on(folder: Path, **options: Any) -> EmbeddedBroker:
    return EmbeddedBroker(data_folder=folder, **options)


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


def test_nothing_is_lost_nor_comes_again_after_its_acknowledgement_though_the_broker_is_killed(killed: Killed) -> None:
    moments = random.Random(2024)  # noqa: S311 - no secret
    confirmed: list[int] = []
    acknowledged: list[int] = []
    with ours.Client(killed.url) as client:
        client.subscribe("t", "s").close()
        producer = client.create_producer("t", send_timeout_millis=0, block_if_queue_full=True)
        sent = 0
        for _ in range(8):
            for _ in range(moments.randrange(50, 400)):
                producer.send_async(b"%d" % sent, partial(stored, confirmed, sent))
                sent += 1
            acknowledge_some(killed.url, moments.randrange(0, 40), acknowledged)
            killed.restart()  # in the midst of sending
        producer.flush()
        assert confirmed == list(range(sent))
        acknowledge_some(killed.url, sent - len(acknowledged), acknowledged)
        assert acknowledged == list(range(sent))
        killed.restart()
        producer.send(b"%d" % sent)
        acknowledge_some(killed.url, 1, acknowledged)
        assert acknowledged[-1] == sent


def acknowledge_some(url: str, count: int, acknowledged: list[int]) -> None:
    """Another client gets the next messages in their order, and waits until the broker has each acknowledgement."""
    with ours.Client(url) as client:
        consumer = client.subscribe("t", "s", ack_receipt_enabled=True)
        for _ in range(count):
            message = consumer.receive(WAIT_MS)
            assert int(message.data()) == len(acknowledged)
            consumer.acknowledge(message)
            acknowledged.append(int(message.data()))


def test_a_transaction_goes_on_after_the_broker_was_killed(killed: Killed) -> None:
    with ours.Client(killed.url) as client:
        task, result = client.subscribe("tasks", "s"), client.subscribe("results", "s", ack_receipt_enabled=True)
        client.create_producer("tasks").send(b"task")
        producer = client.create_producer("results", send_timeout_millis=0)
        with client.new_transaction() as transaction:
            producer.send(b"result", transaction=transaction)
            task.acknowledge(task.receive(WAIT_MS), transaction=transaction)
            assert nothing_more(result)
            killed.restart()
            assert nothing_more(result)
        message = result.receive(WAIT_MS)
        assert message.data() == b"result"
        result.acknowledge(message)
        killed.restart()
        assert nothing_more(task)
        abandoned = client.new_transaction()
        producer.send(b"never", transaction=abandoned)
        abandoned.abort()
        killed.restart()
        producer.send(b"plain")
        assert received(result, 1) == [b"plain"]


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
        EmbeddedBroker(data_folder=tmp_path / "file" / "below").start()


def test_a_file_is_no_folder_for_data(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ours.InvalidArgument, match="file is no folder, so no data can be stored in it"):
        EmbeddedBroker(data_folder=tmp_path / "file").start()


def test_a_broker_whose_disk_is_full_confirms_nothing_more_and_ends(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker, ours.Client(broker.service_url, operation_timeout_seconds=10) as client:
        client.create_producer("t").send(b"stored")
        producer = client.create_producer("t", send_timeout_millis=1000)
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

    data.cluster.record("kind", "name", state).changed()
    assert transport.send([b"answer"]) == 6
    assert (written, wire.sent) == ([0], [b"answer"])
    data.cluster.record("kind", "name", state).changed()
    data.close()
    assert transport.send([b"answer"]) == 0
    assert wire.sent == [b"answer"]


def test_what_is_changed_without_an_answer_is_stored_soon(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker, ours.Client(broker.service_url) as client:
        consumer = client.subscribe("t", "s", ack_grouping_time_ms=0)
        client.create_producer("t").send(b"x")
        message = consumer.receive(WAIT_MS)
        inside: Any = broker._broker
        cursor = (
            inside.cluster.namespaces["public/default"]
            .topics["persistent://public/default/t"]
            .subscriptions["s"]
            .cursor
        )
        consumer.acknowledge(message)
        until(lambda: cursor.mark_delete == 0 and not inside._data._is_changed)


def test_a_state_that_cannot_be_written_ends_the_storage_and_nothing_is_sent(tmp_path: Path) -> None:
    data, wire, failed = DataFolder(tmp_path), Wire(), list[str]()
    data.when_failed = lambda: failed.append("failed")
    data.cluster.record("kind", "name", lambda: {1, 2}).changed()
    assert CommittingTransport(wire, data).send([b"answer"]) == 0
    assert (wire.sent, failed) == ([], ["failed"])
    assert "set is not JSON" in str(data.failure)
    data.close()
    DataFolder(tmp_path).close()  # the folder is free again


def test_a_forked_child_leaves_the_folder_to_its_parent(tmp_path: Path) -> None:
    program = """
import os, signal, sys
import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker

broker = EmbeddedBroker(data_folder=sys.argv[1])
broker.start()
client = pulsar.Client(broker.service_url)
producer = client.create_producer("t")
producer.send(b"before")
child = os.fork()
if child == 0:
    del broker, client, producer
    sys.exit(0)  # a usual end, with all that Python frees then
os.waitpid(child, 0)
producer.send(b"after")
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own words
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    with broker_on(tmp_path) as broker, ours.Client(broker.service_url) as client:
        reader = client.create_reader("t", ours.MessageId.earliest)
        assert [reader.read_next(WAIT_MS).data() for _ in range(2)] == [b"before", b"after"]


def test_a_backup_in_the_same_process_does_not_give_the_folder_to_another_broker(tmp_path: Path) -> None:
    with broker_on(tmp_path):
        (tmp_path / FILE).read_bytes()
        other = [
            sys.executable,
            "-m",
            "pulsar_actors",
            "broker",
            "--port",
            "0",
            "--web-port",
            "0",
            "--data",
            str(tmp_path),
        ]
        done = subprocess.run(other, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own words
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path} is in use: another broker has its data there\n"


def test_the_data_is_readable_for_its_owner_only(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker, ours.Client(broker.service_url) as client:
        client.create_producer("t").send(b"secret")
        assert {file.name: file.stat().st_mode & 0o077 for file in tmp_path.glob(f"{FILE}*")} == {
            FILE: 0,
            f"{FILE}-shm": 0,
            f"{FILE}-wal": 0,
        }


def test_a_program_of_somebody_else_keeps_its_file_as_it_is(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("CREATE TABLE diary (day TEXT)")
    other.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(InvalidArgument):
        DataFolder(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_no_name_of_a_folder_is_not_the_current_one() -> None:
    with pytest.raises(InvalidArgument, match="data_folder is the path of a folder"):
        EmbeddedBroker(data_folder="")


def test_over_tls_nothing_is_sent_before_it_is_stored(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.certify()
    options = {"certificate_file": certificate, "private_key_file": key}
    for number in range(2):
        with (
            broker_on(tmp_path / "data", **options) as broker,
            ours.Client(broker.service_url_tls, tls_trust_certs_file_path=authority.file) as client,
        ):
            reader = client.create_reader("t", ours.MessageId.earliest)
            client.create_producer("t").send(b"%d" % number)
            assert [reader.read_next(WAIT_MS).data() for _ in range(number + 1)] == [b"0", b"1"][: number + 1]
