"""What one producer has sent, or is about to send, and holds no receipt for.

The queue has two parts, in one order: what is written on the current connection, and what waits to be. A new connection
moves the written part back in front of the waiting one, so the whole queue is sent again, in order, before anything
new. Broker and client keep the same order, so a receipt can only be for the head of the written part: it is matched by
the head's range of sequence ids, as a batch may be acknowledged by its first id or its last. A receipt below that
range repeats an old one and is ignored; one above it means that the connection lost a frame.

A chunked message is one item with several frames that share a sequence id: each receipt is for the next chunk, and the
last one ends the item. Chunks with a receipt are not written again. A key-based batch goes by its last id alone, on the
wire and so here too: first = last.

Every item ends exactly once, and frees its messages and bytes in that moment. Nothing here knows why an item fails:
whoever ended it does.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from pulsar_actors.exceptions import (
    BrokerRefusal,
    ConnectError,
    InternalError,
    OutcomeUnknown,
    ProducerFenced,
    ProducerFencedBeforeReceipt,
    PulsarException,
    TopicNotFound,
    TopicNotFoundBeforeReceipt,
    TopicTerminated,
    TopicTerminatedBeforeReceipt,
)
from pulsar_actors.machines.ledgers.send_quota import SendQuota

T = TypeVar("T")

DROPPED = (-1, -1)

NO_RECEIPT = "it was sent and no receipt came before the end"
BEFORE_RECEIPT: Mapping[type[BrokerRefusal], type[BrokerRefusal]] = MappingProxyType(
    {
        TopicNotFound: TopicNotFoundBeforeReceipt,
        TopicTerminated: TopicTerminatedBeforeReceipt,
        ProducerFenced: ProducerFencedBeforeReceipt,
    }
)
"""What ends a living producer, and the same for a message that it may have stored before: whoever catches the first
catches the second."""


_NOTHING: Final[deque[Any]] = deque(maxlen=0)
"""Nothing written, for all who have never written anything: an empty deque of one's own takes most of a KiB."""


class Receipt(Enum):
    """A receipt that ends nothing."""

    IGNORED = "nobody waits for it any longer, or not yet"
    CHUNK = "one more chunk of the head is stored, others are not yet"
    SKIPS_HEAD = "it is for something behind the head: the connection has lost what went before"


@dataclass(slots=True, eq=False)
class Pending(Generic[T]):
    """A batch or a message. `deadline` is in monotonic seconds, None for never; `frames` counts its chunks."""

    token: T
    first: int
    last: int
    messages: int
    size: int
    deadline: float | None
    frames: int = 1
    writes: int = 0
    message_ids: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise InternalError(f"sequence ids run upwards from 0, got {self.first} to {self.last}")

    @property
    def next_frame(self) -> int:
        """The first frame that has no receipt, from which on to write."""
        return len(self.message_ids)


@dataclass(slots=True)
class Stored(Generic[T]):
    """An item ended well: (ledger, entry) of each frame. A duplicate was dropped by the broker, having it already."""

    token: T
    message_ids: tuple[tuple[int, int], ...]
    last: int
    duplicate: bool


@dataclass(slots=True)
class Failed(Generic[T]):
    """An item ended without a receipt. If it was ever written, the broker may have stored it all the same."""

    token: T
    may_be_stored: bool

    def told(self, error: PulsarException) -> PulsarException:
        """Say with an error no more than is known of the item."""
        if self.may_be_stored and isinstance(error, BrokerRefusal) and type(error) in BEFORE_RECEIPT:
            return BEFORE_RECEIPT[type(error)](error.code, f"{NO_RECEIPT}: {error.reason}")
        if self.may_be_stored and not isinstance(error, (OutcomeUnknown, InternalError)):  # these leave it open
            return OutcomeUnknown(f"{NO_RECEIPT}: {error}")
        return error if self.may_be_stored else unsent(error)


def unsent(error: PulsarException) -> PulsarException:
    """Say with an error that a message was not sent, whatever the error leaves open of the producer."""
    return ConnectError(f"it was not sent: {error}") if isinstance(error, OutcomeUnknown) else error


