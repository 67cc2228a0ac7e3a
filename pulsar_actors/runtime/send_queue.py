"""The send queue of one producer: callers enqueue messages, the producer's actor takes them out in batches.

A program may send a million messages a second, and most have only a payload. So the queue keeps two items for each
message, side by side in one list: its payload and its *tag*. A tuple for each message would keep the garbage collector
busy. The tag of a plain message is its *reply*: the callback or future to complete, the number of a message of
`send_many` (`client/send_many.py`), or None. The tag of a message with properties, a key or other metadata is a
`MessageHeader`, which holds the reply.

The first message in an empty queue and the one that fills a batch notify the actor; any other message costs only an
append. This path has no lock, which would cost more than all its other steps. It follows the rule "append, then look"
of `loop.py`: a caller appends its message, and *then* checks if the queue is so long that the actor must be notified.
While the actor is idle, and once the queue is closed, this holds from the first message on. The actor takes the
messages, notes that it is idle, and *then* checks if messages are left for which no caller will notify it. A duplicate
notification is harmless; a delayed one only delays messages.

A queue that is closed keeps its messages for the actor, but not in the buffer. A caller that finds the queue closed
after it has appended fails all that is in the buffer: its own message, and those of others that were as late.

`Producer.send_async` does the same for a small payload without a header, in its own frame. It counts no bytes: a batch
of such payloads is full by its number first. `small` is the largest of them, and negative once the queue is closed.

The messages in the queue and the producer's pending messages together count against `max_pending_messages`. Near the
limit callers take a lock, so that they do not exceed it together. The actor takes the lock to move messages from the
queue to the pending ones. A caller may check the limit while there is room, and then be suspended by the operating
system until others have filled the queue. It then exceeds the limit, by one message, since it checks again before the
next.
"""

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pulsar_actors.compiling import mypyc_attr
from pulsar_actors.exceptions import ProducerQueueIsFull
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.pending_messages import PendingMessages
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.future import SlimFuture, WaiterQueue
from pulsar_actors.runtime.loop import THREADS, Buffer, Interleaving
from pulsar_actors.wire.protobuf import serialise
from pulsar_actors.wire.PulsarApi_pb2 import SingleMessageMetadata


class UnbatchableOptions(NamedTuple):
    """Options that have no field in a batch: a message with one of them is an entry of its own."""

    deliver_at_ms: int | None = None
    replicate_to: tuple[str, ...] = ()
    data_key: "object" = None  # quoted: mypyc looks for `object` among the module's names


class CompressedPayload(NamedTuple):
    """The compressed payload of an entry that has one message only, and its size before."""

    data: Buffer
    uncompressed_size: int


class MessageHeader(NamedTuple):
    """The tag of a message with properties, a key or other metadata: the encoded metadata, and some fields of it.

    `sequence_id` is set if the user chose one. `compressed` is set if the caller's thread has compressed the payload.
    `transaction` is the `TransactionWork` of a message that is sent in a transaction. `metadata` is empty if a header
    was made only for one of the last two.
    """

    metadata: bytes
    partition_key: str | None
    ordering_key: bytes | None
    sequence_id: int | None
    unbatchable: UnbatchableOptions | None
    reply: "object"
    compressed: CompressedPayload | None = None
    transaction: "object" = None

    @classmethod
    def of(
        cls, single: SingleMessageMetadata, unbatchable: UnbatchableOptions | None, reply: object
    ) -> "MessageHeader":
        """Make the header of encoded metadata."""
        return cls(
            serialise(single),
            single.partition_key if single.HasField("partition_key") else None,
            single.ordering_key if single.HasField("ordering_key") else None,
            single.sequence_id if single.HasField("sequence_id") else None,
            unbatchable,
            reply,
            None,
            None,
        )


_tuple: Any = tuple
HeaderFields: TypeAlias = tuple[
    bytes,
    str | None,
    bytes | None,
    int | None,
    UnbatchableOptions | None,
    object,
    CompressedPayload | None,
    object,
]
new_message_header: Callable[[HeaderFields], MessageHeader] = partial(_tuple.__new__, MessageHeader)
"""Makes a MessageHeader from a tuple of all fields, in a third of the time."""


def tag_in(transaction: object, tag: object) -> MessageHeader:
    """Return the tag of a message that is sent in a transaction."""
    if type(tag) is MessageHeader:
        return tag._replace(transaction=transaction)
    return new_message_header((b"", None, None, None, None, tag, None, transaction))


