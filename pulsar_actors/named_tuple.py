"""`NamedTuple` of the standard library, made faster: the import of the package makes two hundred classes of it.

To type checkers they are classes of `typing.NamedTuple`, and to programs they behave as such. That one compiles the
constructor of each class, and checks each annotation again: together a seventh of the time of the import. Here a
constructor is compiled once for each number of fields; a class has a copy of it with the names of its own fields.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING or sys.version_info >= (3, 14):  # from then on, a class has its annotations only when it is made
    from typing import NamedTuple
else:
    from collections import _tuplegetter as field_at
    from functools import cache
    from types import CodeType, FunctionType

    _tuple_new = tuple.__new__

    @cache
    def _constructor(fields: int) -> CodeType:
        """Compile the constructor of a named tuple with so many fields."""
        names = "".join(f"_{at}, " for at in range(fields))
        return eval(f"lambda _cls, {names}: _tuple_new(_cls, ({names}))").__code__  # noqa: S307 - our own words

    class _Maker(type):
        """Makes a subclass of `tuple` from the fields that the body of a class lists."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            code = _constructor(len(fields)).replace(co_varnames=("_cls", *fields))
            new = FunctionType(code, globals(), "__new__", tuple(defaults.values()))
            new.__qualname__ = f"{name}.__new__"  # for the text of a TypeError
            made = {
                "__slots__": (),
                "_fields": fields,
                "_field_defaults": defaults,
                "__match_args__": fields,
                "__new__": new,
                "_make": classmethod(_make),
                "_replace": _replace,
                "__replace__": _replace,
                "_asdict": _asdict,
                "__getnewargs__": _getnewargs,
                "__repr__": _repr,
            }
            return type(
                name, (tuple,), {**made, **body, **{field: field_at(at, "") for at, field in enumerate(fields)}}
            )

    class NamedTuple(metaclass=_Maker):
        """The base to name in a class statement."""

    def _make(cls: Any, values: Iterable[Any]) -> Any:  # noqa: ANN401 - any named tuple, here and below
        """Make a tuple of an iterable, which has a value for each field."""
        made = _tuple_new(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **changes: Any) -> Any:  # noqa: ANN401
        """Return a tuple with other values in these fields."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise TypeError(f"got unexpected field names: {[*changes]}")
        return made

    def _asdict(self: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return a dict of the fields."""
        return dict(zip(self._fields, self, strict=True))

    def _getnewargs(self: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """Return the values, for pickle and copy."""
        return (*self,)

    def _repr(self: Any) -> str:  # noqa: ANN401
        """Format the tuple like the call that makes it."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"
