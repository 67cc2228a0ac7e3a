"""Show how cost grows with topics, partitions, sizes, batches and pending messages, for all clients on one real broker.

    python tests/benchmarks/growth.py [--rounds 3] [--only WORDS]

The setup is that of `compare.py`; it writes `docs/growth.md` and `docs/growth.svg`. It takes a quarter of an hour, most
of it to create 10,000 producers with each client.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.client_process import MODULES, Worker  # noqa: E402
from tests.benchmarks.comparison import Comparison, broker, connected, described, machine, new_topic, warm, workers  # noqa: E402
from tests.benchmarks.contests import BEST, CURVES, Curve  # noqa: E402
from tests.benchmarks.interpreters import builds  # noqa: E402
from tests.benchmarks.measured import Line  # noqa: E402
from tests.benchmarks.picture import Grown, growth_picture  # noqa: E402
from tests.support.standalone import Standalone  # noqa: E402

COUNTS = (10, 100, 1000, 10_000)
"""Producers and consumers in one process. Each has a topic of its own, which is created with its producer."""

SIZE = 10_000
"""Bytes in a message where others are slow: a broker that does not read, a program that does not receive."""

FILLED = 100_000
"""Messages that a program could receive, and does not."""

LIMITS = (1000, 10_000)
"""Messages that may be pending, or wait to be received."""


def measured(curve: Curve, comparison: Comparison, rounds: int) -> Grown:
    """Measure each point of a curve."""
    grown = Grown(curve.name, [])
    print(f"{curve.name}:", flush=True)
    for value, contest in curve.points:
        (line,) = comparison.hold(contest, rounds, warm_up=0)
        grown.points.append((value, line))
        print(_row(value, line), flush=True)
    return grown


BENDS = {
    "topics": (
        "With more topics the same messages make more, smaller batches: the cost of a batch counts, not that of a "
        "message. An idle producer takes some KiB, however many there are."
    ),
    "partitions": (
        "Messages go to the partitions in turn, and each partition fills its own batch. With 64 partitions a batch is "
        "far from full when its delay is over, and fewer messages share its cost."
    ),
    "bytes in a message": (
        "Up to 100 B the bytes hardly count: a message costs the steps that the interpreter takes for it. Beyond 1 KB "
        "they count, most of all at the broker, which writes them to a disk: there all clients meet."
    ),
    "messages in a batch": (
        "A batch costs about as much as thirty messages, and its messages share that. Above 1,000 little changes: "
        "batches of messages of 100 B are full at 128 KiB by then."
    ),
    "messages pending": (
        "No more messages than may be pending leave in one round trip, so the rate rises with that limit until the "
        "processor is busy. With one pending message, each waits for the one before it, and for the delay of its batch."
    ),
    "many": (
        "The cost of a pair hardly grows. Most of the time to make one is the broker's, which sets up a topic and "
        "a subscription; the number of threads does not depend on how many there are."
    ),
    "bounds": (
        "A producer holds what may be pending, and no more: without batches as it is sent, with batches both what "
        "callers left and what was packed of it. A consumer holds what it has asked for: as many messages as its queue "
        "takes, and the rest of the last batch; its first subscription also loads that half of the package."
    ),
}
"""Why the curves bend where they do; to be read again whenever they are measured again."""

HEAD = (
    "| {} | ours, msg/s | official | Java | ours, CPU µs | official | Java | ours, MiB | official |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
HEAD_CROWD = (
    "| producers and consumers, each | client | ms to make a pair | CPU ms for a pair | ms for a message of each | "
    "KiB for a pair | threads |\n|---|---|---|---|---|---|---|\n"
)
HEAD_STALLED = (
    "| messages that may be pending | client | batches | taken | MiB of these | MiB that it grew by | stored |\n"
    "|---|---|---|---|---|---|---|\n"
)
HEAD_NEGLECTED = "| messages that may wait | client | MiB of these | MiB that it grew by |\n|---|---|---|---|\n"


def _row(value: int, line: Line) -> str:
    clients = ("ours", "official", "java")
    rates = [_number(line.median(client)) for client in clients]
    cpu = [_number(spread.median if (spread := line.cpu(client)) else None) for client in clients]
    memory = [_number(max(line.mebibytes[client])) for client in clients[:2]]
    return f"| {value:,} | {' | '.join((*rates, *cpu, *memory))} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def crowd(service_url: str) -> Iterator[str]:
    """Return the rows of a table: what many handles take and cost, each number of them in a process of its own."""
    for count in COUNTS:
        for client in MODULES:
            with Worker(client) as worker:
                worker.connect(service_url)
                told = worker.ask(do="crowd", topic=new_topic(), count=count)
            times = [f"{told[name] / count * 1e3:.3g}" for name in ("making", "cpu", "passing")]
            cells = (f"{count:,}", client, *times, f"{told['bytes'] / count / 1024:.3g}", f"{told['threads']}")
            yield f"| {' | '.join(cells)} |\n"


def stalled(broker: Standalone) -> Iterator[str]:
    """Return the rows of a table: each client sends to a broker that is stopped."""
    for pending in LIMITS:
        for batched in (False, True):
            for client in MODULES:
                with Worker(client) as worker:
                    worker.connect(broker.service_url)
                    options = {"batching_enabled": batched, "max_pending_messages": pending}
                    worker.ask(do="ready", topic=new_topic(), options=options)
                    with broker.stalled():
                        told = worker.ask(do="overfill", size=SIZE)
                    stored = worker.ask(do="settle")["stored"]
                taken, grown = told["taken"], told["bytes"] / 2**20
                size = taken * SIZE / 2**20
                yield (
                    f"| {pending:,} | {client} | {'yes' if batched else 'no'} | {taken:,} | {size:.3g} | {grown:.3g} | "
                    f"{stored:,} |\n"
                )


def neglected(service_url: str) -> Iterator[str]:
    """Return the rows of a table: each client subscribes to a topic with messages, and receives none."""
    topic = new_topic()
    with Worker("ours") as worker:
        worker.connect(service_url)
        worker.ask(do="produce", topics=[topic], messages=FILLED, payload="x" * SIZE, options=BEST)
    for waiting in LIMITS:
        for client in MODULES:
            with Worker(client) as worker:
                worker.connect(service_url)
                told = worker.ask(do="neglect", topic=topic, options={"receiver_queue_size": waiting})
            grown = told["bytes"] / 2**20
            yield f"| {waiting:,} | {client} | {waiting * SIZE / 2**20:.3g} | {grown:.3g} |\n"


def rows(head: str, each: Iterable[str]) -> str:
    """Return a table of rows, and print each row when it is measured."""
    print(head, end="")
    found = [head]
    for row in each:
        print(row, end="", flush=True)
        found.append(row)
    return "".join(found)


def page(curves: Sequence[Grown], tables: Sequence[str], rounds: int, python: str) -> str:
    """Return the page; the tables are of many handles, a stalled broker, and a slow program."""
    many, slow_broker, slow_program = tables
    today = datetime.now(timezone.utc).date().isoformat()
    grown = "\n".join(
        HEAD.format(curve.name)
        + "".join(f"{_row(value, line)}\n" for value, line in curve.points)
        + f"\n{BENDS[curve.name]}\n"
        for curve in curves
    )
    return f"""# How cost grows

