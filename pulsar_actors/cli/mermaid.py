"""A chart as Mermaid source, for whatever draws that: web pages, editors, forges.

The drawing is the engine's that comes with `transitions`. It is asked for here and not in `machines/chart.py`, for it
brings asyncio along, and a client that is imported need not draw.
"""

from typing import Any

from transitions.extensions import GraphMachine

from pulsar_actors.machines.chart import INTERNAL, Chart, Row, trigger_name


def mermaid(chart: Chart) -> str:
    """Draw what changes state, has an effect or depends; what is always ignored is left to the table."""
    machine: Any = GraphMachine(
        model=None,
        states=[state.name for state in chart.states],
        initial=chart.initial.name,
        auto_transitions=False,
        graph_engine="mermaid",
        title=f"title: {chart.name}",  # the engine puts it into a front matter, whose keys it leaves to us
    )
    for row in chart.rows:
        if row.dest is INTERNAL and row.does is None and row.guard is None:
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
