"""The changes of state of actors as people read them: in `history()`, in the log, and in the notes of errors.

The machines record them (`machines/machine_history.py`). Here they get the name of the actor and the time of day.
"""

import sys
from collections.abc import Iterable, MutableMapping
from datetime import datetime, timezone
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from pulsar_actors.machines.chart import trigger_name
from pulsar_actors.machines.machine_history import Change, MachineHistory
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import Loop

E = TypeVar("E", bound=Exception)

NOTED: Final = 8
"""The number of changes in the note of an error."""


class StateChange(NamedTuple):
    """A change of state of an actor. `time` is in seconds since 1970.

    `guard` and `action` are those of the row of the chart. `error` is the class of the error that the event told of.
    """

    time: float
    actor: str
    chart: str
    event: str
    source: str
    dest: str
    guard: str | None
    action: str | None
    error: str | None

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.time, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        return f"{when}Z {self.actor}: {self.without_actor()}"

    def without_actor(self) -> str:
        """Format the change without its time and its actor."""
        guard = f" [{self.guard}]" if self.guard else ""
        action = f" / {self.action}" if self.action else ""
        error = f" ({self.error})" if self.error else ""
        return f"{self.chart} {self.source} -> {self.dest} on {self.event}{error}{guard}{action}"


def read(histories: Iterable[tuple[str, MachineHistory]], loop: Loop) -> list[StateChange]:
    """Return the changes in these histories of actors, the oldest first."""
    since = _beginning(loop)
    changes = [(change, name.removeprefix("the ")) for name, history in histories for change in history.changes()]
    changes.sort(key=lambda named: named[0].now)
    return [_named(change, name, since) for change, name in changes]


def add_note(error: E, changes: list[StateChange]) -> E:
    """Give an error the last of these changes as a note, which is printed with its traceback. Python 3.10 has none."""
    if sys.version_info >= (3, 11) and changes:
        error.add_note("\n".join(["The last changes of state:", *(f"  {change}" for change in changes[-NOTED:])]))
    return error


_beginnings: Final[MutableMapping[Loop, float]] = WeakKeyDictionary()

CLOCK_WAS_SET: Final = 0.1
"""The difference in seconds after which the clock on the wall counts as set anew."""


def _beginning(loop: Loop) -> float:
    """Return the time of day at which the loop's clock showed zero: the same each time, unless the clock was set."""
    now = loop.wall_clock_ms() / 1000 - loop.now()
    known = _beginnings.get(loop, now)
    _beginnings[loop] = now if abs(now - known) > CLOCK_WAS_SET else known
    return _beginnings[loop]


def _named(change: Change, name: str, since: float) -> StateChange:
    step, row = change.step, change.step.row
    error = None if change.error is None else change.error.__name__
    event, source, dest = trigger_name(row.trigger), step.source.name, step.dest.name
    return StateChange(since + change.now, name, step.chart, event, source, dest, row.guard, row.does, error)
