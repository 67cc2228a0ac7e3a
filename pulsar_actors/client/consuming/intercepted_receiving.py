"""How callers receive through interceptors.

Users' objects are not called on a loop: what comes by a future passes them on a listener's thread.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pulsar_actors.client.consuming.announcer import Announcer
from pulsar_actors.client.consuming.receiving import Receiving
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.runtime.future import settle
from pulsar_actors.runtime.owned_future import OwnedFuture


class Passing(OwnedFuture[Any]):
    """A future of what `make` makes, on a listener's thread, of the result of another; cancelled like that one."""

    def __init__(self, inner: "Future[Any]", make: Callable[[Any], object], announcer: Announcer) -> None:
        super().__init__()
        self._inner = inner
        self._make = make
        self._announcer = announcer
        inner.add_done_callback(self._came)

    def cancel(self) -> bool:
        """Want nothing any longer; False if it is being fetched, or is there."""
        is_cancelled = self._inner.cancel() and super().cancel()
        if is_cancelled:
            self.set_running_or_notify_cancel()  # or else `concurrent.futures.wait` would not hear of it
        return is_cancelled

    def _came(self, inner: "Future[Any]") -> None:
        if inner.cancelled():
            return
        error = inner.exception()
        if isinstance(error, Exception):
            settle(self, error)
        else:
            self._announcer.do(lambda: settle(self, self._make(inner.result())))


class InterceptedReceiving(Receiving):
    """The receiving side of a consumer or reader that has interceptors."""

    __slots__ = ("_announcer", "_handle", "_interceptors")

    def intercept(self, parts: AnyReceivingParts, handle: Callable[[], object]) -> None:
        """Call its interceptors, with the handle that `handle` gives without keeping it alive."""
        assert parts.interceptors is not None  # noqa: S101 - the caller has looked
        assert parts.announcer is not None  # noqa: S101 - which comes with them
        self._interceptors = parts.interceptors
        self._announcer = parts.announcer
        self._handle = handle

    def receive(self, timeout_millis: int | None) -> Message:
        """Receive a message, through the interceptors."""
        return self._interceptors.seen(self._handle(), super().receive(timeout_millis))

    def receive_batch(self, policy: ConsumerBatchReceivePolicy) -> list[Message]:
        """Receive messages, through the interceptors."""
        handle = self._handle()
        return [self._interceptors.seen(handle, message) for message in super().receive_batch(policy)]

    def receive_async(self) -> Future[Message]:
        """Give a future of the next message, which passes the interceptors on a listener's thread."""
        return Passing(super().receive_async(), self._seen, self._announcer)

    def receive_batch_async(self, policy: ConsumerBatchReceivePolicy) -> Future[list[Message]]:
        """Give a future of messages likewise."""
        inner = super().receive_batch_async(policy)
        return Passing(inner, lambda messages: [self._seen(message) for message in messages], self._announcer)

    def _seen(self, message: Message) -> Message:
        return self._interceptors.seen(self._handle(), message)
