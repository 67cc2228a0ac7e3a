"""`spark.readStream`: offsets on the driver, messages in the workers.

Spark asks one process beside the driver for offsets, for as long as the query runs, and that one has a client; what
reads in the workers is a copy that has none.

Options are read when something is first asked of it: where making a reader fails, Spark tells last of a fault of its
own that comes of that, and not of the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pulsar_actors.spark.admission import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pulsar_actors.spark.columns import Columns
from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.reading import record_batches
from pulsar_actors.spark.stream_front import StreamFront

__all__ = ["StreamReader"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """That of one query."""

    def __init__(self, texts: Mapping[str, str], schema: StructType) -> None:
        self._texts = texts
        self._schema = schema
        self._front: StreamFront | None = None
        self._end: Offsets | None = None  # of the batch that was offered last

    @cached_property
    def _said(self) -> tuple[ReadOptions, Columns]:
        return ReadOptions.of(self._texts, streams=True), Columns(self._schema)

    # On the driver.

    def initialOffset(self) -> dict[str, Any]:
        """Say where a query begins that has no checkpoint."""
        return self._at_front().begin().write()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Say how much a batch takes. Spark hands that back, or asks for all there is, where a query runs once."""
        options, _ = self._said
        if options.most_messages is not None:
            return ReadMaxRows(options.most_messages)
        if options.most_bytes is not None:
            return ReadMaxBytes(options.most_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Hear that the query ends when it has read what there is now."""
        self._at_front().aim()

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Say how far the next batch goes. PySpark 4.1 tells neither where it starts nor how much it may take."""
        front = self._at_front()
        begun = front.known_start() if start is None else Offsets.read(start)
        is_limited = limit is not None and not isinstance(limit, ReadAllAvailable)
        self._end = front.latest(begun, is_limited=is_limited)
        return self._end.write()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Tell the query's progress how far one could go, and how many entries that is if that can be known."""
        return None if self._end is None else self._at_front().outlook(self._end)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Give what each task of a batch is to read."""
        return self._at_front().spans(Offsets.read(start), Offsets.read(end))

    def commit(self, end: Mapping[str, Any]) -> None:
        """Hear that a batch is done: what was read need not be kept."""
        self._at_front().release(Offsets.read(end))

    def stop(self) -> None:
        """Close what is open."""
        if self._front is not None:
            self._front.close()

    # In the workers.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part."""
        return record_batches(partition, *self._said)

    def _at_front(self) -> StreamFront:
        if self._front is None:
            options, _ = self._said
            self._front = StreamFront(options)
        return self._front

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_front": None}
