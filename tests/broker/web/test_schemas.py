import json
from typing import Any

import pytest

from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.wire.PulsarApi_pb2 import Schema

PATH = "/admin/v2/schemas/public/default/t"
RECORD = {"type": "JSON", "schema": '{"type":"string"}', "properties": {"k": "v"}}


def test_schemas_are_kept_in_versions(web: Any) -> None:
    assert web.told("POST", f"{PATH}/schema", RECORD) == {"version": {"version": 0}}
    assert web.told("POST", f"{PATH}/schema", {**RECORD, "schema": '"bytes"'}) == {"version": {"version": 1}}
    assert web.told("GET", f"{PATH}/schema")["data"] == '"bytes"'
    first = web.told("GET", f"{PATH}/schema/0")
    assert (first["type"], first["data"], first["properties"]) == ("JSON", '{"type":"string"}', {"k": "v"})
    assert [each["version"] for each in web.told("GET", f"{PATH}/schemas")["getSchemaResponses"]] == [0, 1]
    assert web.told("POST", f"{PATH}/version", RECORD) == {"version": 0}


def test_a_schema_of_another_type_is_refused(web: Any) -> None:
    web.told("POST", f"{PATH}/schema", RECORD)
    assert web.refusal("POST", f"{PATH}/schema", {"type": "STRING", "schema": ""})[0] == 409
    assert web.refusal("POST", f"{PATH}/version", {"type": "STRING", "schema": ""}) == (404, "Schema not found")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, []),
        (400, None),
        (422, {}),
        (422, {"type": "TEA"}),
        (422, {"type": ["JSON"]}),
        (422, {"type": "KEY_VALUE", "schema": "{}"}),
        (422, {"type": "AVRO", "schema": "{bad"}),
        (400, {"type": "STRING", "schema": 3}),
        (400, {"type": "STRING", "schema": "", "properties": {"a": 1}}),
    ],
)
def test_what_is_no_schema_is_not_kept(web: Any, status: int, body: object) -> None:
    assert web.refusal("POST", f"{PATH}/schema", body)[0] == status
    assert web.told("GET", f"{PATH}/schemas") == {"getSchemaResponses": []}


@pytest.mark.parametrize("version", ["7", "-1", "x"])
def test_a_version_that_is_not_there_is_not_found(web: Any, version: str) -> None:
    web.told("POST", f"{PATH}/schema", RECORD)
    assert web.refusal("GET", f"{PATH}/schema/{version}")[0] == 404


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x00\x00\x00\x05" + b'"int"' + b"\x00\x00\x00\x02" + b"{}", '{"key":"int","value":{}}'),
        (b"\xff\xff\xff\xff\x00\x00\x00\x02{}", '{"key":"","value":{}}'),
        (b"", '{"key":"","value":""}'),
    ],
)
def test_the_two_halves_of_a_key_value_schema_are_told_apart(web: Any, data: bytes, text: str) -> None:
    schemas = web.cluster.schemas_of(web.name("t"))
    schemas.get_or_create(SchemaData("t", Schema.KeyValue, data), 0)
    told = web.told("GET", f"{PATH}/schema")
    assert (told["type"], told["data"]) == ("KEY_VALUE", text)
    json.loads(told["data"])


def test_a_schema_needs_a_namespace(web: Any) -> None:
    path = "/admin/v2/schemas/public/nix/t/schema"
    assert web.refusal("POST", path, RECORD)[0] == 404
