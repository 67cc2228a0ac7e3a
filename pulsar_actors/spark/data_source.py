"""`format("pulsar")`: the data source that gives Spark its readers and writers.

Spark finds it by itself, through the module `pyspark_pulsar`.
"""

from typing import Any, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.spark.columns import Columns, may_be_typed, needs_types, schema_with
from pulsar_actors.spark.options import ReadOptions, SinkOptions, check_names, stored_schema
from pulsar_actors.spark.readers import BatchReader, StreamReader
from pulsar_actors.spark.typed_columns import TopicColumns
from pulsar_actors.spark.writers import BatchWriter, StreamWriter

__all__ = ["PulsarDataSource"]

_NOT_ASKED: Final = StoredSchema(-1, b"", {}, b"")


class PulsarDataSource(DataSource):
    """Pulsar topics as tables and streams. `_stored` is the schema of the topics, once it was asked for."""

    _stored: StoredSchema | None = _NOT_ASKED

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "pulsar"

    def schema(self) -> StructType:
        """Return the columns of a query without a schema. As `load()` asks for them, a misspelt option fails there."""
        check_names(self._option_texts())
        return schema_with(self._typed())

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of `spark.read`."""
        options = ReadOptions.parse(self._option_texts(), is_stream=False)
        return BatchReader(options, Columns(schema, self._typed_for(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of `df.write`."""
        if overwrite:
            raise InvalidConfiguration('nothing that is in a topic can be overwritten: say mode("append")')
        return BatchWriter(SinkOptions.parse(self._option_texts()), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return the reader of `spark.readStream`."""
        return StreamReader(self._option_texts(), schema, self._typed_for)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Return the writer of `df.writeStream`. It appends each batch, whatever the output mode."""
        return StreamWriter(SinkOptions.parse(self._option_texts()), schema)

    def _typed(self) -> TopicColumns | None:
        """Return the columns that the topic's schema gives; None if it has none, or if bytes are wanted."""
        if self._stored == _NOT_ASKED:
            self._stored = stored_schema(self._option_texts())
        return None if self._stored is None else TopicColumns(self._stored)

    def _typed_for(self, schema: StructType) -> TopicColumns | None:
        """Return the columns that the topic's schema gives, if a query with this schema may have one of them."""
        if not may_be_typed(schema):
            return None
        try:
            return self._typed()
        except InvalidConfiguration:  # the schemas of the topics differ, or have types that Spark does not have
            if needs_types(schema):
                raise
            return None  # no query of these topics has typed columns, so `value` is the payload

    def _option_texts(self) -> dict[str, Any]:
        return dict(self.options)
