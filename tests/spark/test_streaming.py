"""`spark.readStream` and `df.writeStream`: nothing is repeated or skipped from one checkpoint to the next."""

import json
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.spark.pyspark_compat import HAS_ADMISSION_CONTROL
from tests.spark.stream import Stream
from tests.spark.traffic import Traffic, until
from tests.support.subjects import Broker

NUMBERS = [f"{number}" for number in range(100)]


@pytest.mark.parametrize("per_batch", [0, 7])
def test_a_query_that_continues_from_its_checkpoint_repeats_and_skips_nothing(  # noqa: PLR0913 - fixtures
    spark: Any, broker: Broker, traffic: Traffic, partitioned: str, checkpoint: str, per_batch: int
) -> None:
    stream = Stream(spark, broker, checkpoint, topic=partitioned)
    for start in range(0, 100, 25):
        traffic.send(partitioned, NUMBERS[start : start + 25], per_batch=per_batch)
        stream.run()
    assert stream.texts == NUMBERS
    stream.run()
    assert stream.texts == NUMBERS


def test_a_query_may_begin_at_the_end_of_its_topic(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    traffic.send(topic, NUMBERS[:50], per_batch=7)
    stream = Stream(spark, broker, checkpoint, topic=topic, startingOffsets="latest")
    stream.run()
    traffic.send(topic, NUMBERS[50:], per_batch=7)
    stream.run()
    assert stream.texts == NUMBERS[50:]


def test_a_partition_that_is_added_is_read_from_its_first_message(
    spark: Any, broker: Broker, traffic: Traffic, partitioned: str, checkpoint: str
) -> None:
    stream = Stream(spark, broker, checkpoint, topic=partitioned)
    traffic.send(partitioned, NUMBERS[:30])
    stream.run()
    broker.admin.grow(partitioned, 5)
    traffic.send(f"{partitioned}-partition-4", NUMBERS[30:])
    stream.run()
    assert stream.texts == NUMBERS


def test_topics_and_partitions_added_while_a_query_runs_are_read_from_their_first_message(
    spark: Any, broker: Broker, traffic: Traffic, partitioned: str, checkpoint: str
) -> None:
    stream = Stream(spark, broker, checkpoint, topicsPattern=f"{partitioned}.*")
    traffic.send(partitioned, NUMBERS[:30])
    query = stream.start()
    try:
        until(lambda: stream.texts == NUMBERS[:30])
        broker.admin.grow(partitioned, 5)
        traffic.send(f"{partitioned}-partition-4", NUMBERS[30:60])
        traffic.send(f"{partitioned}-other", NUMBERS[60:])
        until(lambda: len(stream.texts) >= len(NUMBERS))
        assert query.exception() is None
    finally:
        query.stop()
    assert stream.texts == NUMBERS


def test_the_backlog_is_released_as_batches_are_committed(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    stream = Stream(spark, broker, checkpoint, topic=topic)
    traffic.send(topic, NUMBERS[:50])
    stream.run()
    (subscription,) = broker.admin.stats(topic)["subscriptions"]
    assert subscription.startswith("spark-pulsar-")
    traffic.send(topic, NUMBERS[50:])
    stream.run()
    stream.run()
    assert list(broker.admin.stats(topic)["subscriptions"]) == [subscription]
    assert broker.admin.stats(topic)["subscriptions"][subscription]["msgBacklog"] == 0


def test_offsets_are_readable_json(spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str) -> None:
    ids = traffic.send(topic, NUMBERS[:10])
    progress = Stream(spark, broker, checkpoint, topic=topic).run().lastProgress
    (source,) = json.loads(progress.json)["sources"]
    assert source["endOffset"]["positions"] == {topic: f"{ids[-1].ledger_id()}:{ids[-1].entry_id() + 1}"}


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 asks no source for its lag")
def test_the_progress_of_a_query_has_its_rows_and_its_backlog(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    traffic.send(topic, NUMBERS)
    limits = {"maxOffsetsPerTrigger": 30, "admin.url": broker.admin.web_url}
    frame = Stream(spark, broker, "", topic=topic, **limits).frame()
    query = into(frame, broker, f"{topic}-out", checkpoint)
    told = [json.loads(progress.json) for progress in query.recentProgress]
    assert [(one["numInputRows"], one["sink"]["numOutputRows"]) for one in told if one["numInputRows"]] == [
        (30, 30), (30, 30), (30, 30), (10, 10),
    ]  # fmt: skip
    assert [one["sources"][0]["latestOffset"]["entriesBehind"] for one in told if one["numInputRows"]] == [
        70, 40, 10, 0,
    ]  # fmt: skip


def into(frame: Any, broker: Broker, topic: str, checkpoint: str) -> Any:
    """Write what there is to a topic."""
    writer = frame.writeStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.exception() is None
    return query


@pytest.mark.skipif(not HAS_ADMISSION_CONTROL, reason="PySpark 4.1 tells a stream of no limits")
def test_a_batch_keeps_to_its_limit(
    spark: Any, broker: Broker, traffic: Traffic, partitioned: str, checkpoint: str
) -> None:
    traffic.send(partitioned, NUMBERS)
    stream = Stream(spark, broker, checkpoint, topic=partitioned, maxOffsetsPerTrigger=20, minOffsetsPerTrigger=5)
    stream.run()
    assert stream.texts == NUMBERS
    assert [len(batch) for batch in stream.batches] == [20] * 5


def test_a_pipeline_of_two_topics_has_every_row(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    traffic.send(topic, NUMBERS, per_batch=7)
    frame = Stream(spark, broker, "", topic=topic).frame().selectExpr("concat(value, '0') as value", "value as __key")
    into(frame, broker, f"{topic}-out", checkpoint)
    found = {message.partition_key(): message.data().decode() for message in traffic.read(f"{topic}-out")}
    assert found == {number: f"{number}0" for number in NUMBERS}


def test_a_misspelt_option_fails_when_the_stream_is_declared(spark: Any) -> None:
    reader = spark.readStream.format("pulsar").option("service.url", "pulsar://127.0.0.1:1").option("topic", "t")
    with pytest.raises(Exception, match="there is no option startingofsets: the nearest is startingOffsets"):
        reader.option("startingOfsets", "earliest").load()


@pytest.mark.parametrize(
    ("fail_on_data_loss", "schema", "says"),
    [
        ("maybe", "value string", "failOnDataLoss takes true or false, got 'maybe'"),
        ("true", "__key int", "__key is of type binary or string, not int"),
    ],
)
def test_the_error_of_a_stream_names_what_is_wrong_with_its_options(
    spark: Any, tmp_path: Path, fail_on_data_loss: str, schema: str, says: str
) -> None:
    reader = spark.readStream.format("pulsar").option("service.url", "pulsar://127.0.0.1:1").option("topic", "t")
    reader = reader.option("subscriptionPrefix", "mine").option("failOnDataLoss", fail_on_data_loss)
    query = reader.schema(schema).load().writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match=says) as raised:
        query.awaitTermination(60)
    assert "UnboundLocalError" not in str(raised.value)
