"""The messages of rows: how fields are encoded, and which are refused."""

from typing import Any

import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.spark.row_messages import MessageFields, encode_row_metadata, payloads_of
from pulsar_actors.wire.PulsarApi_pb2 import SingleMessageMetadata


def single(**fields: Any) -> SingleMessageMetadata:
    header = encode_row_metadata(3, MessageFields(**fields))
    assert header is not None
    return SingleMessageMetadata.FromString(header[0])


def test_a_message_without_fields_has_no_metadata() -> None:
    assert encode_row_metadata(3, MessageFields()) is None


def test_fields_are_encoded_as_clients_do() -> None:
    found = single(key="k", properties={"a": "b"}, ordering_key=b"o", event_time=7, sequence_id=0)
    assert (found.partition_key, found.partition_key_b64_encoded, found.ordering_key) == ("k", False, b"o")
    assert (found.event_time, found.sequence_id, found.payload_size) == (7, 0, 3)
    assert [(one.key, one.value) for one in found.properties] == [("a", "b")]


def test_a_key_that_is_no_utf8_is_encoded_in_base_64() -> None:
    found = single(key=b"\xff")
    assert (found.partition_key, found.partition_key_b64_encoded) == ("/w==", True)


@pytest.mark.parametrize("name", ["event_time", "deliver_at", "sequence_id"])
@pytest.mark.parametrize("value", [-1, -86_400_000, 2**63, "7", 1.5, True])
def test_a_number_out_of_range_is_refused_with_its_name(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name} takes "):
        encode_row_metadata(3, MessageFields(**{name: value}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"key": 7}, "a key is text or bytes, not int"),
        ({"ordering_key": 7}, "an ordering key is text or bytes, not int"),
        ({"properties": {"a": 7}}, "properties are text by name, and 'a' has int"),
        ({"properties": ["ab", "cd"]}, "properties are a map of text to text, not list"),
        ({"properties": {"a": "\ud800"}}, "a key or a property is no text that UTF-8 can write"),
        ({"key": "\ud800"}, "a key or a property is no text that UTF-8 can write"),
        ({"ordering_key": "\ud800"}, "an ordering key is no text that UTF-8 can write"),
    ],
)
def test_fields_that_are_no_text_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        encode_row_metadata(3, MessageFields(**fields))


def test_a_value_is_bytes_or_text() -> None:
    assert payloads_of([b"a", "a", bytearray(b"a"), memoryview(b"a"), None]) == [b"a"] * 4 + [b""]
    assert payloads_of(["a", "ä"]) == [b"a", b"\xc3\xa4"]
    with pytest.raises(InvalidArgument, match="the value of a message is bytes or text, not dict: cast it"):
        payloads_of([{}])
    with pytest.raises(InvalidArgument, match="the value of a message is no text that UTF-8 can write"):
        payloads_of(["a", "\ud800"])
