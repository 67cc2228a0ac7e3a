"""What a message is as a row: the columns, and record batches of them.

The columns are those of the Scala connector, and some more. A query that names a schema of its own gets the columns
that it names and no others, and may have the value and the keys as text.

A batch of columns is made of many messages that share most of what they say: those of one entry have its topic, its
producer and its time, and messages without a key or properties are alike in all but the payload. So what they share is
made once, and Arrow repeats it; only the payload and the id are made for each.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

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

from pulsar_actors.client.message import Message, OpenedEntry, parts_of
from pulsar_actors.exceptions import InvalidConfiguration, WrongContent
from pulsar_actors.spark.arrow import Array, as_text, is_text, made, record_batch, repeated, values_of
from pulsar_actors.wire.batch import metadata_of
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData, MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.strings import readable

__all__ = ["SCHEMA", "Columns"]

Own = SingleMessageMetadata | MessageMetadata
"""What is said of a message alone: by the entry, if that is no batch."""


def _key(own: Own) -> bytes | None:
    """Give the key's bytes, be it text or not."""
    if not own.HasField("partition_key"):
        return None
    key = readable(own).partition_key
    return b64decode(key) if own.partition_key_b64_encoded else key.encode()


def _ordering_key(own: Own) -> bytes | None:
    return own.ordering_key if own.HasField("ordering_key") else None


def _event_time(own: Own) -> int | None:
    return own.event_time * 1000 if own.event_time else None


def _properties(own: Own) -> list[tuple[str, str]]:
    return list({pair.key: pair.value for pair in readable(own).properties}.items())


_BINARY, _TEXT, _LONG, _TIME = BinaryType(), StringType(), LongType(), TimestampType()

