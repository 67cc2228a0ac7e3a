"""Kill drivers, workers and brokers at random moments while a stream is written exactly once, and count.

    python tests/spark/kill_campaign.py [--kills 50] [--what driver worker broker] [--idempotent] [--seed 1]

A query copies a topic of numbers in small batches. Whatever is killed is started again, and so is a query that fails,
until all is copied. Then another client reads the copy, of which it sees what is committed: every number has to be
there, and once. A kill takes ten to twenty seconds, most of them to start Spark or the broker. The moment of each is
shown: where the batch was by the query's checkpoint, which Spark writes when a batch is planned and when it has ended.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pulsar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.spark.driver import Driver  # noqa: E402
from tests.spark.traffic import Traffic, until  # noqa: E402
from tests.support.standalone import QUICK_START, Standalone  # noqa: E402

WHAT = ("driver", "worker", "broker")
NUMBERS_A_DRIVER = 10_000
BATCH = 500
LONGEST_PAUSE = 2.0
"""Seconds from a sign of progress to the kill, at most: some batches."""


class Outcome(NamedTuple):
    """What was killed, and what is there in the end."""

    killed: str
    kills: int
    amid: int
    """Kills between the plan of a batch and its end."""
    failed: int
    """Queries that failed, and were started again."""
    sent: int
    visible: int
    lost: int
    twice: int


class Campaign:
    """One stream, which is copied while something is killed."""

    def __init__(self, standalone: Standalone, folder: Path, what: str, kills: int, seed: int, **write: str) -> None:
        self._standalone = standalone
        self._what = what
        self._kills = kills
        self._random = random.Random(seed)  # noqa: S311 - not for secrets
        self._topic = f"persistent://public/default/{what}-{seed}-{os.getpid()}-{len(write)}"
        self._out = f"{self._topic}-out"
        self._checkpoint = str(folder / f"{what}-{seed}-{len(write)}")
        self._write = write
        self._sent = 0
        self._amid = 0
        self._failed = 0

    def run(self) -> Outcome:
        """Send, copy, kill, and count."""
        standalone = self._standalone
        standalone.admin.create(self._out)
        if "idempotent" in self._write:
            standalone.admin.set_deduplication(self._out, on=True)
            until(lambda: standalone.admin.is_deduplicating(self._out))
        kills = 0
        while kills < self._kills:
            self._send()
            with self._driver(maxOffsetsPerTrigger=f"{BATCH}") as driver:
                kills += self._kill(driver, self._kills - kills)
        while True:
            with self._driver() as driver:
                if self._has_copied_all(driver):
                    break
        with Traffic(standalone.service_url, pulsar) as traffic:
            found = list(map(int, traffic.texts(self._out)))
        lost = len(set(range(self._sent)) - set(found))
        twice = len(found) - len(set(found))
        return Outcome(self._what, kills, self._amid, self._failed, self._sent, len(found), lost, twice)

    def _send(self) -> None:
        """Send some batches more for the next driver."""
        first, self._sent = self._sent, self._sent + NUMBERS_A_DRIVER
        with Traffic(self._standalone.service_url, pulsar) as traffic:
            traffic.send(self._topic, [f"{number}" for number in range(first, self._sent)], per_batch=50)

    def _has_copied_all(self, driver: Driver) -> bool:
        """Wait for the end of a driver. Count it if it has failed."""
        output = driver.output()
        if "all is copied" not in output:
            self._failed += 1
            print(output[-2000:], file=sys.stderr)  # noqa: T201 - it is a program
            return False
        return True

    def _driver(self, **read: str) -> Driver:
        url, web = self._standalone.service_url, self._standalone.admin.web_url
        common = {"service.url": url, "admin.url": web, "pulsar.client.operationTimeoutMs": "120000"}
        start = {"topic": self._topic, "startingOffsets": "earliest", "subscriptionPrefix": "campaign"}
        write = {"topic": self._out, "checkpointLocation": self._checkpoint, "exactlyOnce": "true", **self._write}
        query = {"read": {**common, **start, **read}, "write": {**common, **write}}
        return Driver(master="local[2,4]", queries=[query])

    def _kill(self, driver: Driver, most: int) -> int:
        """Kill until the driver has ended; return how often."""
        for kills in range(most):
            before = self._stored()
            until(lambda before=before: driver.has_ended or self._stored() > before)
            time.sleep(self._random.uniform(0, LONGEST_PAUSE))
            if driver.has_ended:
                self._has_copied_all(driver)
                return kills
            self._note_moment()
            if self._what == "driver":
                driver.kill()
                return kills + 1
            if self._what == "broker":
                self._standalone.kill()
                self._standalone.start()
            else:
                self._kill_worker(driver)
        return most

    def _note_moment(self) -> None:
        """Show how far the batch is that is now interrupted."""
        planned, ended = (_last(Path(self._checkpoint) / name) for name in ("offsets", "commits"))
        self._amid += planned.batch > ended.batch
        last = ended if planned.batch == ended.batch else planned
        what = "ended" if last is ended else "planned"
        print(f"{self._what} killed: batch {last.batch} was {what} {last.ago:.2f} s ago", file=sys.stderr)  # noqa: T201

    def _kill_worker(self, driver: Driver) -> None:
        """Kill one of the Python processes: tasks, but also those beside the driver that plan and commit."""
        listed = subprocess.run(["/bin/ps", "-eo", "pid,sid,args"], capture_output=True, text=True, check=True)
        rows = [row.split(None, 2) for row in listed.stdout.splitlines()[1:]]
        workers = [int(pid) for pid, sid, args in rows if int(sid) == driver.pid and "pyspark.daemon" in args]
        if workers:
            with suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(self._random.choice(workers), signal.SIGKILL)

    def _stored(self) -> int:
        return int(self._standalone.admin.stats(self._out)["msgInCounter"])


class _Noted(NamedTuple):
    """A batch that Spark has noted in a checkpoint."""

    batch: int
    ago: float


def _last(folder: Path) -> _Noted:
    """Return the last batch of a folder, or a batch -1. Spark may delete old ones meanwhile."""
    noted = [_Noted(-1, 0.0)]
    for file in folder.glob("[0-9]*"):
        with suppress(FileNotFoundError):
            noted.append(_Noted(int(file.name), time.time() - file.stat().st_mtime))
    return max(noted)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the campaigns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT)
    parser.add_argument("--idempotent", action="store_true", help="with tasks that may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(QUICK_START))
    write = {"idempotent": "true", "rowsRepeatInOrder": "true"} if given.idempotent else {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "broker").mkdir()
        standalone = Standalone(folder / "broker", durable=True)
        standalone.start()
        stack.callback(standalone.kill)
        names = ("killed", "kills", "amid a batch", "queries that failed", "sent", "visible", "lost", "twice")
        print(f"| {' | '.join(names)} |\n{'|---' * len(names)}|")  # noqa: T201
        for what in given.what:
            outcome = Campaign(standalone, folder, what, given.kills, given.seed, **write).run()
            print(f"| {' | '.join(str(figure) for figure in outcome)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
