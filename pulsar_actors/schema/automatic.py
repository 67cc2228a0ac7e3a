"""Schemas that a program does not know: consumers and producers of any topic.

`AutoConsumeSchema` decodes each message by the schema of its version. `AutoPublishSchema` takes bytes, and checks that
they fit the schema that the topic has when the producer is created.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, cast

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from pulsar_actors.client.message import Message, written_schema_of
from pulsar_actors.client.schema import (
    BYTES,
    BytesSchema,
    KeyedPayload,
    ReceivedMessage,
    Schema,
    SchemaInfo,
    SchemaType,
)
from pulsar_actors.exceptions import InvalidConfiguration, TopicNotFound, UndecodableMessage, WrongContent
from pulsar_actors.runtime.schema_versions import SchemaVersions, StoredSchema
from pulsar_actors.schema.codec import items_of
from pulsar_actors.schema.key_value import KeyValueEncodingType, KeyValueSchema, halves_of
from pulsar_actors.schema.primitives import PRIMITIVES
from pulsar_actors.schema.record_types import undecodable
from pulsar_actors.wire.PulsarApi_pb2 import Schema as SchemaData

__all__ = ["AutoConsumeSchema", "AutoPublishSchema", "GenericRecord"]


_MOST_SCHEMAS = 10_000
"""To keep in one `AutoConsumeSchema`: beyond it those that came first are dropped."""


class GenericRecord:
    """A decoded message of any schema. Records within it are generic records again.

    A value that is no record, such as text or a number, has no fields: it is the native object.
    """

    __slots__ = ("_native", "_type", "_version")

    def __init__(self, schema_type: SchemaType, version: bytes | None, native: object) -> None:
        self._type = schema_type
        self._version = version
        self._native = native

    def schema_type(self) -> SchemaType:
        """Return the type of the schema that the message was written with; BYTES if there was none."""
        return self._type

    def schema_version(self) -> bytes | None:
        """Return the version of that schema, or None."""
        return self._version

    def fields(self) -> list[str]:
        """Return the names of the fields; of a value that is no record, nothing."""
        native = self._native
        if isinstance(native, dict):
            return list(cast("dict[str, Any]", native))
        descriptor = getattr(native, "DESCRIPTOR", None)
        return [] if descriptor is None else [field.name for field in descriptor.fields]

    def field(self, name: str) -> Any:  # noqa: ANN401 - of any type
        """Return the value of a field, or None if there is no such field."""
        native: Any = self._native
        if isinstance(native, dict):
            return self._generic(cast("dict[str, Any]", native).get(name))
        return self._generic(getattr(native, name)) if name in self.fields() else None

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - of any type
        """Return the value of a field. Raise KeyError if there is no such field."""
        if name not in self.fields():
            raise KeyError(name)
        return self.field(name)

    def native_object(self) -> Any:  # noqa: ANN401 - of any type
        """Return the value itself: a dict, a protobuf message, a tuple of key and value, or a primitive value."""
        return self._native

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GenericRecord):
            return NotImplemented
        return (self._type, self._native) == (other._type, other._native)

    __hash__ = None  # type: ignore[assignment] # its fields may change

    def __repr__(self) -> str:
        return f"GenericRecord({self._type.name}, {self._native!r})"

    def _generic(self, value: object) -> object:
        if isinstance(value, list):
            return [self._generic(one) for one in cast("list[object]", value)]
        if isinstance(value, dict) or hasattr(value, "DESCRIPTOR"):
            return GenericRecord(self._type, self._version, cast("Any", value))
        return value


class AutoConsumeSchema(Schema):
    """Decodes each message by the schema that it was written with, as a `GenericRecord`. For consumers and readers.

    A message without a schema version is bytes.
    """

    needs_writer = True
    _schema_info = SchemaInfo(SchemaType.AUTO_CONSUME, "AutoConsume")

    def __init__(self) -> None:
        self._schemas: dict[
            int, tuple[StoredSchema, Schema]
        ] = {}  # by the identity of the first, which is kept with it

    def encode(self, value: object) -> bytes:
        """Refuse: there is no schema to encode by."""
        raise WrongContent(f"{self!r} is for consumers and readers, and encodes nothing; got {type(value).__name__}")

    def decode(self, data: bytes) -> object:
        """Return the bytes as a generic record: a payload alone has no schema."""
        return GenericRecord(SchemaType.BYTES, None, data)

    def decode_message(self, message: ReceivedMessage) -> object:
        """Decode the value of a message; None for a null value."""
        stored = written_schema_of(message) if isinstance(message, Message) else None
        if stored is None:
            return None if message.has_null_value() else self.decode(message.data())
        known = self._schemas.get(id(stored))
        if known is None:
            known = self._schemas[id(stored)] = stored, schema_of(stored)
            while len(self._schemas) > _MOST_SCHEMAS:
                self._schemas.pop(next(iter(self._schemas)), None)
        value = known[1].decode_message(message)
        return None if value is None else GenericRecord(SchemaType(stored.type), stored.version, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return AutoConsumeSchema, ()


class AutoPublishSchema(Schema):
    """Takes bytes that fit the topic's schema, which is asked for when a producer is created. For producers.

    On a topic without a schema any bytes will do. On one of keys and values that are SEPARATED, bytes are the value and
    `partition_key` is the key; a tuple of bytes is the key and the value.
    """

    _schema_info = SchemaInfo(SchemaType.AUTO_PUBLISH, "AutoPublish")

    def __init__(self) -> None:
        self._of_topic: Schema = BYTES

    def for_topic(self, topic: str, schemas: SchemaVersions) -> Schema:
        """Make the schema of one topic."""
        try:
            stored = schemas.latest(topic)
        except TopicNotFound:  # also of a topic that exists, but has no schema
            return BYTES
        bound = type(self)()
        bound._of_topic = schema_of(stored)  # noqa: SLF001 - of the same class
        bound._schema_info = SchemaInfo(  # noqa: SLF001 - the same
            SchemaType(stored.type), topic.rpartition("/")[2], stored.data, stored.properties
        )
        return bound

    def encode(self, value: object) -> bytes:
        """Take bytes, and check that the topic's schema can decode them."""
        data = BYTES.encode(value)
        try:
            self._of_topic.decode(data)
        except ValueError as fault:
            raise WrongContent(f"these bytes do not fit the schema of the topic: {fault}") from fault
        return data

    def encode_message(self, value: object) -> bytes | KeyedPayload:
        """Take bytes; or a key and a value, where the topic has them apart."""
        schema = self._of_topic
        if not (isinstance(schema, KeyValueSchema) and schema.is_separated) or not isinstance(value, tuple):
            return self.encode(value)
        halves = [None if half is None else BYTES.encode(half) for half in items_of(cast("Any", value))]
        if len(halves) != 2:  # noqa: PLR2004 - the key and the value
            raise WrongContent(f"{self!r} takes bytes, or a tuple of a key and a value")
        key, own = halves
        try:
            schema.decode_halves(key, own)
        except ValueError as fault:
            raise WrongContent(f"these bytes do not fit the schema of the topic: {fault}") from fault
        return KeyedPayload(own, None if key is None else b64encode(key).decode())

    def decode(self, data: bytes) -> object:
        """Return the bytes."""
        return data


