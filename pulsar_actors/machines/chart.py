"""State charts as data: the table, and the checks made when it is built. `running_chart.py` runs it.

A chart is a table of rows. A row says: if this event comes in one of these states, and the guard holds, run this action
and change to that state.

    Row(TcpOpened, DIALING, SECURING, guard="uses_tls", does="start_tls")

Rows of one event in one state are tried in the order of the table. The last of them has no guard: it applies if no
guard before it holds. `ignores` names the events that change nothing, and the states in which they do not:

    Ignore((TcpOpened, TlsAgreed), CLOSED)

An event that is neither in a row nor ignored in a state is illegal there: it is a bug of our own code, and raises
`IllegalEvent`. `ours` names the events that only our own code causes. All other events come from peers, timers or late
answers, which are never a bug of ours: such an event must be listed for every state, in a row or as ignored, otherwise
the chart is not built. States are always listed by name. There is no "all other states", because an event would then be
ignored wherever a row was forgotten.

An action runs before the state changes. If it raises, the state stays, its effects are dropped, and the error names
the row. An action therefore computes first and changes the machine's fields and trackers last.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cache
from typing import Final

from pulsar_actors.exceptions import InternalError
from pulsar_actors.named_tuple import NamedTuple

INTERNAL: Final = None
"""The destination of a row that does not leave its state."""

Event = object  # each chart has small typed tuples of its own; the class of an event is its trigger
Effect = object
Effects = Sequence[Effect]  # the result of an action, in the order in which the actor performs it


class Row(NamedTuple):
    """One line of the table: `guard` and `does` name methods of the machine."""

    trigger: type
    source: Enum | tuple[Enum, ...]
    dest: Enum | None
    guard: str | None = None
    does: str | None = None

    @property
    def sources(self) -> tuple[Enum, ...]:
        """The states in which the row is tried."""
        return self.source if isinstance(self.source, tuple) else (self.source,)

    @property
    def is_ignored(self) -> bool:
        """True if the event never changes anything: the row has no guard, no action and no other state."""
        return self.dest is INTERNAL and self.guard is None and self.does is None

    def __str__(self) -> str:
        """Format the row like a line of the table."""
        sources = "|".join(state.name for state in self.sources)
        dest = self.dest.name if self.dest else "stays"
        guard = f" [{self.guard}]" if self.guard else ""
        does = f" / {self.does}" if self.does else ""
        return f"{trigger_name(self.trigger)}{guard}{does}: {sources} -> {dest}"


class Step(NamedTuple):
    """A row in one of its states, for the history of a machine."""

    chart: str
    source: Enum
    row: Row

    @property
    def dest(self) -> Enum:
        """The state after the row."""
        return self.row.dest or self.source


class Ignore(NamedTuple):
    """Events that change nothing in these states. If rows with a guard are for the same event, they are tried first."""

    trigger: type | tuple[type, ...]
    state: Enum | tuple[Enum, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row for each event, which does nothing."""
        triggers = self.trigger if isinstance(self.trigger, tuple) else (self.trigger,)
        return tuple(Row(trigger, self.state, INTERNAL) for trigger in triggers)


class ChartError(TypeError):
    """A chart that contradicts itself; raised when its module is imported."""


class IllegalEvent(InternalError):
    """An event that our own code must not send in this state."""


class RowFailed(InternalError):
    """A guard or an action has raised. The state is unchanged."""


