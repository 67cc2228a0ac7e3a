"""The names of the official package that are not implemented yet, and a clear error for them.

A module calls `missing` for an attribute that it does not have. The error is an AttributeError, as for any module: so
`hasattr`, `getattr` with a default, and guarded imports work as usual.
"""

import sys
from typing import Final

__all__ = ["UNIMPLEMENTED", "missing"]


UNIMPLEMENTED: Final = {
    "pulsar_actors": frozenset[str](),
    "pulsar_actors.schema": frozenset[str](),
}
"""By module."""


def missing(module: str, name: str) -> AttributeError:
    """Make the error for a name that a module does not have.

    It refers to the module, so that Python can suggest names.
    """
    text = f"module {module!r} has no attribute {name!r}"
    if name in UNIMPLEMENTED[module]:
        text = f"{name}, which the official client has, is not there yet in {module}"
    return AttributeError(text, name=name, obj=sys.modules[module])
