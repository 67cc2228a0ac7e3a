"""The dispatcher of a Shared subscription, and the base class of the dispatchers of Shared and Key_Shared.

In both, entries are distributed over consumers and acknowledged one by one. Every entry that was delivered and not
acknowledged is in `Consumer.pending` of one consumer. It is delivered again on request, which counts as a redelivery,
or when its consumer leaves, which does not count. When the last consumer leaves, the dispatcher drops all its data,
including the counts, and the next consumer begins at the first entry that is not acknowledged.

Entries with a delivery time in the future are held back; the other subscription types ignore that time. While the
subscription as a whole has too many unacknowledged messages, no new entries are read, but entries are still delivered
again.

Shared sends up to twenty entries to a consumer before it changes to the next one, so that a backlog does not need a
socket write for each entry. Entries to be delivered again are sent first, the oldest before others. The chunks of one
message stay together: the consumer that has one of them gets the others, out of turn and even without permits, because
clients grant the permits for chunks afterwards.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

from pulsar_actors.broker.model.consumer import Consumer, DeliveryBatch
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.dispatcher import Dispatcher
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.interfaces import Clock, Delivery
from pulsar_actors.broker.model.pending_acks import PendingAck
from pulsar_actors.broker.model.selectors import ConsumerSelector, RoundRobinSelector
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

_MS = 1000.0
_TURN = 20


class MultipleConsumersDispatcher(Dispatcher):
    """A dispatcher that tracks the consumer of each entry. `max_unacked` is the limit of all together; 0: no limit."""

    __slots__ = ("_clock", "_cursor", "_delays", "_max_unacked", "_redelivery_counts", "_total_unacked", "throttled")

    def __init__(
        self,
        subscription_type: "CommandSubscribe.SubType.ValueType",
        selector: ConsumerSelector,
        cursor: Cursor,
        clock: Clock,
        max_unacked: int,
    ) -> None:
        super().__init__(subscription_type, selector)
        self._cursor = cursor
        self._clock = clock
        self._max_unacked = max_unacked
        self._redelivery_counts: dict[int, int] = {}  # by offset
        self._delays = DelayedDeliveryTracker(clock, self._due)
        self._total_unacked = 0
        self.throttled = False

    @property
    def delayed(self) -> int:
        """The number of entries that wait for their delivery time."""
        return len(self._delays)

    def attach(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.selector.add(consumer)
        self._consumers_changed()
        if self.consumers == [consumer]:
            self._cursor.rewind()

    def detach(self, consumer: Consumer) -> None:
        """Remove a consumer. Others get its unacknowledged entries."""
        self.selector.remove(consumer)
        self._consumers_changed()
        self._reduce_total_unacked(consumer.unacked)
        pending = list(consumer.pending.values())
        consumer.pending.clear()
        consumer.unacked = 0
        if not self.consumers:
            self._forget()
            return
        for entry in pending:
            self._no_longer_pending(entry)
        self._add_to_replay(pending)
        self.dispatch()

    def acknowledge(self, consumer: Consumer, entry: StoredEntry, ack_set: int | None) -> int:
        """Acknowledge an entry, or a part of it, whichever consumer has it."""
        before = self._cursor.remaining(entry)
        self._cursor.acknowledge(entry, ack_set)
        self._redelivery_counts.pop(entry.offset, None)
        return self._reduce_pending(consumer, entry, before)

    def hold(self, consumer: Consumer, entry: StoredEntry, messages: int) -> int:
        """Mark messages as pending in a transaction, whichever consumer has them: it has them no longer."""
        before = self._cursor.remaining(entry)
        self._cursor.hold(entry, messages)
        return self._reduce_pending(consumer, entry, before)

    def redeliver_aborted(self, aborted: Sequence[PendingAck]) -> None:
        """Deliver these entries again, with what a consumer still has of them."""
        if not self.consumers:
            return
        for entry, messages in aborted:
            for owner in self.consumers:
                if owner.pending.pop(entry.offset, None) is not None:
                    still_there = (self._cursor.remaining_set(entry) & ~messages).bit_count()
                    self._reduce_unacked(owner, still_there)
                    self._reduce_total_unacked(still_there)
                    self._no_longer_pending(entry)
            self._redelivery_counts[entry.offset] = self._redelivery_counts.get(entry.offset, 0) + 1
        self._add_to_replay([entry for entry, _ in aborted])
        self.dispatch()

    def redeliver_late(self, aborted: Sequence[PendingAck]) -> None:
        """Deliver these entries again, too."""
        self.redeliver_aborted(aborted)

    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """Deliver entries of this consumer again: these, or all that it has."""
        del epoch
        wanted = list(consumer.pending.values()) if entries is None else entries
        found: list[StoredEntry] = []
        for entry in wanted:
            if consumer.pending.pop(entry.offset, None) is not None:
                messages = self._cursor.remaining(entry)
                consumer.unacked -= messages
                consumer.counters.messages_redelivered += messages
                self._reduce_total_unacked(messages)
                self._redelivery_counts[entry.offset] = self._redelivery_counts.get(entry.offset, 0) + 1
                self._no_longer_pending(entry)
                found.append(entry)
        consumer.release()
        self._consumer_freed(consumer)
        self._add_to_replay(found)
        self.dispatch()

    def drop_acknowledged(self) -> None:
        """Remove pending entries that were acknowledged meanwhile."""
        self._total_unacked = 0
        for consumer in self.consumers:
            for entry in list(consumer.pending.values()):
                if self._cursor.is_acknowledged(entry.offset):
                    del consumer.pending[entry.offset]
                    self._redelivery_counts.pop(entry.offset, None)
                    self._no_longer_pending(entry)
            consumer.unacked = sum(map(self._cursor.remaining, consumer.pending.values()))
            self._reduce_unacked(consumer, 0)
            self._total_unacked += consumer.unacked
        self._reduce_total_unacked(0)

    def _add_to_batch(self, entry: StoredEntry, batch: DeliveryBatch) -> None:
        """Add an entry to a batch, and track it as pending."""
        offset = entry.offset
        ack_set = self._cursor.ack_set_of(entry)
        messages = entry.messages if ack_set is None else ack_set.bit_count()
        batch.consumer.count_sent(entry, messages)
        batch.consumer.add_pending(entry, messages)
        self._total_unacked += messages
        if 0 < self._max_unacked <= self._total_unacked:
            self.throttled = True
        batch.add(Delivery(entry, self._redelivery_counts.get(offset, 0), ack_set))

    def _read(self) -> StoredEntry | None:
        """Read the next entry that may be delivered."""
        if self.throttled:
            return None
        while (entry := self._cursor.next()) is not None:
            if not entry.deliver_at or not self._delays.hold(entry):
                return entry
        return None

    def _reduce_pending(self, consumer: Consumer, entry: StoredEntry, before: int) -> int:
        """Return how many messages of so many the consumer of an entry has no longer, and count them."""
        offset, left = entry.offset, self._cursor.remaining(entry)
        for owner in (consumer, *self.consumers) if offset not in consumer.pending else (consumer,):
            if offset in owner.pending:
                if not left:
                    del owner.pending[offset]
                    self._no_longer_pending(entry)
                self._reduce_unacked(owner, before - left)
                self._reduce_total_unacked(before - left)
                break
        return before - left

    def _reduce_unacked(self, consumer: Consumer, messages: int) -> None:
        was_blocked = consumer.blocked
        consumer.reduce_unacked(messages)
        if was_blocked and not consumer.blocked:
            self._consumer_freed(consumer)

    def _reduce_total_unacked(self, messages: int) -> None:
        self._total_unacked -= messages
        if self.throttled and self._total_unacked < self._max_unacked // 2:
            self.throttled = False

    def _due(self) -> None:
        managed_ledger = self._cursor.managed_ledger
        self._add_to_replay(
            [managed_ledger.entry(offset) for offset in self._delays.release() if offset >= managed_ledger.base]
        )
        self.dispatch()

    def _forget(self) -> None:
        """Remove all pending entries: no consumer is left."""
        self._redelivery_counts.clear()
        self._delays.clear()
        self._total_unacked = 0
        self.throttled = False

    def _consumers_changed(self) -> None:
        """React to a consumer that was added or removed. Shared does nothing."""

    def _consumer_freed(self, consumer: Consumer) -> None:
        """React to a consumer that can take entries again. Shared does nothing."""

    @abstractmethod
    def _no_longer_pending(self, entry: StoredEntry) -> None:
        """React to an entry that no consumer has any longer."""

    @abstractmethod
    def _add_to_replay(self, entries: Iterable[StoredEntry]) -> None:
        """Queue entries, to be delivered before those that were not read yet."""


class SharedDispatcher(MultipleConsumersDispatcher):
    """The dispatcher of a Shared subscription."""

    __slots__ = ("_chunk_owners", "_replay", "_selector")

    def __init__(self, cursor: Cursor, clock: Clock, max_unacked: int) -> None:
        turns = RoundRobinSelector()
        super().__init__(CommandSubscribe.SubType.Shared, turns, cursor, clock, max_unacked)
        self._selector = turns
        self._replay = RedeliveryQueue()
        self._chunk_owners: dict[str, Consumer] = {}  # by uuid of the message

    @property
    def replaying(self) -> int:
        """The number of entries that wait to be delivered again."""
        return len(self._replay)

    def detach(self, consumer: Consumer) -> None:
        """Remove a consumer; the chunks of its messages go to one other consumer."""
        for uuid in [uuid for uuid, owner in self._chunk_owners.items() if owner is consumer]:
            del self._chunk_owners[uuid]
        super().detach(consumer)

    def flow_received(self, consumer: Consumer) -> None:
        """Send entries to consumers while they have permits."""
        del consumer
        self.dispatch()

    def dispatch(self) -> None:
        """Send entries to consumers while they have permits."""
        now_ms = self._clock.wall_clock_ms()
        while self._has_more() and (consumer := self._selector.next()) is not None:
            batch = DeliveryBatch(consumer)
            while len(batch.deliveries) < _TURN and not batch.full and consumer.available:
                entry = self._next()
                if entry is None:
                    break
                owner = consumer if entry.chunk_of is None else self._owner_of_chunk(entry, entry.chunk_of, consumer)
                if owner is consumer:
                    self._add_to_batch(entry, batch)
                else:
                    aside = DeliveryBatch(owner)
                    self._add_to_batch(entry, aside)
                    aside.send(now_ms)
            batch.send(now_ms)

    def _has_more(self) -> bool:
        return bool(self._replay) or (
            not self.throttled and self._cursor.read_offset < self._cursor.managed_ledger.readable_end
        )

    def _next(self) -> StoredEntry | None:
        managed_ledger = self._cursor.managed_ledger
        while self._replay:
            offset = self._replay.take_first()
            if offset >= managed_ledger.base and self._cursor.remaining(managed_ledger.entry(offset)):
                return managed_ledger.entry(offset)
        return self._read()

    def _owner_of_chunk(self, entry: StoredEntry, uuid: str, consumer: Consumer) -> Consumer:
        owner = self._chunk_owners.get(uuid, consumer)
        if entry.is_last_chunk:
            self._chunk_owners.pop(uuid, None)
        else:
            self._chunk_owners[uuid] = owner
        return owner

    def _no_longer_pending(self, entry: StoredEntry) -> None:
        """Do nothing: only Key_Shared holds back entries because of pending ones."""

    def _add_to_replay(self, entries: Iterable[StoredEntry]) -> None:
        for entry in entries:
            self._replay.add(entry.offset)

    def _forget(self) -> None:
        super()._forget()
        self._replay.clear()
        self._chunk_owners.clear()


class RedeliveryQueue:
    """The offsets of entries that wait to be delivered again, in their order. Each is in it once.

    An entry may be added while it waits: if it is acknowledged in a transaction that is aborted then.
    """

    __slots__ = ("_heap", "_offsets")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._offsets: set[int] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, offset: int) -> bool:
        """Add an offset, and return whether it was not there."""
        if offset in self._offsets:
            return False
        self._offsets.add(offset)
        heappush(self._heap, offset)
        return True

    def take_first(self) -> int:
        """Remove the lowest offset, and return it."""
        offset = heappop(self._heap)
        self._offsets.remove(offset)
        return offset

    def clear(self) -> None:
        """Remove all."""
        self._heap.clear()
        self._offsets.clear()


class DelayedDeliveryTracker:
    """The entries of one subscription that wait for their delivery time, to the millisecond.

    `due` is called when there may be entries to deliver. One timer is set at a time, for the earliest entry; a timer
    that was replaced by an earlier one finds nothing to do. A real broker checks once a second, and delivers an entry
    up to a second early.
    """

    __slots__ = ("_clock", "_due", "_timer", "_waiting")

    def __init__(self, clock: Clock, due: Callable[[], None]) -> None:
        self._clock = clock
        self._due = due
        self._timer = 0  # the time of the earliest timer, in ms; 0: none is set
        self._waiting: list[tuple[int, int]] = []  # delivery time and offset

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, entry: StoredEntry) -> bool:
        """Keep an entry whose delivery time has not come, and return whether it is kept."""
        if entry.deliver_at <= self._clock.wall_clock_ms():
            return False
        heappush(self._waiting, (entry.deliver_at, entry.offset))
        self._set_timer()
        return True

    def release(self) -> list[int]:
        """Return the offsets of the entries whose delivery time has come."""
        now_ms = self._clock.wall_clock_ms()
        released: list[int] = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            released.append(heappop(self._waiting)[1])
        self._set_timer()
        return released

    def clear(self) -> None:
        """Forget all entries."""
        self._waiting.clear()
        self._timer = 0

    def _set_timer(self) -> None:
        if not self._waiting:
            return
        earliest = self._waiting[0][0]
        if not self._timer or earliest < self._timer:
            self._timer = earliest
            self._clock.later((earliest - self._clock.wall_clock_ms()) / _MS, self._fired, earliest)

    def _fired(self, timer: int) -> None:
        if timer == self._timer:
            self._timer = 0
            self._due()
            self._set_timer()
