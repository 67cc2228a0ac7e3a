"""Schemas: what the bytes of messages mean.

    producer = client.create_producer("names", schema=pulsar.schema.StringSchema())

Without one, the content of a message is bytes. A schema of your own is a subclass of `Schema`.
"""

from pulsar_actors.client.schema import BytesSchema, Schema, StringSchema

__all__ = ["BytesSchema", "Schema", "StringSchema"]
