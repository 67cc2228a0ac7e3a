"""`format("pulsar")`: the data source that gives Spark its readers and writers.

Spark finds it by itself, through the module `pyspark_pulsar`.
"""

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.spark.columns import SCHEMA
from pulsar_actors.spark.options import ReadOptions, SinkOptions, check_names
from pulsar_actors.spark.readers import BatchReader, StreamReader
from pulsar_actors.spark.writers import BatchWriter, StreamWriter

__all__ = ["PulsarDataSource"]


class PulsarDataSource(DataSource):
    """Pulsar topics as tables and streams."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "pulsar"

    def schema(self) -> StructType:
        """Return the columns of a query without a schema. As `load()` asks for them, a misspelt option fails there."""
        check_names(self._option_texts())
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of `spark.read`."""
        return BatchReader(ReadOptions.parse(self._option_texts(), is_stream=False), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of `df.write`."""
        if overwrite:
            raise InvalidConfiguration('nothing that is in a topic can be overwritten: say mode("append")')
        return BatchWriter(SinkOptions.parse(self._option_texts()), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return the reader of `spark.readStream`."""
        return StreamReader(self._option_texts(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Return the writer of `df.writeStream`. It appends each batch, whatever the output mode."""
        return StreamWriter(SinkOptions.parse(self._option_texts()), schema)

    def _option_texts(self) -> dict[str, Any]:
        return dict(self.options)
