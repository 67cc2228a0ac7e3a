"""The pending messages of one producer: all that are sent, or about to be sent, and have no receipt yet.

The queue has two parts, in one order: items that are written on the current connection, and items that wait. A new
connection moves the written part back in front of the waiting one, so the whole queue is sent again, in order, before
anything new. Broker and client keep the same order, so a receipt can only be for the head of the written part. It is
matched by the head's range of sequence ids, since a batch may be acknowledged by its first id or its last. A receipt
for an item behind the head, with an id above that range, means that the connection has lost a frame. Other receipts
are ignored: they repeat old ones, or are for what has ended without one, such as by a send timeout.

Users may give ids of their own, and send an old one again. A broker that drops repeats says so at once, while it still
stores what was sent before, with higher ids. So the receipt of such an item overtakes theirs. Items with the same id
cannot be told apart: the first of them takes the first receipt.

Transactions are an exception: before a broker stores the first message of any transaction on a topic, it prepares the
topic for transactions, and stores plain messages behind it meanwhile. So plain items may overtake those of
transactions, which keep their order among each other.

They are an exception again when a connection is lost. What was written of a transaction and has no receipt may be
stored. If the broker does not drop repeats, it fails instead of being sent again, as it must not be committed twice. It
fails as well if a plain item behind it may be stored alone: a broker that drops repeats would take it for one, by its
lower id, and say that it is stored.

A chunked message is one item with several frames that share a sequence id: each receipt is for the next chunk, and the
last receipt completes the item. Chunks with a receipt are not written again soon after, and a second receipt does not
count. Later, all chunks are written again: consumers may have given up those that are stored, and a first chunk begins
the message again. Always to do so would be simpler, but a large message might never be stored over connections that
are often lost.

Chunks are stored in order, so receipts that have overtaken each other are put in order again. Of a message that is sent
again and was there, a broker drops the last chunk only. It says so at once, while the chunks before are still being
stored, here and in the messages before. So that receipt completes the item, and those of its other chunks come too
late. If the broker says with the new connection that it has the message, only the last chunk is written again: the
others would be stored for nobody, and take room in each consumer. A key-based batch has only its last id on the wire,
so here the lowest is the highest.

Items are packed for the limit of the broker that is known at that moment. The next broker may take less, and would
close the connection for each entry that is larger, so these fail when the producer binds to it. A batch fails as a
whole: its bytes may be compressed or encrypted, and its repeat must have the same sequence ids.

Every item ends exactly once, and frees its messages and bytes in that moment. The reason of a failure is not known
here: the caller that ends an item knows it.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, takewhile
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from pulsar_actors.compiling import mypyc_attr
from pulsar_actors.exceptions import (
    BrokerRefusal,
    InternalError,
    InvalidArgument,
    MessageTooBig,
    MessageTooBigBeforeReceipt,
    ProducerFenced,
    ProducerFencedBeforeReceipt,
    PulsarException,
    TopicNotFound,
    TopicNotFoundBeforeReceipt,
    TopicTerminated,
    TopicTerminatedBeforeReceipt,
)
from pulsar_actors.machines.trackers.server_errors import not_sent_error, unconfirmed_error
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.transaction_id import TransactionId


def pending_limit(max_pending: int, across_partitions: int, partitions: int) -> int:
    """Return the number of messages that may be pending on each partition; 0 is no limit, here and in the arguments."""
    limits = [max_pending] if max_pending else []
    if across_partitions:
        limits.append(max(across_partitions // partitions, 1))
    return min(limits, default=0)


@mypyc_attr(allow_interpreted_subclasses=True)
class SendQuota:
    """A limit of the pending messages or bytes of one producer, and the used part of it. A limit of 0 is no limit.

    Only the producer's I/O thread takes and frees. Callers on other threads read `used`, and add the number of messages
    that are in the send queue.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise InvalidArgument(f"a limit is a positive number, or 0 for none: got {limit}")
        self.limit = limit
        self.used = 0

    def has_place(self, waiting: int) -> bool:
        """Check whether there is room for one more, besides those that wait in the send queue."""
        return not self.limit or self.used + waiting < self.limit

    def places(self, waiting: int) -> int:
        """Return for how many there is room, besides those that wait in the send queue."""
        return max(0, self.limit - self.used - waiting) if self.limit else sys.maxsize

    def take(self, amount: int) -> None:
        """Count so many as used."""
        self.used += amount

    def free(self, amount: int) -> None:
        """Free so many. Raise InternalError if that is more than was taken: then something has ended twice."""
        if amount > self.used:
            raise InternalError(f"{amount} freed where only {self.used} are taken: something ended twice")
        self.used -= amount


