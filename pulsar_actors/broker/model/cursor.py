"""How far one subscription is: what it has acknowledged, and what it reads next.

Everything up to and including `mark` is acknowledged. Beyond it there may be single entries that are (`_done`), and
batches of which some messages are (`partial`, with a mask in which a set bit means *not* acknowledged). When the entry
after the mark is acknowledged the mark moves over it and all that follow without a gap, so that each entry enters and
leaves the set once, whatever the size of the backlog.

`read` is where reading goes on. It is independent of the mark: entries are read once, and again only after `rewind`,
which passes over those that are acknowledged.
"""

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.log import Log
from pulsar_actors.broker.model.position import Position
from pulsar_actors.machines.ledgers.ack_set import full


class Cursor:
    """One subscription's place in a log."""

    __slots__ = ("_done", "log", "mark", "partial", "read", "replicated")

    def __init__(self, log: Log, read: int) -> None:
        self.log = log
        self.read = read
        self.mark = read - 1
        self._done: set[int] = set()
        self.partial: dict[int, int] = {}
        self.replicated = False  # whether its consumers want its state in other clusters, of which there are none

    @property
    def mark_position(self) -> Position:
        """The position up to which all is acknowledged."""
        return self.log.position(self.mark)

    def backlog(self) -> int:
        """Count the entries that are not acknowledged."""
        self._catch_up()
        return self.log.end - 1 - self.mark - len(self._done)

    def is_done(self, offset: int) -> bool:
        """Tell whether the whole entry is acknowledged."""
        return offset <= self.mark or offset in self._done

    def remaining(self, entry: StoredEntry) -> int:
        """Count the messages of an entry that are not acknowledged."""
        if self.is_done(entry.offset):
            return 0
        mask = self.partial.get(entry.offset)
        return entry.messages if mask is None else mask.bit_count()

    def next(self) -> StoredEntry | None:
        """Read the next entry that is not acknowledged, if there is one."""
        log = self.log
        if self.read >= log.end:
            return None
        if self.mark < log.base - 1:
            self._catch_up()
        for offset in range(max(self.read, self.mark + 1), log.end):
            if offset not in self._done:
                self.read = offset + 1
                return log.entry(offset)
        self.read = log.end
        return None

    def rewind(self) -> None:
        """Read on from the first entry that is not acknowledged."""
        self.read = self.mark + 1

    def acknowledge(self, entry: StoredEntry, mask: int | None) -> None:
        """Acknowledge an entry, or the messages of it that the mask does not have."""
        offset = entry.offset
        if self.is_done(offset):
            return
        if mask is not None:
            left = self.partial.get(offset, mask) & mask & full(min(entry.messages, mask.bit_length()))
            if left:
                self.partial[offset] = left
                return
        self.partial.pop(offset, None)
        self._done.add(offset)
        self._advance()

    def acknowledge_before(self, offset: int) -> None:
        """Acknowledge every entry before that one."""
        if offset - 1 <= self.mark:
            return
        for passed in _within(self.partial, self.mark, offset):
            del self.partial[passed]
        self._done.difference_update(_within(self._done, self.mark, offset))
        self.mark = offset - 1
        self.read = max(self.read, offset)
        self._advance()

    def acknowledge_up_to(self, position: Position, mask: int | None) -> bool:
        """Acknowledge every entry up to a position, of this as the mask says, and tell whether there was any to.

        Clients name entries that are not there: what would be before the first of a ledger has -1 for its place.
        """
        offset = self.log.first_from(position)
        if offset <= self.mark or offset >= self.log.end:
            return False
        self.acknowledge_before(offset)
        entry = self.log.entry(offset)
        if entry.position == position:
            self.acknowledge(entry, mask)
        return True

    def reset(self, offset: int, mask: int | None = None) -> None:
        """Acknowledge what is before an offset and nothing else, except in its entry what the mask does not have."""
        self.read = offset
        self.mark = offset - 1
        self._done.clear()
        self.partial.clear()
        if mask:
            self.partial[offset] = mask

    def unacknowledged(self, count: int) -> list[StoredEntry]:
        """Give the oldest so many entries that are not acknowledged, or as many as there are."""
        self._catch_up()
        found: list[StoredEntry] = []
        for offset in range(self.mark + 1, self.log.end):
            if len(found) == count:
                break
            if offset not in self._done:
                found.append(self.log.entry(offset))
        return found

    def ranges(self) -> list[tuple[int, int]]:
        """Give the first and the last offset of each row of entries acknowledged beyond the mark."""
        found: list[tuple[int, int]] = []
        for offset in sorted(self._done):
            if found and found[-1][1] == offset - 1:
                found[-1] = (found[-1][0], offset)
            else:
                found.append((offset, offset))
        return found

    def _advance(self) -> None:
        while self.mark + 1 in self._done:
            self.mark += 1
            self._done.remove(self.mark)

    def _catch_up(self) -> None:
        """Entries that were dropped cannot be acknowledged any more: they count as if they were."""
        self.acknowledge_before(self.log.base)


def _within(offsets: "set[int] | dict[int, int]", after: int, before: int) -> list[int]:
    """Choose those between two offsets, by whichever way is the shorter."""
    if before - after < len(offsets):
        return [offset for offset in range(after + 1, before) if offset in offsets]
    return [offset for offset in offsets if offset < before]
