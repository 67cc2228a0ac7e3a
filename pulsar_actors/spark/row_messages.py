"""The conversion of rows to messages: payloads, and encoded metadata.

`RowConverter` converts record batches for the writers; the functions below it convert the rows of a sink. A key is
text, as in all clients. Bytes that are not UTF-8 are encoded in base 64, as in the Java client.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pulsar_actors.client.message_builder import MAX_INT64
from pulsar_actors.client.validation import optional, whole_number
from pulsar_actors.exceptions import InvalidConfiguration, InvalidMessage, WrongContent
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.send_queue import MessageHeader, UnbatchableOptions, new_message_header
from pulsar_actors.spark.arrow import Array, bytes_of, column_of, values_of
from pulsar_actors.spark.typed_rows import RecordEncoder
from pulsar_actors.wire.fast_encode import encode_single_message

__all__ = [
    "LATEST_MS",
    "NO_FIELDS",
    "MessageFields",
    "RowConverter",
    "encode_row_metadata",
    "payloads_of",
    "record_fields",
]


class MessageFields(NamedTuple):
    """The fields of a row's message besides the payload. Times are in milliseconds since 1970."""

    key: str | bytes | None = None
    properties: Mapping[str, str] | None = None
    ordering_key: str | bytes | None = None
    event_time: int | None = None
    deliver_at: int | None = None
    sequence_id: int | None = None


NO_FIELDS = MessageFields()
LATEST_MS: Final = (2**63 - 1) // 1000
"""The latest time that fits into a timestamp of Spark, which is in microseconds."""

_BYTES: Final = ("string", "binary")
_TIMES: Final = ("timestamp", "bigint")

_COLUMN_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "value": _BYTES,
    "__key": _BYTES,
    "__topic": ("string",),
    "__orderingKey": _BYTES,
    "__eventTime": _TIMES,
    "__deliverAt": _TIMES,
    "__messageProperties": ("map<string,string>",),
}
"""The types that a column may have, by Spark's names of types, which do not depend on whether nulls are allowed."""
_READ_ONLY_COLUMNS: Final = {"__messageId", "__publishTime", "__sequenceId", "__producerName", "__redeliveryCount"}
"""Columns of messages that were read, which the broker sets; a writer ignores them."""

_FIELD_OF_COLUMN: Final[Mapping[str, str]] = {
    "__key": "key",
    "__orderingKey": "ordering_key",
    "__eventTime": "event_time",
    "__deliverAt": "deliver_at",
    "__messageProperties": "properties",
}


