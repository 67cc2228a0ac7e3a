"""`statecharts`: the command that draws every state chart, or checks the drawings against the charts.

Charts are found, not listed: every module of `PACKAGES` that declares a `CHART` gets a picture. Drawing and checking
make the same files; one writes them, and the other compares them.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import ModuleType
from typing import Final

from pulsar_actors import machines
from pulsar_actors.broker import session
from pulsar_actors.cli.command import Command
from pulsar_actors.cli.statecharts import drawings
from pulsar_actors.machines.chart import Chart
from pulsar_actors.statecharts.drawn_chart import find_charts

FOLDER: Final = Path("statecharts")
PACKAGES: Final = (machines, session)


def all_charts() -> list[tuple[Chart, ModuleType]]:
    """Find each chart with its module."""
    return find_charts(*PACKAGES)


def drift(folder: Path, expected: dict[str, bytes]) -> list[str]:
    """Return the differences between the folder and what would be drawn, one line for each."""
    problems: list[str] = []
    for name, content in expected.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{path} is missing")
        elif path.read_bytes() != content:
            problems.append(f"{path} differs from its chart")
    drawn = sorted(path for suffix in ("mmd", "svg") for path in folder.glob(f"*.{suffix}"))
    return problems + [f"{path} belongs to no chart; delete it" for path in drawn if path.name not in expected]


def write(folder: Path, expected: dict[str, bytes]) -> None:
    """Write every file."""
    folder.mkdir(exist_ok=True)
    for name, content in expected.items():
        (folder / name).write_bytes(content)


def run(arguments: Namespace) -> int:
    """Draw, or check; print the result, and return the exit status."""
    expected = drawings(all_charts())
    return _check(expected) if arguments.check else _draw(expected)


def _draw(expected: dict[str, bytes]) -> int:
    try:
        write(FOLDER, expected)
    except OSError as fault:  # a full disk does not say which file it had no room for
        print(f"cannot write {fault.filename or FOLDER}: {fault.strerror}", file=sys.stderr)
        return 1
    print(f"{FOLDER}: {len(expected)} files drawn")
    return 0


def _check(expected: dict[str, bytes]) -> int:
    problems = drift(FOLDER, expected)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("run `python -m pulsar_actors statecharts` to draw them again", file=sys.stderr)
    return 1 if problems else 0


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; name the files that differ or are missing, and exit with status 1 if there are any",
    )


STATECHARTS: Final = Command(
    name="statecharts",
    summary="Draw the state charts into the folder `statecharts` here: pictures, Mermaid sources and a page.",
    configure=configure,
    run=run,
)
