"""The charts' rows as transitions of the `transitions` library, which drives every machine.

In the library's words our machines are models, and the class of an event is a trigger. One `transitions` machine serves
all models of a chart: a separate one for each model would cost a hundred microseconds and twenty kilobytes.

`running_chart.py` loads this module with the first event that a machine handles. Only this module and
`cli/statecharts/mermaid.py`, which draws, use the library.
"""

from collections.abc import Mapping
from typing import Any

from transitions import Event as RowsOfEvent
from transitions import EventData, Machine
from transitions.core import Transition

from pulsar_actors.machines.chart import Chart, Effect, Event, Row, RowFailed, Step, trigger_name


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


def events_of(chart: Chart, model: type) -> Mapping[type, RowsOfEvent]:
    """Build a chart, and return the library's event for each class of events: its rows, by state."""
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
    return {trigger: machine.events[trigger_name(trigger)] for trigger in chart.triggers}
