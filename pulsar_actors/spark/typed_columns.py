"""The columns of topics with a schema: one for each field of a record, or a typed `value`, and `key` of a pair.

The columns are those of the newest schema when the query is planned. A message that was written with another version is
resolved to them: a field that it does not have gets its default, or null. A message that does not fit fails the query.
A tombstone has null in all columns.

Messages are decoded all at once where that can be done, and one by one where not: what comes of it is the same.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
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
from pulsar_actors.spark.arrow import Array, array_of, as_text, concat_arrays, fields_of, fixed_width, np, spread
from pulsar_actors.spark.avro_decoder import NotByColumns, decode_columns
from pulsar_actors.spark.avro_evolution import resolved
from pulsar_actors.spark.avro_types import ValueType, value_type
from pulsar_actors.spark.decoded_values import from_fastavro, from_json, microseconds_of_day, milliseconds_of_day
from pulsar_actors.spark.json_decoder import decode_lines
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["ColumnType", "Messages", "TopicColumns", "schema_of_topics"]


class Messages(NamedTuple):
    """The messages of some entries, as columns are made of them. None stands for what is null."""

    entries: Sequence[tuple[OpenedEntry, int]]
    """Each entry, and how many of the messages it has."""
    payloads: Sequence[bytes | None]
    keys: Callable[[], Sequence[bytes | None]]

    def entry_at(self, row: int) -> OpenedEntry:
        """Return the entry of a message."""
        for entry, count in self.entries:
            if row < count:
                return entry
            row -= count
        raise IndexError(row)


class ColumnType(NamedTuple):
    """The type of a column, in Spark and in Arrow."""

    spark: DataType
    arrow: Any


class TopicColumns:
    """The columns that a topic's schema gives. It is pickled for the workers."""

    def __init__(self, stored: StoredSchema) -> None:
        self._stored = stored
        self.types  # noqa: B018 - for its checks

    def __getstate__(self) -> dict[str, Any]:
        return {"_stored": self._stored}

    @cached_property
    def types(self) -> Mapping[str, ColumnType]:
        """The types of the columns by name."""
        if self._halves is not None:
            return {name: half.type for name, half in zip(("key", "value"), self._halves, strict=True)}
        whole = self._whole.type
        if not isinstance(whole.spark, StructType):
            return {"value": whole}
        return {
            field.name: ColumnType(field.dataType, whole.arrow.field(field.name).type) for field in whole.spark.fields
        }

    def arrays(self, messages: Messages) -> Mapping[str, Array]:
        """Return the columns of some messages."""
        if self._halves is not None:
            return {
                name: half.array(values, messages)
                for name, half, values in zip(("key", "value"), self._halves, self._pairs(messages), strict=True)
            }
        column = self._whole.array(messages.payloads, messages)
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
        return _Decoder(key, half=0), _Decoder(value, half=1)

    def _pairs(self, messages: Messages) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
        """Return the bytes of the keys, and those of the values: INLINE in the payload, or SEPARATED."""
        if self._stored.properties.get("kv.encoding.type", "INLINE") != "INLINE":
            return messages.keys(), messages.payloads
        pairs: list[tuple[bytes | None, bytes | None]] = []
        for row, payload in enumerate(messages.payloads):
            try:
                pairs.append((None, None) if payload is None else split_inline(payload))
            except ValueError as fault:
                raise _undecodable(messages.entry_at(row), fault) from fault
        return [key for key, _ in pairs], [value for _, value in pairs]


