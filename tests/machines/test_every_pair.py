"""Every state of every chart meets every event that the chart knows, and does what its table says, or refuses."""

import importlib
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.cli.statecharts.command import all_charts
from pulsar_actors.machines import consumer, producer
from pulsar_actors.machines.chart import Chart, IllegalEvent, Row, trigger_name
from pulsar_actors.machines.state_machine import StateMachine
from tests.machines.mutants import Fault, row_of

CHARTS = {chart.name: chart for chart, _ in all_charts()}
SETS = {  # of states, by chart, by the name that the chart's module gives to each
    chart.name: {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, tuple) and value and set(value) <= set(chart.states)
    }
    for chart, module in all_charts()
}
PAIRS = [
    pytest.param(chart, state, trigger, id=f"{chart.name}-{state.name}-{trigger_name(trigger)}")
    for chart in CHARTS.values()
    for state in chart.states
    for trigger in chart.triggers
]


def probe(chart: Chart, state: Enum) -> Any:
    """Make a machine that runs the chart, whose guards are switches and whose actions only report themselves."""

    def guard(name: str) -> Any:
        return lambda self, event, now: self.switches[name]

    def action(name: str) -> Any:
        return lambda self, event, now: [(name, event, now)]

    methods = {row.guard: guard(row.guard) for row in chart.rows if row.guard}
    methods |= {row.does: action(row.does) for row in chart.rows if row.does}
    machine = type("Probe", (StateMachine,), {**methods, "switches": {}}, chart=chart)()
    machine.state = state
    machine.switches = {row.guard: False for row in chart.rows if row.guard}
    return machine


def moves_as_declared(chart: Chart, state: Enum, row: Row) -> bool:
    """Open only this row's guard and see whether the machine does what the row says."""
    machine = probe(chart, state)
    if row.guard:
        machine.switches[row.guard] = True
    event = tuple.__new__(row.trigger, [None] * len(getattr(row.trigger, "_fields", ())))
    effects = machine.handle(event, 7.0)
    return machine.state is (row.dest or state) and effects == ([(row.does, event, 7.0)] if row.does else [])


@pytest.mark.parametrize(("chart", "state", "trigger"), PAIRS)
def test_a_listed_pair_moves_as_declared_and_any_other_is_illegal(chart: Chart, state: Enum, trigger: type) -> None:
    rows = chart.rows_for(state, trigger)
    assert bool(rows) == (trigger in chart.legal(state))
    for row in rows:
        assert moves_as_declared(chart, state, row), row
    if not rows:
        machine = probe(chart, state)
        with pytest.raises(IllegalEvent, match=rf"{trigger_name(trigger)} is illegal in {state.name}"):
            machine.handle(tuple.__new__(trigger, ()), 7.0)
        assert machine.state is state


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_what_a_peer_or_a_timer_can_cause_is_legal_in_every_state(chart: Chart) -> None:
    foreign = set(chart.triggers) - chart.ours
    assert foreign
    for state in chart.states:
        assert foreign <= chart.legal(state)


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_every_state_says_what_it_is_for_in_a_sentence(chart: Chart) -> None:
    for state in chart.states:
        assert state.value[0].isupper()
        assert state.value.endswith(".")


def test_no_set_of_states_is_called_like_a_state() -> None:
    states = {state.name for chart in CHARTS.values() for state in chart.states}
    assert {(chart, name) for chart, sets in SETS.items() for name in sets if name in states} == set()


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_final_and_ending_mean_the_same_everywhere(chart: Chart) -> None:
    sets = SETS[chart.name]
    assert set(sets.get("FINAL", chart.final)) == chart.final
    assert "ENDING" not in sets or set(sets["ENDING"]) > chart.final


@pytest.mark.parametrize("module", [producer, consumer])
def test_the_sets_of_producers_and_consumers_are_those_of_their_handler(module: Any) -> None:
    for name in set(SETS["producer"]) & set(SETS["consumer"]):
        assert SETS[module.CHART.name][name] == getattr(module.STATES, name.lower())


def planted_faults() -> list[Fault]:
    """Collect the faults of the tables named `FAULTS` of all tests."""
    root = Path(__file__).parents[2]
    found = [path for path in (root / "tests").rglob("test_*.py") if "\nFAULTS" in path.read_text()]
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in found]
    return [fault for name in names for fault in importlib.import_module(name).FAULTS if isinstance(fault, Fault)]


def without_faults(faults: list[Fault]) -> list[str]:
    """Name the charts of which no row is changed by any of the faults."""

    def has_row(chart: Chart, fault: Fault) -> bool:
        return fault.state in chart.states and bool(row_of(chart, fault.trigger, fault.state, fault.does, fault.guard))

    return [name for name, chart in CHARTS.items() if not any(has_row(chart, fault) for fault in faults)]


def test_every_chart_has_planted_faults() -> None:
    assert without_faults([]) == list(CHARTS)
    assert without_faults(planted_faults()) == []
