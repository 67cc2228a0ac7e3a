"""What is said of an interval, and of the whole run: as text, or as a JSON object on each line.

Latencies are told in milliseconds.
"""

import json
from typing import Any, Final, NamedTuple, TextIO

from pulsar_actors.cli.perf.histogram import Histogram
from pulsar_actors.cli.perf.tally import Interval

LIVE: Final = (50.0, 95.0, 99.0, 99.9)
PERCENTILES: Final = (50.0, 75.0, 95.0, 99.0, 99.9, 99.99)


class Words(NamedTuple):
    """How a measurement is spoken of: what became of messages, and from where to where they were timed."""

    done: str
    timed: str


class Report:
    """What is written to a stream while a measurement runs, and at its end."""

    def __init__(self, stream: TextIO, words: Words, settings: dict[str, object] | None) -> None:
        """With settings, which are repeated in the summary, everything is JSON."""
        self._stream = stream
        self._words = words
        self._settings = settings

    def line(self, since_start: float, interval: Interval, *, is_warm: bool) -> None:
        """Say how it goes."""
        if self._settings is None:
            self._write(f"{since_start:7.1f} s  {_live(interval)}{'' if is_warm else '  (warming up)'}")
        else:
            kind = "interval" if is_warm else "warm-up"
            self._write(json.dumps({"kind": kind, "at": round(since_start, 3), **values(interval)}))

    def summary(self, warm_up: float, interval: Interval) -> None:
        """Say how it was."""
        if self._settings is None:
            self._write("\n".join(_summary(self._words, warm_up, interval)))
        else:
            said = {"kind": "summary", "settings": self._settings, "warm_up": round(warm_up, 3), **values(interval)}
            self._write(json.dumps(said))

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def values(interval: Interval) -> dict[str, Any]:
    """Give an interval as it goes into JSON."""
    return {
        "seconds": round(interval.seconds, 3),
        "messages": interval.messages,
        "failed": interval.failed,
        "bytes": round(interval.octets),
        "rate": round(interval.rate, 1),
        "megabits": round(interval.megabits, 3),
        "cpu_us_per_message": round(interval.cpu_microseconds, 3),
        "latency_ms": _latency(interval.times),
    }


def _latency(times: Histogram) -> dict[str, float]:
    of_a_hundred = {f"p{percentile:g}": round(times.at(percentile) * 1e3, 3) for percentile in PERCENTILES}
    ends = {"mean": round(times.mean() * 1e3, 3), "max": round(times.at(100) * 1e3, 3)}
    return {"timed": len(times), **ends, **of_a_hundred}


def _live(interval: Interval) -> str:
    failed = f"  failed {interval.failed:,}" if interval.failed else ""
    return f"{interval.rate:11,.0f} msg/s  {interval.megabits:9,.1f} Mbit/s  ms {_percentiles(interval, LIVE)}{failed}"


def _percentiles(interval: Interval, which: tuple[float, ...]) -> str:
    shown = [f"p{percentile:g} {interval.times.at(percentile) * 1e3:.2f}" for percentile in which]
    return "  ".join([*shown, f"max {interval.times.at(100) * 1e3:.2f}"])


def _summary(words: Words, warm_up: float, interval: Interval) -> list[str]:
    without = f", without a warm-up of {warm_up:.1f} s" if warm_up else ""
    speed = f"{interval.rate:,.0f} msg/s, {interval.megabits:,.1f} Mbit/s"
    return [
        f"{words.done:<12} {interval.messages:,} messages in {interval.seconds:.2f} s{without}: {speed}",
        f"failed       {interval.failed:,}",
        f"CPU          {interval.cpu_microseconds:.2f} us per message, of the whole process",
        f"latency      {words.timed}, of {len(interval.times):,} messages, in ms:",
        f"             mean {interval.times.mean() * 1e3:.2f}  {_percentiles(interval, PERCENTILES)}",
    ]
