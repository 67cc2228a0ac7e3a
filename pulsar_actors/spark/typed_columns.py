"""The columns of topics with a schema: one for each field of a record, or a typed `value`, and `key` of a pair.

The columns are those of the newest schema when the query is planned. A message that was written with another version is
resolved to them: a field that it does not have gets its default, or null. A message that does not fit fails the query.
A tombstone has null in all columns.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pulsar_actors.client.client import Client, context_of
from pulsar_actors.client.schema import SchemaType
from pulsar_actors.exceptions import InvalidConfiguration, TopicNotFound, UndecodableMessage
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.opened_entry import OpenedEntry
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.schema.automatic import schema_of
from pulsar_actors.schema.key_value import halves_of, split_inline
from pulsar_actors.schema.schema_avro import AvroSchema
from pulsar_actors.spark.arrow import Array, array_of, as_text, fields_of
from pulsar_actors.spark.avro_types import (
    TypedValue,
    avro_value,
    json_value,
    microseconds_of_day,
    milliseconds_of_day,
)
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Row", "TopicColumns", "schema_of_topics"]


class Row(NamedTuple):
    """A message as its columns are made of it: its entry, its payload, and its key. None for what is null."""

    entry: OpenedEntry
    payload: bytes | None
    key: bytes | None


class TopicColumns:
    """The columns that a topic's schema gives. It is pickled for the workers."""

    def __init__(self, stored: StoredSchema) -> None:
        self._stored = stored
        self.types  # noqa: B018 - for its checks

    def __getstate__(self) -> dict[str, Any]:
        return {"_stored": self._stored}

    @cached_property
    def types(self) -> Mapping[str, TypedValue]:
        """The types of the columns by name."""
        if self._halves is not None:
            return {name: half.type for name, half in zip(("key", "value"), self._halves, strict=True)}
        whole = self._whole.type
        if not isinstance(whole.spark, StructType):
            return {"value": whole}
        return {
            field.name: TypedValue(field.dataType, whole.arrow.field(field.name).type) for field in whole.spark.fields
        }

    def arrays(self, rows: Sequence[Row]) -> Mapping[str, Array]:
        """Return the columns of some messages."""
        if self._halves is not None:
            pairs = list(self._pairs(rows))
            return {
                name: half.array([pair[at] for pair in pairs], rows, at)
                for at, (name, half) in enumerate(zip(("key", "value"), self._halves, strict=True))
            }
        column = self._whole.array([row.payload for row in rows], rows)
        if not pa.types.is_struct(column.type):
            return {"value": column}
        return dict(zip(self.types, fields_of(column), strict=True))

    @cached_property
    def _whole(self) -> "_Decoder":
        return _Decoder(self._stored)

    @cached_property
    def _halves(self) -> "tuple[_Decoder, _Decoder] | None":
        if self._stored.type != SchemaType.KEY_VALUE:
            return None
        key, value = halves_of(self._stored)
        return _Decoder(key), _Decoder(value)

    def _pairs(self, rows: Sequence[Row]) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield the bytes of keys and values: INLINE in the payload, or SEPARATED."""
        if self._stored.properties.get("kv.encoding.type", "INLINE") != "INLINE":
            yield from ((row.key, row.payload) for row in rows)
            return
        for row in rows:
            try:
                yield (None, None) if row.payload is None else split_inline(row.payload)
            except ValueError as fault:
                raise _undecodable(row, fault) from fault


class _Decoder:
    """Decodes values by one schema, or by the half of a pair's."""

    def __init__(self, stored: StoredSchema) -> None:
        self._stored = stored
        self._written: dict[int, StoredSchema] = {}
        self.type, self._decode = _DECODERS.get(stored.type, _primitive)(stored)

    def array(self, values: Sequence[bytes | None], rows: Sequence[Row], half: int | None = None) -> Array:
        """Decode values, each with the schema that its message was written with."""
        if self._stored.type == SchemaType.STRING:
            return self._text(values, rows)
        decode, convert = self._decode, self.type.convert
        entry, written = None, None
        decoded: list[Any] = []
        for row, data in zip(rows, values, strict=True):
            if row.entry is not entry:
                entry, written = row.entry, _writer_of(row.entry, half)
            if data is None:
                decoded.append(None)
                continue
            try:
                value = decode(data, written)
                decoded.append(value if convert is None or value is None else convert(value))
            except Exception as fault:  # what a decoder raises for bytes of any kind
                raise _undecodable(row, fault) from fault
        try:
            return array_of(decoded, self.type.arrow)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            for row, value in zip(rows, decoded, strict=True):
                try:
                    array_of([value], self.type.arrow)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as fault:
                    raise _undecodable(row, fault) from fault
            raise

    @staticmethod
    def _text(values: Sequence[bytes | None], rows: Sequence[Row]) -> Array:
        try:
            return as_text(array_of(values, pa.binary()))
        except pa.ArrowInvalid:
            for row, data in zip(rows, values, strict=True):
                try:
                    str(data or b"", "utf-8")
                except UnicodeDecodeError as fault:
                    raise _undecodable(row, fault) from fault
            raise


