"""Which sequence id each message of a producer gets.

A broker that removes duplicates drops whatever does not rise above the highest id it has stored for a producer's name.
So ids only go up. A user may name the id that counts as already used (the first message then gets the next one), or the
id of single messages; 0 is an id like any other. A producer that was told nothing continues after what the broker has
stored under its name, but only when it is created for the first time: after a reconnect the broker knows less than the
producer, whose messages are still on their way.
"""

from pulsar_actors.exceptions import InvalidArgument

HIGHEST = 2**63 - 1
NOTHING_PUBLISHED = -1


def _checked(sequence_id: int) -> int:
    if not 0 <= sequence_id <= HIGHEST:
        raise InvalidArgument(f"a sequence id is a number from 0 to 2^63-1, got {sequence_id}")
    return sequence_id


class SequenceIds:
    """The ids of one producer on one topic partition. `initial` is the last id that counts as used."""

    __slots__ = ("_adopts", "_next", "last_published")

    def __init__(self, initial: int | None = None) -> None:
        self._adopts = initial is None
        self.last_published = NOTHING_PUBLISHED if initial is None else _checked(initial)
        self._next = self.last_published + 1

    def created(self, last_sequence_id: int) -> None:
        """Hear from PRODUCER_SUCCESS what the broker has stored; only the first time counts."""
        if self._adopts and last_sequence_id >= self._next:
            self.last_published = last_sequence_id
            self._next = last_sequence_id + 1
        self._adopts = False

    def take(self, count: int = 1) -> int:
        """Hand out `count` ids in a row and give the first."""
        first = self._next
        _checked(first + count - 1)
        self._next = first + count
        return first

    def take_given(self, sequence_id: int) -> int:
        """Use an id that the user chose. Ids of our own go on above it."""
        self._next = max(self._next, _checked(sequence_id) + 1)
        return sequence_id

    def published(self, sequence_id: int) -> None:
        """Note the highest id of a batch that the broker has stored."""
        if sequence_id > self.last_published:  # noqa: PLR1730 - `max` takes twice as long, and this is done for each message
            self.last_published = sequence_id
