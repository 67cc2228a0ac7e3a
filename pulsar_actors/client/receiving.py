"""The receiving side of consumers and readers: receiving, seeking and statistics.

`MessageReceiver` waits for messages of one queue. `InterceptedMessageReceiver` also passes them through interceptors;
messages of futures pass them on a listener thread, because user code is not called on a loop. `ReceivingHandle` is the
base of `Consumer` and `Reader`.
"""

import math
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from enum import Enum
from typing import Any, TypeVar, cast

from pulsar_actors.client.consumer_interceptors import ConsumerInterceptors
from pulsar_actors.client.consumer_state import AnyReceivingState, ConsumerState
from pulsar_actors.client.handle import Handle
from pulsar_actors.client.listeners import EventCaller
from pulsar_actors.client.message import Message, stored_entry_of
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.client.stats import ConsumerStats
from pulsar_actors.client.validation import LONGEST_MS, optional, whole_number
from pulsar_actors.exceptions import (
    AlreadyClosed,
    InternalError,
    InvalidArgument,
    InvalidConfiguration,
    Timeout,
    TopicTerminated,
)
from pulsar_actors.machines.consumer_events import GetLastMessageId, LastMessage, Seek
from pulsar_actors.machines.incoming_entries import Skipped
from pulsar_actors.machines.trackers.entry_map import EntryKey, Generation
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.consumer_actor import RunAfter, ServeReceiveFutures
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import OwnedFuture, SlimFuture, copy_error, settle
from pulsar_actors.runtime.opened_entry import EntryContents
from pulsar_actors.runtime.receiver_queue_base import ReceiverQueueBase
from pulsar_actors.wire.topic_name import TopicName

T = TypeVar("T")

_timeout = optional(whole_number(-LONGEST_MS, LONGEST_MS))
check_most = whole_number(1)
DEFAULT_BATCH_RECEIVE_POLICY = ConsumerBatchReceivePolicy(-1, -1, 100)
"""The messages of a tenth of a second, up to the 10 MiB that apply if only the time is limited."""
_milliseconds = whole_number(0, 2**63 - 1, "milliseconds since 1970")


class ReceivingHandle(Handle[AnyReceivingState]):
    """The base of Consumer and Reader."""

    def __init__(self, state: AnyReceivingState, what: str, client: object, topic: str | None = None) -> None:
        super().__init__(state, topic or str(TopicName.parse(state.options.topics[0])), what, client)
        self._receiver_queue: ReceiverQueueBase = state.receiver_queue
        queue, has_listener = self._receiver_queue, state.listeners.runner is not None
        interceptors, event_caller = state.listeners.interceptors, state.listeners.event_caller
        if interceptors is None or event_caller is None:
            self._receiver = MessageReceiver(state.engine, queue, self._address, what, has_listener=has_listener)
        else:
            self._receiver = InterceptedMessageReceiver(
                state.engine,
                queue,
                self._address,
                what,
                interceptors,
                event_caller,
                weakref.ref(self),
                has_listener=has_listener,
            )

    def seek(self, messageid: MessageId | int) -> None:
        """Move to a message, or to the first message published at a time (milliseconds since 1970) or later.

        After a seek to a message id, the next message is the one after it; with `start_message_id_inclusive`, that
        message itself. After `MessageId.earliest` all messages are received, after `MessageId.latest` new ones.

        Messages that were received before are void: pending acknowledgements of them are dropped, and the queue is
        cleared. Without a connection to a broker this waits for one, for `operation_timeout_seconds` at most. Then it
        raises ConnectError: nothing was done.
        """
        target = seek_target(messageid)
        self._state.engine.refuse_on_io_thread("seek()", "another thread")
        self._refuse_if_closed()
        self._call(lambda done: Seek(done, target), f"seek() of {self._what}")

    def has_reached_end_of_topic(self) -> bool:
        """Return whether the topic was terminated, so that no message will come after the queued ones.

        A broker reports this to a consumer only when all messages are acknowledged.
        """
        return self._receiver_queue.is_terminated()

    def stats(self) -> ConsumerStats:
        """Return statistics of all topics together: queued and received messages, rates, and the last error."""
        self._refuse_if_forked()
        members, options = self._members(), self._state.options
        queues = [state.receiver_queue for state in members]
        queued = self._receiver_queue.queued
        opened = sum(queue.opened_messages for queue in queues)
        received = max(0, opened - self._receiver_queue.opened_count)
        received_bytes = sum(max(0, queue.opened_bytes - queue.opened_size) for queue in queues)
        errors = (state.link.counters.last_error_text for state in members)
        return ConsumerStats(
            topic=self._topic,
            subscription_name=options.subscription_name,
            consumer_name=options.consumer_name or "",
            connected=self.is_connected(),
            queued=queued,
            permits=sum(max(0, state.machine.messages.trackers.permits.at_broker) for state in members),
            received=received,
            received_bytes=received_bytes,
            acknowledged=sum(state.ack_queue.drained for state in members),
            refused=sum(state.negatively_acknowledged for state in members),
            undecryptable=sum(queue.undecryptable for queue in queues),
            rates=self._meter.rates(received, received_bytes, self._state.engine.now()),
            reconnects=sum(state.link.counters.reconnects for state in members),
            last_error=next((error for error in errors if error is not None), None),
        )

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                yield self._receiver.receive(None)
            except (AlreadyClosed, TopicTerminated):
                return

    @property
    def _single_state(self) -> ConsumerState:
        """The state of a handle of one topic."""
        return cast("ConsumerState", self._state)

    def _members(self) -> Collection[ConsumerState]:
        """Return the state of the consumer of each topic."""
        return (self._single_state,)

    @property
    def _internal(self) -> "ReceivingInternals":
        """The functions that Spark needs beyond the public ones."""
        return ReceivingInternals(self._single_state, self._receiver, self._get_last_message)

    def _get_last_message(self, timeout: float = math.inf) -> LastMessage:
        """Get the last message, within so many seconds if that is less than the operation timeout."""
        state = self._state
        state.engine.refuse_on_io_thread("asking for the last message", "another thread")
        self._refuse_if_closed()
        deadline = state.engine.now() + min(timeout, state.operation_timeout)
        return self._call(lambda done: GetLastMessageId(done, deadline), f"asking {self._what} for the last message")

    def _refuse_if_closed(self) -> None:
        if self._receiver_queue.closed is not None:
            raise copy_error(self._receiver_queue.closed)


