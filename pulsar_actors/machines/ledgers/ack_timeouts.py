"""Which entries were handed out and never acknowledged.

A consumer may ask that what it has not acknowledged within a time be delivered again. The unit is the entry: the broker
redelivers whole entries, and one key for a batch of a thousand keeps this cheap. An entry counts from the last time
that something of it was handed out, since nobody can acknowledge the rest before. The time may be longer for what was
redelivered often, so that what always takes long is not asked for over and over: `further` is added to it.

Who acknowledges on another thread may be faster than the report of the hand-out, so an entry may be acknowledged before
its hand-out is heard of. Such acknowledgements are remembered until the next report, which is of everything that was
handed out before them; an entry of it that is remembered is not waited for. If more than `MOST_REMEMBERED` come between
two reports, the first are forgotten, and the worst that comes of that is one redelivery too many.

An acknowledgement that the broker refuses counts as never made, and so its entry is waited for again.
"""

from collections.abc import Iterable

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.deadlines import LONGEST, Deadlines
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.ledgers.redelivery import RedeliveryDelay

STEPS = 10
"""An entry is due at most a tenth of the timeout late."""

SHORTEST = 0.001

NONE: EntryKey = (-1, -1)

MOST_REMEMBERED = 50_000
"""As many messages as the queues of all partitions hold by default: a report comes long before."""


class AckTimeouts:
    """The unacknowledged entries of one consumer. Entries are (ledger id, entry id); times are monotonic seconds."""

    __slots__ = ("_acknowledged", "_deadlines", "_up_to", "further", "timeout")

    def __init__(self, timeout: float, further: RedeliveryDelay | None = None) -> None:
        if not SHORTEST <= timeout <= LONGEST:
            raise InvalidArgument(f"an acknowledgement timeout is {SHORTEST} to {LONGEST:,.0f} seconds, not {timeout}")
        self.timeout = timeout
        self.further = further or RedeliveryDelay(0.0)
        self._deadlines = Deadlines(timeout / STEPS)
        self._acknowledged: dict[EntryKey, None] = {}
        self._up_to = NONE

    def handed_out(self, entries: Iterable[tuple[EntryKey, int]], now: float) -> None:
        """Begin, or begin anew, to wait for the acknowledgement of all that was handed out since the last report.

        With each entry comes how often it was redelivered.
        """
        for entry, count in entries:
            if entry not in self._acknowledged and entry > self._up_to:
                self._deadlines.put(entry, now + self.timeout + self.further.after(count))
        self._forget_acknowledged()

    def acknowledged(self, entry: EntryKey) -> None:
        """Stop waiting for an entry: all of it is acknowledged."""
        self._deadlines.discard(entry)
        self._acknowledged[entry] = None
        if len(self._acknowledged) > MOST_REMEMBERED:
            del self._acknowledged[next(iter(self._acknowledged))]

    def acknowledged_up_to(self, entry: EntryKey) -> None:
        """Stop waiting for an entry and all before it."""
        self._deadlines.discard_up_to(entry)
        self._up_to = max(self._up_to, entry)

    def refused(self, entries: Iterable[EntryKey], now: float) -> None:
        """Wait again for entries whose acknowledgement was refused."""
        self._up_to = NONE
        for entry in entries:
            self._acknowledged.pop(entry, None)
            self._deadlines.put(entry, now + self.timeout)

    def clear(self) -> None:
        """Stop waiting for everything: after a seek, or when everything is redelivered."""
        self._deadlines.clear()
        self._forget_acknowledged()

    def _forget_acknowledged(self) -> None:
        self._acknowledged.clear()
        self._up_to = NONE

    def next_due(self) -> float | None:
        """Give the time to ask again."""
        return self._deadlines.next_due()

    def take_due(self, now: float) -> list[EntryKey]:
        """Take out the entries to redeliver; they wait again once they are handed out again."""
        return self._deadlines.take_due(now)
