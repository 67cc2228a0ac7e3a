"""The state machine of a producer, consumer or reader of several topics: partitions, a list, or a pattern.

It has one member, an ordinary producer or consumer, for each topic or partition. When `partition_discovery.py` has
found the topics, all members are created at the same time, and the handle is open when all of them are. If one fails
with an error that a retry cannot cure, the others are closed first, and then the creation fails with that error, which
names the topic. Later discoveries add members for new partitions, and for new topics that match a pattern; members of
deleted topics are closed.

A member has its own machine, which reconnects to brokers. If a member ends, the others continue. When the last one has
ended, the handle ends, except for a pattern, which waits for new topics. Messages do not pass through this machine:
routers and queues distribute them.

The producers of one partitioned topic have the same name. If the user gave none, the first producer is created alone,
and the others get the name that its broker chose. With lazy start, each other producer is created by the first message
for its partition.

A call to all members completes when all have answered. If an unsubscribe succeeds only on some topics, the subscription
stays on the others, and the next discovery does not subscribe to the first ones again.
"""

from collections.abc import Sequence
from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument, PulsarException, TopicNotFound
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler_events import (
    Close,
    EndAtOnce,
    Fail,
    FirstCreationFailed,
    HandleEnded,
    Open,
)
from pulsar_actors.machines.multi_topics_events import (
    AskMember,
    AskMembers,
    CloseMember,
    CreateMember,
    Discover,
    DiscoverLater,
    MatchingTopicsListed,
    MemberAnswered,
    MemberLost,
    MemberOpened,
    MembersDone,
    MemberWanted,
    MultiTopicsOpened,
    MultiTopicsSettings,
    PartitionsCounted,
    StopDiscovery,
    UnsubscribeAll,
    UpdateMembers,
    WatchTopics,
)
from pulsar_actors.machines.partition_discovery import IDLE as NO_DISCOVERY
from pulsar_actors.machines.partition_discovery import PartitionDiscovery
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.subscribed_topics import (
    MemberState,
    MultiTopicsCalls,
    SubscribedTopics,
    naming_topic,
)
from pulsar_actors.wire.topic_name import TopicName


@unique
class State(Enum):
    """The states of a handle on several topics."""

    IDLE = "Created, but not opened yet."
    DISCOVERING = "The topics are being found, and their partitions counted."
    OPENING = "The members are being created; the user waits for all of them."
    READY = "In use. Members may still be created: for new topics or partitions, or by a first message."
    UNSUBSCRIBING = "All members are deleting their subscription; some may be refused."
    ROLLING_BACK = "A member could not be created; the others are closing before the creation fails."
    CLOSING = "Closed by the user; the members are closing."
    CLOSED = "Closed by the user."
    FAILED = "Ended by an error: it could not be created, or no member is left."


IDLE, DISCOVERING, OPENING, READY, UNSUBSCRIBING, ROLLING_BACK, CLOSING, CLOSED, FAILED = State

IN_USE: Final = (READY, UNSUBSCRIBING)
CLOSING_MEMBERS: Final = (ROLLING_BACK, CLOSING)
FINAL: Final = (CLOSED, FAILED)
ENDING: Final = (*CLOSING_MEMBERS, *FINAL)

