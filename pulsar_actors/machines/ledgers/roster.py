"""The members of a topic set: which topics it is of, how many partitions each has, and where each member stands.

A set is of topics by name, or of those that a pattern finds. Each is one member if it has no partitions, and one for
each partition if it has. Partitions are only ever added: a topic of a pattern that has fewer was deleted and made anew.
A member that has ended by itself is lost: it is not made again, or a subscription that was given up would come back
with the next look. One that could not be made while the set grew is simply missing still, and is made at the next look;
so is the topic of a pattern that went and came again.

A member has a number, because its topic may go and come again, and what is still heard of the first one means nothing.

Thousands may come or go one by one, so what is asked about one of them is found without going through the others.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from pulsar_actors.wire.topic_name import TopicName


class Standing(Enum):
    """Where a member stands."""

    OPENING = "It was asked for, and may yet be refused."
    OPEN = "It is there."
    LEAVING = "It was told to close."


class Member(NamedTuple):
    """One member, and where it stands."""

    topic: str
    source: str
    standing: Standing


class Roster:
    """The members of one set. `found` is what listings gave for a topic, where it turns out to have no partitions."""

    __slots__ = ("_lost", "_numbers", "_serial", "_sources", "_taken", "_wanted", "members", "opening")

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}
        self.opening = 0  # so many are being made, and stay if they come to be
        self._sources: dict[str, tuple[str, ...]] = {}  # the topics of each, in the order of partitions
        self._wanted: dict[str, tuple[str, ...]] = {}  # each of these topics, with the sources that it is of
        self._taken: set[str] = set()  # the topics of members
        self._numbers: dict[str, set[int]] = {}  # of the members of each source
        self._lost: set[str] = set()
        self._serial = 0

    # What there is to be.

    def note(self, source: str, partitions: int, found: Collection[str] = (), *, anew: bool = False) -> bool:
        """Note how many partitions a topic has, and tell if it has grown; fewer than before count for nothing.

        If it may be one that was made `anew`, what listings have no longer is forgotten.
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
        """Name the members for what the topic has no longer."""
        topics = set(self._sources[source])
        return [number for number, one in self._staying() if one.source == source and one.topic not in topics]

    def drop(self, source: str) -> list[int]:
        """Forget a topic, and name those of its members that are to go."""
        self._lost.difference_update(self._sources.get(source, ()))
        self._unwant(source)
        self._sources.pop(source, None)
        return [number for number in sorted(self._numbers.get(source, ())) if not self.is_leaving(number)]

    @property
    def size(self) -> int:
        """How many topics should each have a member, those that are lost included.

        Each counts once: somebody may name a topic and one of its partitions.
        """
        return len(self._wanted)

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that the set is of."""
        return tuple(self._sources)

    def is_known_as(self, source: str, listed: tuple[str, ...]) -> bool:
        """Tell whether a topic has no partitions, as far as is known, and is listed like that."""
        return self._sources.get(source) == (source,) == listed

    @property
    def partitioned(self) -> tuple[str, ...]:
        """Those of them that have partitions, and may get more."""
        return tuple(source for source, topics in self._sources.items() if topics != (source,))

    def missing(self) -> list[tuple[str, str]]:
        """Give the topics, each with the source it is of, that should have a member and have none."""
        wanted: dict[str, str] = {}
        for source, topics in self._sources.items():
            for topic in topics:
                if self.is_missing(topic):
                    wanted.setdefault(topic, source)
        return list(wanted.items())

    def is_missing(self, topic: str) -> bool:
        """Tell whether a topic should have a member and has none."""
        return topic in self._wanted and topic not in self._taken and topic not in self._lost

    def source_of(self, topic: str) -> str:
        """Give the source that a topic is of."""
        return self._wanted[topic][0]

    # What becomes of them.

    def ask_for(self, topic: str, source: str) -> int:
        """Note that a member is being made, and give it a number."""
        self._serial += 1
        self.members[self._serial] = Member(topic, source, Standing.OPENING)
        self._taken.add(topic)
        self._numbers.setdefault(source, set()).add(self._serial)
        self.opening += 1
        return self._serial

    def opened(self, number: int) -> str | None:
        """Note that it is there, and give its topic; one that was told to close stays told: None."""
        if not self.is_opening(number):
            return None
        self._move(number, Standing.OPEN)
        return self.members[number].topic

    def leave(self) -> list[int]:
        """Have all go, and name those that have to be told."""
        told = [number for number, _ in self._staying()]
        self.leave_some(told)
        return told

    def leave_some(self, numbers: Iterable[int]) -> None:
        """Have some go."""
        for number in numbers:
            self._move(number, Standing.LEAVING)

    def lost(self, number: int, *, again: bool) -> Member | None:
        """Take one off that has ended or was never made; unless `again`, its topic gets no other. None: it is unknown.

        One that was still opening may always be made again.
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
        if member.standing is Standing.OPEN and not again:
            self._lost.add(member.topic)
        return member

    def give_up(self, number: int) -> None:
        """Have its topic get no other member, after this one: its subscription was deleted."""
        if number in self.members:
            self._lost.add(self.members[number].topic)

    # How it stands.

    def knows(self, number: int) -> bool:
        """Tell whether it is a member."""
        return number in self.members

    def has_only(self, number: int) -> bool:
        """Tell whether it is the only member."""
        return number in self.members and len(self.members) == 1

    def is_opening(self, number: int) -> bool:
        """Tell whether it is a member that is not there yet."""
        member = self.members.get(number)
        return member is not None and member.standing is Standing.OPENING

    def is_leaving(self, number: int) -> bool:
        """Tell whether it is a member that was told to close."""
        member = self.members.get(number)
        return member is not None and member.standing is Standing.LEAVING

    @property
    def open(self) -> dict[int, str]:
        """Give those that are there, by number, with their topics."""
        return {number: one.topic for number, one in self.members.items() if one.standing is Standing.OPEN}

    @property
    def staying(self) -> dict[int, str]:
        """Give those and the ones that are being made."""
        return {number: one.topic for number, one in self._staying()}

    def _unwant(self, source: str) -> None:
        """Want none of a source's topics on its account."""
        for topic in self._sources.get(source, ()):
            left = tuple(other for other in self._wanted.pop(topic) if other != source)
            if left:
                self._wanted[topic] = left

    def _move(self, number: int, standing: Standing) -> None:
        self.opening -= self.is_opening(number)
        self.members[number] = self.members[number]._replace(standing=standing)

    def _staying(self) -> Iterator[tuple[int, Member]]:
        return ((number, one) for number, one in self.members.items() if one.standing is not Standing.LEAVING)
