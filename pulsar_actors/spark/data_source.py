"""`format("pulsar")`: what Spark asks for a reader or a writer.

Spark finds it without being told, for `pyspark_pulsar` has the name that it looks for.
"""

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.spark.batch_reader import BatchReader
from pulsar_actors.spark.columns import SCHEMA
from pulsar_actors.spark.options import ReadOptions, SinkOptions, check_names
from pulsar_actors.spark.stream_reader import StreamReader
from pulsar_actors.spark.writers import BatchWriter, StreamWriter

__all__ = ["PulsarDataSource"]


class PulsarDataSource(DataSource):
    """Topics as tables and streams."""

    @classmethod
    def name(cls) -> str:
        """Return what `format()` takes."""
        return "pulsar"

    def schema(self) -> StructType:
        """Return the columns of a query that names none. It is what `load()` asks: so a slip of the pen shows there."""
        check_names(self._texts())
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """Make what `spark.read` reads with."""
        return BatchReader(ReadOptions.of(self._texts(), streams=False), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Make what `df.write` writes with."""
        if overwrite:
            raise InvalidConfiguration('nothing that is in a topic can be overwritten: say mode("append")')
        return BatchWriter(SinkOptions.of(self._texts()), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Make what `spark.readStream` reads with."""
        return StreamReader(self._texts(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Make what `df.writeStream` writes with. Each batch is added, as a whole where that is the mode of output."""
        return StreamWriter(SinkOptions.of(self._texts()), schema)

    def _texts(self) -> dict[str, Any]:
        return dict(self.options)
