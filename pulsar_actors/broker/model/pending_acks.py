"""The acknowledgements of open transactions on one subscription.

An acknowledgement in a transaction is *pending* until the transaction ends. Meanwhile the message is not acknowledged,
and is not delivered again. With the commit it becomes acknowledged. With an abort it is delivered again.

A message can be acknowledged once: if it is acknowledged already, or pending in any transaction, another
acknowledgement in a transaction is a conflict. That of a whole batch is one if a transaction has acknowledged a part of
it, but not after a part was acknowledged without a transaction. An acknowledgement without a transaction is never a
conflict. It counts at once, and the end of the transaction then finds nothing left to do for that message.

A cumulative acknowledgement is different: only one transaction at a time may have one, it hides no message, and after
an abort nothing is delivered again, unless a consumer asks for it. While there is one, nothing else ends, as in an
Apache Pulsar 4.2.4: the ends of other transactions do nothing, and its own leaves what it has acknowledged one by one
pending.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pulsar_actors.broker.model.consumer import AckedEntry
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import Position, StoredEntry
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.storage import IN_MEMORY, Record, State, TopicStorage
from pulsar_actors.machines.trackers.ack_set import full
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.transaction_id import TransactionId

_PENDING: Final = "pending acknowledgement"


class PendingAck(NamedTuple):
    """The set of messages of one entry that a transaction acknowledges."""

    entry: StoredEntry
    messages: int


class PendingAcks:
    """The pending acknowledgements of one subscription. `Cursor.pending_acks` has the individual ones by entry.

    Each individual one has a record of its own: a transaction may have many, and they come one by one.
    """

    __slots__ = (
        "_cumulative",
        "_cursor",
        "_individual",
        "_partly_committed",
        "_record",
        "_records",
        "_storage",
        "_subscription",
    )

    def __init__(self, cursor: Cursor, storage: TopicStorage = IN_MEMORY, subscription: str = "") -> None:
        self._cursor = cursor
        self._storage = storage
        self._subscription = subscription
        self._record = storage.record("pending acknowledgements", subscription, self._state)
        self._records: dict[TransactionId, dict[int, Record]] = {}  # of the individual ones, by offset
        self._individual: dict[TransactionId, dict[int, PendingAck]] = {}  # and by offset
        self._cumulative: tuple[TransactionId, AckedEntry] | None = None
        self._partly_committed: set[int] = set()  # offsets of batches
        self._restore(self._record.stored)

    @property
    def ongoing(self) -> int:
        """The number of open transactions with acknowledgements here."""
        holders = set(self._individual)
        if self._cumulative is not None:
            holders.add(self._cumulative[0])
        return len(holders)

    def check(self, transaction: TransactionId, acknowledged: Sequence[AckedEntry]) -> list[PendingAck]:
        """Return the acknowledgements of these messages for `add`; Refusal for a conflict."""
        wanted: dict[int, PendingAck] = {}
        for each in acknowledged:
            entry = self._find(transaction, each.position)
            earlier = wanted[entry.offset].messages if entry.offset in wanted else 0
            free = self._cursor.remaining_set(entry) & ~earlier
            messages = full(entry.messages) & ~(each.ack_set or 0)
            if each.ack_set is None and not earlier and not self._has_transactions(entry):
                messages = free  # the whole entry: those that are acknowledged already are no conflict
            if not messages or messages & ~free:
                raise _conflict(transaction, each.position, "it is acknowledged already, or in a transaction")
            wanted[entry.offset] = PendingAck(entry, earlier | messages)
        return list(wanted.values())

    def add(self, transaction: TransactionId, pending: Sequence[PendingAck]) -> None:
        """Add acknowledgements that `check` returned, which a dispatcher has marked as pending at the cursor."""
        acks = self._individual.setdefault(transaction, {})
        _add_all(acks, pending)
        for entry, _ in pending:
            self._record_of(transaction, entry.offset).changed()

    def add_cumulative(self, transaction: TransactionId, acknowledged: AckedEntry) -> None:
        """Add a cumulative acknowledgement; Refusal for a conflict. A transaction may only move its own forward."""
        position = acknowledged.position
        if self._find(transaction, position).offset <= self._cursor.mark_delete:
            raise _conflict(transaction, position, "it is acknowledged already")
        if self._cumulative is not None:
            holder, earlier = self._cumulative
            if holder != transaction:
                raise _conflict(transaction, position, f"{holder} has a cumulative acknowledgement on the subscription")
            if _reach(acknowledged) <= _reach(earlier):
                raise _conflict(transaction, position, "the transaction has acknowledged it already")
        self._cumulative = transaction, acknowledged
        self._record.changed()

    def ends_individual(self, transaction: TransactionId) -> bool:
        """Return whether the end of the transaction ends individual acknowledgements."""
        return self._cumulative is None and transaction in self._individual

    def commit(self, transaction: TransactionId) -> None:
        """Acknowledge what the transaction has acknowledged."""
        self._record.changed()
        if self._cumulative is not None:
            holder, (position, ack_set) = self._cumulative
            if holder == transaction:
                self._cumulative = None
                self._cursor.acknowledge_up_to(position, ack_set)
            return
        self._forget_individual(transaction)
        for entry, messages in self._individual.pop(transaction, {}).values():
            self._cursor.release(entry, messages)
            self._cursor.acknowledge(entry, full(entry.messages) & ~messages)
            if self._cursor.is_acknowledged(entry.offset):
                self._partly_committed.discard(entry.offset)
            else:
                self._partly_committed.add(entry.offset)

    def abort(self, transaction: TransactionId) -> list[PendingAck]:
        """Drop the acknowledgements of a transaction, and return those of messages to deliver again."""
        self._record.changed()
        if self._cumulative is None:
            return self._drop_individual(transaction)
        if self._cumulative[0] == transaction:
            self._cumulative = None
        return []

    def abort_late(self, coordinator: int, low_water_mark: int) -> list[PendingAck]:
        """Drop what came after the end of its transaction, and return it as `abort` does: that of the first one.

        All transactions up to the low-water mark have ended.
        """
        first = next(iter(self._individual), None)
        if first is None or first.most != coordinator or first.least > low_water_mark:
            return []
        return self._drop_individual(first)

    def forget(self) -> None:
        """Store nothing any longer: the subscription is deleted."""
        self._record.remove()
        for transaction in list(self._records):
            self._forget_individual(transaction)

    def _state(self) -> State:
        cumulative = None
        if self._cumulative is not None:
            transaction, (position, ack_set) = self._cumulative
            cumulative = (*transaction, *position, f"{ack_set or 0:x}")
        partly_committed = [each for each in self._partly_committed if not self._cursor.is_acknowledged(each)]
        return {"cumulative": cumulative, "partly_committed": partly_committed}

    def _restore(self, stored: State) -> None:
        if stored is not None:
            self._partly_committed.update(stored["partly_committed"])
            if stored["cumulative"] is not None:
                most, least, ledger_id, entry_id, ack_set = stored["cumulative"]
                acknowledged = AckedEntry(Position(ledger_id, entry_id), int(ack_set, 16) or None)
                self._cumulative = TransactionId(most, least), acknowledged
        for name in self._storage.names(_PENDING):
            most, least, offset, subscription = name.split(" ", 3)
            if subscription == self._subscription:
                self._restore_individual(TransactionId(int(most), int(least)), int(offset))

    def _restore_individual(self, transaction: TransactionId, offset: int) -> None:
        """Hold the messages again. Those that were acknowledged otherwise have nothing left to hold."""
        messages = int(self._record_of(transaction, offset).stored, 16)
        acks = self._individual.setdefault(transaction, {})
        if not self._cursor.is_acknowledged(offset):
            entry = self._cursor.managed_ledger.entry(offset)
            self._cursor.hold(entry, messages)
            acks[offset] = PendingAck(entry, messages)

    def _record_of(self, transaction: TransactionId, offset: int) -> Record:
        records = self._records.setdefault(transaction, {})
        if offset not in records:
            name = f"{transaction.most} {transaction.least} {offset} {self._subscription}"
            records[offset] = self._storage.record(
                _PENDING, name, lambda: f"{self._individual[transaction][offset].messages:x}"
            )
        return records[offset]

    def _drop_individual(self, transaction: TransactionId) -> list[PendingAck]:
        self._forget_individual(transaction)
        dropped = self._individual.pop(transaction, {})
        for entry, messages in dropped.values():
            self._cursor.release(entry, messages)
        return [each for each in dropped.values() if self._cursor.remaining(each.entry)]

    def _forget_individual(self, transaction: TransactionId) -> None:
        for record in self._records.pop(transaction, {}).values():
            record.remove()

    def _has_transactions(self, entry: StoredEntry) -> bool:
        """Return whether a part of a batch is pending, or was acknowledged in a transaction."""
        return entry.offset in self._cursor.pending_acks or entry.offset in self._partly_committed

    def _find(self, transaction: TransactionId, position: Position) -> StoredEntry:
        managed_ledger = self._cursor.managed_ledger
        offset = managed_ledger.find(position)
        if offset is None:
            raise _conflict(transaction, position, "there is no such message")
        return managed_ledger.entry(offset)


def _add_all(pending: dict[int, PendingAck], more: Iterable[PendingAck]) -> None:
    """Add acknowledgements; those of one entry become one."""
    for entry, messages in more:
        earlier = pending.get(entry.offset)
        pending[entry.offset] = PendingAck(entry, messages if earlier is None else messages | earlier.messages)


def _reach(acknowledged: AckedEntry) -> tuple[Position, int]:
    """Return a key by which cumulative acknowledgements compare: the fewer messages an entry has left, the higher."""
    return acknowledged.position, -(acknowledged.ack_set or 0)


def _conflict(transaction: TransactionId, position: Position, why: str) -> Refusal:
    where = f"{position.ledger_id}:{position.entry_id}"
    return Refusal(ServerError.TransactionConflict, f"Transaction {transaction} cannot acknowledge {where}: {why}")
