import pickle
from typing import Annotated

import pytest

from pulsar_actors.client import validation as check
from pulsar_actors.client.options import Options
from pulsar_actors.exceptions import InvalidArgument


class Chosen(Options):
    topic: Annotated[str, check.text]
    size: Annotated[int, check.whole_number(1)] = 5
    name: Annotated[str | None, check.optional(check.text)] = None


class Also(Chosen):
    """A kind of the same options."""


def test_options_are_given_in_order_or_by_name_and_others_have_their_default() -> None:
    one, two = Chosen("t", 7), Chosen(name="n", topic="t")
    assert Chosen.names == Also.names == ("topic", "size", "name")
    assert [(each.topic, each.size, each.name) for each in (one, two)] == [("t", 7, None), ("t", 5, "n")]


@pytest.mark.parametrize(
    ("in_order", "by_name", "text"),
    [
        ((), {"size": 5}, "Chosen needs topic"),
        (("t",), {"width": 5}, "Chosen takes no width"),
        (("t",), {"check_all": 5}, "Chosen takes no check_all"),
        (("t",), {"topic": "t"}, "takes it once"),
        (("t", 5, None, 5), {}, "Chosen takes 3 arguments, got 4"),
    ],
)
def test_wrong_arguments_are_refused_as_by_any_call(
    in_order: tuple[object], by_name: dict[str, object], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        Chosen(*in_order, **by_name)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Chosen, Also])
def test_each_option_is_checked_and_tidied(kind: type[Chosen]) -> None:
    assert kind("t", name="").name is None
    with pytest.raises(InvalidArgument, match="size takes"):
        kind("t", 0)


def test_options_cannot_be_changed_but_replaced_and_are_checked_again() -> None:
    options = Also("t", name="n")
    with pytest.raises(AttributeError, match="Also cannot be changed"):
        options.size = 7  # type: ignore[misc]
    assert options.replace(size=7) == Also("t", 7, "n")
    with pytest.raises(InvalidArgument, match="size takes"):
        options.replace(size=0)


def test_options_with_equal_values_are_equal_also_as_pickles() -> None:
    assert Chosen("t") == Chosen("t", 5) == pickle.loads(pickle.dumps(Chosen("t")))  # noqa: S301 - our own pickle
    assert Chosen("t") != Chosen("t", 6)
    assert Chosen("t") != Also("t")


def test_a_repr_shows_no_values_because_some_are_secrets() -> None:
    assert repr(Chosen("secret", name="s")) == "<Chosen: topic, name>"
