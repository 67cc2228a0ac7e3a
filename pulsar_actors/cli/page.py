"""The page beside the pictures, in Markdown: what each machine decides, and what its states and its words are for.

The words of a table are names of classes and methods. What they mean is said once, in the sentence that each has in the
code.
"""

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType

from pulsar_actors.cli.outline import matters
from pulsar_actors.machines.chart import Chart, Row, trigger_name
from pulsar_actors.machines.machine import StateMachine

INTRODUCTION = """\
# State charts

Every decision of the client is a row of one of these tables. The pictures and this page are drawn from the tables
themselves by `python -m pulsar_actors statecharts`; with `--check` it tells whether they are still up to date.

An arrow says `event [guard] / action`: the event comes, the guard holds, the action is done, and the machine is in the
state that the arrow points to. What a state does without leaving it is written inside its box. What several states do
alike is listed below the picture.

Rows are tried from the top, and the first whose guard holds is taken. An event from outside that has no row for a state
is ignored there. What only our own side says, such as `open` or `publish`, is a bug of ours where it has no row, and
raises an error.
"""


def page(charts: Iterable[tuple[Chart, ModuleType]]) -> str:
    """Write the page for the charts and the modules that declare them."""
    return "\n".join([INTRODUCTION, *(line for chart, module in charts for line in _section(chart, module))])


def _section(chart: Chart, module: ModuleType) -> Iterator[str]:
    yield f"## {chart.name}\n"
    yield f"{inspect.getdoc(module)}\n"
    yield f"![The state chart of {chart.name}: its states and what leads from one to the next]({chart.name}.svg)\n"
    yield from _states(chart)
    yield from _rows(chart)
    yield from _words(chart, module)


def _states(chart: Chart) -> Iterator[str]:
    yield "| state | what it is for |"
    yield "|---|---|"
    for state in chart.states:
        role = " *Here it starts.*" if state is chart.initial else " *Here it ends.*" if state in chart.final else ""
        yield f"| **{state.name}** | {state.value}{role} |"
    yield ""


def _rows(chart: Chart) -> Iterator[str]:
    yield "<details><summary>The table, without what is always ignored</summary>\n"
    yield "| event | in | if | action | then |"
    yield "|---|---|---|---|---|"
    yield from (f"| {' | '.join(_cells(row))} |" for row in chart.rows if matters(row))
    ours = ", ".join(f"`{trigger_name(trigger)}`" for trigger in chart.triggers if trigger in chart.ours)
    yield f"\nOnly our own side says {ours}.\n"
    yield "</details>\n"


def _cells(row: Row) -> Iterator[str]:
    yield f"`{trigger_name(row.trigger)}`"
    yield ", ".join(state.name for state in row.sources)
    yield f"`{row.guard}`" if row.guard else ""
    yield f"`{row.does}`" if row.does else ""
    yield row.dest.name if row.dest else "stays"


def _words(chart: Chart, module: ModuleType) -> Iterator[str]:
    rows, machine = [row for row in chart.rows if matters(row)], _machine(chart, module)
    events = {trigger_name(row.trigger): row.trigger for row in rows}
    methods = dict.fromkeys(name for row in rows for name in (row.guard, row.does) if name)
    yield "<details><summary>What its words mean</summary>\n"
    yield "| event, guard or action | what it says |"
    yield "|---|---|"
    yield from (f"| `{name}` | {_sentence(event)} |" for name, event in events.items())
    yield from (f"| `{name}` | {_sentence(getattr(machine, name))} |" for name in methods)
    yield "\n</details>\n"


def _machine(chart: Chart, module: ModuleType) -> type[StateMachine]:
    machines = (one for one in vars(module).values() if isinstance(one, type) and issubclass(one, StateMachine))
    return next(one for one in machines if hasattr(one, "running") and one.running.chart is chart)


def _sentence(documented: object) -> str:
    """Give the first paragraph of what it says of itself, in one line."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].split())
