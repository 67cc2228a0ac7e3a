"""A subscription: a cursor, the consumers that share it, and the dispatcher that sends entries to them.

The type of a subscription is the type of its consumers: while any is attached, others must ask for the same type; when
none is attached, the next consumer decides. The cursor stays; the first consumer gets a new dispatcher.

A seek disconnects the consumers (in Exclusive and Failover only the active one), because entries that are being sent to
them were read before the seek. The consumers subscribe again, and continue at the new position. Therefore a non-durable
subscription, which otherwise ends with its last consumer, survives a seek. Subscriptions of topics that store nothing
have no position, and keep their consumers.
"""

from collections.abc import Callable, Sequence

from pulsar_actors.broker.model.consumer import AckedEntry, Consumer
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.dispatcher import (
    Dispatcher,
    NonPersistentDispatcher,
    SingleActiveConsumerDispatcher,
)
from pulsar_actors.broker.model.entry import Position, StoredEntry
from pulsar_actors.broker.model.interfaces import Address, Busy, Clock, Missing, Refusal
from pulsar_actors.broker.model.key_shared_dispatcher import KeySharedDispatcher
from pulsar_actors.broker.model.pending_acks import PendingAcks
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.broker.model.selectors import (
    ActiveConsumerSelector,
    ConsumerSelector,
    HashRangeSelector,
    HashRingSelector,
    KeySelector,
    RoundRobinSelector,
)
from pulsar_actors.broker.model.shared_dispatcher import SharedDispatcher
from pulsar_actors.broker.model.storage import State, TopicStorage
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ServerError
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId

_SubType = CommandSubscribe.SubType
_MS = 1000


