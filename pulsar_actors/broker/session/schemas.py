"""The handlers of GET_SCHEMA and GET_OR_CREATE_SCHEMA."""

from typing import Final

from pulsar_actors.broker.model.interfaces import Missing
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.broker.session.session import CommandHandlers, Session
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

__all__ = ["SCHEMA_HANDLERS", "schema_of"]


def schema_of(schema: Schema) -> SchemaData | None:
    """Convert a schema of the wire; None for AUTO_CONSUME."""
    if schema.type == Schema.AutoConsume:
        return None
    properties = tuple((pair.key, pair.value) for pair in schema.properties)
    return SchemaData(schema.name, schema.type, schema.schema_data, properties)


def on_get_schema(session: Session, command: CommandGetSchema, _: bytes) -> None:
    """Answer with a certain version, or the latest. The schema's name is the topic's."""
    topic = TopicName.parse(command.topic)
    version = command.schema_version if command.HasField("schema_version") else None
    try:
        stored = session.context.cluster.schemas_of(topic).get(version)
    except Missing as missing:
        raise Missing(missing.code, f"{missing.reason} {topic}") from None
    schema = Schema(
        name=f"{topic.namespace_name}/{topic.base.local_name}",
        type=stored.schema.type,
        schema_data=stored.schema.data,
        properties=[KeyValue(key=key, value=value) for key, value in stored.schema.properties],
    )
    session.send(
        CommandGetSchemaResponse(request_id=command.request_id, schema=schema, schema_version=stored.version_bytes)
    )


def on_get_or_create_schema(session: Session, command: CommandGetOrCreateSchema, _: bytes) -> None:
    """Answer with the version of a schema, which may be a new one."""
    topic = TopicName.parse(command.topic)
    if session.context.cluster.find_topic(topic) is None:
        raise Missing(ServerError.TopicNotFound, f"Topic not found {topic}")
    schema = schema_of(command.schema)
    version = b""
    if schema is not None:
        schemas = session.context.cluster.schemas_of(topic)
        version = schemas.get_or_create(schema, session.context.loop.wall_clock_ms()).version_bytes
    session.send(CommandGetOrCreateSchemaResponse(request_id=command.request_id, schema_version=version))


SCHEMA_HANDLERS: Final[CommandHandlers] = {
    CommandGetSchema: on_get_schema,
    CommandGetOrCreateSchema: on_get_or_create_schema,
}
