"""A chart that runs: bound to the class of its machines, it fires the rows of events.

The `transitions` library drives it (`row_transitions.py`). The library is loaded, and a chart built with it, when the
first event comes: to do it for all charts would take an eighth of the time of an import, and a program needs few.
"""

from collections.abc import Mapping
from typing import Any

from pulsar_actors.machines.chart import Chart, ChartError, Effect, Event, IllegalEvent, trigger_name


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
        self._model = model
        self._events: Mapping[type, Any] = {}  # built with the first event

    def _build(self) -> Mapping[type, Any]:
        from pulsar_actors.machines.row_transitions import events_of  # noqa: PLC0415 - see the top

        self._events = events_of(self.chart, self._model)
        return self._events

    def fire(self, model: Any, event: Event, now: float) -> list[Effect]:  # noqa: ANN401 - any model of the chart
        """Handle one event and return the effects for the actor to perform, in order.

        The rows of the model's state are tried in order, up to the first one that is taken: the last has no guard. The
        library's `trigger` also has a queue and three kinds of callbacks, which no chart uses.
        """
        effects: list[Effect] = []
        rows = (self._events or self._build()).get(type(event))
        if rows is None:
            raise IllegalEvent(f"{self.chart.name}: {type(event).__name__} is no event of this chart")
        for row in rows.transitions.get(model.state._name_, ()):  # `name` takes two calls
            if row.take(model, event, now, effects):
                return effects
        raise self._illegal(model, event)

    def _illegal(self, model: Any, event: Event) -> IllegalEvent:  # noqa: ANN401 - any model of the chart
        legal = ", ".join(sorted(trigger_name(trigger) for trigger in self.chart.legal(model.state)))
        kind: type = type(event)
        what = trigger_name(kind)
        return IllegalEvent(f"{self.chart.name}: {what} is illegal in {model.state.name}; legal there: {legal}")
