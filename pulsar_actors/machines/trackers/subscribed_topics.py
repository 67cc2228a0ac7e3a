"""The topics of a producer, consumer or reader of several topics: partitions, members, and calls to all members.

The user has named the topics, or a pattern finds them. A member is an ordinary producer or consumer: a topic has one,
and a partitioned topic has one for each partition. Partitions are only ever added: a topic of a pattern that has fewer
was deleted and created again.

A member that has ended by itself is not replaced: otherwise the next discovery would bring back a subscription that the
user has deleted. If the creation of a member failed when the handle was open already, the next discovery tries it
again. The next discovery also creates a member for a topic of a pattern that was deleted and created again.

A member has a number, because its topic may be deleted and created again: events of the earlier member are then
ignored. Thousands of members may come or go one by one, so no method for one member searches the others.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from pulsar_actors.exceptions import BrokerRefusal, InvalidTopicName, PulsarException, WireError
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.topic_name import TopicName


class MemberState(Enum):
    """The state of a member."""

    OPENING = "It is being created, and may yet be refused."
    OPEN = "It is created."
    CLOSING = "It is closing."


class TopicMember(NamedTuple):
    """One member: its topic or partition, and its `source`, the topic that the user named or the pattern found."""

    topic: str
    source: str
    state: MemberState


class SubscribedTopics:
    """The topics and members of one handle."""

    __slots__ = ("_lost", "_numbers", "_serial", "_sources", "_taken", "_wanted", "members", "opening")

    def __init__(self) -> None:
        self.members: dict[int, TopicMember] = {}
        self.opening = 0  # members in that state
        self._sources: dict[str, tuple[str, ...]] = {}  # the topics of each, in the order of partitions
        self._wanted: dict[str, tuple[str, ...]] = {}  # each of these topics, with its sources
        self._taken: set[str] = set()  # the topics of members
        self._numbers: dict[str, set[int]] = {}  # of the members of each source
        self._lost: set[str] = set()
        self._serial = 0

    # Topics.

    def set_partitions(self, source: str, partitions: int, found: Collection[str] = (), *, anew: bool = False) -> bool:
        """Set the number of partitions of a topic; True if it has grown. A lower number than before is ignored.

        `found` are the names that the topic was listed as, for one that turns out not to be partitioned. If the topic
        may have been created `anew`, partitions that are no longer listed are forgotten.
        """
        name = TopicName.parse(source)
        topics = tuple(str(name.partition(index)) for index in range(partitions)) or tuple(found) or (source,)
        known = self._sources.get(source, ())
        if anew:
            topics += tuple(topic for topic in known if topic in found and topic not in topics)
        if anew or len(topics) >= len(known):
            self._unwant(source)
            self._sources[source] = topics
            for topic in topics:
                self._wanted[topic] = (*self._wanted.get(topic, ()), source)
        return 0 < len(known) < len(topics)

    def outdated(self, source: str) -> list[int]:
        """Return the members of partitions that the topic does not have any longer."""
        topics = set(self._sources[source])
        return [number for number, one in self._staying() if one.source == source and one.topic not in topics]

    def drop_source(self, source: str) -> list[int]:
        """Forget a topic, and return those of its members that have to be closed."""
        self._lost.difference_update(self._sources.get(source, ()))
        self._unwant(source)
        self._sources.pop(source, None)
        return [number for number in sorted(self._numbers.get(source, ())) if not self.is_closing(number)]

    @property
    def size(self) -> int:
        """The number of topics and partitions that should have a member, including those that have lost theirs.

        Each counts once: a user may name a topic and one of its partitions.
        """
        return len(self._wanted)

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that are named or found."""
        return tuple(self._sources)

    def is_known_as(self, source: str, listed: tuple[str, ...]) -> bool:
        """Return whether a topic is known as not partitioned, and is still listed like that."""
        return self._sources.get(source) == (source,) == listed

    @property
    def partitioned(self) -> tuple[str, ...]:
        """The topics that are partitioned, and may get more partitions."""
        return tuple(source for source, topics in self._sources.items() if topics != (source,))

    def missing(self) -> list[tuple[str, str]]:
        """Return the topics and partitions that should have a member and have none, each with its source."""
        wanted: dict[str, str] = {}
        for source, topics in self._sources.items():
            for topic in topics:
                if self.is_missing(topic):
                    wanted.setdefault(topic, source)
        return list(wanted.items())

    def is_missing(self, topic: str) -> bool:
        """Check whether a topic should have a member and has none."""
        return topic in self._wanted and topic not in self._taken and topic not in self._lost

    def source_of(self, topic: str) -> str:
        """Return the source of a topic or partition."""
        return self._wanted[topic][0]

    # Members.

    def add(self, topic: str, source: str) -> int:
        """Add a member that is being created, and return its number."""
        self._serial += 1
        self.members[self._serial] = TopicMember(topic, source, MemberState.OPENING)
        self._taken.add(topic)
        self._numbers.setdefault(source, set()).add(self._serial)
        self.opening += 1
        return self._serial

    def set_open(self, number: int) -> str | None:
        """Note that a member is created, and return its topic; None if it is closing or unknown."""
        if not self.is_opening(number):
            return None
        self._move(number, MemberState.OPEN)
        return self.members[number].topic

    def close_all(self) -> list[int]:
        """Mark all members as closing, and return those that were not."""
        told = [number for number, _ in self._staying()]
        self.close_some(told)
        return told

    def close_some(self, numbers: Iterable[int]) -> None:
        """Mark members as closing."""
        for number in numbers:
            self._move(number, MemberState.CLOSING)

    def remove(self, number: int, *, again: bool) -> TopicMember | None:
        """Remove a member that has ended or could not be created; None if it is unknown.

        Unless `again`, no other member is created for the topic of a member that was open.
        """
        self.opening -= self.is_opening(number)
        member = self.members.pop(number, None)
        if member is None:
            return None
        self._taken.discard(member.topic)
        others = self._numbers[member.source]
        others.discard(number)
        if not others:
            del self._numbers[member.source]
        if member.state is MemberState.OPEN and not again:
            self._lost.add(member.topic)
        return member

    def exclude(self, number: int) -> None:
        """Create no other member for the topic of this one: its subscription was deleted."""
        if number in self.members:
            self._lost.add(self.members[number].topic)

    def has_member(self, number: int) -> bool:
        """Check whether there is a member with this number."""
        return number in self.members

    def is_only_member(self, number: int) -> bool:
        """Check whether the member with this number is the only one."""
        return number in self.members and len(self.members) == 1

    def is_opening(self, number: int) -> bool:
        """Check whether the member is being created."""
        member = self.members.get(number)
        return member is not None and member.state is MemberState.OPENING

    def is_closing(self, number: int) -> bool:
        """Check whether the member is closing."""
        member = self.members.get(number)
        return member is not None and member.state is MemberState.CLOSING

    @property
    def open(self) -> dict[int, str]:
        """The topics of the open members, by number."""
        return {number: one.topic for number, one in self.members.items() if one.state is MemberState.OPEN}

    @property
    def staying(self) -> dict[int, str]:
        """The topics of the members that are open or being created, by number."""
        return {number: one.topic for number, one in self._staying()}

    def _unwant(self, source: str) -> None:
        """Remove a topic's partitions from those that should have a member, unless another topic has them, too."""
        for topic in self._sources.get(source, ()):
            left = tuple(other for other in self._wanted.pop(topic) if other != source)
            if left:
                self._wanted[topic] = left

    def _move(self, number: int, state: MemberState) -> None:
        self.opening -= self.is_opening(number)
        self.members[number] = self.members[number]._replace(state=state)

    def _staying(self) -> Iterator[tuple[int, TopicMember]]:
        return ((number, one) for number, one in self.members.items() if one.state is not MemberState.CLOSING)


