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
from mutants import Fault, Hunt, fault, hunting

from pulsar_actors.exceptions import AlreadyClosed, ConnectError, ProducerBusy, TopicNotFound
from pulsar_actors.machines.binding_events import Close, CreationFailed, EndAtOnce, Ended, Fail, Open
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.machines.topic_set import CHART, IN_USE, OVER, State, TopicSet
from pulsar_actors.machines.topic_set_events import (
    Admit,
    Ask,
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
    MemberOpened,
    PassOn,
    SetOpened,
    Stirred,
    SurveyDue,
    UnsubscribeAll,
    Wanted,
    WatchTopics,
)
from pulsar_actors.machines.topic_set_members import STIRRED_PAUSE
from pulsar_actors.machines.topic_set_settings import TopicSetSettings
from pulsar_actors.wire.topic_name import TopicName

NAMES = ["persistent://public/default/a", "persistent://public/default/b"]
GONE = TopicNotFound("TopicNotFound", "gone")
REFUSED = ProducerBusy("ProducerBusy", "no")
KINDS = {
    "one": TopicSetSettings("a set", {NAMES[0]: 2}, look_again=1.0, first=1),
    "lazy": TopicSetSettings("a set", {NAMES[0]: 3}, look_again=1.0, first=0, lazy=True),
    "list": TopicSetSettings("a set", dict.fromkeys(NAMES), look_again=1.0),
    "pattern": TopicSetSettings("a set", {}, has_pattern=True, look_again=1.0, watches=True),
    "pattern and name": TopicSetSettings("a set", {NAMES[0]: None}, has_pattern=True, look_again=1.0, watches=True),
}