def _writer_of(entry: OpenedEntry, half: int | None) -> StoredSchema | None:
    """Return the schema of an entry; None for one that was written without."""
    version = entry.metadata.schema_version
    if not version or entry.schemas is None:
        return None
    stored = entry.schemas.get(entry.topic, version)
    return stored if half is None else halves_of(stored)[half]


def _undecodable(row: Row, fault: Exception) -> UndecodableMessage:
    ledger_id, entry_id = row.entry.message_id.position
    return UndecodableMessage(
        f"a message of the entry {ledger_id}:{entry_id} of {row.entry.topic} does not fit the schema of the topic: "
        f"{fault}. To read bytes, say valueAs=bytes"
    )


Decode = Callable[[bytes, StoredSchema | None], Any]


def _avro(stored: StoredSchema) -> tuple[TypedValue, Decode]:
    definition = json.loads(stored.data)
    schema = AvroSchema(None, definition)

    def decode(data: bytes, written: StoredSchema | None) -> Any:  # noqa: ANN401 - of the definition
        return schema.decode(data) if written is None else schema.decode_written(data, written)

    return avro_value(definition), decode


def _json(stored: StoredSchema) -> tuple[TypedValue, Decode]:
    loads = json.loads

    def decode(data: bytes, written: StoredSchema | None) -> Any:  # noqa: ANN401, ARG001 - JSON says what it is
        return loads(data)

    return json_value(json.loads(stored.data)), decode


def _primitive(stored: StoredSchema) -> tuple[TypedValue, Decode]:
    kind = SchemaType(stored.type)
    if kind not in _PRIMITIVES:
        raise InvalidConfiguration(f"a topic with a schema of type {kind.name} has no typed columns: say valueAs=bytes")
    schema = schema_of(stored)

    def decode(data: bytes, written: StoredSchema | None) -> Any:  # noqa: ANN401 - of the type
        if written is not None and written.type != kind:
            raise UndecodableMessage(f"it was written with a schema of type {SchemaType(written.type).name}")
        return schema.decode(data)

    return _PRIMITIVES[kind], decode


_DECODERS: Final[Mapping[int, Callable[[StoredSchema], tuple[TypedValue, Decode]]]] = {
    SchemaType.AVRO: _avro,
    SchemaType.JSON: _json,
}


_INSTANT: Final = TypedValue(TimestampType(), pa.timestamp("us", "UTC"))
_PRIMITIVES: Final[Mapping[SchemaType, TypedValue]] = {
    SchemaType.STRING: TypedValue(StringType(), pa.string()),
    SchemaType.BOOLEAN: TypedValue(BooleanType(), pa.bool_()),
    SchemaType.INT8: TypedValue(ByteType(), pa.int8()),
    SchemaType.INT16: TypedValue(ShortType(), pa.int16()),
    SchemaType.INT32: TypedValue(IntegerType(), pa.int32()),
    SchemaType.INT64: TypedValue(LongType(), pa.int64()),
    SchemaType.FLOAT: TypedValue(FloatType(), pa.float32()),
    SchemaType.DOUBLE: TypedValue(DoubleType(), pa.float64()),
    SchemaType.DATE: _INSTANT,
    SchemaType.TIMESTAMP: _INSTANT,
    SchemaType.INSTANT: _INSTANT,
    SchemaType.LOCAL_DATE: TypedValue(DateType(), pa.date32()),
    SchemaType.LOCAL_DATE_TIME: TypedValue(TimestampNTZType(), pa.timestamp("us")),
    SchemaType.TIME: TypedValue(IntegerType(), pa.int32(), milliseconds_of_day),
    SchemaType.LOCAL_TIME: TypedValue(LongType(), pa.int64(), microseconds_of_day),
}
"""Times of a day are whole numbers: milliseconds, or microseconds, as Avro has them."""


def schema_of_topics(client: Client, topics: Sequence[TopicName], *, may_differ: bool) -> StoredSchema | None:
    """Return the schema that topics have in common; None if they have none, or if their schemas may differ and do."""
    schemas = context_of(client).schemas
    found: dict[str, StoredSchema | None] = {}
    for topic in dict.fromkeys(str(topic.base) for topic in topics):
        try:
            found[topic] = schemas.latest(topic)
        except TopicNotFound:  # also of a topic that exists, but has no schema
            found[topic] = None
    distinct = {(None if one is None else (one.type, one.data)) for one in found.values()}
    if len(distinct) > 1:
        if may_differ:
            return None
        raise InvalidConfiguration(
            f"the topics have different schemas: {', '.join(found)}. Say valueAs=bytes, or "
            "allowDifferentTopicSchemas=true, to read bytes"
        )
    stored = next(iter(found.values()), None)
    return None if stored is None or stored.type in _NOT_TYPED else stored


_NOT_TYPED: Final = {SchemaType.NONE, SchemaType.PROTOBUF, SchemaType.PROTOBUF_NATIVE}
"""Schemas whose messages are read as bytes. Spark's `from_protobuf` decodes protobuf."""
