"""The readers of `spark.read` and `spark.readStream`: planning on the driver, messages in the workers.

Spark has one process beside the driver that plans a stream as long as the query runs. Only that process has a client.
The workers have copies of the reader without a client.

The options of a stream are parsed when the reader is first used: if the constructor fails, Spark reports an error of
its own instead of the reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.spark.columns import Columns
from pulsar_actors.spark.micro_batches import MicroBatchStream
from pulsar_actors.spark.offsets import Offsets, Span
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.planning import resolve, split_further
from pulsar_actors.spark.pyspark_compat import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pulsar_actors.spark.read_task import record_batches
from pulsar_actors.spark.typed_columns import TopicColumns
from pulsar_actors.wire.topic_position import TOPIC_START

__all__ = ["BatchReader", "StreamReader"]


class BatchReader(DataSourceReader):
    """The reader of `spark.read`: plans on the driver, and, as a copy, reads in the workers."""

    def __init__(self, options: ReadOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return the spans of the tasks."""
        options = self._options
        with options.cluster.client() as client:
            topics = options.topics.partitions(client)
            options.topics.require(topics)
            options.starting.check(topics, options.topics.awaited)
            options.ending.check(topics, options.topics.awaited)
            spans: list[Span] = []
            for topic in topics:
                start = resolve(client, topic, options.starting.of(topic), options)
                end = resolve(client, topic, options.ending.of(topic), options)
                if start < end:
                    spans.append(Span(str(topic), start, end))
                elif end < start and end != TOPIC_START:  # the end of an empty topic
                    raise InvalidConfiguration(
                        f"{topic} is to be read from {start.text(-1)} on, and ends before that, at {end.text(-1)}"
                    )
        return split_further(spans, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        return record_batches(partition, self._options, self._columns)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of `spark.readStream`, for one query."""

    def __init__(
        self, texts: Mapping[str, str], schema: StructType, typed: Callable[[StructType], TopicColumns | None] | None
    ) -> None:
        self._texts = texts
        self._schema = schema
        self._typed = typed  # asks for the topic's schema, on the driver
        self._stream: MicroBatchStream | None = None
        self._end: Offsets | None = None  # the end of the last batch that was planned

    @cached_property
    def _options_and_columns(self) -> tuple[ReadOptions, Columns]:
        options = ReadOptions.parse(self._texts, is_stream=True)
        typed = None if self._typed is None else self._typed(self._schema)
        return options, Columns(self._schema, typed)

    # On the driver.

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a query without a checkpoint."""
        return self._open_stream().begin().write()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch. Spark passes it to `latestOffset`, unless the query runs once."""
        options, _ = self._options_and_columns
        if options.max_messages is not None:
            return ReadMaxRows(options.max_messages)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_messages is not None:
            return ReadMinRows(options.min_messages)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query where the topics end now."""
        self._open_stream().stop_at_current_end()

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return the end of the next batch. PySpark 4.1 passes neither its start nor its limit."""
        stream = self._open_stream()
        begin = stream.last_end() if start is None else Offsets.read(start)
        is_limited = limit is not None and not isinstance(limit, ReadAllAvailable)
        self._end = stream.latest(begin, is_limited=is_limited)
        return self._end.write()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the topics, for the query's progress, and the backlog, if it is known."""
        return None if self._end is None else self._open_stream().progress_report(self._end)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Return the spans that the tasks of a batch read."""
        return self._open_stream().spans(Offsets.read(start), Offsets.read(end))

    def commit(self, end: Mapping[str, Any]) -> None:
        """Acknowledge the messages of a batch that is done, so that brokers may delete them."""
        self._open_stream().acknowledge(Offsets.read(end))

    def stop(self) -> None:
        """Close the client."""
        if self._stream is not None:
            self._stream.close()

    # In the workers.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        return record_batches(partition, *self._options_and_columns)

    def _open_stream(self) -> MicroBatchStream:
        if self._stream is None:
            options, _ = self._options_and_columns
            self._stream = MicroBatchStream(options)
        return self._stream

    def __getstate__(self) -> dict[str, Any]:
        self._options_and_columns  # noqa: B018 - the workers do not ask for the schema
        return {**self.__dict__, "_stream": None, "_typed": None}
