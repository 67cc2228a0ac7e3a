"""The transaction buffer of a topic: it hides the messages of transactions until these are committed.

A message of a transaction is stored where it is sent. Its entry, and all later entries of the topic, may not be read
while the transaction is open: `ManagedLedger.readable_end` is the offset of the first message of the oldest open
transaction. So plain messages wait behind a transaction, too, and messages are read in the order of writing.

The end of a transaction is stored as a marker, an entry that is never delivered. The messages of an aborted transaction
are never delivered either. A broker finds these by their metadata, so a message that has the transaction only in its
command waits for the end, but is delivered after an abort.

A buffer remembers the aborted transactions, and refuses later messages of these. It does not remember the committed
ones. But the coordinator says with each end up to which number all of its transactions have ended: the buffer refuses
later messages of those, and aborts what it still has of them, such as a transaction that was opened again by a message
that came after its end.
"""

from typing import Final

from pulsar_actors.broker.model.entry import Position, StoredEntry, metadata_of
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.managed_ledger import ManagedLedger
from pulsar_actors.broker.model.storage import IN_MEMORY, State, TopicStorage
from pulsar_actors.wire.entries import encode_entry
from pulsar_actors.wire.protobuf import unsigned
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata, ServerError
from pulsar_actors.wire.transaction_id import TransactionId, set_transaction, transaction_in

_ABORTED: Final = "aborted transaction"
_COMMIT_MARKER: Final = 21
_ABORT_MARKER: Final = 22
_MARKER_PRODUCER: Final = "pulsar.txn.marker"


class MessagesOfTransaction:
    """The messages of an open transaction in one topic: the offset of the first, and those that an abort hides."""

    __slots__ = ("first_offset", "hidden_by_abort")

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.hidden_by_abort: list[StoredEntry] = []


class TransactionBuffer:
    """The transactions of one topic. `committed` counts those that were committed since the topic was created.

    Each aborted one has a record of its own, because there is no end of them.
    """

    __slots__ = (
        "_is_used",
        "_low_water_marks",
        "_managed_ledger",
        "_open",
        "_record",
        "_storage",
        "aborted",
        "committed",
    )

    def __init__(self, managed_ledger: ManagedLedger, storage: TopicStorage = IN_MEMORY) -> None:
        self._managed_ledger = managed_ledger
        self._storage = storage
        self._record = storage.record("transaction buffer", "", self._state)
        self._open: dict[TransactionId, MessagesOfTransaction] = {}  # in the order of their first messages
        self._low_water_marks: dict[int, int] = {}  # by coordinator
        self._is_used = False  # True after the first message of any transaction
        self.aborted: set[TransactionId] = set()
        self.committed = 0
        if (stored := self._record.stored) is not None:
            self._restore(stored)

    @property
    def ongoing(self) -> int:
        """The number of open transactions with messages here."""
        return len(self._open)

    def start_of(self, transaction: TransactionId) -> Position | None:
        """Return the position of the first message of an open transaction; None if it has none here."""
        found = self._open.get(transaction)
        return None if found is None else self._managed_ledger.position(found.first_offset)

    def refuse_ended(self, transaction: TransactionId) -> None:
        """Refuse a message of a transaction that is known to have ended."""
        if transaction in self.aborted or transaction.least <= self._low_water_marks.get(transaction.most, -1):
            reason = f"Transaction [{transaction}] has been ended. Please use a new transaction to send message."
            raise Refusal(ServerError.NotAllowedError, reason)

    def append(self, transaction: TransactionId, entry: StoredEntry, metadata: MessageMetadata) -> None:
        """Store a message of a transaction, which may be its first."""
        self._is_used = True
        if transaction not in self._open:
            self._open[transaction] = MessagesOfTransaction(self._managed_ledger.end)
            self._record.changed()
        self._managed_ledger.is_held = True
        self._managed_ledger.append(entry)
        if transaction_in(metadata) == transaction:
            self._open[transaction].hidden_by_abort.append(entry)

    def end(self, transaction: TransactionId, now_ms: int, *, commit: bool, low_water_mark: int) -> None:
        """End a transaction. All of its coordinator up to the low-water mark have ended, too."""
        coordinator = transaction.most
        self._low_water_marks[coordinator] = max(low_water_mark, self._low_water_marks.get(coordinator, -1))
        self._end(transaction, now_ms, commit=commit)
        for other in [each for each in self._open if each.most == coordinator and each.least <= low_water_mark]:
            self._end(other, now_ms, commit=False)
        self._hold_from_the_oldest()
        self._record.changed()

    def _hold_from_the_oldest(self) -> None:
        oldest = next(iter(self._open.values()), None)
        self._managed_ledger.is_held = oldest is not None
        self._managed_ledger.readable_end = self._managed_ledger.end if oldest is None else oldest.first_offset

    def _end(self, transaction: TransactionId, now_ms: int, *, commit: bool) -> None:
        messages = self._open.pop(transaction, None)
        if commit:
            self.committed += 1
        elif self._is_used:
            self.aborted.add(transaction)
            self._storage.record(_ABORTED, f"{transaction.most} {transaction.least}", dict).changed()
            for entry in messages.hidden_by_abort if messages is not None else ():
                self._managed_ledger.hide(entry)
        else:
            return
        self._managed_ledger.append(_marker(transaction, now_ms, commit=commit))

    def _state(self) -> State:
        return {
            "open": [(*transaction, messages.first_offset) for transaction, messages in self._open.items()],
            "low_water_marks": list(self._low_water_marks.items()),
            "committed": self.committed,
            "is_used": self._is_used,
        }

    def _restore(self, stored: State) -> None:
        """Take over what was stored. What an abort hides is found by its metadata, as in any broker."""
        self._open = {TransactionId(most, least): MessagesOfTransaction(first) for most, least, first in stored["open"]}
        self._low_water_marks = dict(stored["low_water_marks"])
        self.aborted = {TransactionId(*map(int, name.split())) for name in self._storage.names(_ABORTED)}
        self.committed = stored["committed"]
        self._is_used = stored["is_used"]
        self._hold_from_the_oldest()
        for offset in range(self._managed_ledger.readable_end, self._managed_ledger.end):
            entry = self._managed_ledger.entry(offset)
            transaction = transaction_in(metadata_of(entry.data, entry.author, entry.broker_timestamp))
            if transaction is not None and transaction in self._open:
                self._open[transaction].hidden_by_abort.append(entry)


def _marker(transaction: TransactionId, now_ms: int, *, commit: bool) -> StoredEntry:
    metadata = MessageMetadata(
        producer_name=_MARKER_PRODUCER,
        sequence_id=unsigned(-1),
        publish_time=now_ms,
        marker_type=_COMMIT_MARKER if commit else _ABORT_MARKER,
    )
    set_transaction(metadata, transaction)
    marker = StoredEntry(b"".join(encode_entry(metadata, b"")), metadata, _MARKER_PRODUCER, now_ms)
    marker.is_hidden = True
    return marker