class AnySet(RuleBasedStateMachine):
    """A set, the topics that there are, and a record of what its members and its users were told."""

    machine_class: Any = TopicSet
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
        self.calls: list[PassOn] = []
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
            case ListTopics(survey):
                assert survey not in self.lists, "asked twice at once"
                self.lists.append(survey)
                self.is_stirred = False
            case CountPartitions(survey, topic):
                self.counts.append((survey, topic))
            case MakeMember(member, topic, name):
                self.make(member, topic, name)
            case CloseMember(member):
                self.closing.add(member)
                topic = self.live.get(member, "")
                is_named = self.kind == "pattern and name" and topic.startswith(NAMES[0])
                assert not is_named or self.machine.state not in {State.READY, State.SURVEYING}, (
                    "a named topic was left"
                )
            case PassOn():
                self.calls.append(effect)
            case Admit(members, gone):
                self.admitted = {topic: one for topic, one in self.admitted.items() if topic not in gone}
                self.admitted |= members
            case Grown(topic, partitions):
                self.told_counts[topic] = partitions
            case _:
                self.tell_users(effect)

    def tell_users(self, effect: Any) -> None:
        match effect:
            case Done() | Fail():
                assert effect.token not in self.answered, "a call ended twice"
                self.answered.append(effect.token)
                self.is_unsubscribed |= isinstance(effect, Done) and effect.token in self.unsubscribing
            case WatchTopics():
                assert self.has_pattern
            case SetOpened():
                self.created.append(SetOpened)
                self.check_that_all_are_there()
            case CreationFailed():
                self.created.append(CreationFailed)
                assert self.was_told_to_end or not self.live, "failed while members are there"
            case Ended():
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
        self.told_counts = {topic: count for topic, count in KINDS[self.kind].topics.items() if count is not None}
        self.tell(Open())
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Let all that is asked for succeed."""
        for survey in [*self.lists]:
            self.list_topics(survey)
        for survey, topic in [*self.counts]:
            self.count(survey, topic)
        for member in [*self.opening]:
            if member not in self.closing:
                self.open_member(member)

    @precondition(lambda self: self.machine.state in {*IN_USE, State.CLOSING, State.ROLLING_BACK, *OVER})
    @rule()
    def ask(self) -> None:
        self.asked.append(len(self.asked))
        self.tell(Ask(self.asked[-1], object))

    @precondition(lambda self: self.machine.state in {*IN_USE, State.CLOSING, State.ROLLING_BACK, *OVER})
    @rule()
    def unsubscribe(self) -> None:
        self.asked.append(len(self.asked))
        self.unsubscribing.add(self.asked[-1])
        self.tell(UnsubscribeAll(self.asked[-1], UnsubscribeAll))

    @precondition(lambda self: self.kind == "lazy")
    @rule(index=st.integers(0, 2))
    def want(self, index: int) -> None:
        self.tell(Wanted(str(TopicName.parse(NAMES[0]).partition(index))))

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
        survey = self.lists[0]
        if works:
            self.list_topics(survey)
        else:
            self.lists.remove(survey)
            self.tell(Listed(survey, ConnectError("down")))

    def list_topics(self, survey: int) -> None:
        self.lists.remove(survey)
        self.tell(Listed(survey, {name: (name,) for name in self.partitions}))

    @precondition(lambda self: self.counts)
    @rule(works=st.sampled_from([True, True, False]), data=st.data())
    def answer_count(self, data: st.DataObject, *, works: bool) -> None:
        survey, topic = data.draw(st.sampled_from(self.counts))
        if works:
            self.count(survey, topic)
        else:
            self.counts.remove((survey, topic))
            self.tell(Counted(survey, topic, ConnectError("down")))

    def count(self, survey: int, topic: str) -> None:
        self.counts.remove((survey, topic))
        surveying = self.machine.state is State.SURVEYING
        known = self.partitions.get(topic)
        if known is not None and not surveying:
            self.told_counts[topic] = known
        current = survey == self.machine.survey_number
        self.tell(Counted(survey, topic, GONE if known is None else known))
        if surveying and self.machine.state is State.READY and self.kind in {"one", "list"} and known:
            names = {str(TopicName.parse(topic).partition(index)) for index in range(known)}
            left = names - set(self.live.values()) - self.given_up
            assert not left, f"{left} were forgotten"
        if surveying and current and not self.has_pattern:
            assert self.told_counts[topic] >= known, "nobody was told that there are more"

    @precondition(lambda self: self.timers)
    @rule()
    def time_passes(self) -> None:
        timer = self.timers.pop()
        self.now += timer.delay
        self.tell(timer.event)

    @rule()
    def topics_stir(self) -> None:
        self.is_stirred = self.machine.state is State.SURVEYING
        self.tell(Stirred())

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
        if twice and self.machine.state not in OVER:
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

    def answer(self, call: PassOn, outcome: Any) -> None:
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
    def whoever_waits_has_asked(self) -> None:
        if self.machine is None:
            return
        survey = self.machine.survey_number
        questions = [each for each in self.lists if each == survey] + [one for one, _ in self.counts if one == survey]
        waits = {
            State.DISCOVERING: questions,
            State.SURVEYING: questions,
            State.OPENING: self.opening,
            State.ROLLING_BACK: self.live,
            State.CLOSING: self.live,
            State.UNSUBSCRIBING: self.calls,
        }
        assert waits.get(self.machine.state, True), "waits for nothing"
        if self.machine.state is State.READY and self.kind == "pattern" and self.is_stirred:
            assert self.timers[-1].delay <= STIRRED_PAUSE, "does not look for what has come"
        if self.machine.state in {State.ROLLING_BACK, State.CLOSING}:
            assert set(self.live) <= self.closing, "a member was not told to close"
        if self.machine.state in {State.READY, State.SURVEYING} and self.kind in {"one", "list"}:
            assert self.live, "in use, and nobody is left"

    @invariant()
    def users_hear_once_how_the_creation_and_the_set_ended(self) -> None:
        if self.machine is None:
            return
        over = self.machine.state in OVER
        assert len(self.created) <= 1, "two answers to one creation"
        assert self.ends == over, "ended, or not, against what was said"
        if over:
            assert self.created, "a creation without an answer"
            assert set(self.asked) == set(self.answered), "a call was forgotten"
            assert self.was_ended_at_once or set(self.live) <= self.closing, "a member was left behind"
        if self.machine.state in IN_USE:
            assert self.created == [SetOpened], "in use, and nobody knows"
            assert not self.is_unsubscribed, "unsubscribed, and still in use"

    def teardown(self) -> None:
        """Bring any run to its end, but for those that have broken a promise already."""
        if self.in_the_middle or self.machine is None:
            return
        self.was_told_to_end = True
        self.tell(Close())
        while self.live and self.machine.state not in OVER:
            self.end_member(min(self.live), AlreadyClosed("closed"))
        assert self.machine.state in OVER, "it never ended"
        self.users_hear_once_how_the_creation_and_the_set_ended()


MODEL = settings(max_examples=150, stateful_step_count=30)
HUNT = hunting(MODEL)


def test_every_promise_of_a_topic_set_holds() -> None:
    run_state_machine_as_test(AnySet, settings=MODEL)


def grow_in_silence(machine: TopicSet, event: Counted, now: float) -> Any:
    return [effect for effect in machine.note_and_grow(event, now) if not isinstance(effect, Grown)]


def let_all_go(machine: TopicSet, event: Listed, now: float) -> Any:
    gone = Admit({}, gone=tuple(machine.roster.open.values()))
    closed = [CloseMember(member) for member in machine.roster.leave()]
    return [*closed, gone, *machine.sort_out_and_count(event, now)]


FURTHER: dict[str, Callable[..., Any]] = {"grow_in_silence": grow_in_silence, "let_all_go": let_all_go}
"""Actions that only faults name."""


# fmt: off
FAULTS = [
    fault(MemberOpened, State.OPENING, "note_opened", {"dest": State.READY, "does": "begin"},
          "there before its members", "a_member_opens", "go_on"),
    fault(MemberOpened, State.OPENING, "make_others", {"does": "note_opened"},
          "waits for nothing", "a_member_opens", "go_on"),
    fault(MemberLost, State.OPENING, "roll_back", {"does": "note_gone"},
          "not told to close", "a_member_ends", "a_member_opens", "go_on"),
    fault(MemberLost, State.OPENING, "fail_alone", {"dest": State.ROLLING_BACK, "does": "roll_back"},
          "waits for nothing|never ended", "a_member_ends"),
    fault(MemberLost, State.ROLLING_BACK, "end_rolled_back", {"does": "note_gone"},
          "against what was said", "a_member_ends", "a_member_closes", "go_on", "a_member_opens"),
    fault(MemberLost, State.READY, "end_without_members", {"dest": INTERNAL, "does": "let_go"},
          "nobody is left", "a_member_ends", "go_on"),
    fault(MemberLost, State.READY, "let_go", {"does": None},
          "callers have others|never ended", "a_member_ends", "go_on", "want", "time_passes", "topics_change"),
    fault(Counted, State.DISCOVERING, "note_count", {"does": None},
          "waits for nothing", "answer_count", "go_on"),
    fault(Counted, State.SURVEYING, "note_and_grow", {"does": "note_count"},
          "were forgotten", "topics_change", "time_passes", "go_on"),
    fault(Counted, State.SURVEYING, "note_and_grow", {"does": "grow_in_silence"},
          "nobody was told", "topics_change", "time_passes", "go_on"),
    fault(Listed, State.DISCOVERING, "count_listed", {"dest": State.OPENING},
          "waits for nothing|never ended", "answer_list", "go_on"),
    fault(Listed, State.SURVEYING, "sort_out_and_count", {"does": "let_all_go"},
          "a named topic was left", "topics_stir", "answer_list", "go_on", "topics_change"),
    fault(SurveyDue, State.READY, "survey", {"does": None},
          "waits for nothing", "time_passes", "go_on"),
    fault(Stirred, State.SURVEYING, "note_stir", {"does": None},
          "does not look for what", "topics_stir", "time_passes", "go_on"),
    fault(Ask, State.READY, "pass_on", {"does": None},
          "a call was forgotten", "ask", "close", "a_member_closes"),
    fault(MemberAnswered, State.UNSUBSCRIBING, "end_unsubscribed", {"dest": State.READY, "does": "note_answer"},
          "unsubscribed, and still in use", "unsubscribe", "a_member_answers", "go_on"),
    fault(Close, State.OPENING, "abandon", {"dest": State.CLOSED, "does": "end_unmade"},
          "left behind", "close", "go_on", "a_member_opens"),
    fault(Close, State.READY, "close_all", {"dest": State.CLOSED, "does": "end_memberless"},
          "left behind", "close", "go_on"),
    fault(EndAtOnce, State.READY, "end_without_goodbye", {"does": None},
          "against what was said", "ask", "a_member_answers", "end_at_once", "go_on"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    early = (State.DISCOVERING, State.OPENING, State.ROLLING_BACK)
    Hunt(CHART, TopicSet, AnySet, FURTHER, HUNT).find_out(fault, 0 if fault.state in early else 4)
