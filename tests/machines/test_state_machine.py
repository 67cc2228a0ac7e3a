from enum import Enum
from typing import NamedTuple

import pytest

from pulsar_actors.machines.chart import INTERNAL, Chart, ChartError, Effects, Ignore, IllegalEvent, Row, RowFailed
from pulsar_actors.machines.state_machine import StartTimer, StateMachine, Timers


class PingDue(NamedTuple):
    generation: int


class GiveUp(NamedTuple):
    generation: int


def test_a_timer_that_was_started_is_taken() -> None:
    timers = Timers()
    started = timers.start(PingDue, 30.0)
    assert isinstance(started, StartTimer)
    assert started.delay == 30.0
    assert timers.take(started.event)


def test_starting_a_timer_again_makes_the_earlier_one_stale() -> None:
    timers = Timers()
    earlier, later = timers.start(PingDue, 30.0), timers.start(PingDue, 30.0)
    assert not timers.take(earlier.event)
    assert timers.take(later.event)


def test_a_stopped_timer_is_stale_and_its_kind_can_be_started_again() -> None:
    timers = Timers()
    stopped = timers.start(PingDue, 30.0)
    timers.stop(PingDue)
    assert not timers.take(stopped.event)
    assert timers.take(timers.start(PingDue, 1.0).event)
    assert not timers.take(stopped.event)


def test_kinds_of_timers_do_not_touch_each_other() -> None:
    timers = Timers()
    ping = timers.start(PingDue, 30.0)
    timers.start(GiveUp, 10.0)
    timers.stop(GiveUp)
    assert timers.take(ping.event)


def test_an_event_that_is_no_timer_is_always_taken() -> None:
    assert Timers().take("anything")


def test_a_timer_that_is_early_enough_is_left_alone() -> None:
    timers = Timers()
    (started,) = timers.ensure(PingDue, 130.0, now=100.0)
    assert started.delay == 30.0
    assert timers.ensure(PingDue, 130.0, now=110.0) == []
    assert timers.ensure(PingDue, 140.0, now=110.0) == []
    assert timers.take(started.event)


def test_a_timer_that_is_too_late_is_replaced() -> None:
    timers = Timers()
    (late,) = timers.ensure(PingDue, 130.0, now=100.0)
    (early,) = timers.ensure(PingDue, 120.0, now=110.0)
    assert early.delay == 10.0
    assert not timers.take(late.event)
    assert timers.take(early.event)


def test_a_timer_that_has_fired_is_started_again_when_it_is_needed() -> None:
    timers = Timers()
    (fired,) = timers.ensure(PingDue, 130.0, now=100.0)
    timers.take(fired.event)
    (again,) = timers.ensure(PingDue, 140.0, now=130.0)
    assert again.delay == 10.0


def test_a_timer_that_was_stopped_is_started_again_when_it_is_needed() -> None:
    timers = Timers()
    timers.ensure(PingDue, 130.0, now=100.0)
    timers.stop(PingDue)
    (again,) = timers.ensure(PingDue, 140.0, now=100.0)
    assert timers.take(again.event)


def test_a_timer_is_due_at_once_if_its_time_has_passed() -> None:
    (started,) = Timers().ensure(PingDue, 90.0, now=100.0)
    assert started.delay == 0.0


def test_no_timer_runs_while_nothing_is_due() -> None:
    assert Timers().ensure(PingDue, None, now=100.0) == []


class Phase(Enum):
    ASKING = "Waits for an answer."
    DONE = "Has one."


class Answered(NamedTuple):
    attempt: int


class Delivered(NamedTuple):
    connection: int
    attempt: int


class Shouted(NamedTuple):
    """An event without a number."""


ASKING, DONE = Phase
CHART = Chart(
    "asker",
    states=Phase,
    initial=ASKING,
    final=[DONE],
    ours=[],
    rows=[
        Row(Answered, ASKING, DONE),
        Row(Delivered, ASKING, DONE),
        Row(Shouted, ASKING, DONE),
        Row(PingDue, ASKING, DONE),
    ],
    ignores=[Ignore((Answered, Delivered, Shouted, PingDue), DONE)],
)


