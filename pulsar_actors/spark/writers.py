"""The writers of `df.write` and `df.writeStream`: each task sends its rows, and ends when all are stored.

Writing is at least once: a failed task may have sent messages, and its repetition sends them again. With `idempotent`
the broker drops these repetitions (see `idempotence.py`).
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pulsar_actors.runtime.log import LOG
from pulsar_actors.spark.client_pool import POOL, TaskSender
from pulsar_actors.spark.idempotence import RisingSequence
from pulsar_actors.spark.options import SinkOptions
from pulsar_actors.spark.row_messages import RowConverter

__all__ = ["BatchWriter", "StreamWriter"]


_ABORT_HINT: Final = "they stay in their topics, and so do those that unfinished tasks have sent"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The commit message of a task: how many messages it sent, and how many bytes."""

    messages: int
    size: int


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = _WriteTask(options, schema, is_stream=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # as Spark calls it
        """Send the rows of one task."""
        return self._task.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the sum of what all tasks have sent."""
        LOG.info("sent %s", _summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log a failed write. Messages that were sent stay, because a message cannot be withdrawn."""
        LOG.warning("the write failed: finished tasks sent %s; %s", _summary(messages), _ABORT_HINT)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = _WriteTask(options, schema, is_stream=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # as Spark calls it
        """Send the rows of one task."""
        return self._task.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log the sum of what all tasks of a batch have sent."""
        LOG.info("batch %d: sent %s", batchId, _summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log a failed batch. Messages that were sent stay, because a message cannot be withdrawn."""
        LOG.warning("batch %d failed: finished tasks sent %s; %s", batchId, _summary(messages), _ABORT_HINT)


class _WriteTask:
    """Sends the rows of a task. It is pickled, and sent to the workers."""

    def __init__(self, options: SinkOptions, schema: StructType, *, is_stream: bool) -> None:
        self._options = options
        self._is_stream = is_stream
        self._idempotence = options.idempotence
        self._job = secrets.token_hex(8)  # part of the producers' names, if the query has none
        column = None if self._idempotence is None else self._idempotence.column
        self._converter = RowConverter(schema, options.topic, column)

    def send(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Send rows, and wait until all are stored."""
        options = self._options
        first = next(batches, None)
        if first is None:
            return Written(0, 0)
        with POOL.lend(options.cluster) as pooled:
            sender = TaskSender(pooled, self._producer_arguments(self._converter.sequence(first)[:1]))
            rising = RisingSequence()
            for batch in chain([first], batches):
                rising.check(self._converter.sequence(batch))
                payloads, metadata = self._converter.messages(batch)
                topics = self._converter.topics(batch)
                if topics is None:
                    sender.send(options.topic or "", payloads, metadata)
                else:
                    for topic, rows in _by_topic(topics):
                        sender.send(topic, [payloads[row] for row in rows], [metadata[row] for row in rows])
            sender.finish()
        return Written(sender.messages, sender.size)

    def _producer_arguments(self, first: list[Any]) -> Mapping[str, Any]:
        producer = self._options.producer
        if self._idempotence is None:
            return producer
        return self._idempotence.arguments(self._job, producer, first, is_stream=self._is_stream)


def _summary(messages: Iterable[Any]) -> str:
    written = [one for one in messages if isinstance(one, Written)]  # an unfinished task has None
    return f"{sum(one.messages for one in written):,} messages of {sum(one.size for one in written):,} bytes"


def _by_topic(topics: Iterable[str]) -> Iterable[tuple[str, list[int]]]:
    rows: dict[str, list[int]] = {}
    for row, topic in enumerate(topics):
        rows.setdefault(topic, []).append(row)
    return rows.items()
