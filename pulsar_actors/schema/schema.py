"""The names of `pulsar.schema.schema`, for programs that import them from there."""

from pulsar_actors.client.schema import BytesSchema, Schema, StringSchema
from pulsar_actors.schema.schema_json import JsonSchema

__all__ = ["BytesSchema", "JsonSchema", "Schema", "StringSchema"]
