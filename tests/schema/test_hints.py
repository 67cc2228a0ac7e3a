"""Today's classes as schemas: dataclasses, typed dicts, named tuples and models."""

import json
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict
from uuid import UUID

import pytest

from pulsar_actors.exceptions import InvalidArgument, UndecodableMessage, WrongContent
from pulsar_actors.schema import AvroSchema, JsonSchema


class Color(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Tree:
    name: str
    count: int = 3
    small: Annotated[int, "int"] = 0
    tags: list[str] = field(default_factory=list)
    left: Optional["Tree"] = None
    color: Color = Color.RED
    prices: dict[str, float] = field(default_factory=dict)
    data: bytes = b""
    size: Literal["S", "L"] = "S"
    seen: frozenset[int] = frozenset()
    at: datetime | None = None
    day: date | None = None
    clock: time | None = None
    key: UUID | None = None
    price: Annotated[Decimal, (10, 2)] | None = None
    mixed: int | str | None = "x"


class Place(TypedDict, total=False):
    city: str
    zip: int | None


class Point(NamedTuple):
    x: float
    y: float = 0.5


@dataclass
class Circle:
    radius: float


@dataclass
class Square:
    side: float


@dataclass
class Drawing:
    shapes: list[Circle | Square]


TREE = Tree(
    "a", 2**40, 5, ["x"], Tree("b"), Color.BLUE, {"p": 1.5}, b"\xff", "L", frozenset({1}),
    datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc), date(1960, 2, 29), time(1, 2, 3, 4), UUID(int=5),
    Decimal("1.25"), 7,
)  # fmt: skip


@pytest.mark.parametrize("make", [AvroSchema, JsonSchema])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Tree, TREE), (Tree, Tree("only")), (Place, {"city": "Bern"}), (Place, {"city": "Bern", "zip": 3000}),
        (Point, Point(1.0)),
    ],
)  # fmt: skip
def test_a_value_comes_back(make: Any, kind: Any, value: Any) -> None:
    schema = make(kind)
    back = schema.decode(schema.encode(value))
    assert back == value
    assert type(back) is type(value)


def test_a_union_of_records_comes_back_from_avro_and_is_refused_in_json() -> None:
    schema, value = AvroSchema(Drawing), Drawing([Circle(1.0), Square(2.0)])
    assert schema.decode(schema.encode(value)) == value
    with pytest.raises(InvalidArgument, match=r"Drawing\.shapes: JSON does not say which"):
        JsonSchema(Drawing)


def test_the_definition_has_the_types_and_the_defaults() -> None:
    fields = {one["name"]: one for one in json.loads(AvroSchema(Tree).schema_info().schema())["fields"]}
    assert fields["name"] == {"name": "name", "type": "string"}
    assert fields["count"] == {"name": "count", "type": "long", "default": 3}
    assert fields["small"]["type"] == "int"
    assert fields["left"] == {"name": "left", "type": ["null", "Tree"], "default": None}
    assert fields["color"]["type"] == {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}
    assert fields["mixed"] == {"name": "mixed", "type": ["string", "long", "null"], "default": "x"}


@pytest.mark.parametrize("make", [AvroSchema, JsonSchema])
@pytest.mark.parametrize(
    "bad",
    [Tree("x", count="5"), Tree("x", small=2**31), Tree("x", tags="no"), Tree("x", color="RED"), "no tree"],  # type: ignore[arg-type]
)
def test_a_value_of_another_type_is_refused(make: Any, bad: Any) -> None:
    with pytest.raises(WrongContent):
        make(Tree).encode(bad)


@pytest.mark.parametrize("bad", [b"{}", b"[]", b'{"name": 5}', b'{"name": "x", "color": "PINK"}', b"{"])
def test_json_that_does_not_fit_is_refused(bad: bytes) -> None:
    with pytest.raises(UndecodableMessage):
        JsonSchema(Tree).decode(bad)


def test_a_class_without_a_schema_is_refused_by_name() -> None:
    @dataclass
    class Odd:
        what: object

    for bad in (int, Odd, object):
        with pytest.raises(InvalidArgument):
            JsonSchema(bad)
