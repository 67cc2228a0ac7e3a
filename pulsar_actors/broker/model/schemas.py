"""The schemas of one topic, in versions.

Versions count from 0; on the wire a version is eight bytes, highest first. A known schema keeps its version. A new one
is accepted unless its type differs from the latest one's. Its fields are not checked, unless a `compatible` function is
given. Deleting the schemas of a topic adds an empty version.
"""

from collections.abc import Callable
from typing import NamedTuple

from pulsar_actors.broker.model.interfaces import Missing, Refusal
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


def same_type(latest: SchemaData, new: SchemaData) -> bool:
    """Return whether both schemas have the same type."""
    return latest.type == new.type


class Schemas:
    """The schemas of one topic; all partitions of a topic share them."""

    __slots__ = ("_compatible", "_stored", "_versions")

    def __init__(self, compatible: Callable[[SchemaData, SchemaData], bool] = same_type) -> None:
        self._compatible = compatible
        self._stored: list[StoredSchema] = []  # since the last deletion
        self._versions = 0

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
        wanted = (schema.type, schema.data)
        return next((stored for stored in self._stored if (stored.schema.type, stored.schema.data) == wanted), None)

    def check(self, schema: SchemaData) -> None:
        """Refuse a schema that is not compatible with the latest one."""
        if self._stored and not self._compatible(self._stored[-1].schema, schema):
            latest = Schema.Type.Name(self._stored[-1].schema.type)
            raise Refusal(
                ServerError.IncompatibleSchema,
                f"Incompatible schema: exists schema type {latest}, new schema type {Schema.Type.Name(schema.type)}",
            )

    def get_or_create(self, schema: SchemaData, now_ms: int) -> StoredSchema:
        """Return the version of a schema, or add it as a new version; Refusal IncompatibleSchema."""
        found = self.find(schema)
        if found is not None:
            return found
        self.check(schema)
        stored = StoredSchema(schema, self._versions, now_ms)
        self._versions += 1
        self._stored.append(stored)
        return stored

    def delete(self) -> int:
        """Delete all schemas, and return the number of the empty version."""
        self._stored.clear()
        self._versions += 1
        return self._versions - 1
