"""What a picture of a chart shows, and where: decided here, before anything is measured or drawn.

A table has far more rows than a picture can have arrows. So rows that ignore an event are left to the table; what a
state does without leaving it is written inside its box, as in UML; and what several states do alike is said once, in
a list under the picture. What is left are the arrows, and they show how the machine gets along.
"""

from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from typing import Final, NamedTuple

from pulsar_actors.machines.chart import Chart, Row, trigger_name

SEVERAL: Final = 3
"""From so many states on, what they do alike is said once instead of drawn."""
SEVERAL_ENDING: Final = 2
"""The same for what leads to a final state: there are many ways to end, and all alike they hide the way forward."""


class Step(NamedTuple):
    """What happens: any of these events, if the guard holds, makes the machine do this."""

    events: tuple[str, ...]
    guard: str | None
    does: str | None


class Arrow(NamedTuple):
    """All the ways from one state to another."""

    source: Enum
    dest: Enum
    steps: tuple[Step, ...]


class Shared(NamedTuple):
    """A step that several states take alike: to one destination, or staying where they are."""

    step: Step
    sources: tuple[Enum, ...]
    dest: Enum | None


class Outline(NamedTuple):
    """Everything that one picture shows."""

    chart: Chart
    arrows: tuple[Arrow, ...]
    inside: dict[Enum, tuple[Step, ...]]
    shared: tuple[Shared, ...]


class _Way(NamedTuple):
    source: Enum
    dest: Enum | None
    step: Step


def outline(chart: Chart) -> Outline:
    """Sort the rows of a chart into arrows, what states do inside, and what several do alike."""
    shared = tuple(_shared(chart))
    told = {(source, one.dest, one.step) for one in shared for source in one.sources}
    left = [way for way in _ways(chart) if way not in told]
    pairs = dict.fromkeys((way.source, way.dest) for way in left)
    steps = {pair: _joined([way.step for way in left if (way.source, way.dest) == pair]) for pair in pairs}
    return Outline(
        chart=chart,
        arrows=tuple(Arrow(source, dest, steps[source, dest]) for source, dest in pairs if dest is not None),
        inside={state: steps.get((state, None), ()) for state in chart.states},
        shared=_gathered(shared),
    )


def moves(chart: Chart) -> Iterator[tuple[Enum, Enum]]:
    """Give each pair of different states that a row joins, drawn as an arrow or not."""
    yield from dict.fromkeys((way.source, way.dest) for way in _ways(chart) if way.dest is not None)


def matters(row: Row) -> bool:
    """Tell a row that does something, or keeps another from it, from one that always ignores an event."""
    return (
        row.does is not None or row.guard is not None or any(row.dest not in {None, source} for source in row.sources)
    )


def _ways(chart: Chart) -> Iterator[_Way]:
    for row in filter(matters, chart.rows):
        step = Step((trigger_name(row.trigger),), row.guard, row.does)
        for source in row.sources:
            stays = row.dest is source or row.dest is None
            if row.does is not None or row.guard is not None or not stays:
                yield _Way(source, None if stays else row.dest, step)


def _shared(chart: Chart) -> Iterator[Shared]:
    alike: dict[tuple[Step, Enum | None], dict[Enum, None]] = {}
    for way in _ways(chart):
        alike.setdefault((way.step, way.dest), {})[way.source] = None
    for (step, dest), sources in alike.items():
        if len(sources) >= (SEVERAL_ENDING if dest in chart.final else SEVERAL):
            yield Shared(step, tuple(state for state in chart.states if state in sources), dest)


def _gathered(shared: tuple[Shared, ...]) -> tuple[Shared, ...]:
    """Say once what several states do alike on several events."""
    events: dict[Shared, list[str]] = {}
    for one in shared:
        events.setdefault(one._replace(step=one.step._replace(events=())), []).extend(one.step.events)
    return tuple(one._replace(step=one.step._replace(events=tuple(names))) for one, names in events.items())


def _joined(steps: list[Step]) -> tuple[Step, ...]:
    """Say once what follows one another and differs in the event only."""
    grouped = groupby(steps, key=lambda step: (step.guard, step.does))
    return tuple(
        Step(tuple(name for step in same for name in step.events), guard, does) for (guard, does), same in grouped
    )
