"""The dispatcher of a subscription: it hands entries to the consumers that its selector chooses.

`dispatch` sends as many entries as the consumers can take. It is called whenever more may be possible: when an entry
was stored, a consumer sent permits, or entries were acknowledged. This module has the base class of all dispatchers,
and the two dispatchers that do not track single entries.

`NonPersistentDispatcher` is for topics that store nothing: an entry that no consumer can take at once is dropped.

`SingleActiveConsumerDispatcher` is for Exclusive and Failover: one consumer gets everything, in order. To deliver
again, for a new consumer or on request, it goes back to the first entry that is not acknowledged; redeliveries are not
counted. A request may carry a new epoch, which is sent with every entry from then on. By the epoch the consumer
recognises entries that were sent before the request. Entries of a compacted read carry no epoch: an Apache Pulsar sends
none with them either. In Failover a new active consumer starts after a delay, so that the acknowledgements of the
previous one arrive first. Then all consumers are notified which one is active.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pulsar_actors.broker.model.consumer import NO_EPOCH, Consumer, DeliveryBatch
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.interfaces import Clock, Delivery
from pulsar_actors.broker.model.pending_acks import PendingAck
from pulsar_actors.broker.model.selectors import ActiveConsumerSelector, ConsumerSelector
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe


class Dispatcher(ABC):
    """The consumers of one subscription and the entries on their way to them."""

    __slots__ = ("selector", "subscription_type")

    def __init__(self, subscription_type: "CommandSubscribe.SubType.ValueType", selector: ConsumerSelector) -> None:
        self.subscription_type = subscription_type
        self.selector = selector

    @property
    def consumers(self) -> list[Consumer]:
        """The attached consumers."""
        return self.selector.consumers

    @property
    def delayed(self) -> int:
        """The number of entries that wait for their delivery time."""
        return 0

    @property
    def replaying(self) -> int:
        """The number of entries that wait to be delivered again."""
        return 0

    def can_unsubscribe(self, consumer: Consumer) -> bool:
        """Return whether this is the only consumer."""
        return self.consumers == [consumer]

    @abstractmethod
    def attach(self, consumer: Consumer) -> None:
        """Add a consumer; Refusal if the selector refuses it."""

    @abstractmethod
    def detach(self, consumer: Consumer) -> None:
        """Remove a consumer; its unacknowledged entries are delivered again."""

    @abstractmethod
    def flow_received(self, consumer: Consumer) -> None:
        """Send the entries that this consumer can take now."""

    @abstractmethod
    def dispatch(self) -> None:
        """Send the entries that the consumers can take."""

    @abstractmethod
    def acknowledge(self, consumer: Consumer, entry: StoredEntry, ack_set: int | None) -> int:
        """Acknowledge an entry, or its messages that are not in the ack set, and return the number of messages."""

    @abstractmethod
    def hold(self, consumer: Consumer, entry: StoredEntry, messages: int) -> int:
        """Mark messages as pending in a transaction, and return their number."""

    @abstractmethod
    def redeliver_aborted(self, aborted: Sequence[PendingAck]) -> None:
        """Deliver messages again whose acknowledgement was aborted, and which are not pending any longer."""

    def redeliver_late(self, aborted: Sequence[PendingAck]) -> None:  # noqa: B027 - Pulsar names no consumer then
        """Deliver messages again that were acknowledged after the abort, if that is possible one by one."""

    @abstractmethod
    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """Deliver these entries again, or all that this consumer has not acknowledged."""

    def drop_acknowledged(self) -> None:  # noqa: B027 - for dispatchers that do not track single entries
        """Remove pending entries that an administrator has acknowledged."""


class NonPersistentDispatcher(Dispatcher):
    """The dispatcher of a topic that stores nothing."""

    __slots__ = ("dropped",)

    def __init__(self, subscription_type: "CommandSubscribe.SubType.ValueType", selector: ConsumerSelector) -> None:
        super().__init__(subscription_type, selector)
        self.dropped = 0

    def attach(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.selector.add(consumer)
        self._announce()

    def detach(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.selector.remove(consumer)
        self._announce()

    def flow_received(self, consumer: Consumer) -> None:
        """Do nothing: no entry waits."""

    def dispatch(self) -> None:
        """Do nothing: no entry waits."""

    def deliver_or_drop(self, entry: StoredEntry) -> None:
        """Deliver an entry to a consumer that can take it now, or drop it."""
        consumer = self.selector.of(entry)
        if consumer is None:
            self.dropped += entry.messages
            return
        consumer.count_sent(entry, entry.messages)
        consumer.counters.sent(entry.broker_timestamp)
        consumer.link.deliver([Delivery(entry, 0, None)], consumer.epoch)

    def acknowledge(self, consumer: Consumer, entry: StoredEntry, ack_set: int | None) -> int:
        """Do nothing: no entry is stored."""
        del consumer, entry, ack_set
        return 0

    def hold(self, consumer: Consumer, entry: StoredEntry, messages: int) -> int:
        """Do nothing: no entry is stored."""
        del consumer, entry, messages
        return 0

    def redeliver_aborted(self, aborted: Sequence[PendingAck]) -> None:
        """Do nothing: no entry is stored."""

    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """Note the epoch. No stored entry can be delivered again."""
        del entries
        consumer.epoch = max(consumer.epoch, epoch)

    def _announce(self) -> None:
        if isinstance(self.selector, ActiveConsumerSelector):
            self.selector.announce()


class SingleActiveConsumerDispatcher(Dispatcher):
    """The dispatcher of Exclusive and Failover. A new active consumer starts after `delay`."""

    __slots__ = ("_change", "_changing", "_clock", "_cursor", "_delay", "_selector")

    def __init__(
        self,
        subscription_type: "CommandSubscribe.SubType.ValueType",
        selector: ActiveConsumerSelector,
        cursor: Cursor,
        clock: Clock,
        delay: float,
    ) -> None:
        super().__init__(subscription_type, selector)
        self._selector = selector
        self._cursor = cursor
        self._clock = clock
        self._delay = delay if subscription_type == CommandSubscribe.SubType.Failover else 0.0
        self._change = 0  # the number of changes, so that a timer of an earlier one is recognised
        self._changing = False

    @property
    def active(self) -> Consumer | None:
        """The active consumer."""
        return self._selector.active

    def attach(self, consumer: Consumer) -> None:
        """Add a consumer, which may become the active one."""
        before = self._selector.active
        self._selector.add(consumer)
        if self._selector.active is before:
            consumer.link.active(False)  # noqa: FBT003 - as in the command
        else:
            self._begin_change()

    def detach(self, consumer: Consumer) -> None:
        """Remove a consumer; if it was the active one, another takes over."""
        before = self._selector.active
        self._selector.remove(consumer)
        if not self.consumers:
            self._changing = False
            self._change += 1
        elif self._selector.active is not before:
            self._begin_change()

    def flow_received(self, consumer: Consumer) -> None:
        """Send the entries that the active consumer can take."""
        del consumer
        self.dispatch()

    def dispatch(self) -> None:
        """Send the entries that the active consumer can take."""
        consumer = self._selector.active
        if consumer is None or self._changing:
            return
        cursor = self._cursor
        batch = DeliveryBatch(consumer, NO_EPOCH if consumer.request.read_compacted else consumer.epoch)
        now_ms = self._clock.wall_clock_ms()
        while consumer.available and (entry := cursor.next()) is not None:
            ack_set = cursor.ack_set_of(entry)
            consumer.count_sent(entry, entry.messages if ack_set is None else ack_set.bit_count())
            batch.add(Delivery(entry, 0, ack_set))
            if batch.full:
                batch.send(now_ms)
        batch.send(now_ms)

    def acknowledge(self, consumer: Consumer, entry: StoredEntry, ack_set: int | None) -> int:
        """Acknowledge an entry, or a part of it."""
        del consumer
        before = self._cursor.remaining(entry)
        self._cursor.acknowledge(entry, ack_set)
        return before - self._cursor.remaining(entry)

    def hold(self, consumer: Consumer, entry: StoredEntry, messages: int) -> int:
        """Mark messages as pending."""
        del consumer
        self._cursor.hold(entry, messages)
        return messages.bit_count()

    def redeliver_aborted(self, aborted: Sequence[PendingAck]) -> None:
        """Go back to the first unacknowledged entry, whatever entries these are."""
        if aborted and not self._changing:
            self._cursor.rewind()
            self.dispatch()

    def redeliver(self, consumer: Consumer, entries: Sequence[StoredEntry] | None, epoch: int) -> None:
        """Go back to the first unacknowledged entry, whatever entries are requested, if the active consumer asks."""
        del entries
        consumer.epoch = max(consumer.epoch, epoch)
        if consumer is self._selector.active and not self._changing:
            self._cursor.rewind()
            self.dispatch()

    def _begin_change(self) -> None:
        if self._delay <= 0:
            self._finish_change()
        elif not self._changing:
            self._changing = True
            self._clock.later(self._delay, self._changed, self._change)

    def _changed(self, change: int) -> None:
        if change == self._change:
            self._change += 1
            self._changing = False
            self._finish_change()

    def _finish_change(self) -> None:
        self._cursor.rewind()
        self._selector.announce()
        self.dispatch()
