"""Rows as records of Avro or JSON: the columns that say nothing about the message itself are the fields.

If the newest schema of the topic has these fields with these types, it is used as it is. Otherwise one is derived from
the columns, in which every field may be null. The driver announces it to the broker before anything is sent, which
refuses one that does not fit the topic's schemas by the rules of the topic.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from pulsar_actors.client.client import Client, context_of
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.client.schema import Schema, SchemaType
from pulsar_actors.exceptions import IncompatibleSchema, InvalidConfiguration, TopicNotFound
from pulsar_actors.spark.arrow import column_of
from pulsar_actors.spark.avro_encoder import encode_columns
from pulsar_actors.spark.avro_types import FieldType, value_type
from pulsar_actors.spark.client_pool import PooledClient, ProducerRecipe, refusal_about
from pulsar_actors.spark.json_encoder import encode_lines
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

    def __init__(self, kind: SchemaType, definition: Mapping[str, Any]) -> None:
        self._kind = kind
        self._definition = definition
        self.schema = WrittenSchema(kind, definition)
        self.fields = {field.name for field in self._fields}

    def payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the payloads of rows."""
        encode = encode_columns if self._kind is SchemaType.AVRO else encode_lines
        return encode(self._fields, [column_of(batch, field.name) for field in self._fields])

    @cached_property
    def _fields(self) -> Sequence[FieldType]:
        return value_type(self._definition).fields

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordEncoder, (self._kind, self._definition)


def record_encoder(
    client: Client, topic: TopicName, fields: Sequence[StructField], kind: SchemaType, access_mode: ProducerAccessMode
) -> RecordEncoder:
    """Return the encoder of rows with these fields. Raise if the topic's schema does not take them.

    The producer that announces the schema waits for its turn, as those of tasks do.
    """
    if not fields:
        raise InvalidConfiguration("the rows have no column that could be a field of a record")
    definition = _definition_for(client, topic, fields, kind)
    encoder = RecordEncoder(kind, definition)
    try:
        recipe = ProducerRecipe({"schema": encoder.schema, "access_mode": access_mode})
        PooledClient(client).producer(str(topic), recipe).close()
    except IncompatibleSchema as refusal:
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
        known = value_type(definition).spark
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
