"""Values of JSON as the messages of a topic: what `consume --schema auto --json` writes, `produce` sends.

`ValuesOfTopic` is `produce --schema auto`, and `JsonOfDefinition` is `produce --schema json:FILE`.
"""

import json
from typing import Final

from pulsar_actors.exceptions import WrongContent
from pulsar_actors.schema import AutoPublishSchema, Schema, SchemaType

__all__ = ["JsonOfDefinition", "ValuesOfTopic"]

_IN_JSON: Final = {
    SchemaType.JSON,
    SchemaType.AVRO,
    SchemaType.STRING,
    SchemaType.BOOLEAN,
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT,
    SchemaType.DOUBLE,
}
"""The schemas whose values are the same in JSON, or are made of it."""


class ValuesOfTopic(AutoPublishSchema):
    """Takes values of JSON that fit the topic's schema, besides bytes that do."""

    def encode(self, value: object) -> bytes:
        """Encode a value by the topic's schema; check bytes by it."""
        if isinstance(value, bytes):
            return super().encode(value)
        kind = self.schema_info().schema_type()
        if kind not in _IN_JSON:
            raise WrongContent(f"a topic with a schema of the type {kind.name} takes no values of JSON: send a payload")
        return self._of_topic.encode(self._value_of(value) if kind is SchemaType.AVRO else value)

    def _value_of(self, value: object) -> object:
        from pulsar_actors.cli.avro_values import AvroValues  # noqa: PLC0415 - it needs fastavro

        return AvroValues(json.loads(self.schema_info().data())).value_of(value)


class JsonOfDefinition(Schema):
    """Any value of JSON, on a topic that has a definition. Values are not compared with it: only readers do that."""

    def __init__(self, definition: object) -> None:
        super().__init__(None, SchemaType.JSON, definition, "JSON")

    def encode(self, value: object) -> bytes:
        """Encode a value."""
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    def decode(self, data: bytes) -> object:
        """Decode a value."""
        return json.loads(data)
