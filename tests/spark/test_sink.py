"""`foreachPartition(sink(...))`: rows, RDDs and batches of streams, sent by the clients of the workers."""

import pickle
import threading
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import Row

import pulsar_actors
from pulsar_actors.spark import sink
from tests.spark.traffic import Traffic
from tests.support.subjects import Broker


def test_every_row_is_a_message(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    frame = spark.range(5000).selectExpr("id", "cast(id as string) as value").repartition(4)
    frame.foreachPartition(sink(service_url=broker.service_url, topic=topic, key="id"))
    messages = traffic.read(topic)
    assert sorted(int(one.data()) for one in messages) == list(range(5000))
    assert all(one.partition_key() == one.data().decode() for one in messages)


def test_each_field_of_a_message_is_a_column_or_a_function(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    frame = spark.sql("select 7 as id, 'Ann' as name, timestamp_millis(1600000000123) as at")
    to = sink(
        service_url=broker.service_url,
        topic=lambda row: f"{topic}-{row.id}",
        value=lambda row: f"{row.name} is {row.id}",
        key="name",
        properties=lambda row: {"id": str(row.id)},
        ordering_key="name",
        event_time="at",
        compression_type=pulsar_actors.CompressionType.LZ4,
        operation_timeout_seconds=20,
    )
    frame.foreachPartition(to)
    (message,) = traffic.read(f"{topic}-7")
    assert message.data() == b"Ann is 7"
    assert message.partition_key() == message.ordering_key() == "Ann"
    assert message.properties() == {"id": "7"}
    assert message.event_timestamp() == 1_600_000_000_123


def test_a_column_of_an_expression_is_given_by_its_name(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    frame = spark.sql("select upper('ann'), 'v' as value")
    frame.foreachPartition(sink(service_url=broker.service_url, topic=topic, key="upper(ann)"))
    (message,) = traffic.read(topic)
    assert message.partition_key() == "ANN"


def test_the_elements_of_an_rdd_are_payloads(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    spark.sparkContext.parallelize(["a", b"b", bytearray(b"c")], 2).foreachPartition(
        sink(service_url=broker.service_url, topic=topic)
    )
    spark.sparkContext.parallelize([("d", 1)], 1).foreachPartition(
        sink(service_url=broker.service_url, topic=topic, value=lambda pair: pair[0])
    )
    assert sorted(traffic.texts(topic)) == ["a", "b", "c", "d"]


def test_a_value_of_none_is_a_tombstone(spark: Any, broker: Broker, topic: str) -> None:
    frame = spark.sql("select 'k' as id, cast(null as string) as value")
    frame.foreachPartition(sink(service_url=broker.service_url, topic=topic, key="id"))
    with pulsar_actors.Client(broker.service_url) as client:
        reader = client.create_reader(topic, pulsar_actors.MessageId.earliest)
        assert reader.read_next(20_000).has_null_value()


def test_a_sink_works_inside_foreach_batch(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    traffic.send(topic, [f"{number}" for number in range(100)])
    url, out = broker.service_url, f"{topic}-out"

    def each(frame: Any, batch: int) -> None:
        frame.foreachPartition(sink(service_url=url, topic=out, key="value"))

    query = (
        spark.readStream.format("pulsar")
        .option("service.url", url)
        .option("topic", topic)
        .option("startingOffsets", "earliest")
        .option("subscriptionPrefix", "each")
        .load()
        .writeStream.foreachBatch(each)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sorted(map(int, traffic.texts(out))) == list(range(100))


def test_tasks_share_the_client_and_the_producer_of_their_worker(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    frame = spark.range(80).selectExpr("cast(id as string) as value").repartition(16)
    for _ in range(3):
        frame.foreachPartition(sink(service_url=broker.service_url, topic=topic))
    assert len({message.producer_name() for message in traffic.read(topic)}) <= 2


def test_tasks_take_turns_with_a_producer_name(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    frame = spark.range(80).selectExpr("cast(id as string) as value").repartition(8)
    frame.foreachPartition(sink(service_url=broker.service_url, topic=topic, producer_name="mine"))
    messages = traffic.read(topic)
    assert sorted(int(message.data()) for message in messages) == list(range(80))
    assert {message.producer_name() for message in messages} == {"mine"}


def test_a_time_keeps_its_milliseconds(embedded: Broker, topic: str) -> None:
    times = [2_182_757_939_943, 2_182_757_939_944, 253_370_764_800_001, 1]
    at = [datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=one) for one in times]
    sink(service_url=embedded.service_url, topic=topic, value=lambda _: "v", event_time=lambda one: one)(at)
    with Traffic(embedded.service_url) as traffic:
        assert [message.event_timestamp() for message in traffic.read(topic)] == times


def test_an_exclusive_producer_is_closed_with_its_task(embedded: Broker, topic: str) -> None:
    mode = pulsar_actors.ProducerAccessMode.WaitForExclusive
    send = sink(service_url=embedded.service_url, topic=topic, access_mode=mode)
    send(["a"])
    assert embedded.admin.stats(topic)["publishers"] == []


def test_a_producer_that_is_refused_is_an_error_with_its_topic(
    embedded: Broker, topic: str, waits: list[float]
) -> None:
    mode = pulsar_actors.ProducerAccessMode.Exclusive
    with pulsar_actors.Client(embedded.service_url) as client:
        theirs = client.create_producer(topic, access_mode=mode)
        with closing(theirs), pytest.raises(pulsar_actors.ProducerFenced, match=f"no producer on {topic}: "):
            sink(service_url=embedded.service_url, topic=topic, access_mode=mode)(["a"])
    assert sum(waits) >= 60


def test_a_sink_pickles_and_shows_no_secrets() -> None:
    token = pulsar_actors.AuthenticationToken("the-secret")
    made = sink(service_url="pulsar://localhost", topic="t", key="id", authentication=token)
    assert "the-secret" not in repr(made) + repr(vars(pickle.loads(pickle.dumps(made))))  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"topic": "t", "valeu": "id"}, "sink.. takes no valeu: the nearest is value"),
        ({"topic": "t", "compresion_type": 1}, "sink.. takes no compresion_type: the nearest is compression_type"),
        ({"topic": "t", "key": 7}, "key takes the name of a column or a function of the row, got"),
        ({"topic": 5}, "topic takes the name of a topic or a function of the row, got int"),
        ({"topic": "t", "authentication": threading.Lock()}, "authentication takes"),
        ({"topic": "a//b"}, "is not the name of a topic"),
        ({"topic": "t", "batching_max_messages": 0}, "batching_max_messages takes a whole number"),
        ({"topic": "t", "service_url": "localhost"}, "a service URL begins with"),
        (
            {"topic": "t", "access_mode": pulsar_actors.ProducerAccessMode.ExclusiveWithFencing},
            "would fence the other's producer, whose messages fail for good. With WaitForExclusive tasks take turns",
        ),
        (
            {"topic": lambda row: "t", "access_mode": pulsar_actors.ProducerAccessMode.WaitForExclusive},
            "WaitForExclusive takes one topic for all rows",
        ),
        ({"topic": "t", "sequence_id": "id"}, "sequence_id needs a producer_name"),
    ],
)
def test_a_wrong_argument_is_refused_on_the_driver(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(pulsar_actors.InvalidArgument, match=says):
        sink(**{"service_url": "pulsar://localhost", **arguments})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"key": "nobody", "value": lambda row: "v"}, "no column nobody in a row of id, at"),
        ({}, "no column value in a row of id, at"),
        ({"value": "id"}, "the value of a message is bytes or text, not int"),
        ({"value": lambda row: "v", "event_time": "id", "key": lambda row: 1.5}, "a key is text or bytes, not float"),
        ({"value": lambda row: "v", "properties": lambda row: {"a": 1}}, "properties are text by name"),
        (
            {"value": lambda row: "v", "event_time": lambda row: datetime(1, 1, 1)},  # noqa: DTZ001 - a user may have one
            "event_time: 0001-01-01 .* cannot be told",
        ),
        (
            {"value": lambda row: "v", "topic": lambda row: ["a"]},
            "topic gives the name of a topic for each row, not list",
        ),
        ({"value": lambda row: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_a_row_that_cannot_be_sent_fails_its_task(
    spark: Any, embedded: Broker, topic: str, arguments: dict[str, Any], says: str
) -> None:
    frame = spark.createDataFrame([(1, datetime.now(timezone.utc))], "id int, at timestamp")
    with pytest.raises(Exception, match=f"(?s){says}"):
        frame.foreachPartition(sink(**{"service_url": embedded.service_url, "topic": topic, **arguments}))


def test_rows_that_have_their_columns_in_another_order_are_sent_by_the_names_of_these(
    embedded: Broker, topic: str
) -> None:
    rows = [Row(value="a", id=1), Row(id=2, value="b"), {"value": "c", "id": 3}]
    sink(service_url=embedded.service_url, topic=topic, key="id")(rows)
    with Traffic(embedded.service_url) as traffic:
        assert [(one.data(), one.partition_key()) for one in traffic.read(topic)] == [
            (b"a", "1"),
            (b"b", "2"),
            (b"c", "3"),
        ]


def test_a_row_that_is_shorter_than_its_names_is_refused(embedded: Broker, topic: str) -> None:
    id_and_value = Row("id", "value")
    with pytest.raises(pulsar_actors.InvalidArgument, match="no column value in a row of id, value"):
        sink(service_url=embedded.service_url, topic=topic)([id_and_value(1, "a"), id_and_value(2)])


def test_what_only_looks_like_a_row_is_sent_by_its_names(embedded: Broker, topic: str) -> None:
    class Fields(dict[str, str]):
        __fields__ = ("value",)

    sink(service_url=embedded.service_url, topic=topic, value="value")([Fields(value="a")])
    with Traffic(embedded.service_url) as traffic:
        assert traffic.texts(topic) == ["a"]
