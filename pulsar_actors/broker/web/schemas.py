"""The admin calls for the schemas of topics.

Over HTTP the definition of a schema is text. A key-value schema has two definitions: in the binary protocol each comes
after its length, here they are the two fields of a JSON object.
"""

import json
from typing import Final

from pulsar_actors.broker.model.interfaces import Missing, Refusal
from pulsar_actors.broker.model.schemas import SchemaData, Schemas, StoredSchema
from pulsar_actors.broker.web.calls import Route, WebCall, as_object, as_strings
from pulsar_actors.broker.web.http import HttpRefusal, Response, json_response
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import Schema

__all__ = ["SCHEMA_ROUTES"]


_NAMES: Final = {
    getattr(Schema, own_name): pulsar_name
    for own_name, pulsar_name in (
        ("None", "NONE"),
        ("String", "STRING"),
        ("Json", "JSON"),
        ("Protobuf", "PROTOBUF"),
        ("Avro", "AVRO"),
        ("Bool", "BOOLEAN"),
        ("Int8", "INT8"),
        ("Int16", "INT16"),
        ("Int32", "INT32"),
        ("Int64", "INT64"),
        ("Float", "FLOAT"),
        ("Double", "DOUBLE"),
        ("Date", "DATE"),
        ("Time", "TIME"),
        ("Timestamp", "TIMESTAMP"),
        ("KeyValue", "KEY_VALUE"),
        ("Instant", "INSTANT"),
        ("LocalDate", "LOCAL_DATE"),
        ("LocalTime", "LOCAL_TIME"),
        ("LocalDateTime", "LOCAL_DATE_TIME"),
        ("ProtobufNative", "PROTOBUF_NATIVE"),
    )
}
_TYPES: Final = {name: number for number, name in _NAMES.items()}
_IN_JSON: Final = frozenset({Schema.Json, Schema.Avro, Schema.Protobuf})
_SIZE: Final = 4


def _schemas(call: WebCall) -> Schemas:
    call.parts.setdefault("domain", "persistent")
    return call.cluster.schemas_of(call.topic_name())


def _get_latest_schema(call: WebCall) -> Response:
    return _get_schema(_schemas(call), None)


def _get_schema_version(call: WebCall) -> Response:
    version = call.number("version")
    if version < 0:
        raise HttpRefusal(404, "Schema not found")
    return _get_schema(_schemas(call), version.to_bytes(8, "big"))


def _get_schema(schemas: Schemas, version: bytes | None) -> Response:
    try:
        return json_response(_schema_json(schemas.get(version)))
    except Missing as missing:
        raise HttpRefusal(404, "Schema not found") from missing


def _get_all_schemas(call: WebCall) -> Response:
    return json_response({"getSchemaResponses": [_schema_json(stored) for stored in _schemas(call).versions()]})


def _schema_json(stored: StoredSchema) -> dict[str, object]:
    schema = stored.schema
    return {
        "version": stored.version,
        "type": _NAMES.get(schema.type, str(schema.type)),
        "timestamp": stored.timestamp_ms,
        "data": _pair_text(schema.data) if schema.type == Schema.KeyValue else schema.data.decode("utf-8", "replace"),
        "properties": dict(schema.properties),
    }


def _pair_text(data: bytes) -> str:
    """Write the definitions of key and value as one JSON object."""
    parts: list[str] = []
    rest = data
    while len(rest) >= _SIZE:
        end = _SIZE + max(0, int.from_bytes(rest[:_SIZE], "big", signed=True))
        parts.append(rest[_SIZE:end].decode("utf-8", "replace"))
        rest = rest[end:]
    key, value, *_ = (*parts, "", "")
    return f'{{"key":{key or json.dumps("")},"value":{value or json.dumps("")}}}'


def _add_schema(call: WebCall) -> Response:
    schema = _schema_in_body(call)
    call.parts.setdefault("domain", "persistent")
    call.namespace()
    try:
        stored = _schemas(call).get_or_create(schema, call.context.loop.wall_clock_ms())
    except Refusal as refusal:
        raise HttpRefusal(409, refusal.reason) from refusal
    return json_response({"version": {"version": stored.version}})


def _find_version(call: WebCall) -> Response:
    found = _schemas(call).find(_schema_in_body(call))
    if found is None:
        raise HttpRefusal(404, "Schema not found")
    return json_response({"version": found.version})


def _schema_in_body(call: WebCall) -> SchemaData:
    """Read the schema in the body."""
    given = as_object(call.value(), "a schema")
    name, text = given.get("type"), given.get("schema") or ""
    properties = as_strings(given.get("properties"), "the value of its properties")
    schema_type = _TYPES.get(name) if isinstance(name, str) else None
    if schema_type is None or schema_type in {Schema.KeyValue, getattr(Schema, "None")}:
        offered = ", ".join(sorted(_TYPES.keys() - {"KEY_VALUE", "NONE"}))
        raise HttpRefusal(422, f"type is one of {offered}, not {excerpt(name)}")
    if not isinstance(text, str):
        raise HttpRefusal(400, f"the definition of a schema is a string, not {excerpt(text)}")
    if schema_type in _IN_JSON:
        _check_definition(name, text)
    return SchemaData(
        call.parts["topic"], schema_type, text.encode("utf-8", "replace"), tuple(sorted(properties.items()))
    )


def _check_definition(name: object, text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise HttpRefusal(422, f"Invalid schema definition data for {name} schema") from fault


def _delete_schemas(call: WebCall) -> Response:
    return json_response({"version": _schemas(call).delete()})


_TOPIC = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
SCHEMA_ROUTES: Final = (
    Route("GET", f"{_TOPIC}/schema", _get_latest_schema),
    Route("GET", f"{_TOPIC}/schema/{{version}}", _get_schema_version),
    Route("GET", f"{_TOPIC}/schemas", _get_all_schemas),
    Route("POST", f"{_TOPIC}/schema", _add_schema),
    Route("POST", f"{_TOPIC}/version", _find_version),
    Route("DELETE", f"{_TOPIC}/schema", _delete_schemas),
)
