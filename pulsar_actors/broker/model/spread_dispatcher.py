"""What Shared and Key_Shared have in common: entries are spread over consumers and acknowledged one by one.

Every entry that was delivered and not acknowledged is in the `pending` of one consumer. From there it may have to be
delivered again: on demand, which counts as a redelivery, or because its consumer went, which does not. When the last
consumer goes everything here is forgotten, the counts too, and the next one begins at the first entry that is not
acknowledged.

Entries whose time has not come are held back, here and in no other type of subscription. While the subscription as a
whole has too many messages out, nothing new is read; what is to be delivered again still is.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from pulsar_actors.broker.model.choices import Choice
from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.delays import Delays
from pulsar_actors.broker.model.dispatcher import Dispatcher
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.links import Delivery
from pulsar_actors.broker.model.parcel import Parcel
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe


class SpreadDispatcher(Dispatcher):
    """A dispatcher that knows which consumer has which entry. `most_unacked` is of all together, 0 for any number."""

    __slots__ = ("_clock", "_counts", "_cursor", "_delays", "_most_unacked", "_unacked", "throttled")

    def __init__(
        self,
        kind: "CommandSubscribe.SubType.ValueType",
        choice: Choice,
        cursor: Cursor,
        clock: Clock,
        most_unacked: int,
    ) -> None:
        super().__init__(kind, choice)
        self._cursor = cursor
        self._clock = clock
        self._most_unacked = most_unacked
        self._counts: dict[int, int] = {}  # by offset, how often it was demanded again
        self._delays = Delays(clock, self._due)
        self._unacked = 0
        self.throttled = False

    @property
    def delayed(self) -> int:
        """How many entries wait for their time."""
        return len(self._delays)

    def attach(self, consumer: Consumer) -> None:
        """Take one more."""
        self.choice.add(consumer)
        self._rearranged()
        if self.consumers == [consumer]:
            self._cursor.rewind()

    def detach(self, consumer: Consumer) -> None:
        """Let one go; others get what it has not acknowledged."""
        self.choice.remove(consumer)
        self._rearranged()
        self._relieved(consumer.unacked)
        pending = list(consumer.pending.values())
        consumer.pending.clear()
        consumer.unacked = 0
        if not self.consumers:
            self._forget()
            return
        for entry in pending:
            self._landed(entry)
        self._again(pending)
        self.dispatch()

    def acknowledge(self, consumer: Consumer, entry: StoredEntry, mask: int | None) -> int:
        """Acknowledge an entry, or a part of it, whoever has it."""
        cursor, offset = self._cursor, entry.offset
        before = cursor.remaining(entry)
        cursor.acknowledge(entry, mask)
        left = cursor.remaining(entry)
        self._counts.pop(offset, None)
        for owner in (consumer, *self.consumers) if offset not in consumer.pending else (consumer,):
            if offset in owner.pending:
                if not left:
                    del owner.pending[offset]
                    self._landed(entry)
                self._relieve(owner, before - left)
                self._relieved(before - left)
                break
        return before - left

    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """Deliver these again, as far as this consumer has them, or all that it has."""
        del epoch
        wanted = list(consumer.pending.values()) if entries is None else entries
        found: list[StoredEntry] = []
        for entry in wanted:
            if consumer.pending.pop(entry.offset, None) is not None:
                messages = self._cursor.remaining(entry)
                consumer.unacked -= messages
                consumer.counters.messages_redelivered += messages
                self._relieved(messages)
                self._counts[entry.offset] = self._counts.get(entry.offset, 0) + 1
                self._landed(entry)
                found.append(entry)
        consumer.release()
        self._freed(consumer)
        self._again(found)
        self.dispatch()

    def settle(self) -> None:
        """Forget what is out and was acknowledged meanwhile."""
        self._unacked = 0
        for consumer in self.consumers:
            for entry in list(consumer.pending.values()):
                if self._cursor.is_done(entry.offset):
                    del consumer.pending[entry.offset]
                    self._counts.pop(entry.offset, None)
                    self._landed(entry)
            consumer.unacked = sum(map(self._cursor.remaining, consumer.pending.values()))
            self._relieve(consumer, 0)
            self._unacked += consumer.unacked
        self._relieved(0)

    def _give(self, entry: StoredEntry, parcel: Parcel) -> None:
        """Put an entry into a parcel, and remember who has it."""
        offset = entry.offset
        mask = self._cursor.partial.get(offset)
        messages = entry.messages if mask is None else mask.bit_count()
        parcel.consumer.charge(entry, messages)
        parcel.consumer.owe(entry, messages)
        self._unacked += messages
        if 0 < self._most_unacked <= self._unacked:
            self.throttled = True
        parcel.add(Delivery(entry, self._counts.get(offset, 0), mask))

    def _read(self) -> StoredEntry | None:
        """Read the next entry that may be delivered."""
        if self.throttled:
            return None
        while (entry := self._cursor.next()) is not None:
            if not entry.deliver_at or not self._delays.hold(entry):
                return entry
        return None

    def _relieve(self, consumer: Consumer, messages: int) -> None:
        was_blocked = consumer.blocked
        consumer.relieve(messages)
        if was_blocked and not consumer.blocked:
            self._freed(consumer)

    def _relieved(self, messages: int) -> None:
        self._unacked -= messages
        if self.throttled and self._unacked < self._most_unacked // 2:
            self.throttled = False

    def _due(self) -> None:
        log = self._cursor.log
        self._again([log.entry(offset) for offset in self._delays.release() if offset >= log.base])
        self.dispatch()

    def _forget(self) -> None:
        """Forget all that is on its way: there is nobody left."""
        self._counts.clear()
        self._delays.clear()
        self._unacked = 0
        self.throttled = False

    def _rearranged(self) -> None:
        """Hear that a consumer came or went; Shared does not care."""

    def _freed(self, consumer: Consumer) -> None:
        """Hear that a consumer can take entries again; Shared asks everybody anyway."""

    @abstractmethod
    def _landed(self, entry: StoredEntry) -> None:
        """Hear that an entry is no longer in anybody's hands."""

    @abstractmethod
    def _again(self, entries: Iterable[StoredEntry]) -> None:
        """Take entries that are to be delivered before what was not read yet."""