class MultiTopicsOutcome(NamedTuple):
    """The outcome of a call: the answers by topic, or an error."""

    token: object
    answers: dict[str, Any]
    error: PulsarException | None


class _MultiTopicsCall(NamedTuple):
    token: object
    waiting: dict[int, str]
    answers: dict[str, Any]
    errors: dict[str, PulsarException]


class MultiTopicsCalls:
    """The open calls to all members of one handle. Each ends once, when the last member has answered.

    If members failed, the call fails with the error of the first of them. Its text names every topic that failed, and
    the number of members that succeeded.
    """

    __slots__ = ("_calls", "_number")

    def __init__(self) -> None:
        self._calls: dict[int, _MultiTopicsCall] = {}
        self._number = 0

    def begin(self, token: object, members: Mapping[int, str]) -> int:
        """Begin a call to these members, given with their topics, and return its number."""
        self._number += 1
        self._calls[self._number] = _MultiTopicsCall(token, dict(members), {}, {})
        return self._number

    def ends_with(self, call: int, member: int) -> bool:
        """Check whether this member's answer is the last one."""
        found = self._calls.get(call)
        return found is not None and member in found.waiting and len(found.waiting) == 1

    def has_failed(self, call: int) -> bool:
        """Check whether a member has failed so far."""
        return bool(self._calls[call].errors)

    def answered(self, call: int, member: int, answer: object) -> MultiTopicsOutcome | None:
        """Note an answer or an error, and return the outcome if it was the last one."""
        found = self._calls.get(call)
        if found is None or member not in found.waiting:
            return None
        topic = found.waiting.pop(member)
        if isinstance(answer, PulsarException):
            found.errors[topic] = answer
        else:
            found.answers[topic] = answer
        if found.waiting:
            return None
        del self._calls[call]
        return MultiTopicsOutcome(found.token, found.answers, _combined_error(found))

    def drain(self) -> list[object]:
        """End all calls, and return their tokens."""
        tokens = [call.token for call in self._calls.values()]
        self._calls = {}
        return tokens


