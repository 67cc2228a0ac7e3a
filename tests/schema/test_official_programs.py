"""What programs for the official client do with records: each runs with both clients, and sees the same.

A program returns what it sees: definitions, bytes, values. JSON is compared when parsed, because it is indented there.
An error is seen as a program does that catches it: by Python's class, such as TypeError.
"""

# ruff: noqa: FBT003 - programs give options by position

import enum
import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pulsar.schema
import pytest

import pulsar_actors.schema as ours

Program = Callable[[Any], list[Any]]
PROGRAMS: list[Program] = []


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Word(enum.Enum):
    YES = "YES"
    NO = "nein"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def program(run: Program) -> Program:
    PROGRAMS.append(run)
    return run


class Raised:
    """An error, equal to one that a program would catch by the same class."""

    def __init__(self, error: Exception) -> None:
        self._kinds = {kind for kind in (TypeError, AttributeError, ValueError) if isinstance(error, kind)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised) and (self._kinds <= other._kinds or other._kinds <= self._kinds)

    __hash__ = None  # type: ignore[assignment]


def seen(call: Callable[[], Any]) -> Any:
    """What a call returns or raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - it is compared
        return Raised(error)


def plain(value: Any) -> Any:
    """A record of either client as dicts."""
    if hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def round_trip(s: Any, record: Any, value: Any) -> list[Any]:
    """The definition, the payload and the value again, in JSON and in Avro."""
    as_json, as_avro = s.JsonSchema(record), s.AvroSchema(record)
    payloads = as_json.encode(value), as_avro.encode(value)
    return [
        *(json.loads(schema.schema_info().schema()) for schema in (as_json, as_avro)),
        *(schema.schema_info().name() for schema in (as_json, as_avro)),
        json.loads(payloads[0]), payloads[1], plain(as_json.decode(payloads[0])), plain(as_avro.decode(payloads[1])),
    ]  # fmt: skip


@program
def every_type(s: Any) -> list[Any]:
    class Example(s.Record):  # type: ignore[misc]
        text = s.String()
        small = s.Integer()
        large = s.Long()
        yes = s.Boolean()
        ratio = s.Float()
        exact = s.Double()
        data = s.Bytes()
        nothing = s.Null()
        texts = s.Array(s.String())
        counts = s.Map(s.Integer())

    value = Example(
        text="ü", small=-1, large=2**40, yes=True, ratio=0.5, exact=0.1, data=b"x", texts=["a"], counts={"b": 2}
    )
    other = Example()
    other.text = "later"
    return [
        Example.schema(),
        round_trip(s, Example, value),
        round_trip(s, Example, other),
        value == other,
        value != other,
    ]


@program
def records_in_records(s: Any) -> list[Any]:
    class Leaf(s.Record):  # type: ignore[misc]
        _sorted_fields = True
        z = s.Integer()
        a = s.Double()

    class Branch(s.Record):  # type: ignore[misc]
        leaf = Leaf()
        leaves = s.Map(Leaf())

    class Tree(s.Record):  # type: ignore[misc]
        _avro_namespace = "a.b"
        name = s.String(required=True)
        first = Branch
        second = Branch(required=True)
        leaves = s.Array(Leaf())
        deep = s.Map(s.Array(Leaf()))
        grid = s.Array(s.Array(s.Integer()))
        maps = s.Array(s.Map(s.String()))

    value = Tree(
        name="x", first=Branch(leaf=Leaf(z=1)), second=Branch(leaves={"k": Leaf(a=1.5)}), leaves=[Leaf(z=2)],
        deep={"d": [Leaf(z=3), Leaf(z=4)]}, grid=[[1], [2, 3]], maps=[{"a": "b"}, {}],
    )  # fmt: skip
    return [
        Tree.schema(),
        round_trip(s, Tree, value),
        seen(lambda: Tree(first=Leaf())),
        seen(lambda: Tree(second=None)),
    ]


@program
def dicts_become_records(s: Any) -> list[Any]:
    class Inner(s.Record):  # type: ignore[misc]
        a = s.Integer()
        b = s.String()

    class Outer(s.Record):  # type: ignore[misc]
        one = Inner()
        many = s.Array(Inner())
        named = s.Map(Inner())

    given = {"one": {"a": 1, "b": "x"}, "many": [{"a": 2}], "named": {"k": {"b": "y"}}}
    value = Outer(**given)
    return [
        plain(value), type(value.one).__name__, round_trip(s, Outer, value), seen(lambda: Outer(one={"a": "x"})),
        seen(lambda: setattr(value, "many", [{"a": 1}])),
    ]  # fmt: skip


@program
def enums(s: Any) -> list[Any]:
    class Paint(s.Record):  # type: ignore[misc]
        color = Color
        again = s.CustomEnum(Color, required=True, default=Color.GREEN, required_default=True)
        word = s.CustomEnum(Word)
        level = Level

    values = [
        Paint(color=Color.RED, word=Word.YES, level=Level.HIGH), Paint(color="RED", level=1), Paint(color=1), Paint(),
    ]  # fmt: skip
    return [
        Paint.schema(), *(round_trip(s, Paint, value) for value in values),
        *(seen(lambda bad=bad: Paint(color=bad)) for bad in ("PINK", 9, 1.5, True, Word.YES)),
        seen(lambda: s.CustomEnum(Color, default="RED").default()), seen(lambda: s.CustomEnum(Color, default=5)),
    ]  # fmt: skip


@program
def defaults(s: Any) -> list[Any]:
    class Given(s.Record):  # type: ignore[misc]
        a = s.Integer(default=5)
        b = s.Integer(default=5, required_default=True)
        c = s.String(default="x", required=True)
        d = s.String(default="x", required=True, required_default=True)
        e = s.Boolean(default=True)
        f = s.Boolean()
        g = s.Float(default=1.5, required_default=True)
        h = s.Array(s.Integer(), default=[1], required_default=True)
        i = s.Map(s.Integer(), default={"a": 1}, required_default=True)
        j = s.Bytes(default=b"q")
        k = s.Boolean(default=False, required_default=True)
        m = s.String(required_default=True)

    wrong = [
        lambda: s.Integer(default="x"), lambda: s.String(default=5), lambda: s.Array(s.Integer(), default=["x"]),
        lambda: s.Boolean(default=1), lambda: s.Float(default="x"), lambda: s.Map(s.Integer(), default=[]),
    ]  # fmt: skip
    return [
        Given.schema(),
        plain(Given()),
        round_trip(s, Given, Given()),
        plain(Given(a=None)),
        *map(seen, wrong),
    ]


@program
def required_fields(s: Any) -> list[Any]:
    class Inner(s.Record):  # type: ignore[misc]
        a = s.Integer(required=True)

    class Strict(s.Record):  # type: ignore[misc]
        a = s.Integer(required=True)
        b = s.String(required=True)
        inner = Inner(required=True)

    return [
        Strict.schema(), plain(Strict()), round_trip(s, Strict, Strict(a=1, b="x", inner=Inner(a=2))),
        *(seen(lambda name=name: Strict(**{name: None})) for name in ("a", "b", "inner")),
        seen(lambda: s.AvroSchema(Strict).encode(Strict())),
    ]  # fmt: skip


@program
def nulls(s: Any) -> list[Any]:
    class Inner(s.Record):  # type: ignore[misc]
        a = s.Integer()

    class Outer(s.Record):  # type: ignore[misc]
        nothing = s.Null()
        also = s.Null(required=True)
        inner = Inner()
        many = s.Array(Inner())

    value = Outer(inner=None)
    return [round_trip(s, Outer, value), round_trip(s, Outer, Outer()), seen(lambda: Outer(nothing=1))]


@program
def order_and_inheritance(s: Any) -> list[Any]:
    class Plain(s.Record):  # type: ignore[misc]
        z = s.String()
        a = s.String()

    class Sorted(s.Record):  # type: ignore[misc]
        _sorted_fields = True
        z = s.String()
        a = s.String()

    class OfPlain(Plain):
        q = s.String()

    class OfSorted(Sorted):
        q = s.String()
        c = s.String()

    class Spaced(s.Record):  # type: ignore[misc]
        _avro_namespace = "space"
        x = s.Integer()

    class OfSpaced(Spaced):
        y = s.Integer()

    kinds = (Plain, Sorted, OfPlain, OfSorted, Spaced, OfSpaced)
    return [*(kind.schema() for kind in kinds), list(OfPlain._fields), round_trip(s, OfPlain, OfPlain(q="1"))]


@program
def a_type_that_is_used_again(s: Any) -> list[Any]:
    class Inner(s.Record):  # type: ignore[misc]
        _avro_namespace = "one"
        a = s.Integer()

    class Outer(s.Record):  # type: ignore[misc]
        _avro_namespace = "two"
        a = Inner
        b = Inner()
        c = s.Array(Inner())
        d = Color
        e = s.CustomEnum(Color)

    return [Outer.schema(), round_trip(s, Outer, Outer(a=Inner(a=1), c=[Inner(a=2)], d=Color.RED, e=Color.GREEN))]


@program
def values_that_are_converted_or_refused(s: Any) -> list[Any]:
    class Item(s.Record):  # type: ignore[misc]
        ratio = s.Float()
        exact = s.Double()
        data = s.Bytes()
        text = s.String()
        count = s.Integer()
        yes = s.Boolean()
        texts = s.Array(s.String())
        counts = s.Map(s.Integer())

    bad = [
        {"yes": 1}, {"text": 5}, {"count": 1.0}, {"ratio": "1"}, {"texts": [1]}, {"texts": "x"}, {"texts": (1,)},
        {"counts": {1: 1}}, {"counts": {"a": "x"}}, {"counts": []},
    ]  # fmt: skip
    return [
        round_trip(s, Item, Item(ratio=1, exact=2, data="x", text=b"y", count=3, yes=True)),
        *(seen(lambda one=one: Item(**one)) for one in bad),
        seen(lambda: setattr(Item(), "unknown", 1)), plain(Item(unknown=1)),
    ]  # fmt: skip


@program
def the_methods_of_fields(s: Any) -> list[Any]:
    class Sub(s.Record):  # type: ignore[misc]
        a = s.Integer()

    fields = [
        s.Null(), s.Boolean(), s.Integer(5), s.Long(5, True), s.Float(), s.Double(), s.Bytes(),
        s.String("x", True, True),
        s.CustomEnum(Color, Color.RED, True, True), s.Array(s.Integer(), [1], True, True), s.Map(s.String()),
    ]  # fmt: skip
    sub = Sub(Sub(a=1), True, True)
    return [
        *((one.type(), one.schema(), one.schema_info(set()), one.default(), one.required_default()) for one in fields),
        sub.type(), plain(sub.default()), sub.required_default(), Sub().python_type().__name__,
    ]  # fmt: skip


@program
def a_record_with_methods(s: Any) -> list[Any]:
    class Counter(s.Record):  # type: ignore[misc]
        STEP = 5
        count = s.Integer(default=1)
        type = s.String()

        def __init__(self, *args: Any, **fields: Any) -> None:
            super().__init__(*args, **fields)

        def next(self) -> int:
            return int(self.count + self.STEP)

        @property
        def double(self) -> int:
            return int(self.count * 2)

    value = Counter(count=2)
    return [Counter.schema(), value.next(), value.double, plain(value)]


@program
def contents_of_the_wrong_class(s: Any) -> list[Any]:
    class One(s.Record):  # type: ignore[misc]
        a = s.Integer()

    class Other(s.Record):  # type: ignore[misc]
        a = s.Integer()

    calls = [
        lambda: s.JsonSchema(One).encode(Other(a=1)), lambda: s.AvroSchema(One).encode(Other(a=1)),
        lambda: s.JsonSchema(One).encode({"a": 1}), lambda: s.AvroSchema(One).encode("x"),
        lambda: s.StringSchema().encode(b"x"), lambda: s.StringSchema().encode(1), lambda: s.BytesSchema().encode("x"),
        lambda: s.StringSchema().decode(b"\xff"), lambda: plain(s.JsonSchema(One).decode(b'{"a": 1, "more": 2}')),
    ]  # fmt: skip
    return [*map(seen, calls)]


@program
def a_definition_of_ones_own(s: Any) -> list[Any]:
    definition = {
        "doc": "words", "namespace": "x", "type": "record", "name": "Company", "fields": [
            {"name": "name", "type": ["null", "string"]},
            {"name": "since", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "labels", "type": {"type": "map", "values": "string"}},
        ],
    }  # fmt: skip
    schema = s.AvroSchema(None, schema_definition=definition)
    value = {"name": None, "since": datetime(2020, 1, 1, tzinfo=timezone.utc), "labels": {"a": "b"}}
    payload = schema.encode(value)
    return [
        payload, schema.decode(payload), json.loads(schema.schema_info().schema()), seen(lambda: schema.encode("text")),
    ]  # fmt: skip


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_a_program_sees_the_same_with_both_clients(run: Program) -> None:
    assert run(ours) == run(pulsar.schema)