def receiver_of(handle: ReceivingHandle) -> "tuple[MessageReceiver, ReceiverQueueBase]":
    """Return the receiver of a handle and its queue, for callers that wait in other ways than a thread does."""
    return handle._receiver, handle._receiver_queue  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


class MessageReceiver:
    """The receiving side of one consumer or reader."""

    __slots__ = ("_engine", "_has_listener", "_now", "_receiver_queue", "_tell", "_what", "interrupted_batch")

    def __init__(
        self, engine: Engine, receiver_queue: ReceiverQueueBase, actor: ActorRef, what: str, *, has_listener: bool
    ) -> None:
        self._engine = engine
        self._receiver_queue = receiver_queue
        self._tell: Callable[[object], None] = lambda message: tell(actor, message)
        self._what = what
        self._has_listener = has_listener
        self._now = engine.now
        self.interrupted_batch: list[Message] = receiver_queue.given_back  # of a call that was interrupted

    def receive(self, timeout_millis: int | None) -> Message:
        """Receive a message. Without a timeout, wait without a limit; with 0 or less, do not wait."""
        self._refuse_listener()
        if timeout_millis is not None and type(timeout_millis) is not int:  # an int out of range is refused below
            _timeout("timeout_millis", timeout_millis)
        if self._receiver_queue.closed is not None:
            raise copy_error(self._receiver_queue.closed)
        queue = self._receiver_queue
        message: Message | None = queue.take_next() if self.interrupted_batch else queue.take()
        return self.wait_for(self._take, timeout_millis) if message is None else message

    def receive_many(self, most: int, timeout_millis: int | None) -> list[Message]:
        """Receive the messages that there are, so many at most; wait for the first one like `receive`."""
        self._refuse_listener()
        check_most("max_messages", most)
        _timeout("timeout_millis", timeout_millis)
        messages: list[Message] = []
        try:
            if not self.take_many_now(most, messages):
                self.wait_for(lambda: self.take_many_now(most, messages) or None, timeout_millis)
        except KeyboardInterrupt:
            self.interrupted_batch[:0] = messages
            raise
        return messages

    def take_many_now(self, most: int, messages: list[Message]) -> bool:
        """Take the next messages, which have not passed the interceptors; return whether there are any."""
        if self._receiver_queue.closed is not None:
            raise copy_error(self._receiver_queue.closed)
        while self.interrupted_batch and len(messages) < most:
            message = self._receiver_queue.take_given_back()
            if message is not None:
                messages.append(message)
        if len(messages) < most:
            self._receiver_queue.take_many(most - len(messages), messages)
        return bool(messages)

    def take_now(self) -> Message | None:
        """Take the next message, which has not passed the interceptors, or None if there is none now."""
        self._refuse_listener()
        if self._receiver_queue.closed is not None:
            raise copy_error(self._receiver_queue.closed)
        return self._take()

    def intercepted(self, message: Message) -> Message:
        """Pass a taken message through the interceptors, if there are any."""
        return message

    def give_back(self, messages: Sequence[Message]) -> None:
        """Have the next calls take messages that a call has taken and does not return."""
        self.interrupted_batch[:0] = messages
        self._receiver_queue.wake(len(messages))
        self._tell(ServeReceiveFutures())

    @property
    def has_given_back(self) -> bool:
        """True if there is a message that a call has given back, and that no seek has made void."""
        return any(self._receiver_queue.still_delivers(*_origin_of(one)) for one in self.interrupted_batch)

    def wait_for(self, take: Callable[[], T | None], timeout_millis: int | None) -> T:
        """Wait until `take` returns a value; without a limit if there is no timeout."""
        _timeout("timeout_millis", timeout_millis)
        self._engine.refuse_on_io_thread(f"receiving from {self._what}", "receive_async()")
        deadline = None if timeout_millis is None else self._now() + timeout_millis / 1000
        try:
            return self._wait(take, deadline)
        except Timeout:
            raise Timeout(f"no message came to {self._what} within {timeout_millis} ms") from None

    def receive_async(self) -> Future[Message]:
        """Return a future of the next message."""
        self._refuse_listener()
        future: Future[Message] = self._receiver_queue.receive_future()
        self._tell(ServeReceiveFutures())
        return future

    def receive_batch(self, policy: ConsumerBatchReceivePolicy) -> list[Message]:
        """Receive messages until there are as many as the policy says, or until its timeout."""
        self._refuse_listener()
        self._engine.refuse_on_io_thread(f"receiving from {self._what}", "receive_async()")
        deadline = self._now() + policy.timeout_ms / 1000 if policy.timeout_ms > 0 else None
        batch = ReceivedBatch(self._receiver_queue, policy)
        try:
            while not batch.is_filled:
                message = self._take()
                if message is None:
                    message = self._wait(self._take, deadline)
                if not batch.add(message):
                    self.give_back([message])
                    break
        except Timeout:
            pass
        except (AlreadyClosed, InternalError, TopicTerminated):
            if not batch.messages:  # where there are some, the next call raises it
                raise
        except KeyboardInterrupt:
            self.interrupted_batch[:0] = batch.messages
            raise
        return batch.valid_messages()

    def receive_batch_async(self, policy: ConsumerBatchReceivePolicy) -> Future[list[Message]]:
        """Return a future of messages, as many as the policy says, or fewer at its timeout."""
        self._refuse_listener()
        batch = BatchReceiveFuture(self._receiver_queue, policy)
        self._tell(ServeReceiveFutures())
        if policy.timeout_ms > 0:
            self._tell(RunAfter(policy.timeout_ms / 1000, batch.expire))
        return batch

    def _take(self) -> Message | None:
        message: Message | None = self._receiver_queue.take_next()
        return message

    def _wait(self, take: Callable[[], T | None], deadline: float | None) -> T:
        taken: T | None = None
        while taken is None:
            waiter: SlimFuture[None] = SlimFuture()
            try:
                self._receiver_queue.wait(waiter)
                taken = take()  # a message that came before the waiter was added
                if taken is None:
                    taken = self._take_later(take, waiter, deadline)
            finally:  # Ctrl-C may come at any step
                self._receiver_queue.stop_waiting(waiter, empty_handed=taken is None)
        return taken

    def _take_later(self, take: Callable[[], T | None], waiter: SlimFuture[None], deadline: float | None) -> T | None:
        try:
            self._sleep(waiter, deadline)
        except Timeout:
            taken = take()
            if taken is None:
                raise
            return taken
        return take()

    def _sleep(self, waiter: SlimFuture[None], deadline: float | None) -> None:
        over = self._receiver_queue.end_reason
        if over is not None:
            raise copy_error(over)
        left = None if deadline is None else max(0.0, deadline - self._now())
        self._engine.block(waiter, left, f"receiving from {self._what}")

    def _refuse_listener(self) -> None:
        if self._has_listener:
            raise InvalidConfiguration(
                f"{self._what} has a listener, which gets its messages: there is nothing to receive"
            )


