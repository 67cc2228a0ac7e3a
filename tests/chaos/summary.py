"""The table of the runs so far: drawn again after each run on a terminal, a line for each run elsewhere."""

import statistics
import sys
from collections.abc import Iterable, Sequence

from tests.chaos.load import TRANSACTIONS
from tests.chaos.run import Ran

HEAD = (
    f"{'fault':<19} {'runs':>5} {'sent':>8} {'open':>6} {'received':>9} {'again':>7} {'broken':>6}"
    f"   {'recovery s: median, p99, most':<32}{'that of transactions':<24}paused, most"
)
_UP = "\x1b[{lines}A\x1b[J"


def percentile(values: Sequence[float], part: float) -> float:
    """Return the least value that so large a part of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def recovery(runs: Iterable[Ran], *, transactions: bool) -> list[float]:
    """Return how long it took each worker to go on: those that work in transactions, or the others.

    A transaction waits for more parts of a broker.
    """
    return [took for ran in runs for work, took in ran.recovery.items() if (work == TRANSACTIONS) is transactions]


def _figures(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f}, {percentile(seconds, 0.99):.2f}, {max(seconds):.2f}" if seconds else "-"


def line(name: str, runs: Sequence[Ran]) -> str:
    """Sum up some runs."""
    pauses = [ran.paused for ran in runs if ran.paused is not None]
    others, transactions = (_figures(recovery(runs, transactions=which)) for which in (False, True))
    return (
        f"{name:<19} {len(runs):>5} {sum(ran.sent for ran in runs):>8,} {sum(ran.unknown for ran in runs):>6,} "
        f"{sum(ran.received for ran in runs):>9,} {sum(ran.again for ran in runs):>7,} "
        f"{sum(len(ran.broken) for ran in runs):>6}   {others:<32}{transactions:<24}"
        f"{f'{max(pauses):.2f}' if pauses else '-'}"
    )


def table(runs: Sequence[Ran]) -> list[str]:
    """Sum up the runs of each fault, and all."""
    names = dict.fromkeys(ran.fault for ran in runs)
    return [HEAD, *(line(name, [ran for ran in runs if ran.fault == name]) for name in names), line("all", runs)]


class Live:
    """The table, as the runs come."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._runs: list[Ran] = []
        self._drawn = 0

    def add(self, ran: Ran) -> None:
        """Show one more run."""
        self._runs.append(ran)
        if not sys.stdout.isatty():
            print(f"{len(self._runs)}/{self._total} {line(ran.fault, [ran])}", flush=True)
            self._say(_texts([ran]))
            return
        lines = [*table(self._runs), f"{len(self._runs)} of {self._total} runs", *_texts(self._runs)]
        print((_UP.format(lines=self._drawn) if self._drawn else "") + "\n".join(lines), flush=True)
        self._drawn = len(lines)

    def end(self) -> None:
        """Show the table, where it was not shown yet."""
        if not sys.stdout.isatty():
            self._say(table(self._runs))

    @staticmethod
    def _say(lines: Iterable[str]) -> None:
        for each in lines:
            print(each, flush=True)


def _texts(runs: Iterable[Ran]) -> list[str]:
    return [f"    {ran.fault}, seed {ran.seed}: {text}" for ran in runs for text in (*ran.broken[:5], *ran.noted)]
