"""Charts with one row changed, and machines that run them: to see whether a test notices."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from pulsar_actors.machines.chart import Chart, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine

FURTHER: Mapping[str, Callable[..., Any]] = {
    "always": lambda *_: True,
    "never": lambda *_: False,
    "ignore": lambda *_: [],
}
"""Guards and actions that only faults name."""


class Fault(NamedTuple):
    """A row that is changed, what the model complains of, and the rules that lead there: all would take for longer."""

    trigger: type
    state: Enum
    does: str | None
    changed: dict[str, Any]
    complaint: str
    rules: frozenset[str]
    guard: str | None

    def __str__(self) -> str:
        """Name the case."""
        return f"{self.trigger.__name__}-{self.state.name}-{self.does}"


def fault(  # noqa: PLR0913 - a line of a table of faults
    trigger: type,
    state: Enum,
    does: str | None,
    changed: dict[str, Any],
    complaint: str,
    *rules: str,
    guard: str | None = None,
) -> Fault:
    """Give a line of a table of faults; `guard` tells apart rows with the same action."""
    return Fault(trigger, state, does, changed, complaint, frozenset(rules), guard)


def hunting(model: settings, steps: int = 12) -> settings:
    """Search for longer than the model does, in short runs, and stop at the first complaint without shrinking it.

    Some faults take some hundreds of runs on average, and then with bad luck thousands.
    """
    return settings(
        model,
        max_examples=30_000,
        stateful_step_count=steps,
        phases=[Phase.generate],
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
    )


class Hunt(NamedTuple):
    """A machine, and the model that must notice faults in its chart.

    `further` are actions that only faults name. `attribute` of the model is the class of the machine that it makes.
    """

    chart: Chart
    machine: type[StateMachine]
    model: type[RuleBasedStateMachine]
    further: Mapping[str, Callable[..., Any]]
    settings: settings
    attribute: str = "machine_class"

    def find_out(self, fault: Fault, start: int) -> None:
        """Fail unless the model, when it starts so many steps from the beginning, complains of the fault."""
        row = row_of(self.chart, fault.trigger, fault.state, fault.does, fault.guard)
        broken = mutant(self.machine, mutated(self.chart, row, **fault.changed), self.further)
        parts: dict[str, Any] = dict.fromkeys(rules_of(self.model) - fault.rules)
        parts |= {self.attribute: broken, "starts": (start,)}
        model: Any = type("AnyMutant", (self.model,), parts)
        with pytest.raises(AssertionError, match=fault.complaint):
            run_state_machine_as_test(model, settings=self.settings)
        delattr(model, self.attribute)  # Hypothesis keeps the model for ever, and it the whole chart


def rules_of(model: type[RuleBasedStateMachine]) -> frozenset[str]:
    """Name the rules of a model."""
    return frozenset(name for name in dir(model) if hasattr(getattr(model, name), "hypothesis_stateful_rule"))


def row_of(chart: Chart, trigger: type, source: Enum, does: str | None, guard: str | None = None) -> Row:
    """Find the row of a chart by event, state and action, and by its guard if there are several."""
    found = [row for row in chart.rows_for(source, trigger) if row.does == does]
    if len(found) > 1:
        found = [row for row in found if row.guard == guard]
    (row,) = found
    return row


def mutated(chart: Chart, original: Row, **changed: Any) -> Chart:
    """Change one row of a chart, or what it does about an event that it ignores."""
    assert original in chart.rows
    rows = [row._replace(**changed) if row is original else row for row in chart.rows]
    return Chart(
        chart.name,
        states=type(chart.initial),
        initial=chart.initial,
        final=chart.final,
        ours=chart.ours,
        rows=[row for row in rows if not row.is_ignored],
        ignores=[Ignore(row.trigger, row.source) for row in rows if row.is_ignored],
    )


def mutant(machine: type[StateMachine], chart: Chart, methods: Mapping[str, Callable[..., Any]]) -> type[StateMachine]:
    """Let a machine run another chart, with further guards and actions."""
    return type("Mutant", (machine,), {"__slots__": (), **methods}, chart=chart)


def planted(chart: Chart, machine: type[StateMachine], fault: Fault) -> Any:
    """Give the machine with a fault in its chart, for a model that walks through all states by itself."""
    row = row_of(chart, fault.trigger, fault.state, fault.does, fault.guard)
    return mutant(machine, mutated(chart, row, **fault.changed), FURTHER)
