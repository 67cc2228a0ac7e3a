"""Rows as records of Avro or JSON: the columns that say nothing about the message itself are the fields.

If the newest schema of the topic has these fields with these types, it is used as it is. Otherwise one is derived from
the columns, in which every field may be null. The driver announces it to the broker before anything is sent, which
refuses one that does not fit the topic's schemas by the rules of the topic.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from pulsar_actors.client.client import Client, context_of
from pulsar_actors.client.schema import Schema, SchemaType
from pulsar_actors.exceptions import (
    BrokerRefusal,
    InvalidConfiguration,
    TopicNotFound,
    WrongContent,
)
from pulsar_actors.schema.codec import items_of
from pulsar_actors.schema.schema_avro import AvroSchema
from pulsar_actors.spark.arrow import column_of
from pulsar_actors.spark.avro_types import Convert, avro_value, json_value, same
from pulsar_actors.spark.client_pool import refusal_about
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["FORMATS", "RecordEncoder", "record_encoder"]

FORMATS: Final[Mapping[str, SchemaType]] = {"avro": SchemaType.AVRO, "json": SchemaType.JSON}


class WrittenSchema(Schema):
    """The schema that producers announce. The payloads are encoded before."""

    def __init__(self, kind: SchemaType, definition: Mapping[str, Any]) -> None:
        super().__init__(None, kind, definition, kind.name)

    def encode(self, value: object) -> bytes:
        """Take bytes."""
        assert isinstance(value, bytes)  # noqa: S101 - of `RecordEncoder`
        return value

    def decode(self, data: bytes) -> object:
        """Return bytes."""
        return data


class RecordEncoder:
    """Encodes rows as records. It is pickled for the workers."""

    def __init__(self, fields: Sequence[str], kind: SchemaType, definition: Mapping[str, Any]) -> None:
        self.fields = fields
        self._kind = kind
        self._definition = definition
        self.schema = WrittenSchema(kind, definition)

    def payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the payloads of rows."""
        columns = [column_of(batch, name) for name in self.fields]
        converts = [_with_dicts(column.type) for column in columns]
        values = [
            column.to_pylist() if convert is None else list(map(convert, column.to_pylist()))
            for column, convert in zip(columns, converts, strict=True)
        ]
        encode = self._encoder()
        return [encode(dict(zip(self.fields, row, strict=True))) for row in zip(*values, strict=True)]

    def _encoder(self) -> Callable[[dict[str, Any]], bytes]:
        if self._kind is SchemaType.AVRO:
            return AvroSchema(None, dict(self._definition)).encode
        dump = _json_of(self._definition) or same

        def encode(record: dict[str, Any]) -> bytes:
            return json.dumps(dump(record), separators=(",", ":"), allow_nan=False).encode()

        return encode


def record_encoder(client: Client, topic: TopicName, fields: Sequence[StructField], kind: SchemaType) -> RecordEncoder:
    """Return the encoder of rows with these fields. Raise if the topic's schema does not take them."""
    if not fields:
        raise InvalidConfiguration("the rows have no column that could be a field of a record")
    definition = _definition_for(client, topic, fields, kind)
    encoder = RecordEncoder([field.name for field in fields], kind, definition)
    try:
        client.create_producer(str(topic), schema=encoder.schema).close()
    except BrokerRefusal as refusal:
        raise refusal_about(f"the topic does not take the schema {json.dumps(definition)}", refusal) from refusal
    return encoder


def _definition_for(
    client: Client, topic: TopicName, fields: Sequence[StructField], kind: SchemaType
) -> dict[str, Any]:
    try:
        stored = context_of(client).schemas.latest(str(topic))
    except TopicNotFound:  # also of a topic that has no schema
        return derived_definition("Row", fields)
    if stored.type != kind:
        other = SchemaType(stored.type).name if stored.type in set(SchemaType) else str(stored.type)
        raise InvalidConfiguration(f"{topic} has a schema of type {other}, and valueAs={kind.name.lower()}")
    definition: dict[str, Any] = json.loads(stored.data)
    try:
        known = (avro_value if kind is SchemaType.AVRO else json_value)(definition).spark
    except InvalidConfiguration:  # it has types that Spark does not have
        known = StructType()
    if not isinstance(known, StructType):
        raise InvalidConfiguration(f"the schema of {topic} is no record, but {json.dumps(definition)}")
    if _named_types(known.fields) == _named_types(fields):
        return definition
    named = {key: definition[key] for key in ("namespace",) if key in definition}
    return {**derived_definition(definition["name"], fields), **named}


def _named_types(fields: Sequence[StructField]) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in fields}


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - of times without a zone
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

_SIMPLE: Final[Mapping[str, Any]] = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def derived_definition(name: str, fields: Sequence[StructField]) -> dict[str, Any]:
    """Return the record of some columns, each of which may be null."""
    parts = [
        {"name": one.name, "type": ["null", _type(one.dataType, f"{name}_{one.name}")], "default": None}
        for one in fields
    ]
    return {"type": "record", "name": name, "fields": parts}


