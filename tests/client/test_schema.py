from typing import Any

import pulsar.schema
import pytest

from pulsar_actors.client.schema import BYTES, BytesSchema, StringSchema
from pulsar_actors.exceptions import InvalidMessage
from pulsar_actors.wire.PulsarApi_pb2 import Schema as SchemaData


@pytest.mark.parametrize(
    ("ours", "official", "value"),
    [
        (BytesSchema(), pulsar.schema.BytesSchema(), b"\xff\0"),
        (StringSchema(), pulsar.schema.StringSchema(), "grün, und leer: "),
        (StringSchema(), pulsar.schema.StringSchema(), ""),
    ],
)
def test_a_schema_writes_and_reads_as_the_official_one(ours: Any, official: Any, value: Any) -> None:
    assert ours.encode(value) == official.encode(value)
    assert ours.decode(official.encode(value)) == value


@pytest.mark.parametrize("value", [bytearray(b"abc"), memoryview(b"abc")])
def test_what_can_be_seen_as_bytes_is_sent_as_such(value: Any) -> None:
    assert BYTES.encode(value) == b"abc"
    assert type(BYTES.encode(value)) is bytes


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (BYTES, "text", "the content of a message is bytes, not str; encode it, or use StringSchema()"),
        (BYTES, 5, "the content of a message is bytes, not int"),
        (BYTES, [1, 2], "the content of a message is bytes, not list"),
        (StringSchema(), b"bytes", "StringSchema takes a str, not bytes"),
        (StringSchema(), "\ud800", "StringSchema takes Unicode text: surrogates not allowed"),
    ],
)
def test_what_does_not_fit_a_schema_is_refused_with_a_hint(schema: Any, value: Any, text: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        schema.encode(value)
    assert str(refused.value) == text


def test_text_is_announced_to_brokers_and_bytes_are_not() -> None:
    assert BYTES.announced() is None
    assert StringSchema().announced() == SchemaData(name="STRING", schema_data=b"", type=SchemaData.String)


def test_bytes_that_are_no_text_say_so_when_the_value_is_asked_for() -> None:
    with pytest.raises(UnicodeDecodeError):
        StringSchema().decode(b"\xff")


def test_a_schema_shows_its_kind() -> None:
    assert (repr(BYTES), repr(StringSchema())) == ("BytesSchema()", "StringSchema()")
