"""The entries that the broker is to redeliver after a delay, and the redelivery epoch.

A message that is acknowledged negatively comes again after a delay, which may grow with the number of redeliveries. The
broker redelivers entries, not messages, so ids are grouped by entry; of several messages of one entry the latest delay
counts, since an earlier one would cut the later short.

With a Shared or Key_Shared subscription the broker takes a list of entries, at most a thousand a command. With
Exclusive and Failover order matters: the broker redelivers everything that is unacknowledged, and what is queued here
must be dropped, or it would be seen twice. Each redelivery of everything has an epoch, which only grows and which the
broker repeats in what it sends: it tells deliveries from before the request from those after it.

The consumer itself sets entries aside: chunks that it cannot put together yet, and entries that the dead letter topic
did not take. They would fail again at once, and in an ordered subscription bring everything behind them again each
time. So they wait like negatively acknowledged ones, and never less than `SHORTEST_REST`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.entry_map import LONGEST_WAIT, Deadlines, EntryKey

MAX_IDS = 1000
"""The most entries in one command."""

SHORTEST_STEP = 0.1
"""Negative acknowledgements this close together, in seconds, travel together."""


SHORTEST_REST = 10.0
"""Seconds that entries wait which the consumer set aside, however short the user's delay is."""


class RedeliverEntries(NamedTuple):
    """Request these entries again, in one command."""

    entries: tuple[EntryKey, ...]


class RedeliverAll(NamedTuple):
    """Request everything again, and drop what is queued or opened."""

    epoch: int


class RedeliveryDelay(NamedTuple):
    """A delay in seconds that grows by a factor with each redelivery, up to a longest one."""

    first: float = 60.0
    factor: float = 1.0
    longest: float = math.inf

    def after(self, redelivery_count: int) -> float:
        """Give the delay of a message that has been redelivered so many times.

        As a float a power overflows at once where it is too large; as an int it would be worked out to its last digit.
        """
        try:
            return min(self.first * float(self.factor) ** redelivery_count, self.longest)
        except OverflowError:
            return self.longest if self.first else 0.0


class NegativeAcksTracker:
    """The pending negative acknowledgements of one consumer, and its epoch. Times are monotonic seconds."""

    __slots__ = ("_deadlines", "delay", "epoch", "ordered")

    def __init__(self, *, ordered: bool, delay: RedeliveryDelay | None = None) -> None:
        delay = delay or RedeliveryDelay()
        if not (0 <= delay.first <= LONGEST_WAIT and 1 <= delay.factor < math.inf and delay.longest >= delay.first):
            takes = f"first of 0 to {LONGEST_WAIT:,.0f} seconds, factor >= 1, longest >= first"
            raise InvalidArgument(f"a redelivery delay takes {takes}, not {delay}")
        if delay.factor > 1 and delay.longest > LONGEST_WAIT:
            raise InvalidArgument(
                f"a redelivery delay that grows needs a longest of {LONGEST_WAIT:,.0f} at most, not {delay}"
            )
        self.ordered = ordered
        self.delay = delay
        self.epoch = 0
        self._deadlines = Deadlines(SHORTEST_STEP)

    def refused(self, entry: EntryKey, redelivery_count: int, now: float) -> None:
        """Note a negative acknowledgement of a message of the entry."""
        self._deadlines.put(entry, now + self.delay.after(redelivery_count))

    def set_aside(self, entry: EntryKey, redelivery_count: int, now: float) -> None:
        """Note an entry that the consumer cannot use for now."""
        self._deadlines.put(entry, now + max(SHORTEST_REST, self.delay.after(redelivery_count)))

    def came(self, entry: EntryKey) -> None:
        """Forget an entry that was set aside and has been redelivered."""
        self._deadlines.discard(entry)

    def acknowledged(self, entry: EntryKey) -> None:
        """Forget an entry that has been acknowledged."""
        self._deadlines.discard(entry)

    def acknowledged_up_to(self, entry: EntryKey) -> None:
        """Forget an entry and all before it."""
        self._deadlines.discard_up_to(entry)

    def clear(self) -> None:
        """Forget all: after a seek nothing from before it counts."""
        self._deadlines.clear()

    def next_due(self) -> float | None:
        """Give the time at which an entry is due."""
        return self._deadlines.next_due()

    def take_due(self, now: float) -> list[EntryKey]:
        """Take out the entries whose delay is over."""
        return self._deadlines.take_due(now)

    def request(self, entries: Sequence[EntryKey]) -> list[RedeliverEntries | RedeliverAll]:
        """Make the requests for these entries: none for none."""
        if not entries:
            return []
        if self.ordered:
            return [self.request_all()]
        for entry in entries:
            self._deadlines.discard(entry)
        unique = tuple(dict.fromkeys(entries))
        return [RedeliverEntries(unique[start : start + MAX_IDS]) for start in range(0, len(unique), MAX_IDS)]

    def request_all(self) -> RedeliverAll:
        """Begin a new epoch; what was negatively acknowledged comes with the rest."""
        self._deadlines.clear()
        self.epoch += 1
        return RedeliverAll(self.epoch)

    def is_stale(self, epoch: int | None) -> bool:
        """Tell whether a delivery was sent before the last redelivery of everything, and will come again."""
        return self.ordered and epoch is not None and epoch < self.epoch