T = TypeVar("T")

MAY_BE = "it may be stored all the same"
NO_RECEIPT = "it was sent, but the producer ended before the broker's receipt came"
BEFORE_RECEIPT: Mapping[type[BrokerRefusal], type[BrokerRefusal]] = MappingProxyType(
    {
        TopicNotFound: TopicNotFoundBeforeReceipt,
        TopicTerminated: TopicTerminatedBeforeReceipt,
        ProducerFenced: ProducerFencedBeforeReceipt,
    }
)
"""Errors that end a producer, and their subclasses for messages that may have been stored before."""


_NOTHING: Final[deque[Any]] = deque(maxlen=0)
"""The written part of a producer that has written nothing.

All such producers share it, as each deque takes most of a KiB.
"""

_NONE_WAITS: Final[list[Any]] = []
"""The other part of a producer that has nothing to write. It is shared, too, and never appended to."""


class ReceiptVerdict(Enum):
    """A receipt that completes no item."""

    IGNORED = "no pending message waits for it"
    CHUNK = "one more chunk of the head is stored, others are not yet"
    SKIPS_HEAD = "it is for something behind the head: the connection has lost what went before"


class PendingSend(Generic[T]):
    """A batch or a message. `deadline` is in monotonic seconds, None for never; `frames` counts its chunks."""

    __slots__ = (
        *("deadline", "frames", "highest_sequence_id", "lowest_sequence_id", "message_ids", "messages", "size"),
        *("token", "writes"),
    )

    def __init__(  # noqa: PLR0913 - all that a receipt, a timeout or a reconnect asks for
        self,
        token: T,
        lowest_sequence_id: int,
        highest_sequence_id: int,
        messages: int,
        size: int,
        deadline: float | None,
        frames: int = 1,
    ) -> None:
        if not 0 <= lowest_sequence_id <= highest_sequence_id:
            raise InternalError(f"sequence ids run upwards from 0, got {lowest_sequence_id} to {highest_sequence_id}")
        self.token = token
        self.lowest_sequence_id = lowest_sequence_id
        self.highest_sequence_id = highest_sequence_id
        self.messages = messages
        self.size = size
        self.deadline = deadline
        self.frames = frames
        self.writes = 0
        self.message_ids: tuple[tuple[int, int], ...] = ()

    def in_transaction(self, transaction: TransactionId) -> "TransactionalSend[T]":
        """Return the same as a part of a transaction. The timeout of the transaction limits it, and no deadline."""
        item = TransactionalSend(
            self.token, self.lowest_sequence_id, self.highest_sequence_id, self.messages, self.size, None, self.frames
        )
        item.transaction = transaction
        item.first_plain_behind = None
        return item

    @property
    def next_frame(self) -> int:
        """The first frame without a receipt, where writing starts."""
        return len(self.message_ids)


class TransactionalSend(PendingSend[T]):
    """A batch or a message of a transaction. A class of its own, since all others do without the attributes.

    `first_plain_behind` is the id of the first plain item that was written behind it.
    """

    __slots__ = ("first_plain_behind", "transaction")

    first_plain_behind: int | None
    transaction: TransactionId


def _plain_may_be_stored_alone(item: TransactionalSend[Any], last_sequence_id: int) -> bool:
    """Return whether a plain item behind it may have been stored alone. It may be on its way to the disk still."""
    behind = item.first_plain_behind
    return behind is not None and not item.highest_sequence_id <= last_sequence_id < behind


