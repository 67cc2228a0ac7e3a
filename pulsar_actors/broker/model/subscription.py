"""A subscription: a cursor, the consumers that share it, and the dispatcher that decides who gets what.

Its type is that of its consumers: while any is attached, others must ask for the same, and when none is, the next one
decides. The cursor stays; what the dispatcher knew of deliveries does not.

A seek lets the consumers go (of Exclusive and Failover the active one), because what is on its way to them was read
before it. They subscribe again and find the cursor moved; so a subscription that is not durable, which goes with its
last consumer otherwise, stays. Subscriptions of topics that are not stored have nothing to move, and keep theirs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pulsar_actors.broker.model.active_consumer import ActiveConsumer
from pulsar_actors.broker.model.choices import Choice
from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.consumer import Acknowledged, Consumer
from pulsar_actors.broker.model.consumer_stats import consumer_stats
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.dispatcher import Dispatcher, PassingDispatcher
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.key_rules import check_mixing, key_choice
from pulsar_actors.broker.model.key_shared_dispatcher import KeySharedDispatcher
from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.position import Position
from pulsar_actors.broker.model.refusal import Busy, Missing, Refusal
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.broker.model.shared_dispatcher import SharedDispatcher
from pulsar_actors.broker.model.single_dispatcher import SingleDispatcher
from pulsar_actors.broker.model.turns import Turns
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ServerError
from pulsar_actors.wire.topic_name import TopicName

_SubType = CommandSubscribe.SubType
_MS = 1000


class SubscriptionCounters:
    """What the statistics say beyond the consumers that are attached now; times are in milliseconds since 1970."""

    __slots__ = ("bytes_out", "expired", "last_expire_ms", "last_mark_ms", "messages_out")

    def __init__(self) -> None:
        self.bytes_out = self.messages_out = 0  # of consumers that have gone
        self.expired = self.last_expire_ms = self.last_mark_ms = 0


class Subscription:
    """One subscription of a topic. Made by `Topic.subscribe` or `Topic.create_subscription`."""

    __slots__ = (
        "_clock",
        "_delete",
        "_failover_delay",
        "_stays",
        "_topic",
        "counters",
        "cursor",
        "dispatcher",
        "durable",
        "is_over",
        "most_unacked",
        "name",
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
        most_unacked: int,
        failover_delay: float,
        properties: dict[str, str],
        is_over: Callable[[], bool],
        delete: Callable[["Subscription"], None],
    ) -> None:
        self.name = name
        self.cursor = cursor
        self.durable = durable
        self.most_unacked = most_unacked
        self.properties = properties
        self.is_over = is_over  # tells whether the topic is terminated
        self.dispatcher: Dispatcher | None = None
        self.counters = SubscriptionCounters()
        self._topic = topic
        self._clock = clock
        self._failover_delay = failover_delay
        self._delete = delete
        self._stays = False  # while a seek lets the consumers go

    @property
    def kind(self) -> "CommandSubscribe.SubType.ValueType | None":
        """The type that its consumers have or had; None when it never had any."""
        return None if self.dispatcher is None else self.dispatcher.kind

    @property
    def consumers(self) -> list[Consumer]:
        """Those attached."""
        return [] if self.dispatcher is None else list(self.dispatcher.consumers)

    def now_ms(self) -> int:
        """Read the clock."""
        return self._clock.wall_clock_ms()

    def backlog(self) -> int:
        """Count the entries that are not acknowledged."""
        return self.cursor.backlog()

    def mark_position(self) -> Position:
        """Give the position up to which all is acknowledged."""
        return self.cursor.mark_position

    def last_message(self) -> tuple[Position, int]:
        """Give the position of the topic's last entry and the index of its last message; Refusal if none is stored."""
        if not self._topic.is_persistent:
            raise Refusal(ServerError.NotAllowedError, "Non-persistent topics have no last message id")
        return self.cursor.log.last_message

    def stats_of(self, consumer: Consumer) -> dict[str, Any]:
        """Give the statistics of one consumer."""
        return consumer_stats(consumer)

    def attach(self, consumer: Consumer) -> None:
        """Take one more consumer; Refusal if its type or its place is taken."""
        dispatcher = self.dispatcher
        if dispatcher is None or not dispatcher.consumers:
            dispatcher = self._dispatcher_for(consumer.request)
        else:
            check_mixing(dispatcher.consumers[0].request, consumer.request)
        dispatcher.attach(consumer)
        self.dispatcher = dispatcher
        wish = consumer.request.replicated
        self.cursor.replicated = self.cursor.replicated if wish is None else wish

    def detach(self, consumer: Consumer) -> None:
        """Let a consumer go. A subscription that is not durable goes with its last one."""
        if self.dispatcher is None or not consumer.connected:
            return
        consumer.connected = False
        self.counters.bytes_out += consumer.counters.bytes_out
        self.counters.messages_out += consumer.counters.messages_out
        self.dispatcher.detach(consumer)
        if not (self.durable or self._stays or self.dispatcher.consumers) and self._topic.is_persistent:
            self._delete(self)

    def dismiss_all(self, moved_to: Address | None = None) -> None:
        """Let every consumer go, and tell them. What one had is not for the others: their turn to go is next."""
        consumers = self.consumers
        for consumer in consumers:
            consumer.permits = 0
        for consumer in consumers:
            consumer.dismiss(moved_to)

    def pass_on(self, entry: StoredEntry) -> None:
        """Give an entry that is not stored to whoever can take it."""
        if isinstance(self.dispatcher, PassingDispatcher):
            self.dispatcher.offer(entry)

    def dispatch(self) -> None:
        """Give out what the consumers can take: something was stored."""
        if self.dispatcher is not None:
            self.dispatcher.dispatch()

    def flowed(self, consumer: Consumer) -> None:
        """Give out what the consumer can take now."""
        if self.dispatcher is not None and consumer.connected:
            self.dispatcher.flowed(consumer)
            self.check_end()

    def acknowledge(self, consumer: Consumer, acknowledged: Sequence[Acknowledged]) -> None:
        """Acknowledge each of these; what is not there, or is acknowledged already, is passed over."""
        if self.dispatcher is None or not self._topic.is_persistent:
            return
        mark = self.cursor.mark
        for position, mask in acknowledged:
            offset = self.cursor.log.find(position)
            if offset is not None and not self.cursor.is_done(offset):
                entry = self.cursor.log.entry(offset)
                consumer.counters.messages_acked += self.dispatcher.acknowledge(consumer, entry, mask)
        consumer.counters.last_ack_ms = self.now_ms()
        self._acknowledged(mark)

    def acknowledge_cumulative(self, acknowledged: Acknowledged) -> None:
        """Acknowledge this one and all before it, in Exclusive and Failover; beyond the last entry there is nothing."""
        if not isinstance(self.dispatcher, SingleDispatcher):
            return
        mark = self.cursor.mark
        if self.cursor.acknowledge_up_to(*acknowledged):
            self._acknowledged(mark)

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Deliver these again, or with none given all that the consumer has not acknowledged."""
        if self.dispatcher is not None and consumer.connected:
            offsets = [self.cursor.log.find(position) for position in positions]
            entries = [self.cursor.log.entry(offset) for offset in offsets if offset is not None]
            self.dispatcher.redeliver(consumer, entries if positions else None, epoch)

    def reset(self, position: Position, ack_set: int | None = None) -> None:
        """Go to an entry, or to those messages in it that the mask has; where there is none, to the next one."""
        mask = ack_set if self.cursor.log.find(position) is not None else None
        self._reset(self.cursor.log.first_from(position), mask)

    def reset_to_time(self, publish_time_ms: int) -> None:
        """Go to the first entry that was published then or later."""
        self._reset(self.cursor.log.first_since(publish_time_ms), None)

    def skip(self, entries: int | None = None) -> None:
        """Acknowledge so many entries that are not, from the oldest on, or all of them."""
        end = self.cursor.log.end
        skipped = self.cursor.unacknowledged(entries) if entries is not None else []
        self._pass(end if entries is None else skipped[-1].offset + 1 if skipped else 0)

    def expire(self, seconds: int) -> None:
        """Acknowledge the entries that were published longer ago than this."""
        before = self.backlog()
        self._pass(self.cursor.log.first_since(self.now_ms() - seconds * _MS))
        self.counters.expired += before - self.backlog()
        self.counters.last_expire_ms = self.now_ms()

    def peek(self, number: int) -> StoredEntry:
        """Give the nth entry (from 1) that is not acknowledged; Missing if there are fewer."""
        entries = self.cursor.unacknowledged(number)
        if not 0 < number <= len(entries):
            raise Missing(ServerError.TopicNotFound, "Message not found")
        return entries[-1]

    def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """Delete the subscription at a consumer's wish; Refusal if others are connected and it is not forced."""
        if not force and (self.dispatcher is None or not self.dispatcher.can_unsubscribe(consumer)):
            raise Refusal(ServerError.MetadataError, "Unconnected or shared consumer attempting to unsubscribe")
        consumer.close()
        self.dismiss_all()
        self._delete(self)

    def delete(self, *, force: bool) -> None:
        """Delete the subscription; Busy while consumers are attached and it is not forced."""
        if self.consumers and not force:
            raise Busy(ServerError.ConsumerBusy, "Subscription has active connected consumers")
        self.dismiss_all()
        self._delete(self)

    def check_end(self) -> None:
        """Tell the consumers if the topic has ended and everything is acknowledged."""
        if self.is_over() and not self.backlog():
            for consumer in self.consumers:
                consumer.reach_end()

    def _dispatcher_for(self, request: SubscribeRequest) -> Dispatcher:
        kind = request.kind
        if not self._topic.is_persistent:
            return PassingDispatcher(kind, self._choice_for(request))
        if kind == _SubType.Shared:
            return SharedDispatcher(self.cursor, self._clock, self.most_unacked)
        if kind == _SubType.Key_Shared:
            return KeySharedDispatcher(
                key_choice(request),
                self.cursor,
                self._clock,
                self.most_unacked,
                allow_out_of_order=request.allow_out_of_order,
            )
        return SingleDispatcher(kind, ActiveConsumer(self._topic), self.cursor, self._clock, self._failover_delay)

    def _choice_for(self, request: SubscribeRequest) -> Choice:
        if request.kind == _SubType.Shared:
            return Turns()
        return key_choice(request) if request.kind == _SubType.Key_Shared else ActiveConsumer(self._topic)

    def _acknowledged(self, mark_before: int) -> None:
        if self.cursor.mark != mark_before:
            self.counters.last_mark_ms = self.now_ms()
        self.dispatch()
        self.check_end()

    def _pass(self, offset: int) -> None:
        """Acknowledge all before an offset, at an administrator's wish."""
        mark = self.cursor.mark
        self.cursor.acknowledge_before(offset)
        if self.dispatcher is not None:
            self.dispatcher.settle()
        self._acknowledged(mark)

    def _reset(self, offset: int, mask: int | None) -> None:
        if not self._topic.is_persistent:
            return
        self.cursor.reset(offset, mask)
        self._stays = True
        if isinstance(self.dispatcher, SingleDispatcher):
            self.dispatcher.dismiss_active()
        else:
            self.dismiss_all()
        self._stays = False
