"""Definitions that brokers compare by their bytes: a producer announces the topic's own, if it means the same."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.type_pb2 import Type

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.schema import ProtobufNativeSchema, Schema, StringSchema
from tests.support.admin import Admin

OF_JAVA = (
    '{"fileDescriptorSet":"Cv8BCh9nb29nbGUvcHJvdG9idWYvdGltZXN0YW1wLnByb3RvEg9nb29nbGUucHJvdG9idWYiOwoJVGltZXN'
    "0YW1wEhgKB3NlY29uZHMYASABKANSB3NlY29uZHMSFAoFbmFub3MYAiABKAVSBW5hbm9zQoUBChNjb20uZ29vZ2xlLnByb3RvYnVmQg5U"
    "aW1lc3RhbXBQcm90b1ABWjJnb29nbGUuZ29sYW5nLm9yZy9wcm90b2J1Zi90eXBlcy9rbm93bi90aW1lc3RhbXBwYvgBAaICA0dQQqoCH"
    'kdvb2dsZS5Qcm90b2J1Zi5XZWxsS25vd25UeXBlc2IGcHJvdG8z","rootMessageTypeName":"google.protobuf.Timestamp","r'
    'ootFileDescriptorName":"google/protobuf/timestamp.proto"}'
)
"""What the Java client 4.2.4 announces for `Schema.PROTOBUF_NATIVE(Timestamp.class)`."""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def post(broker: EmbeddedBroker, topic: str, kind: str, text: str) -> None:
    body = {"type": kind, "schema": text, "properties": {"by": "another"}}
    Admin(broker.web_url).json("POST", f"schemas/public/default/{topic}/schema", body)


def definitions(broker: EmbeddedBroker, topic: str) -> list[str]:
    path = f"schemas/public/default/{topic}/schemas"
    return [one["data"] for one in Admin(broker.web_url).json("GET", path)["getSchemaResponses"]]


def in_another_order(schema: Schema) -> str:
    definition: Any = json.loads(schema.schema_info().schema())
    files = FileDescriptorSet.FromString(b64decode(definition["fileDescriptorSet"]))
    turned = FileDescriptorSet(file=reversed(files.file))
    assert turned != files
    return json.dumps({**definition, "fileDescriptorSet": b64encode(turned.SerializeToString()).decode()})


@pytest.mark.parametrize(
    ("kind", "text", "schema", "value"),
    [
        ("STRING", "null", StringSchema(), "x"),
        ("PROTOBUF_NATIVE", OF_JAVA, ProtobufNativeSchema(Timestamp), Timestamp(seconds=5)),
        ("PROTOBUF_NATIVE", in_another_order(ProtobufNativeSchema(Type)), ProtobufNativeSchema(Type), Type(name="x")),
    ],
    ids=["text", "protobuf of Java", "files in another order"],
)
def test_a_definition_that_means_the_same_stays_the_only_one(
    broker: EmbeddedBroker, kind: str, text: str, schema: Schema, value: object
) -> None:
    post(broker, "t", kind, text)
    before = schema.schema_info()
    with pulsar_actors.Client(broker.service_url) as client:
        client.create_producer("t", schema=schema).send(value)
        reader = client.create_reader("t", pulsar_actors.MessageId.earliest, schema=schema)
        assert reader.read_next(10_000).value() == value
    assert definitions(broker, "t") == [text]
    assert schema.schema_info() == before


@pytest.mark.parametrize("damaged", ["{", "[]", '{"fileDescriptorSet": 5}'])
def test_a_definition_that_means_something_else_is_left_to_the_broker(broker: EmbeddedBroker, damaged: str) -> None:
    post(broker, "t", "PROTOBUF_NATIVE", damaged)
    schema = ProtobufNativeSchema(Timestamp)
    with pulsar_actors.Client(broker.service_url) as client:
        client.create_producer("t", schema=schema).send(Timestamp())
    assert definitions(broker, "t")[1:] == [schema.schema_info().schema()]


def test_a_definition_of_another_message_is_refused_by_the_broker(broker: EmbeddedBroker) -> None:
    post(broker, "t", "PROTOBUF_NATIVE", ProtobufNativeSchema(Struct).schema_info().schema())
    with pulsar_actors.Client(broker.service_url) as client, pytest.raises(pulsar_actors.IncompatibleSchema):
        client.create_producer("t", schema=ProtobufNativeSchema(Timestamp))


def test_text_of_the_official_client_is_one_schema_on_every_partition(broker: EmbeddedBroker) -> None:
    Admin(broker.web_url).call("PUT", "persistent/public/default/t/partitions", 3)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    official = pulsar.Client(broker.service_url, logger=quiet)
    official.create_producer("t", schema=pulsar.schema.StringSchema()).send("x")
    with pulsar_actors.Client(broker.service_url) as client:
        client.create_producer("t", schema=StringSchema()).send("y")
    official.close()
    assert definitions(broker, "t") == ["null"]
