"""Reads the docstrings of the package for the reference: each argument, with an indented text, becomes a definition.

initial_position = InitialPosition.Latest
Where a new subscription begins.
"""

import re
from typing import Any, Final

import griffe

ARGUMENT: Final = re.compile(r"((?:^[a-z_*][\w, *]*(?: = [^\n]+)?\n)+)((?:^(?: {4}[^\n]*)?\n)+)", re.MULTILINE)


class Arguments(griffe.Extension):
    """Makes definition lists of what is said of arguments."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - of griffe
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = ARGUMENT.sub(_definition, obj.docstring.value + "\n")


def _definition(match: "re.Match[str]") -> str:
    names = "\n".join(f"`{name}`" for name in match[1].splitlines())
    text = match[2].rstrip("\n")
    return f"\n{names}\n:   {text.lstrip()}\n\n"
