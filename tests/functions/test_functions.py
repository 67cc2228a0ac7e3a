"""The interface of Pulsar Functions is the official one, so that functions import it and are tested with it."""

import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import create_autospec

import pulsar as official
import pytest
from pulsar.functions import context as official_context
from pulsar.functions import function as official_function
from pulsar.functions import serde as official_serde

import pulsar_actors as ours
from pulsar_actors.functions.context import Context
from pulsar_actors.functions.function import Function
from pulsar_actors.functions.serde import IdentitySerDe, PickleSerDe, SerDe

PAIRS: list[tuple[type, type]] = [
    (Context, official_context.Context),
    (Function, official_function.Function),
    (SerDe, official_serde.SerDe),
    (PickleSerDe, official_serde.PickleSerDe),
    (IdentitySerDe, official_serde.IdentitySerDe),
]
each_pair = pytest.mark.parametrize(("here", "there"), PAIRS, ids=[pair[0].__name__ for pair in PAIRS])


def methods(owner: type) -> dict[str, list[tuple[str, Any]]]:
    return {
        name: [(one.name, one.default) for one in inspect.signature(method).parameters.values()]
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
    }


@each_pair
def test_every_method_has_the_official_arguments_and_defaults(here: type, there: type) -> None:
    assert methods(here) == methods(there)


@each_pair
def test_the_names_are_found_where_functions_import_them_from(here: type, there: type) -> None:
    name = here.__name__
    assert getattr(ours, name) is here
    assert getattr(ours.functions, name) is here
    assert hasattr(official, name)
    assert there.__module__.replace("pulsar.", "pulsar_actors.") == here.__module__


@each_pair
def test_nothing_forces_a_subclass_to_have_a_method(here: type, there: type) -> None:
    assert isinstance(type("Mine", (here,), {})(), here)
    abstract = [
        {name for name in methods(one) if getattr(getattr(one, name), "__isabstractmethod__", False)}
        for one in (here, there)
    ]
    assert abstract[0] - {"get_function_namespace"} == abstract[1] - {"get_function_namespace"}


def test_a_method_that_a_test_does_not_replace_returns_none() -> None:
    context = Context()
    for name, arguments in methods(Context).items():
        needed = [parameter for parameter, default in arguments[1:] if default is inspect.Parameter.empty]
        assert getattr(context, name)(*needed) is None
    assert Function().process("x", context) is None


def test_a_function_is_tested_with_a_context_of_the_test() -> None:
    class Copy(Function):
        def process(self, input: Any, context: Context) -> Any:  # noqa: A002 - the official name
            context.publish(context.get_user_config_value("to"), input, properties={"by": context.get_function_name()})
            return input * 2

    context = create_autospec(Context, instance=True)
    context.get_user_config_value.return_value = "copies"
    context.get_function_name.return_value = "copy"
    assert Copy().process("ab", context) == "abab"
    context.publish.assert_called_once_with("copies", "ab", properties={"by": "copy"})


# Conversions.

VALUES: list[Any] = [
    *(0, 12, -7, 2**70, 1.5, -0.0, float("inf"), 1e300, 1 + 2j, "", "text", "ä", "12", "nan", b"", b"12", b"\xff\x00"),
    *(True, None, [1], {"a": 1}, bytearray(b"x"), memoryview(b"x"), type("Sub", (str,), {})("x")),
]
STORED = [
    *(b"12", b"nan", b" 7 ", b"1_000", b"1.5", b"1e999", b"1+2j", b"text", b"", b"\xff", "ä".encode(), b"True"),
    *(b"0x10", b"9" * 5000, "already text", 12, None),
]


def outcome(call: Callable[[], Any]) -> tuple[type, str]:
    """The type of what a call returns or raises, and the text of the first."""
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - whatever the official client raises
        return type(error), ""
    return type(value), repr(value)


@pytest.mark.parametrize("value", VALUES, ids=lambda one: type(one).__name__)
def test_values_are_converted_as_in_the_official_client(value: Any) -> None:
    assert outcome(lambda: IdentitySerDe().serialize(value)) == outcome(
        lambda: official_serde.IdentitySerDe().serialize(value)
    )


@pytest.mark.parametrize("stored", STORED, ids=lambda one: repr(one)[:20])
def test_bytes_are_converted_as_in_the_official_client(stored: Any) -> None:
    assert outcome(lambda: IdentitySerDe().deserialize(stored)) == outcome(
        lambda: official_serde.IdentitySerDe().deserialize(stored)
    )


def test_a_value_that_cannot_be_converted_is_named_by_its_type() -> None:
    with pytest.raises(TypeError, match=r"^IdentitySerDe converts int, float, complex, str and bytes, not list$"):
        IdentitySerDe().serialize(["secret"])


def test_a_ctrl_c_while_bytes_are_converted_is_not_swallowed() -> None:
    class Interrupting(bytes):
        def decode(self, *_: Any, **__: Any) -> str:
            raise KeyboardInterrupt

    assert official_serde.IdentitySerDe().deserialize(Interrupting(b"12")) == b"12"
    with pytest.raises(KeyboardInterrupt):
        IdentitySerDe().deserialize(Interrupting(b"12"))


def test_pickles_are_read_by_the_official_client_and_the_reverse() -> None:
    value = {"a": [1, 2.5, None], "b": ("c",)}
    assert official_serde.PickleSerDe().deserialize(PickleSerDe().serialize(value)) == value
    assert PickleSerDe().deserialize(official_serde.PickleSerDe().serialize(value)) == value
