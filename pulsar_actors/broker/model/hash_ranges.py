"""Key_Shared, STICKY: each consumer names the ranges of hashes that it takes, out of 0 to 65,535.

Ranges may not overlap, neither with others' nor among themselves. A hash that nobody named waits until somebody does.
"""

from itertools import pairwise

from pulsar_actors.broker.model.choices import KeyChoice
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import ServerError

_HASHES = 65_536


class HashRanges(KeyChoice):
    """The consumers of a Key_Shared subscription that divide the keys themselves."""

    __slots__ = ()

    def slot(self, key_hash: int) -> int:
        """Give the number, of those that ranges are about, that a key's hash falls on."""
        return key_hash % _HASHES or 1  # as in Pulsar, which keeps 0 for "none"

    def add(self, consumer: Consumer) -> None:
        """Take one more, if its ranges are free."""
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
        """Let one go."""
        self.consumers.remove(consumer)

    def owner(self, slot: int) -> Consumer | None:
        """Give the consumer that named the number."""
        for consumer in self.consumers:
            if any(start <= slot <= end for start, end in consumer.request.hash_ranges):
                return consumer
        return None

    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Give the ranges that it named."""
        return sorted(consumer.request.hash_ranges)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def _refusal(reason: str) -> Refusal:
    return Refusal(ServerError.ConsumerAssignError, reason)