class InterceptedMessageReceiver(MessageReceiver):
    """The receiving side of a consumer or reader with interceptors, which are called with the `handle`."""

    __slots__ = ("_event_caller", "_handle", "_interceptors")

    def __init__(
        self,
        engine: Engine,
        receiver_queue: ReceiverQueueBase,
        actor: ActorRef,
        what: str,
        interceptors: ConsumerInterceptors,
        event_caller: EventCaller,
        handle: "weakref.ref[Any]",
        *,
        has_listener: bool,
    ) -> None:
        super().__init__(engine, receiver_queue, actor, what, has_listener=has_listener)
        self._interceptors = interceptors
        self._event_caller = event_caller
        self._handle = handle

    def receive(self, timeout_millis: int | None) -> Message:
        """Receive a message through the interceptors."""
        return self._interceptors.apply(self._handle(), super().receive(timeout_millis))

    def receive_many(self, most: int, timeout_millis: int | None) -> list[Message]:
        """Receive messages through the interceptors."""
        messages = super().receive_many(most, timeout_millis)
        try:
            return list(map(self.intercepted, messages))
        except BaseException:  # Ctrl-C, or an interceptor that exits
            self.give_back(messages)
            raise

    def receive_batch(self, policy: ConsumerBatchReceivePolicy) -> list[Message]:
        """Receive messages through the interceptors."""
        handle = self._handle()
        return [self._interceptors.apply(handle, message) for message in super().receive_batch(policy)]

    def receive_async(self) -> Future[Message]:
        """Return a future of the next message, which passes the interceptors on a listener thread."""
        return InterceptedFuture(super().receive_async(), self.intercepted, self._event_caller)

    def receive_batch_async(self, policy: ConsumerBatchReceivePolicy) -> Future[list[Message]]:
        """Return a future of messages, which pass the interceptors on a listener thread."""
        inner = super().receive_batch_async(policy)
        return InterceptedFuture(
            inner, lambda messages: [self.intercepted(message) for message in messages], self._event_caller
        )

    def intercepted(self, message: Message) -> Message:
        """Pass a taken message through the interceptors."""
        return self._interceptors.apply(self._handle(), message)