@cache
def trigger_name(event: type) -> str:
    """Name an event in diagrams and errors: `TcpOpened` is `tcp_opened`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", event.__name__).lower()


def _pair(state: Enum, trigger: type) -> str:
    return f"{trigger_name(trigger)} in {state.name}"


class Chart:
    """A table of rows that has been checked. `rows` ends with those of `ignores`.

    A machine may have parts, with charts of their own (see `state_machine.py`). The `inner` events of a part's chart
    come only from the machine that has the part. They count as `ours`.
    """

    def __init__(  # noqa: PLR0913 - the parts of a chart, each named where it is declared
        self,
        name: str,
        *,
        states: type[Enum],
        initial: Enum,
        final: Iterable[Enum],
        ours: Iterable[type],
        rows: Iterable[Row],
        ignores: Iterable[Ignore] = (),
        inner: Iterable[type] = (),
    ) -> None:
        self.name = name
        self.states = tuple(states)
        self.initial = initial
        self.final = frozenset(final)
        self.inner = frozenset(inner)
        self.ours = frozenset(ours) | self.inner
        self._ignores = tuple(ignores)
        self.rows = (*rows, *(row for ignored in self._ignores for row in ignored.rows))
        self.triggers = tuple(dict.fromkeys(row.trigger for row in self.rows))
        self._by_pair: dict[tuple[Enum, type], list[Row]] = defaultdict(list)
        for row in self.rows:
            for source in row.sources:
                self._by_pair[source, row.trigger].append(row)
        problems = list(self._problems())
        if problems:
            raise ChartError(f"chart {name!r}: " + "; ".join(problems))

    def rows_for(self, state: Enum, trigger: type) -> tuple[Row, ...]:
        """Return the rows that are tried, in order, when the event comes in the state; none if it is illegal there."""
        return tuple(self._by_pair.get((state, trigger), ()))

    def legal(self, state: Enum) -> frozenset[type]:
        """Return the events that may come in the state."""
        return frozenset(trigger for source, trigger in self._by_pair if source is state)

    def _problems(self) -> Iterator[str]:
        known = set(self.states)
        mentioned = {self.initial, *self.final, *(s for row in self.rows for s in (*row.sources, row.dest) if s)}
        yield from (f"unknown state {state}" for state in mentioned - known)
        names = [trigger_name(trigger) for trigger in self.triggers]
        yield from (f"two events are called {name}" for name in {name for name in names if names.count(name) > 1})
        yield from (f"no row is for {trigger_name(trigger)}" for trigger in self.ours - set(self.triggers))
        yield from self._unordered()
        yield from self._unlisted()
        yield from self._ignored_everywhere()
        yield from self._unreachable()

    def _unordered(self) -> Iterator[str]:
        for (state, trigger), rows in self._by_pair.items():
            guards = [row.guard for row in rows]
            if None in guards[:-1]:
                yield f"a row for {_pair(state, trigger)} comes after one without a guard, and is never tried"
            if guards[-1] is not None:
                yield f"{_pair(state, trigger)} has no row for when no guard holds"

    def _unlisted(self) -> Iterator[str]:
        for trigger in self.triggers:
            if trigger in self.ours:
                continue
            missing = [state.name for state in self.states if (state, trigger) not in self._by_pair]
            if missing:
                where = ", ".join(missing)
                mend = "give it a row or ignore it there, or name it in `ours` if only we cause it"
                yield f"{trigger_name(trigger)} comes from outside but is not listed in {where}: {mend}"

    def _ignored_everywhere(self) -> Iterator[str]:
        for row in (row for ignored in self._ignores for row in ignored.rows):
            if set(row.sources) >= set(self.states):
                what = f"{trigger_name(row.trigger)} is ignored in every state"
                yield f"{what}: leave it out, or list in an Ignore of their own the states that have a row with a guard"

    def _unreachable(self) -> Iterator[str]:
        leads_to: dict[Enum, set[Enum]] = defaultdict(set)
        for row in self.rows:
            for source in row.sources:
                if row.dest is not None and row.dest is not source:
                    leads_to[source].add(row.dest)
        reached, frontier = {self.initial}, [self.initial]
        while frontier:
            new = leads_to[frontier.pop()] - reached
            reached |= new
            frontier.extend(new)
        yield from (f"{state.name} cannot be reached" for state in self.states if state not in reached)
        for state in self.states:
            if not leads_to[state] and state not in self.final:
                yield f"{state.name} is a dead end and not declared final"
            if leads_to[state] and state in self.final:
                yield f"{state.name} is declared final and yet left"
