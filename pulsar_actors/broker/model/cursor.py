"""The cursor of one subscription: the entries that it has acknowledged, and the next entry that it reads.

Everything up to and including `mark_delete` is acknowledged. After it there may be single acknowledged entries
(`_acknowledged`), and batches with some acknowledged messages (`batch_ack_sets`, where a set bit means *not*
acknowledged). When the entry after `mark_delete` is acknowledged, `mark_delete` moves over it and all acknowledged
entries that follow without a gap. So each entry enters and leaves the set once, whatever the size of the backlog.

Messages whose acknowledgement is pending in a transaction (`pending_acks`) are not acknowledged, but not delivered
either. Hidden entries are acknowledged when they are read.

`read_offset` is independent of `mark_delete`: entries are read once, and again only after `rewind`, which skips
acknowledged entries.

What is acknowledged is stored; what is pending is stored with the transactions. After a restart a cursor reads from
the entry behind its mark-delete position.
"""

from pulsar_actors.broker.model.entry import Position, StoredEntry
from pulsar_actors.broker.model.managed_ledger import ManagedLedger
from pulsar_actors.broker.model.storage import IN_MEMORY, State, TopicStorage
from pulsar_actors.machines.trackers.ack_set import full


class Cursor:
    """The cursor of one subscription in a managed ledger."""

    __slots__ = (
        "_acknowledged",
        "_record",
        "batch_ack_sets",
        "managed_ledger",
        "mark_delete",
        "pending_acks",
        "read_offset",
        "replicated",
    )

    def __init__(
        self, managed_ledger: ManagedLedger, read_offset: int, storage: TopicStorage = IN_MEMORY, name: str = ""
    ) -> None:
        self.managed_ledger = managed_ledger
        self._record = storage.cursor(name, self._state, self._left_of)
        self.read_offset = read_offset
        self.mark_delete = read_offset - 1
        self._acknowledged: set[int] = set()
        self.batch_ack_sets: dict[int, int] = {}
        self.pending_acks: dict[int, int] = {}  # by offset, the set of the messages
        self.replicated = False  # True if consumers asked for replication, which has no effect here
        if (stored := self._record.stored) is None:
            self._record.changed()
        else:
            self._restore(stored)

    @property
    def mark_delete_position(self) -> Position:
        """The position up to which all entries are acknowledged."""
        return self.managed_ledger.position(self.mark_delete)

    def backlog(self) -> int:
        """Count the entries that are not acknowledged."""
        self._catch_up()
        return self.managed_ledger.end - 1 - self.mark_delete - len(self._acknowledged)

    def is_acknowledged(self, offset: int) -> bool:
        """Return whether the whole entry is acknowledged."""
        return offset <= self.mark_delete or offset in self._acknowledged

    def ack_set_of(self, entry: StoredEntry) -> int | None:
        """Return the set of messages to deliver of an entry that is not acknowledged; None: all."""
        ack_set = self.batch_ack_sets.get(entry.offset)
        if not self.pending_acks or entry.offset not in self.pending_acks:
            return ack_set
        return (full(entry.messages) if ack_set is None else ack_set) & ~self.pending_acks[entry.offset]

    def remaining_set(self, entry: StoredEntry) -> int:
        """Return the set of messages of an entry that are neither acknowledged nor pending."""
        if self.is_acknowledged(entry.offset):
            return 0
        ack_set = self.ack_set_of(entry)
        return full(entry.messages) if ack_set is None else ack_set

    def remaining(self, entry: StoredEntry) -> int:
        """Count the messages of an entry that are neither acknowledged nor pending."""
        if self.is_acknowledged(entry.offset):
            return 0
        ack_set = self.ack_set_of(entry)
        return entry.messages if ack_set is None else ack_set.bit_count()

    def next(self) -> StoredEntry | None:
        """Read the next entry that is to be delivered, if there is one."""
        managed_ledger = self.managed_ledger
        if self.read_offset >= managed_ledger.readable_end:
            return None
        if self.mark_delete < managed_ledger.base - 1:
            self._catch_up()
        for offset in range(max(self.read_offset, self.mark_delete + 1), managed_ledger.readable_end):
            if offset in self._acknowledged:
                continue
            entry = managed_ledger.entry(offset)
            if entry.is_hidden:
                self.acknowledge(entry, None)
            elif offset not in self.pending_acks or self.remaining(entry):
                self.read_offset = offset + 1
                return entry
        self.read_offset = max(self.read_offset, managed_ledger.readable_end)
        return None

    def hold(self, entry: StoredEntry, messages: int) -> None:
        """Mark messages of an entry as pending."""
        self.pending_acks[entry.offset] = self.pending_acks.get(entry.offset, 0) | messages

    def release(self, entry: StoredEntry, messages: int) -> None:
        """Mark messages of an entry as not pending any longer."""
        left = self.pending_acks.pop(entry.offset) & ~messages
        if left:
            self.pending_acks[entry.offset] = left

    def rewind(self) -> None:
        """Read on from the first entry that is not acknowledged."""
        self.read_offset = self.mark_delete + 1

    def acknowledge(self, entry: StoredEntry, ack_set: int | None) -> None:
        """Acknowledge an entry, or the messages of it that are not in the ack set."""
        offset = entry.offset
        if self.is_acknowledged(offset):
            return
        if ack_set is not None:
            left = self.batch_ack_sets.get(offset, ack_set) & ack_set & full(min(entry.messages, ack_set.bit_length()))
            if left:
                self.batch_ack_sets[offset] = left
                self._record.acknowledged(offset)
                return
        self.batch_ack_sets.pop(offset, None)
        self._acknowledged.add(offset)
        self._record.acknowledged(offset)
        self._advance()

    def acknowledge_before(self, offset: int) -> None:
        """Acknowledge every entry before an offset."""
        if offset - 1 <= self.mark_delete:
            return
        for passed in _within(self.batch_ack_sets, self.mark_delete, offset):
            del self.batch_ack_sets[passed]
        self._acknowledged.difference_update(_within(self._acknowledged, self.mark_delete, offset))
        self.mark_delete = offset - 1
        self.read_offset = max(self.read_offset, offset)
        self._record.changed()
        self._advance()

    def acknowledge_up_to(self, position: Position, ack_set: int | None) -> bool:
        """Acknowledge every entry up to a position, and that one by its ack set; False if nothing changed.

        Clients name positions without an entry: the one before the first entry of a ledger has -1 as entry id.
        """
        offset = self.managed_ledger.first_from(position)
        if offset <= self.mark_delete or offset >= self.managed_ledger.end:
            return False
        self.acknowledge_before(offset)
        entry = self.managed_ledger.entry(offset)
        if entry.position == position:
            self.acknowledge(entry, ack_set)
        return True

    def reset(self, offset: int, ack_set: int | None = None) -> None:
        """Move to an offset: acknowledge the entries before it, and the messages of its entry not in the ack set."""
        self.read_offset = offset
        self.mark_delete = offset - 1
        self._acknowledged.clear()
        self.batch_ack_sets.clear()
        self._record.reset()
        if ack_set:
            self.batch_ack_sets[offset] = ack_set
            self._record.acknowledged(offset)

    def unacknowledged(self, count: int) -> list[StoredEntry]:
        """Return the oldest unacknowledged entries, at most so many."""
        self._catch_up()
        found: list[StoredEntry] = []
        for offset in range(self.mark_delete + 1, self.managed_ledger.end):
            if len(found) == count:
                break
            if offset not in self._acknowledged:
                found.append(self.managed_ledger.entry(offset))
        return found

    def replicate(self, replicated: bool) -> None:  # noqa: FBT001 - as in the command
        """Note what consumers asked for."""
        self.replicated = replicated
        self._record.changed()

    def forget(self) -> None:
        """Store nothing any longer: its subscription is deleted."""
        self._record.remove()

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first and the last offset of each gapless range acknowledged after `mark_delete`."""
        found: list[tuple[int, int]] = []
        for offset in sorted(self._acknowledged):
            if found and found[-1][1] == offset - 1:
                found[-1] = (found[-1][0], offset)
            else:
                found.append((offset, offset))
        return found

    def _advance(self) -> None:
        while self.mark_delete + 1 in self._acknowledged:
            self.mark_delete += 1
            self._acknowledged.remove(self.mark_delete)

    def _catch_up(self) -> None:
        """Count the entries that were dropped as acknowledged."""
        self.acknowledge_before(self.managed_ledger.base)

    def _state(self) -> State:
        return {"mark_delete": self.mark_delete, "replicated": self.replicated}

    def _left_of(self, offset: int) -> int:
        """Return the set of messages that are not acknowledged, of an entry of which some are."""
        return self.batch_ack_sets.get(offset, 0)

    def _restore(self, stored: State) -> None:
        self.mark_delete = stored["mark_delete"]
        self.read_offset = self.mark_delete + 1
        self.replicated = stored["replicated"]
        for offset, left in self._record.acknowledgements():
            if left:
                self.batch_ack_sets[offset] = left
            else:
                self._acknowledged.add(offset)


def _within(offsets: "set[int] | dict[int, int]", after: int, before: int) -> list[int]:
    """Select the offsets between two others, by the shorter of two loops."""
    if before - after < len(offsets):
        return [offset for offset in range(after + 1, before) if offset in offsets]
    return [offset for offset in offsets if offset < before]