def schema_of(stored: StoredSchema) -> Schema:
    """Make the schema of a definition. Raise UndecodableMessage if there is none for it."""
    primitive, structured = PRIMITIVES.get(stored.type), _STRUCTURED.get(stored.type)
    if primitive is not None:
        return primitive()
    if stored.type == SchemaData.External:
        raise UndecodableMessage("the schema of the topic is EXTERNAL: only the service that keeps it can decode this")
    if structured is None:
        raise UndecodableMessage(f"schemas of the type {stored.type} are not known")
    try:
        return structured(stored)
    except (InvalidConfiguration, UndecodableMessage):
        raise
    except Exception as fault:  # any producer may have written the definition
        version = int.from_bytes(stored.version, "big")
        raise UndecodableMessage(f"version {version} of the topic's schema is damaged: {fault}") from fault


class _AnyJson(Schema):
    """JSON of any shape."""

    def __repr__(self) -> str:
        return "the JSON schema of the topic"

    def encode(self, value: object) -> bytes:
        return json.dumps(value).encode()

    def decode(self, data: bytes) -> object:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as fault:
            raise undecodable(self, fault) from fault


class _AnyProtobuf(Schema):
    """Protobuf, of the message class that the descriptors in a definition describe."""

    def __init__(self, stored: StoredSchema) -> None:
        definition = json.loads(stored.data)
        files = FileDescriptorSet.FromString(b64decode(definition["fileDescriptorSet"]))
        pool = DescriptorPool()
        for file in files.file:
            pool.Add(file)
        root = pool.FindMessageTypeByName(definition["rootMessageTypeName"])
        self._message_class: Any = GetMessageClass(root)

    def __repr__(self) -> str:
        return "the protobuf schema of the topic"

    def encode(self, value: object) -> bytes:
        return bytes(cast("Any", value).SerializeToString())

    def decode(self, data: bytes) -> object:
        try:
            return self._message_class.FromString(data)
        except DecodeError as fault:
            raise undecodable(self, fault) from fault


def _avro(stored: StoredSchema) -> Schema:
    from pulsar_actors.schema.schema_avro import AvroSchema  # noqa: PLC0415 - it needs fastavro

    return AvroSchema(None, json.loads(stored.data))


def _key_value(stored: StoredSchema) -> Schema:
    key, value = halves_of(stored)
    encoding = KeyValueEncodingType[stored.properties.get("kv.encoding.type", "INLINE")]
    return KeyValueSchema(schema_of(key), schema_of(value), encoding)


_STRUCTURED: dict[int, Callable[[StoredSchema], Schema]] = {
    SchemaType.JSON: lambda _: _AnyJson(),
    SchemaType.AVRO: _avro,
    SchemaType.PROTOBUF: lambda _: BytesSchema(),
    SchemaType.PROTOBUF_NATIVE: _AnyProtobuf,
    SchemaType.KEY_VALUE: _key_value,
}
"""The constructor of each other schema. The definition of PROTOBUF has no descriptors, so its payload is bytes."""
