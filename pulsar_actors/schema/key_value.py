"""The schema of a key and a value, each with a schema of its own.

With INLINE, the payload has both, each after its length. With SEPARATED, the key is the message's key, in base 64, and
the payload is the value. So only SEPARATED keys choose the partition and the consumer of a KeyShared subscription, and
count for compaction.

One version of the schema covers both halves: so each half is decoded with its half of the writer's definition.
"""

import json
import struct
from base64 import b64encode
from enum import IntEnum
from typing import Any, cast

from pulsar_actors.client.message import Message, key_of, written_schema_of
from pulsar_actors.client.schema import (
    KeyedPayload,
    ReceivedMessage,
    Schema,
    SchemaInfo,
    SchemaType,
)
from pulsar_actors.client.validation import instance_of
from pulsar_actors.exceptions import UndecodableMessage, WrongContent
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.schema.codec import items_of

__all__ = ["KeyValueEncodingType", "KeyValueSchema", "halves_of", "inline", "split_inline"]

_SIZE = struct.Struct(">i")
_TOO_LONG = 1 << 31
_PAIR = 2


class KeyValueEncodingType(IntEnum):
    """The position of the key: in the payload, or in the metadata of the message."""

    SEPARATED = 0
    INLINE = 1


_schema = instance_of(Schema)
_encoding = instance_of(KeyValueEncodingType)


class KeyValueSchema(Schema):
    """A tuple of a key and a value. None is a null key or a null value.

    With SEPARATED, the key is the message's own: `partition_key` of `send` cannot be given as well.
    """

    def __init__(
        self,
        key_schema: Schema,
        value_schema: Schema,
        encoding: KeyValueEncodingType = KeyValueEncodingType.INLINE,
    ) -> None:
        _schema("key_schema", key_schema)
        _schema("value_schema", value_schema)
        _encoding("encoding", encoding)
        self._key, self._value, self._encoding = key_schema, value_schema, encoding
        self.needs_writer = key_schema.needs_writer or value_schema.needs_writer
        key, value = key_schema.schema_info(), value_schema.schema_info()
        properties = {
            **_properties("key", key),
            **_properties("value", value),
            "kv.encoding.type": encoding.name,
        }
        self._schema_info = SchemaInfo(
            SchemaType.KEY_VALUE, "KeyValue", inline(_compact(key), _compact(value)), properties
        )

    def encode(self, value: object) -> bytes:
        """Encode a pair as an INLINE payload; with SEPARATED, encode only the value."""
        key, own = self._encoded(value)
        return inline(key, own) if self._encoding is KeyValueEncodingType.INLINE else own or b""

    def encode_message(self, value: object) -> bytes | KeyedPayload:
        """Encode a pair for a message."""
        key, own = self._encoded(value)
        if self._encoding is KeyValueEncodingType.INLINE:
            return inline(key, own)
        return KeyedPayload(own, None if key is None else b64encode(key).decode())

    def decode(self, data: bytes) -> object:
        """Decode an INLINE payload. With SEPARATED, a payload alone has no key, so only `decode_message` has it."""
        if self._encoding is KeyValueEncodingType.SEPARATED:
            return None, self._value.decode(data)
        return self.decode_halves(*self._split(data))

    def decode_message(self, message: ReceivedMessage) -> object:
        """Decode the pair of a message, each half with its half of the writer's schema."""
        data, is_null = message.data(), message.has_null_value()
        if not isinstance(message, Message):
            return self.decode(data) if data or not is_null else None
        if self._encoding is KeyValueEncodingType.SEPARATED:
            key, value = self._key_of(message), None if is_null else data
        elif is_null:
            return None
        else:
            key, value = self._split(data)
        stored = written_schema_of(message) if self.needs_writer else None
        if stored is None:
            return self.decode_halves(key, value)
        if stored.type != SchemaType.KEY_VALUE:
            raise UndecodableMessage(f"{self!r} cannot decode a message of another type of schema")
        key_half, value_half = halves_of(stored)
        return _decoded(self._key, key, key_half), _decoded(self._value, value, value_half)

    def decode_halves(self, key: bytes | None, value: bytes | None) -> tuple[object, object]:
        """Decode a key and a value that are apart."""
        return _decoded(self._key, key), _decoded(self._value, value)

    @property
    def is_separated(self) -> bool:
        """Return whether the key is the message's key."""
        return self._encoding is KeyValueEncodingType.SEPARATED

    def _key_of(self, message: Message) -> bytes | None:
        try:
            return key_of(message)
        except ValueError as fault:
            raise UndecodableMessage(f"{self!r} cannot decode this key: {fault}") from fault

    def _split(self, data: bytes) -> tuple[bytes | None, bytes | None]:
        try:
            return split_inline(data)
        except ValueError as fault:
            raise UndecodableMessage(f"{self!r} cannot decode this payload: {fault}") from fault

    def _encoded(self, value: object) -> tuple[bytes | None, bytes | None]:
        if not isinstance(value, tuple) or len(items_of(value)) != _PAIR:
            raise WrongContent(f"{self!r} takes a tuple of a key and a value")
        key, own = cast("tuple[object, object]", value)
        return None if key is None else self._key.encode(key), None if own is None else self._value.encode(own)

    def __repr__(self) -> str:
        return f"KeyValueSchema({self._key!r}, {self._value!r}, {self._encoding.name})"


