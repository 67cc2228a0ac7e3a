"""How callers receive: from a consumer's queue, waiting for as long as they say. Consumers and readers share it."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from pulsar_actors.client.anew import anew
from pulsar_actors.client.arguments import LONGEST_MS, optional, whole_number
from pulsar_actors.client.consuming.batch_promise import BatchPromise
from pulsar_actors.client.message import Message, place_of
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.exceptions import AlreadyClosed, InternalError, InvalidConfiguration, Timeout, TopicTerminated
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.consumer_actor import After, Serve
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.supply import Supply

T = TypeVar("T")

_timeout = optional(whole_number(-LONGEST_MS, LONGEST_MS))
USUAL_POLICY = ConsumerBatchReceivePolicy(-1, -1, 100)
"""Where none was given: what comes within a tenth of a second, up to the limit that time alone has."""


class Receiving:
    """The receiving side of one consumer or reader."""

    __slots__ = ("_engine", "_hand_off", "_has_listener", "_now", "_tell", "_what", "kept")

    def __init__(self, engine: Engine, hand_off: Supply, actor: Address, what: str, *, has_listener: bool) -> None:
        self._engine = engine
        self._hand_off = hand_off
        self._tell: Callable[[object], None] = lambda message: tell(actor, message)
        self._what = what
        self._has_listener = has_listener
        self._now = engine.now
        self.kept: deque[Message] = deque()  # from a batch whose receiver was interrupted

    def receive(self, timeout_millis: int | None) -> Message:
        """Receive a message; wait for ever, or for so long. 0 or less does not wait."""
        self._refuse_listener()
        if timeout_millis is not None and type(timeout_millis) is not int:  # an int out of range is told below
            _timeout("timeout_millis", timeout_millis)
        if self._hand_off.closed is not None:
            raise anew(self._hand_off.closed)
        message: Message | None = self._take_kept() if self.kept else self._hand_off.take()
        return self.wait_for(self._take, timeout_millis) if message is None else message

    def wait_for(self, take: Callable[[], T | None], timeout_millis: int | None) -> T:
        """Wait for what `take` may have taken before; without end, or for so long."""
        _timeout("timeout_millis", timeout_millis)
        self._engine.refuse_inside(f"receiving from {self._what}", "receive_async()")
        deadline = None if timeout_millis is None else self._now() + timeout_millis / 1000
        try:
            return self._wait(take, deadline)
        except Timeout:
            raise Timeout(f"no message came to {self._what} within {timeout_millis} ms") from None

    def receive_async(self) -> Future[Message]:
        """Give a future of the next message."""
        self._refuse_listener()
        future: Future[Message] = self._hand_off.promise()
        self._tell(Serve())
        return future

    def receive_batch(self, policy: ConsumerBatchReceivePolicy) -> list[Message]:
        """Receive messages until there are as many as the policy says, or its time is up."""
        self._refuse_listener()
        self._engine.refuse_inside(f"receiving from {self._what}", "receive_async()")
        deadline = self._now() + policy.timeout_ms / 1000 if policy.timeout_ms > 0 else None
        messages: list[Message] = []
        size = 0
        try:
            while not policy.is_filled_by(len(messages), size):
                message = self._take_kept()
                if message is None:
                    message = self._wait(self._take, deadline)
                messages.append(message)
                size += len(message.data())
        except Timeout:
            pass
        except (AlreadyClosed, InternalError, TopicTerminated):
            if not messages:  # where there are some, the next call says it
                raise
        except KeyboardInterrupt:
            self.kept.extendleft(reversed(messages))
            raise
        return messages

    def receive_batch_async(self, policy: ConsumerBatchReceivePolicy) -> Future[list[Message]]:
        """Give a future of messages, as many as the policy says, or fewer when its time is up."""
        self._refuse_listener()
        batch = BatchPromise(self._hand_off, policy)
        self._tell(Serve())
        if policy.timeout_ms > 0:
            self._tell(After(policy.timeout_ms / 1000, batch.expire))
        return batch

    def _take_kept(self) -> Message | None:
        """Take the next message: first of those that an interrupted receiver left, unless a seek has voided them."""
        while self.kept:
            message = self.kept.popleft()
            if self._hand_off.still_delivers(message.topic_name(), place_of(message)[1]):
                return message
        return self._take()

    def _take(self) -> Message | None:
        message: Message | None = self._hand_off.take()
        return message

    def _wait(self, take: Callable[[], T | None], deadline: float | None) -> T:
        taken: T | None = None
        while taken is None:
            waiter: SlimFuture[None] = SlimFuture()
            try:
                self._hand_off.wait(waiter)
                taken = take()  # what came before there was a waiter to wake
                if taken is None:
                    taken = self._take_later(take, waiter, deadline)
            finally:  # Ctrl-C may come anywhere
                self._hand_off.leave(waiter, empty_handed=taken is None)
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
        over = self._hand_off.over
        if over is not None:
            raise anew(over)
        left = None if deadline is None else max(0.0, deadline - self._now())
        self._engine.block(waiter, left, f"receiving from {self._what}")

    def _refuse_listener(self) -> None:
        if self._has_listener:
            raise InvalidConfiguration(
                f"{self._what} has a listener, which gets its messages: there is nothing to receive"
            )