class Subscription:
    """One subscription of a topic, created by `Topic.subscribe` or `Topic.create_subscription`."""

    __slots__ = (
        "_clock",
        "_delete",
        "_failover_delay",
        "_record",
        "_seeking",
        "_topic",
        "counters",
        "cursor",
        "dispatcher",
        "durable",
        "is_terminated",
        "max_unacked",
        "name",
        "pending_acks",
        "properties",
    )

    def __init__(  # noqa: PLR0913 - each is another fact about it
        self,
        name: str,
        topic: TopicName,
        cursor: Cursor,
        clock: Clock,
        *,
        durable: bool,
        max_unacked: int,
        failover_delay: float,
        properties: dict[str, str],
        storage: TopicStorage,
        is_terminated: Callable[[], bool],
        delete: Callable[["Subscription"], None],
    ) -> None:
        self.name = name
        self.cursor = cursor
        self.pending_acks = PendingAcks(cursor, storage, name)
        self.durable = durable
        self.max_unacked = max_unacked
        self.properties = properties
        self.is_terminated = is_terminated  # asks the topic
        self.dispatcher: Dispatcher | None = None
        self.counters = SubscriptionCounters()
        self._topic = topic
        self._clock = clock
        self._failover_delay = failover_delay
        self._delete = delete
        self._seeking = False  # True while a seek disconnects the consumers
        self._record = storage.record("subscription", name, self._state)
        if (stored := self._record.stored) is None:
            self._record.changed()
        else:
            self.properties = stored["properties"]

    @property
    def subscription_type(self) -> "CommandSubscribe.SubType.ValueType | None":
        """The type of its current or last consumers; None if it never had any."""
        return None if self.dispatcher is None else self.dispatcher.subscription_type

    @property
    def consumers(self) -> list[Consumer]:
        """The attached consumers."""
        return [] if self.dispatcher is None else list(self.dispatcher.consumers)

    def now_ms(self) -> int:
        """Read the clock."""
        return self._clock.wall_clock_ms()

    def backlog(self) -> int:
        """Count the entries that are not acknowledged."""
        return self.cursor.backlog()

    def last_message(self) -> tuple[Position, int]:
        """Return the topic's last position and the index of its last message; Refusal if none is stored."""
        if not self._topic.is_persistent:
            raise Refusal(ServerError.NotAllowedError, "Non-persistent topics have no last message id")
        return self.cursor.managed_ledger.last_message

    def attach(self, consumer: Consumer) -> None:
        """Attach a consumer; Refusal if it does not fit the others."""
        dispatcher = self.dispatcher
        if dispatcher is None or not dispatcher.consumers:
            dispatcher = self._dispatcher_for(consumer.request)
        else:
            check_joins(dispatcher.consumers[0].request, consumer.request)
        dispatcher.attach(consumer)
        self.dispatcher = dispatcher
        if consumer.request.replicated is not None:
            self.cursor.replicate(consumer.request.replicated)

    def detach(self, consumer: Consumer) -> None:
        """Detach a consumer; a second call does nothing. A non-durable subscription ends with its last one."""
        if self.dispatcher is None or not consumer.connected:
            return
        consumer.connected = False
        self.counters.bytes_out += consumer.counters.bytes_out
        self.counters.messages_out += consumer.counters.messages_out
        self.dispatcher.detach(consumer)
        if not (self.durable or self._seeking or self.dispatcher.consumers) and self._topic.is_persistent:
            self._delete(self)

    def disconnect(self, consumer: Consumer, moved_to: Address | None = None) -> None:
        """Detach a consumer, and notify the client."""
        self.detach(consumer)
        consumer.link.closed(moved_to)

    def disconnect_all(self, moved_to: Address | None = None) -> None:
        """Disconnect all consumers. The entries of one are not sent to the others, which are disconnected next."""
        consumers = self.consumers
        for consumer in consumers:
            consumer.permits = 0
        for consumer in consumers:
            self.disconnect(consumer, moved_to)

    def deliver_unstored(self, entry: StoredEntry) -> None:
        """Deliver an entry that is not stored to a consumer that can take it."""
        if isinstance(self.dispatcher, NonPersistentDispatcher):
            self.dispatcher.deliver_or_drop(entry)

    def dispatch(self) -> None:
        """Send the entries that the consumers can take: one was stored."""
        if self.dispatcher is not None:
            self.dispatcher.dispatch()

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Add permits of a consumer, and send the entries that it can take now."""
        was_blocked = consumer.blocked
        consumer.add_permits(permits, self.now_ms())
        if not was_blocked:
            self.resume(consumer)

    def resume(self, consumer: Consumer) -> None:
        """Send the entries that the consumer can take now."""
        if self.dispatcher is not None and consumer.connected:
            self.dispatcher.flow_received(consumer)
            self.check_end()

    def acknowledge(self, consumer: Consumer, acknowledged: Sequence[AckedEntry]) -> None:
        """Acknowledge each of these entries. Unknown and already acknowledged ones are skipped."""
        if self.dispatcher is None or not self._topic.is_persistent:
            return
        mark_before = self.cursor.mark_delete
        for position, ack_set in acknowledged:
            offset = self.cursor.managed_ledger.find(position)
            if offset is not None and not self.cursor.is_acknowledged(offset):
                entry = self.cursor.managed_ledger.entry(offset)
                consumer.counters.messages_acked += self.dispatcher.acknowledge(consumer, entry, ack_set)
        consumer.counters.last_ack_ms = self.now_ms()
        self._acknowledged(mark_before)

    def acknowledge_cumulative(self, acknowledged: AckedEntry) -> None:
        """Acknowledge this entry and all before it, in Exclusive and Failover."""
        if not isinstance(self.dispatcher, SingleActiveConsumerDispatcher):
            return
        mark_before = self.cursor.mark_delete
        if self.cursor.acknowledge_up_to(*acknowledged):
            self._acknowledged(mark_before)

    def acknowledge_in_transaction(
        self, consumer: Consumer, transaction: TransactionId, acknowledged: Sequence[AckedEntry]
    ) -> None:
        """Acknowledge each of these entries when the transaction is committed; Refusal for a conflict."""
        self._refuse_unless_persistent()
        if self.dispatcher is not None:
            pending = self.pending_acks.check(transaction, acknowledged)
            for entry, messages in pending:
                consumer.counters.messages_acked += self.dispatcher.hold(consumer, entry, messages)
            self.pending_acks.add(transaction, pending)
            consumer.counters.last_ack_ms = self.now_ms()
            self.dispatch()

    def acknowledge_cumulative_in_transaction(self, transaction: TransactionId, acknowledged: AckedEntry) -> None:
        """Acknowledge this entry and all before it when the transaction is committed; Refusal for a conflict."""
        self._refuse_unless_persistent()
        if isinstance(self.dispatcher, SingleActiveConsumerDispatcher):
            self.pending_acks.add_cumulative(transaction, acknowledged)

    def end_transaction(self, transaction: TransactionId, *, commit: bool, low_water_mark: int) -> None:
        """Acknowledge what the transaction has acknowledged, or deliver it again.

        All of its coordinator up to the low-water mark have ended, too. That is looked at after those with individual
        acknowledgements.
        """
        mark_before, acks = self.cursor.mark_delete, self.pending_acks
        ends_individual = acks.ends_individual(transaction)
        again = [] if commit else acks.abort(transaction)
        if commit:
            acks.commit(transaction)
        late = acks.abort_late(transaction.most, low_water_mark) if ends_individual else []
        if self.dispatcher is not None:
            self.dispatcher.redeliver_aborted(again)
            self.dispatcher.redeliver_late(late)
        self._acknowledged(mark_before)

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Deliver these entries again; without positions, all that the consumer has not acknowledged."""
        if self.dispatcher is not None and consumer.connected:
            offsets = [self.cursor.managed_ledger.find(position) for position in positions]
            entries = [self.cursor.managed_ledger.entry(offset) for offset in offsets if offset is not None]
            self.dispatcher.redeliver(consumer, entries if positions else None, epoch)

    def reset(self, position: Position, ack_set: int | None = None) -> None:
        """Move to an entry, or to its messages in the ack set. If there is no such entry, move to the next one."""
        if self.cursor.managed_ledger.find(position) is None:
            ack_set = None
        self._reset(self.cursor.managed_ledger.first_from(position), ack_set)

    def reset_to_time(self, publish_time_ms: int) -> None:
        """Move to the first entry that was published at this time or later."""
        self._reset(self.cursor.managed_ledger.first_since(publish_time_ms), None)

    def skip(self, entries: int | None = None) -> None:
        """Acknowledge the oldest unacknowledged entries, so many or all."""
        end = self.cursor.managed_ledger.end
        skipped = self.cursor.unacknowledged(entries) if entries is not None else []
        self._acknowledge_before(end if entries is None else skipped[-1].offset + 1 if skipped else 0)

    def expire(self, seconds: int) -> None:
        """Acknowledge the entries that were published more than so many seconds ago."""
        before = self.backlog()
        self._acknowledge_before(self.cursor.managed_ledger.first_since(self.now_ms() - seconds * _MS))
        self.counters.expired += before - self.backlog()
        self.counters.last_expire_ms = self.now_ms()

    def peek(self, number: int) -> StoredEntry:
        """Return the nth (from 1) unacknowledged entry; Missing if there are fewer."""
        entries = self.cursor.unacknowledged(number)
        if not 0 < number <= len(entries):
            raise Missing(ServerError.TopicNotFound, "Message not found")
        return entries[-1]

    def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """Delete the subscription for a consumer; Refusal if others are attached and `force` is not set."""
        if not force and (self.dispatcher is None or not self.dispatcher.can_unsubscribe(consumer)):
            raise Refusal(ServerError.MetadataError, "Unconnected or shared consumer attempting to unsubscribe")
        self.detach(consumer)
        self.disconnect_all()
        self._delete(self)

    def delete(self, *, force: bool) -> None:
        """Delete the subscription; Busy while consumers are attached and `force` is not set."""
        if self.consumers and not force:
            raise Busy(ServerError.ConsumerBusy, "Subscription has active connected consumers")
        self.disconnect_all()
        self._delete(self)

    def forget(self) -> None:
        """Store nothing any longer: it is deleted."""
        self._record.remove()
        self.cursor.forget()
        self.pending_acks.forget()

    def check_end(self) -> None:
        """Notify the consumers if the topic is terminated and everything is acknowledged."""
        if self.is_terminated() and not self.backlog():
            for consumer in self.consumers:
                consumer.notify_end_of_topic()

    def _state(self) -> State:
        return {"properties": self.properties}

    def _dispatcher_for(self, request: SubscribeRequest) -> Dispatcher:
        subscription_type = request.subscription_type
        if not self._topic.is_persistent:
            return NonPersistentDispatcher(subscription_type, self._selector_for(request))
        if subscription_type == _SubType.Shared:
            return SharedDispatcher(self.cursor, self._clock, self.max_unacked)
        if subscription_type == _SubType.Key_Shared:
            return KeySharedDispatcher(
                key_selector(request),
                self.cursor,
                self._clock,
                self.max_unacked,
                allow_out_of_order=request.allow_out_of_order,
            )
        return SingleActiveConsumerDispatcher(
            subscription_type, ActiveConsumerSelector(self._topic), self.cursor, self._clock, self._failover_delay
        )

    def _refuse_unless_persistent(self) -> None:
        if not self._topic.is_persistent:
            raise Refusal(ServerError.NotAllowedError, "Non-persistent topics have no transactions")

    def _selector_for(self, request: SubscribeRequest) -> ConsumerSelector:
        if request.subscription_type == _SubType.Shared:
            return RoundRobinSelector()
        return (
            key_selector(request)
            if request.subscription_type == _SubType.Key_Shared
            else ActiveConsumerSelector(self._topic)
        )

    def _acknowledged(self, mark_before: int) -> None:
        if self.cursor.mark_delete != mark_before:
            self.counters.last_mark_delete_ms = self.now_ms()
        self.dispatch()
        self.check_end()

    def _acknowledge_before(self, offset: int) -> None:
        """Acknowledge all entries before an offset, for an administrator."""
        mark_before = self.cursor.mark_delete
        self.cursor.acknowledge_before(offset)
        if self.dispatcher is not None:
            self.dispatcher.drop_acknowledged()
        self._acknowledged(mark_before)

    def _reset(self, offset: int, ack_set: int | None) -> None:
        if not self._topic.is_persistent:
            return
        self.cursor.reset(offset, ack_set)
        self._seeking = True
        if isinstance(self.dispatcher, SingleActiveConsumerDispatcher):
            if self.dispatcher.active is not None:
                self.disconnect(self.dispatcher.active)
        else:
            self.disconnect_all()
        self._seeking = False


