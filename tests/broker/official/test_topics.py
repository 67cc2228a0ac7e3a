import re
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire.topic_name import TopicName
from tests.broker.official_client import WAIT_MS, Official, data, drain, pulsar, receive, send_all, topic

RECORD = pulsar.schema.Record


class Point(RECORD):  # type: ignore[misc,valid-type]
    x = pulsar.schema.Integer()
    y = pulsar.schema.String()


def partitioned(broker: EmbeddedBroker, count: int, name: str = "") -> str:
    name = name or topic()
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(name), count))
    return name


def test_a_partitioned_topic_has_its_partitions(official: Official, broker: EmbeddedBroker) -> None:
    name = partitioned(broker, 3)
    client = official.client()
    assert client.get_topic_partitions(name) == [f"{name}-partition-{i}" for i in range(3)]
    assert client.get_topic_partitions(topic())[0].startswith("persistent://")


def test_the_messages_of_a_key_are_in_one_partition(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), partitioned(broker, 4)
    consumer = client.subscribe(name, "s")
    send_all(client.create_producer(name), [{"content": b"%d" % i, "partition_key": f"k{i % 10}"} for i in range(40)])
    got = receive(consumer, 40)
    places = {(message.partition_key(), message.message_id().partition()) for message in got}
    assert len(places) == 10
    assert {partition for _, partition in places} <= {0, 1, 2, 3}
    assert len({partition for _, partition in places}) > 1
    for message in got:
        consumer.acknowledge(message)
    consumer.close()
    assert drain(client.subscribe(name, "s")) == []


def test_messages_without_a_key_are_spread_over_the_partitions(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), partitioned(broker, 3)
    reader = client.create_reader(name, pulsar.MessageId.earliest)
    mode = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    send_all(client.create_producer(name, message_routing_mode=mode), [{"content": b"%d" % i} for i in range(30)])
    got = [reader.read_next(WAIT_MS) for _ in range(30)]
    assert sorted(message.message_id().partition() for message in got) == sorted([0, 1, 2] * 10)


def test_a_topic_that_grows_is_used_whole_by_new_clients(official: Official, broker: EmbeddedBroker) -> None:
    name = partitioned(broker, 2)
    broker.call(lambda inside: inside.cluster.grow(TopicName.parse(name), 5))
    assert len(official.client().get_topic_partitions(name)) == 5


def test_a_pattern_finds_the_topics_that_match(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), topic()
    producers = [client.create_producer(f"{name}-pattern-{i}") for i in range(2)]
    client.create_producer(f"{name}-other")
    partitioned(broker, 2, f"{name}-pattern-parts")
    consumer = client.subscribe(re.compile(f"{name}-pattern-.*"), "s")
    producers.append(client.create_producer(f"{name}-pattern-parts"))
    for producer in producers:
        producer.send(b"now")
    assert data(receive(consumer, 3)) == [b"now"] * 3


def test_several_topics_are_consumed_as_one(official: Official) -> None:
    client, names = official.client(), [topic(), topic()]
    consumer = client.subscribe(names, "s")
    for name in names:
        client.create_producer(name).send(name.encode())
    assert sorted(data(receive(consumer, 2))) == sorted(name.encode() for name in names)


def test_a_namespace_that_is_not_there_has_no_topics(official: Official) -> None:
    with pytest.raises(pulsar.TopicNotFound):
        official.client().create_producer("persistent://public/nowhere/t")


def test_a_record_comes_as_it_was_sent_and_its_schema_is_kept(official: Official, broker: EmbeddedBroker) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", schema=pulsar.schema.JsonSchema(Point))
    client.create_producer(name, schema=pulsar.schema.JsonSchema(Point)).send(Point(x=1, y="é"))
    value = consumer.receive(WAIT_MS).value()
    assert (value.x, value.y) == (1, "é")
    kept = broker.call(lambda inside: inside.cluster.schemas_of(TopicName.parse(name)).get().schema.data)
    assert b'"Point"' in kept


def test_a_text_comes_as_it_was_sent(official: Official) -> None:
    client, name = official.client(), topic()
    consumer = client.subscribe(name, "s", schema=pulsar.schema.StringSchema())
    client.create_producer(name, schema=pulsar.schema.StringSchema()).send("é")
    assert consumer.receive(WAIT_MS).value() == "é"


def test_a_schema_of_another_type_does_not_fit(official: Official) -> None:
    client, name = official.client(), topic()
    client.create_producer(name, schema=pulsar.schema.StringSchema())
    for refused in (
        lambda schema: client.create_producer(name, schema=schema),
        lambda schema: client.subscribe(name, "s", schema=schema),
    ):
        with pytest.raises(pulsar.IncompatibleSchema):
            refused(pulsar.schema.JsonSchema(Point))


def test_a_table_view_shows_the_latest_value_of_each_key(official: Official) -> None:
    client, name = official.client(), topic()
    producer = client.create_producer(name)
    send_all(producer, [{"content": b"%d" % i, "partition_key": f"k{i % 2}"} for i in range(4)])
    view: Any = client.create_table_view(name)
    assert {key: view.get(key) for key in ("k0", "k1")} == {"k0": b"2", "k1": b"3"}
    view.close()
