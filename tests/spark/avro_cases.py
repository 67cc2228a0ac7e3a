"""Schemas of records at random, and values for them, as fastavro takes them."""

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import strategies as st

__all__ = ["Case", "cases", "record"]

Case = tuple[dict[str, Any], list[dict[str, Any]]]

_DAY_ZERO = date(1970, 1, 1)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_MOMENTS = st.integers(-(10**15), 10**15).map(
    lambda us: datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(0, 0, us)
)
_WHOLE_MS = st.integers(-(10**12), 10**12).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(0, 0, 0, ms)
)

_SIMPLE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", _TEXT),
    ("bytes", st.binary(max_size=9)),
    ({"type": "int", "logicalType": "date"}, st.integers(-100_000, 100_000).map(lambda n: _DAY_ZERO + timedelta(n))),
    ({"type": "long", "logicalType": "timestamp-micros"}, _MOMENTS),
    ({"type": "long", "logicalType": "timestamp-millis"}, _WHOLE_MS),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _MOMENTS.map(lambda one: one.replace(tzinfo=None))),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    ),
]


def record(fields: list[tuple[str, Any]], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]}


def cases(*, without: tuple[str, ...] = ()) -> st.SearchStrategy[Case]:
    """Return schemas with some records each."""

    @st.composite
    def case(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
        definition, values = _Drawn(draw, without).record(depth=2)
        return definition, draw(st.lists(values, max_size=20))

    return case()


class _Drawn:
    """Types that are drawn at random: each is a definition, and a strategy for its values."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], without: tuple[str, ...]) -> None:
        self._draw = draw
        self._without = without
        self._numbers = count()

    def _name(self) -> str:
        return f"N{next(self._numbers)}"

    def record(self, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
        parts = [(f"f{number}", *self._type(depth)) for number in range(self._draw(st.integers(1, 4)))]
        values = st.fixed_dictionaries({name: strategy for name, _, strategy in parts})
        return record([(name, kind) for name, kind, _ in parts], self._name()), values

    def _type(self, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
        makers = {"nullable": self._nullable, "enum": self._enum, "fixed": self._fixed}
        if depth:
            makers |= {"record": self.record, "array": self._array, "map": self._map}
        names = ["simple"] * 6 + [*makers, "nullable"]
        name = self._draw(st.sampled_from([one for one in names if one not in self._without]))
        return makers[name](depth - (name != "nullable")) if name in makers else self._simple()

    def _simple(self) -> tuple[Any, st.SearchStrategy[Any]]:
        pair: tuple[Any, st.SearchStrategy[Any]] = self._draw(st.sampled_from(_SIMPLE))
        return pair

    def _nullable(self, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
        kind, values = self._type(depth)
        if isinstance(kind, list):
            return kind, values
        return list(self._draw(st.permutations(["null", kind]))), st.none() | values

    def _enum(self, _: int) -> tuple[Any, st.SearchStrategy[Any]]:
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": self._name(), "symbols": symbols}, st.sampled_from(symbols)

    def _fixed(self, _: int) -> tuple[Any, st.SearchStrategy[Any]]:
        return {"type": "fixed", "name": self._name(), "size": 5}, st.binary(min_size=5, max_size=5)

    def _array(self, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
        kind, values = self._type(depth)
        return {"type": "array", "items": kind}, st.lists(values, max_size=4)

    def _map(self, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
        kind, values = self._type(depth)
        return {"type": "map", "values": kind}, st.dictionaries(_TEXT, values, max_size=4)
