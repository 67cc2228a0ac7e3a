"""A set of producers or consumers that users hold as one: of a partitioned topic, of several topics, of a pattern.

The machine decides which members there are. It looks which topics match and how many partitions each has, has a member
made for each, all at once, and tells the user when all are there. If one is refused for good, the others are closed
first, and then the user hears of that error, with the topic that it is about. From then on it looks again now and then:
for new partitions, and for topics of a pattern that come and go. What a new member lacks is made up for at the next
look; what was there before is not disturbed by it. A look that has begun is ended, whatever a broker says meanwhile:
the next one follows soon then. Begun anew each time, it would have no end where topics come without end.

Members are bound to their brokers by machines of their own, and reconnect by themselves: here they are there or not.
One that ends by itself leaves the rest at work. When the last has gone, so has the set, but for that of a pattern,
which waits for topics to come. Messages never pass here, and where they go is for routers and queues to say.

Producers of one set share a name. If the user gave none, the first is made alone, and the others get the name that its
broker gave it. A lazy set makes no others before somebody wants to send by them.

What is put to all at once ends once all have answered. A subscription that was deleted on some topics and not on others
goes on with those; and topics without a member are not subscribed to again at the next look.

The actions for the members stand in `topic_set_members.py`, and those for looking in `topic_set_surveys.py`.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import InvalidArgument, PulsarException
from pulsar_actors.machines.binding_events import Close, EndAtOnce, Fail, Open
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Row
from pulsar_actors.machines.topic_set_events import (
    Ask,
    CloseMember,
    Counted,
    Done,
    Listed,
    MemberAnswered,
    MemberLost,
    MemberOpened,
    PassOn,
    Stirred,
    SurveyDue,
    UnsubscribeAll,
    Wanted,
)
from pulsar_actors.machines.topic_set_settings import TopicSetSettings
from pulsar_actors.machines.topic_set_surveys import Surveys
from pulsar_actors.wire.topic_name import TopicName


@unique
class State(Enum):
    """Where a set can be."""

    IDLE = "Made, but not asked to open yet."
    DISCOVERING = "Which topics there are, and how many partitions each has, is being asked."
    OPENING = "The members are being made; the user waits for all of them."
    READY = "In use. Members may still be made, where topics have come or grown, or are wanted only now."
    SURVEYING = "In use, and topics are being asked for again."
    UNSUBSCRIBING = "All members are deleting their subscription; some may be refused."
    ROLLING_BACK = "A member was refused for good; the others are closing before the user hears of it."
    CLOSING = "Closed by our side; the members are closing."
    CLOSED = "Over, as the user wished."
    FAILED = "Over: it could not be created, or nothing is left of it."


IDLE, DISCOVERING, OPENING, READY, SURVEYING, UNSUBSCRIBING, ROLLING_BACK, CLOSING, CLOSED, FAILED = State

USABLE: Final = (READY, SURVEYING)
IN_USE: Final = (*USABLE, UNSUBSCRIBING)
OVER: Final = (CLOSED, FAILED)
ENDING: Final = (ROLLING_BACK, CLOSING)
LIVE: Final = (IDLE, DISCOVERING, OPENING, *IN_USE, *ENDING)

# fmt: off
ROWS: Final = (
    #   trigger          source         dest           guard                   does
    Row(Open,            IDLE,          OPENING,       "is_counted",           "make_first"),
    Row(Open,            IDLE,          DISCOVERING,   None,                   "discover"),
    Row(Listed,          DISCOVERING,   FAILED,        "is_fatal",             "fail_creation"),
    Row(Listed,          DISCOVERING,   READY,         "leaves_nothing",       "begin_empty"),
    Row(Listed,          DISCOVERING,   INTERNAL,      None,                   "count_listed"),
    Row(Counted,         DISCOVERING,   FAILED,        "is_fatal",             "fail_creation"),
    Row(Counted,         DISCOVERING,   OPENING,       "is_last_answer",       "note_and_make"),
    Row(Counted,         DISCOVERING,   INTERNAL,      None,                   "note_count"),
    Row(MemberOpened,    OPENING,       READY,         "completes",            "begin"),
    Row(MemberOpened,    OPENING,       INTERNAL,      "names_the_others",     "make_others"),
    Row(MemberOpened,    OPENING,       INTERNAL,      None,                   "note_opened"),
    Row(MemberLost,      OPENING,       INTERNAL,      "is_unknown"),
    Row(MemberLost,      OPENING,       READY,         "has_vanished_last",    "begin_without"),
    Row(MemberLost,      OPENING,       INTERNAL,      "has_vanished",         "note_vanished"),
    Row(MemberLost,      OPENING,       FAILED,        "is_the_only_one",      "fail_alone"),
    Row(MemberLost,      OPENING,       ROLLING_BACK,  None,                   "roll_back"),
    Row(MemberLost,      ROLLING_BACK,  FAILED,        "is_the_only_one",      "end_rolled_back"),
    Row(MemberLost,      ROLLING_BACK,  INTERNAL,      None,                   "note_gone"),

    # In use: members come and go.
    Row(Wanted,          IN_USE,        INTERNAL,      "is_missing",           "make_wanted"),
    Row(MemberOpened,    IN_USE,        INTERNAL,      None,                   "admit"),
    Row(MemberLost,      IN_USE,        INTERNAL,      "is_unknown"),
    Row(MemberLost,      USABLE,        FAILED,        "leaves_nobody",        "end_without_members"),
    Row(MemberLost,      IN_USE,        INTERNAL,      None,                   "let_go"),
    Row(SurveyDue,       READY,         SURVEYING,     None,                   "survey"),
    Row(Stirred,         READY,         SURVEYING,     "has_pattern",          "survey"),
    Row(Stirred,         SURVEYING,     INTERNAL,      "has_pattern",          "note_stir"),
    Row(Listed,          SURVEYING,     READY,         "was_not_told",         "rest"),
    Row(Listed,          SURVEYING,     READY,         "leaves_nothing_to_ask", "sort_out_and_rest"),
    Row(Listed,          SURVEYING,     INTERNAL,      None,                   "sort_out_and_count"),
    Row(Counted,         SURVEYING,     READY,         "is_last_answer",       "note_and_grow"),
    Row(Counted,         SURVEYING,     INTERNAL,      None,                   "note_count"),

    # In use: calls to all members.
    Row(Ask,             IN_USE,        INTERNAL,      "has_nobody_to_ask",    "answer_at_once"),
    Row(Ask,             IN_USE,        INTERNAL,      None,                   "pass_on"),
    Row(UnsubscribeAll,  USABLE,        CLOSED,        "has_nobody_to_ask",    "end_unused"),
    Row(UnsubscribeAll,  USABLE,        UNSUBSCRIBING, None,                   "unsubscribe"),
    Row(UnsubscribeAll,  UNSUBSCRIBING, INTERNAL,      None,                   "refuse_second"),
    Row(MemberAnswered,  UNSUBSCRIBING, CLOSED,        "ends_it_well",         "end_unsubscribed"),
    Row(MemberAnswered,  UNSUBSCRIBING, FAILED,        "ends_with_nobody",     "end_half_subscribed"),
    Row(MemberAnswered,  UNSUBSCRIBING, READY,         "ends_it_badly",        "go_on_with_the_rest"),
    Row(MemberAnswered,  (*IN_USE, *ENDING), INTERNAL, None,                   "note_answer"),

    # The end.
    Row(Close,           (IDLE, DISCOVERING), CLOSED,  None,                   "end_unmade"),
    Row(Close,           OPENING,       CLOSING,       None,                   "abandon"),
    Row(Close,           IN_USE,        CLOSED,        "has_no_members",       "end_memberless"),
    Row(Close,           IN_USE,        CLOSING,       None,                   "close_all"),
    Row(MemberLost,      CLOSING,       CLOSED,        "is_the_only_one",      "end_closed"),
    Row(MemberLost,      CLOSING,       INTERNAL,      None,                   "note_gone"),
    Row(EndAtOnce,       LIVE,          CLOSED,        None,                   "end_without_goodbye"),
    Row(Ask,             (*ENDING, *OVER), INTERNAL,   None,                   "turn_away"),
    Row(UnsubscribeAll,  (*ENDING, *OVER), INTERNAL,   None,                   "turn_away"),
    Row(Close,           (*ENDING, *OVER), INTERNAL),
    Row(EndAtOnce,       OVER,          INTERNAL),

    # Too late, or too early to mean anything.
    Row(Wanted,          tuple(State),                                          INTERNAL),
    Row(Listed,          (IDLE, OPENING, READY, UNSUBSCRIBING, *ENDING, *OVER), INTERNAL),
    Row(Counted,         (IDLE, OPENING, READY, UNSUBSCRIBING, *ENDING, *OVER), INTERNAL),
    Row(MemberOpened,    (IDLE, DISCOVERING, *ENDING, *OVER),                   INTERNAL),
    Row(MemberLost,      (IDLE, DISCOVERING, *OVER),                            INTERNAL),
    Row(MemberAnswered,  (IDLE, DISCOVERING, OPENING, *OVER),                   INTERNAL),
    Row(SurveyDue,       (IDLE, DISCOVERING, OPENING, SURVEYING, UNSUBSCRIBING, *ENDING, *OVER), INTERNAL),
    Row(Stirred,         tuple(State),                                          INTERNAL),
)
# fmt: on

OURS: Final = (Open, Ask, UnsubscribeAll, Wanted, Close, EndAtOnce)

CHART: Final = Chart("topic_set", states=State, initial=IDLE, final=OVER, ours=OURS, rows=ROWS)


class TopicSet(Surveys, chart=CHART):
    """The guards and actions for calls and for the end, in the chart's order."""

    __slots__ = ("_unsubscribing",)

    def __init__(self, settings: TopicSetSettings) -> None:
        super().__init__(settings)
        self._unsubscribing = 0

    # In use: calls to all members.

    def has_nobody_to_ask(self, event: Ask | UnsubscribeAll, now: float) -> bool:
        """Hold while no topic matches, or none that is to be asked."""
        return not self._asked_ones(event)

    def answer_at_once(self, event: Ask, now: float) -> Effects:
        """All of nobody have done it."""
        return [Done(event.token, {})]

    def pass_on(self, event: Ask | UnsubscribeAll, now: float) -> Effects:
        """Put it to every member."""
        members = self._asked_ones(event)
        call = self._calls.begin(event.token, members)
        return [PassOn(call, member, event.request) for member in members]

    def end_unused(self, event: UnsubscribeAll, now: float) -> Effects:
        """End: there is no subscription."""
        return [Done(event.token, {}), *self._close_members(), *self._end(None)]

    def unsubscribe(self, event: UnsubscribeAll, now: float) -> Effects:
        """Put it to every member, and make no more of them: what is still being made goes."""
        self._stop_looking()
        passed = self.pass_on(event, now)
        self._unsubscribing = passed[0].call if isinstance(passed[0], PassOn) else 0
        opening = [number for number in self.roster.members if self.roster.is_opening(number)]
        self.roster.leave_some(opening)
        return [*passed, *(CloseMember(number) for number in opening)]

    def refuse_second(self, event: UnsubscribeAll, now: float) -> Effects:
        """Have one done before the next."""
        return [Fail(event.token, InvalidArgument("a running unsubscribe has to end first: wait for it"))]

    def ends_it_well(self, event: MemberAnswered, now: float) -> bool:
        """Hold for the last answer, if no topic has refused."""
        return self._ends_unsubscribing(event) and not self._has_refused(event)

    def end_unsubscribed(self, event: MemberAnswered, now: float) -> Effects:
        """End: without its subscription a consumer is nothing."""
        return [*self.note_answer(event, now), *self._close_members(), *self._end(None)]

    def ends_with_nobody(self, event: MemberAnswered, now: float) -> bool:
        """Hold for the last answer when nobody is left, though not all have unsubscribed."""
        return self._ends_unsubscribing(event) and not self.roster.members and not self._settings.has_pattern

    def end_half_subscribed(self, event: MemberAnswered, now: float) -> Effects:
        """Say which topics have refused; nothing is left to go on with."""
        return [*self.note_answer(event, now), *self._end(event.outcome if _is_error(event) else self._error)]

    def ends_it_badly(self, event: MemberAnswered, now: float) -> bool:
        """Hold for the last answer."""
        return self._ends_unsubscribing(event)

    def go_on_with_the_rest(self, event: MemberAnswered, now: float) -> Effects:
        """Say which topics have refused: those stay subscribed."""
        noted = self.note_answer(event, now)
        self._unsubscribing = 0
        return [*noted, *self._rest()]

    def note_answer(self, event: MemberAnswered, now: float) -> Effects:
        """End the call if it was the last one."""
        if event.call == self._unsubscribing and not _is_error(event):
            self.roster.give_up(event.member)
        outcome = self._calls.answered(event.call, event.member, event.outcome)
        if outcome is None:
            return []
        return [Fail(outcome.token, outcome.error) if outcome.error else Done(outcome.token, outcome.answers)]

    # The end.

    def end_unmade(self, event: Close, now: float) -> Effects:
        """There is nobody to close."""
        return self._end(None)

    def abandon(self, event: Close, now: float) -> Effects:
        """Close those that are there or may yet come."""
        return [*self._fail_creation(), *self._close_members()]

    def has_no_members(self, event: Close, now: float) -> bool:
        """Hold when there is nobody to close."""
        return not self.roster.members

    def end_memberless(self, event: Close, now: float) -> Effects:
        """End at once."""
        return self._end(None)

    def close_all(self, event: Close, now: float) -> Effects:
        """Have all members close; what they are asked ends before they do."""
        self._stop_looking()
        return self._close_members()

    def end_closed(self, event: MemberLost, now: float) -> Effects:
        """End with the last one."""
        self.roster.lost(event.member, again=False)
        return self._end(None)

    def end_without_goodbye(self, event: EndAtOnce, now: float) -> Effects:
        """End; whoever said so has told the members as well."""
        return self._end(event.error)

    def turn_away(self, event: Ask | UnsubscribeAll, now: float) -> Effects:
        """Say that it is too late."""
        return [Fail(event.token, self._error)]

    # What several of these share.

    def _asked_ones(self, event: Ask | UnsubscribeAll) -> dict[int, str]:
        """Give those who are asked: of lazy sets also those that are being made, for they may have messages."""
        members = self.roster.staying if self._settings.lazy else self.roster.open
        if not (isinstance(event, Ask) and event.stored):
            return members
        return {number: topic for number, topic in members.items() if TopicName.parse(topic).is_persistent}

    def _ends_unsubscribing(self, event: MemberAnswered) -> bool:
        return event.call == self._unsubscribing and self._calls.ends_with(event.call, event.member)

    def _has_refused(self, event: MemberAnswered) -> bool:
        return _is_error(event) or self._calls.has_failed(event.call)


def _is_error(event: MemberAnswered) -> bool:
    return isinstance(event.outcome, PulsarException)
