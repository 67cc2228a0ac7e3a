"""A cluster: tenants, namespaces and topics by name. Sessions and the HTTP side use the model through it.

    cluster = Cluster(loop)
    topic = cluster.open_topic(TopicName.parse("my-topic"))
    consumer = topic.subscribe(SubscribeRequest(...), link)
    topic.subscriptions["my-subscription"].flow(consumer, 1000)
    producer = topic.add_producer(ProducerRequest(...), link)
    topic.publish(producer, data, metadata, sequence_id=0, highest_sequence_id=0)  # calls link.deliver([...])

A topic is created when a client first asks for it, if that is allowed. A partitioned topic is only a number of
partitions; each partition is a topic of its own, with `-partition-N` at the end of its name.

No method waits, and none is thread-safe: all are called on one loop.

A cluster is one process, but it may listen at several addresses and look like one broker at each. `TopicOwnership` has
the name of the broker that serves a topic, and `Migrations` the topics that move to another cluster permanently.

A cluster with a storage begins with what is stored there.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pulsar_actors.broker.model.entry import EARLIEST_POSITION
from pulsar_actors.broker.model.interfaces import Address, Busy, Clock, Conflict, Missing, Refusal
from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.broker.model.schemas import Schemas
from pulsar_actors.broker.model.settings import Settings, policy_or_default
from pulsar_actors.broker.model.stats import partitioned_stats, topic_stats
from pulsar_actors.broker.model.storage import IN_MEMORY, State, Storage
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.model.transaction_coordinator import TransactionCoordinators
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_requests import ASSIGNMENT_TOPIC

MIGRATION_CHECK_SECONDS: Final = 0.05


class Cluster:
    """One cluster, shared by all its brokers.

    `namespaces` is by `tenant/namespace`; a new cluster has public/default, and pulsar/system for system topics.
    `coordinators` are the transaction coordinators. `owner_of` returns the name of the
    broker that serves a topic (None: any); tests may replace it.
    """

    def __init__(self, clock: Clock, settings: Settings | None = None, storage: Storage = IN_MEMORY) -> None:
        self.clock = clock
        self.settings = settings if settings is not None else Settings()
        self._storage = storage
        self._record = storage.cluster.record("cluster", "", self._state)
        names = ["public/default"] if self._record.stored is None else storage.cluster.names("namespace")
        stored: dict[str, Any] = self._record.stored or {"tenants": ["public", "pulsar"], "ledgers": 0, "producers": 0}
        self.tenants: set[str] = set(stored["tenants"])
        self._last_ledger: int = stored["ledgers"]
        self._last_producer: int = stored["producers"]
        self.namespaces = {name: Namespace(name, storage.cluster) for name in dict.fromkeys([*names, "pulsar/system"])}
        self._schemas: dict[str, Schemas] = {}
        self.coordinators = TransactionCoordinators(
            self.settings.transaction_coordinators, clock, self.find_topic, storage.cluster
        )
        if len(self.coordinators):
            self.namespaces["pulsar/system"].set_partitions(str(ASSIGNMENT_TOPIC), len(self.coordinators))
        ownership = TopicOwnership()
        self.assign = ownership.assign
        self.owner_of: Callable[[TopicName], str | None] = ownership.owner_of
        self.migrations = Migrations(clock, self.namespaces)
        for name in storage.topics():
            topic = TopicName.parse(name)
            self.namespaces[topic.namespace_name].topics[name] = self._make(topic)
        self._record.changed()

    def create_tenant(self, tenant: str) -> None:
        """Create a tenant; Conflict if it exists."""
        if tenant in self.tenants:
            raise Conflict(ServerError.MetadataError, "Tenant already exist")
        self.tenants.add(tenant)
        self._record.changed()

    def delete_tenant(self, tenant: str) -> None:
        """Delete a tenant; Missing, or Busy while it has namespaces."""
        if tenant not in self.tenants:
            raise Missing(ServerError.MetadataError, "Tenant doesn't exist")
        if any(name.startswith(f"{tenant}/") for name in self.namespaces):
            raise Busy(ServerError.MetadataError, "The tenant still has active namespaces")
        self.tenants.remove(tenant)
        self._record.changed()

    def create_namespace(self, name: str) -> Namespace:
        """Create `tenant/namespace`; Missing without the tenant, Conflict if it exists."""
        if name.split("/", 1)[0] not in self.tenants:
            raise Missing(ServerError.MetadataError, "Tenant doesn't exist")
        if name in self.namespaces:
            raise Conflict(ServerError.MetadataError, "Namespace already exists")
        self.namespaces[name] = Namespace(name, self._storage.cluster)
        return self.namespaces[name]

    def delete_namespace(self, name: str, *, force: bool = False) -> None:
        """Delete a namespace; Missing, or Busy while it has topics and `force` is not set."""
        namespace = self.namespace(name)
        if (namespace.topics or namespace.partitioned) and not force:
            raise Busy(ServerError.MetadataError, "Cannot delete non empty namespace")
        for topic in list(namespace.partitioned):
            self.delete_partitioned(TopicName.parse(topic), force=True)
        for topic in list(namespace.topics):
            self.delete_topic(TopicName.parse(topic), force=True)
        del self.namespaces[name]
        namespace.forget()

    def namespace(self, name: str) -> Namespace:
        """Find a namespace; Missing if it does not exist."""
        if name not in self.namespaces:
            raise Missing(ServerError.TopicNotFound, f"Namespace {name} not found")
        return self.namespaces[name]

    def find_topic(self, name: TopicName) -> Topic | None:
        """Find a topic; None if it does not exist."""
        namespace = self.namespaces.get(name.namespace_name)
        return None if namespace is None else namespace.topics.get(str(name))

    def open_topic(self, name: TopicName, *, create: bool = True) -> Topic:
        """Find a topic, or create it if that is allowed, as it is for partitions of a partitioned topic; Missing."""
        namespace = self.namespace(name.namespace_name)
        topic = namespace.topics.get(str(name))
        if topic is None:
            if self._is_beyond(namespace, name) or (not create and str(name.base) not in namespace.partitioned):
                raise _no_topic(name)
            self._check_partition(namespace, name)
            if name.partition_index < 0 and not (create and self._may_create(namespace)):
                raise _no_topic(name)
            topic = self._make(name)
            namespace.add([topic])
        return topic

    def partitions(self, name: TopicName, *, create: bool = True) -> int:
        """Return the number of partitions, 0 for a topic without; Missing if there is no topic and none may be created.

        If topics are created automatically with partitions, they are created here. Topics without partitions are
        created when they are opened.
        """
        namespace = self.namespace(name.namespace_name)
        if str(name) in namespace.partitioned:
            return namespace.partitioned[str(name)]
        if str(name) in namespace.topics or name.partition_index >= 0:
            return 0
        if not (create and self._may_create(namespace)):
            raise _no_topic(name)
        if namespace.policies.auto_topic_partitions:
            self.create_partitioned(name, namespace.policies.auto_topic_partitions)
        return namespace.policies.auto_topic_partitions

    def create_topic(self, name: TopicName, properties: Mapping[str, str] = MappingProxyType({})) -> Topic:
        """Create a topic without partitions, or a missing partition; Missing without the namespace, Conflict."""
        namespace = self.namespace(name.namespace_name)
        if str(name) in namespace.topics or str(name) in namespace.partitioned:
            raise Conflict(ServerError.NotAllowedError, "This topic already exists")
        self._check_partition(namespace, name)
        topic = self._make(name, properties)
        namespace.add([topic])
        return topic

    def create_partitioned(self, name: TopicName, partitions: int) -> None:
        """Create a partitioned topic and its partitions; Missing without the namespace, Conflict."""
        namespace = self.namespace(name.namespace_name)
        if str(name) in namespace.topics or str(name) in namespace.partitioned:
            raise Conflict(ServerError.NotAllowedError, "This topic already exists")
        if partitions < 1 or name.partition_index >= 0:
            raise Refusal(ServerError.NotAllowedError, "Number of partitions should be more than 0, of no partition")
        namespace.set_partitions(str(name), partitions)
        namespace.add([self._make(name.partition(index)) for index in range(partitions)])

    def grow(self, name: TopicName, partitions: int) -> None:
        """Add partitions with the subscriptions that the others have; Missing, Conflict."""
        namespace = self.namespace(name.namespace_name)
        before = namespace.partitioned.get(str(name))
        if before is None:
            raise _no_topic(name)
        if partitions <= before:
            raise Conflict(ServerError.NotAllowedError, f"Number of partitions must be more than the {before} it has")
        first = namespace.topics.get(str(name.partition(0)))
        durable = [each for each in (first.subscriptions.values() if first else ()) if each.durable]
        namespace.set_partitions(str(name), partitions)
        added = [self._make(name.partition(index)) for index in range(before, partitions)]
        for topic in added:
            for subscription in durable:
                topic.create_subscription(
                    subscription.name, at=EARLIEST_POSITION, properties=dict(subscription.properties)
                )
        namespace.add(added)

    def delete_topic(self, name: TopicName, *, force: bool = False) -> None:
        """Delete a topic; Missing, or Busy while clients are connected and `force` is not set."""
        self._delete(name, [self._topic(name)], force=force)

    def delete_partitioned(self, name: TopicName, *, force: bool = False) -> None:
        """Delete a partitioned topic and its partitions, under the same conditions as a topic."""
        self._delete(name, self._all_of(name), force=force)
        self.namespace(name.namespace_name).set_partitions(str(name), 0)

    def unload(self, name: TopicName, moved_to: Address | None = None) -> None:
        """Unload a topic, or all partitions of a partitioned one; Missing."""
        is_partitioned = str(name) in self.namespace(name.namespace_name).partitioned
        for topic in self._all_of(name) if is_partitioned else [self._topic(name)]:
            topic.unload(moved_to)

    def unload_namespace(self, name: str, moved_to: Address | None = None) -> None:
        """Unload all topics of a namespace; Missing."""
        for topic in list(self.namespace(name).topics.values()):
            topic.unload(moved_to)

    def topics_of(self, namespace: str, domain: str | None = None) -> list[str]:
        """List the topics of a namespace (partitions, not partitioned topics), sorted; of one domain or of both."""
        topics = self.namespace(namespace).topics
        return sorted(name for name, topic in topics.items() if domain is None or topic.name.domain == domain)

    def schemas_of(self, name: TopicName) -> Schemas:
        """Return the schemas of a topic, or of the partitioned topic that it belongs to; none for an unknown topic."""
        base = str(name.base)
        if base not in self._schemas:
            self._schemas[base] = Schemas(storage=self._storage.cluster, topic=base)
        return self._schemas[base]

    def partitioned_stats(self, name: TopicName) -> dict[str, Any]:
        """Return the answer to `GET …/partitioned-stats`; Missing."""
        stats = {str(topic.name): topic_stats(topic) for topic in self._all_of(name)}
        return partitioned_stats(stats, self.namespace(name.namespace_name).partitioned[str(name)])

    def _may_create(self, namespace: Namespace) -> bool:
        return policy_or_default(namespace.policies.allow_auto_topic_creation, self.settings.allow_auto_topic_creation)

    def _is_beyond(self, namespace: Namespace, name: TopicName) -> bool:
        """Return whether this is a partition with a higher number than its partitioned topic has."""
        return 0 < namespace.partitioned.get(str(name.base), 0) <= name.partition_index

    def _check_partition(self, namespace: Namespace, name: TopicName) -> None:
        """Refuse a partition of no partitioned topic, and a topic with the name of a partitioned one."""
        count_of_base = namespace.partitioned.get(str(name.base), 0)
        if name.partition_index < 0:
            if count_of_base:
                raise _not_allowed(f"Found partitioned metadata for non-partitioned topic: {name}")
        elif not count_of_base:
            raise _not_allowed(f"Partition metadata not found for the partitioned topic: {name}")
        elif self._is_beyond(namespace, name):
            raise _not_allowed(f"Illegal topic partition name {name} with max allowed {count_of_base} partitions")

    def _make(self, name: TopicName, properties: Mapping[str, str] = MappingProxyType({})) -> Topic:
        return Topic(
            name,
            self.clock,
            self.settings,
            self.namespace(name.namespace_name).policies,
            self.schemas_of(name),
            properties,
            storage=self._storage.topic(str(name)) if name.is_persistent else IN_MEMORY,
            next_ledger=self._next_ledger,
            name_producer=self._name_producer,
        )

    def _next_ledger(self) -> int:
        self._last_ledger += 1
        self._record.changed()
        return self._last_ledger

    def _name_producer(self) -> str:
        self._last_producer += 1
        self._record.changed()
        return f"{self.settings.cluster_name}-0-{self._last_producer}"

    def _state(self) -> State:
        return {"tenants": sorted(self.tenants), "ledgers": self._last_ledger, "producers": self._last_producer}

    def _topic(self, name: TopicName) -> Topic:
        topic = self.find_topic(name)
        if topic is None:
            raise _no_topic(name)
        return topic

    def _all_of(self, name: TopicName) -> list[Topic]:
        """Return the existing partitions of a partitioned topic; Missing if it is not one."""
        namespace = self.namespace(name.namespace_name)
        if str(name) not in namespace.partitioned:
            raise _no_topic(name)
        names = [str(name.partition(index)) for index in range(namespace.partitioned[str(name)])]
        return [namespace.topics[each] for each in names if each in namespace.topics]

    def _delete(self, name: TopicName, topics: list[Topic], *, force: bool) -> None:
        if not force and any(topic.is_in_use() for topic in topics):
            raise Busy(ServerError.NotAllowedError, "Topic has active producers/subscriptions")
        for topic in topics:
            topic.disconnect_all()
            topic.forget()
        self.namespace(name.namespace_name).remove([str(topic.name) for topic in topics])
        if name.partition_index < 0:
            self.schemas_of(name).forget()
            del self._schemas[str(name)]


class TopicOwnership:
    """The broker that serves each topic, by prefixes of topic names."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def assign(self, prefix: str, owner: str | None) -> None:
        """Assign the topics whose complete name begins with a prefix to a broker; None: to any, the default."""
        if owner is None:
            self._owners.pop(prefix, None)
        else:
            self._owners[prefix] = owner

    def owner_of(self, name: TopicName) -> str | None:
        """Find the broker that serves a topic; the longest prefix decides. None: any."""
        text = str(name)
        fitting = [prefix for prefix in self._owners if text.startswith(prefix)]
        return self._owners[max(fitting, key=len)] if fitting else None


