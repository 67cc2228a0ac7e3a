"""The producer of a partitioned topic: a producer for each partition, and a router that chooses among them.

The number of partitions is read again for each message, because a topic may get more partitions at any time. A message
that waits for room stays with the partition that was chosen for it.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

from pulsar_actors.client.build_producer import batch_limits, new_enqueuer, new_send_queue, start_single_producer
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.enqueuer import MESSAGES_AT_ONCE, Enqueuer, SendQueueEnqueuer, Share
from pulsar_actors.client.enums import HashingScheme, PartitionsRoutingMode, ProducerAccessMode
from pulsar_actors.client.message import Message, new_messages
from pulsar_actors.client.multi_topics_common import ReportToSet, new_multi_topics_actor, report_lifecycle
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_state import ProducerState, SendingState
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.multi_topics import MultiTopics
from pulsar_actors.machines.multi_topics_events import (
    AskMembers,
    CreateMember,
    MemberWanted,
    MultiTopicsSettings,
    UpdateMembers,
)
from pulsar_actors.machines.trackers import message_routing
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.message_routing import CustomRouting, RoundRobin, SinglePartition
from pulsar_actors.machines.trackers.pending_messages import pending_limit
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, copy_error
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.message_crypto import ProducerKeys
from pulsar_actors.runtime.multi_topics_actor import TopicSearch
from pulsar_actors.runtime.producer_actor import FlushAll, TriggerFlush
from pulsar_actors.runtime.schema_versions import SchemaVersions
from pulsar_actors.runtime.send_queue import MessageHeader, SendQueue
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.topic_name import TopicName


class ProducerMembers:
    """The producers of the partitions. The actor calls the methods on its loop; callers read the public attributes.

    `partitions` has the enqueuer of each partition, and only grows: a new partition is added when it and all before it
    have a producer. A partition whose producer has ended keeps its enqueuer, which refuses messages.

    With `lazy_start_partitioned_producers`, each partition has an enqueuer from the start. The first message for a
    partition without a producer waits in the partition's queue, and the actor is told to create the producer. If the
    producer cannot be created, the messages in that queue fail, and the partition gets a new queue: the next message
    tries again.
    """

    __slots__ = (
        "_context",
        "_enqueuers",
        "_initial_subscription",
        "_keys",
        "_members",
        "_not_yet_shown",
        "_options",
        "_report",
        "_shared_among",
        "closed",
        "interceptors",
        "partitions",
        "producers",
    )  # fmt: skip

    def __init__(
        self,
        context: ClientContext,
        options: ProducerOptions,
        initial_subscription: str,
        interceptors: ProducerInterceptors | None,
        report: ReportToSet,
        keys: ProducerKeys | None = None,
    ) -> None:
        self._keys = keys
        self.closed: Exception | None = None
        self.partitions: list[SendQueueEnqueuer] = []
        self.producers: dict[str, ProducerState] = {}  # the producers of partitions that callers see, by topic
        self.interceptors = interceptors
        self._context = context
        self._options = options.replace(interceptors=())
        self._initial_subscription = initial_subscription
        self._report = report
        self._members: dict[int, ProducerState] = {}
        self._enqueuers: dict[str, SendQueueEnqueuer] = {}  # by topic
        self._shared_among = 0  # the partitions that share the limit
        self._not_yet_shown: dict[int, SendQueueEnqueuer] = {}  # by partition: those after one that has no producer yet

    def create(self, order: CreateMember) -> ActorRef:
        """Start the producer of a partition."""
        member, topic, name, among, *_ = order
        self._share_limit(among)
        waiting = self._enqueuers.get(topic)
        first, options = self._initial_subscription, self._options_of(topic, among)
        state = start_single_producer(self._context, options, first, name=name, waiting=waiting, keys=self._keys)
        self._members[member] = state
        if waiting is not None:
            self.producers[topic] = state
        report_lifecycle(state, member, self._report, lambda: state.machine.identity.name)
        tell(state.address, TriggerFlush())  # takes messages that were enqueued before
        return state.address

    def track(self, member: int, call: SlimFuture[Any]) -> None:
        """Add a pending call to a producer: it fails if the producer ends."""
        self._members[member].link.pending_calls.track(call)

    def remove(self, member: int) -> None:
        """Remove a producer that has ended. If it was never created, its partition gets a new queue."""
        state = self._members.pop(member, None)
        if state is None or state.link.created.exception() is None:
            return
        topic = state.send_callbacks.topic
        if self._enqueuers.get(topic) is state.enqueuer:
            self.producers.pop(topic, None)
            self._show(topic, self._new_lazy_enqueuer(topic, len(self._enqueuers)))

    def update(self, update: UpdateMembers) -> None:
        """Show the producers to callers. Partitions without a producer get an enqueuer, if the start is lazy."""
        for topic, member in update.members.items():
            self.producers[topic] = state = self._members[member]
            self._show(topic, state.enqueuer)
        uncreated = [topic for topic in update.uncreated if topic not in self._enqueuers]
        among = len(self._enqueuers) + len(uncreated)
        for topic in uncreated:
            self._show(topic, self._new_lazy_enqueuer(topic, among))
        self._share_limit(among)

    def partitions_grown(self, topic: str, partitions: int) -> None:
        """Call the interceptors with the new number of partitions."""
        if self.interceptors is not None:
            self.interceptors.partitions_changed(topic, partitions)

    def serve(self) -> None:
        """Do nothing: only consumers have futures to serve."""

    def waited_for(self) -> Sequence[str]:
        """Return the partitions whose messages wait for a producer."""
        queues = self._uncreated_queues()
        return [topic for topic, queue in queues.items() if queue.buffer or queue.pending.held]

    def close(self, error: PulsarException) -> None:
        """Refuse messages."""
        if self.closed is None:
            self.closed = error
        for queue in self._uncreated_queues().values():
            queue.close(error)

    def end(self, error: PulsarException) -> None:
        """Refuse messages, and fail those that wait for a producer that will never be created."""
        if self.closed is None:
            self.closed = error
        for queue in self._uncreated_queues().values():
            queue.end(error)

    def forget(self, error: Exception) -> None:
        """Refuse messages, in a forked child."""
        self.closed = error
        for enqueuer in self._enqueuers.values():
            enqueuer.send_queue.forget(error)

    def _show(self, topic: str, enqueuer: SendQueueEnqueuer) -> None:
        """Set the enqueuer of a partition. Callers see all partitions before the first one without an enqueuer."""
        shown, partition = self.partitions, enqueuer.send_callbacks.partition
        self._enqueuers[topic] = enqueuer
        if partition < len(shown):
            shown[partition] = enqueuer
            return
        self._not_yet_shown[partition] = enqueuer
        while len(shown) in self._not_yet_shown:
            shown.append(self._not_yet_shown.pop(len(shown)))

    def _share_limit(self, among: int) -> None:
        """Give each partition its share of the limit across partitions, which becomes less when there are more.

        Callers do not see all of them yet.
        """
        if among <= self._shared_among:
            return
        self._shared_among, limit = among, self._limit_among(among)
        created = [state.enqueuer for state in self._members.values()]
        for enqueuer in (*self._enqueuers.values(), *created):
            enqueuer.send_queue.limit_to(limit)

    def _uncreated_queues(self) -> dict[str, SendQueue]:
        """Return the queues of partitions without a producer, by topic."""
        created = {state.send_callbacks.topic for state in self._members.values()}
        return {topic: one.send_queue for topic, one in self._enqueuers.items() if topic not in created}

    def _new_lazy_enqueuer(self, topic: str, among: int) -> SendQueueEnqueuer:
        options = self._options_of(topic, among)
        send_queue, callbacks = new_send_queue(self._context, options)
        if self.closed is not None:
            send_queue.end(self.closed)
        report, wanted = self._report, MemberWanted(topic)
        return new_enqueuer(self._context, options, send_queue, callbacks, lambda _: report(wanted))

    def _options_of(self, topic: str, among: int) -> ProducerOptions:
        return self._options.replace(topic=topic, max_pending_messages=self._limit_among(among))

    def _limit_among(self, partitions: int) -> int:
        options = self._options
        return pending_limit(options.max_pending_messages, options.max_pending_messages_across_partitions, partitions)


RouteMessage: TypeAlias = Callable[[bytes, object, int], int]
"""Returns the partition of a message, from its payload, its tag and the number of partitions."""

RouteRun: TypeAlias = Callable[[Sequence[int], int], tuple[int, int]]
"""Returns a partition, and the number of the next messages without a key that go there.

