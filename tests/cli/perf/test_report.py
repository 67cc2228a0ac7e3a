import io
import json
import re

import pytest

from pulsar_actors.cli.perf.histogram import Histogram
from pulsar_actors.cli.perf.report import Report, Words
from pulsar_actors.cli.perf.tally import Interval

WORDS = Words("sent", "from here to there")


@pytest.fixture
def interval() -> Interval:
    times = Histogram()
    for hundredths_of_a_millisecond in range(1, 101):
        times.record(hundredths_of_a_millisecond / 1e5)
    return Interval(2.0, 0.5, 500_000, 50_000_000, 3, times)


def told(interval: Interval, settings: dict[str, object] | None = None) -> list[str]:
    stream = io.StringIO()
    report = Report(stream, WORDS, settings)
    report.line(1.25, interval, is_warm=False)
    report.line(3.25, interval, is_warm=True)
    report.summary(1.0, interval)
    return stream.getvalue().splitlines()


def test_a_line_has_the_rate_and_percentiles(interval: Interval) -> None:
    warming, line, *_ = told(interval)
    assert re.split(r"\s{2,}", line.strip()) == [
        "3.2 s", "250,000 msg/s", "200.0 Mbit/s", "ms p50 0.50", "p95 0.95", "p99 0.99", "p99.9 1.00",
        "max 1.00", "failed 3",
    ]  # fmt: skip
    assert warming.endswith("(warming up)")


def test_the_summary_says_what_was_measured(interval: Interval) -> None:
    assert told(interval)[2:] == [
        "sent         500,000 messages in 2.00 s, without a warm-up of 1.0 s: 250,000 msg/s, 200.0 Mbit/s",
        "failed       3",
        "CPU          1.00 us per message, of the whole process",
        "latency      from here to there, of 100 messages, in ms:",
        "             mean 0.51  p50 0.50  p75 0.75  p95 0.95  p99 0.99  p99.9 1.00  p99.99 1.00  max 1.00",
    ]


def test_json_has_an_object_on_each_line_and_the_settings_at_the_end(interval: Interval) -> None:
    said = [json.loads(line) for line in told(interval, {"rate": 5})]
    assert [one["kind"] for one in said] == ["warm-up", "interval", "summary"]
    assert said[2]["settings"] == {"rate": 5}
    assert said[2]["warm_up"] == 1.0
    for one in said:
        assert (one["messages"], one["failed"], one["bytes"], one["rate"]) == (500_000, 3, 50_000_000, 250_000.0)
        assert one["cpu_us_per_message"] == 1.0
        assert one["latency_ms"]["timed"] == 100
        assert one["latency_ms"]["p99"] == 0.99
