"""What all machines share: one current state, one chart, and `handle`.

    effects = machine.handle(event, now)

A machine never calls anything: it answers an event with the effects that somebody else performs, in their order.
`now` is a reading of a monotonic clock, in seconds. A stale timer never reaches the chart, so its rows speak only of
timers that run.
"""

from enum import Enum
from typing import Any, ClassVar

from pulsar_actors.machines.chart import Chart, Effect, Event, RunningChart
from pulsar_actors.machines.timers import Timers


class StateMachine:
    """The base of every machine: `class Connection(StateMachine, chart=CHART)`. Without a chart: a base for others."""

    __slots__ = ("state", "timers")

    running: ClassVar[RunningChart]

    def __init_subclass__(cls, chart: Chart | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - of other bases
        super().__init_subclass__(**kwargs)
        if chart is not None:
            cls.running = RunningChart(chart, cls)

    def __init__(self) -> None:
        self.state: Enum = self.running.chart.initial
        self.timers = Timers()

    @property
    def is_over(self) -> bool:
        """Tell whether it has come to a state that it never leaves."""
        return self.state in self.running.chart.final

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Move as the chart says and give the effects; an exception leaves the state as it was."""
        if self.timers.is_stale(event):
            return []
        return self.running.fire(self, event, now)
