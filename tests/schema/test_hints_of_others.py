"""Classes of other packages as schemas: pydantic models, attrs, msgspec."""

import json
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from pulsar_actors.exceptions import UndecodableMessage
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
