"""Charts with one row changed, and machines that run them: to see whether a test notices."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from pulsar_actors.machines.chart import Chart, Row
from pulsar_actors.machines.machine import StateMachine


class Fault(NamedTuple):
    """A row that is changed, what the model complains of, and the rules that lead there: all would take for longer."""

    trigger: type
    state: Enum
    does: str | None
    changed: dict[str, Any]
    complaint: str
    rules: frozenset[str]

    def __str__(self) -> str:
        """Name the case."""
        return f"{self.trigger.__name__}-{self.state.name}-{self.does}"


def fault(trigger: type, state: Enum, does: str | None, changed: dict[str, Any], complaint: str, *rules: str) -> Fault:
    """Give a line of a table of faults."""
    return Fault(trigger, state, does, changed, complaint, frozenset(rules))


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
    """What must notice, of which machine; `further` are actions that only faults name."""

    chart: Chart
    machine: type[StateMachine]
    model: type[RuleBasedStateMachine]
    further: Mapping[str, Callable[..., Any]]
    settings: settings

    def find_out(self, fault: Fault, start: int) -> None:
        """Fail unless the model, when it starts so many steps from the beginning, complains of the fault."""
        row = row_of(self.chart, fault.trigger, fault.state, fault.does)
        broken = mutant(self.machine, mutated(self.chart, row, **fault.changed), self.further)
        parts: dict[str, Any] = dict.fromkeys(rules_of(self.model) - fault.rules)
        parts |= {"machine_class": broken, "starts": (start,)}
        model: Any = type("AnyMutant", (self.model,), parts)
        with pytest.raises(AssertionError, match=fault.complaint):
            run_state_machine_as_test(model, settings=self.settings)
        del model.machine_class  # Hypothesis keeps the model for ever, and it the whole chart


def rules_of(model: type[RuleBasedStateMachine]) -> frozenset[str]:
    """Name the rules of a model."""
    return frozenset(name for name in dir(model) if hasattr(getattr(model, name), "hypothesis_stateful_rule"))


def row_of(chart: Chart, trigger: type, source: Enum, does: str | None) -> Row:
    """Find the row of a chart by event, state and action."""
    (found,) = [row for row in chart.rows_for(source, trigger) if row.does == does]
    return found


def mutated(chart: Chart, original: Row, **changed: Any) -> Chart:
    """Change one row of a chart."""
    assert original in chart.rows
    rows = [row._replace(**changed) if row is original else row for row in chart.rows]
    states = type(chart.initial)
    return Chart(chart.name, states=states, initial=chart.initial, final=chart.final, ours=chart.ours, rows=rows)


def mutant(machine: type[StateMachine], chart: Chart, methods: Mapping[str, Callable[..., Any]]) -> type[StateMachine]:
    """Let a machine run another chart, with further guards and actions."""
    return type("Mutant", (machine,), {"__slots__": (), **methods}, chart=chart)
