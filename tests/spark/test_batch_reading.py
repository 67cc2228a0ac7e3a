"""`spark.read`: every message between two offsets is read once, with all its fields."""

import json
from datetime import datetime, timezone
from typing import Any

import pulsar
import pytest
from pyspark.sql.types import MapType, StringType, StructType

from tests.spark.stream import reading, writing
from tests.spark.traffic import Traffic
from tests.support.subjects import Broker

NUMBERS = [f"{number}" for number in range(1000)]


def texts(frame: Any) -> list[str]:
    return sorted((bytes(row["value"]).decode() for row in frame.select("value").collect()), key=int)


def place(message_id: Any) -> str:
    index = message_id.batch_index()
    entry = f"{message_id.ledger_id()}:{message_id.entry_id()}"
    return f"{entry}:{message_id.partition()}:{index}" if index >= 0 else entry


def test_a_row_has_all_fields_of_a_message(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    before = datetime.now(timezone.utc)
    (sent,) = traffic.send(
        topic,
        ["hello"],
        properties={"a": "1", "b": "2"},
        partition_key="the key",
        ordering_key="the order",
        sequence_id=7,
        event_timestamp=1_600_000_000_123,
    )
    (row,) = reading(spark, broker, topic=topic).load().collect()
    assert bytes(row["value"]) == b"hello"
    assert bytes(row["__key"]) == b"the key"
    assert row["__topic"] == topic
    assert str(pulsar.MessageId.deserialize(bytes(row["__messageId"]))) == str(sent)
    assert abs((row["__publishTime"].astimezone(timezone.utc) - before).total_seconds()) < 60
    assert row["__eventTime"].timestamp() == 1_600_000_000.123
    assert row["__messageProperties"] == {"a": "1", "b": "2"}
    assert bytes(row["__orderingKey"]) == b"the order"
    assert row["__sequenceId"] == 7
    assert row["__producerName"]
    assert row["__redeliveryCount"] == 0


def test_fields_that_a_message_does_not_have_are_null(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    traffic.send(topic, ["0", "1"], per_batch=10)
    rows = reading(spark, broker, topic=topic).load().orderBy("value").collect()
    assert [(row["__key"], row["__eventTime"], row["__orderingKey"]) for row in rows] == [(None, None, None)] * 2
    assert [row["__messageProperties"] for row in rows] == [{}, {}]
    assert [row["__sequenceId"] for row in rows] == [0, 1]


@pytest.mark.parametrize("per_batch", [0, 7, 1000])
def test_every_message_of_all_partitions_is_read_once(
    spark: Any, broker: Broker, traffic: Traffic, partitioned: str, per_batch: int
) -> None:
    traffic.send(partitioned, NUMBERS, per_batch=per_batch)
    frame = reading(spark, broker, topic=partitioned).load()
    assert texts(frame) == NUMBERS
    partitions = {f"{partitioned}-partition-{number}" for number in range(3)}
    assert {row["__topic"] for row in frame.select("__topic").distinct().collect()} <= partitions


@pytest.mark.parametrize(
    ("per_batch", "at"), [(0, 0), (0, 500), (7, 1), (7, 6), (7, 7), (7, 999), (1000, 0), (1000, 500), (1000, 999)]
)
def test_spans_that_meet_have_every_message_once(  # noqa: PLR0913 - fixtures
    spark: Any, broker: Broker, traffic: Traffic, topic: str, per_batch: int, at: int
) -> None:
    ids = traffic.send(topic, NUMBERS, per_batch=per_batch)
    offsets = json.dumps({topic: place(ids[at])})
    before = reading(spark, broker, topic=topic, endingOffsets=offsets).load()
    behind = reading(spark, broker, topic=topic, startingOffsets=offsets).load()
    assert texts(before) == NUMBERS[:at]
    assert texts(behind) == NUMBERS[at:]


def test_a_query_gets_the_columns_and_types_of_its_schema(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    traffic.send(topic, ["hello"], partition_key="key")
    frame = reading(spark, broker, topic=topic).schema("__key string, value string").load()
    assert [tuple(row) for row in frame.collect()] == [("key", "hello")]


def test_a_column_may_be_declared_not_null(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    traffic.send(topic, ["hello"], properties={"a": "b"})
    kind = MapType(StringType(), StringType(), valueContainsNull=False)
    schema = StructType().add("value", "string", nullable=False).add("__messageProperties", kind, nullable=False)
    frame = reading(spark, broker, topic=topic).schema(schema).load()
    assert [tuple(row) for row in frame.collect()] == [("hello", {"a": "b"})]


def test_a_null_in_a_column_that_is_not_null_is_refused(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    traffic.send(topic, ["hello"])
    frame = reading(spark, broker, topic=topic).schema("value string, __key string not null").load()
    with pytest.raises(Exception, match=r"the __key of a message at \d+:0 of .* is null, .*: leave out NOT NULL"):
        frame.collect()


def test_a_time_that_is_too_late_for_spark_is_null(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    latest = 9_223_372_036_854_775
    for time in (latest, latest + 1, 1_600_000_000_000_000_000):  # the last in nanoseconds, by mistake
        traffic.send(topic, ["hello"], event_timestamp=time)
    frame = reading(spark, broker, topic=topic).load().selectExpr("unix_millis(__eventTime) as ms")
    assert [row.ms for row in frame.collect()] == [latest, None, None]


def test_a_start_after_the_end_is_refused(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    ids = traffic.send(topic, NUMBERS[:3])
    start, end = place(ids[2]), place(ids[1])
    with pytest.raises(Exception, match=f"is to be read from {start} on, and ends before that, at {end}"):
        reading(spark, broker, topic=topic, startingOffsets=start, endingOffsets=end).load().collect()
    empty = reading(spark, broker, topic=topic, startingOffsets=end, endingOffsets=end).load()
    assert empty.count() == 0


@pytest.mark.parametrize("broker", ["apache"], indirect=True)  # the embedded one does not compact
def test_compacted_messages_do_not_count_as_lost(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    for content, key in (("1", "a"), ("2", "a"), ("1", "b")):
        traffic.send(topic, [content], partition_key=key)
    tombstone = spark.sql("select cast(null as string) as value, 'b' as __key")
    writing(tombstone, broker, topic=topic)
    broker.admin.compact(topic)
    frame = reading(spark, broker, topic=topic, pulsar__reader__readCompacted="true").schema("value string").load()
    assert [row.value for row in frame.collect()] == ["2"]


def test_bytes_that_are_no_utf8_are_refused_as_text(spark: Any, broker: Broker, topic: str, traffic: Traffic) -> None:
    frame = spark.createDataFrame([(bytearray(b"\xff\xfe"),)], "value binary")
    writing(frame, broker, topic=topic)
    with pytest.raises(Exception, match=r"at \d+:\d+ of .* is no text in UTF-8: read it as binary"):
        reading(spark, broker, topic=topic).schema("value string").load().collect()


def test_an_empty_topic_gives_no_rows(spark: Any, broker: Broker, topic: str) -> None:
    broker.admin.create_partitioned(topic, 2)
    assert reading(spark, broker, topic=topic).load().count() == 0


def test_several_topics_and_a_pattern_are_read_together(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    traffic.send(f"{topic}-a", NUMBERS[:10])
    traffic.send(f"{topic}-b", NUMBERS[10:20])
    named = reading(spark, broker, topics=f"{topic}-a, {topic}-b").load()
    matching = reading(spark, broker, topicsPattern=f"{topic}-.").load()
    assert texts(named) == texts(matching) == NUMBERS[:20]


def test_a_topic_that_does_not_exist_is_an_error_and_is_not_created(spark: Any, broker: Broker, topic: str) -> None:
    with pytest.raises(Exception, match=r"there is no topic .*waitingForNonExistedTopic"):
        reading(spark, broker, topic=topic).load().collect()
    assert reading(spark, broker, topic=topic, waitingForNonExistedTopic="true").load().count() == 0
    assert topic not in broker.admin.json("GET", "persistent/public/default")


def test_a_query_may_begin_and_end_at_a_time(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    traffic.send(topic, NUMBERS[:10])
    first = reading(spark, broker, topic=topic).load().agg({"__publishTime": "max"}).collect()[0][0]
    middle = int(first.timestamp() * 1000) + 1
    while int(datetime.now(timezone.utc).timestamp() * 1000) <= middle:
        pass
    traffic.send(topic, NUMBERS[10:20])
    assert texts(reading(spark, broker, topic=topic, startingTime=middle).load()) == NUMBERS[10:20]
    assert texts(reading(spark, broker, topic=topic, endingTime=middle).load()) == NUMBERS[:10]


def test_more_tasks_than_partitions_share_the_entries(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    traffic.send(topic, NUMBERS, per_batch=7)
    frame = reading(spark, broker, topic=topic, minPartitions=5, admin__url=broker.admin.web_url).load()
    assert frame.rdd.getNumPartitions() == 5
    assert texts(frame) == NUMBERS
