"""Messages as rows: the columns of `format("pulsar")`, and record batches of them.

The columns are those of the Scala connector, and some more. A query with a schema of its own gets the columns of that
schema, and may have the value and the keys as text. Topics with a schema have typed columns (see `typed_columns.py`).

To build columns message by message would be slow. The messages of one entry share its topic, producer and publish time.
Messages without a key or properties share one metadata object. The ids of an entry's messages begin with the same
bytes, and end with the same bytes as those of any other entry of that size. `MessageTable` makes each shared value
once, and Arrow repeats it.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
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
from pulsar_actors.runtime.opened_entry import EntryContents, OpenedEntry
from pulsar_actors.spark.arrow import (
    Array,
    Numbers,
    array_of,
    as_text,
    binary_join,
    coalesce,
    concat_arrays,
    fixed_width,
    is_text,
    multiply_add,
    np,
    record_batch,
    take_rows,
    values_of,
)
from pulsar_actors.spark.row_messages import LATEST_MS
from pulsar_actors.spark.typed_columns import ColumnType, Messages, TopicColumns
from pulsar_actors.wire.batch import metadata_of
from pulsar_actors.wire.protobuf import readable, signed
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData, MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.topic_position import TopicPosition

__all__ = ["SCHEMA", "Columns", "MessageTable", "OwnMetadata", "may_be_typed", "needs_types", "schema_with"]


class Columns:
    """The columns of one query: those of messages, and those that the topic's schema gives, if it is used."""

    def __init__(self, schema: StructType, typed: TopicColumns | None = None) -> None:
        names = schema.fieldNames()
        if not names or len(names) > len(set(names)):
            raise InvalidConfiguration(f"the schema is to name each column once, and one at least: it has {names}")
        types: Mapping[str, ColumnType] = {} if typed is None else typed.types
        self._typed = typed
        self._typed_names = {field.name for field in schema.fields if _is_typed(field, types)}
        for field in schema.fields:
            if field.name in self._typed_names:
                _check_parts(field)
            else:
                _check(field, types)
        self._fields = schema.fields
        self._schema = pa.schema(
            [
                pa.field(field.name, types[field.name].arrow, field.nullable)
                if field.name in self._typed_names
                else _arrow_field(field)
                for field in schema.fields
            ]
        )

    def batch(self, entries: Sequence[EntryContents]) -> pa.RecordBatch:
        """Make the rows of some entries, at least one."""
        table, schema = MessageTable(entries), self._schema
        typed: Mapping[str, Array] = {}
        if self._typed is not None and self._typed_names:
            typed = self._typed.arrays(table.messages())
        columns: list[Array] = [
            typed[name] if name in self._typed_names else _column(table, name, kind)
            for name, kind in zip(schema.names, schema.types, strict=True)
        ]
        for column, field in zip(columns, self._fields, strict=True):
            if column.null_count and not field.nullable:
                raise WrongContent(_null_error(table, field.name, column))
        return record_batch(columns, schema)


_ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""The exact types of Arrow that Spark expects for its own types."""


def _arrow_field(field: StructField) -> "pa.Field[Any]":
    kind: Any = _ARROW_TYPES[field.dataType.simpleString()]
    if isinstance(field.dataType, MapType):
        value: Any = pa.field("value", pa.string(), field.dataType.valueContainsNull)
        kind = pa.map_(pa.string(), value)
    return pa.field(field.name, kind, field.nullable)


def schema_with(typed: TopicColumns | None) -> StructType:
    """Return the columns of a query without a schema of its own."""
    if typed is None:
        return SCHEMA
    fields = [StructField(name, one.spark) for name, one in typed.types.items()]
    return StructType([*fields, *(field for field in SCHEMA.fields if field.name != "value")])


def needs_types(schema: StructType) -> bool:
    """Return whether a query has columns that only the schema of a topic can give."""
    return any(
        field.dataType.simpleString() not in {"binary", "string"} if field.name == "value" else field.name not in _TYPES
        for field in schema.fields
    )


def may_be_typed(schema: StructType) -> bool:
    """Return whether a query has a column that the schema of a topic may give: its meaning depends on no other one."""
    return "value" in schema.fieldNames() or needs_types(schema)


def _is_typed(field: StructField, types: Mapping[str, ColumnType]) -> bool:
    """Return whether a column is the one that the topic's schema gives. `value` may be the payload as well."""
    typed = types.get(field.name)
    return typed is not None and typed.spark.simpleString() == field.dataType.simpleString()


