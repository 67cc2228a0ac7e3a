"""Schemas: a schema encodes a program's values as the bytes of messages, and decodes them again.

A topic may have a schema, which its brokers require from producers and consumers. `BytesSchema` is never announced to
brokers. This module has what every client needs; `pulsar_actors.schema` has the schemas themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum, IntEnum
from typing import Final, Protocol, cast

from pulsar_actors.exceptions import (
    AuthorizationError,
    InvalidMessage,
    OperationNotSupported,
    TopicNotFound,
    WrongContent,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.schema_versions import SchemaVersions, StoredSchema
from pulsar_actors.wire.PulsarApi_pb2 import KeyValue
from pulsar_actors.wire.PulsarApi_pb2 import Schema as SchemaData

__all__ = [
    "BYTES",
    "BytesSchema",
    "KeyedPayload",
    "ReceivedMessage",
    "Schema",
    "SchemaInfo",
    "SchemaType",
    "StringSchema",
    "as_stored",
]


class SchemaType(IntEnum):
    """The types of schemas, with the names and the numbers of the official client and of Java.

    Those below 0 exist only in clients: brokers never see them.
    """

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    BYTES = -1
    AUTO_CONSUME = -3
    AUTO_PUBLISH = -4

    __str__ = Enum.__str__  # as in the official client, in every version of Python


NO_PROPERTIES: Final[Mapping[str, str]] = {}


class SchemaInfo:
    """The definition of a schema: its type, its name, its text and its properties, as the registry keeps them."""

    __slots__ = ("_data", "_name", "_properties", "_type")

    def __init__(
        self,
        schema_type: SchemaType,
        name: str,
        schema: str | bytes = b"",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
        self._type = schema_type
        self._name = name
        self._data = schema.encode() if isinstance(schema, str) else schema
        self._properties = dict(properties)

    def schema_type(self) -> SchemaType:
        """Return the type."""
        return self._type

    def name(self) -> str:
        """Return the name."""
        return self._name

    def schema(self) -> str:
        """Return the definition as text: JSON, or nothing. That of a key and a value has two, each after its length."""
        return self._data.decode(errors="replace")

    def data(self) -> bytes:
        """Return the definition as brokers keep it."""
        return self._data

    def properties(self) -> dict[str, str]:
        """Return the properties, by name."""
        return dict(self._properties)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SchemaInfo):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts()[:3])

    def __repr__(self) -> str:
        return f"SchemaInfo({self._type.name}, {self._name!r}, {self.schema()!r}, {self._properties})"

    def _facts(self) -> tuple[object, ...]:
        return self._type, self._name, self._data, self._properties


class ReceivedMessage(Protocol):
    """The part of a message that a schema uses."""

    def data(self) -> bytes:
        """Return the payload."""
        ...

    def has_null_value(self) -> bool:
        """Return whether the content was None."""
        ...


class KeyedPayload(NamedTuple):
    """A payload whose schema also gives the message its key, in base 64; None is a null key or a null value."""

    payload: bytes | None
    key: str | None


class Schema(ABC):
    """The base of all schemas, and of your own: a subclass has `encode` and `decode`.

    Its constructor takes what is announced to brokers; without it, or with the type BYTES, nothing is.
    """

    needs_writer: bool = False
    """True if a payload is decoded with the schema that it was written with."""

    _record_cls: type | None = None
    _schema_info = SchemaInfo(SchemaType.BYTES, "BYTES")

    def __init__(
        self,
        record_cls: type | None = None,
        schema_type: SchemaType = SchemaType.BYTES,
        schema_definition: object = None,
        schema_name: str = "BYTES",
    ) -> None:
        import json  # noqa: PLC0415 - few programs have a schema

        text = "" if schema_definition is None else json.dumps(schema_definition, indent=1)
        self._record_cls = record_cls
        self._schema_info = SchemaInfo(schema_type, schema_name, text)

    @abstractmethod
    def encode(self, value: object) -> bytes:
        """Encode a value as a payload. Raise InvalidMessage for a value that does not fit."""

    @abstractmethod
    def decode(self, data: bytes) -> object:
        """Decode a payload to the value that a program receives."""

    def decode_message(self, message: ReceivedMessage) -> object:
        """Decode the value of a message; None for a null value."""
        data = message.data()
        return self.decode(data) if data or not message.has_null_value() else None

    def decode_written(self, data: bytes, stored: StoredSchema) -> object:  # noqa: ARG002 - few schemas need it
        """Decode a payload, with the schema that it was written with."""
        return self.decode(data)

    def encode_message(self, value: object) -> bytes | KeyedPayload:
        """Encode the value of a message that is sent."""
        return self.encode(value)

    def for_topic(self, topic: str, schemas: SchemaVersions) -> "Schema":  # noqa: ARG002 - few schemas look
        """Return the schema for a new producer of a topic. Most are the same for all topics."""
        return self

    def schema_info(self) -> SchemaInfo:
        """Return the definition that the registry of brokers gets."""
        return self._schema_info

    def attach_client(self, client: object) -> None:  # noqa: B027 - not for subclasses
        """Do nothing. The official client needs this for the versions of schemas; here a message knows its client."""

    def announced(self) -> SchemaData | None:
        """Return the schema that is announced to brokers, or None."""
        info = self.schema_info()
        kind = info.schema_type()
        if kind <= SchemaType.NONE:
            return None
        return SchemaData(
            name=info.name(),
            schema_data=info.data(),
            type=cast("SchemaData.Type.ValueType", int(kind)),
            properties=[KeyValue(key=key, value=value) for key, value in info.properties().items()],
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __str__(self) -> str:
        """Return what the official client prints."""
        return type(self).__name__


def as_stored(
    schema: Schema, topic: str, schemas: SchemaVersions, means_the_same: Callable[[StoredSchema], bool]
) -> Schema:
    """Return a schema with the definition that the topic has, if both mean the same.

    Brokers compare some definitions by their bytes, and clients write them differently. So a producer announces the
    bytes that are there, and the registry has one version.
    """
    try:
        stored = schemas.latest(topic)
    except (TopicNotFound, AuthorizationError, OperationNotSupported):  # the first also of a topic without a schema
        return schema
    own = schema.schema_info()
    if stored.type != own.schema_type() or stored.data == own.data() or not means_the_same(stored):
        return schema
    twin = copy(schema)
    twin._schema_info = SchemaInfo(  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        own.schema_type(), own.name(), stored.data, stored.properties
    )
    return twin


class BytesSchema(Schema):
    """Bytes without a conversion, the default schema."""

    def __init__(self) -> None:
        """Keep the class's own definition: nothing is announced."""

    def encode(self, value: object) -> bytes:
        """Take bytes, or another bytes-like object."""
        if isinstance(value, bytes):
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(cast("bytearray", value))
        hint = "; encode it, or use StringSchema()" if isinstance(value, str) else ""
        raise WrongContent(f"the content of a message is bytes, not {type(value).__name__}{hint}")

    def decode(self, data: bytes) -> bytes:
        """Return the bytes."""
        return data

    def decode_message(self, message: ReceivedMessage) -> object:
        """Return the payload; of a null value it is empty."""
        data = message.data()
        return data if type(self) is BytesSchema else self.decode(data)  # saves a call


