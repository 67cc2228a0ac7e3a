"""What goes wrong, and how soon a program hears of it."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.real_broker.exchange import OPENINGS
from tests.support.admin import Admin, AdminError
from tests.support.life import closed_port

SECONDS = 1  # of operation timeout, where a test waits for it

Ask = Callable[[Any, object], object]


@pytest.fixture(params=OPENINGS)
def ask_for(request: pytest.FixtureRequest, pulsar: Any) -> Ask:
    """Ask a client for a topic."""
    return lambda client, topic: OPENINGS[request.param](pulsar, client, topic)


@pytest.mark.parametrize("name", ["", "a/b", "a//b", "://", "persistent://a", "persistent://a/b", "nonsense://a/b/c"])
def test_a_name_that_is_none_is_refused(pulsar: Any, client: Any, ask_for: Ask, name: str) -> None:
    with pytest.raises(pulsar.InvalidTopicName):
        ask_for(client, name)


@pytest.mark.parametrize("name", [None, 5, b"topic"], ids=repr)
def test_a_name_of_a_wrong_type_is_refused(client: Any, ask_for: Ask, name: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        ask_for(client, name)


@pytest.fixture
def closed_namespace(namespace: str, admin: Admin) -> str:
    """A namespace in which no topic comes into being by being asked for."""
    admin.set_auto_creation(namespace, on=False)
    return namespace


@pytest.mark.shows("Topic", "created by use")
@pytest.mark.parametrize("opening", ["create_producer", "subscribe"])
def test_a_topic_comes_into_being_when_somebody_publishes_or_consumes(
    pulsar: Any, client: Any, topic: str, admin: Admin, opening: str
) -> None:
    with pytest.raises(AdminError, match="404"):
        admin.stats(topic)
    OPENINGS[opening](pulsar, client, topic)
    assert admin.stats(topic)["msgInCounter"] == 0


def test_a_topic_that_does_not_come_into_being_is_not_found(
    pulsar: Any, client: Any, ask_for: Ask, closed_namespace: str, new_topic: Any
) -> None:
    with pytest.raises(pulsar.TopicNotFound):
        ask_for(client, new_topic(closed_namespace))


def test_a_namespace_that_is_not_there_is_not_found(pulsar: Any, client: Any, ask_for: Ask, new_topic: Any) -> None:
    with pytest.raises(pulsar.PulsarException):
        ask_for(client, new_topic("no-such/namespace"))


def test_where_topics_are_not_made_by_asking_the_ones_that_exist_can_be_used(
    client: Any, closed_namespace: str, new_topic: Any, admin: Admin
) -> None:
    topic = new_topic(closed_namespace)
    admin.create(topic)
    assert client.create_producer(topic).send(b"x")


@pytest.fixture
def closed() -> Iterator[str]:
    """The address of a port where nobody listens."""
    with closed_port() as url:
        yield url.removeprefix("pulsar://")


@pytest.mark.shows("ClientConfiguration", "", "operationTimeout")
@pytest.mark.parametrize("host", ["silent", "nobody", "no-such-host.invalid:6650"])
def test_where_nobody_answers_a_call_ends_in_time(
    connect_to: Any, closed: str, pulsar: Any, ask_for: Ask, host: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # somebody listens, and never answers
        addresses = {"silent": f"127.0.0.1:{silent.getsockname()[1]}", "nobody": closed}
        client = connect_to(
            pulsar,
            f"pulsar://{addresses.get(host, host)}",
            operation_timeout_seconds=SECONDS,
            connection_timeout_ms=SECONDS * 1000,
        )
        before = time.monotonic()
        with pytest.raises((pulsar.Timeout, pulsar.ConnectError)):
            ask_for(client, "t")
        assert time.monotonic() - before < SECONDS + 8


def test_the_next_host_of_a_url_is_tried(pulsar: Any, connect_to: Any, broker: Any, closed: str, topic: str) -> None:
    living = broker.service_url.removeprefix("pulsar://")
    client = connect_to(pulsar, f"pulsar://{closed},{living}")
    assert client.create_producer(topic).send(b"x")


@pytest.mark.parametrize("url", ["", "pulsar", "localhost:6650", "ftp://localhost:6650", "pulsar://", "pulsar://h:abc"])
def test_a_url_that_cannot_work_is_refused(pulsar: Any, url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        pulsar.Client(url)


OPTIONS: dict[str, list[tuple[str, object]]] = {
    "client": [
        ("operation_timeout_seconds", "30"),
        ("io_threads", "1"),
        ("message_listener_threads", None),
        ("concurrent_lookup_requests", 1.5),
        ("connection_timeout_ms", "10"),
        ("use_tls", 1),
        ("tls_validate_hostname", "no"),
        ("listener_name", 5),
        ("authentication", "token"),
        ("logger", 5),
    ],
    "producer": [
        ("producer_name", 5),
        ("initial_sequence_id", "1"),
        ("send_timeout_millis", None),
        ("compression_type", "LZ4"),
        ("max_pending_messages", -1),
        ("block_if_queue_full", 1),
        ("batching_max_messages", 0),
        ("batching_max_publish_delay_ms", -1),
        ("message_routing_mode", "x"),
        ("properties", {"a": 1}),
        ("access_mode", 1),
        ("schema", None),
    ],
    "consumer": [
        ("consumer_type", 1),
        ("receiver_queue_size", "10"),
        ("consumer_name", 5),
        ("negative_ack_redelivery_delay_ms", 1.5),
        ("initial_position", "Earliest"),
        ("properties", {1: "a"}),
        ("is_read_compacted", 1),
        ("batch_receive_policy", 5),
        ("key_shared_policy", 5),
        ("schema", None),
    ],
}


@pytest.mark.parametrize(("of", "option"), [(of, option) for of, options in OPTIONS.items() for option in options])
def test_a_wrong_option_is_refused(pulsar: Any, client: Any, topic: str, of: str, option: tuple[str, object]) -> None:
    calls: dict[str, Callable[..., object]] = {
        "client": lambda **wrong: pulsar.Client("pulsar://127.0.0.1:6650", **wrong),
        "producer": lambda **wrong: client.create_producer(topic, **wrong),
        "consumer": lambda **wrong: client.subscribe(topic, "s", **wrong),
    }
    with pytest.raises((TypeError, ValueError)):
        calls[of](**dict([option]))


def test_batches_and_chunks_exclude_each_other(client: Any, topic: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)chunk"):
        client.create_producer(topic, batching_enabled=True, chunking_enabled=True)


def test_policies_that_say_nothing_are_refused(pulsar: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerBatchReceivePolicy(0, 0, 0)
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerDeadLetterPolicy(0)
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky)
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 10), (5, 20)])
