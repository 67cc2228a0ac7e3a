"""The commit and abort of a write, and columns that cannot be written."""

import logging
import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration
from pulsar_actors.spark.exactly_once import Written
from pulsar_actors.spark.options import SinkOptions
from pulsar_actors.spark.row_messages import RowConverter
from pulsar_actors.spark.writers import BatchWriter, StreamWriter, TaskEnded

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
