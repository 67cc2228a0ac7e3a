"""What a message is as a row: the columns, and record batches of them.

The columns are those of the Scala connector, and some more. A query that names a schema of its own gets the columns
that it names and no others, and may have the value and the keys as text.

What messages share is made once, and Arrow repeats it (`message_table.py`).
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pulsar_actors.exceptions import InvalidConfiguration, WrongContent
from pulsar_actors.runtime.opened import Contents, Opened
from pulsar_actors.spark.arrow import Array, as_text, is_text, record_batch, values_of
from pulsar_actors.spark.drafts import LATEST_MS
from pulsar_actors.spark.message_table import MessageTable, Own
from pulsar_actors.spark.position import Position
from pulsar_actors.wire.strings import readable

__all__ = ["SCHEMA", "Columns"]


def _key(own: Own) -> bytes | None:
    """Give the key's bytes, be it text or not."""
    if not own.HasField("partition_key"):
        return None
    key = readable(own).partition_key
    return b64decode(key) if own.partition_key_b64_encoded else key.encode()


def _ordering_key(own: Own) -> bytes | None:
    return own.ordering_key if own.HasField("ordering_key") else None


def _event_time(own: Own) -> int | None:
    return _time(own.event_time) if own.event_time else None


def _time(ms: int) -> int | None:
    """Give a time as Spark has it, in microseconds; one that is too late for that, as null."""
    return ms * 1000 if ms <= LATEST_MS else None


def _properties(own: Own) -> list[tuple[str, str]]:
    return list({pair.key: pair.value for pair in readable(own).properties}.items())


_BINARY, _TEXT, _LONG, _TIME = BinaryType(), StringType(), LongType(), TimestampType()

_OF_ENTRY: Final[Mapping[str, tuple[DataType, Callable[[Opened], Any]]]] = {
    "__topic": (_TEXT, lambda entry: entry.topic),
    "__publishTime": (_TIME, lambda entry: _time(entry.metadata.publish_time)),
    "__producerName": (_TEXT, lambda entry: readable(entry.metadata).producer_name),
    "__redeliveryCount": (IntegerType(), lambda entry: entry.redelivery_count),
}
"""What all messages of an entry share."""

_OF_METADATA: Final[Mapping[str, tuple[DataType, Callable[[Own], Any]]]] = {
    "__key": (_BINARY, _key),
    "__eventTime": (_TIME, _event_time),
    "__messageProperties": (MapType(_TEXT, _TEXT), _properties),
    "__orderingKey": (_BINARY, _ordering_key),
}
"""What all messages share that have the same metadata."""

_OF_TABLE: Final[Mapping[str, tuple[DataType, Callable[[MessageTable], Array]]]] = {
    "value": (_BINARY, MessageTable.values),
    "__messageId": (_BINARY, MessageTable.message_ids),
    "__sequenceId": (_LONG, MessageTable.sequence_ids),
}
"""What each message has for itself."""

_ORDER: Final = (
    "value", "__key", "__topic", "__messageId", "__publishTime", "__eventTime", "__messageProperties",
    "__orderingKey", "__sequenceId", "__producerName", "__redeliveryCount",
)  # fmt: skip
_TYPES: Final[Mapping[str, DataType]] = {
    **{name: kind for name, (kind, _) in _OF_TABLE.items()},
    **{name: kind for name, (kind, _) in _OF_ENTRY.items()},
    **{name: kind for name, (kind, _) in _OF_METADATA.items()},
}
_MAY_BE_TEXT: Final = {"value", "__key", "__orderingKey"}

SCHEMA: Final = StructType([StructField(name, _TYPES[name]) for name in _ORDER])
"""The columns of a query that names none."""


class Columns:
    """The columns of one query."""

    def __init__(self, schema: StructType) -> None:
        names = schema.fieldNames()
        if not names or len(names) > len(set(names)):
            raise InvalidConfiguration(f"the schema is to name each column once, and one at least: it has {names}")
        for field in schema.fields:
            _check(field)
        self._fields = schema.fields
        self._schema = pa.schema([_arrow_field(field) for field in schema.fields])

    def batch(self, entries: Sequence[Contents]) -> pa.RecordBatch:
        """Make the rows of some messages, of which there is at least one."""
        table, schema = MessageTable(entries), self._schema
        columns = [_column(table, *one) for one in zip(schema.names, schema.types, strict=True)]
        for column, field in zip(columns, self._fields, strict=True):
            if column.null_count and not field.nullable:
                raise WrongContent(_what_is_null(table, field.name, column))
        return record_batch(columns, schema)


_ARROW: Final[Mapping[str, pa.DataType]] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""The types of Arrow's that Spark wants for its own, to the letter."""


def _arrow_field(field: StructField) -> "pa.Field[Any]":
    kind: Any = _ARROW[field.dataType.simpleString()]
    if isinstance(field.dataType, MapType):
        value: Any = pa.field("value", pa.string(), field.dataType.valueContainsNull)
        kind = pa.map_(pa.string(), value)
    return pa.field(field.name, kind, field.nullable)


def _check(field: StructField) -> None:
    kind = _TYPES.get(field.name)
    if kind is None:
        raise InvalidConfiguration(f"a message has no column {field.name}: it has {', '.join(_ORDER)}")
    takes = [kind, _TEXT] if field.name in _MAY_BE_TEXT else [kind]
    names = [one.simpleString() for one in takes]  # the same where nulls may be and where not
    if field.dataType.simpleString() not in names:
        raise InvalidConfiguration(f"{field.name} is of type {' or '.join(names)}, not {field.dataType.simpleString()}")


def _column(table: MessageTable, name: str, kind: pa.DataType) -> Array:
    if name not in _MAY_BE_TEXT:
        return _of_all(table, name, kind)
    column = _of_all(table, name, pa.binary())
    if not is_text(kind):
        return column
    try:
        return as_text(column)
    except pa.ArrowInvalid:
        raise WrongContent(_what_is_no_text(table, name, column)) from None


def _of_all(table: MessageTable, name: str, kind: pa.DataType) -> Array:
    if name in _OF_TABLE:
        return _OF_TABLE[name][1](table)
    if name in _OF_ENTRY:
        return table.of_entries(_OF_ENTRY[name][1], kind)
    return table.of_messages(_OF_METADATA[name][1], kind)


def _what_is_no_text(table: MessageTable, name: str, column: Array) -> str:
    for row, data in enumerate(values_of(column)):
        try:
            str(data or b"", "utf-8")
        except UnicodeDecodeError:
            return f"the {name} of a message {_where(table, row)} is no text in UTF-8: read it as binary"
    raise AssertionError(name)


def _what_is_null(table: MessageTable, name: str, column: Array) -> str:
    where = _where(table, values_of(column).index(None))
    return f"the {name} of a message {where} is null, and the schema says that it is not: leave out NOT NULL"


def _where(table: MessageTable, row: int) -> str:
    entry = table.entry_at(row)
    return f"at {Position.of(entry.message_id).text(-1)} of {entry.topic}"
