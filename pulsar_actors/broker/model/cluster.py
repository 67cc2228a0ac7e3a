"""The whole of it: tenants, namespaces and topics, by name. Sessions and the HTTP side come in here.

    cluster = Cluster(loop)
    topic = cluster.open_topic(TopicName.parse("my-topic"))
    consumer = topic.subscribe(SubscribeRequest(...), link)
    consumer.flow(1000)
    producer = topic.add_producer(ProducerRequest(...), link)
    position = producer.publish(data, metadata, sequence_id=0, highest_sequence_id=0)  # link.deliver([...]) happens

A topic is made when somebody first asks for it, where that is allowed. A partitioned topic is no topic but a number:
how many topics there are that are called like it, with `-partition-N` after it.

Nothing here waits, and nothing is thread-safe: all of it is used on one loop.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.migrations import Migrations
from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.broker.model.ownership import Ownership
from pulsar_actors.broker.model.policies import decided
from pulsar_actors.broker.model.position import EARLIEST
from pulsar_actors.broker.model.refusal import Busy, Conflict, Missing, Refusal
from pulsar_actors.broker.model.schemas import Schemas
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.model.topic_stats import partitioned_stats
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName


class Cluster:
    """One cluster, as all of its brokers see it.

    `namespaces` is by `tenant/namespace`; public/default is there from the start. `owner_of` tells which broker serves
    a topic (None: whichever is asked); it looks into what `assign` was told, and tests may put any function there.
    """

    def __init__(self, clock: Clock, settings: Settings | None = None) -> None:
        self.clock = clock
        self.settings = settings if settings is not None else Settings()
        self.tenants: set[str] = {"public"}
        self.namespaces: dict[str, Namespace] = {"public/default": Namespace("public/default")}
        ownership = Ownership()
        self.assign = ownership.assign
        self.owner_of: Callable[[TopicName], str | None] = ownership.owner_of
        self.migrations = Migrations(clock, self.namespaces)
        self._schemas: dict[str, Schemas] = {}
        self._ledgers = count(1)
        self._producers = count(1)

    def create_tenant(self, tenant: str) -> None:
        """Make a tenant; Conflict."""
        if tenant in self.tenants:
            raise Conflict(ServerError.MetadataError, "Tenant already exist")
        self.tenants.add(tenant)

    def delete_tenant(self, tenant: str) -> None:
        """Delete it; Missing, or Busy while it has namespaces."""
        if tenant not in self.tenants:
            raise Missing(ServerError.MetadataError, "Tenant doesn't exist")
        if any(name.startswith(f"{tenant}/") for name in self.namespaces):
            raise Busy(ServerError.MetadataError, "The tenant still has active namespaces")
        self.tenants.remove(tenant)

    def create_namespace(self, name: str) -> Namespace:
        """Make `tenant/namespace`; Missing without the tenant, Conflict."""
        if name.split("/", 1)[0] not in self.tenants:
            raise Missing(ServerError.MetadataError, "Tenant doesn't exist")
        if name in self.namespaces:
            raise Conflict(ServerError.MetadataError, "Namespace already exists")
        self.namespaces[name] = Namespace(name)
        return self.namespaces[name]

    def delete_namespace(self, name: str, *, force: bool = False) -> None:
        """Delete it; Missing, or Busy while it has topics and it is not forced."""
        namespace = self.namespace(name)
        if (namespace.topics or namespace.partitioned) and not force:
            raise Busy(ServerError.MetadataError, "Cannot delete non empty namespace")
        for topic in list(namespace.topics):
            self.delete_topic(TopicName.parse(topic), force=True)
        del self.namespaces[name]

    def namespace(self, name: str) -> Namespace:
        """Give a namespace; Missing."""
        if name not in self.namespaces:
            raise Missing(ServerError.TopicNotFound, f"Namespace {name} not found")
        return self.namespaces[name]

    def find_topic(self, name: TopicName) -> Topic | None:
        """Give the topic if it exists; never makes one."""
        namespace = self.namespaces.get(name.namespace_name)
        return None if namespace is None else namespace.topics.get(str(name))

    def open_topic(self, name: TopicName, *, create: bool = True) -> Topic:
        """Give the topic, made if it may be (a partition of a partitioned topic always may); Missing otherwise."""
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
        """Give the number of partitions, 0 for a topic without; Missing if there is none and it may not be made.

        Topics that are made by themselves with partitions are made here; those without, when they are opened.
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

    def create_topic(self, name: TopicName) -> Topic:
        """Make a topic without partitions, or a missing partition; Missing without the namespace, Conflict."""
        namespace = self.namespace(name.namespace_name)
        if str(name) in namespace.topics or str(name) in namespace.partitioned:
            raise Conflict(ServerError.NotAllowedError, "This topic already exists")
        self._check_partition(namespace, name)
        topic = self._make(name)
        namespace.add([topic])
        return topic

    def create_partitioned(self, name: TopicName, partitions: int) -> None:
        """Make a partitioned topic and its partitions; Missing without the namespace, Conflict."""
        namespace = self.namespace(name.namespace_name)
        if str(name) in namespace.topics or str(name) in namespace.partitioned:
            raise Conflict(ServerError.NotAllowedError, "This topic already exists")
        if partitions < 1 or name.partition_index >= 0:
            raise Refusal(ServerError.NotAllowedError, "Number of partitions should be more than 0, of no partition")
        namespace.partitioned[str(name)] = partitions
        namespace.add([self._make(name.partition(index)) for index in range(partitions)])

    def grow(self, name: TopicName, partitions: int) -> None:
        """Give a partitioned topic more partitions, with the subscriptions that the others have; Missing, Conflict."""
        namespace = self.namespace(name.namespace_name)
        before = namespace.partitioned.get(str(name))
        if before is None:
            raise _no_topic(name)
        if partitions <= before:
            raise Conflict(ServerError.NotAllowedError, f"Number of partitions must be more than the {before} it has")
        first = namespace.topics.get(str(name.partition(0)))
        durable = [each for each in (first.subscriptions.values() if first else ()) if each.durable]
        namespace.partitioned[str(name)] = partitions
        added = [self._make(name.partition(index)) for index in range(before, partitions)]
        for topic in added:
            for subscription in durable:
                topic.create_subscription(subscription.name, at=EARLIEST, properties=dict(subscription.properties))
        namespace.add(added)

    def delete_topic(self, name: TopicName, *, force: bool = False) -> None:
        """Delete a topic; Missing, or Busy while anybody is connected and it is not forced."""
        self._delete(name, [self._topic(name)], force=force)

    def delete_partitioned(self, name: TopicName, *, force: bool = False) -> None:
        """Delete a partitioned topic and its partitions; as `delete_topic`."""
        self._delete(name, self._all_of(name), force=force)
        del self.namespace(name.namespace_name).partitioned[str(name)]

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
        """Name the topics of a namespace (partitions, not partitioned topics), sorted; of one domain or of both."""
        topics = self.namespace(namespace).topics
        return sorted(name for name, topic in topics.items() if domain is None or topic.name.domain == domain)

    def schemas_of(self, name: TopicName) -> Schemas:
        """Give the schemas of a topic (of a partition: of the partitioned topic); an empty set for an unknown one."""
        return self._schemas.setdefault(str(name.base), Schemas())

    def partitioned_stats(self, name: TopicName) -> dict[str, Any]:
        """Give what `GET …/partitioned-stats` gives; Missing."""
        stats = {str(topic.name): topic.stats() for topic in self._all_of(name)}
        return partitioned_stats(stats, self.namespace(name.namespace_name).partitioned[str(name)])

    def _may_create(self, namespace: Namespace) -> bool:
        return decided(namespace.policies.allow_auto_topic_creation, self.settings.allow_auto_topic_creation)

    def _is_beyond(self, namespace: Namespace, name: TopicName) -> bool:
        """Tell whether a partitioned topic has too few partitions for this to be one of them."""
        return 0 < namespace.partitioned.get(str(name.base), 0) <= name.partition_index

    def _check_partition(self, namespace: Namespace, name: TopicName) -> None:
        """Refuse a partition of nothing, and a partitioned topic in place of its partitions."""
        count_of_base = namespace.partitioned.get(str(name.base), 0)
        if name.partition_index < 0:
            if count_of_base:
                raise _not_allowed(f"Found partitioned metadata for non-partitioned topic: {name}")
        elif not count_of_base:
            raise _not_allowed(f"Partition metadata not found for the partitioned topic: {name}")
        elif self._is_beyond(namespace, name):
            raise _not_allowed(f"Illegal topic partition name {name} with max allowed {count_of_base} partitions")

    def _make(self, name: TopicName) -> Topic:
        return Topic(
            name,
            self.clock,
            self.settings,
            self.namespace(name.namespace_name).policies,
            self.schemas_of(name),
            next_ledger=self._ledgers.__next__,
            name_producer=lambda: f"{self.settings.cluster_name}-0-{next(self._producers)}",
        )

    def _topic(self, name: TopicName) -> Topic:
        topic = self.find_topic(name)
        if topic is None:
            raise _no_topic(name)
        return topic

    def _all_of(self, name: TopicName) -> list[Topic]:
        """Give the partitions of a partitioned topic that are there; Missing if it is none."""
        namespace = self.namespace(name.namespace_name)
        if str(name) not in namespace.partitioned:
            raise _no_topic(name)
        names = [str(name.partition(index)) for index in range(namespace.partitioned[str(name)])]
        return [namespace.topics[each] for each in names if each in namespace.topics]

    def _delete(self, name: TopicName, topics: list[Topic], *, force: bool) -> None:
        if not force and any(topic.is_in_use() for topic in topics):
            raise Busy(ServerError.NotAllowedError, "Topic has active producers/subscriptions")
        for topic in topics:
            topic.dismiss_all()
        self.namespace(name.namespace_name).remove([str(topic.name) for topic in topics])
        if name.partition_index < 0:
            self._schemas.pop(str(name), None)


def _no_topic(name: TopicName) -> Missing:
    return Missing(ServerError.TopicNotFound, f"Topic {name} not found")


def _not_allowed(reason: str) -> Refusal:
    return Refusal(ServerError.NotAllowedError, reason)