# fmt: off
ROWS: Final = (
    #   trigger               source               dest           guard                   does
    Row(Open,                 IDLE,                OPENING,       "is_counted",           "create_counted"),
    Row(Open,                 IDLE,                DISCOVERING,   None,                   "discover"),
    Row(MatchingTopicsListed, DISCOVERING,         FAILED,        "is_fatal",             "fail_creation"),
    Row(MatchingTopicsListed, DISCOVERING,         READY,         "is_discovered",        "begin_empty"),
    Row(PartitionsCounted,    DISCOVERING,         FAILED,        "is_fatal",             "fail_creation"),
    Row(PartitionsCounted,    DISCOVERING,         OPENING,       "is_discovered",        "create_members"),
    Row(MemberOpened,         OPENING,             READY,         "completes",            "begin"),
    Row(MemberOpened,         OPENING,             INTERNAL,      "names_the_others",     "create_others"),
    Row(MemberOpened,         OPENING,             INTERNAL,      None,                   "note_opened"),
    Row(MemberLost,           OPENING,             INTERNAL,      "is_unknown"),
    Row(MemberLost,           OPENING,             READY,         "has_vanished_last",    "begin_without"),
    Row(MemberLost,           OPENING,             INTERNAL,      "has_vanished",         "note_vanished"),
    Row(MemberLost,           OPENING,             FAILED,        "is_the_only_one",      "fail_alone"),
    Row(MemberLost,           OPENING,             ROLLING_BACK,  None,                   "roll_back"),
    Row(MemberLost,           ROLLING_BACK,        FAILED,        "is_the_only_one",      "end_rolled_back"),
    Row(MemberLost,           ROLLING_BACK,        INTERNAL,      None,                   "note_gone"),

    # In use: members come and go.
    Row(MatchingTopicsListed, READY,               INTERNAL,      "is_not_listed",        "rest"),
    Row(MatchingTopicsListed, READY,               INTERNAL,      "is_discovered",        "create_missing_and_rest"),
    Row(PartitionsCounted,    READY,               INTERNAL,      "is_discovered",        "create_missing_and_rest"),
    Row(MemberWanted,         IN_USE,              INTERNAL,      "is_missing",           "create_wanted"),
    Row(MemberOpened,         IN_USE,              INTERNAL,      None,                   "admit"),
    Row(MemberLost,           IN_USE,              INTERNAL,      "is_unknown"),
    Row(MemberLost,           READY,               FAILED,        "loses_last_member",    "end_without_members"),
    Row(MemberLost,           IN_USE,              INTERNAL,      None,                   "release_lost_member"),

    # In use: calls to all members.
    Row(AskMembers,           IN_USE,              INTERNAL,      "has_no_member_to_ask", "answer_at_once"),
    Row(AskMembers,           IN_USE,              INTERNAL,      None,                   "pass_on"),
    Row(UnsubscribeAll,       READY,               CLOSED,        "has_no_member_to_ask", "end_unused"),
    Row(UnsubscribeAll,       READY,               UNSUBSCRIBING, None,                   "unsubscribe"),
    Row(UnsubscribeAll,       UNSUBSCRIBING,       INTERNAL,      None,                   "refuse_second"),
    Row(MemberAnswered,       UNSUBSCRIBING,       CLOSED,        "ends_it_well",         "end_unsubscribed"),
    Row(MemberAnswered,       UNSUBSCRIBING,       FAILED,        "ends_without_members", "end_half_subscribed"),
    Row(MemberAnswered,       UNSUBSCRIBING,       READY,         "ends_it_badly",        "go_on_with_the_rest"),
    Row(MemberAnswered,       (*IN_USE, *CLOSING_MEMBERS), INTERNAL, None,                "note_answer"),

    # The end.
    Row(Close,                (IDLE, DISCOVERING), CLOSED,        None,                   "end_unmade"),
    Row(Close,                OPENING,             CLOSING,       None,                   "close_while_opening"),
    Row(Close,                IN_USE,              CLOSED,        "has_no_members",       "end_memberless"),
    Row(Close,                IN_USE,              CLOSING,       None,                   "close_all"),
    Row(MemberLost,           CLOSING,             CLOSED,        "is_the_only_one",      "end_closed"),
    Row(MemberLost,           CLOSING,             INTERNAL,      None,                   "note_gone"),
    Row(EndAtOnce,            (IDLE, DISCOVERING, OPENING, *IN_USE, *CLOSING_MEMBERS), CLOSED, None, "end_immediately"),
    Row(AskMembers,           ENDING,              INTERNAL,      None,                   "fail_call_after_end"),
    Row(UnsubscribeAll,       ENDING,              INTERNAL,      None,                   "fail_call_after_end"),
)