def _decoded(schema: Schema, data: bytes | None, stored: StoredSchema | None = None) -> object:
    if data is None:
        return None
    return schema.decode(data) if stored is None else schema.decode_written(data, stored)


def _properties(half: str, info: SchemaInfo) -> dict[str, str]:
    return {
        f"{half}.schema.name": info.name(),
        f"{half}.schema.type": info.schema_type().name,
        f"{half}.schema.properties": json.dumps(info.properties(), separators=(",", ":")),
    }


def _compact(info: SchemaInfo) -> bytes:
    """Write a definition as Java does, because brokers compare those of a pair by their bytes.

    It has no spaces, a field's default stands last, and a type in the namespace of the type around it does not repeat
    that.
    """
    data = info.data()
    if not data:
        return data
    return json.dumps(_as_in_java(json.loads(data), None), separators=(",", ":"), ensure_ascii=False).encode()


def _as_in_java(schema: Any, namespace: str | None) -> Any:  # noqa: ANN401 - JSON
    if isinstance(schema, list):
        return [_as_in_java(one, namespace) for one in items_of(schema)]
    if not isinstance(schema, dict):
        return schema
    inner = cast("dict[str, Any]", schema)
    own = inner.get("namespace", namespace)
    nested = ("type", "items", "values", "fields")
    return {
        key: _as_in_java(inner[key], own) if key in nested else inner[key]
        for key in sorted(inner, key=lambda key: key == "default")
        if not (key == "namespace" and inner[key] == namespace)
    }


def inline(key: bytes | None, value: bytes | None) -> bytes:
    """Join two halves, each after its length; the length of a null is -1."""
    return b"".join(_SIZE.pack(-1) if half is None else _SIZE.pack(len(half)) + half for half in (key, value))


def split_inline(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Split what `inline` joined. Raise ValueError if the lengths do not fit."""
    try:
        (size,) = _SIZE.unpack_from(data)
        end = 4 + max(0, size)
        (other_size,) = _SIZE.unpack_from(data, end)
    except struct.error:
        size = other_size = _TOO_LONG
        end = 0
    if size < -1 or other_size < -1 or end + 4 + other_size > len(data):
        raise ValueError("the lengths of the key and the value do not fit")
    key = None if size == -1 else data[4:end]
    return key, None if other_size == -1 else data[end + 4 : end + 4 + other_size]


def halves_of(stored: StoredSchema) -> tuple[StoredSchema, StoredSchema]:
    """Split the definition of a pair into those of the key and the value. Raise UndecodableMessage if it is damaged."""
    try:
        data = split_inline(stored.data)
        halves = [
            StoredSchema(
                _wire_type(stored.properties.get(f"{half}.schema.type", "BYTES")),
                part or b"",
                json.loads(stored.properties.get(f"{half}.schema.properties") or "{}"),
                stored.version,
            )
            for half, part in zip(("key", "value"), data, strict=True)
        ]
    except (ValueError, KeyError) as fault:
        raise UndecodableMessage(f"the definition of a key and a value is damaged: {fault}") from fault
    return halves[0], halves[1]


def _wire_type(name: str) -> Any:  # noqa: ANN401 - an enum of protobuf
    return max(0, SchemaType[name])
