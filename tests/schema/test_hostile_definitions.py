"""Definitions and payloads that any producer may write: each ends in an error that says so, in time, and alone."""

import json
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pulsar_actors.exceptions import InvalidArgument, UndecodableMessage, WrongContent
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.schema import AvroSchema, ProtobufNativeSchema, SchemaType
from pulsar_actors.schema.automatic import schema_of

NODE: Any = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
DEEP = 100_000
DEFINITIONS = {
    "no JSON": b"{", "no text": b"\xff", "nothing": b"", "null": b"null", "a number": b"5", "unknown type": b'"what"',
    "deep JSON": b"[" * DEEP, "deep arrays": b'{"type":"array","items":' * 800 + b'"int"' + b"}" * 800,
    "unknown name": b'{"type":"record","name":"R","fields":[{"name":"a","type":"Q"}]}',
    "no name": b'{"type":"record","fields":[]}', "name of a number": b'{"type":"record","name":5,"fields":[]}',
    "field of a number": b'{"type":"record","name":"R","fields":[5]}',
    "wrong default": b'{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
    "no symbols": b'{"type":"enum","name":"E"}',
    "wrong precision": b'{"type":"bytes","logicalType":"decimal","precision":"x"}',
    "without an end": b'{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}',
    "array of nothing": b'{"type":"array","items":"null"}',
    "array of empty records": b'{"type":"array","items":{"type":"record","name":"E","fields":[]}}',
}  # fmt: skip
PAYLOADS = {
    "endless recursion": (json.dumps(NODE).encode(), b"\x02" * 1_000_000),
    "endless arrays": (
        b'{"type":"record","name":"R","fields":[{"name":"r","type":{"type":"array","items":"R"}}]}',
        b"\x02" * 1_000_000,
    ),
    "long text": (b'"string"', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    "negative text": (b'"string"', b"\x01"),
    "no such branch": (b'["null","int"]', b"\x08"),
    "no such time": (b'{"type":"long","logicalType":"timestamp-millis"}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    "no UUID": (b'{"type":"string","logicalType":"uuid"}', b"\x02x"),
}
OTHERS = {
    "protobuf without JSON": (SchemaType.PROTOBUF_NATIVE, b"{"),
    "protobuf deep": (SchemaType.PROTOBUF_NATIVE, b"[" * DEEP),
    "protobuf of a list": (SchemaType.PROTOBUF_NATIVE, b"[]"),
    "protobuf of numbers": (SchemaType.PROTOBUF_NATIVE, b'{"fileDescriptorSet":5,"rootMessageTypeName":5}'),
    "protobuf without a root": (SchemaType.PROTOBUF_NATIVE, b'{"fileDescriptorSet":"","rootMessageTypeName":"x"}'),
    "a short pair": (SchemaType.KEY_VALUE, b"\x00"),
    "external": (22, b""),
    "unknown": (99, b""),
    "negative": (-5, b""),
}


def stored(kind: int, data: bytes, **properties: str) -> StoredSchema:
    return StoredSchema(kind, data, {name.replace("_", "."): value for name, value in properties.items()}, bytes(8))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_damaged_avro_definition_is_an_undecodable_message(name: str) -> None:
    definition = stored(SchemaType.AVRO, DEFINITIONS[name])
    with pytest.raises(UndecodableMessage):
        schema_of(definition)
    with pytest.raises(UndecodableMessage):
        AvroSchema(None, NODE).decode_written(b"", definition)


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_damaged_payload_is_an_undecodable_message(name: str) -> None:
    definition, payload = PAYLOADS[name]
    with pytest.raises(UndecodableMessage):
        schema_of(stored(SchemaType.AVRO, definition)).decode(payload)


def test_the_error_of_a_payload_says_which_schema_it_does_not_fit() -> None:
    with pytest.raises(UndecodableMessage, match=r"^the JSON schema of the topic cannot decode this payload: "):
        schema_of(stored(SchemaType.JSON, b"{}")).decode(b"{")
    definition = stored(SchemaType.PROTOBUF_NATIVE, ProtobufNativeSchema(Timestamp).schema_info().schema().encode())
    with pytest.raises(UndecodableMessage, match=r"^the protobuf schema of the topic cannot decode this payload: "):
        schema_of(definition).decode(b"\xff")


@pytest.mark.parametrize("name", OTHERS)
def test_another_damaged_definition_is_an_undecodable_message(name: str) -> None:
    with pytest.raises(UndecodableMessage):
        schema_of(stored(*OTHERS[name]))


def test_properties_of_a_pair_that_fit_nothing_are_an_undecodable_message() -> None:
    empty = bytes(8)
    for properties in ({"kv_encoding_type": "ELSEWHERE"}, {"key_schema_type": "WHAT"}, {"key_schema_properties": "["}):
        with pytest.raises(UndecodableMessage):
            schema_of(stored(SchemaType.KEY_VALUE, empty, **properties))


def test_an_external_schema_is_named() -> None:
    with pytest.raises(UndecodableMessage, match="EXTERNAL"):
        schema_of(stored(22, b""))


def test_long_values_of_a_record_that_contains_itself_come_back() -> None:
    value: Any = None
    for _ in range(100):
        value = {"r": value}
    wide = {"type": "record", "name": "W", "fields": [{"name": "w", "type": {"type": "array", "items": "W"}}]}
    leaf: dict[str, Any] = {"w": []}
    for definition, one in ((NODE, value), (wide, {"w": [{"w": [leaf] * 30}] * 30})):
        schema = AvroSchema(None, definition)
        assert schema.decode(schema.encode(one)) == one


def test_a_dict_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["r"] = value
    with pytest.raises(WrongContent):
        AvroSchema(None, NODE).encode(value)


def test_a_definition_may_be_nested_so_deep_and_no_deeper() -> None:
    definition: Any = "int"
    for _ in range(200):
        definition = {"type": "array", "items": definition}
    assert AvroSchema(None, definition).schema_info().schema()
    with pytest.raises(InvalidArgument, match="more than 200 types deep"):
        AvroSchema(None, {"type": "map", "values": definition})


def test_names_are_compared_with_their_namespaces() -> None:
    inner = {"type": "record", "name": "b.R", "fields": [{"name": "a", "type": "int"}]}
    fields = [{"name": "one", "type": inner}, {"name": "two", "type": "b.R"}]
    schema = AvroSchema(None, {"type": "record", "name": "R", "namespace": "a", "fields": fields})
    assert schema.decode(schema.encode({"one": {"a": 1}, "two": {"a": 2}})) == {"one": {"a": 1}, "two": {"a": 2}}


def test_the_text_of_a_definition_is_refused_with_the_way_to_write_it() -> None:
    with pytest.raises(InvalidArgument, match=r"json\.loads"):
        AvroSchema(None, json.dumps(NODE))
