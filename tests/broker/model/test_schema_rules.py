from typing import Any

import pytest

from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError

JSON = SchemaData("t", Schema.Type.Json, b"{}")
STRING = SchemaData("t", Schema.Type.String, b"")
ANYTHING = SchemaData("t", Schema.Type.AutoConsume, b"")


def test_the_schema_of_the_first_producer_is_the_topics(world: Any) -> None:
    assert world.producer(schema=JSON).made.schema_version == bytes(8)
    assert world.consumer(schema=JSON).heard == []
    for make in (world.producer, world.consumer):
        with pytest.raises(Refusal) as refusal:
            make(schema=STRING)
        assert refusal.value.code == ServerError.IncompatibleSchema


def test_a_producer_that_is_refused_leaves_no_schema(world: Any) -> None:
    world.producer(name="p")
    with pytest.raises(Refusal):
        world.producer(name="p", schema=JSON)
    assert world.topic().schemas.versions() == []


def test_the_schema_of_the_first_consumer_is_that_of_an_idle_topic(world: Any) -> None:
    world.consumer(schema=JSON)
    assert world.topic().schemas.get().schema == JSON


def test_a_topic_with_bytes_in_it_takes_no_schema_from_a_consumer(world: Any) -> None:
    producer = world.producer()
    with pytest.raises(Refusal, match="empty\\(BYTES\\) schema: new schema type Json"):
        world.consumer(schema=JSON)
    producer.send()
    producer.made.close()
    with pytest.raises(Refusal):
        world.consumer(schema=JSON)


def test_without_a_schema_or_with_any_one_may_always_come(world: Any) -> None:
    world.producer(schema=JSON)
    assert world.producer().made.schema_version is None
    world.consumer(subscription="a")
    world.consumer(subscription="b", schema=ANYTHING)


def test_a_namespace_may_demand_a_schema_of_producers(world: Any) -> None:
    world.cluster.namespace("public/default").policies.schema_validation_enforced = True
    world.producer()
    world.producer(schema=JSON)
    world.producer(schema=JSON)
    with pytest.raises(Refusal, match="SchemaValidationEnforced"):
        world.producer()


def test_partitions_share_their_schemas(world: Any) -> None:
    from_0 = world.cluster.schemas_of(world.topic().name.partition(0))
    assert from_0 is world.cluster.schemas_of(world.topic().name.partition(1))