class _Decoder:
    """Decodes values by one schema, or by the half of a pair's."""

    def __init__(self, stored: StoredSchema, half: int | None = None) -> None:
        self._half = half
        self._form = _FORMS.get(stored.type, _Primitive)(stored)
        self.type = self._form.type

    def array(self, values: Sequence[bytes | None], messages: Messages) -> Array:
        """Decode values, each with the schema that its message was written with."""
        columns: list[Array] = []
        start = 0
        for written, count in self._runs(messages):
            columns.append(self._run(values[start : start + count], written, messages, start))
            start += count
        return columns[0] if len(columns) == 1 else concat_arrays(columns)

    def _runs(self, messages: Messages) -> Iterator[tuple[StoredSchema | None, int]]:
        """Yield how many messages in a row were written with the same schema, and which; None if with none."""
        for _, entries in groupby(messages.entries, lambda one: (one[0].topic, one[0].metadata.schema_version)):
            run = list(entries)
            yield self._writer_of(run[0][0]), sum(count for _, count in run)

    def _writer_of(self, entry: OpenedEntry) -> StoredSchema | None:
        version = entry.metadata.schema_version
        if not version or entry.schemas is None:
            return None
        stored = entry.schemas.get(entry.topic, version)
        return stored if self._half is None else halves_of(stored)[self._half]

    def _run(
        self, values: Sequence[bytes | None], written: StoredSchema | None, messages: Messages, start: int
    ) -> Array:
        some = [one for one in values if one is not None]
        try:
            column = self._form.column(some, written)
        except NotByColumns:
            return self._one_by_one(values, written, messages, start)
        if len(some) == len(values):
            return column
        return spread(column, np.fromiter((one is not None for one in values), np.bool_, len(values)))

    def _one_by_one(
        self, values: Sequence[bytes | None], written: StoredSchema | None, messages: Messages, start: int
    ) -> Array:
        decoded: list[Any] = []
        for row, data in enumerate(values, start):
            try:
                decoded.append(None if data is None else self._form.value(data, written))
            except Exception as fault:  # what a decoder raises for bytes of any kind
                raise _undecodable(messages.entry_at(row), fault) from fault
        try:
            return array_of(decoded, self.type.arrow)
        except _ARROW_REFUSES:
            for row, value in enumerate(decoded, start):
                try:
                    array_of([value], self.type.arrow)
                except _ARROW_REFUSES as fault:
                    raise _undecodable(messages.entry_at(row), fault) from fault
            raise


_ARROW_REFUSES: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _undecodable(entry: OpenedEntry, fault: Exception) -> UndecodableMessage:
    ledger_id, entry_id = entry.message_id.position
    return UndecodableMessage(
        f"a message of the entry {ledger_id}:{entry_id} of {entry.topic} does not fit the schema of the topic: "
        f"{fault}. To read bytes, say valueAs=bytes"
    )


class _Form(Protocol):
    """A form of values."""

    type: ColumnType

    def __init__(self, stored: StoredSchema) -> None: ...

    def column(self, payloads: Sequence[bytes], written: StoredSchema | None) -> Array:
        """Decode payloads all at once, or raise NotByColumns."""
        ...

    def value(self, payload: bytes, written: StoredSchema | None) -> object:
        """Decode one payload to what Arrow takes."""
        ...


class _Avro(_Form):
    def __init__(self, stored: StoredSchema) -> None:
        definition = json.loads(stored.data)
        self._data = stored.data
        self._schema = AvroSchema(None, definition)
        self._kind = value_type(definition)
        self._convert = from_fastavro(self._kind)
        self._writers: dict[bytes, ValueType] = {}
        self.type = ColumnType(self._kind.spark, self._kind.arrow)

    def column(self, payloads: Sequence[bytes], written: StoredSchema | None) -> Array:
        if written is None or written.data == self._data:
            return decode_columns(self._kind, payloads)
        return resolved(decode_columns(self._writer(written), payloads), self._writer(written), self._kind)

    def _writer(self, written: StoredSchema) -> ValueType:
        if written.type != SchemaType.AVRO:
            raise NotByColumns
        if written.data not in self._writers:
            try:
                self._writers[written.data] = value_type(json.loads(written.data))
            except InvalidConfiguration:  # it has a type that Spark does not have
                raise NotByColumns from None
        return self._writers[written.data]

    def value(self, payload: bytes, written: StoredSchema | None) -> object:
        schema = self._schema
        value: Any = schema.decode(payload) if written is None else schema.decode_written(payload, written)
        return value if self._convert is None or value is None else self._convert(value)


