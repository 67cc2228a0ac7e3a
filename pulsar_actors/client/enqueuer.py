"""The enqueuers of a producer: they take callers' messages for its actor.

They also compress messages that are not batched, in the caller's thread. An enqueuer waits for room in the queue if
`block_if_queue_full` is set. A producer of one topic has a `SendQueueEnqueuer`. A partitioned producer has one for each
partition, behind another enqueuer that chooses among them.

A message is passed as its payload and its tag: see `send_queue.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.client.send_many import as_failure
from pulsar_actors.compiling import mypyc_attr
from pulsar_actors.exceptions import LimitReached, ProcessForked, PulsarException
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.batch_builder import compress_message
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import copy_error
from pulsar_actors.runtime.producer_actor import MessagesEnqueued, TriggerFlush
from pulsar_actors.runtime.send_queue import MessageHeader, SendQueue
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType

_MESSAGES_ENQUEUED, _TRIGGER_FLUSH = MessagesEnqueued(), TriggerFlush()

MESSAGES_AT_ONCE: Final = 1000
"""The most messages of one call that enter a queue in one step: the first are sent while others are enqueued."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Enqueuer(ABC):
    """Takes the messages of one producer. Any thread may use it."""

    __slots__ = ()

    @property
    @abstractmethod
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""

    @abstractmethod
    def has_ended_by(self, error: Exception) -> bool:
        """Return True if an error of this kind has ended the producer, or one of its partitions."""

    @abstractmethod
    def enqueuer_for(self, payload: bytes, tag: object) -> "SendQueueEnqueuer":
        """Return the enqueuer of the queue that a message goes to."""

    @abstractmethod
    def enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message. Waits for room if `block_if_queue_full` is set."""

    @abstractmethod
    def enqueue_and_flush(self, payload: bytes, tag: object, awaited: "Future[Any]") -> None:
        """Enqueue a message whose caller is about to wait, and send it at once with the messages batched so far."""

    @abstractmethod
    def try_enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message without ever waiting: for any thread, I/O threads included."""

    @abstractmethod
    def shares(self, payloads: Sequence[bytes], tags: Sequence[object]) -> "list[Share]":
        """Divide messages among the queues that they go to, in an order in which they can be enqueued."""


class Share(NamedTuple):
    """Messages for one queue, in order."""

    enqueuer: "SendQueueEnqueuer"
    payloads: Sequence[bytes]
    tags: Sequence[object]

    def pieces(self) -> "Iterator[Share]":
        """Divide it into messages that enter the queue in one step."""
        for start in range(0, len(self.payloads), MESSAGES_AT_ONCE):
            stop = start + MESSAGES_AT_ONCE
            yield Share(self.enqueuer, self.payloads[start:stop], self.tags[start:stop])


def _interrupts(error: BaseException) -> bool:
    """Return whether Ctrl-C or another signal handler has raised the error; others are refusals."""
    return isinstance(error, KeyboardInterrupt) or not isinstance(error, PulsarException)


