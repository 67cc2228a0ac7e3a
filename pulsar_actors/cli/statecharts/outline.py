"""The outline of a picture: which rows of a chart are arrows, text inside a box, or entries of the list below.

A table has far more rows than a picture can have arrows. So rows that ignore an event are left out. A step that does
not leave its state is written inside the box of the state, as in UML. A step that several states share is listed once,
below the picture. The remaining rows are the arrows.
"""

from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from typing import Final, NamedTuple

from pulsar_actors.machines.chart import Chart, Row, trigger_name

SHARED_FROM: Final = 3
"""A step that so many states share is listed once instead of drawn."""
SHARED_FROM_IF_FINAL: Final = 2
"""The same for steps to a final state: many states have one, and drawn they would hide the other arrows."""


class Step(NamedTuple):
    """Any of these events, if the guard holds, makes the machine run this action."""

    events: tuple[str, ...]
    guard: str | None
    does: str | None


class Arrow(NamedTuple):
    """All steps from one state to another."""

    source: Enum
    dest: Enum
    steps: tuple[Step, ...]


class SharedStep(NamedTuple):
    """A step that several states share: to one destination, or without leaving the state (`dest` is None)."""

    step: Step
    sources: tuple[Enum, ...]
    dest: Enum | None


class Outline(NamedTuple):
    """The content of one picture."""

    chart: Chart
    arrows: tuple[Arrow, ...]
    inside: dict[Enum, tuple[Step, ...]]
    shared: tuple[SharedStep, ...]


class _Transition(NamedTuple):
    source: Enum
    dest: Enum | None
    step: Step


def outline(chart: Chart) -> Outline:
    """Sort the rows of a chart into arrows, steps inside states, and shared steps."""
    shared = tuple(_shared_steps(chart))
    listed = {(source, one.dest, one.step) for one in shared for source in one.sources}
    others = [each for each in _transitions(chart) if each not in listed]
    pairs = dict.fromkeys((each.source, each.dest) for each in others)
    steps = {pair: _merged_steps([each.step for each in others if each[:2] == pair]) for pair in pairs}
    return Outline(
        chart=chart,
        arrows=tuple(Arrow(source, dest, steps[source, dest]) for source, dest in pairs if dest is not None),
        inside={state: steps.get((state, None), ()) for state in chart.states},
        shared=_merged_events(shared),
    )


def moves(chart: Chart) -> Iterator[tuple[Enum, Enum]]:
    """Return each pair of different states that a row connects, whether it is drawn as an arrow or not."""
    yield from dict.fromkeys((each.source, each.dest) for each in _transitions(chart) if each.dest is not None)


def is_shown(row: Row) -> bool:
    """Tell whether a row has an action, a guard or another state, and so does not just ignore an event."""
    return (
        row.does is not None or row.guard is not None or any(row.dest not in {None, source} for source in row.sources)
    )


def _transitions(chart: Chart) -> Iterator[_Transition]:
    for row in filter(is_shown, chart.rows):
        step = Step((trigger_name(row.trigger),), row.guard, row.does)
        for source in row.sources:
            stays = row.dest is source or row.dest is None
            if row.does is not None or row.guard is not None or not stays:
                yield _Transition(source, None if stays else row.dest, step)


def _shared_steps(chart: Chart) -> Iterator[SharedStep]:
    sources_of: dict[tuple[Step, Enum | None], dict[Enum, None]] = {}
    for each in _transitions(chart):
        sources_of.setdefault((each.step, each.dest), {})[each.source] = None
    for (step, dest), sources in sources_of.items():
        if len(sources) >= (SHARED_FROM_IF_FINAL if dest in chart.final else SHARED_FROM):
            yield SharedStep(step, tuple(state for state in chart.states if state in sources), dest)


def _merged_events(shared: tuple[SharedStep, ...]) -> tuple[SharedStep, ...]:
    """Merge shared steps that differ in their event only."""
    events: dict[SharedStep, list[str]] = {}
    for one in shared:
        events.setdefault(one._replace(step=one.step._replace(events=())), []).extend(one.step.events)
    return tuple(one._replace(step=one.step._replace(events=tuple(names))) for one, names in events.items())


def _merged_steps(steps: list[Step]) -> tuple[Step, ...]:
    """Merge consecutive steps that differ in their event only."""
    grouped = groupby(steps, key=lambda step: (step.guard, step.does))
    return tuple(
        Step(tuple(name for step in same for name in step.events), guard, does) for (guard, does), same in grouped
    )
