"""What is counted while it happens, and what that says of a stretch of time.

Each thread that works counts in a `Tally` of its own, so none waits for another. Whoever wants to know takes a reading
of all of them, now and then; what lies between two readings is an interval.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

from pulsar_actors.cli.perf.histogram import Histogram


class Tally:
    """What one thread has counted: messages that are through, those that failed, and times of some of them."""

    __slots__ = ("failed", "messages", "octets", "times")

    def __init__(self) -> None:
        self.messages = 0
        self.octets = 0.0  # of a mean size
        self.failed = 0
        self.times = Histogram()


class Reading(NamedTuple):
    """All tallies together at a moment; `cpu` is what the process has used by then, in seconds."""

    at: float
    cpu: float
    messages: int
    octets: float
    failed: int
    times: Histogram


class Interval(NamedTuple):
    """What happened between two readings."""

    seconds: float
    cpu_seconds: float
    messages: int
    octets: float
    failed: int
    times: Histogram

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def megabits(self) -> float:
        """Megabits of payload a second."""
        return self.octets * 8 / 1e6 / self.seconds if self.seconds else 0.0

    @property
    def cpu_microseconds(self) -> float:
        """CPU time of the whole process for each message."""
        return self.cpu_seconds * 1e6 / self.messages if self.messages else 0.0


def reading(tallies: Iterable[Tally]) -> Reading:
    """Read all of them now."""
    tallies = list(tallies)
    times = Histogram()
    for each in tallies:
        times += each.times.copy()
    return Reading(
        time.perf_counter(),
        time.process_time(),
        sum(each.messages for each in tallies),
        sum(each.octets for each in tallies),
        sum(each.failed for each in tallies),
        times,
    )


def between(earlier: Reading, later: Reading) -> Interval:
    """Give what happened from one to the other."""
    return Interval(
        later.at - earlier.at,
        later.cpu - earlier.cpu,
        later.messages - earlier.messages,
        later.octets - earlier.octets,
        later.failed - earlier.failed,
        later.times - earlier.times,
    )
