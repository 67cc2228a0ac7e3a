"""The results of a run of `compare.py`, which a JSON file keeps: pages are drawn again from it, and runs compared."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.measured import Line


class Warming(NamedTuple):
    """How many rounds the broker was warmed, and the official client's rates in them, by contest."""

    rounds: int
    settled: bool
    rates: dict[str, list[float]]


@dataclass
class Results:
    """All that was measured, as far as the run came. `parts` are the tables, by their names in `page.py`."""

    date: str
    machine: str
    builds: list[str]
    rounds: int
    warming: Warming | None = None
    parts: dict[str, list[Line]] = field(default_factory=dict)
    peak_mebibytes: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the file; a run that is interrupted meanwhile leaves the file as it was."""
        whole: dict[str, Any] = dict(vars(self))
        whole["warming"] = self.warming and self.warming._asdict()
        whole["parts"] = {part: [_plain(line) for line in lines] for part, lines in self.parts.items()}
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(json.dumps(whole, indent=1))
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read a file."""
        whole = json.loads(path.read_text())
        whole["warming"] = whole["warming"] and Warming(**whole["warming"])
        whole["parts"] = {part: [Line(**line) for line in lines] for part, lines in whole["parts"].items()}
        return cls(**whole)


def _plain(line: Line) -> dict[str, Any]:
    return {name: dict(value) if name == "mebibytes" else value for name, value in line._asdict().items()}