class WithAttempts(StateMachine, current=("attempt",)):
    """A base without a chart."""

    def __init__(self) -> None:
        super().__init__()
        self.attempt = 2


class Asker(WithAttempts, chart=CHART, current=("connection",)):
    def __init__(self) -> None:
        super().__init__()
        self.connection = 5


@pytest.mark.parametrize("late", [Answered(1), Answered(3), Delivered(5, 1), Delivered(4, 2)])
def test_an_event_with_another_number_than_the_current_one_never_reaches_the_chart(late: object) -> None:
    machine = Asker()
    assert machine.handle(late, 0.0) == []
    assert machine.state is ASKING


@pytest.mark.parametrize("event", [Answered(2), Delivered(5, 2), Shouted()])
def test_an_event_with_the_current_numbers_or_none_reaches_the_chart(event: object) -> None:
    machine = Asker()
    machine.handle(event, 0.0)
    assert machine.state is DONE


def test_a_stale_timer_never_reaches_the_chart() -> None:
    machine = Asker()
    stopped, running = machine.timers.start(PingDue, 1.0), machine.timers.start(PingDue, 2.0)
    machine.handle(stopped.event, 1.0)
    assert machine.state is ASKING
    machine.handle(running.event, 2.0)
    assert machine.is_over


def test_a_timer_has_fired_even_if_its_action_raises() -> None:
    rows = [Row(PingDue, ASKING, DONE, does="fail"), Row(Shouted, ASKING, DONE)]
    ignores = [Ignore(PingDue, DONE)]
    chart = Chart("failing", states=Phase, initial=ASKING, final=[DONE], ours=[Shouted], rows=rows, ignores=ignores)

    class Failing(StateMachine, chart=chart):
        def fail(self, event: PingDue, now: float) -> Effects:
            raise ZeroDivisionError

    machine = Failing()
    (due,) = machine.timers.ensure(PingDue, 1.0, now=0.0)
    with pytest.raises(RowFailed):
        machine.handle(due.event, 1.0)
    assert machine.timers.ensure(PingDue, 9.0, now=1.0)


class Told(NamedTuple):
    """An event from the machine to its part."""


PART_CHART = Chart(
    "part",
    states=Phase,
    initial=ASKING,
    final=[DONE],
    ours=[],
    rows=[Row(Shouted, ASKING, INTERNAL, does="note"), Row(Told, ASKING, DONE)],
    ignores=[Ignore((Shouted, Told), DONE)],
    inner=[Told],
)
WHOLE_CHART = Chart(
    "whole",
    states=Phase,
    initial=ASKING,
    final=[DONE],
    ours=[],
    rows=[Row(Shouted, ASKING, DONE, does="note"), Row(PingDue, ASKING, DONE)],
    ignores=[Ignore((Shouted, PingDue), DONE)],
)


class Part(StateMachine, chart=PART_CHART):
    def note(self, event: Shouted, now: float) -> Effects:
        return ["the part heard it"]


class Whole(StateMachine, chart=WHOLE_CHART, parts={"part": Part}):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part(self)

    def note(self, event: Shouted, now: float) -> Effects:
        return ["the whole heard it"]


def test_an_event_of_a_part_goes_to_the_part_and_then_to_the_machines_own_chart() -> None:
    machine = Whole()
    assert machine.handle(Shouted(), 0.0) == ["the part heard it", "the whole heard it"]
    assert machine.handle(Shouted(), 0.0) == ["the part heard it"]
    assert (machine.state, machine.part.state) == (DONE, ASKING)


def test_an_inner_event_comes_from_the_machine_alone() -> None:
    machine = Whole()
    with pytest.raises(IllegalEvent, match="Told is no event of this chart"):
        machine.handle(Told(), 0.0)
    machine.part.handle(Told(), 0.0)
    assert machine.part.is_over


def test_an_event_of_two_parts_is_refused() -> None:
    with pytest.raises(ChartError, match="shouted is for one and other"):
        type("Double", (StateMachine,), {"note": Whole.note}, chart=WHOLE_CHART, parts={"one": Part, "other": Part})
