import threading
from typing import NamedTuple

import pytest

from pulsar_actors.cli.perf.report import Report
from pulsar_actors.cli.perf.tally import Interval, Tally
from pulsar_actors.cli.perf.watch import Times, Watch


class Line(NamedTuple):
    since_start: float
    interval: Interval
    is_warm: bool


class Lines(Report):
    """It keeps what it is told, and counts a message at each line: so messages tell which lines an interval has."""

    def __init__(self, tally: Tally, over: threading.Event, count: int) -> None:
        self.said: list[Line] = []
        self._tally = tally
        self._over = over
        self._count = count

    def line(self, since_start: float, interval: Interval, *, is_warm: bool) -> None:
        self.said.append(Line(since_start, interval, is_warm))
        self._tally.messages += 1
        if len(self.said) == self._count:
            self._over.set()


def watched(times: Times, lines: int = 10**6) -> tuple[Watch, Lines]:
    tally, over = Tally(), threading.Event()
    report = Lines(tally, over, lines)
    watch = Watch([tally], times, report)
    watch.until(over)
    return watch, report


def test_a_line_is_said_each_time_and_has_what_came_since_the_last() -> None:
    _, report = watched(Times(0, 0, 0.01), lines=4)
    assert [line.interval.messages for line in report.said] == [0, 1, 1, 1]
    assert [line.since_start for line in report.said] == sorted(line.since_start for line in report.said)
    assert report.said[0].since_start >= 0.01


def test_the_warm_up_does_not_count() -> None:
    watch, report = watched(Times(0.05, 0, 0.02), lines=6)
    warm = [line.is_warm for line in report.said]
    assert warm == sorted(warm)  # first the warm-up, then the rest
    assert not warm[0]
    assert warm[-1]
    assert watch.warm_up() == pytest.approx(0.05, abs=1)
    assert watch.interval().messages == len(report.said) - sum(
        line.since_start < watch.warm_up() for line in report.said
    )


def test_a_run_that_ends_before_its_warm_up_counts_whole() -> None:
    watch, _ = watched(Times(1000, 0, 0.01), lines=3)
    assert watch.warm_up() == 0
    assert watch.interval().messages == 3


def test_it_ends_when_the_time_is_up() -> None:
    watch, report = watched(Times(0, 0.05, 0))
    assert report.said == []
    assert watch.interval().seconds >= 0.05


def test_what_comes_after_the_end_does_not_count() -> None:
    watch, _ = watched(Times(0, 0.02, 0.01))
    seconds = watch.interval().seconds
    assert watch.interval().seconds == seconds