RESUMES_WITHIN = 30.0
"""A message goes on with the chunks that have no receipt so many seconds after the last receipt of a chunk, at most.

That is half of the time for which consumers keep incomplete messages by default.
"""

NOT_STORED: Final = (0, 0)
"""The receipt of all that is sent to a topic that is not persistent."""

STORED_BEFORE: Final = (-1, -1)
"""The receipt of an entry that was there."""


def repeats_chunk(item: PendingSend[Any], message_id: tuple[int, int]) -> bool:
    """Return whether a receipt is for a chunk that has one: all have the same sequence id."""
    return message_id > NOT_STORED and message_id in item.message_ids


def with_receipt(ids: tuple[tuple[int, int], ...], message_id: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Return the ids of an item's frames with one more, in order: that of an entry which was there is the last."""
    return tuple(sorted((*ids, message_id), key=lambda one: (one == STORED_BEFORE, one)))


def is_complete(item: PendingSend[Any]) -> bool:
    """Return whether the broker has all frames of an item, as far as their receipts say."""
    return len(item.message_ids) == item.frames or item.message_ids[-1] == STORED_BEFORE


class StoredSend(NamedTuple):
    """An item that is stored, with (ledger, entry) of each frame; (-1, -1) if the broker had it already.

    `overtook` is true for an item that was not the head.
    """

    token: Any
    message_ids: tuple[tuple[int, int], ...]
    highest_sequence_id: int
    overtook: bool = False


class FailedSend(NamedTuple):
    """An item that failed without a receipt. If it was ever written, the broker may have stored it all the same."""

    token: Any
    may_be_stored: bool

    def error_for(self, error: PulsarException) -> PulsarException:
        """Return the error for this item: of the kind OutcomeUnknown, if the item may be stored."""
        if not self.may_be_stored:
            return not_sent_error(error)
        if isinstance(error, BrokerRefusal) and type(error) in BEFORE_RECEIPT:
            return BEFORE_RECEIPT[type(error)](error.code, f"{NO_RECEIPT}: {error.reason}")
        return unconfirmed_error(error, NO_RECEIPT)


class OversizedSend(NamedTuple):
    """An item that failed because it has an entry of so many bytes, over the limit of the broker."""

    failed: FailedSend
    size: int
    largest: int

    @property
    def error(self) -> MessageTooBig:
        """Return the error for it."""
        error = entry_too_big(self.size, self.largest)
        if self.failed.may_be_stored:
            return MessageTooBigBeforeReceipt(f"{error}; it was sent before, to one with a larger limit: {MAY_BE}")
        return error


def entry_too_big(size: int, largest: int) -> MessageTooBig:
    """Return the error for an entry of so many bytes."""
    return MessageTooBig(f"an entry of {size:,} bytes, metadata included, is over the broker's limit of {largest:,}")


class PendingMessages(Generic[T]):
    """The queue of one producer. Written items belong to the connection that they were written on.

    `messages` limits the messages, and `memory` counts their bytes. `held` has the content of the send queue at
    its close, as far as the actor has not taken it yet: payloads and tags. `largest` is the size of the largest entry
    that the broker takes.
    """

    __slots__ = (
        "_chunk_stored_at", "_connection", "_memory", "_plain_items", "_waiting", "_written",
        "held", "largest", "messages",
    )  # fmt: skip

    def __init__(self, messages: SendQuota, memory: SendQuota) -> None:
        self.messages = messages
        self._memory = memory
        self._plain_items = 0
        self._chunk_stored_at = 0.0
        self._written: deque[PendingSend[T]] = _NOTHING
        self._waiting: list[PendingSend[T]] = _NONE_WAITS
        self._connection: int | None = None
        self.held: Sequence[Any] = ()
        self.largest = DEFAULT_MAX_MESSAGE_SIZE

    def __len__(self) -> int:
        return len(self._written) + len(self._waiting)

    def reserve(self, messages: int, size: int) -> None:
        """Reserve room for messages that are about to be added."""
        self.messages.used += messages
        self._memory.take(size)

    @property
    def used(self) -> tuple[int, int]:
        """The number of messages that have room reserved, and their bytes."""
        return self.messages.used, self._memory.used

    def give_back(self, messages: int, size: int) -> None:
        """Free the room of messages that are not added after all: they are too large, or cannot be encoded."""
        self.messages.free(messages)
        self._memory.free(size)

    def add(self, item: PendingSend[T]) -> None:
        """Queue an item whose room is reserved."""
        if self._waiting is _NONE_WAITS:
            self._waiting = [item]
        else:
            self._waiting.append(item)
        self._plain_items += not isinstance(item, TransactionalSend)

    def bind(self, connection: int, now: float, last_sequence_id: int = -1) -> None:
        """Start on a new connection, where nothing is written yet.

        `last_sequence_id` is that of the last message which the broker knows. It may not be on its disk yet, so each
        still needs a receipt.
        """
        self.unbind()
        self._connection = connection
        is_too_late = now - self._chunk_stored_at > RESUMES_WITHIN
        for item in self._waiting:
            if item.frames > 1 and item.writes:
                if item.highest_sequence_id <= last_sequence_id:
                    item.message_ids = (STORED_BEFORE,) * (item.frames - 1)
                elif is_too_late or STORED_BEFORE in item.message_ids:
                    item.message_ids = ()  # or it drops repeats no more, or could not write the message after all

    def leave_cluster(self) -> None:
        """Have messages in chunks written from their start: those chunks that are stored are in another cluster."""
        for item in self._waiting:
            item.message_ids = ()

    def unbind(self) -> None:
        """Note that the connection is lost: all items wait again. They may still time out."""
        self._waiting = [*self._written, *self._waiting]
        self._written.clear()
        self._connection = None

    def take_unwritten(self) -> list[PendingSend[T]]:
        """Take the items to write now, in order; none without a connection."""
        if self._connection is None:
            return []
        items, self._waiting = self._waiting, _NONE_WAITS
        for item in items:
            item.writes += 1
        if self._written is _NOTHING and items:
            self._written = deque()
        if 0 < self._plain_items < len(self) + len(items):
            self._note_plain_behind(items)
        self._written.extend(items)
        return items

    def _note_plain_behind(self, items: Sequence[PendingSend[T]]) -> None:
        """Note that plain items are written behind those of transactions, if there was none between."""
        last = takewhile(lambda one: isinstance(one, TransactionalSend), reversed(self._written))
        transactional = [item for item in last if isinstance(item, TransactionalSend)]
        for item in items:
            if isinstance(item, TransactionalSend):
                transactional.append(item)
                continue
            for one in transactional:
                if one.first_plain_behind is None:
                    one.first_plain_behind = item.lowest_sequence_id
            transactional.clear()

    def skips_head(self, connection: int, sequence_id: int, message_id: tuple[int, int]) -> bool:
        """Return whether a receipt is for an item behind the head that cannot have overtaken those before it.

        Then the connection has lost the receipts before it.
        """
        if connection != self._connection or not self._written:
            return False
        if sequence_id <= self._written[0].highest_sequence_id:
            return False
        item = self._find(sequence_id)
        return item is not None and not self._may_overtake(item, message_id)

    def receipt(self, connection: int, sequence_id: int, message_id: tuple[int, int]) -> StoredSend | ReceiptVerdict:
        """Match a receipt with the head, or an item that has overtaken it.

        `message_id` is (ledger, entry), with -1 where the wire has 2^64-1.
        """
        if connection != self._connection or not self._written:
            return ReceiptVerdict.IGNORED
        item: PendingSend[T] | None
        item = head = self._written[0]
        if not head.lowest_sequence_id <= sequence_id <= head.highest_sequence_id:
            item = self._find(sequence_id)
            if item is None:
                return ReceiptVerdict.IGNORED
            if not self._may_overtake(item, message_id):
                is_above = sequence_id > head.highest_sequence_id
                return ReceiptVerdict.SKIPS_HEAD if is_above else ReceiptVerdict.IGNORED
        if item.frames > 1:
            if repeats_chunk(item, message_id):
                return ReceiptVerdict.IGNORED
            item.message_ids = with_receipt(item.message_ids, message_id)
            if not is_complete(item):
                return ReceiptVerdict.CHUNK
        else:
            item.message_ids = (message_id,)
        if item is head:
            self._written.popleft()
        else:
            self._written.remove(item)
        self.messages.free(item.messages)
        self._memory.free(item.size)
        self._plain_items -= not isinstance(item, TransactionalSend)
        return StoredSend(item.token, item.message_ids, item.highest_sequence_id, overtook=item is not head)

    def chunk_stored(self, now: float) -> None:
        """Note that a chunk has a receipt, and its message goes on."""
        self._chunk_stored_at = now

    def _may_overtake(self, item: PendingSend[T], message_id: tuple[int, int]) -> bool:
        """Return whether a receipt of the item may come before those of all written items before it."""
        is_plain, is_repeat = not isinstance(item, TransactionalSend), message_id == STORED_BEFORE
        return all(
            (is_plain and isinstance(one, TransactionalSend))
            or (is_repeat and one.lowest_sequence_id > item.lowest_sequence_id)
            for one in takewhile(lambda one: one is not item, self._written)
        )

    def find(self, connection: int, sequence_id: int) -> PendingSend[T] | None:
        """Find the item of a SEND_ERROR, which need not be the head. A broker names the highest id of a batch."""
        if connection != self._connection:
            return None
        exact = (item for item in self._written if item.highest_sequence_id == sequence_id)
        return next(exact, None) or self._find(sequence_id)

    def _find(self, sequence_id: int) -> PendingSend[T] | None:
        """Find the first written item with this id."""
        return next(
            (item for item in self._written if item.lowest_sequence_id <= sequence_id <= item.highest_sequence_id), None
        )

    def fail(self, item: PendingSend[T]) -> FailedSend:
        """Fail one written item, which the broker refused and did not store."""
        self._written.remove(item)
        self._plain_items -= not isinstance(item, TransactionalSend)
        self.give_back(item.messages, item.size)
        return FailedSend(item.token, may_be_stored=item.writes > 1)

    def fail_transaction(self, transaction: TransactionId) -> list[FailedSend]:
        """Fail what belongs to a transaction that is over, in order. It is not written again."""
        return self._fail_some([item for item in self._transactional() if item.transaction == transaction])

    def fail_transactions(self) -> list[FailedSend]:
        """Fail what belongs to any transaction, in order: it is not written again."""
        return self._fail_some([*self._transactional()])

    def has_unrepeatable(self, last_sequence_id: int) -> bool:
        """Return whether anything of a transaction must not be written again, to a broker with this last id."""
        return bool(self._unrepeatable(last_sequence_id))

    def fail_unrepeatable(self, last_sequence_id: int) -> list[FailedSend]:
        """Fail that, in order."""
        return self._fail_some(self._unrepeatable(last_sequence_id))

    def _unrepeatable(self, last_sequence_id: int) -> list[TransactionalSend[T]]:
        """Find what may be stored of transactions, and may be stored once more, or be dropped and not be stored."""
        return [
            item
            for item in self._transactional()
            if item.writes and (last_sequence_id < 0 or _plain_may_be_stored_alone(item, last_sequence_id))
        ]

    def _transactional(self) -> Iterator[TransactionalSend[T]]:
        return (item for item in (*self._written, *self._waiting) if isinstance(item, TransactionalSend))

    def fail_oversized(self, largest_entry: Callable[[T, int], int]) -> list[OversizedSend]:
        """Fail what the broker does not take, in order. The function returns the size of the largest entry of a token.

        Nothing is written on the connection yet.
        """
        sizes = [largest_entry(item.token, item.next_frame) for item in self._waiting]
        oversized = [(item, size) for item, size in zip(self._waiting, sizes, strict=True) if size > self.largest]
        if not oversized:
            return []
        failed = self._fail_some([item for item, _ in oversized])
        return [OversizedSend(one, size, self.largest) for one, (_, size) in zip(failed, oversized, strict=True)]

    def fail_plain(self) -> list[FailedSend]:
        """Fail everything but the parts of transactions, in order."""
        return self._fail_some(list(self._plain()))

    def _plain(self) -> Iterator[PendingSend[T]]:
        return (item for item in chain(self._written, self._waiting) if not isinstance(item, TransactionalSend))

    def _fail_some(self, items: Sequence[PendingSend[T]]) -> list[FailedSend]:
        ended = set(map(id, items))
        self._waiting = [item for item in self._waiting if id(item) not in ended]
        if self._written:
            self._written = deque(item for item in self._written if id(item) not in ended)
        for item in items:
            self._plain_items -= not isinstance(item, TransactionalSend)
            self.give_back(item.messages, item.size)
        return [FailedSend(item.token, may_be_stored=item.writes > 0) for item in items]

    def fail_all(self) -> list[FailedSend]:
        """Fail everything, in order."""
        failed: list[FailedSend] = []
        items = [*self._written, *self._waiting]
        self._written.clear()
        self._waiting = _NONE_WAITS
        self._plain_items = 0
        for item in items:
            self.give_back(item.messages, item.size)
            failed.append(FailedSend(item.token, may_be_stored=item.writes > 0))
        return failed

    def next_deadline(self) -> float | None:
        """Return the deadline of the first plain item, which has waited longest."""
        head = self._written[0] if self._written else self._waiting[0] if self._waiting else None
        if isinstance(head, TransactionalSend):
            head = next(self._plain()) if self._plain_items else None
        return None if head is None else head.deadline

    def is_late(self, now: float) -> bool:
        """Return whether the deadline of the first plain item has passed.

        Then all plain items must fail, because none may overtake a failed one.
        """
        deadline = self.next_deadline()
        return deadline is not None and deadline <= now


FlushToken = TypeVar("FlushToken")


class PendingFlushes(Generic[FlushToken]):
    """The flushes of one producer, oldest first: each waits until everything that was pending at its call has ended.

    Sends end in order, at the head of the queue, so it is enough to count: a flush is finished when as many batches
    have ended as were pending when it was asked for. A batch that fails alone, not at the head, may be older or younger
    than the flush. It is not counted. So a flush can finish one batch too late for each of these, but never too early.
    With nothing pending every flush is finished.
    """

    __slots__ = ("_ended", "waiting")

    def __init__(self) -> None:
        self._ended = 0
        self.waiting: list[tuple[int, FlushToken]] = []

    def ask(self, token: FlushToken, pending: int) -> None:
        """Add a flush, which waits for the batches that are pending now."""
        self.waiting.append((self._ended + pending, token))

    def heads_ended(self, batches: int) -> None:
        """Note that so many of the oldest pending batches have ended."""
        self._ended += batches

    def take_finished(self, pending: int) -> list[FlushToken]:
        """Take the flushes that are finished, in order, when so many batches are pending."""
        finished: list[FlushToken] = []
        while self.waiting and (not pending or self.waiting[0][0] <= self._ended):
            finished.append(self.waiting.pop(0)[1])
        return finished


class MemoryLimit:
    """A limit of the bytes that all producers of one client may have pending, and the used part of it.

    Only messages of producers count: a consumer's are limited by its receiver queue. The message that reaches the limit
    may exceed it, as in other clients. With a strict limit, a large message would have to wait for as long as small
    ones use up the room, and for ever if it is larger than the limit. Several threads take and free, so they share a
    lock.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        if limit <= 0:
            raise InvalidArgument(f"a limit of memory is a positive number of bytes: got {limit}")
        self.limit = limit
        self.used = 0

    @property
    def has_room(self) -> bool:
        """True while a message may be taken, whatever its size."""
        return self.used < self.limit

    def take(self, size: int) -> bool:
        """Take so many bytes, if there is room."""
        if not self.has_room:
            return False
        self.used += size
        return True

    def free(self, size: int) -> bool:
        """Free so many bytes; True if there is room now and was none before."""
        if size > self.used:
            raise InternalError(f"{size} bytes freed where only {self.used} are taken: something ended twice")
        was_full = not self.has_room
        self.used -= size
        return was_full and self.has_room
