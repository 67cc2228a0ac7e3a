"""Mermaid sources of state charts, for web pages, editors and forges that draw Mermaid.

The engine that comes with `transitions` writes the source. It is imported here and not in
`machines/running_chart.py`, because it imports asyncio, which a client that draws nothing should not load.
"""

from typing import Any

from transitions.extensions import GraphMachine

from pulsar_actors.machines.chart import Row, trigger_name
from pulsar_actors.statecharts.drawn_chart import DrawnChart


def mermaid_source(chart: DrawnChart) -> str:
    """Return the source of one chart, without the rows that only ignore an event."""
    rows = [row for row in chart.rows if not row.is_ignored]
    met = {state for row in rows for state in (*row.sources, row.dest)}
    states = [state for state in chart.states if state in met or not chart.others]
    machine: Any = GraphMachine(
        model=None,
        states=[state.name for state in states],
        initial=chart.initial.name if chart.initial in states else None,
        auto_transitions=False,
        graph_engine="mermaid",
        title=f"title: {chart.name}",  # the engine writes this into the front matter as it is
    )
    for row in rows:
        for source in row.sources:
            machine.add_transition(_label(row), source.name, row.dest.name if row.dest else None)
    lines = [line.rstrip() for line in str(machine.graph_cls(machine).get_graph().source).splitlines()]
    lines += [f"  {source.name} --> {dest.name}" for source, dest in chart.explained]
    lines += [f"  {state.name} --> [*]" for state in states if state in chart.final]
    return "".join(f"{line}\n" for line in lines)


def _label(row: Row) -> str:
    guard = f" [{row.guard}]" if row.guard else ""
    does = f" / {row.does}" if row.does else ""
    return f"{trigger_name(row.trigger)}{guard}{does}"
