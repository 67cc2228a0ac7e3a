"""A topic without partitions, or one partition: its entries, its producers and its subscriptions.

A persistent topic has a managed ledger, and every subscription a cursor in it. A non-persistent topic stores nothing:
each entry is offered to each subscription at once, all positions are (0, 0), and its subscriptions end with an unload.

An unload of a topic disconnects every producer and consumer. They look up the topic again, and may find it on another
broker. Stored data stays, and the next entry goes to a new ledger.

Of the entries that no durable subscription needs, a topic keeps the newest, up to `Settings.kept_bytes`, because
readers may still read them.

The first client sets the schema of a topic: the first producer, or the first consumer if no entry is stored and no
other client is connected. Clients without a schema send and receive bytes. They may connect at any time, except
producers if the namespace enforces schemas.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import EARLIEST_POSITION, LATEST_POSITION, Position, StoredEntry
from pulsar_actors.broker.model.interfaces import Address, Clock, Conflict, ConsumerLink, Missing, ProducerLink, Refusal
from pulsar_actors.broker.model.managed_ledger import ManagedLedger
from pulsar_actors.broker.model.producer import Producer, TopicProducers
from pulsar_actors.broker.model.requests import ProducerRequest, SubscribeRequest
from pulsar_actors.broker.model.schemas import SchemaData, Schemas
from pulsar_actors.broker.model.settings import Policies, Settings, policy_or_default
from pulsar_actors.broker.model.storage import IN_MEMORY, Record, State, TopicStorage
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.transaction_buffer import TransactionBuffer
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, MessageMetadata, Schema, ServerError
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId

_ORDERED_TYPES = (CommandSubscribe.SubType.Exclusive, CommandSubscribe.SubType.Failover)
_NOT_STORED: Final = Position(0, 0)
_TRIM_EVERY = 1024
_MS = 1000


class Topic:
    """A topic without partitions, or one partition; created by `Cluster.open_topic`.

    `deduplication` may be set for this topic; None: the policy of the namespace applies. A topic with a storage begins
    with what is stored there.
    """

    __slots__ = (
        "_clock",
        "_is_stored",
        "_message_deduplication",
        "_name_producer",
        "_policies",
        "_producers",
        "_record",
        "_settings",
        "_storage",
        "counters",
        "deduplication",
        "managed_ledger",
        "name",
        "properties",
        "schemas",
        "subscriptions",
        "terminated",
        "transaction_buffer",
    )

    def __init__(  # noqa: PLR0913 - each is another fact about it
        self,
        name: TopicName,
        clock: Clock,
        settings: Settings,
        policies: Policies,
        schemas: Schemas,
        properties: Mapping[str, str],
        *,
        storage: TopicStorage,
        next_ledger: Callable[[], int],
        name_producer: Callable[[], str],
    ) -> None:
        self.name = name
        self._is_stored = name.is_persistent
        self._storage = storage
        self._record = storage.record("topic", "", self._state)
        self.schemas = schemas
        self.managed_ledger = ManagedLedger(next_ledger, storage)
        self.transaction_buffer = TransactionBuffer(self.managed_ledger, storage)
        self.subscriptions: dict[str, Subscription] = {}
        now_ms = clock.wall_clock_ms()
        stored: dict[str, Any] = self._record.stored or {}
        self.terminated: bool = stored.get("terminated", False)
        self.deduplication: bool | None = stored.get("deduplication")
        self.properties: dict[str, str] = stored.get("properties", dict(properties))
        self.counters = TopicCounters(stored.get("created_ms", now_ms), now_ms)
        self._clock = clock
        self._settings = settings
        self._policies = policies
        self._name_producer = name_producer
        self._producers = TopicProducers(str(name), stored.get("epoch"), self._record.changed)
        self._message_deduplication = MessageDeduplication(self.managed_ledger, storage)
        for subscription in storage.names("subscription"):
            self.subscriptions[subscription] = self._new_subscription(subscription, 0, durable=True, properties={})
        if not stored:
            self._record.changed()

    @property
    def producers(self) -> dict[str, Producer]:
        """The connected producers by name, without those that wait."""
        return self._producers.connected

    @property
    def waiting_producers(self) -> int:
        """The number of producers that wait for the topic."""
        return len(self._producers.waiting)

    @property
    def deduplicates(self) -> bool:
        """True if duplicates are dropped."""
        of_namespace = policy_or_default(self._policies.deduplication, self._settings.deduplication)
        return policy_or_default(self.deduplication, of_namespace) and self._is_stored

    def set_deduplication(self, deduplication: bool | None) -> None:  # noqa: FBT001 - the value of a policy
        """Set whether duplicates are dropped; None: the policy of the namespace applies."""
        self.deduplication = deduplication
        self._record.changed()

    def forget(self) -> None:
        """Store nothing any longer: it is deleted."""
        self._storage.remove()

    def now_ms(self) -> int:
        """Read the clock."""
        return self._clock.wall_clock_ms()

    def add_producer(self, request: ProducerRequest, link: ProducerLink) -> Producer:
        """Connect a producer, or let it wait (`Producer.ready`); Refusal if neither is possible."""
        if self.terminated:
            raise _terminated()
        if self._policies.encryption_required and not request.encrypted:
            raise Refusal(ServerError.MetadataError, f"Encryption is required in {self.name}")
        check_producer_schema(self.schemas, request.schema, enforced=self._policies.schema_validation_enforced)
        first_subscription = request.initial_subscription
        if first_subscription and first_subscription not in self.subscriptions and not self._may_make_subscriptions():
            raise Refusal(
                ServerError.NotAllowedError,
                "Could not create the initial subscription due to the auto subscription creation is not allowed.",
            )
        producer = Producer(request, link, request.name or self._name_producer(), self.now_ms())
        self._producers.admit(producer)
        if request.schema is not None:
            producer.schema_version = self.schemas.get_or_create(request.schema, self.now_ms()).version_bytes
        producer.last_sequence_id = self._message_deduplication.last_of(producer.name) if self.deduplicates else -1
        if first_subscription and first_subscription not in self.subscriptions:
            self.create_subscription(first_subscription, at=EARLIEST_POSITION)
        return producer

    def remove_producer(self, producer: Producer) -> None:
        """Remove a producer; a second call does nothing."""
        self._producers.remove(producer)

    def disconnect_producers(self, moved_to: Address | None = None) -> None:
        """Disconnect the connected producers, but not those that wait."""
        self._producers.disconnect_connected(moved_to)

    def publish(  # noqa: PLR0913 - the facts of a SEND
        self,
        producer: Producer,
        data: bytes,
        metadata: MessageMetadata,
        *,
        sequence_id: int,
        highest_sequence_id: int,
        transaction: TransactionId | None = None,
    ) -> Position:
        """Store an entry and dispatch it, unless it is in a transaction. Return EARLIEST for a duplicate, not stored.

        Sequence ids and the transaction are those of the command. A highest id that is below the other counts as
        absent. The caller has verified the checksum.
        """
        now_ms = self._clock.wall_clock_ms()
        self._check_publish(producer, metadata, now_ms)
        if transaction is not None:
            self._check_transaction(transaction)
        entry = StoredEntry(data, metadata, producer.name, now_ms)
        self._count(producer, entry)
        if not self._is_stored:
            for subscription in self.subscriptions.values():
                subscription.deliver_unstored(entry)
            return _NOT_STORED
        if self._is_duplicate(producer, metadata, sequence_id, max(sequence_id, highest_sequence_id)):
            return EARLIEST_POSITION
        if transaction is not None:
            self.transaction_buffer.append(transaction, entry, metadata)
        else:
            self.managed_ledger.append(entry)
            for subscription in self.subscriptions.values():
                subscription.dispatch()
        if entry.offset % _TRIM_EVERY == 0:
            self._trim()
        return entry.position

    def end_transaction(self, transaction: TransactionId, *, commit: bool, low_water_mark: int) -> None:
        """Show the messages of a transaction, or hide them for ever."""
        self.transaction_buffer.end(transaction, self.now_ms(), commit=commit, low_water_mark=low_water_mark)
        for subscription in list(self.subscriptions.values()):
            subscription.dispatch()
            subscription.check_end()

    def subscribe(self, request: SubscribeRequest, link: ConsumerLink) -> Consumer:
        """Attach a consumer; Refusal if that is not possible. No entry is delivered before a `flow`."""
        existing = self.subscriptions.get(request.subscription)
        check_subscribe(request, existing, is_stored=self._is_stored, may_make=self._may_make_subscriptions())
        is_idle = not self.is_in_use() and not self.managed_ledger.size
        check_consumer_schema(self.schemas, request.schema, is_idle=is_idle, now_ms=self.now_ms())
        subscription = self._make_subscription(request) if existing is None else existing
        max_unacked = policy_or_default(
            self._policies.max_unacked_per_consumer, self._settings.max_unacked_per_consumer
        )
        consumer = Consumer(request, link, max_unacked if request.durable else 0, self.now_ms())
        try:
            subscription.attach(consumer)
        except Refusal:
            if existing is None:
                subscription.forget()
            raise
        self.subscriptions[request.subscription] = subscription
        return consumer

    def create_subscription(self, name: str, *, at: Position, properties: dict[str, str] | None = None) -> Subscription:
        """Create a durable subscription that begins at that entry, or at the next one; Conflict."""
        if name in self.subscriptions:
            raise Conflict(ServerError.ConsumerBusy, "Subscription already exists for topic")
        offset = self.managed_ledger.end if at == LATEST_POSITION else self.managed_ledger.first_from(at)
        self.subscriptions[name] = self._new_subscription(
            name, offset, durable=self._is_stored, properties=properties or {}
        )
        return self.subscriptions[name]

    def delete_subscription(self, name: str, *, force: bool = False) -> None:
        """Delete a subscription; Missing, or Busy while consumers are attached and `force` is not set."""
        if name not in self.subscriptions:
            raise Missing(ServerError.SubscriptionNotFound, f"Subscription {name} not found for topic {self.name}")
        self.subscriptions[name].delete(force=force)

    def last_position(self) -> Position:
        """Return the position of the last entry; for an empty topic, the position before the first one."""
        return self.managed_ledger.last_position

    def entry_at(self, position: Position) -> StoredEntry:
        """Return the entry of a position; Missing."""
        offset = self.managed_ledger.find(position)
        if offset is None:
            raise Missing(ServerError.TopicNotFound, "Message not found")
        return self.managed_ledger.entry(offset)

    def terminate(self) -> Position:
        """Store no more entries, and disconnect the producers. Return the last position."""
        self.terminated = True
        self._record.changed()
        self._producers.refuse_waiting(_terminated())
        self.disconnect_producers()
        for subscription in list(self.subscriptions.values()):
            subscription.check_end()
        return self.last_position()

    def unload(self, moved_to: Address | None = None) -> None:
        """Disconnect all clients, and begin a new ledger. Stored entries and durable subscriptions stay."""
        self.disconnect_all(moved_to)
        self.subscriptions = {name: each for name, each in self.subscriptions.items() if each.durable}
        self.managed_ledger.roll()
        self._message_deduplication.replay()
        self.counters = TopicCounters(self.counters.created_ms, self.now_ms())

    def disconnect_all(self, moved_to: Address | None = None) -> None:
        """Disconnect every producer and consumer."""
        self._producers.unload(Refusal(ServerError.ServiceNotReady, "Topic is temporarily unavailable"), moved_to)
        for subscription in list(self.subscriptions.values()):
            subscription.disconnect_all(moved_to)

    def is_in_use(self) -> bool:
        """Return whether any client is connected."""
        return bool(self.producers) or any(each.consumers for each in self.subscriptions.values())

    def _check_publish(self, producer: Producer, metadata: MessageMetadata, now_ms: int) -> None:
        if not producer.connected or not producer.ready:
            raise Refusal(ServerError.PersistenceError, "Producer is closed")
        if self._policies.encryption_required and not metadata.encryption_keys:
            raise Refusal(ServerError.MetadataError, "Messages must be encrypted")
        longest = self._policies.longest_delay_ms
        if self._is_stored and longest and metadata.deliver_at_time > now_ms + longest:
            raise Refusal(ServerError.NotAllowedError, f"Exceeds max allowed delivery delay of {longest} milliseconds")

    def _check_transaction(self, transaction: TransactionId) -> None:
        if not self._is_stored:
            raise Refusal(ServerError.NotAllowedError, "Non-persistent topics have no transactions")
        if not self._settings.transaction_coordinators:
            raise Refusal(ServerError.NotAllowedError, "Transactions are not enabled: this broker has no transactions")
        self.transaction_buffer.refuse_ended(transaction)

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
            return self._message_deduplication.is_duplicate(producer.name, first, last, metadata)
        self._message_deduplication.forget()
        return False

    def _trim(self) -> None:
        durable = [each.cursor.mark_delete + 1 for each in self.subscriptions.values() if each.durable]
        self.managed_ledger.trim(min([*durable, self.managed_ledger.readable_end]), self._settings.kept_bytes)

    def _may_make_subscriptions(self) -> bool:
        return policy_or_default(
            self._policies.allow_auto_subscription_creation, self._settings.allow_auto_subscription_creation
        )

    def _make_subscription(self, request: SubscribeRequest) -> Subscription:
        durable = request.durable and self._is_stored
        if request.rollback_seconds > 0:
            offset = self.managed_ledger.first_since(self.now_ms() - request.rollback_seconds * _MS)
        elif durable or request.start is None or self.managed_ledger.position(self.managed_ledger.end) < request.start:
            offset = self.managed_ledger.base if request.earliest else self.managed_ledger.end
        else:
            offset = self.managed_ledger.first_from(request.start)
        return self._new_subscription(request.subscription, offset, durable=durable, properties=request.properties)

    def _new_subscription(self, name: str, offset: int, *, durable: bool, properties: dict[str, str]) -> Subscription:
        max_unacked = policy_or_default(
            self._policies.max_unacked_per_subscription, self._settings.max_unacked_per_subscription
        )
        storage = self._storage if durable else IN_MEMORY
        return Subscription(
            name,
            self.name,
            Cursor(self.managed_ledger, offset, storage, name),
            self._clock,
            durable=durable,
            max_unacked=max_unacked,
            failover_delay=self._settings.failover_delay,
            properties=properties,
            storage=storage,
            is_terminated=lambda: self.terminated,
            delete=self._forget_subscription,
        )

    def _forget_subscription(self, subscription: Subscription) -> None:
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.forget()
            self.counters.messages_out += subscription.counters.messages_out
            self.counters.bytes_out += subscription.counters.bytes_out

    def _state(self) -> State:
        return {
            "created_ms": self.counters.created_ms,
            "terminated": self.terminated,
            "deduplication": self.deduplication,
            "properties": self.properties,
            "epoch": self._producers.epoch,
        }


@dataclass(slots=True)
class TopicCounters:
    """The counters since the topic was loaded; times are in milliseconds since 1970."""

    created_ms: int
    loaded_ms: int
    messages_in: int = 0
    bytes_in: int = 0
    chunks_in: int = 0
    messages_out: int = 0  # counts of deleted subscriptions
    bytes_out: int = 0
    last_publish_ms: int = 0


class MessageDeduplication:
    """The highest sequence id that a topic has of each producer name.

    An entry is a duplicate if its first sequence id is not above the highest one. The chunks of a message share one id,
    so only the last chunk is checked and counted. Names are removed only when deduplication is switched off.

    When the topic is loaded, the entries that were stored with deduplication are replayed, as in Pulsar: of each name
    that is in their metadata, the last entry counts, whatever came before it, and whether or not it is a last chunk.
    """

    __slots__ = ("_highest", "_managed_ledger", "_record", "_records", "_since", "_storage")

    def __init__(self, managed_ledger: ManagedLedger, storage: TopicStorage) -> None:
        self._managed_ledger = managed_ledger
        self._storage = storage
        self._record = storage.record("deduplication", "", lambda: self._since)
        self._since: int | None = self._record.stored  # the offset of the first entry that was checked
        self._highest: dict[str, int] = {}
        self._records: dict[str, Record] = {}
        for producer in storage.names("sequence id"):
            self._highest[producer] = self._record_of(producer).stored
        self.replay()

    def last_of(self, producer: str) -> int:
        """Return the highest sequence id of a name, -1 for none."""
        return self._highest.get(producer, -1)

    def is_duplicate(self, producer: str, first: int, last: int, metadata: MessageMetadata) -> bool:
        """Return whether the topic has the entry already. If not, it counts as stored from now on."""
        if self._since is None:
            self._since = self._managed_ledger.end
            self._record.changed()
        if metadata.HasField("chunk_id") and metadata.chunk_id != metadata.num_chunks_from_msg - 1:
            return False
        if first <= self.last_of(producer):
            return True
        self._put(producer, last)
        return False

    def replay(self) -> None:
        """Count the stored entries by their metadata."""
        if self._since is None:
            return
        ledger = self._managed_ledger
        for offset in range(max(self._since, ledger.base), ledger.end):
            entry = ledger.entry(offset)
            self._put(entry.producer_name, entry.highest_sequence_id)

    def forget(self) -> None:
        """Forget all names."""
        for record in self._records.values():
            record.remove()
        self._records.clear()
        self._highest.clear()
        if self._since is not None:
            self._since = None
            self._record.changed()

    def _put(self, producer: str, sequence_id: int) -> None:
        self._highest[producer] = sequence_id
        self._record_of(producer).changed()

    def _record_of(self, producer: str) -> Record:
        if producer not in self._records:
            state = partial(self.last_of, producer)
            self._records[producer] = self._storage.record("sequence id", producer, state)
        return self._records[producer]


def check_subscribe(
    request: SubscribeRequest, existing: Subscription | None, *, is_stored: bool, may_make: bool
) -> None:
    """Refuse a request that does not fit the existing subscription, or if a missing one must not be created."""
    if not request.subscription.strip():
        raise Refusal(ServerError.ProducerBusy, "Empty subscription name")
    if request.read_compacted and request.subscription_type not in _ORDERED_TYPES:
        raise Refusal(ServerError.NotAllowedError, "readCompacted only allowed on failover or exclusive subscriptions")
    if not is_stored:
        return
    if existing is not None and existing.durable != request.durable:
        durability = "Durable" if existing.durable else "NonDurable"
        raise Refusal(ServerError.NotAllowedError, f"{durability} subscription with the same name already exists.")
    if existing is None and request.durable and not may_make:
        raise Missing(ServerError.SubscriptionNotFound, "Subscription does not exist")


def check_producer_schema(schemas: Schemas, schema: SchemaData | None, *, enforced: bool) -> None:
    """Refuse a producer whose schema is not allowed. A new schema is not stored yet."""
    if schema is None:
        if enforced and schemas.versions():
            raise Refusal(
                ServerError.IncompatibleSchema,
                "Producers cannot connect or send message without a schema to topics with a schema"
                "when SchemaValidationEnforced is enabled",
            )
    elif schemas.find(schema) is None:
        schemas.check(schema)


def check_consumer_schema(schemas: Schemas, schema: SchemaData | None, *, is_idle: bool, now_ms: int) -> None:
    """Refuse a consumer whose schema is not allowed. The schema of an idle topic's first client is stored."""
    if schema is None or schema.type == Schema.Type.AutoConsume:
        return
    if schemas.versions():
        schemas.check(schema, only_reads=True)
    elif is_idle:
        schemas.get_or_create(schema, now_ms)
    else:
        raise Refusal(
            ServerError.IncompatibleSchema,
            "Failed to add schema to an active topic with empty(BYTES) schema: new schema type "
            f"{Schema.Type.Name(schema.type)}",
        )


def _terminated() -> Refusal:
    return Refusal(ServerError.TopicTerminatedError, "Topic was already terminated")
