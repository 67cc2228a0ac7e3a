"""The page of the benchmarks: its tables, and what it says about where the time goes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tests.benchmarks.measured import WINDOW, WITHIN, Line, Spread
from tests.benchmarks.results import Results

CLIENTS: Final = ("ours", "official", "java")
OTHERS: Final = ("official", "java")

FRESH, WARM, DEFAULTS = "fresh", "warm", "defaults"
"""The parts of the results. Start and memory, which belong to no broker, are in the second."""


def table(lines: Iterable[Line]) -> str:
    """Return the tables: one for each unit, and CPU time first in those of lines that have it."""
    given = list(lines)
    units = dict.fromkeys(line.unit for line in given)
    return "\n".join(_table([line for line in given if line.unit == unit], unit) for unit in units)


def _table(lines: Sequence[Line], unit: str) -> str:
    with_cpu = any(line.cpu(client) for line in lines for client in CLIENTS)
    cpu = ["CPU µs: ours", "official", "Java"] if with_cpu else []
    head = ["", "Python", *cpu, f"{unit}: ours", "official", "Java", "ours ÷ official", "ours ÷ Java"]
    if unit != "msg/s":
        head[-2:] = ["official ÷ ours", "Java ÷ ours"]
    rows = [head, ["---"] * len(head)]
    for line in lines:
        times = [_cell(line.cpu(client)) for client in CLIENTS] if with_cpu else []
        values = [_cell(line.spread(client)) for client in CLIENTS]
        ratios = [_cell(line.ratio(client), _ratio) for client in OTHERS]
        rows.append([line.name, line.build, *times, *values, *ratios])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def number(value: float) -> str:
    """Return three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def _cell(spread: Spread | None, text: Callable[[float], str] = number) -> str:
    return "" if spread is None else f"{text(spread.median)} ({text(spread.least)} to {text(spread.most)})"


def changes(before: Results, after: Results) -> str:
    """Return a table of what both runs measured: CPU time of this client, and ratios to the others, before and after.

    Runs on interpreters with different patch releases are not compared.
    """
    rows = [
        "| | Python | CPU µs before | after | ÷ official before | after | ÷ Java before | after |\n"
        + "|---" * 8
        + "|\n"
    ]
    for part, lines in after.parts.items():
        earlier = {(line.name, line.build): line for line in before.parts.get(part, ())}
        for line in lines:
            if (old := earlier.get((line.name, line.build))) is None:
                continue
            pairs = [(old.cpu("ours"), line.cpu("ours"), number)]
            pairs += [(old.ratio(client), line.ratio(client), _ratio) for client in OTHERS]
            cells = [_cell(spread, text) for *both, text in pairs for spread in both]
            rows.append(f"| {part}: {line.name} | {line.build} | {' | '.join(cells)} |\n")
    return "".join(rows)


FACTS: Final = """\
Where the time goes:

- **A broker that has just started** interprets its code, and compiles it meanwhile. The official client, which sends
  the least, waits least for it. So the ratios to it are lower on a fresh broker.
- **Sending and receiving in batches.** What is done once for a batch hardly counts (`python
  tests/benchmarks/hot_paths.py` shows the steps). What is done for each message does: a call of `send_async` and one of
  its callback; `receive`, `data` and `acknowledge`, and the object that a message is. Java compiles these to a few
  instructions, where Python's interpreter takes its steps.
- **Receiving while the program computes.** The I/O thread waits for the interpreter's lock, up to five milliseconds
  each time, before it can hand over what has come and ask for more. A larger `receiver_queue_size` hides that
  (`python tests/benchmarks/receiver_queue.py` shows how large).
- **Batches of 10, and messages that are not batched.** An entry has a command, a checksum and a receipt of its own, at
  the client and at the broker, which is often the limit.
- **Keys and properties** are text that is encoded for each message.
- **16 partitions.** Messages go to the partitions in turn, and each partition fills a batch of its own, so that batches
  are smaller. For each message the clock is read, and the partition chosen.
- **64 KB.** The broker writes as fast as its disk does, for all clients.
- **Sync send, and end to end at 1,000/s.** Most of the time is the broker's, to write to its disk. The caller writes
  its message and reads the receipt itself: a few hundred calls, through code that the broker has just displaced from
  the processor's caches. A Python program of sixty lines that does nothing else takes 1 or 2 % longer than the official
  client. With batching on, a `send` of this client has its batch sent at once; that of the official client waits for
  the delay.
- **Import, and the first message.** Protobuf, pykka and transitions are most of the import, and modules that a first
  message does not need are loaded later. For that message nothing is cached: most of its time is the broker's, to set
  up the topic, and the rest is code that runs for the first time.
"""
"""Why; to be read again whenever it is measured again."""


def page(results: Results) -> str:
    """Return the page."""
    told = {part: table(results.parts.get(part, ())) or "Not measured.\n" for part in (FRESH, WARM, DEFAULTS)}
    peaks = "; ".join(f"{name} {size:,.0f} MiB" for name, size in results.peak_mebibytes.items())
    failures = "".join(f"- {failure}\n" for failure in results.failures)
    return f"""# Measured, side by side

Written on {results.date} by `python tests/benchmarks/compare.py`, on {results.machine}.
Pythons: {"; ".join(results.builds)}.

All clients take turns on one broker, {results.rounds} rounds of them. A cell has the median and, in brackets, the least
and the most. A ratio is that of one round, whose turns followed each other; it is above 1 where ours is better. CPU is
that of the client's whole process for a message: it depends least on the broker and on other load. An official client
runs under the same Python as ours in its line, and Java is the same in all lines.

The picture shows each ratio from the worst round to the best, with a notch at the median:

![the ratios](benchmarks.svg)

## A fresh broker

Each round has a broker that has just started, and to which nothing was sent before, as in a test. The processes of the
clients are not new: their code has run before.

{told[FRESH]}
## A warm broker

{warming(results)}
All clients have the same settings, chosen so that each client is fast: the same batches, window and receiver queue, and
no compression unless the line is of a codec.

{told[WARM]}
Peak memory of each process over all of this: {peaks or "not measured"}.

{FACTS}
## Each client's own defaults

{told[DEFAULTS]}{f"{chr(10)}## Not finished{chr(10)}{chr(10)}{failures}" if failures else ""}"""


def warming(results: Results) -> str:
    """Say how the broker was warmed."""
    if results.warming is None:
        return "The broker was not warmed.\n"
    rounds, settled, _ = results.warming
    rule = f"the medians of {WINDOW} rounds and of the {WINDOW} before differed by less than {WITHIN:.0%}"
    if settled:
        return f"The broker was warmed until the official client's rates settled: after {rounds} rounds {rule}.\n"
    return f"The broker was warmed for {rounds} rounds. The official client's rates did not settle: never {rule}.\n"
