"""The named tuples of the package and those of `typing` do the same."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import typing
from collections.abc import Callable
from typing import Any

import pytest

import pulsar_actors
from pulsar_actors.named_tuple import NamedTuple


class OursEmpty(NamedTuple):
    """No fields."""


class TheirsEmpty(typing.NamedTuple):
    """No fields."""


class Ours(NamedTuple):
    """Some fields."""

    first: int
    second: "str | Unknown" = "b"  # type: ignore[name-defined] # noqa: F821
    third: Any = None

    kind = "a constant"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"

    @classmethod
    def of(cls, first: int) -> "Ours":
        return cls(first)


class Theirs(typing.NamedTuple):
    """Some fields."""

    first: int
    second: "str | Unknown" = "b"  # type: ignore[name-defined] # noqa: F821
    third: Any = None

    kind = "a constant"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"

    @classmethod
    def of(cls, first: int) -> "Theirs":
        return cls(first)


class OursShown(NamedTuple):
    """A repr of its own."""

    secret: str

    def __repr__(self) -> str:
        return f"{len(self)} secrets"


class TheirsShown(typing.NamedTuple):
    """A repr of its own."""

    secret: str

    def __repr__(self) -> str:
        return f"{len(self)} secrets"


def matched(made: Any) -> Any:
    match made:
        case Ours(first, third=third) | Theirs(first, third=third):
            return first, third
        case _:
            return None


TWINS: list[tuple[Any, Any]] = [(OursEmpty, TheirsEmpty), (Ours, Theirs), (OursShown, TheirsShown)]
SIGHTS: list[Callable[[Any], Any]] = [
    lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__slots__, kind.__bases__),
    lambda kind: (kind.__doc__, kind.__module__, [*kind.__annotations__], type(kind), issubclass(kind, tuple)),
    lambda kind: [(one.name, one.default, one.kind) for one in inspect.signature(kind).parameters.values()],
    lambda kind: (kind.__new__.__name__, kind.__new__.__defaults__, [*inspect.signature(kind.__new__).parameters]),
]
USES: list[Callable[[Any], Any]] = [
    lambda kind: (kind(1), kind(1, "c"), kind(third=3, first=1), kind._make((1, 2, 3)), kind.of(7)),
    lambda kind: kind(1) == (1, "b", None) and hash(kind(1)) == hash((1, "b", None)),
    lambda kind: repr(kind(1, "c", [kind(2)])),
    lambda kind: (kind(1).first, kind(1).both, kind(1).kind, kind(1)[1], [*kind(1)], len(kind(1)), kind(1) < kind(2)),
    lambda kind: (kind(1)._replace(third=5, first=2), kind(1)._asdict(), matched(kind(1, third=2))),
    lambda kind: (copy.copy(kind(1)), copy.deepcopy(kind(1, [2])), pickle.loads(pickle.dumps(kind(1)))),  # noqa: S301
    lambda kind: type(pickle.loads(pickle.dumps(kind(1), protocol=0))) is kind,  # noqa: S301
    lambda kind: type(kind("a", "b").second),
]
REFUSALS: list[Callable[[Any], Any]] = [
    lambda kind: kind(),
    lambda kind: kind(1, 2, 3, 4),
    lambda kind: kind(1, fourth=4),
    lambda kind: kind._make((1, 2)),
    lambda kind: kind(1)._replace(fourth=4),
    lambda kind: setattr(kind(1), "first", 2),
    lambda kind: setattr(kind(1), "fourth", 2),
]


@pytest.mark.parametrize(("ours", "theirs"), TWINS)
@pytest.mark.parametrize("sight", SIGHTS)
def test_a_class_shows_the_same(ours: Any, theirs: Any, sight: Callable[[Any], Any]) -> None:
    assert sight(ours) == sight(theirs)


@pytest.mark.parametrize("use", USES)
def test_a_tuple_does_the_same(use: Callable[[Any], Any]) -> None:
    assert repr(use(Ours)).replace("Ours", "Theirs") == repr(use(Theirs))


@pytest.mark.parametrize("refused", REFUSALS)
def test_a_mistake_raises_the_same(refused: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, AttributeError, ValueError)) as theirs:  # a ValueError, before Python 3.13
        refused(Theirs)
    with pytest.raises((TypeError, AttributeError)) as ours:
        refused(Ours)
    assert str(ours.value).replace("Ours", "Theirs").lower() == str(theirs.value).lower()


def test_a_tuple_may_be_empty_or_have_methods_of_its_own() -> None:
    assert (OursEmpty(), repr(OursEmpty()), repr(OursShown("x"))) == ((), "OursEmpty()", "1 secrets")
    assert pickle.loads(pickle.dumps(OursEmpty())) == OursEmpty()  # noqa: S301 - our own pickle


def test_defaults_of_the_package_are_at_the_end_of_their_tuples() -> None:
    """`typing` refuses another order when a class is made; type checkers do, of those of the package."""
    names = [
        one.name for one in pkgutil.walk_packages(pulsar_actors.__path__, "pulsar_actors.") if "spark" not in one.name
    ]
    classes = {
        kind for name in names for kind in vars(importlib.import_module(name)).values() if isinstance(kind, type)
    }
    tuples = [kind for kind in classes if issubclass(kind, tuple) and hasattr(kind, "_field_defaults")]
    assert len(tuples) > 200
    for kind in tuples:
        defaults = tuple(kind._field_defaults)
        assert kind._fields[len(kind._fields) - len(defaults) :] == defaults
