from typing import NamedTuple

from pulsar_actors.machines.timers import StartTimer, Timers


class PingDue(NamedTuple):
    generation: int


class GiveUp(NamedTuple):
    generation: int


def test_a_timer_that_was_started_is_not_stale() -> None:
    timers = Timers()
    started = timers.start(PingDue, 30.0)
    assert isinstance(started, StartTimer)
    assert started.delay == 30.0
    assert not timers.is_stale(started.event)


def test_starting_a_timer_again_makes_the_earlier_one_stale() -> None:
    timers = Timers()
    earlier, later = timers.start(PingDue, 30.0), timers.start(PingDue, 30.0)
    assert timers.is_stale(earlier.event)
    assert not timers.is_stale(later.event)


def test_a_stopped_timer_is_stale_and_its_kind_can_be_started_again() -> None:
    timers = Timers()
    stopped = timers.start(PingDue, 30.0)
    timers.stop(PingDue)
    assert timers.is_stale(stopped.event)
    assert not timers.is_stale(timers.start(PingDue, 1.0).event)
    assert timers.is_stale(stopped.event)


def test_kinds_of_timers_do_not_touch_each_other() -> None:
    timers = Timers()
    ping = timers.start(PingDue, 30.0)
    timers.start(GiveUp, 10.0)
    timers.stop(GiveUp)
    assert not timers.is_stale(ping.event)


def test_an_event_that_is_no_timer_is_never_stale() -> None:
    assert not Timers().is_stale("anything")
