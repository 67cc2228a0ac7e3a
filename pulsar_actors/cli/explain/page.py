"""The page about a history, in HTML: what failed, the sequence diagram, and what its names mean. It loads nothing."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from pulsar_actors.cli.explain.sequence import draw_sequence
from pulsar_actors.cli.statecharts.command import all_charts
from pulsar_actors.machines.chart import Chart, trigger_name
from pulsar_actors.runtime.state_changes import StateChange

_HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>A history of pulsar_actors</title>
<style>
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
  color: #1c2530; background: #fbfbf9; margin: 2rem; max-width: 90rem; }
.diagram { overflow-x: auto; border: 1px solid #d4d8dd; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem; border-bottom: 1px solid #d4d8dd; }
code { font-size: 90%; }
</style>
</head>
<body>
"""


def html_page(history: Sequence[StateChange]) -> str:
    """Return the page about a history, which has at least one change."""
    return "\n".join(
        [_HEAD, *_summary(history), *_failures(history), *_diagram(history), *_meanings(history), "</body></html>", ""]
    )


def _summary(history: Sequence[StateChange]) -> Iterator[str]:
    actors = {change.actor for change in history}
    seconds = history[-1].time - history[0].time
    yield "<h1>What has happened</h1>"
    yield f"<p>{len(history)} changes of state of {len(actors)} actors in {seconds:.3f} seconds. The first:</p>"
    yield f"<p><code>{escape(str(history[0]))}</code></p>"


def _failures(history: Sequence[StateChange]) -> Iterator[str]:
    failed = [change for change in history if change.error is not None]
    yield "<h2>What failed</h2>"
    if not failed:
        yield "<p>No event told of an error.</p>"
        return
    yield "<ul>"
    yield from (f"<li><code>{escape(str(change))}</code></li>" for change in failed)
    yield "</ul>"


def _diagram(history: Sequence[StateChange]) -> Iterator[str]:
    yield "<h2>In the order of time</h2>"
    yield f'<div class="diagram">{draw_sequence(history)}</div>'


def _meanings(history: Sequence[StateChange]) -> Iterator[str]:
    """Explain the events and the states, as far as this version has the charts that they are of."""
    charts = {chart.name: chart for chart, _ in all_charts()}
    yield "<h2>What the names mean</h2>"
    for name in dict.fromkeys(change.chart for change in history):
        chart = charts.get(name)
        if chart is None:
            yield f"<p>This version has no chart with the name {escape(name)}.</p>"
        else:
            yield f"<h3>{escape(name)}</h3>"
            yield "<table><tr><th>name</th><th>meaning</th></tr>"
            yield from _rows(_states(chart, history))
            yield from _rows(_events(chart, history))
            yield "</table>"


def _rows(meanings: Mapping[str, str]) -> Iterator[str]:
    for name, meaning in meanings.items():
        yield f"<tr><td><code>{escape(name)}</code></td><td>{escape(meaning)}</td></tr>"


def _states(chart: Chart, history: Sequence[StateChange]) -> dict[str, str]:
    seen = {name for change in history if change.chart == chart.name for name in (change.source, change.dest)}
    return {state.name: state.value for state in chart.states if state.name in seen}


def _events(chart: Chart, history: Sequence[StateChange]) -> dict[str, str]:
    seen = {change.event for change in history if change.chart == chart.name}
    events = {trigger_name(trigger): trigger for trigger in chart.triggers}
    return {name: _sentence(trigger) for name, trigger in events.items() if name in seen}


def _sentence(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())
