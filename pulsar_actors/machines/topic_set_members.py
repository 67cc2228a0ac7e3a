"""Which members a topic set has: made for the topics that there are, admitted, lost; a part of `topic_set.py`.

Which topics there are, and how many partitions each has, is found out in `topic_set_surveys.py`. What is asked of all
members, and how a set ends, stands with the chart.
"""

from collections.abc import Sequence
from typing import Final

from pulsar_actors.exceptions import AlreadyClosed, PulsarException, TopicNotFound
from pulsar_actors.machines.binding_events import CreationFailed, Ended, Fail, Open
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.ledgers.fan_outs import FanOuts, about
from pulsar_actors.machines.ledgers.roster import Roster, Standing
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.machines.topic_set_events import (
    Admit,
    CloseMember,
    MakeMember,
    MemberLost,
    MemberOpened,
    SetOpened,
    SurveyDue,
    Wanted,
    WatchTopics,
)
from pulsar_actors.machines.topic_set_settings import TopicSetSettings

STIRRED_PAUSE: Final = 0.5
"""Seconds after a look, if topics came or went in its course."""


class Members(StateMachine):
    """The guards and actions for members, in the order of the chart."""

    __slots__ = ("_awaited", "_calls", "_error", "_name", "_settings", "_stirred", "roster")

    def __init__(self, settings: TopicSetSettings) -> None:
        super().__init__()
        self.roster = Roster()
        self._settings = settings
        self._calls = FanOuts()
        self._name = ""
        self._stirred = False  # in the course of a look
        self._awaited = True  # the user waits for the set to be there
        self._error: PulsarException = AlreadyClosed(f"{settings.what} is closed")

    @property
    def what(self) -> str:
        """What it is, in errors."""
        return self._settings.what

    @property
    def name(self) -> str:
        """The name that the producers share, if a broker chose it."""
        return self._name

    # Getting to be there.

    def is_counted(self, event: Open, now: float) -> bool:
        """Hold when whoever made the set has asked already."""
        return not self._settings.has_pattern and None not in self._settings.topics.values()

    def make_first(self, event: Open, now: float) -> Effects:
        """Make the members, or the first of them."""
        for topic, partitions in self._settings.topics.items():
            self.roster.note(topic, partitions or 0)
        return self._make_members()

    def completes(self, event: MemberOpened, now: float) -> bool:
        """Hold when nobody else is waited for, and nobody is to be made now."""
        is_last = self.roster.opening == int(self.roster.is_opening(event.member))
        return is_last and (self._settings.lazy or not self.roster.missing())

    def begin(self, event: MemberOpened, now: float) -> Effects:
        """Be there: callers may use all members."""
        self._name = self._name or event.name
        self.roster.opened(event.member)
        return [*self._admit_all(), *self._be_there()]

    def names_the_others(self, event: MemberOpened, now: float) -> bool:
        """Hold for the first one, of whose name the others are to be."""
        return self._settings.first is not None and not self._name

    def make_others(self, event: MemberOpened, now: float) -> Effects:
        """Make all others, with that name."""
        self._name = event.name
        self.roster.opened(event.member)
        return self._make_missing()

    def note_opened(self, event: MemberOpened, now: float) -> Effects:
        """Wait for the others."""
        self.roster.opened(event.member)
        return []

    def is_unknown(self, event: MemberLost, now: float) -> bool:
        """Hold for one that was lost before: it could not be made, and has ended now."""
        return not self.roster.knows(event.member)

    def has_vanished_last(self, event: MemberLost, now: float) -> bool:
        """Hold when a topic that a pattern had found has gone meanwhile, and nobody else is waited for."""
        others = self.roster.opening - int(self.roster.is_opening(event.member))
        return self.has_vanished(event, now) and not others

    def begin_without(self, event: MemberLost, now: float) -> Effects:
        """Be there, with those that are."""
        return [*self.note_vanished(event, now), *self._admit_all(), *self._be_there()]

    def has_vanished(self, event: MemberLost, now: float) -> bool:
        """Hold when a topic that a pattern had found has gone meanwhile, or a member went along with its topic."""
        is_gone = isinstance(event.error, TopicNotFound) or self.roster.is_leaving(event.member)
        return is_gone and self._was_found(self.roster.members[event.member].source)

    def note_vanished(self, event: MemberLost, now: float) -> Effects:
        """Wait for the others. The next look shows whether the topic is back."""
        member = self.roster.lost(event.member, again=True)
        gone = self.roster.drop(member.source) if member else []
        self.roster.leave_some(gone)
        return [CloseMember(number) for number in (event.member, *gone)]

    def is_the_only_one(self, event: MemberLost, now: float) -> bool:
        """Hold when there is no other member to wait for."""
        return self.roster.has_only(event.member)

    def fail_alone(self, event: MemberLost, now: float) -> Effects:
        """Say which topic it was, and why."""
        error = self._reason(event)
        self.roster.lost(event.member, again=False)
        return [CloseMember(event.member), *self._end(error)]

    def roll_back(self, event: MemberLost, now: float) -> Effects:
        """Have the others go first."""
        self._error = self._reason(event)
        self.roster.lost(event.member, again=False)
        return [CloseMember(event.member), *self._close_members()]

    def end_rolled_back(self, event: MemberLost, now: float) -> Effects:
        """Say now why it failed."""
        self.roster.lost(event.member, again=False)
        return self._end(self._error)

    def note_gone(self, event: MemberLost, now: float) -> Effects:
        """Wait for the others."""
        self.roster.lost(event.member, again=False)
        return []

    # In use: members come and go.

    def is_missing(self, event: Wanted, now: float) -> bool:
        """Hold when nobody is there for the topic, nor is being made."""
        return self.roster.is_missing(event.topic)

    def make_wanted(self, event: Wanted, now: float) -> Effects:
        """Make its member."""
        return self._make([(event.topic, self.roster.source_of(event.topic))])

    def admit(self, event: MemberOpened, now: float) -> Effects:
        """Let callers use it."""
        topic = self.roster.opened(event.member)
        return [] if topic is None else [Admit({topic: event.member})]

    def leaves_nobody(self, event: MemberLost, now: float) -> bool:
        """Hold for the last that could be used, where none is to come."""
        return self.is_the_only_one(event, now) and not self._settings.has_pattern and not self._settings.lazy

    def end_without_members(self, event: MemberLost, now: float) -> Effects:
        """Say what the last of them ended with."""
        return self.fail_alone(event, now)

    def let_go(self, event: MemberLost, now: float) -> Effects:
        """Go on without it."""
        member = self.roster.lost(event.member, again=self._settings.has_pattern)
        was_open = member is not None and member.standing is Standing.OPEN
        return [CloseMember(event.member), *([Admit({}, gone=(member.topic,))] if member and was_open else [])]

    # What several of these share.

    def _was_found(self, source: str) -> bool:
        """Tell what a pattern has found, and may go, from what the user has named."""
        return self._settings.has_pattern and source not in self._settings.topics

    def _make_members(self) -> Effects:
        """Make all, or the first one of those that share its name."""
        missing, first = self.roster.missing(), self._settings.first
        return self._make(missing if first is None else missing[first : first + 1])

    def _make_missing(self) -> Effects:
        return self._make(self.roster.missing())

    def _make(self, wanted: Sequence[tuple[str, str]]) -> Effects:
        among, later = self.roster.size, not self._awaited
        return [
            MakeMember(self.roster.ask_for(topic, source), topic, self._name, among, not self._was_found(source), later)
            for topic, source in wanted
        ]

    def _admit_all(self) -> Effects:
        """Let callers use what is there by now."""
        return [Admit({topic: number for number, topic in self.roster.open.items()}), *self._have_places()]

    def _have_places(self) -> Effects:
        """Let callers leave messages where a member is made for the first of them."""
        if not self._settings.lazy:
            return []
        return [Admit({}, resting=tuple(topic for topic, _ in self.roster.missing()))]

    def _rest(self) -> Effects:
        """Look again later, where anything can change."""
        delay = self._settings.look_again
        if not delay or not (self._settings.has_pattern or self.roster.partitioned):
            return []
        return [self.timers.start(SurveyDue, min(delay, STIRRED_PAUSE) if self._stirred else delay)]

    def _reason(self, event: MemberLost) -> PulsarException:
        return about(self.roster.members[event.member].topic, event.error)

    def _close_members(self) -> Effects:
        return [CloseMember(number) for number in self.roster.leave()]

    def _be_there(self) -> Effects:
        """Tell the user."""
        self._awaited = False
        watch = [WatchTopics()] if self._settings.watches else []
        return [SetOpened(), *watch, *self._rest()]

    def _fail_creation(self) -> Effects:
        """Tell a user who still waits for the set to be there."""
        waits, self._awaited = self._awaited, False
        return [CreationFailed(self._error)] if waits else []

    def _end(self, error: PulsarException | None) -> Effects:
        """End, and tell everybody who waits for something."""
        if error is not None:
            self._error = error
        calls = [Fail(token, self._error) for token in self._calls.drain()]
        return [*self._fail_creation(), *calls, Ended(error)]
