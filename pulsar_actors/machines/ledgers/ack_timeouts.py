"""Which entries were handed out and never acknowledged.

A consumer may ask that what it has not acknowledged within a time be delivered again. The unit is the entry: the broker
redelivers whole entries, and one key for a batch of a thousand keeps this cheap. An entry counts from the last time
that something of it was handed out, since nobody can acknowledge the rest before.
"""

from collections.abc import Iterable

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.deadlines import Deadlines
from pulsar_actors.machines.ledgers.entry_key import EntryKey

STEPS = 10
"""An entry is due at most a tenth of the timeout late."""


class AckTimeouts:
    """The unacknowledged entries of one consumer. Entries are (ledger id, entry id); times are monotonic seconds."""

    __slots__ = ("_deadlines", "timeout")

    def __init__(self, timeout: float) -> None:
        if not timeout > 0:
            raise InvalidArgument(f"an acknowledgement timeout is more than 0 seconds, not {timeout}")
        self.timeout = timeout
        self._deadlines: Deadlines[EntryKey] = Deadlines(timeout / STEPS)

    def __len__(self) -> int:
        return len(self._deadlines)

    def handed_out(self, entries: Iterable[EntryKey], now: float) -> None:
        """Begin, or begin anew, to wait for the acknowledgement of entries."""
        for entry in entries:
            self._deadlines.put(entry, now + self.timeout)

    def acknowledged(self, entry: EntryKey) -> None:
        """Stop waiting for an entry: all of it is acknowledged, or it is to be redelivered anyway."""
        self._deadlines.discard(entry)

    def acknowledged_up_to(self, entry: EntryKey) -> None:
        """Stop waiting for an entry and all before it."""
        self._deadlines.discard_up_to(entry)

    def clear(self) -> None:
        """Stop waiting for everything: after a seek, or when everything is redelivered."""
        self._deadlines.clear()

    def next_due(self) -> float | None:
        """Give the time to ask again."""
        return self._deadlines.next_due()

    def take_due(self, now: float) -> list[EntryKey]:
        """Take out the entries to redeliver; they wait again once they are handed out again."""
        return self._deadlines.take_due(now)
