"""The dispatcher of Key_Shared: entries with the same key go to the same consumer, in order.

The order is kept while consumers come and go.

A slot is the number that the hash of a key is mapped to. An entry that cannot be delivered yet waits in its slot, and
later entries of the slot wait behind it. There are three reasons to wait: no consumer owns the slot, its owner cannot
take more, or another consumer, which owned the slot before, still has unacknowledged entries of it (`_slots_pending`).
The last reason keeps the order when slots change owners. It does not apply if the consumers allow out-of-order
delivery.

Entries behind waiting ones are read, up to a limit, so that a slow consumer does not stop the others. A slot is checked
again only when its reason to wait may have ended: its consumer has permits again, or the last pending entry was
acknowledged or taken back. So the cost of an entry does not depend on the number of waiting entries.
"""

from collections.abc import Iterable

from pulsar_actors.broker.model.consumer import Consumer, DeliveryBatch
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.interfaces import Clock
from pulsar_actors.broker.model.selectors import KeySelector
from pulsar_actors.broker.model.shared_dispatcher import MultipleConsumersDispatcher, RedeliveryQueue
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

_AHEAD_PER_CONSUMER = 2_000
_AHEAD = 20_000


class KeySharedDispatcher(MultipleConsumersDispatcher):
    """The dispatcher of a Key_Shared subscription."""

    __slots__ = (
        "_allow_out_of_order",
        "_batches",
        "_keys",
        "_slots_pending",
        "_unblocked",
        "_waiting",
        "_waiting_count",
        "_waiting_for",
    )

    def __init__(
        self, keys: KeySelector, cursor: Cursor, clock: Clock, max_unacked: int, *, allow_out_of_order: bool
    ) -> None:
        super().__init__(CommandSubscribe.SubType.Key_Shared, keys, cursor, clock, max_unacked)
        self._keys = keys
        self._allow_out_of_order = allow_out_of_order
        self._waiting: dict[int, RedeliveryQueue] = {}  # by slot
        self._waiting_count = 0
        self._waiting_for: dict[Consumer | None, dict[int, None]] = {}  # the slots above, by owner
        self._slots_pending: dict[int, tuple[Consumer, int]] = {}  # by slot, consumer and number of entries
        self._unblocked: dict[int, None] = {}  # slots to check in the next dispatch
        self._batches: dict[Consumer, DeliveryBatch] = {}

    @property
    def replaying(self) -> int:
        """The number of entries that were read and wait."""
        return self._waiting_count

    def flow_received(self, consumer: Consumer) -> None:
        """Send the entries that wait for this consumer, then entries that were not read yet."""
        for slot in tuple(self._waiting_for.get(consumer, ())):
            if not consumer.available:
                break
            self._drain(slot)
        self.dispatch()

    def dispatch(self) -> None:
        """Send the entries whose reason to wait has ended, then entries that were not read yet."""
        while self._unblocked:
            self._drain(self._unblocked.popitem()[0])
        ahead = min(_AHEAD, _AHEAD_PER_CONSUMER * len(self.consumers))
        while self._waiting_count < ahead and any(consumer.available for consumer in self.consumers):
            entry = self._read()
            if entry is None:
                break
            slot = self._keys.slot(entry.key_hash)
            consumer = None if slot in self._waiting else self._ready_owner(slot)
            if consumer is None:
                self._wait(slot, entry)
            else:
                self._send(consumer, slot, entry)
        now_ms = self._clock.wall_clock_ms()
        for batch in self._batches.values():
            batch.send(now_ms)
        self._batches.clear()

    def _ready_owner(self, slot: int) -> Consumer | None:
        """Return the consumer that can take the next entry of a slot now."""
        consumer = self._keys.owner(slot)
        if consumer is None or not consumer.available:
            return None
        holder = self._slots_pending.get(slot)
        return consumer if holder is None or holder[0] is consumer else None

    def _send(self, consumer: Consumer, slot: int, entry: StoredEntry) -> None:
        batch = self._batches.get(consumer)
        if batch is None:
            batch = self._batches[consumer] = DeliveryBatch(consumer)
        self._add_to_batch(entry, batch)
        if not self._allow_out_of_order:
            self._slots_pending[slot] = (consumer, self._slots_pending.get(slot, (consumer, 0))[1] + 1)
        if batch.full:
            batch.send(self._clock.wall_clock_ms())

    def _wait(self, slot: int, entry: StoredEntry) -> None:
        if slot not in self._waiting:
            self._waiting[slot] = RedeliveryQueue()
            self._waiting_for.setdefault(self._keys.owner(slot), {})[slot] = None
        self._waiting_count += self._waiting[slot].add(entry.offset)

    def _drain(self, slot: int) -> None:
        """Send as many of a slot's waiting entries as possible."""
        offsets = self._waiting.get(slot)
        while offsets and (consumer := self._ready_owner(slot)) is not None:
            offset = offsets.take_first()
            self._waiting_count -= 1
            if offset < self._cursor.managed_ledger.base:
                continue
            entry = self._cursor.managed_ledger.entry(offset)
            if self._cursor.remaining(entry):
                self._send(consumer, slot, entry)
        if offsets is not None and not offsets:
            del self._waiting[slot]
            self._waiting_for[self._keys.owner(slot)].pop(slot)

    def _consumers_changed(self) -> None:
        """Find the owners of the slots in which entries wait."""
        self._waiting_for.clear()
        for slot in self._waiting:
            self._waiting_for.setdefault(self._keys.owner(slot), {})[slot] = None
        self._unblocked.update(dict.fromkeys(self._waiting))

    def _consumer_freed(self, consumer: Consumer) -> None:
        self._unblocked.update(self._waiting_for.get(consumer, {}))

    def _no_longer_pending(self, entry: StoredEntry) -> None:
        slot = self._keys.slot(entry.key_hash)
        holder, count = self._slots_pending.get(slot, (None, 0))
        if holder is not None and count > 1:
            self._slots_pending[slot] = (holder, count - 1)
        elif holder is not None:
            del self._slots_pending[slot]
            self._unblocked[slot] = None

    def _add_to_replay(self, entries: Iterable[StoredEntry]) -> None:
        for entry in entries:
            slot = self._keys.slot(entry.key_hash)
            self._wait(slot, entry)
            self._unblocked[slot] = None

    def _forget(self) -> None:
        super()._forget()
        self._waiting.clear()
        self._waiting_count = 0
        self._waiting_for.clear()
        self._slots_pending.clear()
        self._unblocked.clear()
