"""`spark.read`: what a topic has, from one position up to another, planned once."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.spark.columns import Columns
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.planning import resolve, split_further
from pulsar_actors.spark.position import EARLIEST
from pulsar_actors.spark.reading import record_batches
from pulsar_actors.spark.span import Span

__all__ = ["BatchReader"]


class BatchReader(DataSourceReader):
    """Plans on the driver, and reads in the workers. It is configuration: it travels."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._columns = Columns(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Give what each task is to read."""
        options = self._options
        with options.cluster.client() as client:
            topics = options.topics.partitions(client)
            options.topics.require(topics)
            options.starting.check(topics, options.topics.awaited)
            options.ending.check(topics, options.topics.awaited)
            spans: list[Span] = []
            for topic in topics:
                start = resolve(client, topic, options.starting.of(topic), options.prefix)
                end = resolve(client, topic, options.ending.of(topic), options.prefix)
                if start < end:
                    spans.append(Span(str(topic), start, end))
                elif end < start and end != EARLIEST:  # the end of an empty topic
                    raise InvalidConfiguration(
                        f"{topic} is to be read from {start.text(-1)} on, and ends before that, at {end.text(-1)}"
                    )
        return split_further(spans, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part."""
        return record_batches(partition, self._options, self._columns)