def reply_of(tag: object) -> object:
    """Return the reply in a tag."""
    return tag.reply if type(tag) is MessageHeader else tag


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)
class OutgoingMessages:
    """Messages in order, as columns. `has_headers` is True if any of the tags is a `MessageHeader`."""

    __slots__ = ("has_headers", "payloads", "sizes", "tags")

    def __init__(self, payloads: Sequence[bytes], tags: Sequence[object], *, may_have_headers: bool = True) -> None:
        self.payloads = payloads
        self.tags = tags
        self.sizes: Sequence[int] = list(map(len, payloads))
        self.has_headers = may_have_headers and MessageHeader in map(type, tags)  # runs in C, for speed

    @classmethod
    def from_flat(cls, flat: Sequence[object], *, may_have_headers: bool) -> "OutgoingMessages":
        """Make columns of the content of a send queue: payloads and tags alternate there."""
        return cls(flat[::2], flat[1::2], may_have_headers=may_have_headers)  # type: ignore[arg-type] # the list has both

    def __len__(self) -> int:
        return len(self.payloads)

    def at(self, positions: Sequence[int]) -> "OutgoingMessages":
        """Return the messages at these positions, which are in ascending order."""
        if len(positions) == len(self):
            return self
        if isinstance(positions, range):
            return self._part(slice(positions.start, positions.stop))
        return OutgoingMessages([self.payloads[one] for one in positions], [self.tags[one] for one in positions])

    def _part(self, part: slice) -> "OutgoingMessages":
        """Return messages that follow each other. What is known of all need not be found out again."""
        messages = OutgoingMessages.__new__(OutgoingMessages)
        messages.payloads, messages.tags, messages.sizes = self.payloads[part], self.tags[part], self.sizes[part]
        messages.has_headers = self.has_headers and MessageHeader in map(type, messages.tags)
        return messages

    @property
    def size(self) -> int:
        """The bytes of all payloads."""
        return sum(self.sizes)

    @property
    def unbatchable(self) -> Collection[int]:
        """The positions of the messages that cannot be batched."""
        if not self.has_headers:
            return ()
        return {
            position
            for position, tag in enumerate(self.tags)
            if type(tag) is MessageHeader and tag.unbatchable is not None
        }

    @property
    def replies(self) -> Sequence[object]:
        """The reply of each message."""
        if not self.has_headers:
            return self.tags
        return [tag.reply if type(tag) is MessageHeader else tag for tag in self.tags]  # `reply_of`, without the calls


class SentTo(NamedTuple):
    """The (ledger, entry) of each frame, whether the messages were a batch, and the bytes of their payloads."""

    positions: tuple[tuple[int, int], ...]
    batched: bool
    size: int


new_sent_to: Callable[[tuple[tuple[tuple[int, int], ...], bool, int]], SentTo] = partial(_tuple.__new__, SentTo)
"""Makes a SentTo from a tuple of all fields, in half of the time."""


SendOutcome: TypeAlias = tuple[Sequence[object], SentTo | Exception]
"""The replies of the messages of one entry, or of one chunked message, and their common outcome."""

ReportOutcomes: TypeAlias = Callable[[Iterable[SendOutcome]], None]
"""Completes the replies."""


LOCKING_MARGIN: Final = 64
"""With so few messages left to the limit, callers take a lock."""

NEVER: Final = sys.maxsize
"""A length that no queue reaches."""

NONE_IS_SMALL: Final = -1


def largest_uncounted(limits: BatchLimits | None) -> int:
    """Return the size of payloads whose bytes need not be counted: a batch of them is full by its number first."""
    if limits is None:
        return NEVER
    return limits.size // limits.messages


