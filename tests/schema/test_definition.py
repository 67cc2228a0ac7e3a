"""Records: the same definitions, values and bytes as those of the official client."""

import enum
import json
import pickle
from typing import Any

import pulsar.schema
import pytest

import pulsar_actors.schema as ours
from pulsar_actors.exceptions import InvalidArgument, InvalidMessage, UndecodableMessage, WrongContent


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Word(enum.Enum):
    YES = "ja"
    NO = "nein"


def everything(module: Any) -> tuple[Any, Any]:
    class Inner(module.Record):  # type: ignore[misc]
        a = module.Integer()
        b = module.String(required=True)

    class Outer(module.Record):  # type: ignore[misc]
        _avro_namespace = "x.y"
        z = module.String()
        b = module.Integer(default=5, required_default=True)
        c = module.Array(module.String())
        d = module.Map(Inner())
        e = Color
        f = Inner
        g = module.CustomEnum(Color, required=True, default=Color.RED, required_default=True)
        h = module.Boolean()
        i = module.Bytes()
        j = module.Double()
        k = module.Array(Inner())
        m = module.Null()
        n = module.Float(default=1.5)
        o = module.Long(required=True, default=7)

    class Sorted(Outer):
        _sorted_fields = True
        z = module.String()
        a = module.String(default="x", required_default=True, required=True)

    return (Outer, Inner, Sorted), Outer(
        z="x", c=["1"], d={"k": Inner(a=1, b="q")}, e=Color.BLUE, f=Inner(b="z"), i=b"hi", j=1, k=[{"a": 1, "b": "2"}]
    )


OURS, OUR_VALUE = everything(ours)
OFFICIAL, OFFICIAL_VALUE = everything(pulsar.schema)


@pytest.mark.parametrize("index", range(3))
def test_a_definition_is_that_of_the_official_client(index: int) -> None:
    assert OURS[index].schema() == OFFICIAL[index].schema()


@pytest.mark.parametrize("kind", ["JsonSchema", "AvroSchema"])
def test_what_one_client_writes_the_other_reads(kind: str) -> None:
    our, official = getattr(ours, kind)(OURS[0]), getattr(pulsar.schema, kind)(OFFICIAL[0])
    assert json.loads(our.schema_info().schema()) == json.loads(official.schema_info().schema())
    assert our.decode(official.encode(OFFICIAL_VALUE)) == OUR_VALUE
    assert official.decode(our.encode(OUR_VALUE)) == OFFICIAL_VALUE
    assert our.decode(our.encode(OUR_VALUE)) == OUR_VALUE


def test_enums_in_arrays_and_maps_are_defined_once() -> None:
    class Paint(ours.Record):
        first = ours.CustomEnum(Color)
        list = ours.Array(ours.CustomEnum(Color))
        map = ours.Map(ours.CustomEnum(Color))

    assert Paint.schema()["fields"][1]["type"][1] == {"type": "array", "items": "Color"}  # type: ignore[index, call-overload]
    value = Paint(first=Color.RED, list=[Color.BLUE], map={"a": Color.RED})
    for schema in (ours.AvroSchema(Paint), ours.JsonSchema(Paint), ours.JsonSchema(Paint, java_style=True)):
        assert schema.decode(schema.encode(value)) == value


def test_a_text_that_is_the_value_of_an_enum_comes_back_from_json() -> None:
    class Answer(ours.Record):
        word = ours.CustomEnum(Word)

    schema = ours.JsonSchema(Answer)
    assert schema.encode(Answer(word=Word.YES)) == b'{"word":"ja"}'
    assert schema.decode(b'{"word":"ja"}') == schema.decode(b'{"word":"YES"}') == Answer(word=Word.YES)


def test_each_record_has_its_own_sub_record() -> None:
    one, other = OURS[0](), OURS[0]()
    one.f.a = 5
    assert (one.f.a, other.f.a) == (5, None)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("z", 5, TypeError), ("b", "x", TypeError), ("b", 2**31, InvalidArgument), ("o", 2**63, InvalidArgument),
        ("c", [5], TypeError), ("d", {"a": 5}, TypeError), ("d", {5: None}, TypeError), ("e", "PINK", TypeError),
        ("f", 5, TypeError), ("i", 5, TypeError), ("m", 5, TypeError), ("o", None, TypeError),
        ("new", 5, AttributeError),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_when_it_is_assigned(field: str, value: Any, error: type) -> None:
    record = OURS[0]()
    with pytest.raises(error):
        setattr(record, field, value)


