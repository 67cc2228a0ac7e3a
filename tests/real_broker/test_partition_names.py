"""The names of a topic's parts, and the parts as topics of their own."""

from typing import Any

import pytest

from tests.real_broker.exchange import SOON


def parts(topic: str) -> list[str]:
    return [f"{topic}-partition-{number}" for number in range(3)]


def test_the_parts_of_a_topic_are_named(client: Any, partitioned: str) -> None:
    assert client.get_topic_partitions(partitioned) == parts(partitioned)


def test_a_topic_in_one_piece_is_its_own_part(client: Any, topic: str) -> None:
    client.create_producer(topic)
    assert client.get_topic_partitions(topic) == [topic]


def test_a_topic_that_is_not_there_yet_is_its_own_part(client: Any, topic: str) -> None:
    assert client.get_topic_partitions(topic) == [topic]


def test_a_part_may_be_used_alone(client: Any, partitioned: str) -> None:
    consumer = client.subscribe(parts(partitioned)[1], "s")
    client.create_producer(parts(partitioned)[1]).send(b"x")
    message = consumer.receive(SOON)
    assert message.data() == b"x"
    assert message.topic_name() == parts(partitioned)[1]
    assert message.message_id().partition() == 1


def test_a_part_beyond_those_there_are_is_not_found(pulsar: Any, client: Any, partitioned: str) -> None:
    beyond = f"{partitioned}-partition-7"
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(beyond, "s")
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(beyond)
