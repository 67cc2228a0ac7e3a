"""Compare this client with the official Python client and the Java client, on a real broker.

    python tests/benchmarks/compare.py [--rounds 7] [--only WORDS] [--python PATH]... [--json FILE]
    python tests/benchmarks/compare.py --from FILE [--against FILE]

It starts an Apache Pulsar and a process of each client, which take turns: first on brokers that have just started, a
new one for each round; then on a warm one. It writes `docs/benchmarks.md` and `docs/benchmarks.svg`, unless it has
fewer than seven rounds, or is told to do less; every figure there was measured in the run. It needs Java, Maven and
`pulsar-client`, 70 GiB of disk, and about 40 minutes for two interpreters.

Without `--python` it takes the interpreter that runs it, and one of each other version that is on the machine, and
makes environments for these (`interpreters.py`). This client is measured from the checkout. To measure it compiled,
too, install a wheel that was built with `PULSAR_ACTORS_COMPILE=1` into an environment, and name its interpreter.

Results are in a JSON file, which is written after each contest. `--from` takes them from there: it writes the page
again, also that of a run which was interrupted, or compares them with others.
"""

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.client_process import Worker, WorkerEnded  # noqa: E402
from tests.benchmarks.comparison import (  # noqa: E402
    FRESH_WARM_UP,
    Answers,
    Comparison,
    Participant,
    broker,
    connected,
    described,
    lines_of,
    machine,
    warm,
    workers,
)
from tests.benchmarks.contests import CONTESTS, Contest  # noqa: E402
from tests.benchmarks.footprint import footprint  # noqa: E402
from tests.benchmarks.interpreters import Build, builds, found  # noqa: E402
from tests.benchmarks.measured import Line  # noqa: E402
from tests.benchmarks.page import DEFAULTS, FRESH, WARM, changes, page, table  # noqa: E402
from tests.benchmarks.picture import picture  # noqa: E402
from tests.benchmarks.results import Results  # noqa: E402

START_AND_MEMORY = "start and memory"

DISK_BYTES, DISK_BYTES_OF_ONE = 70 << 30, 16 << 30
"""What the brokers of a whole run write, and of one contest with its warm-up."""

ROUNDS = 7
"""Rounds of a run whose results are published, at the least."""


