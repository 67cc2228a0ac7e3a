"""The commit and abort of a write, and columns that cannot be written."""

import logging
import pickle
import time
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

import pulsar_actors
from pulsar_actors.client.client import context_of
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.client.schema import SchemaType
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, ProducerFenced
from pulsar_actors.spark import client_pool
from pulsar_actors.spark.exactly_once import Written
from pulsar_actors.spark.options import SinkOptions
from pulsar_actors.spark.row_messages import RowConverter
from pulsar_actors.spark.writers import BatchWriter, StreamWriter, TaskEnded
from tests.support.subjects import Broker

OPTIONS = {"service.url": "pulsar://127.0.0.1:1", "topic": "t"}
SCHEMA = StructType().add("value", "string")
COMMITS = [TaskEnded(Written(2, 20), "job", 7, None, 0), None, TaskEnded(Written(3, 31), "job", 7, None, 2)]


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the writers: a broker of the test before may still log its end."""
    return [record.getMessage() for record in caplog.records if record.module == "writers"]


def test_the_sum_of_a_write_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    writer = pickle.loads(pickle.dumps(BatchWriter(SinkOptions.parse(OPTIONS), SCHEMA)))  # noqa: S301 - Spark does so
    writer.commit(COMMITS)
    writer.abort([None])
    done, failed = logged(caplog)
    assert done == "the write: sent 5 messages of 51 bytes"
    assert failed.startswith("the write failed: finished tasks sent 0 messages of 0 bytes; ")


def test_the_sum_of_each_batch_of_a_stream_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    writer = pickle.loads(pickle.dumps(StreamWriter(SinkOptions.parse(OPTIONS), SCHEMA)))  # noqa: S301 - Spark does so
    writer.commit(COMMITS, 7)
    writer.abort(COMMITS, 8)
    done, failed = logged(caplog)
    assert done == "batch 7: sent 5 messages of 51 bytes"
    assert failed.startswith("batch 8 failed: finished tasks sent 5 messages of 51 bytes; ")


def test_a_batch_that_counts_as_written_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    transaction: Any = SimpleNamespace(commit=lambda *_, **__: False)
    BatchWriter(SinkOptions.parse(OPTIONS), SCHEMA).commit([TaskEnded(Written(2, 20), "job", 7, transaction, 0)])
    (warning,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    text = "the write was written before, as batch 7 of job: aborted the transaction with 2 messages of 20 bytes"
    assert warning.getMessage() == text


def test_the_driver_waits_for_its_turn_to_announce_the_schema_of_records(
    embedded: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"service.url": embedded.service_url, "topic": topic, "valueas": "avro"}
    with pulsar_actors.Client(embedded.service_url) as client:
        other = client.create_producer(topic, access_mode=ProducerAccessMode.Exclusive)
        close_while_waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: other.close())
        monkeypatch.setattr(client_pool, "time", close_while_waiting)
        BatchWriter(SinkOptions.parse({**options, "pulsar.producer.accessmode": "WaitForExclusive"}), SCHEMA)
        assert context_of(client).schemas.latest(topic).type == SchemaType.AVRO


def test_a_topic_that_somebody_has_alone_is_not_said_to_refuse_the_schema(
    embedded: Broker, topic: str, waits: list[float]
) -> None:
    options = {"service.url": embedded.service_url, "topic": topic, "valueas": "avro"}
    with pulsar_actors.Client(embedded.service_url) as client:
        other = client.create_producer(topic, access_mode=ProducerAccessMode.Exclusive)
        with pytest.raises(ProducerFenced, match=f"no producer on .*{topic}: .*this has waited for 60 s") as raised:
            BatchWriter(SinkOptions.parse({**options, "pulsar.producer.accessmode": "Exclusive"}), SCHEMA)
        other.close()
    assert "schema" not in str(raised.value)


def test_a_column_for_a_field_of_messages_is_no_sequence_column() -> None:
    with pytest.raises(
        InvalidConfiguration, match="sequenceColumn names __eventTime, which says something of the message"
    ):
        RowConverter(StructType().add("value", "string").add("__eventTime", LongType()), "t", "__eventTime")


def test_a_time_too_late_to_be_read_is_not_written() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["v"], "__eventTime": [1_600_000_000_000_000_000]})
    converter = RowConverter(StructType().add("value", "string").add("__eventTime", LongType()), "t", None)
    with pytest.raises(
        InvalidArgument,
        match="milliseconds since 1970, from 0 to 9,223,372,036,854,775, got",
    ):
        converter.messages(batch)
