"""Compare this client with the official Python client and the Java client, on one real broker.

    python tests/benchmarks/compare.py [--alternations 7] [--only WORDS]

It starts an Apache Pulsar and a process of each client. The clients take turns, contest by contest, so that other load
of the machine affects all of them. It writes `docs/benchmarks.md` and `docs/benchmarks.svg`; every figure there was
measured in the run. It needs Java, Maven and `pulsar-client`, and takes about half an hour.
"""

import argparse
import contextlib
import os
import platform
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.client_process import CLIENTS, JAVA_VERSION, Worker  # noqa: E402
from tests.benchmarks.contests import CONTESTS, DEFAULTS, Contest  # noqa: E402
from tests.benchmarks.footprint import footprint  # noqa: E402
from tests.benchmarks.measured import Line, percentile, picture, table  # noqa: E402
from tests.support.admin import Admin  # noqa: E402
from tests.support.standalone import Standalone  # noqa: E402

WITHOUT_DEFAULTS = {"produce", "asyncio_produce", "values"}
"""Contests that have no settings, or are told apart by them. Only the first of them is held with the defaults, too."""

WARM_UP = 1
"""Turns of each client, at each contest, before those that count."""

WARMING = 5
"""Turns of each client at some contests, before all else."""


def new_topic() -> str:
    return f"persistent://public/default/measured-{uuid.uuid4().hex[:12]}"


class Comparison:
    """The workers of all clients, which take turns."""

    def __init__(
        self,
        workers: dict[str, Worker],
        admin: Admin,
        alternations: int,
        *,
        defaults: bool = False,
        warm_up: int = WARM_UP,
    ) -> None:
        self._warm_up = warm_up
        self._workers = workers
        self._admin = admin
        self._alternations = alternations
        self._defaults = defaults
        self._many: dict[int, list[str]] = {}  # topics, by how many there are

    def lines_of(self, contest: Contest) -> list[Line]:
        """Let all clients take their turns; return the lines of the table."""
        clients = [name for name in self._workers if contest.is_for(name)]
        answers: dict[str, list[dict[str, Any]]] = {client: [] for client in clients}
        for turn in range(self._warm_up + self._alternations):
            for client in clients:
                answer = self._turn(contest, client)
                if turn >= self._warm_up:
                    answers[client].append(answer)
        if contest.unit == "ms":
            return [self._line_of_times(contest, answers, percent) for percent in (50, 99)]
        rates = {client: [one["messages"] / one["seconds"] for one in answers[client]] for client in clients}
        cpu = {client: [one["cpu"] / one["messages"] * 1e6 for one in answers[client]] for client in clients}
        memory = {client: [one.get("resident", 0) / 2**20 for one in answers[client]] for client in clients}
        return [Line(contest.name, contest.unit, rates, cpu, contest.targets, memory)]

    def _line_of_times(self, contest: Contest, answers: dict[str, list[dict[str, Any]]], percent: int) -> Line:
        values = {client: [percentile(one["times"], percent) * 1e3 for one in each] for client, each in answers.items()}
        return Line(f"{contest.name}, p{percent}", contest.unit, values, {}, contest.targets)

    def _turn(self, contest: Contest, client: str) -> dict[str, Any]:
        messages = int(contest.messages * (contest.slow if client == "official" else 1))
        ask = dict(contest.ask)
        if self._defaults:
            ask["options"] = {} if ask["do"] in {"consume", "asyncio_consume"} else DEFAULTS
        if contest.fill is None and ask["do"] == "produce":
            topics = self._topics_of(contest)
            if contest.partitions:
                self._admin.create_partitioned(topics[0], contest.partitions)
            return self._workers[client].ask(topics=topics, messages=messages, **ask)
        topic = new_topic()
        if contest.fill is not None:
            self._workers["ours"].ask(do="produce", topics=[topic], messages=messages, **contest.fill)
        return self._workers[client].ask(topic=topic, messages=messages, **ask)

    def _topics_of(self, contest: Contest) -> list[str]:
        """Return new topics for each turn; many topics are used again, as the broker keeps all in memory."""
        if contest.topics == 1:
            return [new_topic()]
        if contest.topics not in self._many:
            self._many[contest.topics] = [new_topic() for _ in range(contest.topics)]
        return self._many[contest.topics]


def warm(running: dict[str, Worker], admin: Admin) -> None:
    """Warm up the broker and the Java client, so that their code is compiled."""
    comparison = Comparison(running, admin, WARMING, warm_up=0)
    for name in ("produce, batched, callback", "produce, batching off", "receive, data, acknowledge"):
        comparison.lines_of(next(contest for contest in CONTESTS if contest.name == name))


@contextlib.contextmanager
def broker() -> Iterator[Standalone]:
    """Start an Apache Pulsar with its default configuration."""
    with tempfile.TemporaryDirectory() as folder:
        standalone = Standalone(Path(folder), as_shipped=True)
        standalone.start()
        try:
            yield standalone
        finally:
            standalone.kill()


