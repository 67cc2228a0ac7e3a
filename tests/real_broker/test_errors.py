"""What goes wrong, and how soon a program hears of it."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.admin import Admin, AdminError

SECONDS = 1  # of operation timeout, where a test waits for it

# How a program may ask for a topic.
OPENINGS: dict[str, Callable[[Any, Any, Any], object]] = {
    "create_producer": lambda pulsar, client, topic: client.create_producer(topic),
    "subscribe": lambda pulsar, client, topic: client.subscribe(topic, "s"),
    "create_reader": lambda pulsar, client, topic: client.create_reader(topic, pulsar.MessageId.earliest),
    "get_topic_partitions": lambda pulsar, client, topic: client.get_topic_partitions(topic),
}


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
    pulsar: Any, client: Any, ask_for: Ask, closed_namespace: str, new_topic: Callable[..., str]
) -> None:
    with pytest.raises(pulsar.TopicNotFound):
        ask_for(client, new_topic(closed_namespace))


def test_a_namespace_that_is_not_there_is_not_found(
    pulsar: Any, client: Any, ask_for: Ask, new_topic: Callable[..., str]
) -> None:
    with pytest.raises(pulsar.PulsarException):
        ask_for(client, new_topic("no-such/namespace"))


def test_where_topics_are_not_made_by_asking_the_ones_that_exist_can_be_used(
    client: Any, closed_namespace: str, new_topic: Callable[..., str], admin: Admin
) -> None:
    topic = new_topic(closed_namespace)
    admin.create(topic)
    assert client.create_producer(topic).send(b"x")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def dead_port() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def test_where_nobody_listens_a_call_ends_in_time(
    pulsar: Any, connect_to: Callable[..., Any], dead_port: int, ask_for: Ask
) -> None:
    client = connect_to(pulsar, f"pulsar://127.0.0.1:{dead_port}", operation_timeout_seconds=SECONDS)
    before = time.monotonic()
    with pytest.raises((pulsar.Timeout, pulsar.ConnectError)):
        ask_for(client, "t")
    assert time.monotonic() - before < SECONDS + 2


@pytest.mark.shows("ClientConfiguration")
@pytest.mark.shows("ClientConfiguration", "operationTimeout")
def test_where_nobody_answers_a_call_ends_in_time(
    pulsar: Any, connect_to: Callable[..., Any], silent_port: int
) -> None:
    client = connect_to(
        pulsar,
        f"pulsar://127.0.0.1:{silent_port}",
        operation_timeout_seconds=SECONDS,
        connection_timeout_ms=SECONDS * 1000,
    )
    before = time.monotonic()
    with pytest.raises((pulsar.Timeout, pulsar.ConnectError)):
        client.create_producer("t")
    assert time.monotonic() - before < SECONDS + 2


def test_a_host_that_does_not_exist_is_a_connect_error(pulsar: Any, connect_to: Callable[..., Any]) -> None:
    client = connect_to(pulsar, "pulsar://no-such-host.invalid:6650", operation_timeout_seconds=SECONDS)
    with pytest.raises((pulsar.Timeout, pulsar.ConnectError)):
        client.create_producer("t")


def test_the_next_host_of_a_url_is_tried(
    pulsar: Any, connect_to: Callable[..., Any], broker: Any, dead_port: int, topic: str
) -> None:
    living = broker.service_url.removeprefix("pulsar://")
    client = connect_to(pulsar, f"pulsar://127.0.0.1:{dead_port},{living}")
    assert client.create_producer(topic).send(b"x")


@pytest.mark.shows("Topic lookup", "HTTP")
@pytest.mark.parametrize("pulsar", ["official"], indirect=True)
def test_topics_may_be_looked_up_over_http(
    pulsar: Any, connect_to: Callable[..., Any], broker: Any, topic: str
) -> None:
    client = connect_to(pulsar, broker.admin.web_url)
    assert client.create_producer(topic).send(b"x")
    assert client.get_topic_partitions(topic) == [topic]


@pytest.mark.parametrize("url", ["", "pulsar", "localhost:6650", "ftp://localhost:6650", "pulsar://", "pulsar://h:abc"])
def test_a_url_that_cannot_work_is_refused(pulsar: Any, url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        pulsar.Client(url)


@pytest.mark.parametrize(
    ("option", "value"),
    [
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
)
def test_a_wrong_option_of_a_client_is_refused(pulsar: Any, option: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        pulsar.Client("pulsar://127.0.0.1:6650", **{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
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
)
def test_a_wrong_option_of_a_producer_is_refused(client: Any, topic: str, option: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        client.create_producer(topic, **{option: value})


def test_batches_and_chunks_exclude_each_other(client: Any, topic: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)chunk"):
        client.create_producer(topic, batching_enabled=True, chunking_enabled=True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
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
)
def test_a_wrong_option_of_a_consumer_is_refused(client: Any, topic: str, option: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        client.subscribe(topic, "s", **{option: value})


def test_policies_that_say_nothing_are_refused(pulsar: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerBatchReceivePolicy(0, 0, 0)
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerDeadLetterPolicy(0)
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky)
    with pytest.raises(ValueError, match=r"."):
        pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 10), (5, 20)])
