"""Classes of other packages as schemas: pydantic models, attrs, msgspec; each if it is installed."""

import json
from typing import Any

import pytest

from pulsar_actors.exceptions import UndecodableMessage
from pulsar_actors.schema import AvroSchema, JsonSchema

both = pytest.mark.parametrize("make", [AvroSchema, JsonSchema])


@both
def test_a_pydantic_model_comes_back_by_its_aliases(make: Any) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        name: str = pydantic.Field(alias="theName")
        tags: list[str] = []  # noqa: RUF012 - it is copied
        parts: dict[str, int] = {}  # noqa: RUF012 - it is copied
        note: str | None = None

    schema, value = make(Model), Model(theName="x", tags=["a"], parts={"b": 1})
    assert schema.decode(schema.encode(value)) == value
    assert json.loads(schema.schema_info().schema())["fields"][0] == {"name": "theName", "type": "string"}
    with pytest.raises(UndecodableMessage):
        JsonSchema(Model).decode(b'{"theName": 5}')


@both
def test_a_class_of_attrs_comes_back(make: Any) -> None:
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Item:
        _name: str
        tags: list[str] = attrs.field(factory=list)
        count: int = 5

    schema, value = make(Item), Item(name="x", tags=["a"])
    assert schema.decode(schema.encode(value)) == value


@both
def test_a_struct_of_msgspec_comes_back_by_its_names(make: Any) -> None:
    msgspec = pytest.importorskip("msgspec")

    class Item(msgspec.Struct, rename="camel"):  # type: ignore[misc, name-defined, call-arg]
        item_name: str
        tags: list[str] = []  # noqa: RUF012 - it is copied
        count: int = 5

    schema, value = make(Item), Item("x", ["a"])
    assert schema.decode(schema.encode(value)) == value
    assert json.loads(schema.schema_info().schema())["fields"][0]["name"] == "itemName"
