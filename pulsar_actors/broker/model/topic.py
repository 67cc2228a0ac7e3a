"""A topic that is no partitioned one: its entries, its producers and its subscriptions.

A persistent topic has a log, and every subscription a cursor in it. A non-persistent one stores nothing: each entry is
offered to each subscription at once, all positions are (0, 0), and its subscriptions do not outlive an unload.

To unload a topic is to let everybody go, who then look it up again, perhaps elsewhere. What a broker would have stored
stays; the next entry goes to a new ledger.

Of the entries that no durable subscription needs, a topic keeps the newest, up to a limit in bytes (`Settings`):
readers may still come for them.
"""

from collections.abc import Callable
from typing import Any, Final

from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.deduplication import Deduplication
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.links import Address, ConsumerLink, ProducerLink
from pulsar_actors.broker.model.log import Log
from pulsar_actors.broker.model.policies import Policies, decided
from pulsar_actors.broker.model.position import EARLIEST, LATEST, Position
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.producer_stats import producer_stats
from pulsar_actors.broker.model.producers import Producers
from pulsar_actors.broker.model.refusal import Conflict, Missing, Refusal
from pulsar_actors.broker.model.requests import ProducerRequest, SubscribeRequest
from pulsar_actors.broker.model.schema_rules import check_of_consumer, check_of_producer
from pulsar_actors.broker.model.schemas import Schemas
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.model.subscribe_rules import check_subscribe
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic_counters import TopicCounters
from pulsar_actors.broker.model.topic_stats import internal_stats, topic_stats
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata, ServerError
from pulsar_actors.wire.topic_name import TopicName

_NOT_STORED: Final = Position(0, 0)
_TRIM_EVERY = 1024
_MS = 1000