class PendingSends(Generic[T]):
    """The queue of one producer. Written items belong to the connection that they were written on.

    There is a limit to its messages; `memory` counts their bytes, and says so to whoever keeps a limit of those.
    """

    __slots__ = ("_connection", "_memory", "_waiting", "_written", "messages")

    def __init__(self, messages: SendQuota, memory: SendQuota) -> None:
        self.messages = messages
        self._memory = memory
        self._written: deque[Pending[T]] = _NOTHING
        self._waiting: list[Pending[T]] = []
        self._connection: int | None = None

    def __len__(self) -> int:
        return len(self._written) + len(self._waiting)

    def reserve(self, messages: int, size: int) -> None:
        """Take places for messages that are about to be added."""
        self.messages.take(messages)
        self._memory.take(size)

    @property
    def used(self) -> tuple[int, int]:
        """Give the messages that have places, and their bytes."""
        return self.messages.used, self._memory.used

    def give_back(self, messages: int, size: int) -> None:
        """Free what was reserved for messages that never got here: too large, or impossible to encode."""
        self.messages.free(messages)
        self._memory.free(size)

    def add(self, item: Pending[T]) -> None:
        """Queue an item whose room is reserved."""
        self._waiting.append(item)

    def bind(self, connection: int) -> None:
        """Start on a new connection, where nothing is written yet."""
        self.unbind()
        self._connection = connection

    def unbind(self) -> None:
        """Lose the connection: everything waits again, and may still time out."""
        self._waiting = [*self._written, *self._waiting]
        self._written.clear()
        self._connection = None

    def take_unwritten(self) -> list[Pending[T]]:
        """Give the items to write now, in order, and count them as written. None without a connection."""
        if self._connection is None:
            return []
        items, self._waiting = self._waiting, []
        for item in items:
            item.writes += 1
        if self._written is _NOTHING and items:
            self._written = deque()
        self._written.extend(items)
        return items

    def skips_head(self, connection: int, sequence_id: int) -> bool:
        """Tell whether a receipt is for something behind the head: then the connection has lost what went before."""
        return connection == self._connection and bool(self._written) and sequence_id > self._written[0].last

    def receipt(self, connection: int, sequence_id: int, message_id: tuple[int, int]) -> Stored[T] | Receipt:
        """Match a receipt with the head. `message_id` is (ledger, entry), with -1 where the wire has 2^64-1."""
        if connection != self._connection or not self._written:
            return Receipt.IGNORED
        head = self._written[0]
        if not head.first <= sequence_id <= head.last:
            return Receipt.IGNORED if sequence_id < head.first else Receipt.SKIPS_HEAD
        head.message_ids += (message_id,)
        if len(head.message_ids) < head.frames:
            return Receipt.CHUNK
        self._written.popleft()
        self.give_back(head.messages, head.size)
        return Stored(head.token, head.message_ids, head.last, duplicate=DROPPED in head.message_ids)

    def find(self, connection: int, sequence_id: int) -> Pending[T] | None:
        """Find what a SEND_ERROR speaks of; it need not be the head."""
        if connection != self._connection:
            return None
        return next((item for item in self._written if item.first <= sequence_id <= item.last), None)

    def fail(self, item: Pending[T]) -> Failed[T]:
        """End one written item, which the broker refused: this writing of it is not stored."""
        self._written.remove(item)
        self.give_back(item.messages, item.size)
        return Failed(item.token, may_be_stored=item.writes > 1)

    def fail_all(self) -> list[Failed[T]]:
        """End everything, in order."""
        failed: list[Failed[T]] = []
        items = [*self._written, *self._waiting]
        self._written.clear()
        self._waiting.clear()
        for item in items:
            self.give_back(item.messages, item.size)
            failed.append(Failed(item.token, may_be_stored=item.writes > 0))
        return failed

    def next_deadline(self) -> float | None:
        """Give the time at which `is_late` will hold: the head has waited longest."""
        if self._written:
            return self._written[0].deadline
        return self._waiting[0].deadline if self._waiting else None

    def is_late(self, now: float) -> bool:
        """Tell whether the head's time is up. Then everything must fail, for nothing may overtake what failed."""
        deadline = self.next_deadline()
        return deadline is not None and deadline <= now
