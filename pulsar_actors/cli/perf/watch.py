"""A measurement as it is watched: a line now and then, a warm-up that does not count, and what is left at the end."""

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from pulsar_actors.cli.perf.report import Report
from pulsar_actors.cli.perf.tally import Interval, Reading, Tally, between, reading

_LONG: Final = 1e6
"""Seconds: a wait that has no other end is over by then, and begins anew."""


class Times(NamedTuple):
    """In seconds: the warm-up; the whole run, warm-up and all; from one line to the next. 0 is for none, or no end."""

    warm_up: float
    duration: float
    line: float


class Watch:
    """Over tallies that others count in, from when it is made."""

    def __init__(self, tallies: Sequence[Tally], times: Times, report: Report) -> None:
        self._tallies = tallies
        self._report = report
        self._began = self._said = self._counted_from = reading(tallies)
        self._ended: Reading | None = None
        start = self._began.at
        self._is_warm = not times.warm_up
        self._warm_at = start + times.warm_up
        self._ends_at = start + (times.duration or _LONG)
        self._line = times.line or _LONG
        self._line_at = start + self._line

    def until(self, over: threading.Event) -> None:
        """Report until it is over, or the time is up."""
        while not over.is_set():
            now = reading(self._tallies)
            if now.at >= self._ends_at:
                break
            self._look(now)
            over.wait(self._next() - now.at)
        self._ended = reading(self._tallies)

    def interval(self) -> Interval:
        """Give what there was since the warm-up."""
        return between(self._counted_from, self._ended or reading(self._tallies))

    def warm_up(self) -> float:
        """Give the seconds that do not count. A run that ends before its warm-up counts all the same."""
        return self._counted_from.at - self._began.at

    def _look(self, now: Reading) -> None:
        if not self._is_warm and now.at >= self._warm_at:
            self._is_warm, self._counted_from = True, now
        if now.at >= self._line_at:
            is_warm = self._said.at >= self._warm_at
            self._report.line(now.at - self._began.at, between(self._said, now), is_warm=is_warm)
            self._said = now
            self._line_at += self._line

    def _next(self) -> float:
        return min(self._line_at, self._ends_at, self._ends_at if self._is_warm else self._warm_at)