class Topic:
    """One topic: alone, or a partition. Made by `Cluster.open_topic`.

    `deduplication` may be set to decide it for this topic; None: as the namespace says.
    """

    __slots__ = (
        "_clock",
        "_deduplicated",
        "_is_stored",
        "_name_producer",
        "_policies",
        "_producers",
        "_settings",
        "counters",
        "deduplication",
        "log",
        "name",
        "properties",
        "schemas",
        "subscriptions",
        "terminated",
    )

    def __init__(  # noqa: PLR0913 - each is another fact about it
        self,
        name: TopicName,
        clock: Clock,
        settings: Settings,
        policies: Policies,
        schemas: Schemas,
        *,
        next_ledger: Callable[[], int],
        name_producer: Callable[[], str],
    ) -> None:
        self.name = name
        self._is_stored = name.is_persistent
        self.schemas = schemas
        self.log = Log(next_ledger)
        self.subscriptions: dict[str, Subscription] = {}
        self.terminated = False
        self.deduplication: bool | None = None
        self.properties: dict[str, str] = {}
        self.counters = TopicCounters(clock.wall_clock_ms(), clock.wall_clock_ms())
        self._clock = clock
        self._settings = settings
        self._policies = policies
        self._name_producer = name_producer
        self._producers = Producers(str(name))
        self._deduplicated = Deduplication()

    @property
    def producers(self) -> dict[str, Producer]:
        """Those that are connected, by name; not those that wait."""
        return self._producers.connected

    @property
    def waiting_producers(self) -> int:
        """How many producers wait for the topic."""
        return len(self._producers.waiting)

    @property
    def deduplicates(self) -> bool:
        """Whether duplicates are dropped."""
        of_namespace = decided(self._policies.deduplication, self._settings.deduplication)
        return decided(self.deduplication, of_namespace) and self._is_stored

    def now_ms(self) -> int:
        """Read the clock."""
        return self._clock.wall_clock_ms()

    def add_producer(self, request: ProducerRequest, link: ProducerLink) -> Producer:
        """Connect a producer, or put it in the queue (`Producer.ready`); Refusal says why not."""
        if self.terminated:
            raise _terminated()
        if self._policies.encryption_required and not request.encrypted:
            raise Refusal(ServerError.MetadataError, f"Encryption is required in {self.name}")
        check_of_producer(self.schemas, request.schema, enforced=self._policies.schema_validation_enforced)
        first_subscription = request.initial_subscription
        if first_subscription and first_subscription not in self.subscriptions and not self._may_make_subscriptions():
            raise Refusal(
                ServerError.NotAllowedError,
                "Could not create the initial subscription due to the auto subscription creation is not allowed.",
            )
        producer = Producer(request, link, self, request.name or self._name_producer(), self.now_ms())
        self._producers.admit(producer)
        if request.schema is not None:
            producer.schema_version = self.schemas.get_or_create(request.schema, self.now_ms()).version_bytes
        producer.last_sequence_id = self._deduplicated.last_of(producer.name) if self.deduplicates else -1
        if first_subscription and first_subscription not in self.subscriptions:
            self.create_subscription(first_subscription, at=EARLIEST)
        return producer

    def remove_producer(self, producer: Producer) -> None:
        """Let a producer go."""
        self._producers.remove(producer)

    def stats(self) -> dict[str, Any]:
        """Give what `GET …/stats` gives."""
        return topic_stats(self)

    def internal_stats(self) -> dict[str, Any]:
        """Give what `GET …/internalStats` gives."""
        return internal_stats(self)

    def stats_of(self, producer: Producer) -> dict[str, Any]:
        """Give the statistics of one producer."""
        return producer_stats(producer, self.now_ms())

    def store(
        self, producer: Producer, data: bytes, metadata: MessageMetadata, first_sequence: int, last_sequence: int
    ) -> Position:
        """Store an entry and dispatch it; EARLIEST if the topic has it already."""
        if not producer.connected or not producer.ready:
            raise Refusal(ServerError.PersistenceError, "Producer is closed")
        if self._policies.encryption_required and not metadata.encryption_keys:
            raise Refusal(ServerError.MetadataError, "Messages must be encrypted")
        now_ms = self._clock.wall_clock_ms()
        longest = self._policies.longest_delay_ms
        if self._is_stored and longest and metadata.deliver_at_time > now_ms + longest:
            raise Refusal(ServerError.NotAllowedError, f"Exceeds max allowed delivery delay of {longest} milliseconds")
        entry = StoredEntry(data, metadata, producer.name, now_ms)
        self._count(producer, entry)
        if not self._is_stored:
            for subscription in self.subscriptions.values():
                subscription.pass_on(entry)
            return _NOT_STORED
        if self._is_duplicate(producer, metadata, first_sequence, last_sequence):
            return EARLIEST
        self.log.append(entry)
        for subscription in self.subscriptions.values():
            subscription.dispatch()
        if entry.offset % _TRIM_EVERY == 0:
            self._trim()
        return entry.position

    def subscribe(self, request: SubscribeRequest, link: ConsumerLink) -> Consumer:
        """Attach a consumer; Refusal says why not. What is there is only delivered after a `flow`."""
        there = self.subscriptions.get(request.subscription)
        check_subscribe(request, there, is_stored=self._is_stored, may_make=self._may_make_subscriptions())
        is_idle = not self.is_in_use() and not self.log.size
        check_of_consumer(self.schemas, request.schema, is_idle=is_idle, now_ms=self.now_ms())
        subscription = self._make_subscription(request) if there is None else there
        most_unacked = decided(self._policies.max_unacked_per_consumer, self._settings.max_unacked_per_consumer)
        consumer = Consumer(request, link, subscription, most_unacked if request.durable else 0, self.now_ms())
        subscription.attach(consumer)
        self.subscriptions[request.subscription] = subscription
        return consumer

    def create_subscription(self, name: str, *, at: Position, properties: dict[str, str] | None = None) -> Subscription:
        """Make a durable subscription without a consumer, which begins with that entry or the next one; Conflict."""
        if name in self.subscriptions:
            raise Conflict(ServerError.ConsumerBusy, "Subscription already exists for topic")
        offset = self.log.end if at == LATEST else self.log.first_from(at)
        self.subscriptions[name] = self._new_subscription(
            name, offset, durable=self._is_stored, properties=properties or {}
        )
        return self.subscriptions[name]

    def delete_subscription(self, name: str, *, force: bool = False) -> None:
        """Delete it; Missing, or Busy while consumers are attached and it is not forced."""
        if name not in self.subscriptions:
            raise Missing(ServerError.SubscriptionNotFound, f"Subscription {name} not found for topic {self.name}")
        self.subscriptions[name].delete(force=force)

    def last_position(self) -> Position:
        """Give the position of the last entry; of an empty topic the one before its first."""
        return self.log.last_position

    def entry_at(self, position: Position) -> StoredEntry:
        """Give an entry; Missing."""
        offset = self.log.find(position)
        if offset is None:
            raise Missing(ServerError.TopicNotFound, "Message not found")
        return self.log.entry(offset)

    def terminate(self) -> Position:
        """Take no more entries, and let the producers go: coming back they learn why. Gives the last position."""
        self.terminated = True
        self._producers.dismiss_waiting(_terminated())
        self._producers.dismiss_connected()
        for subscription in list(self.subscriptions.values()):
            subscription.check_end()
        return self.last_position()

    def unload(self, moved_to: Address | None = None) -> None:
        """Let every producer and consumer go; the topic's next entry is in a new ledger. Durable things stay."""
        self.dismiss_all(moved_to)
        self.subscriptions = {name: each for name, each in self.subscriptions.items() if each.durable}
        self.log.roll()
        self.counters = TopicCounters(self.counters.created_ms, self.now_ms())

    def dismiss_all(self, moved_to: Address | None = None) -> None:
        """Let every producer and consumer go, and tell them."""
        self._producers.dismiss_waiting(Refusal(ServerError.ServiceNotReady, "Topic is temporarily unavailable"))
        self._producers.dismiss_connected(moved_to)
        for subscription in list(self.subscriptions.values()):
            subscription.dismiss_all(moved_to)

    def is_in_use(self) -> bool:
        """Tell whether anybody is connected."""
        return bool(self.producers) or any(each.consumers for each in self.subscriptions.values())

    def _count(self, producer: Producer, entry: StoredEntry) -> None:
        counters, size = self.counters, len(entry.data)
        counters.messages_in += entry.messages
        counters.bytes_in += size
        counters.last_publish_ms = entry.broker_timestamp
        producer.messages_in += entry.messages
        producer.bytes_in += size
        if entry.chunk_of is not None:
            counters.chunks_in += 1
            producer.chunks_in += 1

    def _is_duplicate(self, producer: Producer, metadata: MessageMetadata, first: int, last: int) -> bool:
        if self.deduplicates:
            return self._deduplicated.is_duplicate(producer.name, first, last, metadata)
        self._deduplicated.forget()
        return False

    def _trim(self) -> None:
        durable = [each.cursor.mark + 1 for each in self.subscriptions.values() if each.durable]
        self.log.trim(min([*durable, self.log.end]), self._settings.kept_bytes)

    def _may_make_subscriptions(self) -> bool:
        return decided(self._policies.allow_auto_subscription_creation, self._settings.allow_auto_subscription_creation)

    def _make_subscription(self, request: SubscribeRequest) -> Subscription:
        durable = request.durable and self._is_stored
        if request.rollback_seconds > 0:
            offset = self.log.first_since(self.now_ms() - request.rollback_seconds * _MS)
        elif durable or request.start is None or self.log.position(self.log.end) < request.start:
            offset = self.log.base if request.earliest else self.log.end
        else:
            offset = self.log.first_from(request.start)
        return self._new_subscription(request.subscription, offset, durable=durable, properties=request.properties)

    def _new_subscription(self, name: str, offset: int, *, durable: bool, properties: dict[str, str]) -> Subscription:
        most_unacked = decided(self._policies.max_unacked_per_subscription, self._settings.max_unacked_per_subscription)
        return Subscription(
            name,
            self.name,
            Cursor(self.log, offset),
            self._clock,
            durable=durable,
            most_unacked=most_unacked,
            failover_delay=self._settings.failover_delay,
            properties=properties,
            is_over=lambda: self.terminated,
            delete=self._forget_subscription,
        )

    def _forget_subscription(self, subscription: Subscription) -> None:
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            self.counters.messages_out += subscription.counters.messages_out
            self.counters.bytes_out += subscription.counters.bytes_out


def _terminated() -> Refusal:
    return Refusal(ServerError.TopicTerminatedError, "Topic was already terminated")
