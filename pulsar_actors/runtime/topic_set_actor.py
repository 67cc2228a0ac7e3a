"""The actor of a topic set: a partitioned, multi-topic or pattern producer, consumer or reader.

Its machine decides which members there are. This asks the lookups what it wants to know, has a crew make the members,
and passes on what is meant for all of them. Members are actors of their own, with the same guardian; they are made by
it, so it takes a moment until their address is known, and what they are to be told waits for it here. A member that
ends is noticed by a debt: one that it never pays, and that ends with it.

The crew is what producers and consumers differ in: what members are made of, and how callers get at them.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException
from pulsar_actors.machines.binding_events import Close, EndAtOnce
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern
from pulsar_actors.machines.topic_set import TopicSet
from pulsar_actors.machines.topic_set_events import (
    Admit,
    CloseMember,
    Counted,
    CountPartitions,
    Done,
    Grown,
    Listed,
    ListTopics,
    MakeMember,
    MemberAnswered,
    MemberLost,
    PassOn,
    SetOpened,
    Stirred,
    WatchTopics,
)
from pulsar_actors.machines.topic_watch import TopicWatch
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import CloseHandle, Place
from pulsar_actors.runtime.client_actor import Admit as AdmitToClient
from pulsar_actors.runtime.consumer_actor import After, Serve
from pulsar_actors.runtime.future import SlimFuture, is_promise, settle
from pulsar_actors.runtime.held_actor import HeldActor
from pulsar_actors.runtime.lookup_actor import Question
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import WATCHER
from pulsar_actors.runtime.producer_actor import TakeAll
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.runtime.watch_actor import TopicsChanged, WatchActor, WatchEnded
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandPartitionedTopicMetadata,
)


class WatchMade(NamedTuple):
    """A watch of the namespace has been made, and has this address."""

    address: Address


class TopicsListed(NamedTuple):
    """A broker has listed the topics of the namespace, or an error says why not."""

    survey: int
    outcome: Any


class Placed(NamedTuple):
    """A member has been made, and has this address."""

    member: int
    address: Address


class Crew(Protocol):
    """What makes the members of a set, and shows them to callers. Used on the set's loop."""

    def make(self, order: MakeMember, report: Callable[[object], None]) -> None:
        """Begin to make a member; `report` takes Placed, MemberOpened and MemberLost, from any thread."""
        ...

    def owe(self, member: int, call: SlimFuture[Any]) -> None:
        """Have the member owe the end of a call."""
        ...

    def lose(self, member: int, report: Callable[[object], None], /) -> None:
        """Let go of a member that has ended."""
        ...

    def admit(self, admission: Admit, report: Callable[[object], None], /) -> None:
        """Let callers use these; `report` takes Wanted."""
        ...

    def grow(self, topic: str, partitions: int) -> None:
        """Hear that a topic has so many partitions by now."""
        ...

    def serve(self) -> None:
        """Give messages to the futures that want one."""
        ...

    def end(self, error: PulsarException) -> None:
        """Refuse callers from now on."""
        ...


class Search(NamedTuple):
    """How topics are found: where a pattern is given, in this mode."""

    pattern: TopicPattern | None = None
    mode: "CommandGetTopicsOfNamespace.Mode.ValueType" = CommandGetTopicsOfNamespace.PERSISTENT
    timeout: float = 30.0
    """In seconds, of a watch's questions."""


