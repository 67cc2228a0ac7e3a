"""Each row has the fields of its message, whatever entries it is read with."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, MapType, StringType, StructField, StructType

from pulsar_actors.client.message import Message, new_messages
from pulsar_actors.client.schema import SchemaType
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.opened_entry import EntryContents, OpenedEntry, open_entry
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.spark.columns import SCHEMA, Columns
from pulsar_actors.spark.read_task import clipped, position_after
from pulsar_actors.spark.typed_columns import TopicColumns
from pulsar_actors.wire.batch import encode_batch
from pulsar_actors.wire.entries import encode_entry, parse_entry
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import KeyValue, MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.topic_position import TopicPosition
from tests.support.entries_in_hand import batch, single

TOPIC = "persistent://public/default/orders-partition-1"
TEXTS = st.text("aé", max_size=3)
TRAITS = st.fixed_dictionaries(
    {},
    optional={
        "partition_key": TEXTS,
        "ordering_key": st.binary(max_size=3),
        "event_time": st.integers(1, 10**12),
        "sequence_id": st.integers(0, 10**6),
        "properties": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "null_value": st.booleans(),
    },
)
MESSAGES = st.lists(st.tuples(st.binary(max_size=3), TRAITS), min_size=1, max_size=20)


def contents(delivery: DeliveredEntry) -> EntryContents:
    return open_entry(delivery, OpenedEntry(delivery, Generation(1), TOPIC, bytes), 2**20, compacted=False)


def said(payload: bytes, traits: dict[str, Any]) -> SingleMessageMetadata:
    pairs = [KeyValue(key=key, value=value) for key, value in traits.get("properties", {}).items()]
    return SingleMessageMetadata(payload_size=len(payload), **{**traits, "properties": pairs})


def sent(entry_id: int, messages: list[tuple[bytes, dict[str, Any]]], highest: int | None) -> EntryContents:
    """An entry of a batch, as a broker has it."""
    payload = encode_batch([(said(*one), one[0]) for one in messages])
    metadata = MessageMetadata(
        producer_name=f"p{entry_id}", sequence_id=5, publish_time=entry_id + 1, num_messages_in_batch=len(messages)
    )
    if highest is not None:
        metadata.highest_sequence_id = 5 + highest
    entry = parse_entry(b"".join(encode_entry(metadata, payload)))
    return contents(DeliveredEntry(MessageId(3, entry_id, 1), entry, (1 << len(messages)) - 1, entry_id))


def rows_of(*entries: EntryContents, schema: Any = SCHEMA) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Columns(schema).batch(entries).to_pylist()
    return rows


def milliseconds(time: Any) -> int:
    return 0 if time is None else round(time.timestamp() * 1000)


def check(row: dict[str, Any], message: Message) -> None:
    own = message._own()
    assert row["value"] == (None if own.null_value else message.data())
    assert row["__messageId"] == message.message_id().serialize()
    assert (row["__key"] or b"").decode() == message.partition_key()
    assert (row["__key"] is None) is not own.HasField("partition_key")
    assert row["__orderingKey"] == (own.ordering_key if own.HasField("ordering_key") else None)
    assert dict(row["__messageProperties"]) == message.properties()
    assert (row["__topic"], row["__producerName"]) == (message.topic_name(), message.producer_name())
    assert row["__redeliveryCount"] == message.redelivery_count()
    assert milliseconds(row["__publishTime"]) == message.publish_timestamp()
    assert milliseconds(row["__eventTime"]) == message.event_timestamp()
    if own.HasField("sequence_id"):
        assert row["__sequenceId"] == own.sequence_id


@given(st.lists(st.tuples(MESSAGES, st.integers(1, 9)), min_size=1, max_size=6), st.integers(0, 19), st.integers(0, 19))
def test_each_row_has_the_fields_of_its_message_whatever_entries_it_is_read_with(
    batches: list[tuple[list[tuple[bytes, dict[str, Any]]], int]], start: int, end: int
) -> None:
    entries = [sent(number, messages * times, None) for number, (messages, times) in enumerate(batches)]
    entries += [contents(single(len(entries) + 1, b"alone", partition_key="k")), contents(single(99))]
    first, last = TopicPosition(3, 0, start), TopicPosition(3, len(batches) - 1, end)
    cut = [part for part in (clipped(one, first, last) for one in entries) if part is not None]
    for some in (entries, cut):
        messages = [message for one in some for message in new_messages(*one[:4])]
        if messages:
            rows = rows_of(*some)
            assert len(rows) == len(messages)
            for row, message in zip(rows, messages, strict=True):
                check(row, message)


@pytest.mark.parametrize(("key", "expected"), [("eA==", b"x"), ("x", b"x"), ("eA=!", b"eA=!"), ("", b"")])
def test_a_key_that_is_no_base_64_although_it_says_so_is_its_bytes(key: str, expected: bytes) -> None:
    entry = contents(single(1, partition_key=key, partition_key_b64_encoded=True))
    assert [row["__key"] for row in rows_of(entry)] == [expected]


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 30))
def test_a_clipped_entry_has_the_messages_from_the_start_up_to_the_end(size: int, start: int, end: int) -> None:
    whole = sent(7, [(b"", {})] * size, None)
    part = clipped(whole, TopicPosition(3, 7, start), TopicPosition(3, 7, end))
    assert (list(part.indexes) if part is not None else []) == list(range(start, min(size, end)))
    assert position_after(whole) == TopicPosition(3, 8)
    assert part is None or position_after(part) == (TopicPosition(3, 8) if end >= size else TopicPosition(3, 7, end))
    assert clipped(whole, TopicPosition(3, 8), TopicPosition(4, 0)) is None
    assert clipped(whole, TopicPosition(2, 9), TopicPosition(3, 7)) is None
    assert clipped(whole, TopicPosition(3, 6, start), TopicPosition(3, 7, size)) == whole


@pytest.mark.parametrize(
    ("highest", "expected"), [(None, [5, 5, 5]), (2, [5, 6, 7]), (4, [5, 5, 5])], ids=["lowest alone", "all", "gaps"]
)
def test_sequence_ids_are_derived_from_those_of_the_batch(highest: int | None, expected: list[int]) -> None:
    plain: list[tuple[bytes, dict[str, Any]]] = [(b"", {})] * 3
    assert [row["__sequenceId"] for row in rows_of(sent(1, plain, highest), sent(2, plain * 9, highest))][
        :3
    ] == expected
    own = [*plain[:2], (b"", {"sequence_id": 41})]
    assert [row["__sequenceId"] for row in rows_of(sent(1, own, highest))] == [*expected[:2], 41]


def test_a_sequence_id_too_large_for_spark_is_negative() -> None:
    message = single(1)
    message.entry.metadata.sequence_id = 2**64 - 1
    assert rows_of(contents(message))[0]["__sequenceId"] == -1


def test_messages_of_a_partly_acknowledged_batch_keep_their_ids() -> None:
    entry = contents(batch(1, *([b"x"] * 40), wanted=(1 << 40) - 1 & ~0b1010))
    indexes = [MessageId.deserialize(row["__messageId"]).batch_index for row in rows_of(entry)]
    assert indexes == [0, 2, *range(4, 40)]


@pytest.mark.parametrize("names", [[], ["value", "value"]])
def test_a_schema_without_columns_or_with_repeated_ones_is_refused(names: list[str]) -> None:
    schema = StructType([StructField(name, BinaryType()) for name in names])
    with pytest.raises(InvalidConfiguration, match="is to name each column once, and one at least"):
        Columns(schema)


NUMBER, TEXT = IntegerType(), StringType()
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
NESTED = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "point", "type": POINT},
        {"name": "numbers", "type": {"type": "array", "items": "int"}},
        {"name": "points", "type": {"type": "map", "values": {"type": "array", "items": "Point"}}},
    ],
}


POINTS = b"\x02\x00\x02\x02a\x02\x06\x00\x00"
"""A record with the point 1, no numbers, and the points of `a`: the point 3."""


def point(*, nullable: bool) -> StructType:
    return StructType([StructField("x", NUMBER, nullable)])


def points(kind: DataType, *, array: bool = True, table: bool = True) -> MapType:
    return MapType(TEXT, ArrayType(kind, array), table)


@pytest.mark.parametrize(
    ("name", "kind", "part", "instead"),
    [
        ("point", point(nullable=False), "point.x", "struct<x:int>"),
        ("numbers", ArrayType(NUMBER, containsNull=False), "numbers[]", "array<int>"),
        ("points", points(point(nullable=True), table=False), "points{}", "map<string,array<struct<x:int>>>"),
        ("points", points(point(nullable=True), array=False), "points{}[]", "map<string,array<struct<x:int>>>"),
        ("points", points(point(nullable=False)), "points{}[].x", "map<string,array<struct<x:int>>>"),
    ],
)
def test_a_part_of_a_typed_column_that_is_not_null_is_refused_with_its_place(
    name: str, kind: DataType, part: str, instead: str
) -> None:
    typed = TopicColumns(StoredSchema(SchemaType.AVRO, json.dumps(NESTED).encode(), {}, b""))
    with pytest.raises(InvalidConfiguration) as refused:
        Columns(StructType([StructField(name, kind)]), typed)
    assert str(refused.value).startswith(f"{part} is not null by the schema of the query, and only a whole column can")
    assert f"give {name} the type {instead}, with no NOT NULL inside" in str(refused.value)


def test_a_typed_column_may_be_not_null_as_a_whole() -> None:
    typed = TopicColumns(StoredSchema(SchemaType.AVRO, json.dumps(NESTED).encode(), {}, b""))
    whole = StructField("points", points(point(nullable=True)), nullable=False)
    batch = Columns(StructType([whole]), typed).batch([sent(1, [(POINTS, {})], None)])
    assert (batch.schema.field("points").nullable, batch.to_pylist()) == (False, [{"points": [("a", [{"x": 3}])]}])