Written on {today} by `python tests/benchmarks/growth.py`; the clients took turns on one broker, under Python {python},
on {machine()}.

Medians of {rounds} turns each. CPU is that of the client's whole process, for a message; MiB is the memory that
the process has at the end of a turn, its producers still open.

![how cost grows](growth.svg)

{grown}
## Many in one process

{many}
{BENDS["many"]}

## Limits of memory

A broker that was stopped, as a process, while a client sent to it; it went on afterwards:

{slow_broker}
A program that subscribed to a topic with {FILLED:,} messages, and received none of them:

{slow_program}
{BENDS["bounds"]}
"""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="curves with these words in their names; writes no page")
    given = parser.parse_args(arguments)
    (build,) = (build for build in builds([sys.executable]) if not build.compiled)
    with broker() as standalone, workers([build]) as running, connected(running, standalone.service_url):
        comparison = Comparison([build], running, standalone, [])
        warm(comparison)
        curves = [measured(curve, comparison, given.rounds) for curve in CURVES if given.only in curve.name]
        if given.only:
            return
        tables = (
            rows(HEAD_CROWD, crowd(standalone.service_url)),
            rows(HEAD_STALLED, stalled(standalone)),
            rows(HEAD_NEGLECTED, neglected(standalone.service_url)),
        )
        docs = ROOT / "docs"
        (docs / "growth.md").write_text(page(curves, tables, given.rounds, described(build)))
        (docs / "growth.svg").write_text(growth_picture(curves))


if __name__ == "__main__":
    main(sys.argv[1:])