class ReceivedBatch:
    """The messages of one call of `batch_receive`. A seek during the call makes those before it void.

    Together they are no larger than the policy says; only the first may be.
    """

    __slots__ = ("_origins", "_policy", "_receiver_queue", "_size", "messages")

    def __init__(self, receiver_queue: ReceiverQueueBase, policy: ConsumerBatchReceivePolicy) -> None:
        self.messages: list[Message] = []
        self._receiver_queue = receiver_queue
        self._policy = policy
        self._size = 0
        self._origins: set[tuple[str, Generation]] = set()

    @property
    def is_filled(self) -> bool:
        """True once there are as many messages as the policy says."""
        return self._policy.is_filled_by(len(self.messages), self._size)

    def add(self, message: Message) -> bool:
        """Add a message, and return True; False if it is for the next call, because this one would have too many bytes.

        If it is the first message of a generation, there may have been a seek before it.
        """
        origin = _origin_of(message)
        if origin not in self._origins:
            self._drop_void()
        size = self._size + len(message.data())
        if self.messages and self._policy.is_exceeded_by(size):
            return False
        self._origins.add(origin)
        self.messages.append(message)
        self._size = size
        return True

    def valid_messages(self) -> list[Message]:
        """Return the messages that no seek has made void."""
        self._drop_void()
        return self.messages

    def _drop_void(self) -> None:
        self._origins = {one for one in self._origins if self._receiver_queue.still_delivers(*one)}
        left = [one for one in self.messages if _origin_of(one) in self._origins]
        if len(left) < len(self.messages):
            self.messages, self._size = left, sum(len(one.data()) for one in left)


