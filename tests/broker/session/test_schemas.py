from typing import Any

import pytest

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.topic_name import TopicName
from tests.support.session_bench import TOPIC, Bench, Caller

JSON = pb.Schema(
    name="mine",
    type=pb.Schema.Json,
    schema_data=b'{"type":"record","name":"Point","fields":[{"name":"x","type":"int"}]}',
    properties=[pb.KeyValue(key="a", value="b")],
)
STRING = pb.Schema(name="String", type=pb.Schema.String, schema_data=b"")
FIRST = bytes(8)


@pytest.fixture
def caller() -> Caller:
    return Bench().client()


def get(caller: Caller, topic: str = TOPIC, **fields: Any) -> pb.CommandGetSchemaResponse:
    answer: pb.CommandGetSchemaResponse = caller.ask(pb.CommandGetSchema(request_id=5, topic=topic, **fields))
    assert answer.request_id == 5
    return answer


def create(caller: Caller, schema: pb.Schema, topic: str = TOPIC) -> pb.CommandGetOrCreateSchemaResponse:
    asked = pb.CommandGetOrCreateSchema(request_id=6, topic=topic, schema=schema)
    answer: pb.CommandGetOrCreateSchemaResponse = caller.ask(asked)
    assert answer.request_id == 6
    return answer


def test_the_schema_of_a_producer_is_the_topics_and_has_the_topics_name(caller: Caller) -> None:
    assert caller.produce(schema=JSON).schema_version == FIRST
    answer = get(caller)
    assert answer.schema_version == FIRST
    expected = pb.Schema()
    expected.CopyFrom(JSON)
    expected.name = "public/default/t"
    assert answer.schema == expected
    assert create(caller, JSON).schema_version == FIRST


def test_a_version_can_be_asked_for(caller: Caller) -> None:
    caller.produce(schema=JSON)
    assert get(caller, schema_version=FIRST).schema.schema_data == JSON.schema_data
    assert get(caller, schema_version=b"\xff" * 8).error_code == pb.ServerError.TopicNotFound


def test_a_topic_without_a_schema_says_so(caller: Caller) -> None:
    assert caller.produce().schema_version == b""
    answer = get(caller)
    assert answer.error_code == pb.ServerError.TopicNotFound
    assert answer.error_message.endswith(TOPIC)
    assert not answer.HasField("schema")


def test_all_partitions_share_the_schemas_of_their_topic() -> None:
    bench = Bench()
    bench.broker.cluster.create_partitioned(TopicName.parse(TOPIC), 2)
    caller = bench.client()
    caller.produce(f"{TOPIC}-partition-0", schema=JSON)
    assert get(caller).schema.name == "public/default/t"
    assert get(caller, f"{TOPIC}-partition-1").schema.name == "public/default/t"


def test_a_schema_may_be_handed_in_before_the_first_message(caller: Caller) -> None:
    caller.produce()
    assert create(caller, STRING).schema_version == FIRST
    assert get(caller).schema.type == pb.Schema.String


def test_a_topic_that_is_not_there_takes_no_schema(caller: Caller) -> None:
    answer = create(caller, STRING, "nowhere")
    assert (answer.error_code, answer.error_message) == (
        pb.ServerError.TopicNotFound,
        "Topic not found persistent://public/default/nowhere",
    )


def test_a_schema_that_asks_for_the_topics_own_creates_none(caller: Caller) -> None:
    caller.produce()
    answer = create(caller, pb.Schema(name="AutoConsume", type=pb.Schema.AutoConsume, schema_data=b""))
    assert (answer.HasField("error_code"), answer.schema_version) == (False, b"")