IGNORES: Final = (
    Ignore(MemberWanted, IN_USE),  # a member that is there, or is being created
    Ignore(MemberWanted, (IDLE, DISCOVERING, OPENING, *ENDING)),
    Ignore(Close, ENDING),
    Ignore(EndAtOnce, FINAL),
    Ignore((MatchingTopicsListed, PartitionsCounted), (DISCOVERING, READY)),  # while the discovery goes on
    # Too late or too early to mean anything.
    Ignore((MatchingTopicsListed, PartitionsCounted), (IDLE, OPENING, UNSUBSCRIBING, *ENDING)),
    Ignore(MemberOpened, (IDLE, DISCOVERING, *ENDING)),
    Ignore(MemberLost, (IDLE, DISCOVERING, *FINAL)),
    Ignore(MemberAnswered, (IDLE, DISCOVERING, OPENING, *FINAL)),
)
# fmt: on

OURS: Final = (Open, AskMembers, UnsubscribeAll, MemberWanted, Close, EndAtOnce)

CHART: Final = Chart("multi_topics", states=State, initial=IDLE, final=FINAL, ours=OURS, rows=ROWS, ignores=IGNORES)


class MultiTopics(StateMachine, chart=CHART, current=("discovery",), parts={"topic_discovery": PartitionDiscovery}):
    """The members of one handle: the guards and actions in the chart's order."""

    __slots__ = ("_awaited", "_calls", "_error", "_settings", "_unsubscribing", "name", "subscribed", "topic_discovery")

    def __init__(self, settings: MultiTopicsSettings) -> None:
        super().__init__()
        self.subscribed = SubscribedTopics()
        self.name = ""  # the name of all producers, if a broker chose it
        self._settings = settings
        self.topic_discovery = PartitionDiscovery(settings, self.subscribed, self)
        self._calls = MultiTopicsCalls()
        self._unsubscribing = 0  # the number of that call
        self._awaited = True  # the user waits for the creation
        self._error: PulsarException = AlreadyClosed(f"{settings.what} is closed")

    @property
    def what(self) -> str:
        """The handle's name in errors."""
        return self._settings.what

    @property
    def discovery(self) -> int:
        """The number of the discovery whose answers count."""
        return self.topic_discovery.discovery

    # Creation.

    def is_counted(self, event: Open, now: float) -> bool:
        """Return whether the user's call has counted all partitions already."""
        return not self._settings.has_pattern and None not in self._settings.topics.values()

    def create_counted(self, event: Open, now: float) -> Effects:
        """Create the members, or the first of them."""
        for topic, partitions in self._settings.topics.items():
            self.subscribed.set_partitions(topic, partitions or 0)
        return self._create_members()

    def discover(self, event: Open, now: float) -> Effects:
        """Find the topics and their partitions."""
        return self.topic_discovery.handle(Discover(), now)

    def is_fatal(self, event: MatchingTopicsListed | PartitionsCounted, now: float) -> bool:
        """Return whether the answer is an error. A deleted topic is none, if a pattern had found it."""
        outcome = event.outcome
        if isinstance(event, PartitionsCounted) and isinstance(outcome, TopicNotFound):
            return self._settings.names(event.topic)
        return isinstance(outcome, PulsarException)

    def fail_creation(self, event: MatchingTopicsListed | PartitionsCounted, now: float) -> Effects:
        """Fail the creation with the error."""
        error = event.outcome
        assert isinstance(error, PulsarException)  # noqa: S101 - the guard has looked
        return self._end(naming_topic(event.topic, error) if isinstance(event, PartitionsCounted) else error, now)

    def is_discovered(self, event: MatchingTopicsListed | PartitionsCounted, now: float) -> bool:
        """Return whether the discovery has ended with this answer."""
        return self.topic_discovery.state is NO_DISCOVERY

    def begin_empty(self, event: MatchingTopicsListed, now: float) -> Effects:
        """Open without members, and wait for topics."""
        return self._report_open(now)

    def create_members(self, event: PartitionsCounted, now: float) -> Effects:
        """Create the members, or the first of them."""
        return self._create_members()

    def completes(self, event: MemberOpened, now: float) -> bool:
        """Return whether no other member is being created, or has to be created now."""
        is_last = self.subscribed.opening == int(self.subscribed.is_opening(event.member))
        return is_last and (self._settings.lazy or not self.subscribed.missing())

    def begin(self, event: MemberOpened, now: float) -> Effects:
        """Report that the handle is open, and show all members to callers."""
        self.name = self.name or event.name
        self.subscribed.set_open(event.member)
        return [*self._admit_all(), *self._report_open(now)]

    def names_the_others(self, event: MemberOpened, now: float) -> bool:
        """Return whether this is the first member, whose name the others get."""
        return self._settings.first is not None and not self.name

    def create_others(self, event: MemberOpened, now: float) -> Effects:
        """Create all other members, with that name."""
        self.name = event.name
        self.subscribed.set_open(event.member)
        return self._create(self.subscribed.missing())

    def note_opened(self, event: MemberOpened, now: float) -> Effects:
        """Wait for the others."""
        self.subscribed.set_open(event.member)
        return []

    def is_unknown(self, event: MemberLost, now: float) -> bool:
        """Return whether the member is unknown: it could not be created before, and has ended now."""
        return not self.subscribed.has_member(event.member)

    def has_vanished_last(self, event: MemberLost, now: float) -> bool:
        """Return whether a topic of a pattern was deleted, and no other member is being created."""
        others = self.subscribed.opening - int(self.subscribed.is_opening(event.member))
        return self.has_vanished(event, now) and not others

    def begin_without(self, event: MemberLost, now: float) -> Effects:
        """Open with the other members."""
        return [*self.note_vanished(event, now), *self._admit_all(), *self._report_open(now)]

    def has_vanished(self, event: MemberLost, now: float) -> bool:
        """Return whether a topic of a pattern was deleted, or the member was closed with its topic."""
        is_gone = isinstance(event.error, TopicNotFound) or self.subscribed.is_closing(event.member)
        return is_gone and not self._settings.names(self.subscribed.members[event.member].source)

    def note_vanished(self, event: MemberLost, now: float) -> Effects:
        """Wait for the others. The next discovery shows if the topic exists again."""
        member = self.subscribed.remove(event.member, again=True)
        gone = self.subscribed.drop_source(member.source) if member else []
        self.subscribed.close_some(gone)
        return [CloseMember(number) for number in (event.member, *gone)]

    def is_the_only_one(self, event: MemberLost, now: float) -> bool:
        """Return whether there is no other member."""
        return self.subscribed.is_only_member(event.member)

    def fail_alone(self, event: MemberLost, now: float) -> Effects:
        """End with the error, which names the topic."""
        error = self._error_of(event)
        self.subscribed.remove(event.member, again=False)
        return [CloseMember(event.member), *self._end(error, now)]

    def roll_back(self, event: MemberLost, now: float) -> Effects:
        """Close the other members first."""
        self._error = self._error_of(event)
        self.subscribed.remove(event.member, again=False)
        return [CloseMember(event.member), *self._close_members()]

    def end_rolled_back(self, event: MemberLost, now: float) -> Effects:
        """Fail the creation: all members are closed now."""
        self.subscribed.remove(event.member, again=False)
        return self._end(self._error, now)

    def note_gone(self, event: MemberLost, now: float) -> Effects:
        """Wait for the others."""
        self.subscribed.remove(event.member, again=False)
        return []

    # In use: members come and go.

    def is_not_listed(self, event: MatchingTopicsListed, now: float) -> bool:
        """Return whether the discovery has ended with an error."""
        return self.is_discovered(event, now) and isinstance(event.outcome, PulsarException)

    def rest(self, event: MatchingTopicsListed, now: float) -> Effects:
        """Discover again later."""
        return self._rest(now)

    def create_missing_and_rest(self, event: MatchingTopicsListed | PartitionsCounted, now: float) -> Effects:
        """Create the members that are missing, and discover again later."""
        lazy = self._settings.lazy
        created = self._publish_uncreated() if lazy else self._create(self.subscribed.missing())
        return [*created, *self._rest(now)]

    def is_missing(self, event: MemberWanted, now: float) -> bool:
        """Return whether the topic has no member, and none is being created."""
        return self.subscribed.is_missing(event.topic)

    def create_wanted(self, event: MemberWanted, now: float) -> Effects:
        """Create the member."""
        return self._create([(event.topic, self.subscribed.source_of(event.topic))])

    def admit(self, event: MemberOpened, now: float) -> Effects:
        """Show the member to callers."""
        topic = self.subscribed.set_open(event.member)
        return [] if topic is None else [UpdateMembers({topic: event.member})]

    def loses_last_member(self, event: MemberLost, now: float) -> bool:
        """Return whether this was the last member, and no other can be created."""
        return self.is_the_only_one(event, now) and not self._settings.has_pattern and not self._settings.lazy

    def end_without_members(self, event: MemberLost, now: float) -> Effects:
        """End with the error of the last member."""
        return self.fail_alone(event, now)

    def release_lost_member(self, event: MemberLost, now: float) -> Effects:
        """Go on without the member."""
        member = self.subscribed.remove(event.member, again=self._settings.has_pattern)
        was_open = member is not None and member.state is MemberState.OPEN
        return [CloseMember(event.member), *([UpdateMembers({}, gone=(member.topic,))] if member and was_open else [])]

    # In use: calls to all members.

    def has_no_member_to_ask(self, event: AskMembers | UnsubscribeAll, now: float) -> bool:
        """Return whether there is no member to ask."""
        return not self._members_to_ask(event)

    def answer_at_once(self, event: AskMembers, now: float) -> Effects:
        """Complete the call without answers."""
        return [MembersDone(event.token, {})]

    def pass_on(self, event: AskMembers | UnsubscribeAll, now: float) -> Effects:
        """Ask every member."""
        members = self._members_to_ask(event)
        call = self._calls.begin(event.token, members)
        return [AskMember(call, member, event.request) for member in members]

    def end_unused(self, event: UnsubscribeAll, now: float) -> Effects:
        """End, because there is no subscription."""
        return [MembersDone(event.token, {}), *self._close_members(), *self._end(None, now)]

    def unsubscribe(self, event: UnsubscribeAll, now: float) -> Effects:
        """Ask every member, and create no further ones. Those that are being created are closed."""
        self.topic_discovery.handle(StopDiscovery(), now)
        passed = self.pass_on(event, now)
        self._unsubscribing = passed[0].call if isinstance(passed[0], AskMember) else 0
        opening = [number for number in self.subscribed.members if self.subscribed.is_opening(number)]
        self.subscribed.close_some(opening)
        return [*passed, *(CloseMember(number) for number in opening)]

    def refuse_second(self, event: UnsubscribeAll, now: float) -> Effects:
        """Fail a call while another runs."""
        return [Fail(event.token, InvalidArgument("a running unsubscribe has to end first: wait for it"))]

    def ends_it_well(self, event: MemberAnswered, now: float) -> bool:
        """Return whether this is the last answer, and no topic has refused."""
        return self._ends_unsubscribing(event) and not (_is_error(event) or self._calls.has_failed(event.call))

    def end_unsubscribed(self, event: MemberAnswered, now: float) -> Effects:
        """End: a consumer without a subscription gets no messages."""
        return [*self.note_answer(event, now), *self._close_members(), *self._end(None, now)]

    def ends_without_members(self, event: MemberAnswered, now: float) -> bool:
        """Return whether this is the last answer and no member is left, although not all have unsubscribed."""
        return self._ends_unsubscribing(event) and not self.subscribed.members and not self._settings.has_pattern

    def end_half_subscribed(self, event: MemberAnswered, now: float) -> Effects:
        """Name the topics that have refused, and end: no member is left."""
        return [*self.note_answer(event, now), *self._end(event.outcome if _is_error(event) else self._error, now)]

    def ends_it_badly(self, event: MemberAnswered, now: float) -> bool:
        """Return whether this is the last answer."""
        return self._ends_unsubscribing(event)

    def go_on_with_the_rest(self, event: MemberAnswered, now: float) -> Effects:
        """Name the topics that have refused: those stay subscribed."""
        noted = self.note_answer(event, now)
        self._unsubscribing = 0
        return [*noted, *self._rest(now)]

    def note_answer(self, event: MemberAnswered, now: float) -> Effects:
        """Complete the call if it was the last answer."""
        if event.call == self._unsubscribing and not _is_error(event):
            self.subscribed.exclude(event.member)
        outcome = self._calls.answered(event.call, event.member, event.outcome)
        if outcome is None:
            return []
        return [Fail(outcome.token, outcome.error) if outcome.error else MembersDone(outcome.token, outcome.answers)]

    # The end.

    def end_unmade(self, event: Close, now: float) -> Effects:
        """End. There is no member to close."""
        return self._end(None, now)

    def close_while_opening(self, event: Close, now: float) -> Effects:
        """Close all members, and those that are being created."""
        return [*self._fail_creation(), *self._close_members()]

    def has_no_members(self, event: Close, now: float) -> bool:
        """Return whether there is no member to close."""
        return not self.subscribed.members

    def end_memberless(self, event: Close, now: float) -> Effects:
        """End at once."""
        return self._end(None, now)

    def close_all(self, event: Close, now: float) -> Effects:
        """Close all members. Their pending calls end before that."""
        self.topic_discovery.handle(StopDiscovery(), now)
        return self._close_members()

    def end_closed(self, event: MemberLost, now: float) -> Effects:
        """End with the last member."""
        self.subscribed.remove(event.member, again=False)
        return self._end(None, now)

    def end_immediately(self, event: EndAtOnce, now: float) -> Effects:
        """End. The members get the same event from the client's actor."""
        return self._end(event.error, now)

    def fail_call_after_end(self, event: AskMembers | UnsubscribeAll, now: float) -> Effects:
        """Fail a call after the end."""
        return [Fail(event.token, self._error)]

    def _create_members(self) -> Effects:
        """Create all members, or the first of those that share its name."""
        missing, first = self.subscribed.missing(), self._settings.first
        return self._create(missing if first is None else missing[first : first + 1])

    def _create(self, wanted: Sequence[tuple[str, str]]) -> Effects:
        among, later = self.subscribed.size, not self._awaited
        return [
            CreateMember(
                self.subscribed.add(topic, source), topic, self.name, among, self._settings.names(source), later
            )
            for topic, source in wanted
        ]

    def _admit_all(self) -> Effects:
        """Show the open members to callers."""
        return [
            UpdateMembers({topic: number for number, topic in self.subscribed.open.items()}),
            *(self._publish_uncreated() if self._settings.lazy else []),
        ]

    def _publish_uncreated(self) -> Effects:
        """Let callers enqueue messages for members that are created with the first of them."""
        return [UpdateMembers({}, uncreated=tuple(topic for topic, _ in self.subscribed.missing()))]

    def _rest(self, now: float) -> Effects:
        return self.topic_discovery.handle(DiscoverLater(), now)

    def _report_open(self, now: float) -> Effects:
        self._awaited = False
        watch = [WatchTopics()] if self._settings.watches else []
        return [MultiTopicsOpened(), *watch, *self._rest(now)]

    def _members_to_ask(self, event: AskMembers | UnsubscribeAll) -> dict[int, str]:
        """Return the members to ask; with lazy start also those being created, which may have messages."""
        members = self.subscribed.staying if self._settings.lazy else self.subscribed.open
        if not (isinstance(event, AskMembers) and event.persistent):
            return members
        return {number: topic for number, topic in members.items() if TopicName.parse(topic).is_persistent}

    def _ends_unsubscribing(self, event: MemberAnswered) -> bool:
        return event.call == self._unsubscribing and self._calls.ends_with(event.call, event.member)

    def _error_of(self, event: MemberLost) -> PulsarException:
        return naming_topic(self.subscribed.members[event.member].topic, event.error)

    def _close_members(self) -> Effects:
        return [CloseMember(number) for number in self.subscribed.close_all()]

    def _fail_creation(self) -> Effects:
        """Fail the creation, if the user still waits for it."""
        awaited, self._awaited = self._awaited, False
        return [FirstCreationFailed(self._error)] if awaited else []

    def _end(self, error: PulsarException | None, now: float) -> Effects:
        """End, and fail all calls."""
        if error is not None:
            self._error = error
        self.topic_discovery.handle(StopDiscovery(), now)
        calls = [Fail(token, self._error) for token in self._calls.drain()]
        return [*self._fail_creation(), *calls, HandleEnded(error)]


def _is_error(event: MemberAnswered) -> bool:
    return isinstance(event.outcome, PulsarException)
