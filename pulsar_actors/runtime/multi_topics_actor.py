"""The actor of a producer, consumer or reader of several topics: partitions, a list of topics, or a pattern.

Its machine decides which members exist. The actor asks brokers about topics and partitions, has `MemberFactory` start
the members, and passes on calls to all members. Each member is an actor, with the same guardian. To notice the end of a
member, the actor adds a pending call to it that is never resolved: the call fails when the member ends.

Producers and consumers differ in their `MemberFactory`: it starts the members, and shows them to callers.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException
from pulsar_actors.machines.connection_commands import WATCHER
from pulsar_actors.machines.connection_handler_events import Close, EndAtOnce
from pulsar_actors.machines.multi_topics import MultiTopics
from pulsar_actors.machines.multi_topics_events import (
    AskMember,
    AskMembers,
    CloseMember,
    CountPartitions,
    CreateMember,
    ListTopics,
    MatchingTopicsListed,
    MemberAnswered,
    MembersDone,
    MemberWanted,
    MultiTopicsOpened,
    PartitionsCounted,
    PartitionsGrown,
    TopicListChanged,
    UpdateMembers,
    WatchTopics,
)
from pulsar_actors.machines.topic_list_watcher import TopicListWatcher
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.subscribed_topics import TopicPattern
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.client_actor import Registrations
from pulsar_actors.runtime.consumer_actor import RunAfter, ServeReceiveFutures
from pulsar_actors.runtime.future import SlimFuture, is_slim_future, settle
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.handler_actor import CloseableActor
from pulsar_actors.runtime.lookup_actor import BrokerQuery
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.messages import CloseHandle, Registration
from pulsar_actors.runtime.producer_actor import TriggerFlush
from pulsar_actors.runtime.topic_list_watcher_actor import TopicListWatcherActor, TopicListWatcherEnded, TopicsChanged
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandPartitionedTopicMetadata,
)


class TopicsListed(NamedTuple):
    """The answer to a request for the topics of the namespace, or an error."""

    discovery: int
    outcome: Any


class MemberFactory(Protocol):
    """The members of a producer or a consumer of several topics: starts them, and shows them to callers.

    Used on the loop.
    """

    def create(self, order: CreateMember) -> ActorRef:
        """Start a member, and report its `MemberOpened` and `MemberLost`."""
        ...

    def track(self, member: int, call: SlimFuture[Any]) -> None:
        """Add a pending call to a member: it fails if the member ends."""
        ...

    def remove(self, member: int) -> None:
        """Remove a member that has ended."""
        ...

    def update(self, update: UpdateMembers) -> None:
        """Show members to callers, and hide others.

        Report `MemberWanted` when a member that is created late is needed.
        """
        ...

    def partitions_grown(self, topic: str, partitions: int) -> None:
        """Pass on the new number of partitions of a topic."""
        ...

    def serve(self) -> None:
        """Give messages to the futures of `receive_async`."""
        ...

    def waited_for(self) -> Sequence[str]:
        """Return the topics whose members have to be created still, for messages that wait."""
        ...

    def close(self, error: PulsarException) -> None:
        """Refuse further calls."""
        ...

    def end(self, error: PulsarException) -> None:
        """Refuse further calls, and fail what waits for a member."""
        ...


class TopicSearch(NamedTuple):
    """The pattern of the topics, if there is one, and the kind of topics that it matches (persistent or not)."""

    pattern: TopicPattern | None = None
    mode: "CommandGetTopicsOfNamespace.Mode.ValueType" = CommandGetTopicsOfNamespace.PERSISTENT
    timeout: float = 30.0
    """The timeout of a topic list watcher's requests, in seconds."""
    new_backoff: Callable[[Loop], Backoff] = lambda loop: Backoff(loop.chance)
    """Makes the backoff of a topic list watcher."""


F = TypeVar("F", bound=MemberFactory)


