"""A chart that runs: bound to the class of its machines, it fires the rows of events.

The `transitions` library drives it, with a slimmer class of transitions than its own. In the library's words our
machines are models, and the class of an event is a trigger. One `transitions` machine serves all models of a chart: a
separate one for each model would cost a hundred microseconds and twenty kilobytes.

All charts are built when they are imported. To build each with its first event would move a seventh of the time of the
import to the first client, which then would take longer than the official one.

Only this module and `cli/statecharts/mermaid.py`, which draws, use the library.
"""

from typing import Any

from transitions import EventData, Machine
from transitions.core import Transition

from pulsar_actors.machines.chart import (
    Chart,
    ChartError,
    Effect,
    Event,
    IllegalEvent,
    Row,
    RowFailed,
    Step,
    trigger_name,
)


class RowTransition(Transition):
    """A row, in one of its states.

    A row has at most one guard and one action. The library's `execute` also looks for callbacks of eight other kinds,
    and logs each step.
    """

    def __init__(self, source: str, dest: Any, *args: Any, chart: str, row: Row, **kwargs: Any) -> None:  # noqa: ANN401 - the library's
        super().__init__(source, dest, *args, **kwargs)
        self._row = row
        self._step = Step(chart, next(state for state in row.sources if state.name == source), row)
        self._holds: Any = self.conditions[0].func if self.conditions else None
        self._act: Any = self.before[0] if self.before else None
        self._dest = row.dest

    def execute(self, event_data: EventData) -> bool:
        """Take the row, as the library asks for it."""
        return self.take(event_data.model, *event_data.args)

    def take(self, model: Any, event: Event, now: float, effects: list[Effect]) -> bool:  # noqa: ANN401 - any model
        """Run the action and change the state. Return False if the guard does not hold."""
        holds, act = self._holds, self._act  # not called as `self._act`, for which Python would search the class first
        if holds is not None:
            try:
                if not holds(model, event, now):
                    return False
            except Exception as bug:
                raise RowFailed(f"guard {self._row.guard!r} of row {self._row} raised {bug!r}") from bug
        if act is not None:
            try:
                effects += act(model, event, now)
            except Exception as bug:
                raise RowFailed(f"action {self._row.does!r} of row {self._row} raised {bug!r}") from bug
        if self._dest is not None:
            model.state = self._dest
            model.history.record(now, self._step, event)
        return True


class RowMachine(Machine):
    """A machine of `transitions` with the transitions of this module, which take a tenth of the time."""

    transition_cls = RowTransition


class RunningChart:
    """A chart bound to the class whose methods are its guards and actions."""

    def __init__(self, chart: Chart, model: type) -> None:
        problems = [
            f"{row}: {model.__name__} has no method {name!r}"
            for row in chart.rows
            for name in (row.guard, row.does)
            if name is not None and not callable(getattr(model, name, None))
        ]
        if problems:
            raise ChartError(f"chart {chart.name!r}: " + "; ".join(problems))
        self.chart = chart
        machine = RowMachine(
            model=None,
            states=list(chart.states),
            initial=chart.initial,
            auto_transitions=False,
            send_event=True,
        )
        for row in chart.rows:
            machine.add_transition(
                trigger_name(row.trigger),
                list(row.sources),
                row.dest,
                conditions=getattr(model, row.guard) if row.guard else None,
                before=getattr(model, row.does) if row.does else None,
                chart=chart.name,
                row=row,
            )
        self._events = {trigger: machine.events[trigger_name(trigger)] for trigger in chart.triggers}

    def fire(self, model: Any, event: Event, now: float) -> list[Effect]:  # noqa: ANN401 - any model of the chart
        """Handle one event and return the effects for the actor to perform, in order.

        The rows of the model's state are tried in order, up to the first one that is taken: the last has no guard. The
        library's `trigger` also has a queue and three kinds of callbacks, which no chart uses.
        """
        effects: list[Effect] = []
        rows = self._events.get(type(event))
        if rows is None:
            raise IllegalEvent(f"{self.chart.name}: {type(event).__name__} is no event of this chart")
        for row in rows.transitions.get(model.state._name_, ()):  # `name` takes two calls
            if row.take(model, event, now, effects):  # type: ignore[attr-defined] # they are of the class above
                return effects
        raise self._illegal(model, event)

    def _illegal(self, model: Any, event: Event) -> IllegalEvent:  # noqa: ANN401 - any model of the chart
        legal = ", ".join(sorted(trigger_name(trigger) for trigger in self.chart.legal(model.state)))
        kind: type = type(event)
        what = trigger_name(kind)
        return IllegalEvent(f"{self.chart.name}: {what} is illegal in {model.state.name}; legal there: {legal}")
