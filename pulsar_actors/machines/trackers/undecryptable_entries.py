"""The entries that no key decrypts, for consumers with an acknowledgement timeout.

Nothing of such an entry is delivered. It comes again after the timeout, and until then it holds its permits: so no more
of them are here than the queue has room for. An acknowledgement does not change that. It can only be for an earlier
delivery of the same entry, and the broker sends no entry again that is acknowledged.
"""

from collections.abc import Sequence

from pulsar_actors.machines.trackers.entry_map import Deadlines, EntryKey, Generation
from pulsar_actors.machines.trackers.negative_acks_tracker import RedeliveryDelay
from pulsar_actors.machines.trackers.unacked_message_tracker import STEPS_PER_TIMEOUT
from pulsar_actors.named_tuple import NamedTuple


class HeldPermits(NamedTuple):
    """The permits of an entry, for each time that it came."""

    generation: Generation
    messages: int


class UndecryptableEntries:
    """The undecryptable entries of one consumer. Times are monotonic seconds."""

    __slots__ = ("_deadlines", "_delay", "_held", "_timeout")

    def __init__(self, timeout: float, redelivery_delay: RedeliveryDelay | None = None) -> None:
        self._timeout = timeout
        self._delay = redelivery_delay or RedeliveryDelay(0.0)
        self._deadlines = Deadlines(timeout / STEPS_PER_TIMEOUT)
        self._held: dict[EntryKey, tuple[tuple[EntryKey, ...], list[HeldPermits]]] = {}

    def put(self, entries: tuple[EntryKey, ...], permits: HeldPermits, redelivery_count: int, now: float) -> None:
        """Start the timeout of an entry; of all chunks of a message."""
        last = entries[-1]
        self._held.setdefault(last, (entries, []))[1].append(permits)
        self._deadlines.put(last, now + self._timeout + self._delay.after(redelivery_count))

    def next_due(self) -> float | None:
        """Return the time at which an entry is due."""
        return self._deadlines.next_due()

    def take_due(self, now: float) -> tuple[list[EntryKey], Sequence[HeldPermits]]:
        """Take out the entries to redeliver, and their permits."""
        taken = [self._held.pop(entry) for entry in self._deadlines.take_due(now)]
        return [entry for entries, _ in taken for entry in entries], [one for _, held in taken for one in held]

    def clear(self) -> None:
        """Forget all: everything comes again, with new permits."""
        self._deadlines.clear()
        self._held.clear()