class TopicSetActor(HeldActor[TopicSet]):
    """One set."""

    def __init__(  # noqa: PLR0913 - what a set is made of
        self, loop: Loop, place: Place, ties: Ties, machine: TopicSet, crew: Crew, search: Search
    ) -> None:
        super().__init__(loop, place, ties)
        self.machine = machine
        self._crew = crew
        self._search = search
        self._mail: dict[int, list[object]] = {}  # for members whose address is not known yet
        self._addresses: dict[int, Address] = {}
        self._watch: Address | None = None

    @property
    def called(self) -> str:
        """What it is, in errors."""
        return self.machine.what

    def receive(self, message: object) -> None:  # noqa: C901 - one line for each message
        """Take what callers, members, lookups and the watch say."""
        match message:
            case Placed(member, address):
                self._addresses[member] = address
                for letter in self._mail.pop(member, ()):
                    tell(address, letter)
            case MemberLost(member):
                self.feed(message)
                self._mail.pop(member, None)
            case WatchMade(address):
                self._watch = address
            case TopicsListed(survey, outcome):
                self.feed(Listed(survey, outcome if isinstance(outcome, PulsarException) else self._matching(outcome)))
            case TopicsChanged():
                self._topics_changed(message)
            case Serve():
                self._crew.serve()
            case After(seconds, end):
                self.later(seconds, lambda _: end(), None)
            case WatchEnded() | TakeAll():
                pass  # lists are asked for in any case; a producer that is only being made begins with taking all
            case CloseHandle():
                self._crew.end(AlreadyClosed(f"{self.called} is closed"))
                self.end_by(Close())
            case EndAtOnce():
                self.end_by(message)
            case _:
                self.feed(message)

    def abandon(self, bug: InternalError) -> None:
        """Fail everything, and have the members go."""
        for address in self._addresses.values():
            tell(address, CloseHandle())
        super().abandon(bug)

    def end(self, error: PulsarException) -> None:
        """Fail what callers wait for, and refuse more."""
        super().end(error)
        self._crew.end(error)

    def retire(self) -> None:
        """Have the watch go, too."""
        if self._watch is not None:
            tell(self._watch, CloseHandle())
        super().retire()

    def missed(self, message: object) -> None:
        """Have a member or a watch that was made too late go again."""
        if isinstance(message, (Placed, WatchMade)):
            tell(message.address, CloseHandle())

    def _topics_changed(self, change: TopicsChanged) -> None:
        """Look again if it is about topics of the set: the broker tells of all in the namespace."""
        if self._pattern.sort((*change.added, *change.removed)):
            self.feed(Stirred())

    def _matching(self, answer: CommandGetTopicsOfNamespaceResponse) -> dict[str, tuple[str, ...]]:
        return self._pattern.sort(answer.topics)

    @property
    def _pattern(self) -> TopicPattern:
        pattern = self._search.pattern
        assert pattern is not None  # noqa: S101 - only a set with a pattern asks for topics
        return pattern

    def _report(self, event: object) -> None:
        tell(self.actor_ref, event)

    def _tell_member(self, member: int, message: object) -> None:
        address = self._addresses.get(member)
        if address is None:
            self._mail.setdefault(member, []).append(message)
        else:
            tell(address, message)

    # One method for each effect.

    def _list_topics(self, effect: ListTopics) -> None:
        report = self._report

        def answered(outcome: Any) -> None:  # noqa: ANN401 - an answer or an error
            report(TopicsListed(effect.survey, outcome))

        namespace = self._pattern.namespace
        command = CommandGetTopicsOfNamespace(request_id=0, namespace=namespace, mode=self._search.mode)
        self.tell_guardian(Question(command, answered))

    def _watch_topics(self, _: WatchTopics) -> None:
        report, timeout, namespace = self._report, self._search.timeout, self._pattern.namespace

        def make(loop: Loop, place: Place) -> Address:
            everything = f"{namespace}/.*"  # what matches is decided here, in our dialect
            machine = TopicWatch(place.id, namespace, everything, jitter=loop.chance, timeout=timeout)
            made = WatchActor.start(loop, place, machine, self.actor_ref)
            report(WatchMade(made))
            return made

        self.tell_guardian(AdmitToClient(WATCHER, make, _go_on_without))

    def _count_partitions(self, effect: CountPartitions) -> None:
        survey, topic, may_create = effect
        report = self._report

        def answered(outcome: Any) -> None:  # noqa: ANN401 - an answer or an error
            report(Counted(survey, topic, outcome if isinstance(outcome, PulsarException) else outcome.partitions))

        command = CommandPartitionedTopicMetadata(topic=topic, request_id=0, metadata_auto_creation_enabled=may_create)
        self.tell_guardian(Question(command, answered))

    def _make_member(self, effect: MakeMember) -> None:
        self._crew.make(effect, self._report)

    def _close_member(self, effect: CloseMember) -> None:
        member = effect.member
        self._tell_member(member, CloseHandle())
        if not self.machine.roster.knows(member):
            self._addresses.pop(member, None)
            self._crew.lose(member, self._report)

    def _pass_on(self, effect: PassOn) -> None:
        call, member, request = effect
        done: SlimFuture[Any] = SlimFuture()
        report = self._report

        def answered(_: object) -> None:
            error = done.exception()
            report(MemberAnswered(call, member, done.result() if error is None else error))

        done.add_done_callback(answered)
        self._crew.owe(member, done)
        self._tell_member(member, request(done))

    def _admit(self, effect: Admit) -> None:
        self._crew.admit(effect, self._report)

    def _grown(self, effect: Grown) -> None:
        self._crew.grow(effect.topic, effect.partitions)

    def _opened(self, effect: SetOpened) -> None:
        settle(self.created, None)

    def _done(self, effect: Done) -> None:
        assert is_promise(effect.token)  # noqa: S101 - the token of a call
        self.debts.pay(effect.token, effect.answers)

    PERFORMS: ClassVar = {
        **HeldActor.PERFORMS,
        ListTopics: _list_topics,
        WatchTopics: _watch_topics,
        CountPartitions: _count_partitions,
        MakeMember: _make_member,
        CloseMember: _close_member,
        PassOn: _pass_on,
        Admit: _admit,
        Grown: _grown,
        SetOpened: _opened,
        Done: _done,
    }


def _go_on_without(_: PulsarException) -> None:
    """Do without a watch: the client is closing."""
