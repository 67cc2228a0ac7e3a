"""Whatever lookups, members and users do to a topic set, its promises hold; a chart that breaks one is found out."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pulsar_actors.exceptions import AlreadyClosed, ConnectError, ProducerBusy, TopicNotFound
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.connection_handler_events import (
    Close,
    EndAtOnce,
    Fail,
    FirstCreationFailed,
    HandleEnded,
    Open,
)
from pulsar_actors.machines.multi_topics import CHART, FINAL, IN_USE, MultiTopics, State
from pulsar_actors.machines.multi_topics_events import (
    AskMember,
    AskMembers,
    CloseMember,
    CountPartitions,
    CreateMember,
    DiscoveryDue,
    ListTopics,
    MatchingTopicsListed,
    MemberAnswered,
    MemberLost,
    MemberOpened,
    MembersDone,
    MemberWanted,
    MultiTopicsOpened,
    MultiTopicsSettings,
    PartitionsCounted,
    PartitionsGrown,
    TopicListChanged,
    UnsubscribeAll,
    UpdateMembers,
    WatchTopics,
)
from pulsar_actors.machines.partition_discovery import CHART as DISCOVERY
from pulsar_actors.machines.partition_discovery import RUNNING, TOPICS_CHANGED_PAUSE, PartitionDiscovery
from pulsar_actors.machines.partition_discovery import State as DiscoveryState
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.wire.topic_name import TopicName
from tests.machines.mutants import Fault, Hunt, fault, hunting

NAMES = ["persistent://public/default/a", "persistent://public/default/b"]
GONE = TopicNotFound("TopicNotFound", "gone")
REFUSED = ProducerBusy("ProducerBusy", "no")
KINDS = {
    "one": MultiTopicsSettings("a set", {NAMES[0]: 2}, look_again=1.0, first=1),
    "lazy": MultiTopicsSettings("a set", {NAMES[0]: 3}, look_again=1.0, first=0, lazy=True),
    "list": MultiTopicsSettings("a set", dict.fromkeys(NAMES), look_again=1.0),
    "pattern": MultiTopicsSettings("a set", {}, has_pattern=True, look_again=1.0, watches=True),
    "pattern and name": MultiTopicsSettings("a set", {NAMES[0]: None}, has_pattern=True, look_again=1.0, watches=True),
}


class AnySet(RuleBasedStateMachine):
    """A set, the topics that there are, and a record of what its members and its users were told."""

    machine_class: Any = MultiTopics
    discovery_class = PartitionDiscovery
    starts: tuple[int, ...] = (0, 1, 4, 4)
    kinds: tuple[str, ...] = tuple(KINDS)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.partitions: dict[str, int] = {NAMES[0]: 2, NAMES[1]: 0}
        self.kind = ""
        self.machine: Any = None
        self.timers: list[StartTimer] = []
        self.lists: list[int] = []
        self.is_stirred = False
        self.counts: list[tuple[int, str]] = []
        self.told_counts: dict[str, int] = {}
        self.opening: dict[int, str] = {}
        self.open: dict[int, str] = {}
        self.closing: set[int] = set()
        self.admitted: dict[str, int] = {}
        self.given_up: set[str] = set()
        self.calls: list[AskMember] = []
        self.asked: list[int] = []
        self.unsubscribing: set[int] = set()
        self.is_unsubscribed = False
        self.answered: list[object] = []
        self.created: list[type] = []
        self.ends = 0
        self.was_told_to_end = self.was_ended_at_once = False
        self.in_the_middle = False

    @property
    def has_pattern(self) -> bool:
        return KINDS[self.kind].has_pattern

    @property
    def is_rediscovering(self) -> bool:
        return self.machine.state is State.READY and self.machine.topic_discovery.state in RUNNING

    @property
    def live(self) -> dict[int, str]:
        return {**self.opening, **self.open}

    # What the set does.

    def tell(self, event: Any) -> None:
        self.in_the_middle = True
        for effect in self.machine.handle(event, self.now):
            self.perform(effect)
        self.in_the_middle = False

    def perform(self, effect: Any) -> None:
        match effect:
            case StartTimer():
                self.timers.append(effect)
            case ListTopics(discovery):
                assert discovery not in self.lists, "asked twice at once"
                self.lists.append(discovery)
                self.is_stirred = False
            case CountPartitions(discovery, topic):
                self.counts.append((discovery, topic))
            case CreateMember(member, topic, name):
                self.make(member, topic, name)
            case CloseMember(member):
                self.closing.add(member)
                topic = self.live.get(member, "")
                is_named = self.kind == "pattern and name" and topic.startswith(NAMES[0])
                assert not is_named or self.machine.state is not State.READY, "a named topic was left"
            case AskMember():
                self.calls.append(effect)
            case UpdateMembers(members, gone):
                self.admitted = {topic: one for topic, one in self.admitted.items() if topic not in gone}
                self.admitted |= members
            case PartitionsGrown(topic, partitions):
                self.told_counts[topic] = partitions
            case _:
                self.tell_users(effect)

    def tell_users(self, effect: Any) -> None:
        match effect:
            case MembersDone() | Fail():
                assert effect.token not in self.answered, "a call ended twice"
                self.answered.append(effect.token)
                self.is_unsubscribed |= isinstance(effect, MembersDone) and effect.token in self.unsubscribing
            case WatchTopics():
                assert self.has_pattern
            case MultiTopicsOpened():
                self.created.append(MultiTopicsOpened)
                self.check_that_all_are_there()
            case FirstCreationFailed():
                self.created.append(FirstCreationFailed)
                assert self.was_told_to_end or not self.live, "failed while members are there"
            case HandleEnded():
                self.ends += 1
            case _:
                raise AssertionError(f"nobody performs {effect!r}")

    def make(self, member: int, topic: str, name: str) -> None:
        assert not self.was_told_to_end, "made a member in the end"
        assert topic not in self.live.values(), "a second member for one topic"
        assert topic not in self.given_up, "made again what had ended"
        assert name or self.kind == "list" or self.has_pattern or not self.live, "made without the name of the first"
        self.opening[member] = topic

    def check_that_all_are_there(self) -> None:
        assert self.kind == "lazy" or not self.opening, "there before its members"
        if self.kind == "one":
            assert len(self.open) == 2, "there before its members"

    # What users do.

    @initialize(data=st.data())
    def go_some_way(self, data: st.DataObject) -> None:
        self.kind = data.draw(st.sampled_from(self.kinds))
        self.machine = self.machine_class(KINDS[self.kind])
        self.machine.topic_discovery.__class__ = self.discovery_class
        self.told_counts = {topic: count for topic, count in KINDS[self.kind].topics.items() if count is not None}
        self.tell(Open())
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let all that is asked for succeed."""
        for discovery in [*self.lists]:
            self.list_topics(discovery)
        for discovery, topic in [*self.counts]:
            self.count(discovery, topic)
        for member in [*self.opening]:
            if member not in self.closing:
                self.open_member(member)

    @precondition(lambda self: self.machine.state in {*IN_USE, State.CLOSING, State.ROLLING_BACK, *FINAL})
    @rule()
    def ask(self) -> None:
        self.asked.append(len(self.asked))
        self.tell(AskMembers(self.asked[-1], object))

    @precondition(lambda self: self.machine.state in {*IN_USE, State.CLOSING, State.ROLLING_BACK, *FINAL})
    @rule()
    def unsubscribe(self) -> None:
        self.asked.append(len(self.asked))
        self.unsubscribing.add(self.asked[-1])
        self.tell(UnsubscribeAll(self.asked[-1], UnsubscribeAll))

    @precondition(lambda self: self.kind == "lazy")
    @rule(index=st.integers(0, 2))
    def want(self, index: int) -> None:
        self.tell(MemberWanted(str(TopicName.parse(NAMES[0]).partition(index))))

    @precondition(lambda self: self.answered or self.created)
    @rule()
    def close(self) -> None:
        self.was_told_to_end = True
        self.tell(Close())

    @precondition(lambda self: len(self.answered) > 1)
    @rule()
    def end_at_once(self) -> None:
        self.was_told_to_end = self.was_ended_at_once = True
        self.tell(EndAtOnce(AlreadyClosed("shut down")))

    # What lookups and time do.

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 4))
    def topics_change(self, name: str, count: int) -> None:
        before = self.partitions.get(name, 0)
        if self.has_pattern and count == 4:
            self.partitions.pop(name, None)
        elif count > before and (before or self.has_pattern):
            self.partitions[name] = count

    @precondition(lambda self: self.lists)
    @rule(works=st.booleans())
    def answer_list(self, *, works: bool) -> None:
        discovery = self.lists[0]
        if works:
            self.list_topics(discovery)
        else:
            self.lists.remove(discovery)
            self.tell(MatchingTopicsListed(discovery, ConnectError("down")))

    def list_topics(self, discovery: int) -> None:
        self.lists.remove(discovery)
        self.tell(MatchingTopicsListed(discovery, {name: (name,) for name in self.partitions}))

    @precondition(lambda self: self.counts)
    @rule(works=st.sampled_from([True, True, False]), data=st.data())
    def answer_count(self, data: st.DataObject, *, works: bool) -> None:
        discovery, topic = data.draw(st.sampled_from(self.counts))
        if works:
            self.count(discovery, topic)
        else:
            self.counts.remove((discovery, topic))
            self.tell(PartitionsCounted(discovery, topic, ConnectError("down")))

    def count(self, discovery: int, topic: str) -> None:
        self.counts.remove((discovery, topic))
        again = self.is_rediscovering
        known = self.partitions.get(topic)
        current = discovery == self.machine.discovery
        if known is not None and current and not again:
            self.told_counts[topic] = known
        self.tell(PartitionsCounted(discovery, topic, GONE if known is None else known))
        if (
            again
            and not self.is_rediscovering
            and self.machine.state is State.READY
            and self.kind in {"one", "list"}
            and known
        ):
            names = {str(TopicName.parse(topic).partition(index)) for index in range(known)}
            left = names - set(self.live.values()) - self.given_up
            assert not left, f"{left} were forgotten"
        if again and current and not self.has_pattern:
            assert self.told_counts[topic] >= known, "nobody was told that there are more"

    @precondition(lambda self: self.timers)
    @rule()
    def time_passes(self) -> None:
        timer = self.timers.pop()
        self.now += timer.delay
        self.tell(timer.event)

    @rule()
    def topics_stir(self) -> None:
        self.is_stirred = self.is_rediscovering
        self.tell(TopicListChanged())

    # What members do.

    @precondition(lambda self: self.opening)
    @rule(data=st.data())
    def a_member_opens(self, data: st.DataObject) -> None:
        self.open_member(data.draw(st.sampled_from(sorted(self.opening))))

    def open_member(self, member: int) -> None:
        self.open[member] = self.opening.pop(member)
        self.tell(MemberOpened(member, "name"))

    @precondition(lambda self: self.live)
    @rule(error=st.sampled_from([REFUSED, GONE]), data=st.data(), twice=st.booleans())
    def a_member_ends(self, error: Any, data: st.DataObject, *, twice: bool) -> None:
        self.end_member(data.draw(st.sampled_from(sorted(self.live))), error)
        if twice and self.machine.state not in FINAL:
            self.tell(MemberLost(0, error))

    @precondition(lambda self: set(self.live) & self.closing)
    @rule()
    def a_member_closes(self) -> None:
        self.end_member(min(set(self.live) & self.closing), AlreadyClosed("closed"))

    def end_member(self, member: int, error: Any) -> None:
        topic = self.live[member]
        was_open = self.open.pop(member, None) is not None
        self.opening.pop(member, None)
        for call in [each for each in self.calls if each.member == member]:
            self.answer(call, error)
        if was_open and member not in self.closing and not self.has_pattern:
            self.given_up.add(topic)
        self.tell(MemberLost(member, error))

    @precondition(lambda self: self.calls)
    @rule(works=st.sampled_from([True, True, False]), data=st.data())
    def a_member_answers(self, data: st.DataObject, *, works: bool) -> None:
        call = data.draw(st.sampled_from(self.calls))
        unsubscribed = works and call.request is UnsubscribeAll
        topic = self.live[call.member]
        self.answer(call, "done" if works else REFUSED)
        if unsubscribed:
            if call.member not in self.closing:
                self.given_up.add(topic)
            self.end_member(call.member, AlreadyClosed("unsubscribed"))

    def answer(self, call: AskMember, outcome: Any) -> None:
        self.calls.remove(call)
        self.tell(MemberAnswered(call.call, call.member, outcome))

    # What holds all the time.

    @property
    def usable(self) -> dict[str, int]:
        return {topic: number for number, topic in self.open.items() if number not in self.closing}

    @invariant()
    def callers_have_exactly_those_that_are_there(self) -> None:
        if self.machine is not None and self.machine.state in IN_USE and not self.in_the_middle:
            assert self.admitted == self.usable, "callers have others than those that are there"

    @invariant()
    def a_state_that_waits_has_asked(self) -> None:
        if self.machine is None:
            return
        discovery = self.machine.discovery
        questions = [each for each in self.lists if each == discovery] + [
            one for one, _ in self.counts if one == discovery
        ]
        waits = {
            State.DISCOVERING: questions,
            State.OPENING: self.opening,
            State.ROLLING_BACK: self.live,
            State.CLOSING: self.live,
            State.UNSUBSCRIBING: self.calls,
        }
        assert waits.get(self.machine.state, True), "waits for nothing"
        assert questions or not self.is_rediscovering, "waits for nothing"
        resting = self.machine.state is State.READY and not self.is_rediscovering
        if resting and self.kind == "pattern" and self.is_stirred:
            assert self.timers[-1].delay <= TOPICS_CHANGED_PAUSE, "does not look for what has come"
        if self.machine.state in {State.ROLLING_BACK, State.CLOSING}:
            assert set(self.live) <= self.closing, "a member was not told to close"
        if self.machine.state is State.READY and self.kind in {"one", "list"}:
            assert self.live, "in use, and nobody is left"

    @invariant()
    def users_hear_once_how_the_creation_and_the_set_ended(self) -> None:
        if self.machine is None:
            return
        over = self.machine.state in FINAL
        assert len(self.created) <= 1, "two answers to one creation"
        assert self.ends == over, "ended, or not, against what was said"
        if over:
            assert self.created, "a creation without an answer"
            assert set(self.asked) == set(self.answered), "a call was forgotten"
            assert self.was_ended_at_once or set(self.live) <= self.closing, "a member was left behind"
        if self.machine.state in IN_USE:
            assert self.created == [MultiTopicsOpened], "in use, and nobody knows"
            assert not self.is_unsubscribed, "unsubscribed, and still in use"

    def teardown(self) -> None:
        """Bring any run to its end, but for those that have broken a promise already."""
        if self.in_the_middle or self.machine is None:
            return
        self.was_told_to_end = True
        self.tell(Close())
        while self.live and self.machine.state not in FINAL:
            self.end_member(min(self.live), AlreadyClosed("closed"))
        assert self.machine.state in FINAL, "it never ended"
        self.users_hear_once_how_the_creation_and_the_set_ended()