The arguments are the sizes of these messages, and the number of partitions.
"""


class Router(NamedTuple):
    """Chooses partitions: of one message, or of many that have no key, unless the user chooses."""

    route: RouteMessage
    route_run: RouteRun | None


_NO_METADATA = SingleMessageMetadata()
_HASHING_SCHEMES = {
    HashingScheme.Murmur3_32Hash: message_routing.HashName.MURMUR3_32,
    HashingScheme.BoostHash: message_routing.HashName.BOOST,
    HashingScheme.JavaStringHash: message_routing.HashName.JAVA_STRING,
}


class UnsentEntry:
    """A substitute for the entry of a message that is not sent yet: a user's router gets a normal `Message`."""

    __slots__ = (
        "broker_metadata", "data_key", "generation", "is_undecryptable", "message_id", "metadata", "redelivery_count",
        "schemas", "size", "topic",
    )  # fmt: skip

    def __init__(self, topic: str) -> None:
        self.schemas: SchemaVersions | None = None
        self.topic = topic
        self.message_id = MessageId(-1, -1)
        self.metadata = MessageMetadata()
        self.broker_metadata: BrokerEntryMetadata | None = None
        self.redelivery_count = 0
        self.size = 0
        self.generation = Generation()
        self.data_key = None
        self.is_undecryptable = False

    def decode(self, message: Message) -> object:
        """Return the payload, because there is no consumer with a schema."""
        return message.data()


