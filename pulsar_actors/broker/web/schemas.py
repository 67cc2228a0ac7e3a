"""The schemas of topics: the latest, any version, all of them; new ones, and their removal.

Over HTTP a schema's definition is text. That of a key-value schema is two definitions in one, each with its length
before it in the binary protocol; here they are the two fields of a JSON object.
"""

import json
from typing import Final

from pulsar_actors.broker.model.refusal import Missing, Refusal
from pulsar_actors.broker.model.schemas import SchemaData, Schemas, StoredSchema
from pulsar_actors.broker.web.bodies import as_object, as_strings
from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import Response, as_json
from pulsar_actors.broker.web.routes import Route
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import Schema

__all__ = ["SCHEMA_ROUTES"]

_NAMES: Final = {
    getattr(Schema, own): pulsars
    for own, pulsars in (
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


def _schemas(call: Call) -> Schemas:
    call.parts.setdefault("domain", "persistent")
    return call.cluster.schemas_of(call.topic_name())


def _tell_latest(call: Call) -> Response:
    return _tell_one(_schemas(call), None)


def _tell_version(call: Call) -> Response:
    version = call.number("version")
    if version < 0:
        raise HttpRefusal(404, "Schema not found")
    return _tell_one(_schemas(call), version.to_bytes(8, "big"))


def _tell_one(schemas: Schemas, version: bytes | None) -> Response:
    try:
        return as_json(_described(schemas.get(version)))
    except Missing as missing:
        raise HttpRefusal(404, "Schema not found") from missing


def _tell_all(call: Call) -> Response:
    return as_json({"getSchemaResponses": [_described(stored) for stored in _schemas(call).versions()]})


def _described(stored: StoredSchema) -> dict[str, object]:
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


def _add(call: Call) -> Response:
    schema = _given(call)
    call.parts.setdefault("domain", "persistent")
    call.namespace()
    try:
        stored = _schemas(call).get_or_create(schema, call.site.loop.wall_clock_ms())
    except Refusal as refusal:
        raise HttpRefusal(409, refusal.reason) from refusal
    return as_json({"version": {"version": stored.version}})


def _find_version(call: Call) -> Response:
    found = _schemas(call).find(_given(call))
    if found is None:
        raise HttpRefusal(404, "Schema not found")
    return as_json({"version": found.version})


def _given(call: Call) -> SchemaData:
    """Read the schema in the body."""
    given = as_object(call.value(), "a schema")
    name, text = given.get("type"), given.get("schema") or ""
    properties = as_strings(given.get("properties"), "the value of its properties")
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None or kind in {Schema.KeyValue, getattr(Schema, "None")}:
        offered = ", ".join(sorted(_TYPES.keys() - {"KEY_VALUE", "NONE"}))
        raise HttpRefusal(422, f"type is one of {offered}, not {excerpt(name)}")
    if not isinstance(text, str):
        raise HttpRefusal(400, f"the definition of a schema is a string, not {excerpt(text)}")
    if kind in _IN_JSON:
        _check_definition(name, text)
    return SchemaData(call.parts["topic"], kind, text.encode("utf-8", "replace"), tuple(sorted(properties.items())))


def _check_definition(name: object, text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise HttpRefusal(422, f"Invalid schema definition data for {name} schema") from fault


def _delete(call: Call) -> Response:
    return as_json({"version": _schemas(call).delete()})


_TOPIC = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
SCHEMA_ROUTES: Final = (
    Route("GET", f"{_TOPIC}/schema", _tell_latest),
    Route("GET", f"{_TOPIC}/schema/{{version}}", _tell_version),
    Route("GET", f"{_TOPIC}/schemas", _tell_all),
    Route("POST", f"{_TOPIC}/schema", _add),
    Route("POST", f"{_TOPIC}/version", _find_version),
    Route("DELETE", f"{_TOPIC}/schema", _delete),
)
