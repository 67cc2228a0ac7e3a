"""What a row says of its message, and what no message can say."""

from typing import Any

import pytest

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.spark.drafts import Traits, payload_of, said_of
from pulsar_actors.wire.PulsarApi_pb2 import SingleMessageMetadata


def single(**traits: Any) -> SingleMessageMetadata:
    said = said_of(3, Traits(**traits))
    assert said is not None
    return SingleMessageMetadata.FromString(said[0])


def test_a_message_that_says_nothing_costs_nothing() -> None:
    assert said_of(3, Traits()) is None


def test_what_is_said_travels_as_clients_write_it() -> None:
    found = single(key="k", properties={"a": "b"}, ordering_key=b"o", event_time=7, sequence_id=0)
    assert (found.partition_key, found.partition_key_b64_encoded, found.ordering_key) == ("k", False, b"o")
    assert (found.event_time, found.sequence_id, found.payload_size) == (7, 0, 3)
    assert [(one.key, one.value) for one in found.properties] == [("a", "b")]


def test_a_key_that_is_no_text_travels_in_base_64() -> None:
    found = single(key=b"\xff")
    assert (found.partition_key, found.partition_key_b64_encoded) == ("/w==", True)


@pytest.mark.parametrize("name", ["event_time", "deliver_at", "sequence_id"])
@pytest.mark.parametrize("value", [-1, -86_400_000, 2**63, "7", 1.5, True])
def test_a_number_that_cannot_be_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name} takes "):
        said_of(3, Traits(**{name: value}))


@pytest.mark.parametrize(
    ("traits", "message"),
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
def test_what_is_no_text_is_refused(traits: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        said_of(3, Traits(**traits))


def test_a_value_is_bytes_or_text() -> None:
    assert [payload_of(one) for one in (b"a", "a", bytearray(b"a"), memoryview(b"a"), None)] == [b"a"] * 4 + [b""]
    with pytest.raises(InvalidArgument, match="the value of a message is bytes or text, not dict: cast it"):
        payload_of({})
    with pytest.raises(InvalidArgument, match="the value of a message is no text that UTF-8 can write"):
        payload_of("\ud800")
