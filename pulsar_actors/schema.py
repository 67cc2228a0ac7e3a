"""Schemas: what the bytes of messages mean.

    producer = client.create_producer("names", schema=pulsar.schema.StringSchema())

Without one, the content of a message is bytes. A schema of your own is a subclass of `Schema`.
"""

from typing import TYPE_CHECKING

from pulsar_actors.client.schema import BytesSchema, Schema, StringSchema
from pulsar_actors.client.unimplemented import missing

__all__ = ["BytesSchema", "Schema", "StringSchema"]

if not TYPE_CHECKING:  # type checkers would then accept every name

    def __getattr__(name: str) -> object:
        """Raise for an unknown name. The error says if the official client has it."""
        raise missing(__name__, name)
