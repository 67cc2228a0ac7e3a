"""The page about the charts, in Markdown: for each chart its picture, states and rows, and what their names mean.

The names of a table are those of classes and methods. Their meaning is the first paragraph of their docstring.
"""

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from pulsar_actors.machines.chart import Row, trigger_name
from pulsar_actors.statecharts.drawn_chart import DrawnChart
from pulsar_actors.statecharts.outline import is_shown

INTRODUCTION = """\
# State charts

The client runs the tables on this page, and the pictures are drawn from them. `python -m pulsar_actors statecharts`
draws them; with `--check` it reports drawings that are out of date.

**How to read them.** An arrow is labelled `event [guard] / action`: when the event comes and the guard holds, the
machine runs the action and is in the state that the arrow points to. Steps that do not leave a state are written inside
its box. Steps that several states share start at a grey field that names the states, or are listed below the picture.

Rows are tried from the top; the first row whose guard holds is taken. An event from outside has a row in every state,
or is listed there as ignored: otherwise the chart does not build. An event of our own, such as `open` or `publish`,
that has no row in a state is a bug there and raises an error.

**What is a row.** What a connection, a lookup, a producer, a consumer, a handle of several topics, a topic list
watcher, a transaction, a cluster failover and a closing client do next. So is what the embedded broker does about a
connection (`broker_session`), and what a Spark stream reads next, and which messages it reports as lost
(`spark_progress`, `spark_span`). A guard may ask a tracker, which counts and orders: permits, pending messages,
acknowledgements, entries to redeliver (`machines/trackers`).

**What is not.** When an incomplete batch or a group of acknowledgements is sent (`runtime/producer_actor.py`,
`runtime/consumer_actor.py`); how long an unused connection is kept (`runtime/connection_pool.py`); which token serves
which connection (`client/token_cache.py`); whether a lookup asks over HTTP (`runtime/lookup_actor.py`); when the
producers of retries, dead letters and lazy partitions are created (`client/dead_letters.py`,
`client/partitioned_producer.py`); how threads hand messages and calls to each other (`runtime/send_queue.py`,
`runtime/ack_queue.py`, `runtime/receiver_queue.py`, `client/shutdown.py`); the bytes of TLS (`runtime/tls.py`); how the
Spark driver finds partitions (`spark/micro_batches.py`); and the topics and subscriptions of the embedded broker
(`broker/model`).

**How they are tested.** A chart with an event that is not listed in a state, a state that cannot be reached, a dead
end, or a row that is never tried does not build (`machines/chart.py`, `tests/machines/test_chart.py`).
`tests/machines/test_every_pair.py` sends every event to every chart in every state. Models
(`tests/machines/test_*_model.py`, `tests/broker/session/test_lifecycle_model.py`) send events in random order to a
whole machine and look for a broken promise; small charts are walked through completely. Each of these tests has a table
`FAULTS`: `tests/machines/mutants.py` changes one row at a time, and the test must notice each. A chart without a fault
fails `test_every_pair.py`.
"""


def markdown_page(charts: Sequence[DrawnChart]) -> str:
    """Return the page for charts."""
    contents = [f"- [{chart.name}](#{chart.name}): {_first_sentence(chart)}" for chart in charts]
    names = [chart.name for chart in charts]
    sections = [line for chart in charts for line in _section(chart, names)]
    return "\n".join([INTRODUCTION, *contents, "", *sections])


def _first_sentence(chart: DrawnChart) -> str:
    return f"{_sentence(chart.module).partition('. ')[0].rstrip('.')}."


def _section(chart: DrawnChart, names: Iterable[str]) -> Iterator[str]:
    yield f"## {chart.name}\n"
    yield f"{inspect.getdoc(chart.module)}\n"
    if chart.note:
        others = "|".join(name for name in names if name != chart.name)
        yield re.sub(rf"\b({others})\b", r"[\1](#\1)", chart.note) + "\n"
    yield f"![The state chart of {chart.name}: states and transitions]({chart.name}.svg)\n"
    yield from _states(chart)
    yield from _rows(chart)
    yield from _glossary(chart)


def _states(chart: DrawnChart) -> Iterator[str]:
    yield "| state | meaning |"
    yield "|---|---|"
    for state in chart.states:
        role = " *Initial state.*" if state is chart.initial else " *Final state.*" if state in chart.final else ""
        yield f"| **{state.name}** | {state.value}{role} |"
    yield ""


def _rows(chart: DrawnChart) -> Iterator[str]:
    yield "<details><summary>The table</summary>\n"
    yield "| event | states | guard | action | next state |"
    yield "|---|---|---|---|---|"
    yield from (f"| {' | '.join(_cells(row))} |" for row in chart.rows if is_shown(row))
    yield from _ignored(chart)
    triggers = dict.fromkeys(row.trigger for row in chart.rows)
    yield f"\nEvents of our own: {_event_names(trigger for trigger in triggers if trigger in chart.ours) or 'none'}.\n"
    yield "</details>\n"


def _cells(row: Row) -> Iterator[str]:
    yield f"`{trigger_name(row.trigger)}`"
    yield ", ".join(state.name for state in row.sources)
    yield f"`{row.guard}`" if row.guard else ""
    yield f"`{row.does}`" if row.does else ""
    yield row.dest.name if row.dest else "stays"


def _ignored(chart: DrawnChart) -> Iterator[str]:
    """Yield the ignored events: one line for all events that are ignored in the same states."""
    states: dict[type, list[Enum]] = defaultdict(list)
    for row in chart.rows:
        if not is_shown(row):
            states[row.trigger] += row.sources
    groups: dict[tuple[Enum, ...], list[type]] = defaultdict(list)
    for trigger, found in states.items():
        groups[tuple(state for state in chart.states if state in found)].append(trigger)
    if groups:
        yield "\nIgnored, unless a row above takes it:\n"
    for group, triggers in groups.items():
        rest = [state for state in chart.states if state not in group]
        names = ", ".join(state.name for state in (rest if len(rest) < len(group) else group))
        where = "every state" if not rest else f"every state but {names}" if len(rest) < len(group) else names
        yield f"- {_event_names(triggers)} in {where}"


def _event_names(triggers: Iterable[type]) -> str:
    return ", ".join(f"`{trigger_name(trigger)}`" for trigger in triggers)


def _glossary(chart: DrawnChart) -> Iterator[str]:
    rows = [row for row in chart.rows if is_shown(row)]
    events = {trigger_name(row.trigger): row.trigger for row in rows}
    methods = dict.fromkeys(name for row in rows for name in (row.guard, row.does) if name)
    yield "<details><summary>The names in the table</summary>\n"
    yield "| event, guard or action | meaning |"
    yield "|---|---|"
    yield from (f"| `{name}` | {_sentence(event)} |" for name, event in events.items())
    yield from (f"| `{name}` | {_sentence(getattr(chart.machine, name))} |" for name in methods)
    yield "\n</details>\n"


def _sentence(documented: object) -> str:
    """Return the first paragraph of a docstring, in one line."""
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].split())
