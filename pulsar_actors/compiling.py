"""Annotations for mypyc, which compiles some modules (`compiled` in pyproject.toml). Elsewhere they have no effect.

mypyc knows `mypyc_attr` by its name in `mypy_extensions`, and does not call it. So that package is needed to compile
and to check types, and no user has to install it.

Compiled functions check their arguments by the annotations. The arguments of public calls are `Given`, which turns that
off, because our own checks name the argument and its allowed values.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, Union

__all__ = ["Given", "mypyc_attr"]

COMPILING = False
"""True for mypyc, which reads types, but does not run this: setup.py and the settings of the type checkers say so."""

T = TypeVar("T")

if not COMPILING:
    Given: TypeAlias = Annotated[T, "as the caller gave it"]
else:
    Given: TypeAlias = Union[T, Any]  # noqa: UP007 - an alias with a parameter

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_: bool) -> Callable[[type[T]], type[T]]:
        """Return the class as it is."""
        return lambda kind: kind
