"""The text of a program, and of a notebook: its cells of Python, without the lines that IPython reads itself."""

import json
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pulsar_actors.named_tuple import NamedTuple

PROGRAM: Final = ".py"
NOTEBOOK: Final = ".ipynb"
CHECKPOINTS: Final = ".ipynb_checkpoints"
"""The folder where Jupyter keeps copies of notebooks."""

_MAGIC: Final = re.compile(r"(\s*)([\w, ]+=\s*)?[%!?].*|(\s*)[\w.]+\?+\s*")
"""A line for IPython: `%pip install x`, `files = !ls`, `print?`."""

_AROUND_PYTHON: Final = ("%%time", "%%timeit", "%%capture", "%%prun")
"""The magics of a whole cell whose other lines are Python. Those of others may be in any language."""


class Program(NamedTuple):
    """A program: its text, and where each line of a notebook is, as a cell and a line in it."""

    path: Path
    text: str
    cells: Sequence[tuple[int, int]] = ()

    def place_of(self, line: int) -> str:
        """Return where a line is."""
        if not self.cells:
            return f"{self.path}:{line}"
        cell, within = self.cells[line - 1]
        return f"{self.path}: cell {cell}, line {within}"


def read_program(path: Path) -> Program:
    """Read a program or a notebook. Raise ValueError, OSError or SyntaxError if it is none."""
    if path.suffix == NOTEBOOK:
        return _of_notebook(path)
    with tokenize.open(path) as file:
        return Program(path, file.read())


def _of_notebook(path: Path) -> Program:
    try:
        lines = list(_lines_of(json.loads(path.read_text(encoding="utf-8"))))
    except (LookupError, TypeError, AttributeError) as fault:
        raise ValueError(f"it is no notebook ({type(fault).__name__}: {fault})") from None
    return Program(path, "".join(f"{line}\n" for _, line in lines), [place for place, _ in lines])


def _lines_of(notebook: Any) -> Iterator[tuple[tuple[int, int], str]]:  # noqa: ANN401 - JSON
    """Iterate over the lines of Python, each with its cell and its line in it, both from 1 on."""
    language = notebook.get("metadata", {}).get("language_info", {}).get("name", "python")
    if language != "python":
        raise ValueError(f"its language is {language}")
    for number, cell in enumerate(notebook["cells"], 1):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or (source.startswith("%%") and not source.startswith(_AROUND_PYTHON)):
            continue
        for within, line in enumerate(source.splitlines(), 1):
            magic = _MAGIC.fullmatch(line)
            yield (number, within), line if magic is None else f"{magic[1] or magic[3] or ''}pass"
