"""The outline of a picture: which rows of a chart are arrows, text inside a box, or entries of the list below.

A table has far more rows than a picture can have arrows. So rows that ignore an event are left out. A step that does
not leave its state is written inside the box of the state, as in UML. A step that several states share is one arrow,
from a sign that names the states. Where too many of those would lead to one state, they are listed below the picture,
and so are the steps that several states share without leaving them. The remaining rows are arrows between states.

An arrow leads to every state but the first, and another leads on from every state that is not final. Where only shared
steps do, one is drawn all the same.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import groupby
from typing import Final

from pulsar_actors.machines.chart import Row, trigger_name
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.statecharts.drawn_chart import DrawnChart, moves_of

SHARED_FROM: Final = 3
"""A step that so many states share is drawn or listed once."""
SHARED_FROM_IF_FINAL: Final = 2
"""The same for steps to a final state in a large chart: many states have one, which would hide the other arrows."""
LARGE: Final = 14
"""A chart is large if more pairs of states than this are connected."""
SIGNS: Final = 3
"""At most so many signs lead to one state. More are listed below the picture instead."""
ALIKE: Final = 4
"""Two states share the steps that do not leave them if there are at least so many of these."""

States = tuple[Enum, ...]


class Step(NamedTuple):
    """Any of these events, if the guard holds, makes the machine run this action."""

    events: tuple[str, ...]
    guard: str | None
    does: str | None


class Arrow(NamedTuple):
    """All steps from one state to another, or from several states.

    Without steps, only rows in other pictures explain it.
    """

    source: Enum | States
    dest: Enum
    steps: tuple[Step, ...]


class SharedSteps(NamedTuple):
    """Steps that the same states share: to one destination, or without leaving the state (`dest` is None)."""

    sources: States
    dest: Enum | None
    steps: tuple[Step, ...]


class Outline(NamedTuple):
    """The content of one picture."""

    chart: DrawnChart
    arrows: tuple[Arrow, ...]
    inside: dict[Enum, tuple[Step, ...]]
    shared: tuple[SharedSteps, ...]

    @property
    def states(self) -> States:
        """The states that have a box. One that is only in other pictures has none."""
        met = {state for arrow in self.arrows for state in (arrow.source, arrow.dest)}
        return tuple(one for one in self.chart.states if not self.chart.continued or one in met or self.inside[one])


class _Transition(NamedTuple):
    source: Enum
    dest: Enum | None
    step: Step


def outline(chart: DrawnChart) -> Outline:
    """Sort the rows of a chart into arrows, steps inside states, and shared steps."""
    shared = _shared_steps(chart)
    listed = {(source, dest, step) for sources, dest, steps in shared for source in sources for step in steps}
    others = [each for each in _transitions(chart) if each not in listed]
    pairs = dict.fromkeys((each.source, each.dest) for each in others)
    steps = {pair: _merged_steps([each.step for each in others if each[:2] == pair]) for pair in pairs}
    arrows = [Arrow(source, dest, steps[source, dest]) for source, dest in pairs if dest is not None]
    arrows += [Arrow(source, dest, ()) for source, dest in chart.explained]
    signs = _with_signs(shared, {arrow.dest for arrow in arrows})
    return Outline(
        chart=chart,
        arrows=(*arrows, *(Arrow(one.sources, one.dest, _merged_steps(one.steps)) for one in signs if one.dest)),
        inside={state: steps.get((state, None), ()) for state in chart.states},
        shared=tuple(one._replace(steps=_merged_steps(one.steps)) for one in shared if one not in signs),
    )


def is_shown(row: Row) -> bool:
    """Return whether a row has an action, a guard or another state, and so does not just ignore an event."""
    return (
        row.does is not None or row.guard is not None or any(row.dest not in {None, source} for source in row.sources)
    )


def _transitions(chart: DrawnChart) -> Iterator[_Transition]:
    for row in filter(is_shown, chart.rows):
        step = Step((trigger_name(row.trigger),), row.guard, row.does)
        for source in row.sources:
            stays = row.dest is source or row.dest is None
            if row.does is not None or row.guard is not None or not stays:
                yield _Transition(source, None if stays else row.dest, step)


def _shared_steps(chart: DrawnChart) -> list[SharedSteps]:
    sources_of: dict[tuple[Step, Enum | None], set[Enum]] = defaultdict(set)
    for each in _transitions(chart):
        sources_of[each.step, each.dest].add(each.source)
    found = [
        (step, tuple(state for state in chart.states if state in sources), dest)
        for (step, dest), sources in sources_of.items()
    ]
    few = SHARED_FROM if len(moves_of(chart.rows)) <= LARGE else SHARED_FROM_IF_FINAL
    alike = Counter(sources for _, sources, dest in found if dest is None)
    shared = [
        (step, sources, dest)
        for step, sources, dest in found
        if len(sources) >= (few if dest in chart.final else SHARED_FROM)
        or (dest is None and len(sources) > 1 and alike[sources] >= ALIKE)
    ]
    steps: dict[tuple[States, Enum | None], list[Step]] = defaultdict(list)
    for step, sources, dest in _without_dead_ends(chart, shared):
        steps[sources, dest].append(step)
    return [SharedSteps(sources, dest, tuple(several)) for (sources, dest), several in steps.items()]


_Shared = tuple[Step, States, Enum | None]


def _without_dead_ends(chart: DrawnChart, shared: list[_Shared]) -> Iterator[_Shared]:
    """Yield the shared steps.

    A state that only they leave gets an arrow of its own, for those that the fewest states share.
    """
    listed = {(source, dest, step) for step, sources, dest in shared for source in sources}
    led_on = {each.source for each in _transitions(chart) if each.dest is not None and each not in listed}
    led_on |= chart.final | chart.continued | {source for source, _ in chart.explained}
    fewest = {
        state: min(len(sources) for _, sources, dest in shared if dest is not None and state in sources)
        for state in chart.states
        if state not in led_on
    }
    for step, sources, dest in shared:
        left = tuple(state for state in sources if dest is None or len(sources) != fewest.get(state))
        if len(left) > 1:
            yield step, left, dest


def _with_signs(shared: Iterable[SharedSteps], entered: set[Enum]) -> list[SharedSteps]:
    """Choose what is drawn with a sign: all steps to a state with few signs, and some to a state without arrows."""
    signs: dict[Enum, list[SharedSteps]] = defaultdict(list)
    for one in shared:
        if one.dest is not None:
            signs[one.dest].append(one)
    for dest, several in signs.items():
        if len(several) > SIGNS:
            signs[dest] = [] if dest in entered else [max(several, key=lambda one: len(one.sources))]
    return [one for several in signs.values() for one in several]


def _merged_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Merge consecutive steps that differ in their event only."""
    grouped = groupby(steps, key=lambda step: (step.guard, step.does))
    return tuple(
        Step(tuple(name for step in same for name in step.events), guard, does) for (guard, does), same in grouped
    )
