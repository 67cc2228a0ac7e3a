"""What consumers and readers of asyncio have in common: receiving, seeking, statistics and `async for`."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from pulsar_actors.asyncio.binding import LoopBinding, running_loop
from pulsar_actors.asyncio.completions import LoopReply
from pulsar_actors.asyncio.handle import Handle
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.client.receiving import ReceivingHandle as SyncReceivingHandle
from pulsar_actors.client.receiving import receiver_of
from pulsar_actors.client.stats import ConsumerStats
from pulsar_actors.client.validation import LONGEST_MS, optional, whole_number
from pulsar_actors.exceptions import AlreadyClosed, InternalError, Timeout, TopicTerminated
from pulsar_actors.runtime.future import copy_error

R = TypeVar("R", bound=SyncReceivingHandle)

MESSAGES_IN_A_ROW = 100
"""So many queued messages are received before other tasks of the loop have their turn."""

_timeout = optional(whole_number(-LONGEST_MS, LONGEST_MS))


class ReceivingHandle(Handle[R]):
    """The base of Consumer and Reader."""

    def __init__(self, handle: R, binding: LoopBinding) -> None:
        super().__init__(handle, binding)
        self._receiver, self._receiver_queue = receiver_of(handle)
        self._in_a_row = 0

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

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Receive until it is closed, or until all messages of a terminated topic are received."""
        while True:
            try:
                message = await self._receive(None)
            except (AlreadyClosed, TopicTerminated):
                return
            yield message

    async def _receive(self, timeout_millis: int | None) -> Message:
        if running_loop() is not self._loop:
            self._binding.completions()  # raises
        if self._in_a_row >= MESSAGES_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        self._in_a_row += 1
        message = self._receiver.take_now()
        if message is None:
            _timeout("timeout_millis", timeout_millis)
            self._in_a_row = 0
            message = await self._wait(None if timeout_millis is None else self._loop.time() + timeout_millis / 1000)
            if message is None:
                raise Timeout(f"no message came to {self._handle!r} within {timeout_millis} ms")
        return self._receiver.intercepted(message)

    async def _receive_batch(self, policy: ConsumerBatchReceivePolicy) -> list[Message]:
        if running_loop() is not self._loop:
            self._binding.completions()  # raises
        deadline = self._loop.time() + policy.timeout_ms / 1000 if policy.timeout_ms > 0 else None
        messages: list[Message] = []
        size = 0
        try:
            while not policy.is_filled_by(len(messages), size):
                message = self._receiver.take_now() or await self._wait(deadline)
                if message is None:
                    break
                messages.append(message)
                size += len(message.data())
        except (AlreadyClosed, InternalError, TopicTerminated):
            if not messages:  # where there are some, the next call raises it
                raise
        except asyncio.CancelledError:
            self._receiver.interrupted_batch.extendleft(reversed(messages))  # the next call takes them
            raise
        return [self._receiver.intercepted(message) for message in messages]

    async def _wait(self, deadline: float | None) -> Message | None:
        """Wait for a message, and take it; None at the deadline."""
        message: Message | None = None
        while message is None:
            waiter: LoopReply[None] = LoopReply(self._completions)
            is_late = False
            try:
                self._receiver_queue.wait(waiter)
                message = self._receiver.take_now()  # a message that came before the waiter was added
                if message is None:
                    over = self._receiver_queue.end_reason
                    if over is not None:
                        raise copy_error(over)
                    is_late = await self._woken(waiter, deadline)
                    message = self._receiver.take_now()
            finally:  # a cancelled waiter passes its wake-up on
                self._receiver_queue.stop_waiting(waiter, empty_handed=message is None)
            if is_late:
                break
        return message

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
