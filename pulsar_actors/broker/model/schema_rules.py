"""Which schemas producers and consumers may come with.

Who comes first decides: the schema of a topic is that of its first producer, or of its first consumer while nothing is
stored and nobody else is there. Those without a schema send and receive bytes, and may come at any time unless the
namespace enforces schemas on producers.
"""

from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.model.schemas import SchemaData, Schemas
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError


def check_of_producer(schemas: Schemas, schema: SchemaData | None, *, enforced: bool) -> None:
    """Refuse a producer for its schema; a new one is not taken yet."""
    if schema is None:
        if enforced and schemas.versions():
            raise Refusal(
                ServerError.IncompatibleSchema,
                "Producers cannot connect or send message without a schema to topics with a schema"
                "when SchemaValidationEnforced is enabled",
            )
    elif schemas.find(schema) is None:
        schemas.check(schema)


def check_of_consumer(schemas: Schemas, schema: SchemaData | None, *, is_idle: bool, now_ms: int) -> None:
    """Refuse a consumer for its schema; that of an idle topic's first user is taken."""
    if schema is None or schema.type == Schema.Type.AutoConsume:
        return
    if schemas.versions():
        schemas.check(schema)
    elif is_idle:
        schemas.get_or_create(schema, now_ms)
    else:
        raise Refusal(
            ServerError.IncompatibleSchema,
            "Failed to add schema to an active topic with empty(BYTES) schema: new schema type "
            f"{Schema.Type.Name(schema.type)}",
        )
