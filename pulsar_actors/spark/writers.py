"""`df.write` and `df.writeStream`: each task sends its rows, and has done so when all are stored.

That is at least once: a task that fails has sent something, and what repeats it sends that again.
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
from pulsar_actors.spark.idempotence import Rising
from pulsar_actors.spark.options import SinkOptions
from pulsar_actors.spark.outbound import Outbound
from pulsar_actors.spark.pool import POOL
from pulsar_actors.spark.shipment import Shipment

__all__ = ["BatchWriter", "StreamWriter"]


_STAYS: Final = "by tasks that came to their end; that stays, and so does what the others had sent"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task has sent."""

    messages: int
    size: int


class _Task:
    """What a task does: configuration, which travels to the workers."""

    def __init__(self, options: SinkOptions, schema: StructType, *, streams: bool) -> None:
        self._options = options
        self._streams = streams
        self._idempotence = options.idempotence
        self._job = secrets.token_hex(8)
        column = None if self._idempotence is None else self._idempotence.column
        self._outbound = Outbound(schema, options.topic, column)

    def send(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Send rows, and wait until all of it is stored."""
        options = self._options
        first = next(batches, None)
        if first is None:
            return Written(0, 0)
        with POOL.lend(options.cluster) as kept:
            shipment = Shipment(kept, self._producer(self._outbound.sequence(first)[:1]))
            rising = Rising()
            for batch in chain([first], batches):
                rising.check(self._outbound.sequence(batch))
                payloads, said = self._outbound.messages(batch)
                topics = self._outbound.topics(batch)
                if topics is None:
                    shipment.leave(options.topic or "", payloads, said)
                else:
                    for topic, rows in _by_topic(topics):
                        shipment.leave(topic, [payloads[row] for row in rows], [said[row] for row in rows])
            shipment.finish()
        return Written(shipment.messages, shipment.size)

    def _producer(self, first: list[Any]) -> Mapping[str, Any]:
        producer = self._options.producer
        if self._idempotence is None:
            return producer
        return self._idempotence.arguments(self._job, producer, first, streams=self._streams)


class BatchWriter(DataSourceArrowWriter):
    """That of `df.write`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = _Task(options, schema, streams=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # as Spark does
        """Send what a task is given."""
        return self._task.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Hear that all tasks are done, and with them everything."""
        LOG.info("%s", _summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Hear that some tasks have failed; what the others sent stays sent, for nothing takes a message back."""
        LOG.warning("the write failed: %s, %s", _summary(messages), _STAYS)


class StreamWriter(DataSourceStreamArrowWriter):
    """That of `df.writeStream`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = _Task(options, schema, streams=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # as Spark does
        """Send what a task is given."""
        return self._task.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Likewise."""
        LOG.info("batch %d: %s", batchId, _summary(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Likewise."""
        LOG.warning("batch %d failed: %s, %s", batchId, _summary(messages), _STAYS)


def _summary(messages: Iterable[Any]) -> str:
    written = [one for one in messages if isinstance(one, Written)]
    return f"{sum(one.messages for one in written):,} messages of {sum(one.size for one in written):,} bytes were sent"


def _by_topic(topics: Iterable[str]) -> Iterable[tuple[str, list[int]]]:
    rows: dict[str, list[int]] = {}
    for row, topic in enumerate(topics):
        rows.setdefault(topic, []).append(row)
    return rows.items()