MODEL = settings(max_examples=150, stateful_step_count=30)
HUNT = hunting(MODEL)


def test_every_promise_of_a_handle_on_several_topics_holds() -> None:
    run_state_machine_as_test(AnySet, settings=MODEL)


def grow_in_silence(machine: PartitionDiscovery, event: PartitionsCounted, now: float) -> Any:
    return [effect for effect in machine.note_count(event, now) if not isinstance(effect, PartitionsGrown)]


def let_all_go(machine: PartitionDiscovery, event: MatchingTopicsListed, now: float) -> Any:
    subscribed = machine._subscribed
    gone = UpdateMembers({}, gone=tuple(subscribed.open.values()))
    closed = [CloseMember(member) for member in subscribed.close_all()]
    return [*closed, gone, *machine.drop_gone_and_count(event, now)]


FURTHER: dict[str, Callable[..., Any]] = {"grow_in_silence": grow_in_silence, "let_all_go": let_all_go}
"""Actions that only faults name."""


# fmt: off
FAULTS = [
    fault(MemberOpened, State.OPENING, "note_opened", {"dest": State.READY, "does": "begin"},
          "there before its members", "a_member_opens", "go_on"),
    fault(MemberOpened, State.OPENING, "create_others", {"does": "note_opened"},
          "waits for nothing", "a_member_opens", "go_on"),
    fault(MemberLost, State.OPENING, "roll_back", {"does": "note_gone"},
          "not told to close", "a_member_ends", "a_member_opens", "go_on"),
    fault(MemberLost, State.OPENING, "fail_alone", {"dest": State.ROLLING_BACK, "does": "roll_back"},
          "waits for nothing|never ended", "a_member_ends"),
    fault(MemberLost, State.ROLLING_BACK, "end_rolled_back", {"does": "note_gone"},
          "against what was said", "a_member_ends", "a_member_closes", "go_on", "a_member_opens"),
    fault(MemberLost, State.READY, "end_without_members", {"dest": INTERNAL, "does": "release_lost_member"},
          "nobody is left", "a_member_ends", "go_on"),
    fault(MemberLost, State.READY, "release_lost_member", {"does": None},
          "callers have others|never ended", "a_member_ends", "go_on", "want", "time_passes", "topics_change"),
    fault(PartitionsCounted, DiscoveryState.COUNTING, "note_count", {"does": None},
          "waits for nothing", "answer_count", "go_on"),
    fault(PartitionsCounted, State.READY, "create_missing_and_rest", {"does": "rest"},
          "were forgotten", "topics_change", "time_passes", "go_on"),
    fault(PartitionsCounted, DiscoveryState.COUNTING, "note_count", {"does": "grow_in_silence"},
          "nobody was told", "topics_change", "time_passes", "go_on", guard="is_last_answer"),
    fault(MatchingTopicsListed, DiscoveryState.LISTING, "drop_gone_and_count", {"dest": DiscoveryState.RESTING},
          "waits for nothing|never ended", "answer_list", "go_on"),
    fault(MatchingTopicsListed, DiscoveryState.LISTING, "drop_gone_and_count", {"does": "let_all_go"},
          "a named topic was left", "topics_stir", "answer_list", "go_on", "topics_change"),
    fault(DiscoveryDue, DiscoveryState.RESTING, "count_partitioned", {"does": None},
          "waits for nothing", "time_passes", "go_on"),
    fault(TopicListChanged, DiscoveryState.LISTING, "note_change", {"does": None},
          "does not look for what", "topics_stir", "time_passes", "go_on"),
    fault(AskMembers, State.READY, "pass_on", {"does": None},
          "a call was forgotten", "ask", "close", "a_member_closes"),
    fault(MemberAnswered, State.UNSUBSCRIBING, "end_unsubscribed", {"dest": State.READY, "does": "note_answer"},
          "unsubscribed, and still in use", "unsubscribe", "a_member_answers", "go_on"),
    fault(Close, State.OPENING, "close_while_opening", {"dest": State.CLOSED, "does": "end_unmade"},
          "left behind", "close", "go_on", "a_member_opens"),
    fault(Close, State.READY, "close_all", {"dest": State.CLOSED, "does": "end_memberless"},
          "left behind", "close", "go_on"),
    fault(EndAtOnce, State.READY, "end_immediately", {"does": None},
          "against what was said", "ask", "a_member_answers", "end_at_once", "go_on"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    if isinstance(fault.state, DiscoveryState):
        later = {"time_passes", "topics_stir"} & fault.rules
        hunt = Hunt(DISCOVERY, PartitionDiscovery, AnySet, FURTHER, HUNT, "discovery_class")
        hunt.find_out(fault, 4 if later else 0)
    else:
        early = (State.OPENING, State.ROLLING_BACK)
        Hunt(CHART, MultiTopics, AnySet, FURTHER, HUNT).find_out(fault, 0 if fault.state in early else 4)