class StringSchema(Schema):
    """Text, as UTF-8.

    Its definition is empty, as Java's and Go's is. The official Python client sends the text `null`: on a topic that
    has this definition, a producer sends it, too.
    """

    _schema_info = SchemaInfo(SchemaType.STRING, "STRING")

    def __init__(self) -> None:
        """Keep the class's own definition."""

    def encode(self, value: object) -> bytes:
        """Encode a str as UTF-8."""
        if not isinstance(value, str):
            raise WrongContent(f"StringSchema takes a str, not {type(value).__name__}")
        try:
            return value.encode()
        except UnicodeEncodeError as fault:
            raise InvalidMessage(f"StringSchema takes Unicode text: {fault.reason}") from fault

    def for_topic(self, topic: str, schemas: SchemaVersions) -> Schema:
        """Return this schema with the definition that the topic has."""
        return as_stored(self, topic, schemas, lambda stored: stored.data in {b"", b"null"})

    def decode(self, data: bytes) -> str:
        """Return the text. Invalid bytes raise Python's own UnicodeDecodeError, as in the official client."""
        return data.decode()

    def decode_message(self, message: ReceivedMessage) -> object:
        """Return the text; of a null value it is empty, as in the official client."""
        data = message.data()
        return data.decode() if type(self) is StringSchema else self.decode(data)  # saves a call


BYTES = BytesSchema()
"""The default of every `schema` argument."""
