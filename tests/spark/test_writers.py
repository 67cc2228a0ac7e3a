"""What a writer hears of its tasks in the end, from which nobody may be missing."""

import logging
import pickle

import pytest
from pyspark.sql.types import StructType

from pulsar_actors.spark.options import SinkOptions
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