def _type(kind: DataType, name: str) -> Any:  # noqa: ANN401 - JSON
    simple = _SIMPLE.get(kind.simpleString())
    if simple is not None:
        return simple
    match kind:
        case DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case ArrayType():
            return {"type": "array", "items": ["null", _type(kind.elementType, f"{name}_item")]}
        case MapType() if kind.keyType.simpleString() == "string":
            return {"type": "map", "values": ["null", _type(kind.valueType, f"{name}_value")]}
        case StructType():
            return derived_definition(name, kind.fields)
        case _:
            raise InvalidConfiguration(f"{kind.simpleString()} has no type in Avro: cast the column that has it")


def _with_dicts(kind: Any) -> Convert | None:  # noqa: ANN401 - a DataType of Arrow's
    """Return the conversion of Python values that Arrow gives: its maps are lists of pairs."""
    if pa.types.is_map(kind):
        return _dict_of(_with_dicts(kind.item_type) or same)
    if pa.types.is_list(kind):
        item = _with_dicts(kind.value_type)
        return None if item is None else _list_of(item)
    if pa.types.is_struct(kind):
        inner = {field.name: convert for field in list[Any](kind) if (convert := _with_dicts(field.type)) is not None}
        return _each_of(inner) if inner else None
    return None


def _dict_of(each: Convert) -> Convert:
    def convert(pairs: list[tuple[str, Any]] | None) -> dict[str, Any] | None:
        return None if pairs is None else {key: each(one) for key, one in pairs}

    return convert


def _list_of(each: Convert) -> Convert:
    def convert(values: list[Any] | None) -> list[Any] | None:
        return None if values is None else [each(one) for one in values]

    return convert


def _each_of(converts: Mapping[str, Convert]) -> Convert:
    def convert(record: dict[str, Any] | None) -> dict[str, Any] | None:
        if record is None:
            return None
        return {name: converts[name](one) if name in converts else one for name, one in record.items()}

    return convert


def _json_of(definition: Any) -> Convert | None:  # noqa: ANN401 - JSON; a line for each type
    """Return the conversion of a value to what `json` writes: numbers for times, texts for bytes and decimals."""
    if isinstance(definition, list):
        (convert,) = [_json_of(one) for one in items_of(definition) if one != "null"] or [None]
        return None if convert is None else _unless_none(convert)
    if definition == "bytes":
        return _base64
    if isinstance(definition, dict):
        kind = cast("dict[str, Any]", definition)
        return _JSON_OF_LOGICAL.get(kind.get("logicalType")) or _json_of_kind(kind)
    return None


def _unless_none(convert: Convert) -> Convert:
    def convert_some(value: Any) -> Any:  # noqa: ANN401 - of the type
        return None if value is None else convert(value)

    return convert_some


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _json_of_kind(definition: Mapping[str, Any]) -> Convert | None:
    match definition["type"]:
        case "record":
            fields = {one["name"]: convert for one in definition["fields"] if (convert := _json_of(one["type"]))}
            return _record_of(fields, [one["name"] for one in definition["fields"] if not _may_be_null(one["type"])])
        case "array":
            item = _json_of(definition["items"])
            return None if item is None else _list_of(item)
        case "map":
            value = _json_of(definition["values"])
            return None if value is None else _in_dict(value)
        case "enum":
            return None
        case "fixed":
            return _base64
        case kind:
            return _json_of(kind)


def _in_dict(each: Convert) -> Convert:
    def convert(pairs: dict[str, Any]) -> dict[str, Any]:
        return {key: each(one) for key, one in pairs.items()}

    return convert


def _record_of(converts: Mapping[str, Convert], required: Sequence[str]) -> Convert:
    each = _each_of(converts)

    def convert(record: dict[str, Any]) -> Any:  # noqa: ANN401 - what `each` returns
        for name in required:
            if record[name] is None:
                raise WrongContent(f"the field {name} is null, and the schema of the topic says that it is not")
        return each(record)

    return convert


def _may_be_null(definition: Any) -> bool:  # noqa: ANN401 - JSON
    return definition == "null" or (isinstance(definition, list) and "null" in definition)


def _microseconds(value: datetime) -> int:
    return (value - (_LOCAL_EPOCH if value.tzinfo is None else _EPOCH)) // timedelta(microseconds=1)


def _milliseconds(value: datetime) -> int:
    return _microseconds(value) // 1000


_JSON_OF_LOGICAL: Final[Mapping[Any, Convert]] = {
    "date": lambda value: value.toordinal() - _EPOCH_DAY,
    "timestamp-micros": _microseconds,
    "timestamp-millis": _milliseconds,
    "local-timestamp-micros": _microseconds,
    "local-timestamp-millis": _milliseconds,
    "decimal": str,
}
