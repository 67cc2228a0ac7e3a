import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.options import OpenToOthersWarning
from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument
from pulsar_actors.wire.frames import FrameReader, decode_command, encode_command
from pulsar_actors.wire.PulsarApi_pb2 import CommandConnect, CommandConnected

CONNECT = encode_command(CommandConnect(client_version="c", protocol_version=21))


def call(url: str) -> socket.socket:
    host, _, port = url.partition("://")[2].rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=10)


def shake_hands(url: str) -> CommandConnected:
    """Connect over a real socket, and give what the broker says."""
    with call(url) as connection:
        connection.sendall(CONNECT)
        reader = FrameReader()
        while True:
            for frame in reader.feed(connection.recv(65_536)):
                command = decode_command(frame.command)
                assert isinstance(command, CommandConnected)
                return command


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def refuses(url: str) -> bool:
    try:
        call(url).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_broker_serves_from_the_start_of_its_block_to_the_end() -> None:
    with EmbeddedBroker(settings=Settings(max_message_size=4_096)) as broker:
        assert shake_hands(broker.service_url).max_message_size == 4_096
        assert (broker.service_url_tls, broker.web_url_tls) == ("", "")
        with urlopen(f"{broker.web_url}/admin/v2/brokers/health") as answer:  # noqa: S310 - our own
            assert answer.read() == b"ok"
        service_url, web_url = broker.service_url, broker.web_url
    assert refuses(service_url)
    assert refuses(web_url)


def test_a_stopped_broker_leaves_no_thread_and_no_connection() -> None:
    before = set(threading.enumerate())
    with EmbeddedBroker() as broker:
        connections = [call(broker.service_url), call(broker.web_url)]
        connections[0].sendall(CONNECT)
        assert connections[0].recv(1)
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended meanwhile
    for connection in connections:
        while not is_closed(connection):
            continue
        connection.close()


def test_a_broker_starts_once_and_stops_as_often_as_one_likes() -> None:
    broker = EmbeddedBroker()
    broker.stop()
    with broker, pytest.raises(InvalidArgument, match="started before"):
        broker.start()
    broker.stop()
    with pytest.raises(InvalidArgument, match="started before"):
        broker.start()


@pytest.mark.parametrize(
    "use", [lambda broker: broker.service_url, lambda broker: broker.faults, lambda broker: broker.call(print)]
)
def test_a_broker_that_is_not_running_says_so(use: Callable[[EmbeddedBroker], object]) -> None:
    with pytest.raises(AlreadyClosed, match="the broker is not running"):
        use(EmbeddedBroker())


def test_a_port_that_is_in_use_is_named_and_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    with EmbeddedBroker() as first:
        port = int(first.service_url.rpartition(":")[2])
        second = EmbeddedBroker(web_port=port)
        with pytest.raises(OSError, match=rf"cannot listen on port {port} of 127\.0\.0\.1"):
            second.start()
        second.stop()
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended meanwhile


def test_two_brokers_know_nothing_of_each_other() -> None:
    with EmbeddedBroker() as first, EmbeddedBroker() as second:
        assert first.service_url != second.service_url
        first.call(lambda inside: inside.cluster.create_tenant("theirs"))
        assert "theirs" not in second.call(lambda inside: set(inside.cluster.tenants))


def test_a_call_is_made_on_the_brokers_thread_and_gives_its_result() -> None:
    with EmbeddedBroker() as broker:
        name = broker.call(lambda _: threading.current_thread().name)
        assert name not in {"MainThread", ""}
        assert broker.call(lambda _: broker.call(lambda inside: len(inside.nodes))) == 1


def test_a_call_raises_what_its_function_raises() -> None:
    def fail(_: Broker) -> None:
        raise ZeroDivisionError("mine")

    with EmbeddedBroker() as broker:
        with pytest.raises(ZeroDivisionError, match="mine"):
            broker.call(fail)
        assert shake_hands(broker.service_url)


def test_a_broker_listens_where_it_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with EmbeddedBroker(port=port) as broker:
        assert broker.service_url == f"pulsar://127.0.0.1:{port}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nothing_is_said_of_an_address_that_only_this_machine_reaches(host: str) -> None:
    with EmbeddedBroker(host) as broker:  # a warning would be an error here
        assert shake_hands(broker.service_url)


@pytest.mark.parametrize(
    ("options", "who"), [({}, "anyone"), ({"passwords": {"me": "secret"}}, "whoever has credentials")]
)
def test_an_address_that_others_reach_is_said_loudly(options: Any, who: str) -> None:
    broker = EmbeddedBroker("0.0.0.0", **options)  # noqa: S104 - it ends before it listens
    with pytest.raises(OpenToOthersWarning, match=rf"0\.0\.0\.0: {who} ") as raised:
        broker.start()
    assert "secret" not in str(raised.value)


def test_an_address_of_the_sixth_version_is_written_in_brackets() -> None:
    with EmbeddedBroker("::1") as broker:
        assert broker.service_url.startswith("pulsar://[::1]:")
        assert shake_hands(broker.service_url)


def test_a_certificate_that_cannot_be_read_is_refused_before_anything_listens(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(InvalidArgument, match=r"missing\.pem"):
        EmbeddedBroker(certificate_file=missing, private_key_file=missing).start()
    assert set(threading.enumerate()) <= before  # one of an earlier test may have ended meanwhile


def test_connections_can_be_cut_and_made_again() -> None:
    with EmbeddedBroker() as broker, call(broker.service_url) as connection:
        connection.sendall(CONNECT)
        assert connection.recv(65_536)
        assert broker.call(lambda inside: inside.connections) == [1]
        broker.cut_connections()
        assert is_closed(connection)
        assert broker.call(lambda inside: inside.connections) == []
        assert shake_hands(broker.service_url)


def test_faults_can_be_set_from_any_thread_and_waited_for() -> None:
    with EmbeddedBroker() as broker:
        stalled = broker.faults.on(CommandConnect).stall()
        with call(broker.service_url) as connection:
            connection.sendall(CONNECT)
            stalled.wait()
            stalled.release()
            assert connection.recv(65_536)


def test_a_topic_is_created_with_partitions_or_without() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("plain")
        broker.create_topic("persistent://public/default/parts", partitions=3)
        found: dict[str, int] = {}
        for name in ("plain", "parts"):
            path = f"{broker.web_url}/admin/v2/persistent/public/default/{name}/partitions"
            with urlopen(path) as answer:  # noqa: S310 - of the test
                found[name] = json.load(answer)["partitions"]
        assert found == {"plain": 0, "parts": 3}


@pytest.mark.parametrize(
    ("topic", "partitions", "says"),
    [
        ("there", 0, "topic persistent://public/default/there cannot be created: .*exists"),
        ("there", 2, "topic persistent://public/default/there cannot be created: .*exists"),
        ("nobody/knows/this", 0, "topic persistent://nobody/knows/this cannot be created: "),
        ("t", -1, r"partitions is from 0 \(none\) to 100,000, not -1"),
        ("t", 100_001, r"partitions is from 0 \(none\) to 100,000, not 100001"),
        ("t", "3", r"partitions is from 0 \(none\) to 100,000, not '3'"),
        ("nonsense://a/b/c", 0, "the name of a topic"),
    ],
)
def test_a_topic_that_cannot_be_created_is_an_error_that_says_why(topic: str, partitions: int, says: str) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("there")
        with pytest.raises(InvalidArgument, match=says):
            broker.create_topic(topic, partitions)