def test_a_required_field_without_a_value_is_refused_when_it_is_sent() -> None:
    for schema in (ours.JsonSchema(OURS[1]), ours.AvroSchema(OURS[1])):
        with pytest.raises(WrongContent, match=r"Inner\.b is required"):
            schema.encode(OURS[1]())


def test_java_style_json_has_names_base64_and_no_nulls() -> None:
    class Item(ours.Record):
        color = Color
        data = ours.Bytes()
        note = ours.String()

    schema, value = ours.JsonSchema(Item, java_style=True), Item(color=Color.RED, data=b"\xff")
    assert schema.encode(value) == b'{"color":"RED","data":"/w=="}'
    assert schema.decode(schema.encode(value)) == value
    with pytest.raises(InvalidMessage, match="java_style=True"):
        ours.JsonSchema(Item).encode(value)


def test_json_ignores_unknown_fields_and_gives_defaults_for_missing_ones() -> None:
    schema = ours.JsonSchema(OURS[0])
    assert schema.decode(b'{"unknown": 1}') == OURS[0]()
    for bad in (b"", b"[]", b'{"b": "x"}', b"{", b"\xff"):
        with pytest.raises(UndecodableMessage):
            schema.decode(bad)


def test_a_schema_pickles() -> None:
    schema = pickle.loads(pickle.dumps(ours.AvroSchema(None, OURS[0].schema())))  # noqa: S301 - our own
    assert schema.schema_info() == ours.AvroSchema(OURS[0]).schema_info()


def test_importing_everything_brings_every_name() -> None:
    names: dict[str, Any] = {}
    exec("from pulsar_actors.schema import *", names)  # noqa: S102 - the line of a user
    official = {name for name in dir(pulsar.schema) if name[0].isupper()}
    assert official <= names.keys()
    assert set(ours.__all__) <= names.keys()


def test_defaults_are_written_as_avro_wants_them() -> None:
    class Inner(ours.Record):
        a = ours.Integer()

    class Outer(ours.Record):
        data = ours.Bytes(default=b"\xff", required_default=True)
        inner = Inner(default=Inner(a=5), required_default=True)
        colors = ours.Array(ours.CustomEnum(Color), default=[Color.RED], required_default=True)

    fields: Any = Outer.schema()
    assert [one["default"] for one in fields["fields"]] == ["\xff", {"a": 5}, ["RED"]]


def test_records_do_not_share_a_default_list() -> None:
    class Basket(ours.Record):
        items = ours.Array(ours.Integer(), default=[1])

    one, other = Basket(), Basket()
    items: Any = one.items
    items.append(2)
    assert other == Basket() == Basket(items=[1])


def test_numbers_that_json_does_not_have_come_back() -> None:
    class Measured(ours.Record):
        value = ours.Double()
        more = ours.Array(ours.Float())

    value = Measured(value=float("inf"), more=[float("-inf")])
    plain, java = ours.JsonSchema(Measured), ours.JsonSchema(Measured, java_style=True)
    assert plain.decode(plain.encode(value)) == java.decode(java.encode(value)) == value
    assert plain.encode(value) == b'{"value":Infinity,"more":[-Infinity]}'
    assert java.encode(value) == b'{"value":"Infinity","more":["-Infinity"]}'


def test_a_type_reads_as_in_the_official_client() -> None:
    kind = ours.JsonSchema(OURS[0]).schema_info().schema_type()
    assert str(kind) == str(pulsar.schema.JsonSchema(OFFICIAL[0]).schema_info().schema_type())


def test_two_types_of_one_name_are_refused() -> None:
    def inner(field: Any) -> Any:
        return type("Inner", (ours.Record,), {"a": field})

    class Both(ours.Record):
        one = inner(ours.Integer())()
        other = ours.Array(inner(ours.String())())

    class Same(ours.Record):
        one = OURS[1]
        other = ours.Map(OURS[1]())

    for make in (ours.JsonSchema, ours.AvroSchema):
        with pytest.raises(InvalidArgument, match="two types of this schema have the name Inner"):
            make(Both)
        make(Same)