def _check(field: StructField, types: Mapping[str, ColumnType]) -> None:
    kind = _TYPES.get(field.name)
    if kind is None:
        typed = types.get(field.name)
        if typed is not None:
            shown = f"{typed.spark.simpleString()}, not {field.dataType.simpleString()}"
            raise InvalidConfiguration(f"{field.name} is of type {shown}, by the schema of the topic")
        raise InvalidConfiguration(f"a message has no column {field.name}: it has {', '.join([*types, *_ORDER])}")
    takes = [kind, _TEXT] if field.name in _MAY_BE_TEXT else [kind]
    names = [one.simpleString() for one in takes]  # the same whether nulls are allowed or not
    if field.dataType.simpleString() not in names:
        raise InvalidConfiguration(f"{field.name} is of type {' or '.join(names)}, not {field.dataType.simpleString()}")


def _check_parts(field: StructField) -> None:
    """Refuse a typed column with a part that may not be null: the parts of those by a topic's schema all may."""
    part = _part_not_null(field.dataType, field.name)
    if part is not None:
        raise InvalidConfiguration(
            f"{part} is not null by the schema of the query, and only a whole column can be so: give {field.name} the "
            f"type {field.dataType.simpleString()}, with no NOT NULL inside (in Python: nullable, containsNull and "
            "valueContainsNull are True)"
        )


def _part_not_null(kind: DataType, name: str) -> str | None:
    """Return the path of a part that may not be null: a field, the items of an array, or the values of a map."""
    parts: list[tuple[str, DataType, bool]] = []
    match kind:
        case StructType():
            parts = [(f"{name}.{one.name}", one.dataType, one.nullable) for one in kind.fields]
        case ArrayType():
            parts = [(f"{name}[]", kind.elementType, kind.containsNull)]
        case MapType():
            parts = [(f"{name}{{}}", kind.valueType, kind.valueContainsNull)]
        case _:
            pass
    found = (_part_not_null(inner, path) if may_be_null else path for path, inner, may_be_null in parts)
    return next((path for path in found if path is not None), None)


def _column(table: "MessageTable", name: str, kind: pa.DataType) -> Array:
    if name not in _MAY_BE_TEXT:
        return _raw_column(table, name, kind)
    column = _raw_column(table, name, pa.binary())
    if not is_text(kind):
        return column
    try:
        return as_text(column)
    except pa.ArrowInvalid:
        raise WrongContent(_not_text_error(table, name, column)) from None


def _raw_column(table: "MessageTable", name: str, kind: pa.DataType) -> Array:
    if name in _OF_TABLE:
        return _OF_TABLE[name][1](table)
    if name in _OF_ENTRY:
        return table.of_entries(_OF_ENTRY[name][1], kind)
    return table.of_messages(_OF_MESSAGE[name][1], kind)


def _not_text_error(table: "MessageTable", name: str, column: Array) -> str:
    for row, data in enumerate(values_of(column)):
        try:
            str(data or b"", "utf-8")
        except UnicodeDecodeError:
            return f"the {name} of a message {_where(table, row)} is no text in UTF-8: read it as binary"
    raise AssertionError(name)


def _null_error(table: "MessageTable", name: str, column: Array) -> str:
    where = _where(table, values_of(column).index(None))
    return f"the {name} of a message {where} is null, and the schema says that it is not: leave out NOT NULL"


def _where(table: "MessageTable", row: int) -> str:
    entry = table.entry_at(row)
    return f"at {TopicPosition.of(entry.message_id).text(-1)} of {entry.topic}"


OwnMetadata: TypeAlias = SingleMessageMetadata | MessageMetadata
"""The metadata of a single message: that of the entry, if the entry is no batch."""

ARROW_PAYS_OFF: Final = 8
"""With more messages in an average entry than this, calls of Arrow for each entry are faster than Python."""