class Migrations:
    """The topics that move to another cluster, by prefixes of topic names.

    Producers are sent there at once. The consumers of a subscription are sent there when they have acknowledged all
    messages that are left here, because these do not move; a timer checks that. Clients that come later are sent there
    as well, unless their subscription has a backlog here.
    """

    __slots__ = ("_clock", "_namespaces", "_targets")

    def __init__(self, clock: Clock, namespaces: Mapping[str, Namespace]) -> None:
        self._clock = clock
        self._namespaces = namespaces
        self._targets: dict[str, Address] = {}

    def begin(self, prefix: str, service_url: str, service_url_tls: str = "") -> None:
        """Move the topics whose complete name begins with a prefix to another cluster."""
        first = not self._targets
        self._targets[prefix] = Address(service_url, service_url_tls, is_cluster=True)
        if first:
            self._check(None)

    def target_of(self, name: TopicName, subscription: str | None = None) -> Address | None:
        """Find the cluster that a producer, or a consumer of this subscription, must connect to; None: this one."""
        text = str(name)
        fitting = [prefix for prefix in self._targets if text.startswith(prefix)]
        if not fitting or self._has_left(text, name.namespace_name, subscription):
            return None
        return self._targets[max(fitting, key=len)]

    def _has_left(self, topic: str, namespace: str, subscription: str | None) -> bool:
        found = self._namespaces.get(namespace)
        loaded = found.topics.get(topic) if found else None
        kept = loaded.subscriptions.get(subscription) if loaded and subscription else None
        return kept is not None and kept.backlog() > 0

    def _check(self, _: None) -> None:
        for namespace in self._namespaces.values():
            for topic in list(namespace.topics.values()):
                self._disconnect_clients(topic)
        self._clock.later(MIGRATION_CHECK_SECONDS, self._check, None)

    def _disconnect_clients(self, topic: Topic) -> None:
        target = self.target_of(topic.name)
        if target is None:
            return
        topic.disconnect_producers(target)
        for subscription in list(topic.subscriptions.values()):
            if subscription.consumers and not subscription.backlog():
                subscription.disconnect_all(target)


def _no_topic(name: TopicName) -> Missing:
    return Missing(ServerError.TopicNotFound, f"Topic {name} not found")


def _not_allowed(reason: str) -> Refusal:
    return Refusal(ServerError.NotAllowedError, reason)
