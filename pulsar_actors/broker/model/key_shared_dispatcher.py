"""Key_Shared: entries with the same key go to the same consumer, in order, also while consumers come and go.

What counts is the slot that the hash of the key falls on. An entry that cannot be delivered yet waits with the others
of its slot, and while any waits, later ones line up behind it. There are three reasons to wait: nobody has the slot,
the one who has it cannot take more, or another consumer, who had it before, still holds unacknowledged entries of it
("in the air" here). The last is what keeps the order when slots change hands; it does not apply where the consumers
allow disorder.

Reading runs ahead past entries that wait, so that a slow consumer does not stop the others, but only so far. What waits
is looked at only when its reason may have gone: its consumer has permits again, or the last entry in the air has come
down. So the cost of an entry does not depend on how many wait.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from pulsar_actors.broker.model.choices import KeyChoice
from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.parcel import Parcel
from pulsar_actors.broker.model.spread_dispatcher import SpreadDispatcher
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

_AHEAD_PER_CONSUMER = 2_000
_AHEAD = 20_000


class KeySharedDispatcher(SpreadDispatcher):
    """The dispatcher of a Key_Shared subscription."""

    __slots__ = (
        "_in_the_air",
        "_keys",
        "_loose",
        "_parcels",
        "_unblocked",
        "_waiting",
        "_waiting_count",
        "_waiting_for",
    )

    def __init__(
        self, keys: KeyChoice, cursor: Cursor, clock: Clock, most_unacked: int, *, allow_out_of_order: bool
    ) -> None:
        super().__init__(CommandSubscribe.SubType.Key_Shared, keys, cursor, clock, most_unacked)
        self._keys = keys
        self._loose = allow_out_of_order
        self._waiting: dict[int, list[int]] = {}  # by slot, a heap of offsets
        self._waiting_count = 0
        self._waiting_for: dict[Consumer | None, dict[int, None]] = {}  # the slots above, by who has them
        self._in_the_air: dict[int, tuple[Consumer, int]] = {}  # by slot, who holds entries of it, and how many
        self._unblocked: dict[int, None] = {}  # slots to look at in the next dispatch
        self._parcels: dict[Consumer, Parcel] = {}

    @property
    def replaying(self) -> int:
        """How many entries were read and wait."""
        return self._waiting_count

    def flowed(self, consumer: Consumer) -> None:
        """Give out what waits for this consumer, and go on."""
        for slot in tuple(self._waiting_for.get(consumer, ())):
            if not consumer.available:
                break
            self._drain(slot)
        self.dispatch()

    def dispatch(self) -> None:
        """Give out what waited for something that has come, and then what was not read yet."""
        while self._unblocked:
            self._drain(self._unblocked.popitem()[0])
        ahead = min(_AHEAD, _AHEAD_PER_CONSUMER * len(self.consumers))
        while self._waiting_count < ahead and any(consumer.available for consumer in self.consumers):
            entry = self._read()
            if entry is None:
                break
            slot = self._keys.slot(entry.key_hash)
            consumer = None if slot in self._waiting else self._taker(slot)
            if consumer is None:
                self._wait(slot, entry)
            else:
                self._send(consumer, slot, entry)
        now_ms = self._clock.wall_clock_ms()
        for parcel in self._parcels.values():
            parcel.send(now_ms)
        self._parcels.clear()

    def _taker(self, slot: int) -> Consumer | None:
        """Give the consumer that can take the next entry of a slot now."""
        consumer = self._keys.owner(slot)
        if consumer is None or not consumer.available:
            return None
        holder = self._in_the_air.get(slot)
        return consumer if holder is None or holder[0] is consumer else None

    def _send(self, consumer: Consumer, slot: int, entry: StoredEntry) -> None:
        parcel = self._parcels.get(consumer)
        if parcel is None:
            parcel = self._parcels[consumer] = Parcel(consumer)
        self._give(entry, parcel)
        if not self._loose:
            self._in_the_air[slot] = (consumer, self._in_the_air.get(slot, (consumer, 0))[1] + 1)
        if parcel.full:
            parcel.send(self._clock.wall_clock_ms())

    def _wait(self, slot: int, entry: StoredEntry) -> None:
        if slot not in self._waiting:
            self._waiting[slot] = []
            self._waiting_for.setdefault(self._keys.owner(slot), {})[slot] = None
        heappush(self._waiting[slot], entry.offset)
        self._waiting_count += 1

    def _drain(self, slot: int) -> None:
        """Give out what waits in a slot, as far as that can be."""
        offsets = self._waiting.get(slot)
        while offsets and (consumer := self._taker(slot)) is not None:
            offset = heappop(offsets)
            self._waiting_count -= 1
            if offset >= self._cursor.log.base and not self._cursor.is_done(offset):
                self._send(consumer, slot, self._cursor.log.entry(offset))
        if offsets is not None and not offsets:
            del self._waiting[slot]
            self._waiting_for[self._keys.owner(slot)].pop(slot)

    def _rearranged(self) -> None:
        """Say anew who has the slots in which something waits."""
        self._waiting_for.clear()
        for slot in self._waiting:
            self._waiting_for.setdefault(self._keys.owner(slot), {})[slot] = None
        self._unblocked.update(dict.fromkeys(self._waiting))

    def _freed(self, consumer: Consumer) -> None:
        self._unblocked.update(self._waiting_for.get(consumer, {}))

    def _landed(self, entry: StoredEntry) -> None:
        slot = self._keys.slot(entry.key_hash)
        holder, count = self._in_the_air.get(slot, (None, 0))
        if holder is not None and count > 1:
            self._in_the_air[slot] = (holder, count - 1)
        elif holder is not None:
            del self._in_the_air[slot]
            self._unblocked[slot] = None

    def _again(self, entries: Iterable[StoredEntry]) -> None:
        for entry in entries:
            slot = self._keys.slot(entry.key_hash)
            self._wait(slot, entry)
            self._unblocked[slot] = None

    def _forget(self) -> None:
        super()._forget()
        self._waiting.clear()
        self._waiting_count = 0
        self._waiting_for.clear()
        self._in_the_air.clear()
        self._unblocked.clear()
