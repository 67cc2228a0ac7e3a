"""Text on a terminal: no control characters of others, and faint text. A file or a pipe gets everything as it is."""

import os
import re
import sys
from typing import Final

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""The control characters, which a terminal would obey."""


def shown(text: str) -> str:
    """Return what is written of a text that others have made."""
    return _CONTROL.sub(_escaped, text) if sys.stdout.isatty() else text


def drop_output() -> None:
    """Write nothing any more, as nobody reads it. Otherwise Python would fail at its exit, when it writes the rest."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nothing, stream.fileno())


def dimmed(text: str) -> str:
    """Return a text that is shown faintly."""
    return f"{_DIM}{text}{_PLAIN}" if sys.stdout.isatty() else text


def _escaped(found: "re.Match[str]") -> str:
    return f"\\x{ord(found[0]):02x}"