def with_text(error: PulsarException, text: str) -> PulsarException:
    """Return the same error with another text, caused by the first; errors about bytes keep their text."""
    if isinstance(error, WireError):
        return error
    again = type(error)(error.code, text) if isinstance(error, BrokerRefusal) else type(error)(text)
    again.__cause__ = error
    return again


def naming_topic(topic: str, error: PulsarException) -> PulsarException:
    """Return the same error with the topic in its text."""
    words = error.reason if isinstance(error, BrokerRefusal) else str(error)
    return error if topic in words else with_text(error, f"{topic}: {words}")


def _combined_error(call: _MultiTopicsCall) -> PulsarException | None:
    if not call.errors:
        return None
    first = next(iter(call.errors.values()))
    each = "; ".join(f"{topic}: {error}" for topic, error in call.errors.items())
    return with_text(first, f"it failed for {len(call.errors)} and was done for {len(call.answers)} topics: {each}")


_INLINE_FLAGS = re.compile(r"^\(\?[aiLmsux]+\)")


class TopicPattern:
    """A pattern of topics: it matches the whole name, without the domain, of topics of one namespace.

    The namespace is part of the pattern. Tenant and namespace may be left out, as in a topic's name. For a partitioned
    topic the pattern has to match the topic's name, not that of its partitions: `orders-.*` does not match the
    partitions of `orders`.
    """

    __slots__ = ("_regex", "namespace", "text")

    def __init__(self, pattern: "re.Pattern[str]") -> None:
        name = TopicName.parse(_INLINE_FLAGS.sub("", pattern.pattern))  # the compiled pattern has them as well
        self.text = str(name)
        self.namespace = name.namespace_name
        self._regex = re.compile(_without_domain(self.text), pattern.flags)

    def sort(self, topics: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the topics that match, each with the names it was listed as: its own, or those of its partitions.

        A listed name that is no valid topic name is ignored.
        """
        found: dict[str, list[str]] = {}
        for topic in topics:
            base = _base_of(topic)
            if base is not None and self._regex.fullmatch(_without_domain(base)):
                found.setdefault(base, []).append(topic)
        return {base: tuple(names) for base, names in found.items()}


def _base_of(topic: str) -> str | None:
    try:
        return str(TopicName.parse(topic).base)
    except InvalidTopicName:
        return None


def _without_domain(name: str) -> str:
    return name.partition("://")[2]
