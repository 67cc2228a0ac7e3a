"""Play the simulation against each planted bug until a seed catches it.

    python -m tests.planted [--seeds 1000] [--only WORDS] [--processes 2] [--json FILE]

A bug is planted into a copy of the package, and the scenarios of `rounds.py` are played in turn, seed by seed. For the
bugs of Spark's side, PySpark must be there.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.planted.bugs import BUGS, Bug

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 1000
SLOW = 3000.0


class Caught(NamedTuple):
    """What came of one bug: the number of the first seed that fails, counted from 1, and how. 0: none did."""

    bug: str
    seeds: int
    scenario: str
    how: str


def plant(bug: Bug, folder: Path) -> Path:
    """Copy the package and the tests, plant the bug, and return the folder of the copies."""
    for name in ("pulsar_actors", "tests"):
        ignore = shutil.ignore_patterns("__pycache__", "corpus", "vectors")
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    file = folder / "pulsar_actors" / bug.file
    text = file.read_text()
    if text.count(bug.text) != 1:
        raise ValueError(f"{bug.name}: its text is there {text.count(bug.text)} times")
    file.write_text(text.replace(bug.text, bug.instead))
    return folder


def catch(bug: Bug, seeds: int) -> Caught:
    """Plant a bug, and play until a seed fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = plant(bug, Path(name))
        ran = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-m", "tests.planted.rounds", str(seeds), *(["spark"] if bug.is_of_spark else [])],
            cwd=folder,
            env={"PYTHONPATH": name, "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=SLOW,
        )
    if ran.returncode == 0:
        return Caught(bug.name, 0, "", "")
    try:
        found = json.loads(ran.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return Caught(bug.name, 1, "import", ran.stderr[-200:])
    return Caught(bug.name, found["seeds"], found["scenario"], found["how"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="the most that are played (default: %(default)s)")
    parser.add_argument("--only", default="", help="bugs with these words in their names")
    parser.add_argument("--processes", type=int, default=2, help="at once (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="a file for what came of each")
    given = parser.parse_args(arguments)
    wanted = [bug for bug in BUGS if given.only in bug.name]
    caught: list[Caught] = []
    with ThreadPoolExecutor(given.processes) as pool:
        for one in pool.map(lambda bug: catch(bug, given.seeds), wanted):
            caught.append(one)
            print(f"{one.seeds or 'never':>5}  {one.bug}  ({one.scenario}: {one.how[:100]})", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([one._asdict() for one in caught], indent=1))
    seeds = [one.seeds for one in caught if one.seeds]
    middle = statistics.median(seeds or [0])
    print(
        f"{len(seeds)} of {len(caught)} caught, the median by seed {middle:g}, the last by seed {max(seeds, default=0)}"
    )
    return int(len(seeds) < len(caught))


if __name__ == "__main__":
    sys.exit(main())
