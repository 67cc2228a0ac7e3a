"""Schemas: what the bytes of messages mean.

    producer = client.create_producer("names", schema=pulsar.schema.StringSchema())

Without one, the content of a message is bytes. The names of the official `pulsar.schema` are here, with its arguments
and its definitions of schemas, and more:

    JsonSchema, AvroSchema      of a Record, a dataclass, a TypedDict, a NamedTuple, a pydantic model, attrs, msgspec
    ProtobufNativeSchema, ProtobufSchema
    KeyValueSchema              a key and a value, in one payload or apart
    BooleanSchema, Int8Schema … DoubleSchema, DateSchema … LocalDateTimeSchema
    AutoConsumeSchema           reads any topic by the schema of each message
    AutoPublishSchema           checks bytes against the schema that a topic has

A schema of your own is a subclass of `Schema`. Each module is loaded when one of its names is first used.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from pulsar_actors.client.schema import BytesSchema, Schema, SchemaInfo, SchemaType, StringSchema

if TYPE_CHECKING:
    from pulsar_actors.schema.automatic import AutoConsumeSchema, AutoPublishSchema, GenericRecord
    from pulsar_actors.schema.definition import (
        Array,
        Boolean,
        Bytes,
        CustomEnum,
        Double,
        Field,
        Float,
        Integer,
        Long,
        Map,
        Null,
        Record,
        String,
    )
    from pulsar_actors.schema.key_value import KeyValueEncodingType, KeyValueSchema
    from pulsar_actors.schema.primitives import (
        BooleanSchema,
        DateSchema,
        DoubleSchema,
        FloatSchema,
        InstantSchema,
        Int8Schema,
        Int16Schema,
        Int32Schema,
        Int64Schema,
        LocalDateSchema,
        LocalDateTimeSchema,
        LocalTimeSchema,
        TimeSchema,
        TimestampSchema,
    )
    from pulsar_actors.schema.schema_avro import AvroSchema
    from pulsar_actors.schema.schema_json import JsonSchema
    from pulsar_actors.schema.schema_protobuf import ProtobufNativeSchema, ProtobufSchema
else:  # with a __getattr__, type checkers would accept every name
    _MODULES = {
        "automatic": ("AutoConsumeSchema", "AutoPublishSchema", "GenericRecord"),
        "definition": (
            *("Record", "Field", "Null", "Boolean", "Integer", "Long", "Float", "Double", "Bytes", "String"),
            *("Array", "Map", "CustomEnum"),
        ),
        "key_value": ("KeyValueEncodingType", "KeyValueSchema"),
        "primitives": (
            *("BooleanSchema", "Int8Schema", "Int16Schema", "Int32Schema", "Int64Schema", "FloatSchema"),
            *("DoubleSchema", "DateSchema", "TimeSchema", "TimestampSchema", "InstantSchema", "LocalDateSchema"),
            *("LocalTimeSchema", "LocalDateTimeSchema"),
        ),
        "schema_avro": ("AvroSchema",),
        "schema_json": ("JsonSchema",),
        "schema_protobuf": ("ProtobufNativeSchema", "ProtobufSchema"),
    }
    _ON_DEMAND = {name: module for module, names in _MODULES.items() for name in names}

    def __getattr__(name: str) -> object:
        """Load a name on its first use."""
        module = _ON_DEMAND.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return getattr(import_module(f"{__name__}.{module}"), name)

    def __dir__() -> list[str]:
        """List all names, loaded or not."""
        return sorted({*globals(), *_ON_DEMAND})


__all__ = [
    "Array",
    "AutoConsumeSchema",
    "AutoPublishSchema",
    "AvroSchema",
    "Boolean",
    "BooleanSchema",
    "Bytes",
    "BytesSchema",
    "CustomEnum",
    "DateSchema",
    "Double",
    "DoubleSchema",
    "Field",
    "Float",
    "FloatSchema",
    "GenericRecord",
    "InstantSchema",
    "Int8Schema",
    "Int16Schema",
    "Int32Schema",
    "Int64Schema",
    "Integer",
    "JsonSchema",
    "KeyValueEncodingType",
    "KeyValueSchema",
    "LocalDateSchema",
    "LocalDateTimeSchema",
    "LocalTimeSchema",
    "Long",
    "Map",
    "Null",
    "ProtobufNativeSchema",
    "ProtobufSchema",
    "Record",
    "Schema",
    "SchemaInfo",
    "SchemaType",
    "String",
    "StringSchema",
    "TimeSchema",
    "TimestampSchema",
]