def new_router(options: ProducerOptions, chance: Callable[[], float], now: Callable[[], float], topic: str) -> Router:
    """Make the router for these options. A user's own router also decides for messages with a key."""
    if options.message_router is not None:
        return Router(_custom_router(options.message_router, topic), None)
    key_hash = key_hash_of(options.hashing_scheme)
    routing: SinglePartition | RoundRobin
    if options.message_routing_mode is PartitionsRoutingMode.UseSinglePartition:
        routing = SinglePartition(key_hash, chance)
    else:
        routing = RoundRobin(key_hash, chance, batch_limits(options))
    route, route_run = routing.route, routing.route_run

    def choose(payload: bytes, tag: object, partitions: int) -> int:
        key = tag.partition_key if type(tag) is MessageHeader else None
        return route(key, len(payload), partitions, now())

    def choose_run(sizes: Sequence[int], partitions: int) -> tuple[int, int]:
        return route_run(sizes, partitions, now())

    return Router(choose, choose_run)


def key_hash_of(scheme: HashingScheme) -> Callable[[str], int]:
    """Return the hash function of a scheme."""
    return message_routing.HASHES[_HASHING_SCHEMES[scheme]]


def _custom_router(choose: Callable[[Message, int], int], topic: str) -> RouteMessage:
    routing = CustomRouting(choose)
    unsent = UnsentEntry(topic)

    def ask(payload: bytes, tag: object, partitions: int) -> int:
        metadata = tag.metadata if type(tag) is MessageHeader else _NO_METADATA
        (message,) = new_messages([metadata], [payload], unsent, [-1])
        return routing.route(message, partitions)

    return ask


class PartitionEnqueuer(Enqueuer):
    """The enqueuer of a partitioned producer: it routes each message to the enqueuer of a partition."""

    __slots__ = ("_end_types", "_producers", "_route", "_route_run")

    def __init__(self, producers: ProducerMembers, router: Router) -> None:
        self._producers = producers
        self._route, self._route_run = router
        self._end_types: set[type[Exception]] = set()  # the types of the errors with which partitions have ended

    @property
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""
        return self._producers.closed

    def has_ended_by(self, error: Exception) -> bool:
        """Return True if the error is the end of the producer, or of one of its partitions."""
        return type(error) is type(self.closed) or type(error) in self._end_types

    def enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message for its partition. Waits for room if `block_if_queue_full` is set."""
        producers = self._producers  # as `enqueuer_for`, without its call
        if producers.closed is not None:
            raise copy_error(producers.closed)
        partitions = producers.partitions
        enqueuer = partitions[self._route(payload, tag, len(partitions))]
        try:
            enqueuer.enqueue(payload, tag)
        except PulsarException as error:
            if enqueuer.has_ended_by(error):
                self._end_types.add(type(error))
            raise

    def enqueue_and_flush(self, payload: bytes, tag: object, awaited: "Future[Any]") -> None:
        """Enqueue a message whose caller is about to wait, and send it at once."""
        self.enqueuer_for(payload, tag).enqueue_and_flush(payload, tag, awaited)

    def try_enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message without ever waiting."""
        self.enqueuer_for(payload, tag).try_enqueue(payload, tag)

    def shares(self, payloads: Sequence[bytes], tags: Sequence[object]) -> list[Share]:
        """Divide messages among the partitions. Messages without a key go there in runs, a batch at a time."""
        producers, route_run = self._producers, self._route_run
        if producers.closed is not None:
            raise copy_error(producers.closed)
        partitions, count = producers.partitions, len(producers.partitions)
        if route_run is None or MessageHeader in map(type, tags):
            routes = [self._route(payload, tag, count) for payload, tag in zip(payloads, tags, strict=True)]
            return [
                Share(partitions[route], [payloads[at] for at in positions], [tags[at] for at in positions])
                for route, positions in _by_partition(routes)
            ]
        sizes, shares, start = list(map(len, payloads)), list[Share](), 0
        while start < len(payloads):
            route, run = route_run(sizes[start : start + MESSAGES_AT_ONCE], count)
            stop = start + run
            shares.append(Share(partitions[route], payloads[start:stop], tags[start:stop]))
            start = stop
        return shares

    def enqueuer_for(self, payload: bytes, tag: object) -> SendQueueEnqueuer:
        """Choose the partition of a message, and return its enqueuer."""
        producers = self._producers
        if producers.closed is not None:
            raise copy_error(producers.closed)
        partitions = producers.partitions
        return partitions[self._route(payload, tag, len(partitions))]


