"""The schemas of one topic, in versions.

Versions count from 0; on the wire a version is eight bytes, highest first. A schema that is there already keeps its
version. A new one is taken unless its type differs from the latest one's; whether its fields fit is not looked at, but
whoever wants that gives a `compatible` of their own. To delete the schemas of a topic is a version too, an empty one.
"""

from collections.abc import Callable
from typing import NamedTuple

from pulsar_actors.broker.model.refusal import Missing, Refusal
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError


class SchemaData(NamedTuple):
    """What a schema is."""

    name: str
    type: "Schema.Type.ValueType"
    data: bytes
    properties: tuple[tuple[str, str], ...] = ()


class StoredSchema(NamedTuple):
    """A schema and what the topic knows it by."""

    schema: SchemaData
    version: int
    timestamp_ms: int

    @property
    def version_bytes(self) -> bytes:
        """The version on the wire."""
        return self.version.to_bytes(8, "big")


def same_type(latest: SchemaData, new: SchemaData) -> bool:
    """Take a schema for compatible if it is of the same type."""
    return latest.type == new.type


class Schemas:
    """The schemas of one topic (all partitions of a topic share them)."""

    __slots__ = ("_compatible", "_stored", "_versions")

    def __init__(self, compatible: Callable[[SchemaData, SchemaData], bool] = same_type) -> None:
        self._compatible = compatible
        self._stored: list[StoredSchema] = []  # since the last deletion
        self._versions = 0

    def versions(self) -> list[StoredSchema]:
        """Give all of them, the oldest first."""
        return list(self._stored)

    def get(self, version: bytes | None = None) -> StoredSchema:
        """Give the latest, or the one of that version (as on the wire); Missing if there is none."""
        for stored in reversed(self._stored):
            if not version or stored.version_bytes == version:
                return stored
        raise Missing(ServerError.TopicNotFound, "Topic not found or no-schema")

    def find(self, schema: SchemaData) -> StoredSchema | None:
        """Give the version that a schema has, if it is there."""
        wanted = (schema.type, schema.data)
        return next((stored for stored in self._stored if (stored.schema.type, stored.schema.data) == wanted), None)

    def check(self, schema: SchemaData) -> None:
        """Refuse a schema that may not be used beside the latest one."""
        if self._stored and not self._compatible(self._stored[-1].schema, schema):
            latest = Schema.Type.Name(self._stored[-1].schema.type)
            raise Refusal(
                ServerError.IncompatibleSchema,
                f"Incompatible schema: exists schema type {latest}, new schema type {Schema.Type.Name(schema.type)}",
            )

    def get_or_create(self, schema: SchemaData, now_ms: int) -> StoredSchema:
        """Give the version that the schema has, or give it one; Refusal IncompatibleSchema."""
        found = self.find(schema)
        if found is not None:
            return found
        self.check(schema)
        stored = StoredSchema(schema, self._versions, now_ms)
        self._versions += 1
        self._stored.append(stored)
        return stored

    def delete(self) -> int:
        """Forget them all; gives the version that says so."""
        self._stored.clear()
        self._versions += 1
        return self._versions - 1
