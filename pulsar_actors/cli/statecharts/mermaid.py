"""Mermaid sources of state charts, for web pages, editors and forges that draw Mermaid.

The engine that comes with `transitions` writes the source. It is imported here and not in `machines/chart.py`, because
it imports asyncio, which a client that draws nothing should not load.
"""

from typing import Any

from transitions.extensions import GraphMachine

from pulsar_actors.machines.chart import Chart, Row, trigger_name


def mermaid_source(chart: Chart) -> str:
    """Return the source of one chart, without the rows that only ignore an event."""
    machine: Any = GraphMachine(
        model=None,
        states=[state.name for state in chart.states],
        initial=chart.initial.name,
        auto_transitions=False,
        graph_engine="mermaid",
        title=f"title: {chart.name}",  # the engine writes this into the front matter as it is
    )
    for row in chart.rows:
        if row.is_ignored:
            continue
        for source in row.sources:
            machine.add_transition(_label(row), source.name, row.dest.name if row.dest else None)
    ends = "".join(f"  {state.name} --> [*]\n" for state in chart.states if state in chart.final)
    lines = str(machine.graph_cls(machine).get_graph().source).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines) + ends


def _label(row: Row) -> str:
    guard = f" [{row.guard}]" if row.guard else ""
    does = f" / {row.does}" if row.does else ""
    return f"{trigger_name(row.trigger)}{guard}{does}"
