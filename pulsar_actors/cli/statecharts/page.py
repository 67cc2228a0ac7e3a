"""The page about the charts, in Markdown: for each chart its picture, states and rows, and what their names mean.

The names of a table are those of classes and methods. Their meaning is the first paragraph of their docstring.
"""

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType

from pulsar_actors.cli.statecharts.outline import is_shown
from pulsar_actors.machines.chart import Chart, Row, trigger_name
from pulsar_actors.machines.state_machine import StateMachine

INTRODUCTION = """\
# State charts

Every protocol decision of the client is a row of one of these tables. So is the life of a connection at the embedded
broker (`broker_session`), and the progress of a Spark stream (`spark_progress`). `python -m pulsar_actors statecharts`
draws the pictures and this page from the tables; with `--check` it reports drawings that are out of date.

An arrow is labelled `event [guard] / action`: when the event comes and the guard holds, the machine runs the action and
is in the state that the arrow points to. Steps that do not leave a state are written inside its box. Steps that several
states share are listed below the picture.

Rows are tried from the top; the first row whose guard holds is taken. An event from outside that has no row in a state
is ignored there. An event of our own, such as `open` or `publish`, that has no row in a state is a bug and raises an
error.
"""


def markdown_page(charts: Iterable[tuple[Chart, ModuleType]]) -> str:
    """Return the page for charts and the modules that declare them."""
    return "\n".join([INTRODUCTION, *(line for chart, module in charts for line in _section(chart, module))])


def _section(chart: Chart, module: ModuleType) -> Iterator[str]:
    yield f"## {chart.name}\n"
    yield f"{inspect.getdoc(module)}\n"
    yield f"![The state chart of {chart.name}: states and transitions]({chart.name}.svg)\n"
    yield from _states(chart)
    yield from _rows(chart)
    yield from _glossary(chart, module)


def _states(chart: Chart) -> Iterator[str]:
    yield "| state | meaning |"
    yield "|---|---|"
    for state in chart.states:
        role = " *Initial state.*" if state is chart.initial else " *Final state.*" if state in chart.final else ""
        yield f"| **{state.name}** | {state.value}{role} |"
    yield ""


def _rows(chart: Chart) -> Iterator[str]:
    yield "<details><summary>The table, without rows that only ignore an event</summary>\n"
    yield "| event | states | guard | action | next state |"
    yield "|---|---|---|---|---|"
    yield from (f"| {' | '.join(_cells(row))} |" for row in chart.rows if is_shown(row))
    ours = ", ".join(f"`{trigger_name(trigger)}`" for trigger in chart.triggers if trigger in chart.ours)
    yield f"\nEvents of our own: {ours}.\n"
    yield "</details>\n"


def _cells(row: Row) -> Iterator[str]:
    yield f"`{trigger_name(row.trigger)}`"
    yield ", ".join(state.name for state in row.sources)
    yield f"`{row.guard}`" if row.guard else ""
    yield f"`{row.does}`" if row.does else ""
    yield row.dest.name if row.dest else "stays"


def _glossary(chart: Chart, module: ModuleType) -> Iterator[str]:
    rows, machine = [row for row in chart.rows if is_shown(row)], _machine(chart, module)
    events = {trigger_name(row.trigger): row.trigger for row in rows}
    methods = dict.fromkeys(name for row in rows for name in (row.guard, row.does) if name)
    yield "<details><summary>The names in the table</summary>\n"
    yield "| event, guard or action | meaning |"
    yield "|---|---|"
    yield from (f"| `{name}` | {_sentence(event)} |" for name, event in events.items())
    yield from (f"| `{name}` | {_sentence(getattr(machine, name))} |" for name in methods)
    yield "\n</details>\n"


def _machine(chart: Chart, module: ModuleType) -> type[StateMachine]:
    machines = (one for one in vars(module).values() if isinstance(one, type) and issubclass(one, StateMachine))
    return next(one for one in machines if hasattr(one, "running") and one.running.chart is chart)


def _sentence(documented: object) -> str:
    """Return the first paragraph of a docstring, in one line."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].split())