class SubscriptionCounters:
    """The counters of consumers that have left, and of expiry. Times are in milliseconds since 1970."""

    __slots__ = ("bytes_out", "expired", "last_expire_ms", "last_mark_delete_ms", "messages_out")

    def __init__(self) -> None:
        self.bytes_out = self.messages_out = 0  # of consumers that are closed
        self.expired = self.last_expire_ms = self.last_mark_delete_ms = 0


def check_joins(existing: SubscribeRequest, new: SubscribeRequest) -> None:
    """Refuse a consumer that asks for another type, or another Key_Shared mode, than the attached ones."""
    sub_type = CommandSubscribe.SubType
    if existing.subscription_type != new.subscription_type:
        raise _busy(
            f"Active subscription type of '{sub_type.Name(existing.subscription_type)}' is different than the "
            f"connecting consumer's type '{sub_type.Name(new.subscription_type)}'."
        )
    if new.subscription_type != sub_type.Key_Shared:
        return
    if existing.key_shared_mode != new.key_shared_mode:
        before, now = KeySharedMode.Name(existing.key_shared_mode), KeySharedMode.Name(new.key_shared_mode)
        raise _busy(
            f"Active subscription key_shared mode of '{before}' is different than the connecting consumer's key_shared "
            f"mode '{now}'."
        )
    if existing.allow_out_of_order != new.allow_out_of_order:
        raise _busy(
            "Active subscription allows out of order delivery while the connecting consumer does not allow it."
            if existing.allow_out_of_order
            else "Active subscription does not allow out of order delivery while the connecting consumer allows it."
        )


def key_selector(request: SubscribeRequest) -> KeySelector:
    """Create the selector for the first consumer's Key_Shared mode."""
    return HashRangeSelector() if request.key_shared_mode == KeySharedMode.STICKY else HashRingSelector()


def _busy(reason: str) -> Refusal:
    return Refusal(ServerError.ConsumerBusy, f"Subscription is of different type. {reason}")
