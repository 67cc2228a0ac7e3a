"""The snapshot that the page shows: actors with the states of their machines, their numbers, and the last changes.

A client and a broker each make their snapshots (`client/inspection.py`, `broker/inspection.py`). The page asks for one
twice a second, and makes rates of the counters.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from pulsar_actors.machines.connection_handler import CommonState, ConnectionHandler
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.state_changes import StateChange
from pulsar_actors.statecharts.drawn_chart import SHARED_ROWS

MOST_ACTORS: Final = 200
"""The number of actors that are shown. A client may have 100,000."""

MOST_CHANGES: Final = 300


class MachineNow(NamedTuple):
    """A machine, or a part of one: the name of its chart, and its state.

    `pictures` are the names of the pictures of the chart, with the name of the state in each: producers and consumers
    share rows, which have a picture of their own.
    """

    chart: str
    state: str
    pictures: dict[str, str]


class Shown(NamedTuple):
    """An actor, or something else with numbers. The first counter is plotted as a rate, and the first gauge itself."""

    name: str
    kind: str
    machines: list[MachineNow]
    counters: dict[str, int]
    gauges: dict[str, int]


class Snapshot(NamedTuple):
    """All of it. `facts` are words about the whole; `left_out` actors are not shown."""

    title: str
    facts: dict[str, str]
    shown: list[Shown]
    left_out: int
    changes: list[StateChange]


def machines_now(machine: StateMachine) -> list[MachineNow]:
    """Return the states of a machine and its parts."""
    return [machine_now(type(one), one.state) for one in machine.with_parts()]


def machine_now(kind: type[StateMachine], state: Enum) -> MachineNow:
    """Describe a machine of a class in one of its states."""
    chart = kind.running.chart.name
    shared: dict[str, str] = {}
    if issubclass(kind, ConnectionHandler):
        is_creating = state in kind.states.creating
        shared[SHARED_ROWS] = CommonState.CREATING.name if is_creating else state.name
    return MachineNow(chart, state.name, {**shared, chart: state.name})


def as_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as the page reads it."""
    return {
        **snapshot._asdict(),
        "shown": [{**one._asdict(), "machines": [now._asdict() for now in one.machines]} for one in snapshot.shown],
        "changes": [_change(change) for change in snapshot.changes],
    }


def last_changes(changes: Iterable[StateChange]) -> list[StateChange]:
    """Return those that the page lists, the oldest first."""
    return list(changes)[-MOST_CHANGES:]


def _change(change: StateChange) -> dict[str, Any]:
    return {
        "time": change.time,
        "actor": change.actor,
        "chart": change.chart,
        "text": change.without_actor(),
        "failed": change.error is not None,
    }
