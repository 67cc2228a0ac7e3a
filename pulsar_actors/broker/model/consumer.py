"""A consumer of a subscription: its permits, and the entries that were sent to it and are not acknowledged.

A consumer is sent as many messages as it has permits for. A batch may overdraw them: the whole entry is sent as long as
one permit is left. Messages of a batch that are already acknowledged cost no permit.

If several consumers share the entries (Shared, Key_Shared), `pending` has each unacknowledged entry of a consumer. With
too many of them the consumer is blocked: new permits are withheld until only half of the limit is left.
"""

from typing import Final

from pulsar_actors.broker.model.entry import Position, StoredEntry
from pulsar_actors.broker.model.interfaces import ConsumerLink, Delivery
from pulsar_actors.broker.model.requests import SubscribeRequest
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe


class AckedEntry(NamedTuple):
    """One message id of an ACK.

    `ack_set` is a mask of the messages of the batch that are NOT acknowledged; None: the whole entry is acknowledged.
    """

    position: Position
    ack_set: int | None = None


class Consumer:
    """One consumer, created by `Topic.subscribe`. Its subscription acknowledges, redelivers and seeks for it."""

    __slots__ = (
        "_withheld_permits",
        "blocked",
        "connected",
        "counters",
        "end_notified",
        "epoch",
        "link",
        "max_unacked",
        "name",
        "pending",
        "permits",
        "request",
        "unacked",
    )

    def __init__(self, request: SubscribeRequest, link: ConsumerLink, max_unacked: int, now_ms: int) -> None:
        self.request = request
        self.link = link
        self.name = request.name or ""
        self.epoch = request.consumer_epoch
        self.connected = True
        self.permits = 0
        self.blocked = False
        self.unacked = 0
        self.max_unacked = max_unacked  # 0: any number
        self.pending: dict[int, StoredEntry] = {}  # the unacknowledged entries, by offset
        self.end_notified = False
        self.counters = ConsumerCounters(now_ms)
        self._withheld_permits = 0

    @property
    def subscription_type(self) -> "CommandSubscribe.SubType.ValueType":
        """The subscription type that the consumer asked for."""
        return self.request.subscription_type

    @property
    def available(self) -> bool:
        """True if the consumer can take an entry now."""
        return self.permits > 0 and not self.blocked and self.link.has_room()

    def add_permits(self, permits: int, now_ms: int) -> None:
        """Add permits, or withhold them while the consumer is blocked."""
        self.counters.flow_received(now_ms)
        if self.blocked:
            self._withheld_permits += permits
        else:
            self.permits += permits

    def notify_end_of_topic(self) -> None:
        """Notify the client, once, that the topic has ended."""
        if not self.end_notified:
            self.end_notified = True
            self.link.reached_end()

    def count_sent(self, entry: StoredEntry, messages: int) -> None:
        """Count an entry that was sent, of which so many messages are not acknowledged."""
        self.permits -= messages
        counters = self.counters
        counters.entries_out += 1
        counters.messages_out += entry.messages
        counters.bytes_out += len(entry.data)
        counters.chunks_out += entry.chunk_of is not None

    def add_pending(self, entry: StoredEntry, messages: int) -> None:
        """Track an entry with so many unacknowledged messages."""
        self.pending[entry.offset] = entry
        self.unacked += messages
        if 0 < self.max_unacked <= self.unacked:
            self.blocked = True

    def reduce_unacked(self, messages: int) -> None:
        """Count messages that were acknowledged, or will be delivered again."""
        self.unacked -= messages
        if self.blocked and self.unacked <= self.max_unacked // 2:
            self.release()

    def release(self) -> None:
        """Unblock the consumer, and add the withheld permits."""
        self.blocked = False
        self.permits += self._withheld_permits
        self._withheld_permits = 0


NO_EPOCH: Final = -1


class DeliveryBatch:
    """Entries for one consumer, and the consumer epoch that they are sent with, or `NO_EPOCH`.

    A batch is large enough to be worth a write, and small enough to keep the peak of memory low.
    """

    __slots__ = ("_bytes", "consumer", "deliveries", "epoch")

    MOST_ENTRIES = 100
    MOST_BYTES = 1024 * 1024

    def __init__(self, consumer: Consumer, epoch: int = NO_EPOCH) -> None:
        self.consumer = consumer
        self.epoch = epoch
        self.deliveries: list[Delivery] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        """True if the batch must be sent before more entries are added."""
        return len(self.deliveries) >= self.MOST_ENTRIES or self._bytes >= self.MOST_BYTES

    def add(self, delivery: Delivery) -> None:
        """Add an entry."""
        self.deliveries.append(delivery)
        self._bytes += len(delivery.entry.data)

    def send(self, now_ms: int) -> None:
        """Deliver the entries, if there are any, and empty the batch."""
        if self.deliveries:
            self.consumer.counters.sent(now_ms)
            self.consumer.link.deliver(self.deliveries, self.epoch)
            self.deliveries = []
            self._bytes = 0


class ConsumerCounters:
    """The counters of one consumer for the statistics; times are in milliseconds since 1970."""

    __slots__ = (
        "bytes_out",
        "chunks_out",
        "connected_ms",
        "entries_out",
        "first_flow_ms",
        "first_sent_ms",
        "last_ack_ms",
        "last_flow_ms",
        "last_sent_ms",
        "messages_acked",
        "messages_out",
        "messages_redelivered",
    )

    def __init__(self, now_ms: int) -> None:
        self.connected_ms = now_ms
        self.entries_out = self.bytes_out = self.messages_out = self.messages_acked = self.messages_redelivered = (
            self.chunks_out
        ) = 0
        self.first_flow_ms = self.last_flow_ms = self.first_sent_ms = self.last_sent_ms = self.last_ack_ms = 0

    def flow_received(self, now_ms: int) -> None:
        """Count a grant of permits."""
        self.last_flow_ms = now_ms
        self.first_flow_ms = self.first_flow_ms or now_ms

    def sent(self, now_ms: int) -> None:
        """Count a delivery."""
        self.last_sent_ms = now_ms
        self.first_sent_ms = self.first_sent_ms or now_ms
