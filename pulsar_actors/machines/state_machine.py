"""The base of every machine: one current state, one chart, its timers, and `handle`.

    effects = machine.handle(event, now)

A machine has no side effects: it answers an event with effects, which an actor performs in order. `now` is a reading of
a monotonic clock, in seconds.

Stale events are dropped before they reach the chart, so its rows need not handle them. There are two kinds. A timer is
an event that the loop returns after a delay; it cannot be cancelled. It carries a generation. To start a timer of the
same kind again, or to stop it, makes the earlier one stale:

    class PingDue(NamedTuple):
        generation: int

    effects = [timers.start(PingDue, 30.0)]

An answer carries the number of its attempt or its connection. A machine declares these numbers, and has an attribute of
the same name with the current one. An event with another number is stale:

    class TopicListWatcher(StateMachine, chart=CHART, current=("connection",)):

A machine may have parts, which are machines with charts of their own. It names the attribute and the class of each:

    class ConsumerMachine(StateMachine, chart=CHART, parts={"messages": ConsumerMessages, "queries": ConsumerQueries}):

An event of a part's chart is handled by that part, and then by the machine's own chart if the event is in that, too. An
`inner` event of a part is not passed on: it comes from an action of the machine, which calls the part's `handle`.

Each change of the state is recorded in the machine's history (see `machine_history.py`).
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar

from pulsar_actors.machines.chart import Chart, ChartError, Effect, Event, trigger_name
from pulsar_actors.machines.machine_history import MachineHistory
from pulsar_actors.machines.running_chart import RunningChart
from pulsar_actors.named_tuple import NamedTuple


class StateMachine:
    """Handles events as a chart says. A subclass without a chart is a base for others."""

    __slots__ = ("history", "state", "timers")

    running: ClassVar[RunningChart]
    _current_numbers: ClassVar[tuple[str, ...]] = ()
    _parts: ClassVar[Mapping[str, "type[StateMachine]"]] = MappingProxyType({})
    _routes: ClassVar[Mapping[type, "_Route"]]
    final_states: ClassVar[tuple[Enum, ...]]

    def __init_subclass__(
        cls,
        chart: Chart | None = None,
        current: tuple[str, ...] = (),
        parts: "Mapping[str, type[StateMachine]] | None" = None,
        **kwargs: Any,  # noqa: ANN401 - of other bases
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls._current_numbers = (*cls._current_numbers, *current)
        cls._parts = cls._parts if parts is None else MappingProxyType(dict(parts))
        if chart is not None:
            cls.running = RunningChart(chart, cls)
            cls._routes = _routes(chart, cls._current_numbers, cls._parts)
            cls.final_states = tuple(chart.final)  # a set would call the enum's hash

    def __init__(self, whole: "StateMachine | None" = None) -> None:
        """Begin in the initial state. A machine that is part of another uses the timers and the history of that one."""
        self.state: Enum = self.running.chart.initial
        self.timers: Timers = Timers() if whole is None else whole.timers
        self.history: MachineHistory = MachineHistory() if whole is None else whole.history

    def with_parts(self) -> "list[StateMachine]":
        """Return the machine, and its parts."""
        return [self, *(part for name in self._parts for part in getattr(self, name).with_parts())]

    @property
    def is_over(self) -> bool:
        """True in a state that the machine never leaves."""
        return self.state in self.final_states

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event as the charts say, and return the effects. After an exception the state is unchanged."""
        effects: list[Effect] = []
        route = self._routes.get(event.__class__)
        if route is not None:
            numbers, part, ignoring = route
            if part is not None:
                effects = getattr(self, part).handle(event, now)
                if self.state in ignoring:
                    return effects
            for name in numbers:
                if getattr(event, name) != getattr(self, name):
                    return effects
        if event.__class__ in self.timers.generations and not self.timers.take(event):
            return effects
        own = self.running.fire(self, event, now)
        return [*effects, *own] if effects else own


class _Route(NamedTuple):
    """The steps for an event before the machine's own chart gets it.

    An event without a route costs only a dict look-up.
    """

    numbers: tuple[str, ...]  # numbers in the event that must be current
    part: str | None  # the part that handles the event first
    ignoring: tuple[Enum, ...]  # the states in which the machine's own chart ignores it


def _routes(chart: Chart, current: tuple[str, ...], parts: Mapping[str, type[StateMachine]]) -> dict[type, _Route]:
    part_of: dict[type, str] = {}
    for name, part in parts.items():
        for trigger in frozenset(part.running.chart.triggers) - part.running.chart.inner:
            if trigger in part_of:
                raise ChartError(f"chart {chart.name!r}: {trigger_name(trigger)} is for {part_of[trigger]} and {name}")
            part_of[trigger] = name
    routes: dict[type, _Route] = {}
    for trigger in {*chart.triggers, *part_of}:
        numbers = tuple(name for name in current if name in getattr(trigger, "_fields", ()))
        if numbers or trigger in part_of:
            routes[trigger] = _Route(numbers, part_of.get(trigger), _states_without(chart, trigger))
    return routes


def _states_without(chart: Chart, trigger: type) -> tuple[Enum, ...]:
    """List the states in which the chart ignores an event: all states, if the event is not in the chart."""
    if trigger not in chart.triggers:
        return chart.states
    first = {state: chart.rows_for(state, trigger)[:1] for state in chart.states}
    return tuple(state for state, rows in first.items() if rows and rows[0].is_ignored)


class StartTimer(NamedTuple):
    """Hand the event back to the machine after so many seconds."""

    event: Any
    delay: float


class Timers:
    """The timers of one machine: the generation of each kind, and the due times of running ones."""

    __slots__ = ("_due", "generations")

    def __init__(self) -> None:
        self.generations: dict[type, int] = {}  # of the timers that were started or stopped
        self._due: dict[type, float] = {}  # due times of timers that `ensure` started

    def start(self, kind: type, delay: float) -> StartTimer:
        """Start a timer. One of the same kind that still runs is stale from now on."""
        self.stop(kind)
        return StartTimer(kind(self.generations[kind]), delay)

    def ensure(self, kind: type, due: float | None, now: float) -> list[StartTimer]:
        """Start a timer for this time, unless the time is None or a running timer is due before.

        So a timer may fire although nothing is due any longer: the request that it was started for is usually answered
        by then.
        """
        if due is None:
            return []
        running = self._due.get(kind)
        if running is not None and running <= due:
            return []
        timer = self.start(kind, max(0.0, due - now))
        self._due[kind] = due
        return [timer]

    def left(self, kind: type, now: float) -> float:
        """Return the seconds until a timer that `ensure` started is due; 0 if none is running."""
        return max(0.0, self._due.get(kind, now) - now)

    def stop(self, kind: type) -> None:
        """Make a timer stale. The loop may still return it."""
        self.generations[kind] = self.generations.get(kind, 0) + 1
        self._due.pop(kind, None)

    def take(self, event: Any) -> bool:  # noqa: ANN401 - any event, a timer or not
        """Return False for a stale timer, True for any other event. A timer that is taken does not run any longer."""
        kind = event.__class__
        generation = self.generations.get(kind)
        if generation is None:
            return True
        if generation != event.generation:
            return False
        self._due.pop(kind, None)
        return True
