"""A service URL of HTTP: topics are looked up at the broker's web port, and all else is as usual."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.real_broker.exchange import SOON
from tests.support.admin import Admin


@pytest.fixture
def connect(connect_to: Any, admin: Admin) -> Callable[..., Any]:
    def make(module: Any, **options: Any) -> Any:
        return connect_to(module, admin.web_url, **options)

    return make


@pytest.mark.shows("Topic lookup", "HTTP")
@pytest.mark.parametrize("name", ["plain", "with a space and ü", "50%", "a?b#c&d=e"])
def test_messages_travel_also_where_a_path_has_to_spell_the_name(client: Any, topic: str, name: str) -> None:
    full = f"{topic}-{name}"
    consumer = client.subscribe(full, "s")
    producer = client.create_producer(full)
    producer.send(b"x")
    assert producer.topic() == full
    assert consumer.receive(SOON).data() == b"x"


def test_partitions_are_told_and_topics_like_any_other(client: Any, partitioned: str) -> None:
    parts = [f"{partitioned}-partition-{index}" for index in range(3)]
    assert client.get_topic_partitions(partitioned) == parts
    consumer = client.subscribe(parts[1], "s")
    client.create_producer(parts[1]).send(b"x")
    assert consumer.receive(SOON).data() == b"x"


def test_a_topic_that_is_unloaded_is_found_again(client: Any, topic: str, admin: Admin) -> None:
    producer = client.create_producer(topic)
    producer.send(b"before")
    admin.unload(topic)
    producer.send(b"after")


def test_a_topic_that_does_not_come_into_being_is_refused_and_ours_says_that_it_is_not_found(
    pulsar: Any, client: Any, namespace: str, new_topic: Any, admin: Admin
) -> None:
    admin.set_auto_creation(namespace, on=False)
    with pytest.raises((pulsar.TopicNotFound, pulsar.ConnectError)) as raised:
        client.create_producer(new_topic(namespace))
    assert isinstance(raised.value, pulsar.TopicNotFound) or pulsar.__name__ == "pulsar"
