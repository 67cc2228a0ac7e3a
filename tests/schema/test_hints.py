"""Today's classes as schemas: dataclasses, typed dicts, named tuples and models."""

import json
import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum, Flag
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, cast
from uuid import UUID, uuid4

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


NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize("make", [AvroSchema, JsonSchema])
@pytest.mark.parametrize(
    "bad",
    [
        Tree("x", day=NOON), Tree("x", day=NOON.replace(tzinfo=None)), Tree("x", clock=NOON), Tree("x", at=NOON.date()),
        Tree("x", at=NOON.replace(tzinfo=None)), Tree("x", clock=NOON.date()), Tree("x", day=NOON.timetz()),
    ],
)  # fmt: skip
def test_a_date_or_time_of_another_kind_is_refused(make: Any, bad: Any) -> None:
    with pytest.raises(WrongContent):
        make(Tree).encode(bad)


def test_a_time_with_a_zone_comes_back_from_json_and_is_refused_in_avro_which_has_none() -> None:
    value = Tree("x", clock=NOON.timetz())
    assert JsonSchema(Tree).decode(JsonSchema(Tree).encode(value)) == value
    with pytest.raises(WrongContent, match="a time without a zone"):
        AvroSchema(Tree).encode(value)


@dataclass
class Stay:
    until: date | datetime


@pytest.mark.parametrize("until", [NOON, NOON.date()])
def test_a_datetime_in_a_union_is_no_date(until: Any) -> None:
    schema = AvroSchema(Stay)
    assert schema.decode(schema.encode(Stay(until))) == Stay(until)


@pytest.mark.parametrize("make", [AvroSchema, JsonSchema])
def test_a_float_that_is_too_large_is_refused(make: Any) -> None:
    with pytest.raises(WrongContent, match="too large"):
        make(Point).encode(Point(10**400))


@pytest.mark.parametrize(
    "bad", [b'{"name": "x", "price": "much"}', b'{"name": "x", "prices": {"p": 1%s}}' % (b"0" * 400)]
)
def test_numbers_in_json_that_cannot_be_read_are_refused(bad: bytes) -> None:
    with pytest.raises(UndecodableMessage):
        JsonSchema(Tree).decode(bad)


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


T = TypeVar("T")
Serial = NewType("Serial", int)


@dataclass
class Box(Generic[T]):
    content: T
    others: list[T] = field(default_factory=list)


@dataclass
class IntBox(Box[int]):
    label: str = ""


@dataclass
class Boxes:
    number: Box[int]
    text: Box[str]
    more: IntBox | None = None


class Spot(NamedTuple):
    x: int


@dataclass(frozen=True)
class Kinds:
    spots: Sequence[Spot]
    places: Mapping[str, Place]
    answer: Literal["yes", "no", None] = None  # noqa: PYI061 - a way to write it
    level: Literal[1, 2] = 1
    words: Literal["two words", "one"] = "one"
    names: AbstractSet[str] = frozenset()
    serial: Serial = Serial(0)
    ratio: float = 0.0


@dataclass
class Numbers:
    one: float
    more: list[float] = field(default_factory=list)
    maybe: float | None = None


@pytest.mark.parametrize("make", [AvroSchema, JsonSchema])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Box[int], Box(5, [6])), (IntBox, IntBox(5, [6], "x")),
        (Boxes, Boxes(Box(1), Box("x"), IntBox(2))),
        (Kinds, Kinds([Spot(1)], {"home": {"city": "Bern"}}, "yes", 2, "two words", {"a"}, Serial(7), 1)),
        (Kinds, Kinds([], {})), (Numbers, Numbers(math.inf, [-math.inf], math.inf)),
    ],
)  # fmt: skip
def test_a_value_of_generic_and_other_classes_comes_back(make: Any, kind: Any, value: Any) -> None:
    schema = make(kind)
    assert schema.decode(schema.encode(value)) == value


@pytest.mark.parametrize("make", [AvroSchema, JsonSchema])
@pytest.mark.parametrize("other", [{"words": "x"}, {"level": 3}, {"level": True}, {"answer": "maybe"}, {"words": []}])
def test_a_value_that_is_not_in_the_literal_is_refused(make: Any, other: Any) -> None:
    with pytest.raises(WrongContent, match="takes one of"):
        make(Kinds).encode(Kinds([], {}, **other))


def test_numbers_that_json_does_not_have_are_written_as_java_writes_them() -> None:
    text = JsonSchema(Numbers).encode(Numbers(math.nan, [math.inf, 1.5]))
    assert text == b'{"one":"NaN","more":["Infinity",1.5]}'
    assert math.isnan(cast("Numbers", JsonSchema(Numbers).decode(text)).one)