@contextlib.contextmanager
def workers(service_url: str) -> Iterator[dict[str, Worker]]:
    """Start and connect all clients."""
    with contextlib.ExitStack() as stack:
        running = {client: stack.enter_context(Worker(client)) for client in CLIENTS}
        for worker in running.values():
            worker.ask(do="connect", url=service_url)
        yield running


def machine() -> str:
    """Describe the machine."""
    processors = [
        line.partition(":")[2].strip() for line in _lines_of("/proc/cpuinfo") if line.startswith("model name")
    ]
    kind = processors[0] if processors else platform.machine()
    return (
        f"{os.cpu_count()} x {kind}; {platform.system()} {platform.release()}; {interpreter()}; "
        f"pulsar-client {version('pulsar-client')}; Java client and broker {JAVA_VERSION}"
    )


def interpreter() -> str:
    """Describe the interpreter of both Python clients, whose build affects its speed."""
    own = ", the system's own" if sys.base_prefix == "/usr" else ""
    return f"Python {platform.python_version()}{own}"


def _lines_of(path: str) -> Sequence[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


SHORT = """\
What is wanted of a ratio was set before any of this was built. What is short of it is so for these reasons:

- **Beside Java.** What is done once for many messages hardly counts any longer (`python tests/benchmarks/hot_paths.py`
  shows where the time goes). What is left is done for each: a call of `send_async` and one of its callback; `receive`,
  `data` and `acknowledge`. Java compiles these to a few instructions, where Python's interpreter takes its steps.
- **Receiving.** Its three calls, and the object that a message is, are most of what it costs. While a program computes,
  the I/O thread waits for the interpreter's lock, up to five milliseconds each time, before it can hand over what has
  come and ask for more; a larger `receiver_queue_size` hides that. To let go of the lock now and then would gain where
  no other thread computes, and cost those same milliseconds where one does.
- **Batches of 10.** Here the broker is at its limit: Java gets as many, with a quarter of the processor's time.
- **Messages that are not batched, keys and properties.** An entry has a command, a checksum and a receipt of its own,
  and properties are text to be encoded: more of those steps for each message.
- **64 KB.** The broker writes as fast as its disk does, for all clients.
- **Sync send, and end to end at 1,000/s.** A send goes from the caller to the I/O thread and back. That is two changes
  of threads, and some hundreds of calls through code that the processor's caches have just lost to the broker.
- **Import, and the first message.** Protobuf, pykka and transitions are most of the import, and what a first message
  does not need is loaded when it is. That message finds nothing warm: most of its time is the broker's, to set up the
  topic, and the rest is code that runs for the first time.
"""
"""Why; to be read again whenever it is measured again."""


def page(best: Sequence[Line], defaults: Sequence[Line], memory: dict[str, float], alternations: int) -> str:
    """Return the page."""
    peaks = ", ".join(f"{client} {size / 2**20:,.0f} MiB" for client, size in memory.items())
    today = datetime.now(timezone.utc).date().isoformat()
    return f"""# Measured, side by side

Written on {today} by `python tests/benchmarks/compare.py`; the clients took turns on one broker: {machine()}.

Medians of {alternations} turns each, with the least and the most of them. A ratio is above 1 where ours is better; what
is wanted of it stands behind it. CPU is that of the client's whole process, for a message.

![the ratios](benchmarks.svg)

## The same settings for all, those with which each is at its best

{table(best)}
Peak memory of each process over all of this: {peaks}.

{SHORT}
## Each client's own defaults

{table(defaults)}"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alternations", type=int, default=7)
    parser.add_argument(
        "--only", default="", help="contests with these words in their names, or start and memory; writes no page"
    )
    given = parser.parse_args(arguments)
    chosen = [contest for contest in CONTESTS if given.only in contest.name]
    with broker() as standalone, workers(standalone.service_url) as running:
        warm(running, standalone.admin)
        found: dict[bool, list[Line]] = {}
        for defaults in (False, True):
            comparison = Comparison(running, standalone.admin, given.alternations, defaults=defaults)
            found[defaults] = []
            for contest in chosen:
                if defaults and contest.ask["do"] in WITHOUT_DEFAULTS and contest is not CONTESTS[0]:
                    continue
                lines = comparison.lines_of(contest)
                found[defaults] += lines
                print("\n".join(table(lines).splitlines()[2:]), flush=True)
        memory = {client: worker.ask(do="memory")["bytes"] for client, worker in running.items()}
        if given.only in "start and memory":
            for line in footprint(standalone.service_url, given.alternations):
                found[False].append(line)
                print("\n".join(table([line]).splitlines()[2:]), flush=True)
    if not given.only:
        docs = ROOT / "docs"
        (docs / "benchmarks.md").write_text(page(found[False], found[True], memory, given.alternations))
        (docs / "benchmarks.svg").write_text(picture(found[False]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
