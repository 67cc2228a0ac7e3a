import io
import json
import random
import re
import statistics
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from pulsar_actors.cli.perf.stats import (
    Counts,
    CountsReading,
    Histogram,
    Interval,
    PerfReport,
    ReportLabels,
    RunMonitor,
    RunTimes,
    interval_between,
    percentile_lines,
    read_counts,
    write_percentile_file,
)

PERCENTILES = [0, 1, 25, 50, 75, 95, 99, 99.9, 99.99, 100]


def recorded(times: list[float]) -> Histogram:
    histogram = Histogram()
    for each in times:
        histogram.record(each)
    return histogram


def skewed(count: int, seed: int) -> list[float]:
    dice = random.Random(seed)  # noqa: S311 - times, no secrets
    return [dice.lognormvariate(-6, 2) for _ in range(count)]


@pytest.mark.parametrize("percentile", PERCENTILES)
def test_a_percentile_is_that_of_the_sorted_times_to_within_a_thousandth(percentile: float) -> None:
    times = skewed(50_000, seed=1)
    exact = sorted(times)[max(0, -(-int(percentile * len(times)) // 100) - 1)]
    assert recorded(times).at(percentile) == pytest.approx(exact, rel=1e-3, abs=1e-6)


def test_mean_and_deviation_are_those_of_the_times() -> None:
    times = skewed(20_000, seed=2)
    histogram = recorded(times)
    assert histogram.mean() == pytest.approx(statistics.fmean(times), rel=1e-3)
    assert histogram.deviation() == pytest.approx(statistics.pstdev(times), rel=1e-2)


def test_up_to_two_milliseconds_each_microsecond_has_a_bucket() -> None:
    times = [number / 1e6 for number in range(2048)]
    assert recorded(times).buckets() == [(each, 1) for each in times]


def test_an_empty_histogram_has_no_latencies() -> None:
    nothing = Histogram()
    assert (len(nothing), nothing.at(99), nothing.mean(), nothing.deviation()) == (0, 0.0, 0.0, 0.0)


def test_the_difference_to_an_earlier_copy_is_what_came_since() -> None:
    histogram = recorded([0.001, 0.002, 0.5])
    earlier = histogram.copy()
    histogram.record(0.002)
    histogram.record(0.0015)
    assert (histogram - earlier).buckets() == [(0.0015, 1), (0.002, 1)]


def test_the_sum_of_two_has_what_both_have() -> None:
    both = recorded([0.001, 0.002]) + recorded([0.002])
    assert both.buckets() == [(0.001, 1), (0.002, 2)]


def test_a_negative_latency_counts_as_zero() -> None:
    assert recorded([-0.5]).buckets() == [(0.0, 1)]


def test_a_million_times_take_no_more_memory_than_their_buckets() -> None:
    histogram = recorded(skewed(100_000, seed=3))
    assert sys.getsizeof(histogram._counts) < 2_000_000
    assert len(histogram) == 100_000


# By HdrHistogram 2.2.2 for Java: recordValue(1000), recordValue(2000), outputPercentileDistribution(out, 5, 1000.0).
OF_ONE_AND_TWO_MILLISECONDS = """\
       Value     Percentile TotalCount 1/(1-Percentile)

       1.000 0.000000000000          1           1.00
       1.000 0.100000000000          1           1.11
       1.000 0.200000000000          1           1.25
       1.000 0.300000000000          1           1.43
       1.000 0.400000000000          1           1.67
       1.000 0.500000000000          1           2.00
       2.000 0.550000000000          2           2.22
       2.000 1.000000000000          2
#[Mean    =        1.500, StdDeviation   =        0.500]
#[Max     =        2.000, Total count    =            2]
#[Buckets =            1, SubBuckets     =         2048]
"""


def rows_of(histogram: Histogram) -> list[list[float]]:
    return [
        [float(word) for word in line.split()] for line in percentile_lines(histogram) if re.match(r"\s+[0-9]", line)
    ]


def test_the_file_is_the_one_that_hdrhistogram_writes_of_the_same_times(tmp_path: Path) -> None:
    file = tmp_path / "latency.hgrm"
    write_percentile_file(file, recorded([0.001, 0.002]))
    assert file.read_text() == OF_ONE_AND_TWO_MILLISECONDS


def test_a_row_has_the_time_that_its_share_does_not_exceed() -> None:
    times = [number / 1e3 for number in range(1, 1001)]
    rows = rows_of(recorded(times))
    for milliseconds, share, count, *_ in rows:
        assert count >= share * 1000
        assert abs(milliseconds - count) <= 1


def test_the_closer_to_the_longest_the_closer_the_rows() -> None:
    shares = [row[1] for row in rows_of(recorded([number / 1e3 for number in range(1, 10_001)]))]
    assert shares == sorted(set(shares))
    for low, high in ((0, 0.5), (0.5, 0.75), (0.75, 0.875)):
        assert sum(low <= share < high for share in shares) == 5


def test_without_a_time_there_is_no_row() -> None:
    assert rows_of(Histogram()) == []
    assert "Total count    =            0" in "".join(percentile_lines(Histogram()))


def counted(messages: int, payload_bytes: int, failed: int, *times: float) -> Counts:
    one = Counts()
    one.messages, one.payload_bytes, one.failed = messages, payload_bytes, failed
    for each in times:
        one.latencies.record(each)
    return one


def test_a_reading_has_the_sum_of_all_counts() -> None:
    now = read_counts([counted(3, 300, 1, 0.001), counted(5, 500, 0, 0.001, 0.002)])
    assert (now.messages, now.payload_bytes, now.failed) == (8, 800, 1)
    assert now.latencies.buckets() == [(0.001, 2), (0.002, 1)]


def test_a_reading_does_not_change_afterwards() -> None:
    one = counted(1, 100, 0, 0.001)
    before = read_counts([one])
    one.messages += 1
    one.latencies.record(0.5)
    assert (before.messages, len(before.latencies)) == (1, 1)


def test_an_interval_is_the_difference_between_two_readings() -> None:
    one = counted(10, 1000, 1, 0.001)
    before = read_counts([one])._replace(at=100.0, cpu=1.0)
    one.messages, one.payload_bytes = 30, 6000
    one.latencies.record(0.0015)
    interval = interval_between(before, read_counts([one])._replace(at=102.0, cpu=1.5))
    assert (interval.rate, interval.megabits, interval.failed) == (10.0, 0.02, 0)
    assert interval.cpu_microseconds == pytest.approx(25_000)
    assert interval.latencies.buckets() == [(0.0015, 1)]


def test_an_interval_without_time_or_messages_divides_by_neither() -> None:
    nothing = CountsReading(1.0, 1.0, 0, 0, 0, Histogram())
    interval = interval_between(nothing, nothing)
    assert isinstance(interval, Interval)
    assert (interval.rate, interval.megabits, interval.cpu_microseconds) == (0.0, 0.0, 0.0)


LABELS = ReportLabels("sent", "from here to there")


@pytest.fixture
def interval() -> Interval:
    times = recorded([hundredths_of_a_millisecond / 1e5 for hundredths_of_a_millisecond in range(1, 101)])
    return Interval(2.0, 0.5, 500_000, 50_000_000, 3, times)


def report_of(interval: Interval, settings: dict[str, object] | None = None) -> list[str]:
    stream = io.StringIO()
    report = PerfReport(stream, LABELS, settings)
    report.interval_line(1.25, interval, is_warm=False)
    report.interval_line(3.25, interval, is_warm=True)
    report.summary(1.0, interval)
    return stream.getvalue().splitlines()


def test_a_line_has_the_rate_and_percentiles(interval: Interval) -> None:
    warming, line, *_ = report_of(interval)
    assert re.split(r"\s{2,}", line.strip()) == [
        "3.2 s", "250,000 msg/s", "200.0 Mbit/s", "ms p50 0.50", "p95 0.95", "p99 0.99", "p99.9 1.00",
        "max 1.00", "failed 3",
    ]  # fmt: skip
    assert warming.endswith("(warming up)")


def test_the_summary_says_what_was_measured(interval: Interval) -> None:
    assert report_of(interval)[2:] == [
        "sent         500,000 messages in 2.00 s, without a warm-up of 1.0 s: 250,000 msg/s, 200.0 Mbit/s",
        "failed       3",
        "CPU          1.00 us per message, of the whole process",
        "latency      from here to there, of 100 messages, in ms:",
        "             mean 0.51  p50 0.50  p75 0.75  p95 0.95  p99 0.99  p99.9 1.00  p99.99 1.00  max 1.00",
    ]


def test_json_has_an_object_on_each_line_and_the_settings_at_the_end(interval: Interval) -> None:
    objects = [json.loads(line) for line in report_of(interval, {"rate": 5})]
    assert [one["kind"] for one in objects] == ["warm-up", "interval", "summary"]
    assert objects[2]["settings"] == {"rate": 5}
    assert objects[2]["warm_up"] == 1.0
    for one in objects:
        assert (one["messages"], one["failed"], one["bytes"], one["rate"]) == (500_000, 3, 50_000_000, 250_000.0)
        assert one["cpu_us_per_message"] == 1.0
        assert one["latency_ms"]["timed"] == 100
        assert one["latency_ms"]["p99"] == 0.99


def test_json_has_null_for_latencies_that_were_not_measured(interval: Interval) -> None:
    *_, summary = (json.loads(line) for line in report_of(interval._replace(latencies=Histogram()), {}))
    assert set(summary["latency_ms"].values()) == {0, None}
    assert summary["latency_ms"]["timed"] == 0


class IntervalLine(NamedTuple):
    since_start: float
    interval: Interval
    is_warm: bool


class RecordedReport(PerfReport):
    """Keeps the lines, and counts a message at each: so the messages of an interval tell which lines it has."""

    def __init__(self, counts: Counts, done: threading.Event, count: int) -> None:
        self.lines: list[IntervalLine] = []
        self._counts = counts
        self._done = done
        self._count = count

    def interval_line(self, since_start: float, interval: Interval, *, is_warm: bool) -> None:
        self.lines.append(IntervalLine(since_start, interval, is_warm))
        self._counts.messages += 1
        if len(self.lines) == self._count:
            self._done.set()


def monitored(run_times: RunTimes, lines: int = 10**6) -> tuple[RunMonitor, RecordedReport]:
    counts, done = Counts(), threading.Event()
    report = RecordedReport(counts, done, lines)
    monitor = RunMonitor([counts], run_times, report)
    monitor.run_until(done)
    return monitor, report


def test_each_line_has_what_was_counted_since_the_last_one() -> None:
    _, report = monitored(RunTimes(0, 0, 0.01), lines=4)
    assert [line.interval.messages for line in report.lines] == [0, 1, 1, 1]
    assert [line.since_start for line in report.lines] == sorted(line.since_start for line in report.lines)
    assert report.lines[0].since_start >= 0.01


def test_the_warm_up_does_not_count() -> None:
    monitor, report = monitored(RunTimes(0.05, 0, 0.02), lines=6)
    warm = [line.is_warm for line in report.lines]
    assert warm == sorted(warm)  # first the warm-up, then the rest
    assert not warm[0]
    assert warm[-1]
    assert monitor.warm_up() == pytest.approx(0.05, abs=1)
    assert monitor.interval().messages == len(report.lines) - sum(
        line.since_start < monitor.warm_up() for line in report.lines
    )


def test_a_run_that_ends_before_its_warm_up_counts_as_a_whole() -> None:
    monitor, _ = monitored(RunTimes(1000, 0, 0.01), lines=3)
    assert monitor.warm_up() == 0
    assert monitor.interval().messages == 3


def test_a_run_ends_when_its_time_is_up() -> None:
    monitor, report = monitored(RunTimes(0, 0.05, 0))
    assert report.lines == []
    assert monitor.interval().seconds >= 0.05


def test_messages_after_the_end_do_not_count() -> None:
    monitor, _ = monitored(RunTimes(0, 0.02, 0.01))
    seconds = monitor.interval().seconds
    assert monitor.interval().seconds == seconds