class Run:
    """A run of all contests whose names have some words."""

    def __init__(self, results: Results, path: Path, everybody: Sequence[Build], only: str) -> None:
        self.results = results
        self._rounds = results.rounds
        self._path = path
        self._builds = everybody
        self._main = [build for build in everybody if build.version == everybody[0].version]
        self._only = only
        self._contests = [contest for contest in CONTESTS if only in contest.name]
        self._running: Mapping[Participant, Worker] = {}

    def run(self) -> None:
        """Run, with the same processes of the clients on all brokers."""
        with workers(self._builds) as running:
            self._running = running
            self.on_fresh_brokers()
            self.on_a_warm_broker()

    def on_fresh_brokers(self) -> None:
        """Hold some contests once on each of several brokers, each of which has just started."""
        contests = [contest for contest in self._contests if contest.fresh]
        if not contests:
            return
        answers: dict[str, Answers] = {contest.name: {} for contest in contests}
        with self._comparison() as comparison:
            taking_part = {contest.name: comparison.participants(contest, self._builds) for contest in contests}
            for number in range(FRESH_WARM_UP):
                for contest in contests:
                    comparison.round(contest, taking_part[contest.name], number)
        for number in range(self._rounds):
            with self._comparison() as comparison:
                for contest in contests:
                    for one, answer in comparison.round(contest, taking_part[contest.name], number).items():
                        answers[contest.name].setdefault(one, []).append(answer)
            self.results.parts[FRESH] = [
                line for contest in contests for line in lines_of(contest, answers[contest.name], self._builds)
            ]
            self.results.save(self._path)
        print(table(self.results.parts[FRESH]), flush=True)

    def on_a_warm_broker(self) -> None:
        """Warm a broker, hold all contests on it, then some with the clients' defaults; measure start and memory."""
        with self._comparison() as comparison:
            if self._contests:
                self.results.warming = warm(comparison)
                print(f"warmed, {self.results.warming.rounds} rounds: {self.results.warming.rates}", flush=True)
            for contest in self._contests:
                self._add(WARM, comparison.hold(contest, self._rounds, builds=self._of(contest)))
            for contest in self._contests:
                if contest.defaults:
                    held = comparison.hold(contest, self._rounds, builds=self._of(contest), defaults=True)
                    self._add(DEFAULTS, held)
            self.results.peak_mebibytes = {
                str(one): worker.ask(do="memory")["bytes"] / 2**20 for one, worker in self._running.items()
            }
            if self._only in START_AND_MEMORY:
                try:
                    for line in footprint(comparison.broker.service_url, self._rounds, self._main):
                        self._add(WARM, [line])
                except (WorkerEnded, subprocess.SubprocessError) as failed:
                    self.results.failures.append(f"{START_AND_MEMORY}: {failed}")
        self.results.save(self._path)

    def _of(self, contest: Contest) -> Sequence[Build]:
        """Return the builds that hold a contest on a warm broker: those of the first interpreter, or all."""
        return self._builds if contest.everywhere or self._only else self._main

    @contextlib.contextmanager
    def _comparison(self) -> Iterator[Comparison]:
        """Start a broker, and connect the clients."""
        with broker() as standalone, connected(self._running, standalone.service_url):
            yield Comparison(self._builds, self._running, standalone, self.results.failures)

    def _add(self, part: str, lines: Sequence[Line]) -> None:
        self.results.parts.setdefault(part, []).extend(lines)
        self.results.save(self._path)
        print(table(lines), flush=True)


def require_room(only: str) -> None:
    """Refuse to begin where the disk would be full before the end: a broker that cannot write says nothing."""
    folder = Path(tempfile.gettempdir())
    needed, free = DISK_BYTES_OF_ONE if only else DISK_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        sys.exit(f"the brokers write up to {needed >> 30} GiB in {folder}, where {free >> 30} GiB are free")


def draw(results: Results) -> None:
    """Write the page and its picture."""
    docs = ROOT / "docs"
    (docs / "benchmarks.md").write_text(page(results))
    fresh = [line._replace(name=f"fresh broker: {line.name}") for line in results.parts.get(FRESH, ())]
    (docs / "benchmarks.svg").write_text(picture([*fresh, *results.parts.get(WARM, ())]))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each client at each contest")
    parser.add_argument(
        "--only", default="", help=f"contests with these words in their names, or {START_AND_MEMORY}; writes no page"
    )
    parser.add_argument(
        "--python",
        action="append",
        help="an interpreter with what both clients need; with the first of them all contests are held",
    )
    default = Path(tempfile.gettempdir()) / "pulsar-actors-benchmarks.json"
    parser.add_argument(
        "--json", type=Path, default=default, help="where the results are written (default: %(default)s)"
    )
    parser.add_argument("--from", dest="measured", type=Path, help="take these results, and measure nothing")
    parser.add_argument("--against", type=Path, help="print what changed since these results; writes no page")
    given = parser.parse_args(arguments)
    publish = not given.only and given.against is None
    if given.measured is not None:
        results = Results.load(given.measured)
    else:
        publish = publish and given.rounds >= ROUNDS
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, lambda number, _: sys.exit(128 + number))  # so that all processes are ended
        require_room(given.only)
        everybody = builds(given.python or list(found()))
        today = datetime.now(timezone.utc).date().isoformat()
        results = Results(today, machine(), [described(build) for build in everybody], given.rounds)
        print(f"Results: {given.json}\n{results.machine}; {'; '.join(results.builds)}", flush=True)
        Run(results, given.json, everybody, given.only).run()
        for failure in results.failures:
            print(f"not finished: {failure}")
    if publish:
        draw(results)
    if given.against is not None:
        print(changes(Results.load(given.against), results))
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
