"""Events and effects of a handle on several topics: those of `multi_topics.py` and `partition_discovery.py`.

Open, Close, EndAtOnce, FirstCreationFailed, Fail and HandleEnded are those of a single producer or consumer, and are in
`connection_handler_events.py`. `discovery` is the number of a discovery, and its answers carry it. `member` is the
number of one producer or consumer.
"""

from collections.abc import Callable
from typing import Any

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.named_tuple import NamedTuple


class MultiTopicsSettings(NamedTuple):
    """The settings of a handle on several topics; `what` names it in errors.

    `topics` are those that the user has named, each with the number of its partitions if that is known; a pattern finds
    others besides them. The member of the partition `first` is created first and gives its name to the others; None:
    all are created at the same time. `look_again` is the pause between discoveries in seconds, 0 for no further
    discovery. With `lazy`, each other member is created by its first message. With `watches`, a broker reports topics
    that are created and deleted.
    """

    what: str
    topics: dict[str, int | None]
    has_pattern: bool = False
    look_again: float = 0.0
    first: int | None = None
    lazy: bool = False
    watches: bool = False

    def names(self, topic: str) -> bool:
        """Return whether the user has named the topic, so that it may be created; False if a pattern has found it."""
        return not self.has_pattern or topic in self.topics


# Events of the user.


class AskMembers(NamedTuple):
    """Ask every member, or those of `persistent` topics; `request` makes the member's message from a future."""

    token: object
    request: Callable[[Any], object]
    persistent: bool = False


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
    """Stop the discovery: no further member is needed."""


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
    """A broker reports that topics were created or deleted."""


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

    `among` is the number of members, this one included, which share the queue's size. With `may_create` the broker may
    create the topic; not for one that a pattern has found. `later` is True if the member was not part of the creation
    that the user waited for.
    """

    member: int
    topic: str
    name: str
    among: int
    may_create: bool = True
    later: bool = False


class CloseMember(NamedTuple):
    """Close a member, or release it if it has ended. Answer with `MemberLost`, unless that came before."""

    member: int


class AskMember(NamedTuple):
    """Ask a member; answer with `MemberAnswered`."""

    call: int
    member: int
    request: Callable[[Any], object]


class WatchTopics(NamedTuple):
    """Let a broker report created and deleted topics; answer with `TopicListChanged`."""


class UpdateMembers(NamedTuple):
    """Show these members to callers, by topic, and hide those of the topics that are `gone`.

    The `uncreated` topics get a member when a caller has a message for them. The effect has only the changes, because
    thousands of members may come one by one.
    """

    members: dict[str, int]
    gone: tuple[str, ...] = ()
    uncreated: tuple[str, ...] = ()


class PartitionsGrown(NamedTuple):
    """The number of partitions of a topic has grown."""

    topic: str
    partitions: int


class MultiTopicsOpened(NamedTuple):
    """The creation has succeeded."""


class MembersDone(NamedTuple):
    """Complete a call, with the members' answers by topic."""

    token: object
    answers: dict[str, Any]
