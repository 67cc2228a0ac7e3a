"""The writers of `df.write` and `df.writeStream`: each task sends its rows, and ends when all are stored.

Writing is at least once: a failed task may have sent messages, and its repetition sends them again. With `idempotent`
the broker drops these repetitions (see `idempotence.py`). With `exactlyOnce` all messages of a batch are sent in one
transaction (see `exactly_once.py`).
"""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pulsar_actors.client.transaction import Transaction
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.runtime.log import LOG
from pulsar_actors.spark.client_pool import POOL, PooledClient, TaskSender
from pulsar_actors.spark.exactly_once import BatchTransaction, ExactlyOnce, Written
from pulsar_actors.spark.idempotence import RisingSequence
from pulsar_actors.spark.options import SinkOptions
from pulsar_actors.spark.row_messages import RowConverter, record_fields
from pulsar_actors.spark.running_task import RunningTask

__all__ = ["BatchWriter", "StreamWriter"]


_STAYS: Final = "they stay in their topics, and so do those that unfinished tasks have sent"
_ABORTED: Final = "their transaction is aborted, and nobody sees them"
_UNKNOWN: Final = "their transaction is not known here, and ends with its timeout; nobody sees them"


@dataclass(frozen=True)
class TaskEnded(WriterCommitMessage):
    """The commit message of a task: what it sent for which job and batch, and in which transaction."""

    written: Written
    job: str
    batch: int
    transaction: BatchTransaction | None
    part: int | None
    """The data partition whose rows it sent; None if it found none."""


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = _WriteTask(options, schema, is_stream=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # as Spark calls it
        """Send the rows of one task."""
        return self._task.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks have sent, and log the sum."""
        self._task.commit("the write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the transaction of a failed write; without one, messages that were sent stay."""
        self._task.abort("the write", messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = _WriteTask(options, schema, is_stream=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # as Spark calls it
        """Send the rows of one task."""
        return self._task.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit what all tasks of a batch have sent, and log the sum."""
        self._task.commit(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transaction of a failed batch; without one, messages that were sent stay."""
        self._task.abort(f"batch {batchId}", messages)


class _WriteTask:
    """Sends the rows of a task, and ends a batch on the driver. It is pickled, and sent to the workers.

    The driver makes a writer for each batch, and pickles it for the tasks. It makes another one to commit the batch of
    a stream, which gets to know what it needs from the tasks.
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, is_stream: bool) -> None:
        self._options = options
        self._is_stream = is_stream
        self._job = secrets.token_hex(8)  # the name of a job that has none, and is not run again
        column = None if options.idempotence is None else options.idempotence.column
        self._record = options.record_encoder(record_fields(schema))
        self._converter = RowConverter(schema, options.topic, column, self._record)
        self._transaction: BatchTransaction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Open the transaction of a batch: its tasks are about to be sent to the workers."""
        if self._options.exactly_once is not None and self._transaction is None:
            self._transaction = self._options.exactly_once.open(self._options.cluster)
        return self.__dict__

    def send(self, batches: Iterator[pa.RecordBatch]) -> TaskEnded:
        """Send rows, and wait until all are stored."""
        task, transaction = RunningTask.current(), self._transaction
        job = self._job_of(task)
        first = next(batches, None)
        if first is None:
            written = Written(0, 0)
        else:
            with POOL.lend(self._options.cluster) as pooled:
                written = self._send_once(pooled, task, job, chain([first], batches), first)
        return TaskEnded(written, job, task.batch or 0, transaction, None if first is None else task.partition)

    def _send_once(
        self,
        pooled: PooledClient,
        task: RunningTask,
        job: str,
        batches: Iterator[pa.RecordBatch],
        first: pa.RecordBatch,
    ) -> Written:
        batch = self._transaction

        def send(transaction: Transaction | None) -> Written:
            within = None if batch is None else batch.id
            numbers = self._converter.sequence(first)[:1]
            idempotence, producer = self._options.idempotence, self._options.producer
            if self._record is not None:
                producer = {**producer, "schema": self._record.schema}
            if idempotence is not None:
                producer = idempotence.arguments(task, job, producer, numbers, within)
            return self._send_rows(TaskSender(pooled, producer, transaction), batches)

        if batch is None:
            return send(None)
        return batch.send_part(pooled.client, task, job, send, may_repeat=self._options.idempotence is not None)

    def _send_rows(self, sender: TaskSender, batches: Iterator[pa.RecordBatch]) -> Written:
        rising = RisingSequence()
        for batch in batches:
            rising.check(self._converter.sequence(batch))
            payloads, metadata = self._converter.messages(batch)
            topics = self._converter.topics(batch)
            if topics is None:
                sender.send(self._options.topic or "", payloads, metadata)
            else:
                for topic, rows in _by_topic(topics):
                    sender.send(topic, [payloads[row] for row in rows], [metadata[row] for row in rows])
        sender.finish()
        return Written(sender.messages, sender.size)

    def _job_of(self, task: RunningTask) -> str:
        """Return the name that stands for the rows of this write, also when it runs again."""
        options = self._options
        if options.writer_name is not None:
            return options.writer_name
        if task.query is None or self._is_stream:
            return task.query or self._job
        if options.idempotence is not None or options.exactly_once is not None:
            raise InvalidConfiguration(
                "an idempotent or exactly-once write inside foreachBatch needs a writerName, another for each such "
                "write: by the name of the query alone, what one writes would be taken for repeats of the other"
            )
        return self._job

    def commit(self, what: str, messages: Iterable[Any]) -> None:
        ended = _ended(messages)
        for one in ended[:1]:
            if one.transaction is not None:
                may_repeat = self._is_stream or self._options.writer_name is not None
                parts = {it.part for it in ended if it.part is not None}
                if not one.transaction.commit(self._options.cluster, one.job, one.batch, parts, may_repeat=may_repeat):
                    log = "%s was written before, as batch %d of %s: aborted the transaction with %s"
                    LOG.warning(log, what, one.batch, one.job, _sum(ended))
                    return
        LOG.info("%s: sent %s", what, _sum(ended))

    def abort(self, what: str, messages: Iterable[Any]) -> None:
        ended = _ended(messages)
        hint = _STAYS
        if self._options.exactly_once is not None:
            transaction = self._transaction_of(self._options.exactly_once, ended)
            hint = _UNKNOWN if transaction is None else _ABORTED
            if transaction is not None:
                transaction.abort(self._options.cluster)
        LOG.warning("%s failed: finished tasks sent %s; %s", what, _sum(ended), hint)

    def _transaction_of(self, exactly_once: ExactlyOnce, ended: list[TaskEnded]) -> BatchTransaction | None:
        """Return the transaction of a failed batch, as tasks know it, this writer, or the topic of attempts."""
        for one in (*(task.transaction for task in ended), self._transaction):
            if one is not None:
                return one
        return exactly_once.last_opened(self._options.cluster) if self._is_stream else None


def _ended(messages: Iterable[Any]) -> list[TaskEnded]:
    return [one for one in messages if isinstance(one, TaskEnded)]  # an unfinished task has None


def _sum(ended: Iterable[TaskEnded]) -> str:
    written = [one.written for one in ended]
    return f"{sum(one.messages for one in written):,} messages of {sum(one.size for one in written):,} bytes"


def _by_topic(topics: Iterable[str]) -> Iterable[tuple[str, list[int]]]:
    rows: dict[str, list[int]] = {}
    for row, topic in enumerate(topics):
        rows.setdefault(topic, []).append(row)
    return rows.items()
