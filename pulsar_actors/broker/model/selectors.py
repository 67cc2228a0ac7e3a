"""The choice of the consumer that gets an entry, for each type of subscription.

All dispatchers ask a selector, those of topics that store nothing, too. Each choice is made as in Pulsar, so that the
same consumers are chosen.

Exclusive and Failover have one active consumer. In Failover it is one of those with the lowest priority level. On a
partition these consumers are sorted by name, and the partition's number selects one, which distributes the partitions
of a topic over its consumers. On a topic without partitions each consumer has a hundred points on a hash ring, and the
first point at or after the hash of the topic decides, which distributes many topics.

Shared chooses consumers in turn. Consumers of a lower priority level come first: those of the next level are chosen
only while no consumer of the levels before can take more.

Key_Shared chooses by the hash of the key. With AUTO_SPLIT each consumer has a hundred points on a hash ring, computed
from its name, and a hash belongs to the first point at or after it. When a consumer is added or removed, only the
hashes before its own points change owners. If two consumers have the same point, it belongs to the first one. Consumers
with the same name are distinguished by the smallest free number. With STICKY each consumer names its ranges of hashes
within 0 to 65,535. Ranges must not overlap. The entries of a hash that no consumer has named wait until one does.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from itertools import pairwise

from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.machines.trackers.message_routing import HASHES, HashName
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ServerError
from pulsar_actors.wire.topic_name import TopicName

_POINTS = 100
_RANGE_SIZE = 65_536
_RING_SIZE = 65_535  # from 1 on: Pulsar keeps 0 for "none"
_hash = HASHES[HashName.MURMUR3_32]


class ConsumerSelector(ABC):
    """The consumers of a subscription, and the choice among them."""

    __slots__ = ("consumers",)

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []

    @abstractmethod
    def add(self, consumer: Consumer) -> None:
        """Add a consumer; Refusal if that is not possible."""

    @abstractmethod
    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""

    @abstractmethod
    def of(self, entry: StoredEntry) -> Consumer | None:
        """Choose the consumer for an entry; None if there is none or it cannot take the entry now."""


class ActiveConsumerSelector(ConsumerSelector):
    """The consumers of an Exclusive or Failover subscription."""

    __slots__ = ("_topic", "active")

    def __init__(self, topic: TopicName) -> None:
        super().__init__()
        self._topic = topic
        self.active: Consumer | None = None

    def add(self, consumer: Consumer) -> None:
        """Add a consumer; in Exclusive it must be the only one."""
        if self.consumers and consumer.subscription_type == CommandSubscribe.SubType.Exclusive:
            raise Refusal(ServerError.ConsumerBusy, "Exclusive consumer is already connected")
        self.consumers.append(consumer)
        self._choose()

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. Another may become the active one."""
        self.consumers.remove(consumer)
        self._choose()

    def of(self, entry: StoredEntry) -> Consumer | None:
        """Choose the active consumer, for any entry."""
        del entry
        return self.active if self.active is not None and self.active.available else None

    def announce(self) -> None:
        """Notify each consumer of a Failover subscription whether it is the active one."""
        for consumer in self.consumers:
            if consumer.subscription_type == CommandSubscribe.SubType.Failover:
                consumer.link.active(consumer is self.active)

    def _choose(self) -> None:
        if not self.consumers:
            self.active = None
            return
        self.consumers.sort(key=lambda consumer: (consumer.request.priority_level, consumer.name))
        first_level = self.consumers[0].request.priority_level
        foremost = [consumer for consumer in self.consumers if consumer.request.priority_level == first_level]
        partition = self._topic.partition_index
        self.active = foremost[partition % len(foremost)] if partition >= 0 else self._first_on_ring(foremost)

    def _first_on_ring(self, consumers: list[Consumer]) -> Consumer:
        if len(consumers) == 1:
            return consumers[0]
        ring = {_hash(f"{consumer.name}{point}"): consumer for consumer in consumers for point in range(_POINTS)}
        start = _hash(str(self._topic))
        behind = [point for point in ring if point >= start]
        return ring[min(behind or ring)]


class RoundRobinSelector(ConsumerSelector):
    """The consumers of a Shared subscription."""

    __slots__ = ("_levels", "_next")

    def __init__(self) -> None:
        super().__init__()
        self._levels: list[list[Consumer]] = []
        self._next: list[int] = []  # by level, the index of the next consumer

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.consumers.append(consumer)
        self._arrange()

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.consumers.remove(consumer)
        self._arrange()

    def of(self, entry: StoredEntry) -> Consumer | None:
        """Choose the next consumer, for any entry."""
        del entry
        return self.next()

    def next(self) -> Consumer | None:
        """Choose the next consumer that can take an entry now."""
        for level, consumers in enumerate(self._levels):
            count = len(consumers)
            first = self._next[level]
            for step in range(count):
                at = (first + step) % count
                if consumers[at].available:
                    self._next[level] = (at + 1) % count
                    return consumers[at]
        return None

    def _arrange(self) -> None:
        levels: dict[int, list[Consumer]] = {}
        for consumer in self.consumers:
            levels.setdefault(consumer.request.priority_level, []).append(consumer)
        self._levels = [levels[level] for level in sorted(levels)]
        self._next = [0] * len(self._levels)


