"""What a message's bytes mean: a schema turns values into bytes on their way out, and back on their way in.

A topic may have a schema that its brokers hold producers and consumers to. Bytes are not one, and are never announced;
text is. A schema of another kind is a subclass of `Schema`.
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
        """Turn what a program sends into a payload; InvalidMessage refuses what does not fit."""

    @abstractmethod
    def decode(self, data: bytes) -> object:
        """Turn a payload into what a program receives."""

    def announced(self) -> SchemaData | None:
        """Give what the broker is told about it, if anything is."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BytesSchema(Schema):
    """Bytes as they are: what applies where no schema is given."""

    def encode(self, value: object) -> bytes:
        """Take bytes, or what can be seen as such."""
        if isinstance(value, bytes):
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(cast("bytearray", value))
        hint = "; encode it, or use StringSchema()" if isinstance(value, str) else ""
        raise WrongContent(f"the content of a message is bytes, not {type(value).__name__}{hint}")

    def decode(self, data: bytes) -> bytes:
        """Give the bytes themselves."""
        return data


class StringSchema(Schema):
    """Text, as UTF-8."""

    def encode(self, value: object) -> bytes:
        """Take a str."""
        if not isinstance(value, str):
            raise WrongContent(f"StringSchema takes a str, not {type(value).__name__}")
        try:
            return value.encode()
        except UnicodeEncodeError as fault:
            raise InvalidMessage(f"StringSchema takes Unicode text: {fault.reason}") from fault

    def decode(self, data: bytes) -> str:
        """Give the text; bytes that are none raise Python's own UnicodeDecodeError, as in the official client."""
        return data.decode()

    def announced(self) -> SchemaData:
        """Announce it under the name and the number that other clients use."""
        return SchemaData(name="STRING", schema_data=b"", type=SchemaData.String)


BYTES = BytesSchema()
"""The default of every `schema` argument."""