class _Json(_Form):
    def __init__(self, stored: StoredSchema) -> None:
        self._kind = value_type(json.loads(stored.data))
        self._convert = from_json(self._kind)
        self.type = ColumnType(self._kind.spark, self._kind.arrow)

    def column(self, payloads: Sequence[bytes], written: StoredSchema | None) -> Array:
        return decode_lines(self._kind, payloads)

    def value(self, payload: bytes, written: StoredSchema | None) -> object:
        value = json.loads(payload)
        return value if self._convert is None or value is None else self._convert(value)


class _Primitive(_Form):
    def __init__(self, stored: StoredSchema) -> None:
        self._kind = SchemaType(stored.type)
        if self._kind not in _PRIMITIVES:
            name = self._kind.name
            raise InvalidConfiguration(f"a topic with a schema of type {name} has no typed columns: say valueAs=bytes")
        self._schema = schema_of(stored)
        self.type = _PRIMITIVES[self._kind]

    def column(self, payloads: Sequence[bytes], written: StoredSchema | None) -> Array:
        if written is not None and written.type != self._kind:
            raise NotByColumns
        if self._kind is SchemaType.STRING:
            try:
                return as_text(array_of(payloads, pa.binary()))
            except pa.ArrowInvalid:
                raise NotByColumns from None
        numbers = _BIG_ENDIAN.get(self._kind)
        width = 0 if numbers is None else np.dtype(numbers).itemsize
        if numbers is None or any(len(one) != width for one in payloads):
            raise NotByColumns
        native = np.frombuffer(b"".join(payloads), f">{numbers}").astype(numbers)
        return fixed_width(native, self.type.arrow)

    def value(self, payload: bytes, written: StoredSchema | None) -> object:
        if written is not None and written.type != self._kind:
            raise UndecodableMessage(f"it was written with a schema of type {SchemaType(written.type).name}")
        value: Any = self._schema.decode(payload)
        match self._kind:
            case SchemaType.TIME:
                return milliseconds_of_day(value)
            case SchemaType.LOCAL_TIME:
                return microseconds_of_day(value)
            case _:
                return value


_BIG_ENDIAN: Final = {
    SchemaType.INT8: "i1",
    SchemaType.INT16: "i2",
    SchemaType.INT32: "i4",
    SchemaType.INT64: "i8",
    SchemaType.FLOAT: "f4",
    SchemaType.DOUBLE: "f8",
}
_FORMS: Final[Mapping[int, type[_Form]]] = {SchemaType.AVRO: _Avro, SchemaType.JSON: _Json}

_INSTANT: Final = ColumnType(TimestampType(), pa.timestamp("us", "UTC"))
_PRIMITIVES: Final[Mapping[SchemaType, ColumnType]] = {
    SchemaType.STRING: ColumnType(StringType(), pa.string()),
    SchemaType.BOOLEAN: ColumnType(BooleanType(), pa.bool_()),
    SchemaType.INT8: ColumnType(ByteType(), pa.int8()),
    SchemaType.INT16: ColumnType(ShortType(), pa.int16()),
    SchemaType.INT32: ColumnType(IntegerType(), pa.int32()),
    SchemaType.INT64: ColumnType(LongType(), pa.int64()),
    SchemaType.FLOAT: ColumnType(FloatType(), pa.float32()),
    SchemaType.DOUBLE: ColumnType(DoubleType(), pa.float64()),
    SchemaType.DATE: _INSTANT,
    SchemaType.TIMESTAMP: _INSTANT,
    SchemaType.INSTANT: _INSTANT,
    SchemaType.LOCAL_DATE: ColumnType(DateType(), pa.date32()),
    SchemaType.LOCAL_DATE_TIME: ColumnType(TimestampNTZType(), pa.timestamp("us")),
    SchemaType.TIME: ColumnType(IntegerType(), pa.int32()),
    SchemaType.LOCAL_TIME: ColumnType(LongType(), pa.int64()),
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