@mypyc_attr(allow_interpreted_subclasses=True)
class SendQueueEnqueuer(Enqueuer):
    """The enqueuer of one send queue. If `waits` is set, callers wait for room in a full queue.

    `notify` tells the producer's actor about new messages. For a lazy partition without a producer, `notify` tells the
    actor of the partitioned producer instead, and `start_single_producer` replaces it.

    With a codec, `enqueue` compresses each message that has an entry of its own: because batching is off, because the
    message cannot be batched, or because its payload is larger than a batch may be. All others are compressed by the
    actor on the I/O thread: batches, whose size is limited and so the time that this takes, and the few messages of
    `try_enqueue`, whose caller may be on an I/O thread, too.
    """

    __slots__ = ("_codec", "_engine", "_largest_batch", "_waits", "notify", "send_callbacks", "send_queue")

    def __init__(
        self,
        engine: Engine,
        send_queue: SendQueue,
        send_callbacks: SendCallbacks,
        notify: Callable[[object], object],
        *,
        waits: bool,
        codec: "CompressionType.ValueType | None" = None,
    ) -> None:
        self._engine = engine
        self._waits = waits
        self._codec = codec
        self._largest_batch = -1 if send_queue.limits is None else send_queue.limits.size  # -1: each message is larger
        self.send_queue = send_queue
        self.send_callbacks = send_callbacks
        self.notify = notify

    @property
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""
        return self.send_queue.closed

    def has_ended_by(self, error: Exception) -> bool:
        """Return True if an error of this kind has ended the producer."""
        return type(error) is type(self.send_queue.closed)

    def enqueuer_for(self, payload: bytes, tag: object) -> "SendQueueEnqueuer":  # noqa: ARG002 - there is one queue
        """Return this enqueuer."""
        return self

    def enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message. Waits for room if `block_if_queue_full` is set."""
        send_queue = self.send_queue
        buffer = send_queue.buffer
        try:
            if self._codec is None and len(payload) <= send_queue.small and len(buffer) < send_queue.locked_from:
                if type(tag) is MessageHeader:  # as `put` does, without its call
                    send_queue.had_headers = True
                    if tag.transaction is not None:
                        send_queue.transactional = True
                buffer.extend((payload, tag))
                if len(buffer) >= send_queue.notify_at:
                    self.appended()
            elif self._put(payload, tag):
                self.notify(_MESSAGES_ENQUEUED)
        except BaseException as error:
            if _interrupts(error):
                self.interrupted()
            raise

    @property
    def is_plain(self) -> bool:
        """True if `Producer.send_async` may append small payloads to the queue itself: they are not compressed here."""
        return self._codec is None or self.send_queue.limits is not None

    def appended(self) -> None:
        """Notify the actor, if necessary, of a message that was appended to the queue."""
        if self.send_queue.must_notify():
            self.notify(_MESSAGES_ENQUEUED)

    def interrupted(self) -> None:
        """Notify the actor after Ctrl-C, or an error of another signal handler: the message may be in the queue."""
        self._flush()

    def shares(self, payloads: Sequence[bytes], tags: Sequence[object]) -> list[Share]:
        """Return the messages as one share: there is one queue."""
        return [Share(self, payloads, tags)]

    def enqueue_many(self, payloads: Sequence[bytes], tags: Sequence[object]) -> Exception | None:
        """Enqueue messages in order. Waits for room if `block_if_queue_full` is set.

        Without room, or if the producer is closed meanwhile, the rest fails, with the error that is returned. Raises
        only in a forked child, at Ctrl-C, and what another signal handler raises.
        """
        taken = 0
        try:
            while taken < len(payloads):
                piece = payloads[taken : taken + MESSAGES_AT_ONCE]
                piece_tags = self._all_compressed(piece, tags[taken : taken + MESSAGES_AT_ONCE])
                end = taken + len(piece)
                while taken < end:
                    left = end - taken
                    try:
                        taken += self.try_enqueue_many(piece[-left:], piece_tags[-left:])
                    except LimitReached:
                        if not self._waits:
                            raise
                        self._wait_for_room()
        except ProcessForked:
            raise
        except BaseException as error:
            if _interrupts(error):
                self.interrupted()
                self.refuse(tags[taken:], as_failure(error))
                raise
            fault = as_failure(error).with_traceback(None)  # it is kept, and its frames would keep the client alive
            self.refuse(tags[taken:], fault)
            return fault
        return None

    def try_enqueue_many(self, payloads: Sequence[bytes], tags: Sequence[object]) -> int:
        """Enqueue the first of these messages without waiting, as many as there is room for, and return their number.

        Raises LimitReached if there is room for none.
        """
        if self.send_queue.closed is not None:
            raise copy_error(self.send_queue.closed)
        taken, must_notify = self.send_queue.put_many(payloads, tags)
        if must_notify:
            self.notify(_MESSAGES_ENQUEUED)
        return taken

    def refuse(self, tags: Sequence[object], error: Exception) -> None:
        """Fail messages that the queue did not take."""
        self.send_callbacks.refuse(tags, error)

    def enqueue_and_flush(self, payload: bytes, tag: object, awaited: "Future[Any]") -> None:
        """Enqueue a message whose caller is about to wait, and send it at once with the messages batched so far.

        If it is the producer's only message, there is no callback of another one to run, and the caller may handle its
        message itself.
        """
        is_alone = self.send_queue.is_quiet
        try:
            self._put(payload, tag)
            if is_alone:
                what = f"send() to {self.send_callbacks.topic}"
                self._engine.attend(partial(self.notify, _TRIGGER_FLUSH), awaited, what)
            else:
                self._flush()
        except BaseException as error:
            if _interrupts(error):
                self.interrupted()
            raise

    def try_enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message without ever waiting: for any thread, I/O threads included."""
        if self.send_queue.closed is not None:
            raise copy_error(self.send_queue.closed)
        if self.send_queue.put(payload, tag):
            self.notify(_MESSAGES_ENQUEUED)

    def _put(self, payload: bytes, tag: object) -> bool:
        """Put a message into the queue, and return whether the actor has to be notified."""
        if self._codec is not None:
            tag = self._compressed(payload, tag, self._codec)
        while True:
            if self.send_queue.closed is not None:
                raise copy_error(self.send_queue.closed)
            try:
                return self.send_queue.put(payload, tag)
            except LimitReached:
                if not self._waits:
                    raise
            self._wait_for_room()

    def _flush(self) -> None:
        self.notify(_TRIGGER_FLUSH)

    def _wait_for_room(self) -> None:
        self._engine.refuse_on_io_thread("a full queue", "block_if_queue_full=False")
        self._engine.block(self.send_queue.room(), None, f"the full queue of {self.send_callbacks.topic}")

    def _compressed(self, payload: bytes, tag: object, codec: "CompressionType.ValueType") -> object:
        """Compress a message if it has an entry of its own, unless the queue is closed, and return its tag."""
        cannot_batch = type(tag) is MessageHeader and tag.unbatchable is not None
        if self.send_queue.closed is not None or not (cannot_batch or len(payload) > self._largest_batch):
            return tag
        as_batch_of_one = self._largest_batch >= 0 and not cannot_batch
        return compress_message(payload, tag, codec, as_batch_of_one=as_batch_of_one)

    def _all_compressed(self, payloads: Sequence[bytes], tags: Sequence[object]) -> Sequence[object]:
        """Compress those of the messages that `enqueue` would compress, and return all tags."""
        codec, largest = self._codec, self._largest_batch
        if codec is None or (max(map(len, payloads)) <= largest and MessageHeader not in map(type, tags)):
            return tags
        return [self._compressed(payload, tag, codec) for payload, tag in zip(payloads, tags, strict=True)]
