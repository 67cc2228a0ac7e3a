import pytest

from pulsar_actors.cli.perf.histogram import Histogram
from pulsar_actors.cli.perf.tally import Interval, Reading, Tally, between, reading


def tally(messages: int, octets: int, failed: int, *times: float) -> Tally:
    one = Tally()
    one.messages, one.octets, one.failed = messages, octets, failed
    for each in times:
        one.times.record(each)
    return one


def test_a_reading_has_what_all_have_counted() -> None:
    now = reading([tally(3, 300, 1, 0.001), tally(5, 500, 0, 0.001, 0.002)])
    assert (now.messages, now.octets, now.failed) == (8, 800, 1)
    assert now.times.buckets() == [(0.001, 2), (0.002, 1)]


def test_a_reading_stays_as_it_was_read() -> None:
    one = tally(1, 100, 0, 0.001)
    before = reading([one])
    one.messages += 1
    one.times.record(0.5)
    assert (before.messages, len(before.times)) == (1, 1)


def test_an_interval_is_what_lies_between_two_readings() -> None:
    one = tally(10, 1000, 1, 0.001)
    before = reading([one])._replace(at=100.0, cpu=1.0)
    one.messages, one.octets = 30, 6000
    one.times.record(0.0015)
    interval = between(before, reading([one])._replace(at=102.0, cpu=1.5))
    assert (interval.rate, interval.megabits, interval.failed) == (10.0, 0.02, 0)
    assert interval.cpu_microseconds == pytest.approx(25_000)
    assert interval.times.buckets() == [(0.0015, 1)]


def test_an_interval_without_time_or_messages_divides_by_neither() -> None:
    nothing = Reading(1.0, 1.0, 0, 0, 0, Histogram())
    interval = between(nothing, nothing)
    assert isinstance(interval, Interval)
    assert (interval.rate, interval.megabits, interval.cpu_microseconds) == (0.0, 0.0, 0.0)