class KeySelector(ConsumerSelector):
    """The consumers of a Key_Shared subscription. Each owns some of the slots that the hashes of keys are mapped to."""

    __slots__ = ()

    @abstractmethod
    def slot(self, key_hash: int) -> int:
        """Return the slot of a hash."""

    @abstractmethod
    def owner(self, slot: int) -> Consumer | None:
        """Return the consumer that owns a slot, if any does."""

    @abstractmethod
    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Return the slots that a consumer owns, as ranges that include both ends."""

    def of(self, entry: StoredEntry) -> Consumer | None:
        """Choose the owner of the entry's key, if it can take the entry now."""
        consumer = self.owner(self.slot(entry.key_hash))
        return consumer if consumer is not None and consumer.available else None


class HashRingSelector(KeySelector):
    """The consumers of a Key_Shared subscription with AUTO_SPLIT."""

    __slots__ = ("_numbers", "_points", "_sorted_points")

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Consumer, int] = {}
        self._points: dict[int, list[Consumer]] = {}  # the consumers of each point; the first one owns it
        self._sorted_points: list[int] = []

    def slot(self, key_hash: int) -> int:
        """Return a hash's point on the ring."""
        return key_hash % _RING_SIZE + 1

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        taken = {number for other, number in self._numbers.items() if other.name == consumer.name}
        self._numbers[consumer] = next(number for number in range(len(taken) + 1) if number not in taken)
        self.consumers.append(consumer)
        for point in self._points_of(consumer):
            self._points.setdefault(point, []).append(consumer)
        self._sorted_points = sorted(self._points)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        for point in self._points_of(consumer):
            self._points[point].remove(consumer)
            if not self._points[point]:
                del self._points[point]
        self._sorted_points = sorted(self._points)
        self.consumers.remove(consumer)
        del self._numbers[consumer]

    def owner(self, slot: int) -> Consumer | None:
        """Return the consumer that has the first point at the slot or after it."""
        if not self._sorted_points:
            return None
        at = bisect_left(self._sorted_points, slot)
        return self._points[self._sorted_points[at if at < len(self._sorted_points) else 0]][0]

    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Return the slots up to each of its points. The first point of the ring also owns those after the last one."""
        ends = [*self._sorted_points, _RING_SIZE]
        starts = [1, *(point + 1 for point in self._sorted_points)]
        pieces = [(start, end) for start, end in zip(starts, ends, strict=True) if start <= end]
        return [piece for piece in pieces if self.owner(piece[1]) is consumer]

    def _points_of(self, consumer: Consumer) -> list[int]:
        number = self._numbers[consumer]
        return [self.slot(_hash(f"{consumer.name}\0{number}\0{point}")) for point in range(_POINTS)]


class HashRangeSelector(KeySelector):
    """The consumers of a Key_Shared subscription with STICKY."""

    __slots__ = ()

    def slot(self, key_hash: int) -> int:
        """Return the number of a hash within the ranges."""
        return key_hash % _RANGE_SIZE or 1  # as in Pulsar, which keeps 0 for "none"

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, if its ranges are free."""
        ranges = sorted(consumer.request.hash_ranges)
        if not ranges:
            raise _refusal("Ranges for KeyShared policy must not be empty.")
        for start, end in ranges:
            if start > end:
                raise _refusal(f"Fixed hash range start > end for range: [{start},{end}]")
        for (start, end), (next_start, next_end) in pairwise(ranges):
            if next_start <= end:
                raise _refusal(
                    f"Consumer's own ranges conflict: [{start},{end}] overlaps with [{next_start},{next_end}]"
                )
        for other in self.consumers:
            if any(_overlap(mine, theirs) for mine in ranges for theirs in other.request.hash_ranges):
                raise _refusal(f"Range conflict with consumer {other.name}")
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.consumers.remove(consumer)

    def owner(self, slot: int) -> Consumer | None:
        """Return the consumer that named the slot."""
        for consumer in self.consumers:
            if any(start <= slot <= end for start, end in consumer.request.hash_ranges):
                return consumer
        return None

    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Return the ranges that the consumer named."""
        return sorted(consumer.request.hash_ranges)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def _refusal(reason: str) -> Refusal:
    return Refusal(ServerError.ConsumerAssignError, reason)
