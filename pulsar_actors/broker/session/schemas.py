"""Schemas: asked for, and handed in ahead of the first message."""

from typing import Final

from pulsar_actors.broker.model.refusal import Missing
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    KeyValue,
    Schema,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["HANDLERS", "schema_of"]


def schema_of(schema: Schema) -> SchemaData | None:
    """Read a schema as it travels; one that only asks for whatever the topic has is none."""
    if schema.type == Schema.AutoConsume:
        return None
    properties = tuple((pair.key, pair.value) for pair in schema.properties)
    return SchemaData(schema.name, schema.type, schema.schema_data, properties)


def on_get_schema(session: Session, asked: CommandGetSchema, _: memoryview) -> None:
    """Give the version that is asked for, or the latest. Its name is the topic's."""
    topic = TopicName.parse(asked.topic)
    version = asked.schema_version if asked.HasField("schema_version") else None
    try:
        stored = session.here.cluster.schemas_of(topic).get(version)
    except Missing as missing:
        raise Missing(missing.code, f"{missing.reason} {topic}") from None
    schema = Schema(
        name=f"{topic.namespace_name}/{topic.base.local_name}",
        type=stored.schema.type,
        schema_data=stored.schema.data,
        properties=[KeyValue(key=key, value=value) for key, value in stored.schema.properties],
    )
    session.send(
        CommandGetSchemaResponse(request_id=asked.request_id, schema=schema, schema_version=stored.version_bytes)
    )


def on_get_or_create_schema(session: Session, asked: CommandGetOrCreateSchema, _: memoryview) -> None:
    """Give the version that a schema has, which may be a new one."""
    topic = TopicName.parse(asked.topic)
    if session.here.cluster.find_topic(topic) is None:
        raise Missing(ServerError.TopicNotFound, f"Topic not found {topic}")
    schema = schema_of(asked.schema)
    version = b""
    if schema is not None:
        schemas = session.here.cluster.schemas_of(topic)
        version = schemas.get_or_create(schema, session.here.loop.wall_clock_ms()).version_bytes
    session.send(CommandGetOrCreateSchemaResponse(request_id=asked.request_id, schema_version=version))


HANDLERS: Final[Handlers] = {
    CommandGetSchema: on_get_schema,
    CommandGetOrCreateSchema: on_get_or_create_schema,
}
