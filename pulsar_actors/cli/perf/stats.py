"""The statistics of a measurement: latency histograms, counts of messages, and their reports.

Each thread has its own `Counts`, so that none waits for another. `RunMonitor` reads all of them at intervals; the
difference between two readings is an `Interval`. `PerfReport` prints intervals as text, or as JSON, an object on each
line. `write_percentile_file` writes a histogram as HdrHistogram's tools do.
"""

import json
import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from pulsar_actors.cli.perf.plot import PlotPoint, PlotPoints
from pulsar_actors.named_tuple import NamedTuple

EXACT_BITS: Final = 11
"""Numbers of microseconds with up to so many bits have a bucket each."""


class Histogram:
    """The number of occurrences of each latency, in buckets that give any percentile to within a thousandth.

    Up to 2,048 microseconds each microsecond has a bucket; each doubling after that has 1,024. So a run of days takes
    no more memory than one of seconds. One thread records; others may copy, as a dictionary is copied in one step of
    the interpreter. Latencies are seconds outside, and whole microseconds inside.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        self._counts = {} if counts is None else counts

    def record(self, seconds: float) -> None:
        """Count one latency; a negative one, from a clock that was set back, counts as 0."""
        bucket = _bucket_of(max(0, round(seconds * 1e6)))
        self._counts[bucket] = self._counts.get(bucket, 0) + 1

    def copy(self) -> "Histogram":
        """Return a copy of what has been recorded so far."""
        return Histogram(self._counts.copy())

    def __add__(self, other: "Histogram") -> "Histogram":
        counts = self._counts.copy()
        for bucket, count in other._counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return Histogram(counts)

    def __sub__(self, earlier: "Histogram") -> "Histogram":
        """Return what was recorded since an earlier copy of this histogram."""
        before = earlier._counts
        rest = {bucket: count - before.get(bucket, 0) for bucket, count in self._counts.items()}
        return Histogram({bucket: count for bucket, count in rest.items() if count})

    def __len__(self) -> int:
        return sum(self._counts.values())

    def buckets(self) -> list[tuple[float, int]]:
        """Return the latencies that occurred, from the shortest on, and how often."""
        return [(_bucket_middle(bucket) / 1e6, self._counts[bucket]) for bucket in sorted(self._counts)]

    def at(self, percentile: float) -> float:
        """Return the latency that so many of a hundred do not exceed; 0 if none was recorded."""
        wanted = math.ceil(len(self) * percentile / 100)
        seconds = 0.0
        for seconds, count in self.buckets():  # noqa: B007 - the loop may end without a break
            wanted -= count
            if wanted <= 0:
                break
        return seconds

    def mean(self) -> float:
        """Return the mean latency; 0 if none was recorded."""
        return sum(seconds * count for seconds, count in self.buckets()) / (len(self) or 1)

    def deviation(self) -> float:
        """Return the standard deviation; 0 if none was recorded."""
        mean = self.mean()
        return math.sqrt(sum((seconds - mean) ** 2 * count for seconds, count in self.buckets()) / (len(self) or 1))


def _bucket_of(number: int) -> int:
    """Return the bucket of so many microseconds: how far they are shifted, and the bits that are left."""
    shift = max(0, number.bit_length() - EXACT_BITS)
    return (shift << EXACT_BITS) + (number >> shift)


def _bucket_middle(bucket: int) -> float:
    shift, kept = divmod(bucket, 1 << EXACT_BITS)
    return (kept << shift) + ((1 << shift) - 1) / 2


class Counts:
    """What one thread has counted: messages that succeeded, messages that failed, and the latencies of some of them."""

    __slots__ = ("failed", "latencies", "messages", "payload_bytes")

    def __init__(self) -> None:
        self.messages = 0
        self.payload_bytes = 0.0  # of a mean size
        self.failed = 0
        self.latencies = Histogram()


class CountsReading(NamedTuple):
    """The sum of all counts at a moment; `cpu` is the CPU time of the process by then, in seconds."""

    at: float
    cpu: float
    messages: int
    payload_bytes: float
    failed: int
    latencies: Histogram


class Interval(NamedTuple):
    """The difference between two readings."""

    seconds: float
    cpu_seconds: float
    messages: int
    payload_bytes: float
    failed: int
    latencies: Histogram

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def megabits(self) -> float:
        """Megabits of payload a second."""
        return self.payload_bytes * 8 / 1e6 / self.seconds if self.seconds else 0.0

    @property
    def cpu_microseconds(self) -> float:
        """CPU time of the whole process for each message, in microseconds."""
        return self.cpu_seconds * 1e6 / self.messages if self.messages else 0.0


def read_counts(counts: Sequence[Counts]) -> CountsReading:
    """Read the counts of all threads."""
    latencies = Histogram()
    for each in counts:
        latencies += each.latencies.copy()
    return CountsReading(
        time.perf_counter(),
        time.process_time(),
        sum(each.messages for each in counts),
        sum(each.payload_bytes for each in counts),
        sum(each.failed for each in counts),
        latencies,
    )


def interval_between(earlier: CountsReading, later: CountsReading) -> Interval:
    """Return the difference between two readings."""
    return Interval(
        later.at - earlier.at,
        later.cpu - earlier.cpu,
        later.messages - earlier.messages,
        later.payload_bytes - earlier.payload_bytes,
        later.failed - earlier.failed,
        later.latencies - earlier.latencies,
    )


LIVE_PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
SUMMARY_PERCENTILES: Final = (50.0, 75.0, 95.0, 99.0, 99.9, 99.99)


class ReportLabels(NamedTuple):
    """The words of a report: the operation that messages are counted for, and the definition of their latency."""

    done: str
    timed: str


class PerfReport:
    """The report of a measurement, written to a stream: a line for each interval, and a summary."""

    def __init__(self, stream: TextIO, labels: ReportLabels, settings: dict[str, object] | None) -> None:
        """Write JSON if there are settings; the summary repeats them."""
        self._stream = stream
        self._labels = labels
        self._settings = settings
        self.points = PlotPoints()

    def interval_line(self, since_start: float, interval: Interval, *, is_warm: bool) -> None:
        """Report one interval."""
        latencies = interval.latencies
        self.points.add(
            PlotPoint(since_start, interval.rate, latencies.at(50), latencies.at(99), latencies.at(100), is_warm)
        )
        if self._settings is None:
            self._write(f"{since_start:7.1f} s  {_live_line(interval)}{'' if is_warm else '  (warming up)'}")
        else:
            kind = "interval" if is_warm else "warm-up"
            self._write(json.dumps({"kind": kind, "at": round(since_start, 3), **interval_values(interval)}))

    def summary(self, warm_up: float, interval: Interval) -> None:
        """Report the whole run."""
        if self._settings is None:
            self._write("\n".join(_summary_lines(self._labels, warm_up, interval)))
        else:
            values = {
                "kind": "summary",
                "settings": self._settings,
                "warm_up": round(warm_up, 3),
                **interval_values(interval),
            }
            self._write(json.dumps(values))

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def interval_values(interval: Interval) -> dict[str, Any]:
    """Return an interval as JSON values."""
    return {
        "seconds": round(interval.seconds, 3),
        "messages": interval.messages,
        "failed": interval.failed,
        "bytes": round(interval.payload_bytes),
        "rate": round(interval.rate, 1),
        "megabits": round(interval.megabits, 3),
        "cpu_us_per_message": round(interval.cpu_microseconds, 3),
        "latency_ms": _latency_values(interval.latencies),
    }


def _latency_values(latencies: Histogram) -> dict[str, float | None]:
    """Return the latencies in milliseconds; None for all of them if no message was timed."""
    seconds = {
        "mean": latencies.mean(),
        "max": latencies.at(100),
        **{f"p{percentile:g}": latencies.at(percentile) for percentile in SUMMARY_PERCENTILES},
    }
    timed = len(latencies)
    return {"timed": timed, **{name: round(value * 1e3, 3) if timed else None for name, value in seconds.items()}}


def _live_line(interval: Interval) -> str:
    speed = f"{interval.rate:11,.0f} msg/s  {interval.megabits:9,.1f} Mbit/s"
    failed = f"  failed {interval.failed:,}" if interval.failed else ""
    latencies = f"ms {_percentiles(interval, LIVE_PERCENTILES)}" if len(interval.latencies) else "no latencies"
    return f"{speed}  {latencies}{failed}"


def _percentiles(interval: Interval, which: tuple[float, ...]) -> str:
    shown = [f"p{percentile:g} {interval.latencies.at(percentile) * 1e3:.2f}" for percentile in which]
    return "  ".join([*shown, f"max {interval.latencies.at(100) * 1e3:.2f}"])


def _summary_lines(labels: ReportLabels, warm_up: float, interval: Interval) -> list[str]:
    without = f", without a warm-up of {warm_up:.1f} s" if warm_up else ""
    speed = f"{interval.rate:,.0f} msg/s, {interval.megabits:,.1f} Mbit/s"
    counted = [
        f"{labels.done:<12} {interval.messages:,} messages in {interval.seconds:.2f} s{without}: {speed}",
        f"failed       {interval.failed:,}",
    ]
    if interval.messages:
        counted.append(f"CPU          {interval.cpu_microseconds:.2f} us per message, of the whole process")
    if not len(interval.latencies):
        return [*counted, "latency      not measured: no message was timed"]
    return [
        *counted,
        f"latency      {labels.timed}, of {len(interval.latencies):,} messages, in ms:",
        f"             mean {interval.latencies.mean() * 1e3:.2f}  {_percentiles(interval, SUMMARY_PERCENTILES)}",
    ]


_NO_END: Final = 1e6
"""Seconds: a time that is never reached, and short enough for `Event.wait`."""


class RunTimes(NamedTuple):
    """Durations of a run in seconds: the warm-up, the whole run with it, and each interval. 0 is none, or no end."""

    warm_up: float
    duration: float
    interval: float


class RunMonitor:
    """Reports the counts of a run at each interval, and leaves the warm-up out of the result."""

    def __init__(self, counts: Sequence[Counts], run_times: RunTimes, report: PerfReport) -> None:
        self._counts = counts
        self._report = report
        self._began = self._reported = self._counted_from = read_counts(counts)
        self._ended: CountsReading | None = None
        start = self._began.at
        self._is_warm = not run_times.warm_up
        self._warm_at = start + run_times.warm_up
        self._ends_at = start + (run_times.duration or _NO_END)
        self._interval = run_times.interval or _NO_END
        self._report_at = start + self._interval

    def run_until(self, done: threading.Event) -> None:
        """Report until the work is done, or the time is up."""
        while not done.is_set():
            now = read_counts(self._counts)
            if now.at >= self._ends_at:
                break
            self._handle(now)
            done.wait(self._next_at() - now.at)
        self._ended = read_counts(self._counts)

    def interval(self) -> Interval:
        """Return what was counted since the warm-up."""
        return interval_between(self._counted_from, self._ended or read_counts(self._counts))

    def warm_up(self) -> float:
        """Return the seconds that do not count. A run that ends before its warm-up counts as a whole."""
        return self._counted_from.at - self._began.at

    def _handle(self, now: CountsReading) -> None:
        if not self._is_warm and now.at >= self._warm_at:
            self._is_warm, self._counted_from = True, now
        if now.at >= self._report_at:
            is_warm = self._reported.at >= self._warm_at
            interval = interval_between(self._reported, now)
            self._report.interval_line(now.at - self._began.at, interval, is_warm=is_warm)
            self._reported = now
            self._report_at += self._interval

    def _next_at(self) -> float:
        return min(self._report_at, self._ends_at, self._ends_at if self._is_warm else self._warm_at)


STEPS: Final = 5
"""Rows from one halving of the distance to 100 % to the next."""

_HEADER: Final = f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}\n"


def write_percentile_file(path: Path, histogram: Histogram) -> None:
    """Write a histogram in the format of HdrHistogram, and replace the file's content.

    https://hdrhistogram.github.io/HdrHistogram/plotFiles.html draws several such files in one picture.
    """
    path.write_text("".join(percentile_lines(histogram)))


def percentile_lines(histogram: Histogram) -> Iterator[str]:
    """Return the lines of the file. Latencies are in milliseconds."""
    total = len(histogram)
    longest = histogram.at(100)
    yield _HEADER + "\n"
    level, seen = 0.0, 0
    for seconds, count in histogram.buckets():
        seen += count
        while level <= 100 * seen / total:
            yield f"{seconds * 1e3:12.3f} {level / 100:1.12f} {seen:10d} {100 / (100 - level):14.2f}\n"
            level += 100 / (STEPS * 2 ** (math.floor(math.log2(100 / (100 - level))) + 1))
            if seen == total:
                yield f"{longest * 1e3:12.3f} {1:1.12f} {total:10d}\n"
                break
    mean, deviation = histogram.mean() * 1e3, histogram.deviation() * 1e3
    doublings = 1 + max(0, round(longest * 1e6).bit_length() - EXACT_BITS)
    yield f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]\n"
    yield f"#[Max     = {longest * 1e3:12.3f}, Total count    = {total:12d}]\n"
    yield f"#[Buckets = {doublings:12d}, SubBuckets     = {1 << EXACT_BITS:12d}]\n"