def _by_partition(routes: Sequence[int]) -> Iterable[tuple[int, list[int]]]:
    """Group the positions of messages by partition, up to `MESSAGES_AT_ONCE` in a row: a full queue holds up others."""
    for start in range(0, len(routes), MESSAGES_AT_ONCE):
        positions: dict[int, list[int]] = {}
        for at, route in enumerate(routes[start : start + MESSAGES_AT_ONCE], start):
            positions.setdefault(route, []).append(at)
        yield from positions.items()


class PartitionedProducerState(SendingState[MultiTopics]):
    """The state of a partitioned producer. Its `send_callbacks` fail messages that no partition has taken."""

    __slots__ = ("producers",)

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        machine: MultiTopics,
        address: ActorRef,
        enqueuer: PartitionEnqueuer,
        send_callbacks: SendCallbacks,
        producers: ProducerMembers,
    ) -> None:
        super().__init__(engine, link, machine, address, enqueuer, send_callbacks, producers.interceptors)
        self.producers = producers

    @property
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""
        return self.producers.closed

    def end(self, error: PulsarException) -> None:
        """Refuse calls from now on. The producers of the partitions are ended separately."""
        self.producers.end(error)
        super().end(error)

    def members(self) -> list[ProducerState]:
        """Return the state of each partition that has a producer."""
        return list(self.producers.producers.values())

    def forget(self, error: Exception) -> None:
        """Refuse calls, in a forked child."""
        self.producers.forget(error)
        super().forget(error)


class PartitionedProducer(Producer):
    """The producer of a partitioned topic, with a producer for each partition."""

    def __init__(self, state: PartitionedProducerState, options: ProducerOptions, client: object) -> None:
        super().__init__(state, options, client)
        self._multi_state = state

    def producer_name(self) -> str:
        """Return the name that was given, or that the broker chose. The producers of all partitions have this name."""
        return self._options.producer_name or self._multi_state.machine.name

    def last_sequence_id(self) -> int:
        """Return the highest sequence id of a stored message, on any partition; -1 if there is none."""
        return max((state.machine.sequence_ids.last_published for state in self._state.members()), default=-1)

    def is_connected(self) -> bool:
        """Return whether the producers of all partitions, or of those started, are registered with brokers now."""
        return self.is_open and all(state.machine.is_bound for state in self._state.members())

    def _flush_request(self, done: SlimFuture[None]) -> object:
        return AskMembers(done, request=FlushAll)


def start_partitioned_producer(
    context: ClientContext,
    options: ProducerOptions,
    partitions: int,
    initial_subscription: str = "",
    keys: ProducerKeys | None = None,
) -> PartitionedProducerState:
    """Start the producer of a topic with so many partitions."""
    engine, topic = context.engine, str(TopicName.parse(options.topic))
    router = new_router(options, engine.loops[0].chance, engine.loops[0].now, topic)
    is_lazy = options.lazy_start_partitioned_producers and options.access_mode is ProducerAccessMode.Shared
    first = None
    if is_lazy or not options.producer_name:  # the others get the name that a broker chooses for the first
        first = 0 if options.message_router is not None else router.route(b"", None, partitions)
    settings = MultiTopicsSettings(
        what=f"the producer on {topic}",
        topics={topic: partitions},
        look_again=context.partitions_update_interval,
        first=first,
        lazy=is_lazy,
    )
    send_callbacks, interceptors = SendCallbacks(topic, -1, engine.loops[0].now), None
    if options.interceptors:
        interceptors = ProducerInterceptors(options.interceptors, send_callbacks, engine.workers[0])
    new_members = partial(ProducerMembers, context, options, initial_subscription, interceptors, keys=keys)
    link = HandleLink(engine.interleaving)
    actor = new_multi_topics_actor(context, link, settings, new_members, TopicSearch())
    producers = actor.members
    enqueuer = PartitionEnqueuer(producers, router)
    state = PartitionedProducerState(engine, link, actor.machine, actor.actor_ref, enqueuer, send_callbacks, producers)
    context.start(actor, state)
    return state
