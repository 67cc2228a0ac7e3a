import pytest

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.schemas import SchemaData, Schemas
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError

ONE = SchemaData("t", Schema.Type.Json, b'{"a":1}')


def test_a_schema_of_another_type_is_incompatible() -> None:
    schemas = Schemas()
    schemas.get_or_create(ONE, 5)
    with pytest.raises(Refusal, match="exists schema type Json, new schema type String") as refusal:
        schemas.get_or_create(SchemaData("t", Schema.Type.String, b""), 5)
    assert refusal.value.code == ServerError.IncompatibleSchema


def test_a_deletion_is_a_version_too_and_on_the_wire_a_version_is_eight_bytes() -> None:
    schemas = Schemas()
    schemas.get_or_create(ONE, 5)
    assert schemas.delete() == 1
    assert schemas.versions() == []
    stored = schemas.get_or_create(ONE, 5)
    assert (stored.version, stored.version_bytes) == (2, b"\0\0\0\0\0\0\0\2")
