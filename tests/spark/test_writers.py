"""What a writer hears of its tasks in the end, from which nobody may be missing."""

import logging
import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration
from pulsar_actors.spark.options import SinkOptions
from pulsar_actors.spark.outbound import Outbound
from pulsar_actors.spark.writers import BatchWriter, StreamWriter, Written

OPTIONS = {"service.url": "pulsar://127.0.0.1:1", "topic": "t"}
SCHEMA = StructType().add("value", "string")
HEARD = [Written(2, 20), None, Written(3, 31)]


@pytest.fixture(autouse=True)
def _hearing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_a_table_that_was_written_is_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    writer = pickle.loads(pickle.dumps(BatchWriter(SinkOptions.of(OPTIONS), SCHEMA)))  # noqa: S301 - Spark does so
    writer.commit(HEARD)
    writer.abort([None])
    done, failed = caplog.messages
    assert done == "5 messages of 51 bytes were sent"
    assert failed.startswith("the write failed: 0 messages of 0 bytes were sent, by tasks that came to their end; ")


def test_each_batch_of_a_stream_is_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    writer = pickle.loads(pickle.dumps(StreamWriter(SinkOptions.of(OPTIONS), SCHEMA)))  # noqa: S301 - likewise
    writer.commit(HEARD, 7)
    writer.abort(HEARD, 8)
    done, failed = caplog.messages
    assert done == "batch 7: 5 messages of 51 bytes were sent"
    assert failed.startswith("batch 8 failed: 5 messages of 51 bytes were sent, by tasks that came to their end; ")


def test_what_says_something_of_a_message_is_no_sequence() -> None:
    with pytest.raises(
        InvalidConfiguration, match="sequenceColumn names __eventTime, which says something of the message"
    ):
        Outbound(StructType().add("value", "string").add("__eventTime", LongType()), "t", "__eventTime")


def test_what_could_not_be_read_is_not_written() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["v"], "__eventTime": [1_600_000_000_000_000_000]})
    outbound = Outbound(StructType().add("value", "string").add("__eventTime", LongType()), "t", None)
    with pytest.raises(
        InvalidArgument,
        match="milliseconds since 1970, from 0 to 9,223,372,036,854,775, got",
    ):
        outbound.messages(batch)
