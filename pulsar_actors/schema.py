"""Schemas: what the bytes of messages mean.

    producer = client.create_producer("names", schema=pulsar.schema.StringSchema())

Without one, the content of a message is bytes. A schema of your own is a subclass of `Schema`.
"""

from typing import TYPE_CHECKING

from pulsar_actors.client.not_yet import missing
from pulsar_actors.client.schema import BytesSchema, Schema, StringSchema

__all__ = ["BytesSchema", "Schema", "StringSchema"]

if not TYPE_CHECKING:  # which would take it for a promise that every name is there

    def __getattr__(name: str) -> object:
        """Say that a name is not there, and of the official client's that they are not there yet."""
        raise missing(__name__, name)
