"""Schemas: a schema encodes a program's values as the bytes of messages, and decodes them again.

A topic may have a schema, which its brokers require from producers and consumers. `BytesSchema` is never announced to
brokers, `StringSchema` is. Other schemas are subclasses of `Schema`.
"""

from abc import ABC, abstractmethod
from typing import cast

from pulsar_actors.exceptions import InvalidMessage, WrongContent
from pulsar_actors.wire.PulsarApi_pb2 import Schema as SchemaData

__all__ = ["BYTES", "BytesSchema", "Schema", "StringSchema"]


class Schema(ABC):
    """The base of all schemas."""

    @abstractmethod
    def encode(self, value: object) -> bytes:
        """Encode a value as a payload. Raise InvalidMessage for a value that does not fit."""

    @abstractmethod
    def decode(self, data: bytes) -> object:
        """Decode a payload to the value that a program receives."""

    def announced(self) -> SchemaData | None:
        """Return the schema that is announced to brokers, or None."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BytesSchema(Schema):
    """Bytes without a conversion, the default schema."""

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


class StringSchema(Schema):
    """Text, as UTF-8."""

    def encode(self, value: object) -> bytes:
        """Encode a str as UTF-8."""
        if not isinstance(value, str):
            raise WrongContent(f"StringSchema takes a str, not {type(value).__name__}")
        try:
            return value.encode()
        except UnicodeEncodeError as fault:
            raise InvalidMessage(f"StringSchema takes Unicode text: {fault.reason}") from fault

    def decode(self, data: bytes) -> str:
        """Return the text. Invalid bytes raise Python's own UnicodeDecodeError, as in the official client."""
        return data.decode()

    def announced(self) -> SchemaData:
        """Announce the schema under the name and the number that other clients use."""
        return SchemaData(name="STRING", schema_data=b"", type=SchemaData.String)


BYTES = BytesSchema()
"""The default of every `schema` argument."""
