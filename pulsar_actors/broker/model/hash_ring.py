"""Key_Shared, AUTO_SPLIT: the hashes of keys are divided among the consumers by points on a ring.

Each consumer puts a hundred points on it, at places that follow from its name; a hash belongs to the first point at it
or after it. When a consumer comes or goes, only the hashes before its own points change hands. Where two want the same
place the first one has it. Consumers of the same name are told apart by the smallest number that is free. All of it is
as Pulsar does it, so that the same names divide the keys in the same way.
"""

from bisect import bisect_left

from pulsar_actors.broker.model.choices import KeyChoice
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.machines.ledgers.hashing import HASHES, HashingScheme

_POINTS = 100
_HASHES = 65_535  # from 1 on: Pulsar keeps 0 for "none"
_hash = HASHES[HashingScheme.MURMUR3_32]


class HashRing(KeyChoice):
    """The consumers of a Key_Shared subscription that leaves the division to the broker."""

    __slots__ = ("_at", "_numbers", "_places")

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Consumer, int] = {}
        self._at: dict[int, list[Consumer]] = {}  # by place: who wants it, in the order of coming
        self._places: list[int] = []

    def slot(self, key_hash: int) -> int:
        """Give the place on the ring that a key's hash falls on."""
        return key_hash % _HASHES + 1

    def add(self, consumer: Consumer) -> None:
        """Take one more."""
        taken = {number for other, number in self._numbers.items() if other.name == consumer.name}
        self._numbers[consumer] = next(number for number in range(len(taken) + 1) if number not in taken)
        self.consumers.append(consumer)
        for place in self._points_of(consumer):
            self._at.setdefault(place, []).append(consumer)
        self._places = sorted(self._at)

    def remove(self, consumer: Consumer) -> None:
        """Let one go."""
        for place in self._points_of(consumer):
            self._at[place].remove(consumer)
            if not self._at[place]:
                del self._at[place]
        self._places = sorted(self._at)
        self.consumers.remove(consumer)
        del self._numbers[consumer]

    def owner(self, slot: int) -> Consumer | None:
        """Give the consumer that has a place of the ring."""
        if not self._places:
            return None
        at = bisect_left(self._places, slot)
        return self._at[self._places[at if at < len(self._places) else 0]][0]

    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        """Give what lies before each of its points; the first point has also what lies behind the last one."""
        ends = [*self._places, _HASHES]
        starts = [1, *(place + 1 for place in self._places)]
        pieces = [(start, end) for start, end in zip(starts, ends, strict=True) if start <= end]
        return [piece for piece in pieces if self.owner(piece[1]) is consumer]

    def _points_of(self, consumer: Consumer) -> list[int]:
        number = self._numbers[consumer]
        return [self.slot(_hash(f"{consumer.name}\0{number}\0{point}")) for point in range(_POINTS)]
