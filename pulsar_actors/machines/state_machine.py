"""The base of every machine: one current state, one chart, its timers, and `handle`.

    effects = machine.handle(event, now)

A machine never calls anything: it answers an event with effects that an actor performs, in their order. `now` is a
reading of a monotonic clock, in seconds.

Late events are dropped before the chart, so its rows speak only of events that still mean something. There are two
kinds. A timer is an event that the loop hands back after a delay; the loop cannot take it back. It carries a
generation, and starting a timer of the same kind again, or stopping it, makes the earlier one stale:

    class PingDue(NamedTuple):
        generation: int

    effects = [timers.start(PingDue, 30.0)]

An answer carries the number of the attempt or the connection that it belongs to. A machine declares these numbers, and
has an attribute of the same name with the current one; an event with another number is stale:

    class TopicListWatcher(StateMachine, chart=CHART, current=("connection",)):
"""

from enum import Enum
from typing import Any, ClassVar, NamedTuple

from pulsar_actors.machines.chart import Chart, Effect, Event, RunningChart


class StateMachine:
    """Handles events as a chart says. A subclass without a chart is a base for others."""

    __slots__ = ("state", "timers")

    running: ClassVar[RunningChart]
    _current_numbers: ClassVar[tuple[str, ...]] = ()
    _numbers_by_event: ClassVar[dict[type, tuple[str, ...]]]

    def __init_subclass__(
        cls,
        chart: Chart | None = None,
        current: tuple[str, ...] = (),
        **kwargs: Any,  # noqa: ANN401 - of other bases
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls._current_numbers = (*cls._current_numbers, *current)
        if chart is not None:
            cls.running = RunningChart(chart, cls)
            cls._numbers_by_event = _event_numbers(chart, cls._current_numbers)

    def __init__(self, timers: "Timers | None" = None) -> None:
        """Begin in the initial state; a machine that is part of another has its timers."""
        self.state: Enum = self.running.chart.initial
        self.timers = Timers() if timers is None else timers

    @property
    def is_over(self) -> bool:
        """True in a state that the machine never leaves."""
        return self.state in self.running.chart.final

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Move as the chart says and return the effects; an exception leaves the state as it was."""
        for name in self._numbers_by_event.get(event.__class__, ()):
            if getattr(event, name) != getattr(self, name):
                return []
        if not self.timers.take(event):
            return []
        return self.running.fire(self, event, now)


def _event_numbers(chart: Chart, current: tuple[str, ...]) -> dict[type, tuple[str, ...]]:
    """Find the events of a chart that carry any of these numbers, so that the others cost one look-up."""
    carried = {
        trigger: tuple(name for name in current if name in getattr(trigger, "_fields", ()))
        for trigger in chart.triggers
    }
    return {trigger: names for trigger, names in carried.items() if names}


class StartTimer(NamedTuple):
    """Effect: hand the event back after so many seconds."""

    event: Any
    delay: float


class Timers:
    """The timers of one machine: the generation of each kind, and when a timer that runs is due."""

    __slots__ = ("_due", "_generations")

    def __init__(self) -> None:
        self._generations: dict[type, int] = {}
        self._due: dict[type, float] = {}  # of those that `ensure` started

    def start(self, kind: type, delay: float) -> StartTimer:
        """Start a timer; one of the same kind that still runs is stale from now on."""
        self.stop(kind)
        return StartTimer(kind(self._generations[kind]), delay)

    def ensure(self, kind: type, due: float | None, now: float) -> list[StartTimer]:
        """Start a timer that is due at this time, unless nothing is due or one that runs is early enough.

        A timer may therefore come too early: the time it was started for may have been answered meanwhile, as most are.
        """
        if due is None:
            return []
        running = self._due.get(kind)
        if running is not None and running <= due:
            return []
        timer = self.start(kind, max(0.0, due - now))
        self._due[kind] = due
        return [timer]

    def stop(self, kind: type) -> None:
        """Make a timer stale. The loop may still hand it back."""
        self._generations[kind] = self._generations.get(kind, 0) + 1
        self._due.pop(kind, None)

    def take(self, event: Any) -> bool:  # noqa: ANN401 - any event, a timer or not
        """Take an event: False for a timer that was stopped or started again. One that is taken runs no longer."""
        kind = event.__class__
        generation = self._generations.get(kind)
        if generation is None:
            return True
        if generation != event.generation:
            return False
        self._due.pop(kind, None)
        return True
