"""The history of a machine: its last changes of state, for somebody who asks what has happened.

The list is short, and costs nothing while messages flow: a row that stays in its state is not recorded. Those rows
handle messages, acknowledgements and pings, and would soon push out the rest.

The event is not kept, since it may hold a payload or a credential. Only the class of its error is.
"""

from typing import Final

from pulsar_actors.machines.chart import Event, Step
from pulsar_actors.named_tuple import NamedTuple

MOST: Final = 24
"""The number of changes that are kept. They take 1,300 bytes."""

MOST_ENDED: Final = 16
"""The number of histories of ended machines that the actor which started them keeps."""


class Change(NamedTuple):
    """A change of state. `now` is a reading of a monotonic clock, in seconds."""

    now: float
    step: Step
    error: type[BaseException] | None  # the class of the error that the event told of


class MachineHistory:
    """The last changes of one machine and its parts. One thread records, and any thread may read."""

    __slots__ = ("_entries", "recorded")

    def __init__(self) -> None:
        self._entries: list[object] = []  # the three values of each change, one after the other: less memory
        self.recorded = 0  # also those that are not kept any longer

    def record(self, now: float, step: Step, event: Event) -> None:
        """Add a change, and drop the oldest if there are too many."""
        error = getattr(event, "error", None)
        entries = self._entries
        entries += (now, step, None if error is None else type(error))
        if len(entries) > MOST * len(Change._fields):
            del entries[: len(Change._fields)]
        self.recorded += 1

    def changes(self) -> list[Change]:
        """Return the changes, the oldest first."""
        values = iter(self._entries.copy())  # in one step, so that no change is seen half
        return [Change(*change) for change in zip(values, values, values, strict=True)]  # type: ignore[arg-type]
