"""Classes of other packages as schemas: pydantic models, attrs, msgspec."""

import json
from datetime import timedelta
from ipaddress import IPv4Address
from typing import Any, Generic, TypeVar
from uuid import uuid4

import attrs
import msgspec
import pydantic
import pytest

from pulsar_actors.exceptions import InvalidArgument, UndecodableMessage
from pulsar_actors.schema import AvroSchema, JsonSchema

both = pytest.mark.parametrize("make", [AvroSchema, JsonSchema])


@both
def test_a_pydantic_model_comes_back_by_its_aliases(make: Any) -> None:
    class Model(pydantic.BaseModel):
        name: str = pydantic.Field(alias="theName")
        tags: list[str] = []
        parts: dict[str, int] = {}
        note: str | None = None

    schema, value = make(Model), Model(theName="x", tags=["a"], parts={"b": 1})
    assert schema.decode(schema.encode(value)) == value
    assert json.loads(schema.schema_info().schema())["fields"][0] == {"name": "theName", "type": "string"}
    with pytest.raises(UndecodableMessage):
        JsonSchema(Model).decode(b'{"theName": 5}')


@both
def test_a_class_of_attrs_comes_back(make: Any) -> None:
    @attrs.define
    class Item:
        _name: str
        tags: list[str] = attrs.field(factory=list)
        count: int = 5

    schema, value = make(Item), Item(name="x", tags=["a"])
    assert schema.decode(schema.encode(value)) == value


@both
def test_a_struct_of_msgspec_comes_back_by_its_names(make: Any) -> None:
    class Item(msgspec.Struct, rename="camel"):
        item_name: str
        tags: list[str] = []
        count: int = 5

    schema, value = make(Item), Item("x", ["a"])
    assert schema.decode(schema.encode(value)) == value
    assert json.loads(schema.schema_info().schema())["fields"][0]["name"] == "itemName"


T = TypeVar("T")


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


@both
def test_types_that_pydantic_knows_come_back(make: Any) -> None:
    class Site(pydantic.BaseModel):
        url: pydantic.AnyUrl
        address: IPv4Address
        took: timedelta
        size: pydantic.PositiveInt = 5
        maybe: pydantic.AnyUrl | None = None

    schema = make(Site)
    value = Site(url=pydantic.AnyUrl("http://a/"), address=IPv4Address("1.2.3.4"), took=timedelta(seconds=5))
    assert schema.decode(schema.encode(value)) == value
    types = [one["type"] for one in json.loads(schema.schema_info().schema())["fields"]]
    assert types == ["string", "string", "string", "long", ["null", "string"]]


@both
def test_a_generic_model_comes_back(make: Any) -> None:
    schema = make(Page[int])
    assert schema.decode(schema.encode(Page[int](items=[5]))) == Page[int](items=[5])
    assert json.loads(schema.schema_info().schema())["name"] == "Page_int"


@both
def test_models_without_fields_or_with_secrets_are_refused(make: Any) -> None:
    class Root(pydantic.RootModel[list[int]]):
        pass

    class Login(pydantic.BaseModel):
        password: pydantic.SecretStr

    with pytest.raises(InvalidArgument, match="root model"):
        make(Root)
    with pytest.raises(InvalidArgument, match="as stars"):
        make(Login)


def test_a_default_that_differs_each_time_is_not_in_the_definition() -> None:
    class Model(pydantic.BaseModel):
        key: str = pydantic.Field(default_factory=lambda: uuid4().hex)

    @attrs.define
    class Item:
        key: str = attrs.field(factory=lambda: uuid4().hex)

    class Struct(msgspec.Struct):
        key: str = msgspec.field(default_factory=lambda: uuid4().hex)

    for kind in (Model, Item, Struct):
        fields = json.loads(JsonSchema(kind).schema_info().schema())["fields"]
        assert fields == [{"name": "key", "type": "string"}]