class BatchReceiveFuture(OwnedFuture[list[Message]]):
    """The future of one call of `batch_receive_async`. The loop calls `expire` when the policy's time is up.

    It waits for its first message like the future of a single message, and can be cancelled until then. After that it
    takes the messages that are queued, and waits for more, ahead of futures that were made later. All this is done on
    the loop, except for the creation and a cancellation.
    """

    def __init__(self, receiver_queue: ReceiverQueueBase, policy: ConsumerBatchReceivePolicy) -> None:
        super().__init__()
        self._receiver_queue = receiver_queue
        self._batch = ReceivedBatch(receiver_queue, policy)
        self._next: Future[Any] = receiver_queue.receive_future()
        self._next.add_done_callback(self._came)

    def cancel(self) -> bool:
        """Cancel the future; False if it has messages already."""
        if self._batch.messages or not self._next.cancel():
            return False
        return self.cancel_and_notify()

    def expire(self) -> None:
        """Complete the future with the messages that it has.

        If one is being fetched, nobody knows when it comes: another caller may have been faster.
        """
        if not self.done():
            self._next.cancel()
            settle(self, self._batch.valid_messages())

    def _came(self, future: "Future[Any]") -> None:
        try:
            message = future.result()
        except CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - no more messages will come
            settle(self, self._batch.valid_messages() or error)  # where there are some, the next call raises it
            return
        while message is not None:
            is_added = not self.done() and self._batch.add(message)
            if not is_added:
                self._receiver_queue.given_back.insert(0, message)
                self._receiver_queue.wake(1)
            if not is_added or self._batch.is_filled:
                settle(self, self._batch.messages)
                return
            message = self._receiver_queue.take_next()
        self._next = self._receiver_queue.receive_future(ahead=True)
        self._next.add_done_callback(self._came)


class InterceptedFuture(OwnedFuture[Any]):
    """A future that applies `make` to the result of another future, on a listener thread.

    Cancelling it cancels the other.
    """

    def __init__(self, inner: "Future[Any]", make: Callable[[Any], object], event_caller: EventCaller) -> None:
        super().__init__()
        self._inner = inner
        self._make = make
        self._event_caller = event_caller
        inner.add_done_callback(self._came)

    def cancel(self) -> bool:
        """Cancel both futures; False if a message is being fetched, or is there."""
        return self._inner.cancel() and self.cancel_and_notify()

    def _came(self, inner: "Future[Any]") -> None:
        if inner.cancelled():
            return
        error = inner.exception()
        if isinstance(error, Exception):
            settle(self, error)
        else:
            self._event_caller.call_without_handle(lambda: settle(self, self._make(inner.result())))


def _origin_of(message: Message) -> tuple[str, Generation]:
    entry = stored_entry_of(message)
    return entry.topic, entry.generation


def seek_target(given: object) -> Any:  # noqa: ANN401 - an id of the wire or a time
    """Check the target of a seek."""
    if isinstance(given, MessageId):
        return given.wire
    if isinstance(given, int) and not isinstance(given, (bool, Enum)):
        return _milliseconds("messageid", given)
    takes = "a MessageId, or a whole number of milliseconds since 1970"
    raise InvalidArgument(f"messageid takes {takes}, got {type(given).__name__}")


class ReceivingInternals:
    """The methods of a consumer or reader of one topic that Spark needs beyond the public ones."""

    __slots__ = ("_receiver", "_state", "last_message")

    def __init__(
        self, state: ConsumerState, receiver: MessageReceiver, last_message: Callable[[], LastMessage]
    ) -> None:
        self._state = state
        self._receiver = receiver
        self.last_message = last_message
        """Asks the broker for the topic's last message, and for the subscription's position."""

    def read_entry(self, timeout_millis: int) -> EntryContents:
        """Read all messages of the next entry. A caller of this method must not read single messages."""
        take = self._state.receiver_queue.take_entry
        return take() or self._receiver.wait_for(take, timeout_millis)

    def take_skipped(self) -> tuple[list[Skipped], int]:
        """Take the entries that were skipped since the last call, and the number of those that were not kept."""
        return self._state.receiver_queue.progress.take_skipped()

    @property
    def furthest(self) -> EntryKey | None:
        """The last entry that is completely read, provided that a wait for messages has timed out."""
        return self._state.receiver_queue.progress.furthest


def receiving_internals(handle: ReceivingHandle) -> ReceivingInternals:
    """Return the methods for Spark."""
    return handle._internal  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
