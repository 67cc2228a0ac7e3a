from fnmatch import fnmatchcase
from typing import Any

import pytest

from pulsar_actors.broker.model.avro_compatibility import obstacle, parsed


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, **rest} for name, rest in fields]}


A = ("a", {"type": "string"})
SELF = record(A, ("next", {"type": ["null", "R"]}))


@pytest.mark.parametrize(
    ("latest", "new", "compatible"),
    [
        (record(A), record(A), True),
        (record(A), record(A, ("b", {"type": "int", "default": 1})), True),
        (record(A), record(A, ("b", {"type": ["null", "int"]})), False),
        (record(A, ("b", {"type": "int"})), record(A), False),
        (record(A), record(("a", {"type": "int"})), False),
        (record(A), record(("a", {"type": "bytes"})), True),
        ("int", "long", False),
        (SELF, SELF, True),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, False),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "int"}, True),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "enum", "name": "E", "symbols": ["A", "B"]}, False),
    ],
)
def test_each_has_to_read_what_the_other_wrote(latest: Any, new: Any, *, compatible: bool) -> None:
    assert (obstacle(latest, new) is None) is compatible


def inner(name: str, field: str, kind: str = "int") -> dict[str, Any]:
    return {"type": {"type": "record", "name": name, "fields": [{"name": field, "type": kind}]}}


@pytest.mark.parametrize(
    ("latest", "new", "says"),
    [
        (record(A), record(A, ("b", {"type": "int"})), "the new schema *: see the field 'b'"),
        (record(A, ("b", {"type": "int"})), record(A), "the latest schema *: see the field 'b'"),
        (
            record(("in", inner("I", "depth"))),
            record(("in", inner("I", "depth", "string"))),
            "the new schema *: see the field 'depth'",
        ),
        ("int", "string", "the new schema cannot read what is written with the other"),
        (
            record(("a", inner("I", "depth")), ("b", {"type": "int"})),
            record(
                ("a", {"type": [inner("P", "height")["type"], inner("Q", "depth")["type"]]}), ("b", {"type": "string"})
            ),
            "the new schema *: see the field 'b'",
        ),
    ],
)
def test_the_field_that_cannot_be_read_is_named(latest: Any, new: Any, says: str) -> None:
    assert fnmatchcase(obstacle(latest, new) or "", says)


def test_spaces_and_documentation_do_not_count() -> None:
    assert parsed(b'{"type": "int", "doc": "x"}') == parsed(b'{"type":"int"}')
    assert parsed(b"{") is None