@mypyc_attr(allow_interpreted_subclasses=True)
class SendQueue:
    """The queue. `limits` is None where messages are not batched. Callers that need room wait in `waiting`."""

    __slots__ = (
        "_bytes",
        "_checkpoint",
        "_full",
        "_full_bytes",
        "_lock",
        "_notify_at_bytes",
        "_quota",
        "buffer",
        "closed",
        "had_headers",
        "limits",
        "locked_from",
        "notify_at",
        "pending",
        "report",
        "small",
        "transactional",
        "waiting",
    )

    def __init__(
        self,
        pending: PendingMessages[Any],
        limits: BatchLimits | None,
        report: ReportOutcomes,
        interleaving: Interleaving = THREADS,
    ) -> None:
        self.pending = pending
        self.limits = limits
        self.report = report
        self.buffer: list[Any] = []  # payloads and tags alternate
        self.closed: Exception | None = None
        self.had_headers = False  # set before the first header is appended: without one, nothing looks for them
        self._quota = pending.messages
        self._full, self._full_bytes = (NEVER, NEVER) if limits is None else (2 * limits.messages, limits.size)
        self.notify_at, self._notify_at_bytes = 0, NEVER  # from this buffer length or size on, notify the actor
        self._bytes = 0
        self._lock = interleaving.lock()
        self._checkpoint = interleaving.checkpoint
        self.waiting = WaiterQueue()
        self.locked_from = NEVER  # from this length of the buffer on, callers take the lock
        self.small = largest_uncounted(limits)
        self.transactional = False  # set before the first message of a transaction is appended
        self._measure_room()

    def put(self, payload: bytes, tag: object) -> bool:
        """Enqueue a message; return whether the actor has to be notified. Raises LimitReached if there is no room."""
        buffer = self.buffer
        if type(tag) is MessageHeader:
            self.had_headers = True
            if tag.transaction is not None:
                self.transactional = True
        if len(buffer) >= self.locked_from:
            self._put_locked(payload, tag)
        else:
            buffer.extend((payload, tag))
        self._bytes += len(payload)
        return (len(buffer) >= self.notify_at or self._bytes >= self._notify_at_bytes) and self.must_notify()

    def put_many(self, payloads: Sequence[bytes], tags: Sequence[object]) -> tuple[int, bool]:
        """Enqueue the first of these messages, as many as there is room for. All are in one transaction, or in none.

        Return their number, and whether the actor has to be notified. Raises LimitReached if there is room for none.
        """
        buffer, count = self.buffer, len(payloads)
        flat: list[Any] = [None] * (2 * count)
        flat[::2], flat[1::2] = payloads, tags
        if not self.had_headers:
            self.had_headers = MessageHeader in map(type, tags)
        first = tags[0]
        if type(first) is MessageHeader and first.transaction is not None:
            self.transactional = True
        with self._lock:
            places = self._quota.places(len(buffer) >> 1)
            if not places:
                raise _queue_is_full()
            if places < count:
                count = places
                del flat[2 * count :]
            buffer.extend(flat)
        self._bytes += sum(map(len, payloads if count == len(payloads) else payloads[:count]))
        is_due = len(buffer) >= self.notify_at or self._bytes >= self._notify_at_bytes
        return count, is_due and self.must_notify()

    def must_notify(self) -> bool:
        """Return whether a caller, which found the queue long enough, has to notify the actor."""
        is_full = len(self.buffer) >= self._full or self._bytes >= self._full_bytes
        if is_full:
            self._notify_from(NEVER, NEVER)
        else:
            self._notify_from(self._full, self._full_bytes)
        return self.closed is None

    def _notify_from(self, length: int, size: int) -> None:
        """Let callers notify the actor from this length or size on, unless the queue was closed meanwhile."""
        self.notify_at, self._notify_at_bytes = length, size
        self._checkpoint()
        if self.closed is not None:
            self._fail_late(self.closed)

    def _go_idle(self) -> None:
        self.notify_at, self._notify_at_bytes = 0, NEVER

    def _measure_room(self) -> None:
        quota = self._quota
        self.locked_from = 2 * (quota.limit - quota.used - LOCKING_MARGIN) if quota.limit else NEVER

    def limit_to(self, limit: int) -> None:
        """Change the limit of pending messages. Those that are pending stay, even if they are more."""
        with self._lock:
            self._quota.limit = limit
            self._measure_room()

    def _put_locked(self, payload: bytes, tag: object) -> None:
        with self._lock:
            if not self._quota.has_place(len(self.buffer) >> 1):
                raise _queue_is_full()
            self.buffer.extend((payload, tag))

    def used(self) -> tuple[int, int]:
        """Return the number of messages that are in the queue or pending, and their bytes."""
        with self._lock:
            here = [*self.pending.held[::2], *self.buffer[::2]]
            messages, size = self.pending.used
        return messages + len(here), size + sum(map(len, here))

    @property
    def is_quiet(self) -> bool:
        """True if no message is in the queue or pending."""
        return not self.buffer and not self._quota.used

    def add_waiter(self, future: SlimFuture[None]) -> None:
        """Complete a future when there may be room."""
        self.waiting.append(future)

    def has_room(self) -> bool:
        """Return whether a message could be enqueued now."""
        with self._lock:
            return self._quota.has_place(len(self.buffer) >> 1)

    def room(self) -> SlimFuture[None]:
        """Return a future that is completed when there may be room for a message."""
        future: SlimFuture[None] = SlimFuture()
        self.wait_for_room(future)
        return future

    def wait_for_room(self, future: SlimFuture[None]) -> None:
        """Complete a future when there may be room for a message, at once if there is."""
        self.add_waiter(future)
        self._checkpoint()
        if self.closed is not None or self.has_room():
            self.waiting.wake_all()

    def begin_take(self, first: int = 0) -> OutgoingMessages:
        """Return the messages from one of them on; all stay there. Now the next full batch notifies the actor."""
        self._notify_from(self._full, self._full_bytes)
        return self._as_columns(self.buffer[2 * first :])

    def take(self, count: int, size: int) -> None:
        """Remove the first messages, which the actor has packed, and count them as pending. `size` is their bytes."""
        self._checkpoint()
        with self._lock:
            self.pending.reserve(count, size)
            self._measure_room()
            if self.pending.held:
                self.pending.held = self.pending.held[2 * count :]
            else:
                del self.buffer[: 2 * count]
        self._checkpoint()
        self._bytes = 0  # too low if messages are left; then the next full batch is noticed a little later

    def idle_if_empty(self) -> bool:
        """Return whether no messages are left. If so, the actor is idle until it is notified."""
        self._go_idle()
        self._checkpoint()
        if not self.buffer:
            return True
        self._notify_from(self._full, self._full_bytes)
        return False

    def room_freed(self) -> None:
        """Wake callers that wait for room: some pending messages have ended."""
        self._measure_room()
        if self.waiting:  # who comes now finds the room
            self.waiting.wake_all()

    def forget(self, error: Exception) -> None:
        """Refuse messages, in a forked child, where a thread that does not exist there may hold the lock."""
        self._lock = threading.Lock()
        self.closed = error
        self.small = NONE_IS_SMALL
        self._go_idle()
        self.buffer = []

    def close(self, error: Exception) -> None:
        """Refuse messages from now on, and keep those in the queue for the actor, where no late caller fails them."""
        with self._lock:
            if self.closed is None:
                self._refuse(error)
                self.pending.held = self._cleared()
        self.waiting.wake_all()

    def held(self, first: int) -> OutgoingMessages:
        """Return the messages that were kept, from one of them on; all stay there."""
        return self._as_columns([*self.pending.held[2 * first :]])

    def end(self, error: Exception) -> None:
        """Refuse messages from now on, and fail those in the queue, or kept."""
        self._refuse(error)
        with self._lock:
            left, self.pending.held = [*self.pending.held, *self._cleared()], ()
        self._fail(left, error)
        self.waiting.wake_all()

    def _refuse(self, error: Exception) -> None:
        if self.closed is None:
            self.closed = error
        self.small = NONE_IS_SMALL
        self._go_idle()

    def _fail_late(self, error: Exception) -> None:
        """Fail messages that were appended after the queue was closed."""
        self._go_idle()
        with self._lock:
            left = self._cleared()
        self._fail(left, error)

    def _cleared(self) -> list[Any]:
        """Take out all that is in the buffer. Callers may append to it meanwhile."""
        left = self.buffer[:]
        del self.buffer[: len(left)]
        return left

    def _fail(self, left: list[Any], error: Exception) -> None:
        if left:
            messages = self._as_columns(left)
            self.discarded(messages.size)
            self.report([(messages.replies, error)])

    def _as_columns(self, flat: list[Any]) -> OutgoingMessages:
        """Return the columns of messages that were copied out of the buffer before this call."""
        return OutgoingMessages.from_flat(flat, may_have_headers=self.had_headers)

    def discarded(self, size: int) -> None:
        """Free the memory of messages that fail in the queue. Without a memory limit there is nothing to free."""


def _queue_is_full() -> ProducerQueueIsFull:
    return ProducerQueueIsFull("max_pending_messages are pending already: wait, or use block_if_queue_full=True")
