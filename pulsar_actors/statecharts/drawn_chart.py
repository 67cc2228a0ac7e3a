"""The rows and states of one picture: a whole chart; or for producer and consumer, first the rows that they share.

The charts of producer and consumer have the rows of `handler_rows` in common. Those rows are drawn once, as a picture
of their own, `connection_handler`. The pictures of producer and consumer have the other rows, and say so. Together they
are the charts that run.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from enum import Enum
from types import ModuleType
from typing import Final

from pulsar_actors.machines import connection_handler
from pulsar_actors.machines.chart import Chart, Row
from pulsar_actors.machines.connection_handler import (
    CommonState,
    ConnectionHandler,
    HandlerStates,
    handler_ignores,
    handler_rows,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple

SHARED_ROWS: Final = connection_handler.__name__.rpartition(".")[2]
"""The name of the picture of the shared rows."""


class DrawnChart(NamedTuple):
    """A chart, or the part of one that has a picture of its own."""

    name: str
    states: tuple[Enum, ...]
    initial: Enum
    final: frozenset[Enum]
    rows: tuple[Row, ...]
    ours: frozenset[type]
    module: ModuleType
    machine: type[StateMachine]
    note: str = ""
    """A sentence for the page: which rows of this chart are in other pictures."""
    continued: frozenset[Enum] = frozenset()
    """States that arrows of another picture enter or leave, too."""
    explained: tuple[tuple[Enum, Enum], ...] = ()
    """Moves between states of this picture whose rows are only in other pictures. They are dashed arrows."""
    others: tuple[Row, ...] = ()
    """The rows in other pictures. They are known here so that the boxes have the same order in all pictures."""


def find_charts(*packages: ModuleType) -> list[tuple[Chart, ModuleType]]:
    """Find each chart with its module, package by package, in the order of the modules' names.

    A module that declares a chart calls it CHART.
    """
    names = [
        f"{package.__name__}.{name}"
        for package in packages
        for name in sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    ]
    modules = [importlib.import_module(name) for name in names]
    return [(module.CHART, module) for module in modules if isinstance(getattr(module, "CHART", None), Chart)]


def drawn_charts(charts: Iterable[tuple[Chart, ModuleType]]) -> list[DrawnChart]:
    """Return what to draw for charts and the modules that declare them, in the order of the modules."""
    whole = [draw_whole(chart, module) for chart, module in charts]
    users = {one.name: one for one in whole if issubclass(one.machine, ConnectionHandler)}
    drawn = [_without_shared_rows(one) if one.name in users else one for one in whole]
    if users:
        first = next(index for index, one in enumerate(drawn) if one.module.__name__ > connection_handler.__name__)
        drawn.insert(first, _shared_rows(list(users.values())))
    return drawn


def draw_whole(chart: Chart, module: ModuleType) -> DrawnChart:
    """Draw a chart as one picture."""
    machines = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, StateMachine)]
    machine = next(one for one in machines if hasattr(one, "running") and one.running.chart is chart)
    return DrawnChart(chart.name, chart.states, chart.initial, chart.final, chart.rows, chart.ours, module, machine)


def _shared_rows(users: list[DrawnChart]) -> DrawnChart:
    """Draw the rows that the charts share, for the states that all of them have."""
    common = HandlerStates(
        CommonState, creating=(CommonState.CREATING,), final=(CommonState.CLOSED, CommonState.FAILED)
    )
    rows = (*handler_rows(common), *(row for ignored in handler_ignores(common) for row in ignored.rows))
    known = moves_of(rows)
    moves = [moves_of(_without_shared_rows(one).rows, _common_states(one)) for one in users]
    return DrawnChart(
        name=SHARED_ROWS,
        states=tuple(CommonState),
        initial=CommonState.IDLE,
        final=frozenset(common.final),
        rows=rows,
        ours=frozenset(row.trigger for row in rows).intersection(*(one.ours for one in users)),
        module=connection_handler,
        machine=ConnectionHandler,
        note=f"The rows that {' and '.join(one.name for one in users)} share. Each has more rows, in a picture of its"
        " own; a dashed arrow stands for those that both have. CREATING is"
        f" {', and '.join(map(_creating_text, users))}.",
        explained=tuple(move for move in moves[0] if move not in known and all(move in other for other in moves)),
    )


def _without_shared_rows(user: DrawnChart) -> DrawnChart:
    """Draw the other rows of a chart, and the shared ones in states that it alone has."""
    common = _common_states(user)
    own = {meant: state for state, meant in reversed(common.items())}
    states = _handler_states(user)
    shared = {*handler_rows(states), *(row for ignored in handler_ignores(states) for row in ignored.rows)}
    alike = {
        state: [row for row in shared if state in row.sources and own[meant] in row.sources]
        for state, meant in common.items()
    }
    rows = [
        row._replace(source=tuple(one for one in row.sources if row not in alike.get(one, ())))
        if row in shared
        else row
        for row in user.rows
    ]
    return user._replace(
        rows=tuple(row for row in rows if row.sources),
        note="With the rows of connection_handler, which are tried after those here, this is the chart that runs. The"
        f" dashed states have more arrows there. CREATING there is {_creating_text(user)}.",
        continued=frozenset(common),
        others=tuple(row for row in user.rows if row in shared),
    )


def _handler_states(user: DrawnChart) -> HandlerStates:
    assert issubclass(user.machine, ConnectionHandler)  # noqa: S101 - for type checkers
    return user.machine.states


def _creating_text(user: DrawnChart) -> str:
    return f"{' or '.join(state.name for state in _handler_states(user).creating)} of {user.name}"


def _common_states(user: DrawnChart) -> dict[Enum, CommonState]:
    """Return the common state for each state of a chart that the other charts have, too."""
    names = {state: CommonState[state.name] for state in user.states if state.name in CommonState.__members__}
    return {**names, **dict.fromkeys(_handler_states(user).creating, CommonState.CREATING)}


def moves_of(rows: Iterable[Row], names: Mapping[Enum, Enum] | None = None) -> list[tuple[Enum, Enum]]:
    """Return the pairs of different states that rows connect.

    With `names`, the states are replaced by their names there, and pairs with a state that has none are left out.
    """
    pairs = [(source, row.dest) for row in rows if row.dest for source in row.sources if source is not row.dest]
    if names is not None:
        pairs = [(names[source], names[dest]) for source, dest in pairs if source in names and dest in names]
    return list(dict.fromkeys(pairs))