class MultiTopicsActor(CloseableActor[MultiTopics], Generic[F]):
    """The actor of several topics. `new_members` makes the `MemberFactory`; it gets a callback to report events to."""

    def __init__(  # noqa: PLR0913 - what a set is made of
        self,
        registration: Registration,
        link: HandleLink,
        machine: MultiTopics,
        new_members: Callable[[Callable[[object], None]], F],
        search: TopicSearch,
        registrations: Registrations,
    ) -> None:
        super().__init__(registration, link)
        self.machine = machine
        self.members = new_members(self._report)
        self._search = search
        self._registrations = registrations
        self._addresses: dict[int, ActorRef] = {}
        self._watcher: ActorRef | None = None

    def __str__(self) -> str:
        return self.machine.what

    @property
    def name_in_errors(self) -> str:
        """The name of the handle in errors."""
        return self.machine.what

    def receive(self, message: object) -> None:
        """Take messages of callers, members, lookups and the topic list watcher."""
        match message:
            case TopicsListed(discovery, outcome):
                self.feed(
                    MatchingTopicsListed(
                        discovery, outcome if isinstance(outcome, PulsarException) else self._matching(outcome)
                    )
                )
            case TopicsChanged():
                self._topics_changed(message)
            case ServeReceiveFutures():
                self.members.serve()
            case RunAfter(seconds, end):
                self.later(seconds, lambda _: end(), None)
            case TopicListWatcherEnded() | TriggerFlush():
                pass  # the topics are listed anyway, and a producer that starts takes all messages that wait
            case AskMembers():
                self._want_members()  # a thread may have enqueued a message, and not reported yet that it waits
                self.feed(message)
            case CloseHandle():
                self.members.close(AlreadyClosed(f"{self.name_in_errors} is closed"))
                self._want_members()
                self.release(Close())
            case EndAtOnce():
                self.release(message)
            case _:
                self.feed(message)

    def abandon(self, bug: InternalError) -> None:
        """Fail everything, and close the members."""
        for address in self._addresses.values():
            tell(address, CloseHandle())
        super().abandon(bug)

    def end(self, error: PulsarException) -> None:
        """Fail the pending calls, and refuse more."""
        super().end(error)
        self.members.end(error)

    def retire(self) -> None:
        """Close the topic list watcher, too."""
        if self._watcher is not None:
            tell(self._watcher, CloseHandle())
        super().retire()

    def _want_members(self) -> None:
        for topic in self.members.waited_for():
            self.feed(MemberWanted(topic))

    def _topics_changed(self, change: TopicsChanged) -> None:
        """Look for topics again if one that matches has changed: the broker reports all of the namespace."""
        if self._pattern.sort((*change.added, *change.removed)):
            self.feed(TopicListChanged())

    def _matching(self, answer: CommandGetTopicsOfNamespaceResponse) -> dict[str, tuple[str, ...]]:
        return self._pattern.sort(answer.topics)

    @property
    def _pattern(self) -> TopicPattern:
        pattern = self._search.pattern
        assert pattern is not None  # noqa: S101 - only a pattern makes the machine ask for topics
        return pattern

    def _report(self, event: object) -> None:
        tell(self.actor_ref, event)

    # One method for each effect.

    def _list_topics(self, effect: ListTopics) -> None:
        report = self._report

        def answered(outcome: Any) -> None:  # noqa: ANN401 - an answer or an error
            report(TopicsListed(effect.discovery, outcome))

        namespace = self._pattern.namespace
        command = CommandGetTopicsOfNamespace(request_id=0, namespace=namespace, mode=self._search.mode)
        self.tell_guardian(BrokerQuery(command, answered))

    def _watch_topics(self, _: WatchTopics) -> None:
        registration = self._registrations.new(WATCHER)
        namespace = self._pattern.namespace
        machine = TopicListWatcher(
            registration.id,
            namespace,
            f"{namespace}/.*",  # the pattern is matched here, in Python's dialect of regular expressions
            backoff=self._search.new_backoff(registration.loop),
            timeout=self._search.timeout,
        )
        self._watcher = TopicListWatcherActor.start(registration, machine, self.actor_ref)

    def _count_partitions(self, effect: CountPartitions) -> None:
        discovery, topic, may_create = effect
        report = self._report

        def answered(outcome: Any) -> None:  # noqa: ANN401 - an answer or an error
            report(
                PartitionsCounted(
                    discovery, topic, outcome if isinstance(outcome, PulsarException) else outcome.partitions
                )
            )

        command = CommandPartitionedTopicMetadata(topic=topic, request_id=0, metadata_auto_creation_enabled=may_create)
        self.tell_guardian(BrokerQuery(command, answered))

    def _make_member(self, effect: CreateMember) -> None:
        self._addresses[effect.member] = self.members.create(effect)

    def _close_member(self, effect: CloseMember) -> None:
        member = effect.member
        address = self._addresses.get(member)
        if address is not None:
            tell(address, CloseHandle())
        if not self.machine.subscribed.has_member(member):
            self._addresses.pop(member, None)
            self.members.remove(member)

    def _pass_on(self, effect: AskMember) -> None:
        call, member, request = effect
        done: SlimFuture[Any] = SlimFuture()
        report = self._report

        def answered(_: object) -> None:
            error = done.exception()
            report(MemberAnswered(call, member, done.result() if error is None else error))

        done.add_done_callback(answered)
        self.members.track(member, done)
        tell(self._addresses[member], request(done))

    def _admit(self, effect: UpdateMembers) -> None:
        self.members.update(effect)

    def _grown(self, effect: PartitionsGrown) -> None:
        self.members.partitions_grown(effect.topic, effect.partitions)

    def _opened(self, effect: MultiTopicsOpened) -> None:
        settle(self.created, None)

    def _done(self, effect: MembersDone) -> None:
        assert is_slim_future(effect.token)  # noqa: S101 - the token of a call
        self.pending_calls.resolve(effect.token, effect.answers)

    PERFORMS: ClassVar = {
        **CloseableActor.PERFORMS,
        ListTopics: _list_topics,
        WatchTopics: _watch_topics,
        CountPartitions: _count_partitions,
        CreateMember: _make_member,
        CloseMember: _close_member,
        AskMember: _pass_on,
        UpdateMembers: _admit,
        PartitionsGrown: _grown,
        MultiTopicsOpened: _opened,
        MembersDone: _done,
    }
