"""The schemas of one topic, in versions.

Versions count from 0; on the wire a version is eight bytes, highest first. A known schema keeps its version: those with
an Avro schema as their definition are compared when parsed, others by their bytes. A new one is accepted if it has the
type of the latest one, and is compatible with it: by default each of both reads what the other wrote. A consumer's need
only read the latest one's. Deleting the schemas of a topic adds an empty version.
"""

import base64
from typing import Final, cast

from pulsar_actors.broker.model.avro_compatibility import obstacle, parsed
from pulsar_actors.broker.model.interfaces import Missing, Refusal
from pulsar_actors.broker.model.storage import IN_MEMORY, State, TopicStorage
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError


class SchemaData(NamedTuple):
    """The definition of a schema."""

    name: str
    type: "Schema.Type.ValueType"
    data: bytes
    properties: tuple[tuple[str, str], ...] = ()


class StoredSchema(NamedTuple):
    """A schema with its version."""

    schema: SchemaData
    version: int
    timestamp_ms: int

    @property
    def version_bytes(self) -> bytes:
        """The version on the wire."""
        return self.version.to_bytes(8, "big")


_AVRO_DEFINITIONS: Final = frozenset({Schema.Avro, Schema.Json, Schema.Protobuf})
"""The types whose definition is an Avro schema."""


def incompatibility(latest: SchemaData, new: SchemaData, *, only_reads: bool = False) -> str | None:
    """Return why a schema cannot follow another: of another type, or one of them cannot read what the other wrote.

    None if it can. A definition that cannot be compared is compatible with any other. The schema of a consumer
    `only_reads`: it need not be read by the other.
    """
    if latest.type != new.type:
        return f"exists schema type {Schema.Type.Name(latest.type)}, new schema type {Schema.Type.Name(new.type)}"
    if new.type == Schema.ProtobufNative:
        roots = [_root_message(one.data) for one in (latest, new)]
        return None if None in roots or roots[0] == roots[1] else f"its message is {roots[1]}, and that was {roots[0]}"
    if new.type not in _AVRO_DEFINITIONS:
        return None
    try:
        return obstacle(parsed(latest.data), parsed(new.data), only_reads=only_reads)
    except (KeyError, TypeError, RecursionError):
        return None


def _root_message(data: bytes) -> object:
    """Return the name of the message that a definition is of; None if it has none."""
    definition = parsed(data)
    if not isinstance(definition, dict):
        return None
    return cast("dict[str, object]", definition).get("rootMessageTypeName")


def _is_same(one: SchemaData, other: SchemaData) -> bool:
    if one.type != other.type:
        return False
    if one.data == other.data:
        return True
    definition = parsed(one.data) if one.type in _AVRO_DEFINITIONS else None
    return definition is not None and definition == parsed(other.data)


class Schemas:
    """The schemas of one topic; all partitions of a topic share them."""

    __slots__ = ("_record", "_stored", "_versions")

    def __init__(self, storage: TopicStorage = IN_MEMORY, topic: str = "") -> None:
        self._record = storage.record("schemas", topic, self._state)
        self._stored: list[StoredSchema] = []  # since the last deletion
        self._versions = 0
        if (stored := self._record.stored) is not None:
            self._restore(stored)

    def versions(self) -> list[StoredSchema]:
        """List all versions, the oldest first."""
        return list(self._stored)

    def get(self, version: bytes | None = None) -> StoredSchema:
        """Return the latest version, or a given one (as on the wire); Missing."""
        for stored in reversed(self._stored):
            if not version or stored.version_bytes == version:
                return stored
        raise Missing(ServerError.TopicNotFound, "Topic not found or no-schema")

    def find(self, schema: SchemaData) -> StoredSchema | None:
        """Find the version of a schema; None for an unknown one."""
        return next((stored for stored in self._stored if _is_same(stored.schema, schema)), None)

    def check(self, schema: SchemaData, *, only_reads: bool = False) -> None:
        """Refuse a schema that is not compatible with the latest one. That of a consumer `only_reads`."""
        latest = self._stored[-1].schema if self._stored else schema
        reason = incompatibility(latest, schema, only_reads=only_reads)
        if reason is not None:
            raise Refusal(ServerError.IncompatibleSchema, f"Incompatible schema: {reason}")

    def get_or_create(self, schema: SchemaData, now_ms: int) -> StoredSchema:
        """Return the version of a schema, or add it as a new version; Refusal IncompatibleSchema."""
        found = self.find(schema)
        if found is not None:
            return found
        self.check(schema)
        stored = StoredSchema(schema, self._versions, now_ms)
        self._versions += 1
        self._stored.append(stored)
        self._record.changed()
        return stored

    def delete(self) -> int:
        """Delete all schemas, and return the number of the empty version."""
        self._stored.clear()
        self._versions += 1
        self._record.changed()
        return self._versions - 1

    def forget(self) -> None:
        """Store nothing any longer: the topic is deleted."""
        self._record.remove()

    def _state(self) -> State:
        schemas = [
            (schema.name, schema.type, base64.b64encode(schema.data).decode(), schema.properties, version, timestamp_ms)
            for schema, version, timestamp_ms in self._stored
        ]
        return {"versions": self._versions, "schemas": schemas}

    def _restore(self, stored: State) -> None:
        self._versions = stored["versions"]
        for name, kind, data, pairs, version, timestamp_ms in stored["schemas"]:
            properties = tuple((key, value) for key, value in pairs)
            schema = SchemaData(name, kind, base64.b64decode(data), properties)
            self._stored.append(StoredSchema(schema, version, timestamp_ms))
