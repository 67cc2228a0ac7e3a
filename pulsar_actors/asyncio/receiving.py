"""The base of the consumers and readers of asyncio: receiving, listening, seeking, statistics and `async for`.

`Message.value()` is a plain method, as in the official client. A schema that needs the one that the producer used would
have to ask a broker there, and the event loop would stand still. So the schema of a version that is not known yet is
asked for before `receive` returns the message, once for each version; the receiving task waits, and no other. If there
is no answer, the message is returned all the same, and `value()` raises that error.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from pulsar_actors.asyncio.binding import LoopBinding
from pulsar_actors.asyncio.completions import LoopReply
from pulsar_actors.asyncio.handle import Handle
from pulsar_actors.asyncio.listeners import MessageListener
from pulsar_actors.client.handle import state_of
from pulsar_actors.client.message import Message, unknown_schema_of
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.client.receiving import ReceivedBatch, check_most, receiver_of
from pulsar_actors.client.receiving import ReceivingHandle as SyncReceivingHandle
from pulsar_actors.client.stats import ConsumerStats
from pulsar_actors.client.validation import LONGEST_MS, optional, whole_number
from pulsar_actors.exceptions import AlreadyClosed, InternalError, InvalidConfiguration, Timeout, TopicTerminated
from pulsar_actors.runtime.future import copy_error

R = TypeVar("R", bound=SyncReceivingHandle)
S = TypeVar("S", bound="ReceivingHandle[Any]")
T = TypeVar("T")

MESSAGES_IN_A_ROW = 100
"""So many queued messages are received before other tasks of the loop have their turn."""

_timeout = optional(whole_number(-LONGEST_MS, LONGEST_MS))


class ReceivingHandle(Handle[R]):
    """The base of Consumer and Reader."""

    def __init__(
        self,
        handle: R,
        binding: LoopBinding,
        listener: Callable[..., object] | None = None,
        *,
        is_paused: bool = False,
    ) -> None:
        super().__init__(handle, binding)
        self._receiver, self._receiver_queue = receiver_of(handle)
        self._needs_writer = state_of(handle).options.schema.needs_writer
        self._in_a_row = 0
        self._listener: MessageListener | None = None
        if listener is not None:
            self._listener = MessageListener(self, self._receiver, self._next_message, listener, is_paused=is_paused)
            binding.add_listener(self._listener)

    async def seek(self, messageid: MessageId | int) -> None:
        """Move to a message, or to the first message published at a time (milliseconds since 1970) or later.

        If this is cancelled, the seek goes on to its end.
        """
        await self._binding.in_thread(lambda: self._handle.seek(messageid))

    def has_reached_end_of_topic(self) -> bool:
        """Return whether the topic was terminated, so that no message will come after the queued ones."""
        return self._handle.has_reached_end_of_topic()

    def stats(self) -> ConsumerStats:
        """Return statistics of all topics together: queued and received messages, rates, and the last error."""
        return self._handle.stats()

    def __aiter__(self: S) -> S:
        return self

    async def __anext__(self) -> Message:
        """Receive until it is closed, or until all messages of a terminated topic are received."""
        try:
            return await self._receive(None)
        except (AlreadyClosed, TopicTerminated):
            raise StopAsyncIteration from None

    async def close(self) -> None:
        """Close it, after its pending acknowledgements were sent. A second call does nothing.

        A call of the listener that is running comes to its end first, except if it is this one. If this is cancelled,
        the close goes on to its end.
        """
        if self._listener is not None:
            self._listener.stop()
        await super().close()
        if self._listener is not None:
            await self._listener.wait()

    async def _receive(self, timeout_millis: int | None) -> Message:
        self._refuse_listener()
        return self._receiver.intercepted(await self._next_message(timeout_millis))

    def _refuse_listener(self) -> None:
        if self._listener is not None:
            raise InvalidConfiguration(
                f"{self._handle!r} has a listener, which gets its messages: there is nothing to receive"
            )

    async def _next_message(self, timeout_millis: int | None = None) -> Message:
        if asyncio.get_running_loop() is not self._loop:
            self._binding.completions()  # raises
        if self._in_a_row >= MESSAGES_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        self._in_a_row += 1
        message = self._receiver.take_now()
        if message is None or self._needs_writer:
            _timeout("timeout_millis", timeout_millis)
            deadline = None if timeout_millis is None else self._loop.time() + timeout_millis / 1000
            if message is None:
                self._in_a_row = 0
                message = await self._wait(deadline, self._receiver.take_now)
            if message is None or (self._needs_writer and not await self._has_schemas_of([message], deadline)):
                raise Timeout(f"no message came to {self._handle!r} within {timeout_millis} ms")
        return message

    async def _receive_many(self, most: int, timeout_millis: int | None) -> list[Message]:
        if asyncio.get_running_loop() is not self._loop:
            self._binding.completions()  # raises
        self._refuse_listener()
        check_most("max_messages", most)
        _timeout("timeout_millis", timeout_millis)
        if self._in_a_row >= MESSAGES_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        deadline = None if timeout_millis is None else self._loop.time() + timeout_millis / 1000
        messages: list[Message] = []

        def take() -> bool | None:
            return self._receiver.take_many_now(most, messages) or None

        if not take():
            self._in_a_row = 0
            await self._wait(deadline, take)
        self._in_a_row += len(messages)
        if not messages or (self._needs_writer and not await self._has_schemas_of(messages, deadline)):
            raise Timeout(f"no message came to {self._handle!r} within {timeout_millis} ms")
        return list(map(self._receiver.intercepted, messages))

    async def _receive_batch(self, policy: ConsumerBatchReceivePolicy) -> list[Message]:
        if asyncio.get_running_loop() is not self._loop:
            self._binding.completions()  # raises
        self._refuse_listener()
        deadline = self._loop.time() + policy.timeout_ms / 1000 if policy.timeout_ms > 0 else None
        batch = ReceivedBatch(self._receiver_queue, policy)
        try:
            while not batch.is_filled:
                message = self._receiver.take_now() or await self._wait(deadline, self._receiver.take_now)
                if message is None:
                    break
                if not batch.add(message):
                    self._receiver.give_back([message])
                    break
        except (AlreadyClosed, InternalError, TopicTerminated):
            if not batch.messages:  # where there are some, the next call raises it
                raise
        except asyncio.CancelledError:
            self._receiver.give_back(batch.messages)
            raise
        messages = batch.valid_messages()
        if self._needs_writer:
            await self._has_schemas_of(messages, None)
        return [self._receiver.intercepted(message) for message in messages]

    async def _has_schemas_of(self, messages: list[Message], deadline: float | None) -> bool:
        """Wait for the schemas that `value()` needs. At the deadline, give the messages back, and return False."""
        try:
            for message in messages:
                unknown = unknown_schema_of(message)
                if unknown is not None:
                    schemas, topic, version = unknown
                    left = None if deadline is None else max(0.0, deadline - self._loop.time())
                    answer = self._binding.future_of(schemas.request(topic, version))
                    if not (await asyncio.wait({answer}, timeout=left))[0]:
                        answer.cancel()
                        self._receiver.give_back(messages)
                        return False
                    answer.exception()  # `value()` raises it
        except asyncio.CancelledError:
            self._receiver.give_back(messages)
            raise
        return True

    async def _wait(self, deadline: float | None, take: Callable[[], T | None]) -> T | None:
        """Wait until `take` takes something; return None at the deadline."""
        taken: T | None = None
        while taken is None:
            waiter: LoopReply[None] = LoopReply(self._completions)
            is_late = False
            try:
                self._receiver_queue.wait(waiter)
                taken = take()  # a message that came before the waiter was added
                if taken is None:
                    over = self._receiver_queue.end_reason
                    if over is not None:
                        raise copy_error(over)
                    is_late = await self._woken(waiter, deadline)
                    taken = take()
            finally:  # a cancelled waiter passes its wake-up on
                self._receiver_queue.stop_waiting(waiter, empty_handed=taken is None)
            if is_late:
                break
        return taken

    async def _woken(self, waiter: LoopReply[None], deadline: float | None) -> bool:
        """Wait until a waiter is woken; return True if it is the deadline that ended this."""
        if deadline is None:
            await waiter.future
            return False
        timer = self._loop.call_at(deadline, waiter.complete_late)
        try:
            await waiter.future
        finally:
            timer.cancel()
        return waiter.is_late