def test_each_use_of_a_generic_class_has_a_name_of_its_own() -> None:
    fields = json.loads(AvroSchema(Boxes).schema_info().schema())["fields"]
    assert [one["type"]["name"] for one in fields[:2]] == ["Box_int", "Box_str"]


def test_a_default_that_differs_each_time_is_not_in_the_definition() -> None:
    @dataclass
    class Event:
        key: str = field(default_factory=lambda: uuid4().hex)
        tags: list[str] = field(default_factory=list)
        maybe: int | None = field(default_factory=lambda: 5)

    definitions = [JsonSchema(Event).schema_info().schema() for _ in range(2)]
    assert definitions[0] == definitions[1]
    fields = {one["name"]: one for one in json.loads(definitions[0])["fields"]}
    assert "default" not in fields["key"]
    assert fields["tags"]["default"] == []
    schema = JsonSchema(Event)
    assert schema.decode(schema.encode(Event("x", [], None))) == Event("x", [], None)
    assert cast("Event", schema.decode(b"{}")).maybe == 5


@dataclass
class Space:
    _avro_namespace = "x.y"
    shape: Circle | Square
    again: Circle | None = None
    color: Color = Color.RED
    other: list[Color] = field(default_factory=list)


def test_types_are_in_the_namespace_of_the_record_around_them() -> None:
    schema, value = AvroSchema(Space), Space(Square(2.0), Circle(1.0), Color.BLUE, [Color.RED])
    assert schema.decode(schema.encode(value)) == value
    assert json.loads(schema.schema_info().schema())["fields"][1]["type"] == ["null", "x.y.Circle"]


def test_two_classes_of_one_name_are_refused() -> None:
    def make() -> Any:
        @dataclass
        class Same:
            a: int

        return Same

    @dataclass
    class Both:
        one: Any
        other: Any

    Both.__annotations__.update(one=make(), other=make())
    for schema in (AvroSchema, JsonSchema):
        with pytest.raises(InvalidArgument, match="two types of this schema have the name Same"):
            schema(Both)


class Bits(Flag):
    READ = 1
    WRITE = 2


class Untyped(namedtuple("Untyped", "a b")):  # noqa: PYI024 - that it has no types is the point
    __slots__ = ()


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Bits, "flags are combined"), (T, "T is a type variable"), (object, "no type"), (Any, "no type"),
        (list, "say of what"), (tuple[int, str], "an array has any length"), (dict[int, str], "keys of a map"),
        (Literal[1, "a"], "either text, or ints"), (Untyped, "has no type hints"), (Decimal | float, "precision"),
        (list[int] | set[int], "look the same"),
    ],
)  # fmt: skip
def test_a_hint_that_no_schema_can_have_is_refused_with_its_place_and_the_reason(hint: Any, words: str) -> None:
    @dataclass
    class Odd:
        what: Any

    Odd.__annotations__["what"] = hint
    with pytest.raises(InvalidArgument, match=words):
        AvroSchema(Odd)


def test_a_class_in_a_function_may_contain_itself() -> None:
    @dataclass
    class Local:
        name: str
        parent: Optional["Local"] = None

    for schema in (AvroSchema(Local), JsonSchema(Local)):
        assert schema.decode(schema.encode(Local("a", Local("b")))) == Local("a", Local("b"))


def test_a_payload_that_goes_too_deep_raises() -> None:
    @dataclass
    class Chain:
        next: Optional["Chain"] = None

    with pytest.raises(UndecodableMessage):
        AvroSchema(Chain).decode(b"\x02" * 100_000)
    with pytest.raises(UndecodableMessage):
        JsonSchema(Chain).decode(b'{"next":' * 100_000)
    chain = Chain()
    chain.next = chain
    for schema in (AvroSchema(Chain), JsonSchema(Chain)):
        with pytest.raises(WrongContent):
            schema.encode(chain)


def test_a_long_integer_in_a_payload_that_may_go_deep_is_refused_and_takes_no_time() -> None:
    @dataclass
    class Chain:
        number: int
        next: Optional["Chain"] = None

    schema = AvroSchema(Chain)
    chain = Chain(-(2**63), Chain(2**63 - 1))
    for _ in range(140):
        chain = Chain(-1, chain)
    payload = schema.encode(chain)
    assert len(payload) > 256  # shorter ones are read by the compiled fastavro
    assert schema.decode(payload) == chain
    for digits in (b"\xff" * 9 + b"\x02", b"\xff" * 10_000_000 + b"\x01"):
        with pytest.raises(UndecodableMessage):
            schema.decode(b"\x00\x02" * 130 + digits + b"\x00")
