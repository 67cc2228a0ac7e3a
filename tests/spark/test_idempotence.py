"""Idempotent writing: a repeated write stores nothing twice, and its requirements are checked."""

from typing import Any

import pytest

from tests.spark import stream
from tests.spark.traffic import Traffic, until
from tests.support.subjects import Broker


def writing(frame: Any, broker: Broker, **options: Any) -> None:
    stream.writing(frame, broker, **{"idempotent": "true", "admin.url": broker.admin.web_url, **options})


@pytest.fixture
def deduplicated(topic: str, broker: Broker) -> str:
    """A topic of three partitions, whose broker removes duplicates."""
    broker.admin.create_partitioned(topic, 3)
    broker.admin.set_deduplication(topic, on=True)
    for number in range(3):
        assert until(lambda at=number: is_deduplicating(broker, f"{topic}-partition-{at}"))
    return topic


def is_deduplicating(broker: Broker, partition: str) -> bool:
    broker.admin.json("GET", f"{partition.replace('://', '/')}/lastMessageId")  # loads it
    return bool(broker.admin.stats(partition)["deduplicationStatus"] == "Enabled")


def rows(spark: Any, first: int, last: int) -> Any:
    return spark.range(first, last, 1, 2).selectExpr("id", "cast(id as string) as value")


@pytest.mark.parametrize("key", [None, "value as __key"])
def test_a_job_that_is_run_again_writes_nothing_twice(
    spark: Any, broker: Broker, traffic: Traffic, deduplicated: str, key: str | None
) -> None:
    frame = rows(spark, 0, 5000).selectExpr("value", *([key] if key else []))
    for _ in range(3):
        writing(frame, broker, topic=deduplicated, writerName="job", rowsRepeatInOrder="true")
    assert sorted(map(int, traffic.texts(deduplicated))) == list(range(5000))


def test_a_job_that_failed_half_way_can_be_completed(
    spark: Any, broker: Broker, traffic: Traffic, deduplicated: str
) -> None:
    options = {"topic": deduplicated, "writerName": "job", "rowsRepeatInOrder": "true"}
    failing = rows(spark, 0, 20_000).selectExpr("if(id % 10000 = 7777, raise_error('half way'), value) as value")
    with pytest.raises(Exception, match="half way"):
        writing(failing, broker, **options)
    writing(rows(spark, 0, 20_000).select("value"), broker, **options)
    assert sorted(map(int, traffic.texts(deduplicated))) == list(range(20_000))


def test_a_column_may_have_the_sequence_ids(spark: Any, broker: Broker, traffic: Traffic, deduplicated: str) -> None:
    options = {"topic": deduplicated, "writerName": "job", "sequenceColumn": "id"}
    writing(rows(spark, 0, 3000), broker, **options)
    writing(rows(spark, 0, 3000), broker, **options)
    assert sorted(map(int, traffic.texts(deduplicated))) == list(range(3000))


def test_rows_with_numbers_in_other_partitions_are_not_lost(
    spark: Any, broker: Broker, traffic: Traffic, deduplicated: str
) -> None:
    options = {"topic": deduplicated, "writerName": "job", "sequenceColumn": "id"}
    failing = rows(spark, 0, 8000).selectExpr("id", "if(id = 10, raise_error('half way'), value) as value")
    with pytest.raises(Exception, match="half way"):
        writing(failing, broker, **options)
    frame = spark.range(0, 8000, 1, 4).selectExpr("id", "cast(id as string) as value")
    writing(frame, broker, **options)
    assert set(map(int, traffic.texts(deduplicated))) == set(range(8000))


def test_numbers_that_do_not_rise_fail_the_task(spark: Any, broker: Broker, deduplicated: str) -> None:
    frame = spark.sql("select 'a' as value, 2L as id union all select 'b', 1L").coalesce(1)
    with pytest.raises(Exception, match="are to rise in each task, from 0 on, and 1 comes after 2"):
        writing(frame, broker, topic=deduplicated, sequenceColumn="id")


def test_each_write_of_a_batch_needs_a_name_of_its_own(
    spark: Any, broker: Broker, traffic: Traffic, deduplicated: str, checkpoint: str
) -> None:
    source = f"{deduplicated}-source"
    traffic.send(source, [f"{number}" for number in range(100)])

    def twice(frame: Any, _: int) -> None:
        for name in ("first", "second"):
            writing(frame.select("value"), broker, topic=deduplicated, rowsRepeatInOrder="true", writerName=name)

    def nameless(frame: Any, _: int) -> None:
        writing(frame.select("value"), broker, topic=deduplicated, rowsRepeatInOrder="true")

    query = copying(spark, broker, source, nameless, f"{checkpoint}-nameless")
    with pytest.raises(Exception, match="an idempotent or exactly-once write inside foreachBatch needs a writerName"):
        query.awaitTermination(120)
    query = copying(spark, broker, source, twice, checkpoint)
    assert query.awaitTermination(120)
    assert sorted(map(int, traffic.texts(deduplicated))) == sorted([*range(100), *range(100)])


def copying(spark: Any, broker: Broker, topic: str, each: Any, checkpoint: str) -> Any:
    reader = spark.readStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
    frame = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", checkpoint[-8:]).load()
    return (
        frame.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )


def test_idempotent_writing_without_its_requirements_is_refused(spark: Any, embedded: Broker, topic: str) -> None:
    frame = rows(spark, 0, 1).select("value")
    embedded.admin.create(topic)
    for options, says in (
        ({}, "say that yours do, by rowsRepeatInOrder=true, or name a column"),
        ({"rowsRepeatInOrder": "true"}, f"rests on deduplication, which {topic} has not"),
        ({"rowsRepeatInOrder": "true", "admin.url": ""}, "admin.url is empty"),
        ({"sequenceColumn": "id", "idempotent": "false"}, "sequenceColumn goes with idempotent=true"),
        ({"rowsRepeatInOrder": "true", "pulsar.producer.maxPendingMessages": "1500"}, "until batches are full"),
        ({"rowsRepeatInOrder": "true", "pulsar.producer.producerName": "p"}, "chooses producer_name itself"),
        ({"rowsRepeatInOrder": "true", "pulsar.producer.messageRoutingMode": "SinglePartition"}, "leave it out"),
        ({"rowsRepeatInOrder": "true", "topic": f"{topic}-absent"}, f"there is no topic {topic}-absent: make it"),
    ):
        with pytest.raises(Exception, match=says):
            writing(frame, embedded, **{"topic": topic, **options})
