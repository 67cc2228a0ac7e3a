"""The definition of `ProtobufSchema` is the one that the Java client makes of the same files.

What Java makes is in protobuf/java.json; tests/real_broker/test_schemas.py compares that with a Java client.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.schema import ProtobufSchema
from tests.support.protobuf import FOLDER, compiled

OF_JAVA = json.loads((FOLDER / "java.json").read_text("utf-8"))


def test_the_definition_is_that_of_java() -> None:
    assert json.loads(definition_of(compiled(FOLDER)("shop.orders.Order"))) == OF_JAVA


def test_a_file_without_a_package_has_a_namespace_that_brokers_accept() -> None:
    assert json.loads(definition_of(compiled(FOLDER)("Bare"))) == {
        "type": "record", "name": "Bare", "namespace": "BareFile", "fields": [
            {"name": "inner", "type": ["null", {
                "type": "record", "name": "Inner", "namespace": "BareFile$Bare",
                "fields": [{"name": "x", "type": "int", "default": 0}],
            }], "default": None}
        ],
    }  # fmt: skip


def definition_of(record_cls: Any) -> str:
    return str(ProtobufSchema(record_cls).schema_info().schema())


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_a_default_that_json_has_not_is_left_out(tmp_path: Path, number: str) -> None:
    text = f'syntax = "proto2"; message M {{ optional double d = 1 [default = {number}]; }}'
    (tmp_path / "m.proto").write_text(text)
    definition = json.loads(definition_of(compiled(tmp_path)("M")), parse_constant=pytest.fail)
    assert definition["fields"] == [{"name": "d", "type": "double", "default": 0.0}]


def test_a_default_of_bytes_is_a_character_for_each_byte(tmp_path: Path) -> None:
    (tmp_path / "m.proto").write_text(r'syntax = "proto2"; message M { optional bytes b = 1 [default = "a\377"]; }')
    definition = json.loads(definition_of(compiled(tmp_path)("M")))
    assert definition["fields"] == [{"name": "b", "type": "bytes", "default": "a\xff"}]
