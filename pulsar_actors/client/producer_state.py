"""The state that a producer's handle shares with its actor, and the enqueuer through which callers reach the actor.

An enqueuer takes a message, and waits for room in the queue if the producer is to. A producer of one topic has a
`SendQueueEnqueuer`. A partitioned producer has one for each partition, behind another enqueuer that chooses among them.
A message is its payload and its tag: see `send_queue.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pulsar_actors.client.handle import HandleState, copy_error
from pulsar_actors.client.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.exceptions import LimitReached, PulsarException
from pulsar_actors.machines.producer import ProducerMachine
from pulsar_actors.runtime.actor import ActorRef
from pulsar_actors.runtime.batch_builder import PackedMessages, compress_message
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.pending_calls import HandleLink
from pulsar_actors.runtime.producer_actor import MessagesEnqueued, TriggerFlush
from pulsar_actors.runtime.send_queue import MessageHeader, SendQueue
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType

_MESSAGES_ENQUEUED = MessagesEnqueued()

M = TypeVar("M")


class Enqueuer(ABC):
    """Takes the messages of one producer. Any thread may use it."""

    __slots__ = ()

    @property
    @abstractmethod
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""

    @abstractmethod
    def has_ended_by(self, error: Exception) -> bool:
        """Return True if the error is the end of the producer, or of one of its partitions."""

    @abstractmethod
    def enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message. Waits for room if `block_if_queue_full` is set."""

    @abstractmethod
    def enqueue_and_flush(self, payload: bytes, tag: object) -> None:
        """Enqueue a message, and have it sent at once with the messages batched so far."""

    @abstractmethod
    def try_enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message without ever waiting: for any thread, I/O threads included."""


class SendQueueEnqueuer(Enqueuer):
    """The enqueuer of one send queue. If `waits` is set, callers wait for room in a full queue.

    `notify` gets what has to be known outside: it tells the producer's actor. A lazy partition that has no producer yet
    tells the partitioned producer instead, and its `notify` is replaced when the producer starts.

    With a codec, the caller's thread compresses each message that shares its entry with no other: where nothing is
    batched, where the message cannot be, and where its payload is larger than a batch may be. Batches of smaller
    messages are compressed by the actor, when it has cut them: the size of a batch bounds the time that this takes.
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
        self._largest_batch = -1 if send_queue.limits is None else send_queue.limits.size
        self.send_queue = send_queue
        self.send_callbacks = send_callbacks
        self.notify = notify

    @property
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""
        return self.send_queue.closed

    def has_ended_by(self, error: Exception) -> bool:
        """Return True if the error is the end of the producer."""
        return type(error) is type(self.send_queue.closed)

    def enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message. Waits for room if `block_if_queue_full` is set."""
        send_queue = self.send_queue
        if self._codec is not None and (
            len(payload) > self._largest_batch or (type(tag) is MessageHeader and tag.unbatchable is not None)
        ):
            tag = self._compressed(payload, tag, self._codec)
        try:
            while True:
                if send_queue.closed is not None:
                    raise copy_error(send_queue.closed)
                try:
                    if send_queue.put(payload, tag):
                        self.notify(_MESSAGES_ENQUEUED)
                except LimitReached:
                    if not self._waits:
                        raise
                else:
                    return
                self._engine.refuse_inside("a full queue", "block_if_queue_full=False")
                self._engine.block(send_queue.room(), None, f"the full queue of {self.send_callbacks.topic}")
        except KeyboardInterrupt:  # the message may be in the queue already, and the actor not notified
            self.notify(TriggerFlush())
            raise

    def enqueue_and_flush(self, payload: bytes, tag: object) -> None:
        """Enqueue a message, and have it sent at once with the messages batched so far."""
        self.enqueue(payload, tag)
        self.notify(TriggerFlush())

    def try_enqueue(self, payload: bytes, tag: object) -> None:
        """Enqueue a message without ever waiting: for any thread, I/O threads included."""
        if self.send_queue.closed is not None:
            raise copy_error(self.send_queue.closed)
        if self.send_queue.put(payload, tag):
            self.notify(_MESSAGES_ENQUEUED)

    def _compressed(self, payload: bytes, tag: object, codec: "CompressionType.ValueType") -> object:
        """Compress a message that has an entry of its own, unless it will be refused; give its tag."""
        if self.send_queue.closed is not None:
            return tag
        cannot_batch = type(tag) is MessageHeader and tag.unbatchable is not None
        return compress_message(payload, tag, codec, batched=self._largest_batch >= 0 and not cannot_batch)


class SendFailures(NamedTuple):
    """The number of messages that have failed since a producer was created, and why the last one did."""

    number: int
    last: str | None


class SendingState(HandleState[M]):
    """The state of a producer. `send_callbacks` completes the sends."""

    __slots__ = ("enqueuer", "interceptors", "send_callbacks")

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        machine: M,
        address: ActorRef,
        enqueuer: Enqueuer,
        send_callbacks: SendCallbacks,
        interceptors: ProducerInterceptors | None,
    ) -> None:
        super().__init__(engine, link, machine, address)
        self.enqueuer = enqueuer
        self.send_callbacks = send_callbacks
        self.interceptors = interceptors

    @abstractmethod
    def members(self) -> Collection["ProducerState"]:
        """Give the state of each topic partition that has a producer."""

    def send_failures(self) -> SendFailures:
        """Count the messages that have failed; those of a partitioned producer that no partition took included."""
        callbacks = {self.send_callbacks, *(state.send_callbacks for state in self.members())}
        last = (one.last_failure for one in callbacks if one.last_failure is not None)
        return SendFailures(sum(one.failed for one in callbacks), next(last, None))


AnySendingState: TypeAlias = SendingState[Any]


class ProducerState(SendingState[ProducerMachine]):
    """The state of a producer of one topic partition."""

    __slots__ = ("send_queue",)

    enqueuer: SendQueueEnqueuer

    def __init__(
        self,
        engine: Engine,
        link: HandleLink,
        machine: ProducerMachine,
        address: ActorRef,
        enqueuer: SendQueueEnqueuer,
        interceptors: ProducerInterceptors | None = None,
    ) -> None:
        super().__init__(engine, link, machine, address, enqueuer, enqueuer.send_callbacks, interceptors)
        self.send_queue = enqueuer.send_queue

    @property
    def closed(self) -> Exception | None:
        """The error with which messages are refused, or None while they are taken."""
        return self.send_queue.closed

    def end(self, error: PulsarException) -> None:
        """Fail what is pending, and refuse everything from now on."""
        self.send_queue.end(error)
        for failed in self.send_queue.pending.fail_all():
            packed = failed.token
            assert isinstance(packed, PackedMessages)  # noqa: S101 - the token of a pending send
            self.send_callbacks([(packed.release(), failed.error_for(error))])
        super().end(error)

    def members(self) -> Collection["ProducerState"]:
        """Give this state."""
        return (self,)

    def forget(self, error: Exception) -> None:
        """Refuse everything, in a forked child."""
        self.send_queue.forget(error)
        super().forget(error)