_OF_ENTRY: Final[Mapping[str, tuple[DataType, Callable[[OpenedEntry], Any]]]] = {
    "__topic": (_TEXT, lambda entry: entry.topic),
    "__publishTime": (_TIME, lambda entry: entry.metadata.publish_time * 1000),
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

_ORDER: Final = (
    "value", "__key", "__topic", "__messageId", "__publishTime", "__eventTime", "__messageProperties",
    "__orderingKey", "__sequenceId", "__producerName", "__redeliveryCount",
)  # fmt: skip
_TYPES: Final[Mapping[str, DataType]] = {
    "value": _BINARY,
    "__messageId": _BINARY,
    "__sequenceId": _LONG,
    **{name: kind for name, (kind, _) in _OF_ENTRY.items()},
    **{name: kind for name, (kind, _) in _OF_METADATA.items()},
}
_MAY_BE_TEXT: Final = {"value", "__key", "__orderingKey"}

SCHEMA: Final = StructType([StructField(name, _TYPES[name]) for name in _ORDER])
"""The columns of a query that names none."""


class Columns:
    """The columns of one query."""

    def __init__(self, schema: StructType) -> None:
        for field in schema.fields:
            _check(field)
        self._schema = schema

    def batch(self, messages: Sequence[Message]) -> pa.RecordBatch:
        """Make the rows of some messages, of which there is at least one."""
        arrow = pa.schema([_arrow_field(field) for field in self._schema.fields])
        table = _Table(messages)
        arrays = [_cast(table, name, kind) for name, kind in zip(arrow.names, arrow.types, strict=True)]
        return record_batch(arrays, arrow)


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
    return pa.field(field.name, _ARROW[field.dataType.simpleString()], field.nullable)


def _check(field: StructField) -> None:
    kind = _TYPES.get(field.name)
    if kind is None:
        raise InvalidConfiguration(f"a message has no column {field.name}: it has {', '.join(_ORDER)}")
    takes = [kind, _TEXT] if field.name in _MAY_BE_TEXT else [kind]
    if field.dataType not in takes:
        names = " or ".join(one.simpleString() for one in takes)
        raise InvalidConfiguration(f"{field.name} is of type {names}, not {field.dataType.simpleString()}")


class _Table:
    """Some messages, and what they have in common."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._payloads, self._stored, entries, self._indexes = zip(*map(parts_of, messages), strict=True)
        self._entries, self._of_entry = _runs(entries)
        metadata = [entry.metadata if one is None else one for one, entry in zip(self._stored, entries, strict=True)]
        distinct, self._of_metadata = _runs(metadata)
        self._metadata = [one if isinstance(one, MessageMetadata) else metadata_of(one) for one in distinct]

    def column(self, name: str) -> Array:
        """Make one of the columns, in its own type."""
        match name:
            case "value":
                return self._values()
            case "__messageId":
                return made(self._message_ids(), pa.binary())
            case "__sequenceId":
                return made(self._sequence_ids(), pa.int64())
            case _:
                return self._shared(name)

    def _shared(self, name: str) -> Array:
        if name in _OF_ENTRY:
            return _repeated(name, [_OF_ENTRY[name][1](entry) for entry in self._entries], self._of_entry)
        return _repeated(name, [_OF_METADATA[name][1](own) for own in self._metadata], self._of_metadata)

    def text(self, name: str) -> Array:
        """Make one of the columns of bytes as text."""
        column = self.column(name)
        try:
            return as_text(column)
        except pa.ArrowInvalid:
            raise WrongContent(self._what_is_no_text(name, column)) from None

    def _what_is_no_text(self, name: str, column: Array) -> str:
        for place, data in enumerate(values_of(column)):
            try:
                str(data or b"", "utf-8")
            except UnicodeDecodeError:
                entry = self._entries[self._of_entry[place]]
                where = f"in {entry.message_id} of {entry.topic}"
                return f"the {name} of a message {where} is no text in UTF-8: read it as binary"
        raise AssertionError(name)

    def _values(self) -> Array:
        payloads = self._payloads
        if any(own.null_value for own in self._metadata):
            owns = map(self._metadata.__getitem__, self._of_metadata)
            payloads = tuple(None if own.null_value else one for own, one in zip(owns, payloads, strict=True))
        return made(payloads, pa.binary())

    def _message_ids(self) -> list[bytes]:
        heads = [entry.message_id.serialize() for entry in self._entries]
        sizes = [entry.size for entry in self._entries]
        places = zip(self._of_entry, self._stored, self._indexes, strict=True)
        return [
            heads[entry] if stored is None else heads[entry] + _place_in_batch(index, sizes[entry])
            for entry, stored, index in places
        ]

    def _sequence_ids(self) -> list[int]:
        numbers = [_Numbers.of(entry.metadata, entry.size) for entry in self._entries]
        given = [own.sequence_id if own.HasField("sequence_id") else None for own in self._metadata]
        ids: list[int] = []
        for entry, own, index in zip(self._of_entry, self._of_metadata, self._indexes, strict=True):
            said = given[own]
            ids.append(numbers[entry].first + index * numbers[entry].step if said is None else said)
        return ids


class _Numbers(NamedTuple):
    """The sequence ids of an entry's messages, where these say nothing of themselves.

    A batch says its lowest and its highest. If there are as many between as it has messages, they are one after the
    other; of others nobody knows more than the lowest.
    """

    first: int
    step: int

    @classmethod
    def of(cls, metadata: MessageMetadata, size: int) -> "_Numbers":
        """Read them off what is said of the entry."""
        first = metadata.sequence_id
        return cls(first, int(metadata.highest_sequence_id - first + 1 == size))


def _cast(table: _Table, name: str, kind: pa.DataType) -> Array:
    return table.text(name) if is_text(kind) and name in _MAY_BE_TEXT else table.column(name)


def _runs(objects: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Give the objects, each run of one and the same once; and which of these is at each place."""
    distinct: list[Any] = []
    places: list[int] = []
    last: object = None
    for one in objects:
        if one is not last:
            distinct.append(one)
            last = one
        places.append(len(distinct) - 1)
    return distinct, places


def _repeated(name: str, values: list[Any], places: list[int]) -> Array:
    """Make a column of the values, each where it belongs."""
    column = made(values, _ARROW[_TYPES[name].simpleString()])
    return column if len(values) == len(places) else repeated(column, places)


@lru_cache(maxsize=100_000)
def _place_in_batch(index: int, size: int) -> bytes:
    """Write what the id of a message has behind that of its entry."""
    return MessageIdData(ledgerId=0, entryId=0, batch_index=index, batch_size=size).SerializeToString()[_ENTRY_ZERO:]


_ENTRY_ZERO: Final = len(MessageIdData(ledgerId=0, entryId=0).SerializeToString())
