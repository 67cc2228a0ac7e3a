"""Which rows of the charts are taken in the simulation, and by how many seeds.

    PULSAR_SIMULATION_ROWS=1 python -m pytest tests/scenarios --long

It counts in one process: not with `-n`.

A row that no seed takes is one that only the tests of its machine have tried.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pulsar_actors.machines.chart import Row
from pulsar_actors.machines.running_chart import RowTransition
from pulsar_actors.machines.state_machine import StateMachine

IS_COUNTED: Final = "PULSAR_SIMULATION_ROWS" in os.environ

_seeds: defaultdict[tuple[str, int], set[object]] = defaultdict(set)
"""The seeds that have taken a row, by its chart and its `id`: producers and consumers share some."""


@contextmanager
def counted(seed: object) -> Iterator[None]:
    """Note the rows that a seed takes, if that is asked for."""
    if not IS_COUNTED:
        yield
        return
    plain = RowTransition.take

    def take(self: Any, model: Any, event: Any, now: float, effects: list[Any]) -> bool:
        is_taken = plain(self, model, event, now, effects)
        if is_taken:
            _seeds[model.running.chart.name, id(self._row)].add(seed)
        return is_taken

    RowTransition.take = take  # type: ignore[method-assign]
    try:
        yield
    finally:
        RowTransition.take = plain  # type: ignore[method-assign]


def report() -> Iterator[str]:
    """Say for each chart of which rows were taken how many there are, and which no seed has taken."""
    for name, rows in sorted(_charts().items()):
        seeds = {row: len(_seeds[name, id(row)]) for row in rows if not row.is_ignored}
        taken = sorted(times for times in seeds.values() if times)
        if not taken:
            yield f"{name}: no seed has one of these"
            continue
        median = taken[len(taken) // 2]
        yield f"{name}: {len(taken)} of {len(seeds)} rows, by {taken[0]:,} to {taken[-1]:,} seeds, median {median:,}"
        yield from (f"    never: {row}" for row, times in seeds.items() if not times)


def _charts() -> dict[str, tuple[Row, ...]]:
    """Return the rows of all charts whose machines have been imported."""
    found, classes = {}, [StateMachine]
    while classes:
        machine = classes.pop()
        classes += machine.__subclasses__()
        if "running" in vars(machine):
            found[machine.running.chart.name] = machine.running.chart.rows
    return found
