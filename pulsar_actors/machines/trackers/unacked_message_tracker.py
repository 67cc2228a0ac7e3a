"""The entries that were handed out and not acknowledged, for acknowledgement timeouts.

A consumer may ask that unacknowledged messages be redelivered after a time. The tracker counts entries, because the
broker redelivers whole entries, and one key for a batch of a thousand keeps this cheap. The timeout of an entry starts
again each time that some of its messages are handed out, because the others cannot be acknowledged before.
`redelivery_delay` is added, which may make the timeout longer for messages that were redelivered often.

Callers acknowledge on their own threads, so the acknowledgement of an entry may come here before the report that it was
handed out. Such acknowledgements are remembered until the next report, which covers everything that was handed out
before them. If more than `MOST_REMEMBERED` come between two reports, the first are forgotten; at worst this costs one
redelivery too many.

An acknowledgement that the broker refuses counts as never made: the timeout of its entry starts again.
"""

from collections.abc import Iterable

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.entry_map import LONGEST_WAIT, Deadlines, EntryKey
from pulsar_actors.machines.trackers.negative_acks_tracker import RedeliveryDelay

STEPS_PER_TIMEOUT = 10
"""An entry is due at most a tenth of the timeout late."""

SHORTEST_TIMEOUT = 0.001

NO_ENTRY: EntryKey = (-1, -1)

MOST_REMEMBERED = 50_000
"""As many messages as the queues of all partitions hold by default; a report comes long before."""


class UnackedMessageTracker:
    """The unacknowledged entries of one consumer. Entries are (ledger id, entry id); times are monotonic seconds."""

    __slots__ = ("_acknowledged", "_deadlines", "_up_to", "redelivery_delay", "timeout")

    def __init__(self, timeout: float, redelivery_delay: RedeliveryDelay | None = None) -> None:
        if not SHORTEST_TIMEOUT <= timeout <= LONGEST_WAIT:
            raise InvalidArgument(
                f"an acknowledgement timeout is {SHORTEST_TIMEOUT} to {LONGEST_WAIT:,.0f} seconds, not {timeout}"
            )
        self.timeout = timeout
        self.redelivery_delay = redelivery_delay or RedeliveryDelay(0.0)
        self._deadlines = Deadlines(timeout / STEPS_PER_TIMEOUT)
        self._acknowledged: dict[EntryKey, None] = {}
        self._up_to = NO_ENTRY

    def handed_out(self, entries: Iterable[tuple[EntryKey, int]], now: float) -> None:
        """Start, or start again, the timeout of the entries that were handed out since the last report.

        Each entry comes with its redelivery count.
        """
        for entry, count in entries:
            if entry not in self._acknowledged and entry > self._up_to:
                self._deadlines.put(entry, now + self.timeout + self.redelivery_delay.after(count))
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

    def negatively_acknowledged(self, entry: EntryKey) -> None:
        """Stop waiting for an entry that comes again after a delay of its own."""
        self._deadlines.discard(entry)

    def refused(self, entries: Iterable[EntryKey], now: float) -> None:
        """Wait again for entries whose acknowledgement was refused."""
        self._up_to = NO_ENTRY
        for entry in entries:
            self._acknowledged.pop(entry, None)
            self._deadlines.put(entry, now + self.timeout)

    def clear(self) -> None:
        """Stop waiting for everything: after a seek, or when everything is redelivered."""
        self._deadlines.clear()
        self._forget_acknowledged()

    def _forget_acknowledged(self) -> None:
        self._acknowledged.clear()
        self._up_to = NO_ENTRY

    def next_due(self) -> float | None:
        """Return the time at which an entry is due."""
        return self._deadlines.next_due()

    def take_due(self, now: float) -> list[EntryKey]:
        """Take out the entries to redeliver."""
        return self._deadlines.take_due(now)
