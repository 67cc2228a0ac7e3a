"""Codecs: how the values of one Python type are written to Avro and JSON, and read again.

A codec converts to and from the values that fastavro or Python's `json` takes. None in place of a function means that
the values stay as they are, so that most of them cost no call.
"""

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from pulsar_actors.named_tuple import NamedTuple

__all__ = [
    "SAME",
    "AvroType",
    "Codec",
    "Convert",
    "RecordType",
    "finite",
    "float_of_json",
    "in_list",
    "in_map",
    "items_of",
]

AvroType: TypeAlias = str | list[Any] | dict[str, Any]
"""An Avro schema as Python's `json` reads it."""

Convert: TypeAlias = Callable[[Any], Any]


class Codec(NamedTuple):
    """The functions of one type: `dump` before writing, `load` after reading. Both raise TypeError or ValueError."""

    dump: Convert | None = None
    load: Convert | None = None


SAME = Codec()


class RecordType(NamedTuple):
    """A class of records: its Avro schema, its codec, and the class that values are instances of.

    With `names_records`, fastavro gives the name of a record with it, because a union has several records.
    """

    avro: AvroType
    codec: Codec
    instances: type
    names_records: bool = False


NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON does not have: Java writes these texts."""


def float_of_json(value: Any) -> Any:  # noqa: ANN401 - of JSON
    """Read a float that may be one of those texts."""
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def finite(value: Any) -> Any:  # noqa: ANN401 - of JSON
    """Write those texts in place of the numbers."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case list():
            return [finite(one) for one in items_of(value)]
        case dict():
            return {key: finite(one) for key, one in cast("dict[str, Any]", value).items()}
        case _:
            return value


def items_of(values: Any) -> list[Any]:  # noqa: ANN401 - a list or a tuple
    """Return the items, of which type checkers know nothing."""
    return list(values)


def in_list(convert: Convert | None) -> Convert | None:
    """Convert each item of a list."""
    return None if convert is None else lambda values: [None if one is None else convert(one) for one in values]


def in_map(convert: Convert | None) -> Convert | None:
    """Convert each value of a dict."""
    if convert is None:
        return None
    return lambda values: {key: None if one is None else convert(one) for key, one in values.items()}