class MessageTable:
    """The messages of some entries, at least one, as columns."""

    def __init__(self, entries: Sequence[EntryContents]) -> None:
        self._contents = entries
        self._payloads = [one for each in entries for one in each.payloads]
        self._stored = list(chain.from_iterable(contents.stored for contents in entries))
        self._count = len(self._payloads)
        self._are_large = self._count >= ARROW_PAYS_OFF * len(entries)
        self._own_metadata_list, self._own_numbers = self._own_metadata()

    def _own_metadata(self) -> tuple[list[OwnMetadata], Numbers]:
        """Return the distinct metadata of messages, and for each message the index of its own."""
        stored = self._stored
        first = stored[0]
        if first is not None and stored.count(first) == self._count:  # most have the same
            return [metadata_of(first)], np.zeros(self._count, np.int32)
        metadata = [each.entry.metadata if one is None else one for each in self._contents for one in each.stored]
        numbers: dict[int, int] = {}
        of_each = np.array([numbers.setdefault(id(one), len(numbers)) for one in metadata], np.int32)
        distinct = {id(one): one for one in metadata}.values()
        return [one if isinstance(one, MessageMetadata) else metadata_of(one) for one in distinct], of_each

    def entry_at(self, row: int) -> OpenedEntry:
        """Return the entry of a message."""
        return self._contents[int(self._entry_numbers[row])].entry

    def of_entries(self, of: Callable[[OpenedEntry], Any], kind: pa.DataType) -> Array:
        """Make a column of a value that the messages of an entry share."""
        column = array_of([of(contents.entry) for contents in self._contents], kind)
        return column if len(column) == self._count else take_rows(column, self._entry_of_each)

    def of_messages(self, of: Callable[[OwnMetadata], Any], kind: pa.DataType) -> Array:
        """Make a column of a value of the messages' metadata."""
        column = array_of(list(map(of, self._own_metadata_list)), kind)
        return column if len(column) == self._count else take_rows(column, self._own_of_each)

    @cached_property
    def _entry_numbers(self) -> Numbers:
        numbers: Numbers = np.repeat(
            np.arange(len(self._contents), dtype=np.int32), [len(one.payloads) for one in self._contents]
        )
        return numbers

    @cached_property
    def _entry_of_each(self) -> Array:
        return fixed_width(self._entry_numbers, pa.int32())

    @cached_property
    def _own_of_each(self) -> Array:
        return fixed_width(self._own_numbers, pa.int32())

    def values(self) -> Array:
        """Make the column of payloads; a tombstone has null."""
        return array_of(self._payloads_or_none(), pa.binary())

    def messages(self) -> Messages:
        """Return the messages, for columns by the topic's schema."""
        entries = [(contents.entry, len(contents.payloads)) for contents in self._contents]
        return Messages(entries, self._payloads_or_none(), self._keys)

    def _keys(self) -> list[bytes | None]:
        keys: list[bytes | None] = values_of(self.of_messages(_key, pa.binary()))
        return keys

    def _payloads_or_none(self) -> Sequence[bytes | None]:
        if not any(own.null_value for own in self._own_metadata_list):
            return self._payloads
        owns = map(self._own_metadata_list.__getitem__, self._own_numbers)
        return [None if own.null_value else one for own, one in zip(owns, self._payloads, strict=True)]

    def message_ids(self) -> Array:
        """Make the column of message ids, as `MessageId.serialize` writes them."""
        heads = self.of_entries(lambda entry: entry.message_id.serialize(), pa.binary())
        return binary_join(heads, self._id_ends())

    def _id_ends(self) -> Array:
        if self._are_large:
            return concat_arrays([_id_ends_of(one) for one in self._contents])
        return array_of(
            [_id_end(index, one.entry.size) for one in self._contents for index in one.indexes], pa.binary()
        )

    def sequence_ids(self) -> Array:
        """Make the column of sequence ids: the message's own, or else derived from those of its entry."""
        first = self.of_entries(lambda entry: signed(entry.metadata.sequence_id), pa.int64())
        step = self.of_entries(_sequence_step, pa.int64())
        own = self.of_messages(_own_sequence_id, pa.int64())
        return coalesce(own, multiply_add(first, step, self._indexes()))

    def _indexes(self) -> Array:
        if self._are_large:
            return concat_arrays([_indexes_of(one) for one in self._contents])
        return array_of(list(chain.from_iterable(one.indexes for one in self._contents)), pa.int64())


def _sequence_step(entry: OpenedEntry) -> int:
    """Return the difference between the sequence ids of consecutive messages of an entry: 1 or 0.

    A batch has its lowest and its highest sequence id. If it has as many messages as there are ids between, the ids are
    consecutive; otherwise only the lowest is known.
    """
    metadata = entry.metadata
    return int(metadata.highest_sequence_id - metadata.sequence_id + 1 == entry.size)


def _own_sequence_id(own: OwnMetadata) -> int | None:
    return signed(own.sequence_id) if own.HasField("sequence_id") else None


