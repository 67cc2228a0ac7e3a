import pytest

from pulsar_actors.broker.model.interfaces import Missing, Refusal
from pulsar_actors.broker.model.schemas import SchemaData, Schemas
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError

ONE = SchemaData("t", Schema.Type.Json, b'{"a":1}')
OTHER = SchemaData("t", Schema.Type.Json, b'{"b":1}')


def test_versions_count_from_0_and_a_known_schema_keeps_its_own() -> None:
    schemas = Schemas()
    versions = [schemas.get_or_create(schema, 5).version for schema in (ONE, OTHER, ONE, OTHER)]
    assert versions == [0, 1, 0, 1]
    assert [stored.schema for stored in schemas.versions()] == [ONE, OTHER]


def test_a_version_on_the_wire_is_eight_bytes() -> None:
    schemas = Schemas()
    schemas.get_or_create(ONE, 5)
    assert schemas.get_or_create(OTHER, 5).version_bytes == b"\0\0\0\0\0\0\0\1"


def test_the_latest_is_given_unless_a_version_is_named() -> None:
    schemas = Schemas()
    for schema in (ONE, OTHER):
        schemas.get_or_create(schema, 5)
    assert schemas.get().schema == OTHER
    assert schemas.get(bytes(8)).schema == ONE
    with pytest.raises(Missing):
        schemas.get(b"\0\0\0\0\0\0\0\7")


def test_a_topic_without_schemas_has_none_to_give() -> None:
    with pytest.raises(Missing):
        Schemas().get()


def test_a_schema_of_another_type_is_incompatible() -> None:
    schemas = Schemas()
    schemas.get_or_create(ONE, 5)
    with pytest.raises(Refusal, match="exists schema type Json, new schema type String") as refusal:
        schemas.get_or_create(SchemaData("t", Schema.Type.String, b""), 5)
    assert refusal.value.code == ServerError.IncompatibleSchema


def test_what_is_compatible_can_be_decided_otherwise() -> None:
    schemas = Schemas(lambda latest, new: latest.data < new.data)
    schemas.get_or_create(OTHER, 5)
    with pytest.raises(Refusal):
        schemas.get_or_create(ONE, 5)


def test_a_deletion_is_a_version_too() -> None:
    schemas = Schemas()
    schemas.get_or_create(ONE, 5)
    assert schemas.delete() == 1
    assert schemas.versions() == []
    assert schemas.get_or_create(ONE, 5).version == 2
