"""What JSON may turn out to be: each of these takes a value for one thing, or refuses it with the words for another."""

from typing import Any, Final, cast

from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["MOST_PARTITIONS", "as_count", "as_flag", "as_number", "as_object", "as_strings"]

MOST_PARTITIONS: Final = 100_000
"""More than anybody needs: the partitions are made at once, and each of them takes memory."""


def as_object(value: object, what: str) -> dict[str, Any]:
    """Take an object."""
    if not isinstance(value, dict):
        raise HttpRefusal(400, f"{what} is a JSON object, not {excerpt(value)}")
    return cast("dict[str, Any]", value)


def as_strings(value: object, what: str) -> dict[str, str]:
    """Take an object with nothing but strings in it; none at all is an empty one."""
    if value is None:
        return {}
    for name, each in as_object(value, what).items():
        if not isinstance(each, str):
            raise HttpRefusal(400, f"{what} is an object of strings, and {excerpt(name)} has {excerpt(each)}")
    return cast("dict[str, str]", value)


def as_flag(value: object, what: str) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise HttpRefusal(400, f"{what} is true or false, not {excerpt(value)}")
    return value


def as_number(value: object, what: str) -> int:
    """Take a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise HttpRefusal(400, f"{what} is a whole number, not {excerpt(value)}")
    return value


def as_count(value: object, what: str) -> int:
    """Take a number that counts something."""
    if as_number(value, what) < 0:
        raise HttpRefusal(412, f"{what} is 0 or more, not {excerpt(value)}")
    return as_number(value, what)