@lru_cache(maxsize=100_000)
def _id_end(index: int, size: int) -> bytes:
    """Encode the part of a message id that follows that of its entry: nothing, if the entry is no batch."""
    if not size:
        return b""
    return MessageIdData(ledgerId=0, entryId=0, batch_index=index, batch_size=size).SerializeToString()[_ENTRY_ZERO:]


def _id_ends_of(contents: EntryContents) -> Array:
    of_batch = _id_ends_of_batch(contents.entry.size)
    return of_batch if _is_whole(contents) else take_rows(of_batch, _indexes_of(contents))


@lru_cache(maxsize=256)
def _id_ends_of_batch(size: int) -> Array:
    return array_of([_id_end(index, size) for index in range(max(1, size))], pa.binary())


def _indexes_of(contents: EntryContents) -> Array:
    if _is_whole(contents):
        return fixed_width(np.arange(contents.entry.size, dtype=np.int64), pa.int64())
    return array_of(contents.indexes, pa.int64())


def _is_whole(contents: EntryContents) -> bool:
    """Return whether all messages of a batch are there."""
    return len(contents.indexes) == contents.entry.size


_ENTRY_ZERO: Final = len(MessageIdData(ledgerId=0, entryId=0).SerializeToString())


def _key(own: OwnMetadata) -> bytes | None:
    """Return the bytes of the key: as they are stored, if they should be in base 64 and are not."""
    if not own.HasField("partition_key"):
        return None
    key = readable(own).partition_key
    if own.partition_key_b64_encoded:
        with suppress(ValueError):
            return b64decode(key, validate=True)
    return key.encode()


def _ordering_key(own: OwnMetadata) -> bytes | None:
    return own.ordering_key if own.HasField("ordering_key") else None


def _event_time(own: OwnMetadata) -> int | None:
    return _time(own.event_time) if own.event_time else None


def _time(ms: int) -> int | None:
    """Return a time in microseconds, as Spark has it; None for a time too late for Spark."""
    return ms * 1000 if ms <= LATEST_MS else None


def _properties(own: OwnMetadata) -> list[tuple[str, str]]:
    return list({pair.key: pair.value for pair in readable(own).properties}.items())


_BINARY, _TEXT, _LONG, _TIME = BinaryType(), StringType(), LongType(), TimestampType()

_OF_ENTRY: Final[Mapping[str, tuple[DataType, Callable[[OpenedEntry], Any]]]] = {
    "__topic": (_TEXT, lambda entry: entry.topic),
    "__publishTime": (_TIME, lambda entry: _time(entry.metadata.publish_time)),
    "__producerName": (_TEXT, lambda entry: readable(entry.metadata).producer_name),
    "__redeliveryCount": (IntegerType(), lambda entry: entry.redelivery_count),
}
"""Columns whose value the messages of an entry share."""

_OF_MESSAGE: Final[Mapping[str, tuple[DataType, Callable[[OwnMetadata], Any]]]] = {
    "__key": (_BINARY, _key),
    "__eventTime": (_TIME, _event_time),
    "__messageProperties": (MapType(_TEXT, _TEXT), _properties),
    "__orderingKey": (_BINARY, _ordering_key),
}
"""Columns whose value the messages with the same metadata share."""

_OF_TABLE: Final[Mapping[str, tuple[DataType, Callable[[MessageTable], Array]]]] = {
    "value": (_BINARY, MessageTable.values),
    "__messageId": (_BINARY, MessageTable.message_ids),
    "__sequenceId": (_LONG, MessageTable.sequence_ids),
}
"""Columns with a value for each message."""

_ORDER: Final = (
    "value", "__key", "__topic", "__messageId", "__publishTime", "__eventTime", "__messageProperties",
    "__orderingKey", "__sequenceId", "__producerName", "__redeliveryCount",
)  # fmt: skip
_TYPES: Final[Mapping[str, DataType]] = {
    **{name: kind for name, (kind, _) in _OF_TABLE.items()},
    **{name: kind for name, (kind, _) in _OF_ENTRY.items()},
    **{name: kind for name, (kind, _) in _OF_MESSAGE.items()},
}
_MAY_BE_TEXT: Final = {"value", "__key", "__orderingKey"}

SCHEMA: Final = StructType([StructField(name, _TYPES[name]) for name in _ORDER])
"""The columns of a query without a schema."""
