"""What a topic set hears and answers with: the events and effects of `topic_set.py`.

Open, Close and EndAtOnce, CreationFailed, Fail and Ended are those of a single producer or consumer, and stand in
`binding_events.py`. A `survey` is one look at which topics there are, and its answers carry that number. A `member` is
the number of one producer or consumer of the set.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pulsar_actors.exceptions import PulsarException

# Events of our own side.


class Ask(NamedTuple):
    """Put something to every member, or to those of topics that are `stored`; `request` makes it of a future."""

    token: object
    request: Callable[[Any], object]
    stored: bool = False


class UnsubscribeAll(NamedTuple):
    """Delete the subscription on every topic, and end the set; `request` as in Ask."""

    token: object
    request: Callable[[Any], object]


class Wanted(NamedTuple):
    """A caller has something for a partition whose producer was not started so far."""

    topic: str


# Events of lookups.


class Listed(NamedTuple):
    """The topics of the namespace that match, as they were listed under each name; or why they were not told."""

    survey: int
    outcome: dict[str, tuple[str, ...]] | PulsarException


class Counted(NamedTuple):
    """The number of partitions of a topic, 0 for none at all; or why it was not told."""

    survey: int
    topic: str
    outcome: int | PulsarException


class Stirred(NamedTuple):
    """A broker says that topics have come or gone."""


# Events of members.


class MemberOpened(NamedTuple):
    """A member is there; a producer has this name."""

    member: int
    name: str


class MemberLost(NamedTuple):
    """A member could not be made, or has ended."""

    member: int
    error: PulsarException


class MemberAnswered(NamedTuple):
    """A member's answer to what was put to all, or an error."""

    call: int
    member: int
    outcome: Any


# Events of time.


class SurveyDue(NamedTuple):
    """It is time to look again."""

    generation: int


# Effects.


class ListTopics(NamedTuple):
    """Ask for the topics that match; answer with `Listed`."""

    survey: int


class CountPartitions(NamedTuple):
    """Ask how many partitions a topic has, which is created if it `may_create` it; answer with `Counted`."""

    survey: int
    topic: str
    may_create: bool = True


class MakeMember(NamedTuple):
    """Make a producer, with this name if there is one, or a consumer; answer `MemberOpened` or `MemberLost`.

    `among` is how many members the set has with it, which share what it has of queues. What was named may be created;
    what a pattern has found is there, or has gone. One that comes `later` is of a topic that was not among those the
    user waited for.
    """

    member: int
    topic: str
    name: str
    among: int
    may_create: bool = True
    later: bool = False


class CloseMember(NamedTuple):
    """Tell a member to close, or let go of it if it has ended; `MemberLost` comes if it has not come before."""

    member: int


class PassOn(NamedTuple):
    """Put something to a member; answer with `MemberAnswered`."""

    call: int
    member: int
    request: Callable[[Any], object]


class WatchTopics(NamedTuple):
    """Have a broker say when topics come or go; answer with `Stirred`."""


class Admit(NamedTuple):
    """Let callers use these members as well, by topic, and no longer those of the topics that are `gone`.

    Those that are `resting` have no member before a caller has something for one. It tells what changes and no more:
    of thousands of members, each may come by itself.
    """

    members: dict[str, int]
    gone: tuple[str, ...] = ()
    resting: tuple[str, ...] = ()


class Grown(NamedTuple):
    """Tell whoever cares that a topic has so many partitions by now."""

    topic: str
    partitions: int


class SetOpened(NamedTuple):
    """Tell the user that the set is there."""


class Done(NamedTuple):
    """Tell the token of a call that it is done, with the members' answers by topic."""

    token: object
    answers: dict[str, Any]
