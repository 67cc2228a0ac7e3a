"""The entries to redeliver after a delay, and the redelivery epoch.

A message that is acknowledged negatively comes again after a delay, which may grow with the number of redeliveries. The
broker redelivers entries, not messages, so ids are grouped by entry; the latest deadline of the messages of an entry
counts, because the broker redelivers the entry as a whole.

With a Shared or Key_Shared subscription the broker takes a list of entries, at most a thousand in a command. With
Exclusive and Failover, order matters: the broker redelivers everything that is unacknowledged, and the messages that
are queued here are dropped, because they come again. Each redelivery of everything has an epoch, which only grows. The
broker repeats it in each MESSAGE, which shows if the message was sent before the request or after it. An Apache Pulsar
leaves it out if the consumer reads a compacted topic (apache/pulsar#13690). Then nothing is dropped: what was on its
way comes twice, first before the messages that come again. Java does the same.

A non-persistent topic stores nothing, and its broker sends nothing again. So no redelivery is requested there, and what
is queued stays.

The consumer itself sets entries aside: chunks that it cannot assemble yet, and entries that the dead letter topic did
not take. Redelivered at once, they would fail again, and in an ordered subscription everything behind them would come
again each time. So they wait like negatively acknowledged ones, and at least for `SHORTEST_SET_ASIDE`.
"""

import math
from collections.abc import Callable, Sequence

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.entry_map import LONGEST_WAIT, Deadlines, EntryKey
from pulsar_actors.named_tuple import NamedTuple

MAX_IDS = 1000
"""The most entries in one command."""

SHORTEST_STEP = 0.1
"""The width of a time bucket in seconds: negative acknowledgements that are due in the same bucket share a command."""


SHORTEST_SET_ASIDE = 10.0
"""The seconds that entries are set aside at least, even if the user's redelivery delay is shorter."""


class RedeliverEntries(NamedTuple):
    """Request the redelivery of these entries, in one command."""

    entries: tuple[EntryKey, ...]


class RedeliverAll(NamedTuple):
    """Request the redelivery of everything unacknowledged, and drop what is queued or opened."""

    epoch: int


class RedeliveryDelay(NamedTuple):
    """A delay in seconds that grows by a factor with each redelivery, up to a longest one."""

    first: float = 60.0
    factor: float = 1.0
    longest: float = math.inf

    def after(self, redelivery_count: int) -> float:
        """Return the delay of a message that has been redelivered so many times.

        The power is computed with floats: one that is too large overflows at once. An int would be computed to its last
        digit.
        """
        try:
            return min(self.first * float(self.factor) ** redelivery_count, self.longest)
        except OverflowError:
            return self.longest if self.first else 0.0


class NegativeAcksTracker:
    """The pending negative acknowledgements of one consumer, and its epoch. Times are monotonic seconds."""

    __slots__ = ("_deadlines", "delay", "epoch", "ordered", "persistent")

    def __init__(self, *, ordered: bool, delay: RedeliveryDelay | None = None, persistent: bool = True) -> None:
        delay = delay or RedeliveryDelay()
        if not (0 <= delay.first <= LONGEST_WAIT and 1 <= delay.factor < math.inf and delay.longest >= delay.first):
            takes = f"first of 0 to {LONGEST_WAIT:,.0f} seconds, factor >= 1, longest >= first"
            raise InvalidArgument(f"a redelivery delay takes {takes}, not {delay}")
        if delay.factor > 1 and delay.longest > LONGEST_WAIT:
            raise InvalidArgument(
                f"a redelivery delay that grows needs a longest of {LONGEST_WAIT:,.0f} at most, not {delay}"
            )
        self.ordered = ordered
        self.persistent = persistent
        self.delay = delay
        self.epoch = 0
        self._deadlines = Deadlines(SHORTEST_STEP)

    def negatively_acknowledged(self, entry: EntryKey, redelivery_count: int, now: float) -> None:
        """Note a negative acknowledgement of a message of the entry."""
        self._deadlines.put(entry, now + self.delay.after(redelivery_count))

    def set_aside(self, entry: EntryKey, redelivery_count: int, now: float) -> None:
        """Note an entry that the consumer cannot use for now."""
        self.set_aside_until(entry, now + self.set_aside_for(redelivery_count))

    def set_aside_until(self, entry: EntryKey, due: float) -> None:
        """Note such an entry that others are set aside with."""
        self._deadlines.put(entry, due)

    def set_aside_for(self, redelivery_count: int) -> float:
        """Return the seconds for which such an entry is set aside."""
        return max(SHORTEST_SET_ASIDE, self.delay.after(redelivery_count))

    def came(self, entry: EntryKey) -> None:
        """Forget an entry that has been redelivered, maybe for another reason, such as the abort of a transaction."""
        self._deadlines.discard(entry)

    def acknowledged(self, entry: EntryKey) -> None:
        """Forget an entry that has been acknowledged."""
        self._deadlines.discard(entry)

    def acknowledged_up_to(self, entry: EntryKey, keep: Callable[[EntryKey], bool] | None = None) -> None:
        """Forget an entry and all before it, but for those to keep."""
        self._deadlines.discard_up_to(entry, keep)

    def clear(self) -> None:
        """Forget all: after a seek nothing from before it counts."""
        self._deadlines.clear()

    def next_due(self) -> float | None:
        """Return the time at which an entry is due."""
        return self._deadlines.next_due()

    def take_due(self, now: float) -> list[EntryKey]:
        """Take out the entries whose delay is over."""
        return self._deadlines.take_due(now)

    def request(self, entries: Sequence[EntryKey]) -> list[RedeliverEntries | RedeliverAll]:
        """Return the requests for the redelivery of these entries; none if there are none, or none is stored."""
        if not entries or not self.persistent:
            return []
        if self.ordered:
            return [self.request_all()]
        for entry in entries:
            self._deadlines.discard(entry)
        unique = tuple(dict.fromkeys(entries))
        return [RedeliverEntries(unique[start : start + MAX_IDS]) for start in range(0, len(unique), MAX_IDS)]

    def request_all(self) -> RedeliverAll:
        """Begin a new epoch, and return the request. It covers the negatively acknowledged entries, too."""
        self._deadlines.clear()
        self.epoch += 1
        return RedeliverAll(self.epoch)

    def is_stale(self, epoch: int | None) -> bool:
        """Return whether a delivery was sent before the last redelivery of everything. If so, it comes again."""
        return self.ordered and epoch is not None and epoch < self.epoch