class RowConverter:
    """Converts the rows of one query; `topic` is the topic of all rows, None if the rows have a column for it.

    With a `record`, its fields are no columns of messages, and there is no column `value` but one of its fields.
    """

    def __init__(
        self, schema: StructType, topic: str | None, sequence_column: str | None, record: RecordEncoder | None = None
    ) -> None:
        names = schema.fieldNames()
        self._record = record
        in_record: set[str] = set() if record is None else record.fields
        self._sequence_column = sequence_column
        if sequence_column is not None:
            _check_sequence(schema, sequence_column)
        if record is None and "value" not in names:
            hint = "rename the column, or make one of several: to_json(struct('*')).alias('value')"
            raise InvalidConfiguration(f"the rows to write have no column value, but {', '.join(names)}: {hint}")
        for field in schema.fields:
            if field.name == sequence_column or field.name in in_record:
                continue
            takes = _COLUMN_TYPES.get(field.name)
            if takes is None and field.name not in _READ_ONLY_COLUMNS:
                raise InvalidConfiguration(
                    f"a message has no place for the column {field.name}: {_unknown_column_hint(field.name)}. "
                    f"The columns are {', '.join(_COLUMN_TYPES)}"
                )
            if takes is not None and field.dataType.simpleString() not in takes:
                what = f"is of type {' or '.join(takes)}, not {field.dataType.simpleString()}"
                raise InvalidConfiguration(f"{field.name} {what}")
        if topic is None and "__topic" not in names:
            raise InvalidConfiguration("where to? Give the option topic, or a column __topic")
        self._topic = topic
        self._field_of_column = {name: field for name, field in _FIELD_OF_COLUMN.items() if name in names}
        if sequence_column is not None:
            self._field_of_column[sequence_column] = "sequence_id"

    def messages(self, batch: pa.RecordBatch) -> tuple[list[bytes], list[MessageHeader | None]]:
        """Return the payloads of rows, and the metadata of each."""
        payloads = self._payloads(batch)
        all_columns: dict[str, Array] = {name: column_of(batch, name) for name in self._field_of_column}
        columns = {name: column for name, column in all_columns.items() if column.null_count < batch.num_rows}
        if not columns and None not in payloads:
            return cast("list[bytes]", payloads), [None] * len(payloads)
        fields = [NO_FIELDS] * len(payloads)
        if columns:
            names = [self._field_of_column[name] for name in columns]
            rows = zip(*(values_of(column) for column in columns.values()), strict=True)
            fields = [MessageFields(**dict(zip(names, row, strict=True))) for row in rows]
        metadata: list[MessageHeader | None] = [
            encode_row_metadata(len(payload or b""), one, is_null=payload is None)
            for payload, one in zip(payloads, fields, strict=True)
        ]
        return [payload or b"" for payload in payloads], metadata

    def _payloads(self, batch: pa.RecordBatch) -> Sequence[bytes | None]:
        return bytes_of(column_of(batch, "value")) if self._record is None else self._record.payloads(batch)

    def sequence(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the numbers of the rows in the sequence column, if there is one."""
        return [] if self._sequence_column is None else values_of(column_of(batch, self._sequence_column))

    def topics(self, batch: pa.RecordBatch) -> Sequence[str] | None:
        """Return the topic of each row; None, if all rows have the same."""
        if self._topic is not None:
            return None
        topics = values_of(column_of(batch, "__topic"))
        if None in topics:
            raise InvalidMessage("a row has no __topic, and there is no option topic for those")
        return topics


def record_fields(schema: StructType) -> list[StructField]:
    """Return the columns that are fields, if rows are written as records: all but those with two underscores.

    These say something of the message itself, and `RowConverter` refuses those that it does not know.
    """
    return [field for field in schema.fields if not field.name.startswith("__")]


def _unknown_column_hint(name: str) -> str:
    near = get_close_matches(f"__{name.lstrip('_')}", _COLUMN_TYPES, 1)
    rather = f"{near[0]} is one, if that is meant; or else " if near else ""
    return f"{rather}put it into value, with to_json(), or write records, with valueAs=avro"


def _check_sequence(schema: StructType, name: str) -> None:
    if name in _COLUMN_TYPES:
        raise InvalidConfiguration(f"sequenceColumn names {name}, which says something of the message itself: copy it")
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if name not in kinds:
        raise InvalidConfiguration(f"sequenceColumn names {name}, and the rows have no such column")
    if kinds[name] not in {"int", "bigint"}:
        raise InvalidConfiguration(f"{name} is to have whole numbers, not {kinds[name]}")


_TIME: Final = optional(whole_number(0, LATEST_MS, "milliseconds since 1970"))
_WHOLE_NUMBERS: Final = (
    ("event_time", _TIME),
    ("deliver_at", _TIME),
    ("sequence_id", optional(whole_number(0, MAX_INT64))),
)
_NUMBERS: Final = slice(-len(_WHOLE_NUMBERS), None)
_NO_NUMBERS_GIVEN: Final = NO_FIELDS[_NUMBERS]


def payloads_of(contents: Sequence[object]) -> list[bytes]:
    """Return the payloads of messages' contents; None has an empty one."""
    kinds = set(map(type, contents))
    with suppress(UnicodeEncodeError):
        if kinds == {str}:
            return list(map(str.encode, cast("Sequence[str]", contents)))
    return [_payload(one) for one in contents]


def _payload(content: object) -> bytes:
    if type(content) is bytes:
        return content
    if content is None:
        return b""
    if isinstance(content, str):
        return _utf8("the value of a message", content)
    if isinstance(content, (bytearray, memoryview)):
        return bytes(cast("bytes", content))
    hint = "cast it, or write it as JSON: to_json() of a column, json.dumps() in a function"
    raise WrongContent(f"the value of a message is bytes or text, not {type(content).__name__}: {hint}")


def encode_row_metadata(size: int, fields: MessageFields, *, is_null: bool = False) -> MessageHeader | None:
    """Encode the metadata of a message with a payload of `size` bytes; return None if there is none."""
    if fields == NO_FIELDS and not is_null:
        return None
    if fields[_NUMBERS] != _NO_NUMBERS_GIVEN:  # most rows have no numbers
        for name, check in _WHOLE_NUMBERS:
            check(name, getattr(fields, name))
    key, is_base64 = _key(fields.key)
    ordering_key = None if fields.ordering_key is None else _bytes("an ordering key", fields.ordering_key)
    try:
        metadata = encode_single_message(
            size,
            _checked_properties(fields.properties),
            key,
            ordering_key,
            fields.sequence_id,
            fields.event_time,
            null_value=is_null,
            key_is_base64=is_base64,
        )
    except UnicodeEncodeError as fault:
        raise InvalidMessage(f"a key or a property is no text that UTF-8 can write: {fault.reason}") from None
    alone = None if fields.deliver_at is None else UnbatchableOptions(fields.deliver_at)
    return new_message_header((metadata, key, ordering_key, fields.sequence_id, alone, None, None, None))


def _key(key: object) -> tuple[str | None, bool]:
    """Return a key as text, and whether it is in base 64. An empty key counts as no key, as in all clients."""
    if isinstance(key, str) or key is None:
        return key or None, False
    data = _bytes("a key", key)
    try:
        return data.decode() or None, False
    except UnicodeDecodeError:
        return b64encode(data).decode(), True


def _bytes(what: str, value: object) -> bytes:
    if isinstance(value, str):
        return _utf8(what, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", value))
    raise InvalidMessage(f"{what} is text or bytes, not {type(value).__name__}")


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise InvalidMessage(f"{what} is no text that UTF-8 can write: {fault.reason}") from None


def _checked_properties(pairs: object) -> dict[str, str] | None:
    if pairs is None:
        return None
    if not isinstance(pairs, Mapping):
        raise InvalidMessage(f"properties are a map of text to text, not {type(pairs).__name__}")
    given = dict(cast("Mapping[object, object]", pairs))
    for name, text in given.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidMessage(f"properties are text by name, and {name!r} has {type(text).__name__}")
    return cast("dict[str, str]", given)
