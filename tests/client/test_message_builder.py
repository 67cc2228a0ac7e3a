from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message_builder import LOCAL_CLUSTER_ONLY, NO_OPTIONS, build_message
from pulsar_actors.client.schema import BYTES, StringSchema
from pulsar_actors.exceptions import InvalidArgument, WrongContent
from pulsar_actors.runtime.send_queue import MessageHeader, UnbatchableOptions
from pulsar_actors.wire.PulsarApi_pb2 import SingleMessageMetadata

NOW_MS = 1_000_000


def made(content: object = b"payload", **extras: Any) -> tuple[bytes, Any]:
    given = MessageToSend(content, **extras)
    return build_message(BYTES, content, given[1:], "reply", lambda: NOW_MS)


def metadata_of(tag: MessageHeader) -> SingleMessageMetadata:
    assert tag.reply == "reply"
    return SingleMessageMetadata.FromString(tag.metadata)


def said(**extras: Any) -> SingleMessageMetadata:
    return metadata_of(made(**extras)[1])


def test_a_message_of_which_nothing_is_said_is_its_payload_alone() -> None:
    assert made() == (b"payload", "reply")
    assert build_message(BYTES, b"", NO_OPTIONS, None, lambda: NOW_MS) == (b"", None)


def test_content_is_what_the_schema_takes() -> None:
    assert build_message(StringSchema(), "é", NO_OPTIONS, None, lambda: NOW_MS)[0] == "é".encode()
    with pytest.raises(WrongContent):
        made("text")


def test_no_content_is_a_null_value_with_whatever_is_said_of_it() -> None:
    payload, tag = made(None, partition_key="k")
    assert (payload, tag.unbatchable) == (b"", None)
    assert metadata_of(tag) == SingleMessageMetadata(payload_size=0, null_value=True, partition_key="k")
    assert metadata_of(made(None)[1]) == SingleMessageMetadata(payload_size=0, null_value=True)


def test_what_is_said_of_a_message_stands_in_its_metadata() -> None:
    single = said(
        properties={"a": "1", "b": "2"}, partition_key="key", ordering_key="order", sequence_id=0, event_timestamp=0
    )
    assert [(pair.key, pair.value) for pair in single.properties] == [("a", "1"), ("b", "2")]
    assert (single.partition_key, single.ordering_key, single.payload_size) == ("key", b"order", 7)
    assert single.HasField("sequence_id"), "0 is a sequence id like any other"
    assert single.HasField("event_time"), "and a time"
    assert not single.HasField("null_value")


def test_what_is_looked_at_need_not_be_read_from_the_metadata() -> None:
    _, tag = made(partition_key="key", ordering_key="order", sequence_id=0, deliver_at=5, properties={"a": "1"})
    assert tag == MessageHeader.of(metadata_of(tag), UnbatchableOptions(5), "reply")
    _, tag = made(properties={"a": "1"}, partition_key="")
    assert tag == MessageHeader.of(metadata_of(tag), None, "reply")


def test_what_is_not_said_is_not_there() -> None:
    names = {field.name for field, _ in said(partition_key="k").ListFields()}
    assert names == {"payload_size", "partition_key"}


def test_an_empty_key_is_none() -> None:
    assert not said(partition_key="", ordering_key="", event_timestamp=1).HasField("partition_key")
    assert not said(partition_key="", ordering_key="", event_timestamp=1).HasField("ordering_key")


@pytest.mark.parametrize(
    ("extras", "alone"),
    [
        ({"deliver_at": 5}, UnbatchableOptions(5)),
        ({"deliver_at": 0}, UnbatchableOptions(0)),
        ({"deliver_after": timedelta(seconds=1.5)}, UnbatchableOptions(NOW_MS + 1500)),
        ({"deliver_after": timedelta(milliseconds=1001)}, UnbatchableOptions(NOW_MS + 1001)),  # 1000.99… as a float
        ({"deliver_after": timedelta(days=-365)}, UnbatchableOptions(0)),
        ({"deliver_at": 5, "deliver_after": timedelta(0)}, UnbatchableOptions(NOW_MS)),
        ({"replication_clusters": ["here", "there"]}, UnbatchableOptions(None, ("here", "there"))),
        ({"disable_replication": True}, UnbatchableOptions(None, (LOCAL_CLUSTER_ONLY,))),
        (
            {"replication_clusters": ["here"], "disable_replication": True},
            UnbatchableOptions(None, (LOCAL_CLUSTER_ONLY,)),
        ),
        ({"replication_clusters": []}, None),
        ({"partition_key": "k"}, None),
    ],
)
def test_what_a_batch_has_no_place_for_makes_a_message_travel_alone(
    extras: dict[str, Any], alone: UnbatchableOptions | None
) -> None:
    assert made(**extras)[1].unbatchable == alone


@pytest.mark.parametrize(
    ("extras", "words"),
    [
        ({"properties": MappingProxyType({"a": "1"})}, "properties"),
        ({"partition_key": "k", "disable_replication": 0}, "disable_replication"),
        ({"sequence_id": -1}, "sequence_id"),
        ({"event_timestamp": 1.5}, "event_timestamp takes a whole number of milliseconds since 1970, from 0 to "),
        ({"deliver_at": -1}, "deliver_at"),
        ({"replication_clusters": [""]}, "replication_clusters"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(extras: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        made(**extras)
