"""Events and effects of a handle on several topics: those of `multi_topics.py` and `partition_discovery.py`.

Open, Close and EndAtOnce, CreationFailed, Fail and HandleEnded are those of a single producer or consumer, and stand in
`connection_handler_events.py`. A `discovery` is the number of one discovery, and its answers carry it. A `member` is
the number of one producer or consumer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pulsar_actors.exceptions import PulsarException


class MultiTopicsSettings(NamedTuple):
    """The settings of a handle on several topics; `what` names it in errors.

    `topics` are those that the user has named, each with the number of its partitions if that is known; a pattern finds
    others beside them. The member of the partition `first` is created first and gives its name to the others; None: all
    are created at once. `look_again` is the pause between discoveries in seconds, 0 for no further discovery. A `lazy`
    handle creates no other member before it is wanted. With `watches` a broker tells when topics come or go.
    """

    what: str
    topics: dict[str, int | None]
    has_pattern: bool = False
    look_again: float = 0.0
    first: int | None = None
    lazy: bool = False
    watches: bool = False

    def names(self, topic: str) -> bool:
        """Tell a topic that the user has named, and that may be created, from one that a pattern has found."""
        return not self.has_pattern or topic in self.topics


# Events of the user.


class AskMembers(NamedTuple):
    """Ask every member, or those of topics that are `stored`; `request` makes the member's message from a future."""

    token: object
    request: Callable[[Any], object]
    stored: bool = False


class UnsubscribeAll(NamedTuple):
    """Delete the subscription on every topic, and end; `request` as in `AskMembers`."""

    token: object
    request: Callable[[Any], object]


class MemberWanted(NamedTuple):
    """A caller has a message for a partition whose producer is not created yet."""

    topic: str


# Events from `multi_topics.py` to `partition_discovery.py`.


class Discover(NamedTuple):
    """Start the first discovery."""


class DiscoverLater(NamedTuple):
    """Start the next discovery after a pause."""


class StopDiscovery(NamedTuple):
    """Stop: no member is to be created any more."""


# Events of lookups.


class MatchingTopicsListed(NamedTuple):
    """The topics of the namespace that match, each with the names it was listed as; or the error."""

    discovery: int
    outcome: dict[str, tuple[str, ...]] | PulsarException


class PartitionsCounted(NamedTuple):
    """The number of partitions of a topic, 0 if it is not partitioned; or the error."""

    discovery: int
    topic: str
    outcome: int | PulsarException


class TopicListChanged(NamedTuple):
    """A broker tells that topics have come or gone."""


# Events of members.


class MemberOpened(NamedTuple):
    """A member is created; a producer has this name."""

    member: int
    name: str


class MemberLost(NamedTuple):
    """A member could not be created, or has ended."""

    member: int
    error: PulsarException


class MemberAnswered(NamedTuple):
    """A member's answer to a call to all, or its error."""

    call: int
    member: int
    outcome: Any


# Events of time.


class DiscoveryDue(NamedTuple):
    """The pause before the next discovery is over."""

    generation: int


# Effects.


class ListTopics(NamedTuple):
    """List the topics that match; answer with `MatchingTopicsListed`."""

    discovery: int


class CountPartitions(NamedTuple):
    """Count the partitions of a topic, which may be created if `may_create`; answer with `PartitionsCounted`."""

    discovery: int
    topic: str
    may_create: bool = True


class CreateMember(NamedTuple):
    """Create a producer, with this name if there is one, or a consumer; answer `MemberOpened` or `MemberLost`.

    `among` is the number of members with this one, which share the queue's size. With `may_create` the broker may
    create the topic, unlike one that a pattern has found. A member that comes `later` was not part of the creation that
    the user waited for.
    """

    member: int
    topic: str
    name: str
    among: int
    may_create: bool = True
    later: bool = False


class CloseMember(NamedTuple):
    """Close a member, or release it if it has ended; answer `MemberLost` unless it has come before."""

    member: int


class AskMember(NamedTuple):
    """Ask a member; answer with `MemberAnswered`."""

    call: int
    member: int
    request: Callable[[Any], object]


class WatchTopics(NamedTuple):
    """Have a broker tell when topics come or go; answer with `TopicListChanged`."""


class UpdateMembers(NamedTuple):
    """Let callers use these members as well, by topic, and no longer those of the topics that are `gone`.

    The `uncreated` topics get a member when a caller has a message for them. The effect names only what changes: of
    thousands of members, each may come by itself.
    """

    members: dict[str, int]
    gone: tuple[str, ...] = ()
    uncreated: tuple[str, ...] = ()


class PartitionsGrown(NamedTuple):
    """A topic has so many partitions by now."""

    topic: str
    partitions: int


class MultiTopicsOpened(NamedTuple):
    """The creation has succeeded."""


class MembersDone(NamedTuple):
    """Complete a call, with the members' answers by topic."""

    token: object
    answers: dict[str, Any]
