"""`df.write`: every row is a message, as another client reads it, or the job fails with the reason."""

import time
from typing import Any

import pulsar
import pytest

import pulsar_actors
from tests.spark.stream import reading, writing
from tests.spark.traffic import Traffic
from tests.support.subjects import Broker


def test_every_row_is_a_message(spark: Any, broker: Broker, traffic: Traffic, partitioned: str) -> None:
    writing(spark.range(5000).selectExpr("cast(id as string) as value").repartition(3), broker, topic=partitioned)
    assert sorted(map(int, traffic.texts(partitioned))) == list(range(5000))


def test_the_columns_of_a_row_are_the_fields_of_its_message(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    frame = spark.sql(
        "select cast('hello' as binary) as value, 'the key' as __key, cast('the order' as binary) as __orderingKey,"
        " timestamp_millis(1600000000123) as __eventTime, map('a', '1', 'b', '2') as __messageProperties"
    )
    writing(frame, broker, topic=topic)
    (message,) = traffic.read(topic)
    assert message.data() == b"hello"
    assert message.partition_key() == "the key"
    assert message.ordering_key() == "the order"
    assert message.event_timestamp() == 1_600_000_000_123
    assert message.properties() == {"a": "1", "b": "2"}


def test_a_key_of_utf8_bytes_is_text(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    writing(spark.sql("select 'v' as value, cast('grün' as binary) as __key"), broker, topic=topic)
    (message,) = traffic.read(topic)
    assert message.partition_key() == "grün"


def test_a_key_of_any_bytes_is_read_back_unchanged(spark: Any, broker: Broker, topic: str) -> None:
    writing(spark.sql("select 'v' as value, x'ff00fe' as __key"), broker, topic=topic)
    assert [bytes(row["__key"]) for row in reading(spark, broker, topic=topic).load().collect()] == [b"\xff\x00\xfe"]


def test_a_null_value_is_a_tombstone(spark: Any, broker: Broker, topic: str) -> None:
    writing(
        spark.sql("select cast(null as string) as value, 'k' as __key union all select '', 'k'"), broker, topic=topic
    )
    found = [
        None if row["value"] is None else bytes(row["value"])
        for row in reading(spark, broker, topic=topic).load().collect()
    ]
    assert sorted(found, key=str) == sorted([None, b""], key=str)


def test_a_message_with_a_delivery_time_is_delivered_then(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    due = int(time.time() * 1000) + 3_600_000
    sql = f"select 'later' as value, {due}L as __deliverAt union all select 'now', null"
    with traffic.subscribed(topic) as consumer:
        writing(spark.sql(sql), broker, topic=topic)
        assert consumer.receive(20_000).data() == b"now"
        with pytest.raises((pulsar.Timeout, pulsar_actors.Timeout)):
            consumer.receive(500)
    assert sorted(traffic.texts(topic)) == ["later", "now"]


def test_rows_may_name_their_topics(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    frame = spark.range(100).selectExpr("cast(id as string) as value", f"concat('{topic}-', id % 3) as __topic")
    writing(frame, broker)
    for number in range(3):
        assert sorted(map(int, traffic.texts(f"{topic}-{number}"))) == list(range(number, 100, 3))


def test_rows_that_were_read_can_be_written(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    traffic.send(topic, [f"{number}" for number in range(50)], per_batch=10, partition_key="k", properties={"a": "1"})
    frame = reading(spark, broker, topic=topic).load()
    writing(frame.drop("__topic"), broker, topic=f"{topic}-copy")
    copies = traffic.read(f"{topic}-copy")
    assert sorted(int(one.data()) for one in copies) == list(range(50))
    assert {(one.partition_key(), one.properties()["a"]) for one in copies} == {("k", "1")}


@pytest.mark.parametrize(
    ("sql", "options", "says"),
    [
        ("select 1 as id", {"topic": "t"}, "no column value, but id"),
        ("select 'v' as value, 1 as id", {"topic": "t"}, "no place for the column id: put it into value"),
        ("select 'v' as value, 'k' as key", {"topic": "t"}, "no place for the column key: __key is one"),
        ("select 1 as id, 'k' as __keys", {"topic": "t", "valueAs": "avro"}, "the column __keys: __key is one"),
        ("select 1 as value", {"topic": "t"}, "value is of type string or binary, not int"),
        ("select 'v' as value", {}, "Give the option topic, or a column __topic"),
        ("select 'v' as value", {"topic": "a//b"}, "is not the name of a topic"),
        ("select 'v' as value", {"topic": "t", "pulsar.producer.compressionType": "LZ5"}, "takes one of NONE, LZ4"),
        ("select 'v' as value", {"topic": "t", "pulsar.producer.batchingMaxMessage": 3}, "batching_max_messages"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_with_a_hint(
    spark: Any, embedded: Broker, sql: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        writing(spark.sql(sql), embedded, **options)


def test_a_topic_is_not_overwritten(spark: Any, embedded: Broker, topic: str) -> None:
    writer = spark.sql("select 'v' as value").write.format("pulsar").mode("overwrite")
    with pytest.raises(Exception, match=r'can be overwritten: say mode\("append"\)'):
        writer.option("service.url", embedded.service_url).option("topic", topic).save()


def test_a_time_before_1970_is_refused(spark: Any, embedded: Broker, topic: str) -> None:
    frame = spark.sql("select 'v' as value, timestamp '1969-12-31 00:00:00' as __eventTime")
    with pytest.raises(Exception, match="event_time takes a whole number of milliseconds since 1970, from 0"):
        writing(frame, embedded, topic=topic)


def test_a_failed_send_fails_the_job_with_the_reason(spark: Any, broker: Broker, topic: str) -> None:
    frame = spark.sql("select repeat('x', 6000000) as value")
    with pytest.raises(Exception, match=f"(?s)1 of the messages that this task sent to {topic} .*MessageTooBig"):
        writing(frame, broker, topic=topic)


def test_a_view_is_written_and_read_by_sql(spark: Any, broker: Broker, topic: str) -> None:
    options = f"'service.url' '{broker.service_url}', 'topic' '{topic}'"
    spark.sql(f"create or replace temporary view messages using pulsar options ({options})")
    spark.sql("insert into messages (value) select cast('by sql' as binary)")
    assert [row.text for row in spark.sql("select cast(value as string) as text from messages").collect()] == ["by sql"]
