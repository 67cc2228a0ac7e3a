"""The base class of the receiver queues of one topic and of several: callers wait here for messages.

A caller that finds no message adds a waiter, a future, and *then* looks again. The actor adds messages and *then* wakes
waiters (the rule "append, then look" of `loop.py`). A wake-up promises no message: another caller may take it first,
and then the woken caller waits again. A caller that stops waiting and has not used its wake-up passes it on.

A caller that was interrupted, or that has taken a message too many, gives messages back. They come first then, unless
a seek makes them void.

Futures of messages (`receive_async`) are served in the order in which they were made, and only on the loop. Such a
future may be cancelled until there is a message for it. When there is one, the loop first claims the future, which can
then not be cancelled any longer, and *then* takes the message. So no message is taken for a cancelled future. If the
entry turns out to be corrupt, the future stays claimed and gets the next message. A cancelled future leaves the queue
at once: a program that waits a second at a time with `asyncio.wait_for` makes a hundred thousand of them a day. The
side that removes the future, its owner or the loop, also withdraws its request for a message.
"""

from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Future
from typing import Any

from pulsar_actors.compiling import mypyc_attr
from pulsar_actors.exceptions import TopicTerminated
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.runtime.future import OwnedFuture, SlimFuture, WaiterQueue, settle
from pulsar_actors.runtime.loop import Interleaving


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceiverQueueBase(ABC):
    """A queue that callers take messages from."""

    __slots__ = ("_receive_futures", "_waiters", "checkpoint", "closed", "given_back")

    def __init__(self, interleaving: Interleaving) -> None:
        self.closed: Exception | None = None
        self.checkpoint = interleaving.checkpoint
        self.given_back: list[Any] = []  # messages, always this list; an empty deque takes most of a KiB
        self._waiters = WaiterQueue()
        self._receive_futures = ReceiveFutures(self)

    # The callers' side.

    @abstractmethod
    def take(self) -> Any:  # noqa: ANN401 - a message, as `make` makes it
        """Take the next message, or None if there is none now."""

    def take_next(self) -> Any:  # noqa: ANN401 - a message
        """Take the next message; first those that callers have given back."""
        message = self.take_given_back()
        return self.take() if message is None else message

    def take_given_back(self) -> Any:  # noqa: ANN401 - a message
        """Take a message that a caller has given back, and that no seek has made void; None if there is none."""
        while self.given_back:
            try:
                message = self.given_back.pop(0)
            except IndexError:  # another caller was faster
                break
            entry = message._opened  # noqa: SLF001 - of a Message, whose module imports this one
            if self.still_delivers(entry.topic, entry.generation):
                return message
        return None

    @abstractmethod
    def take_many(self, most: int, messages: list[Any]) -> None:
        """Take the messages that there are now, so many at most, and append them to a list. It may be interrupted."""

    @property
    @abstractmethod
    def queued(self) -> int:
        """The number of queued messages, by the counts that entries declare."""

    @property
    def has_messages(self) -> bool:
        """True while there are queued messages."""
        return self.queued > 0

    @property
    @abstractmethod
    def opened_count(self) -> int:
        """The number of queued messages that are in opened entries."""

    @property
    @abstractmethod
    def prefetches(self) -> bool:
        """True if the broker is asked for messages before a caller waits for one."""

    @abstractmethod
    def is_terminated(self) -> bool:
        """Return whether no message comes after those that are queued."""

    @property
    def end_reason(self) -> Exception | None:
        """The error if no message will come after those that are queued; otherwise None."""
        if self.closed is None and self.is_terminated():
            reason = "the topic was terminated, and all its messages have been received"
            return TopicTerminated("TopicTerminatedError", reason)
        return self.closed

    @abstractmethod
    def can_answer(self) -> bool:
        """Return whether a future can end at once: there is a message, or none will come."""

    @abstractmethod
    def still_delivers(self, topic: str, generation: Generation) -> bool:
        """Return whether a message of a topic that was opened in a generation may still be handed out."""

    def wait(self, waiter: SlimFuture[None]) -> None:
        """Add a waiter, which is completed when there may be a message. The caller looks once more before it waits."""
        self.checkpoint()
        self._waiters.append(waiter)
        self.checkpoint()
        self.request_one()

    def stop_waiting(self, waiter: SlimFuture[None], *, empty_handed: bool) -> None:
        """Remove a waiter. If it was woken and got no message, pass the wake-up on."""
        try:
            self._waiters.remove(waiter)
        except ValueError:
            self.checkpoint()
            if empty_handed and (self.given_back or self.queued):
                self._waiters.wake(1)
        if empty_handed:
            self.cancel_request()

    def wake(self, most: int) -> None:
        """Wake so many waiters at most, for messages that a caller has given back."""
        self._waiters.wake(most)

    def receive_future(self, *, ahead: bool = False) -> Future[Any]:
        """Make a future of a message, perhaps ahead of others, for the actor to `serve`."""
        future = self._receive_futures.add(ahead=ahead)
        self.checkpoint()
        self.request_one()
        if self.closed is not None:  # the queue may have been closed before the future was added
            self._receive_futures.fail(future, self.closed)
        return future

    @abstractmethod
    def request_one(self) -> None:
        """Ask the broker for a message, if the queue prefetches none."""

    @abstractmethod
    def cancel_request(self) -> None:
        """Ask for one message less."""

    # The actor's side.

    @abstractmethod
    def end(self, error: Exception) -> None:
        """Stop handing out messages."""

    @abstractmethod
    def forget(self, error: Exception) -> None:
        """Stop handing out messages, in a forked child."""

    def wake_callers(self, messages: int) -> None:
        """Wake as many callers as there are messages."""
        if self._waiters:
            self._waiters.wake(messages)
        self.serve()

    def wake_all_callers(self) -> None:
        """Wake all callers."""
        self._waiters.wake_all()
        self.serve()

    def serve(self) -> None:
        """Give messages to the futures; if no message will come, an error. On the loop only."""
        self._receive_futures.serve()


@mypyc_attr(native_class=False)  # its base is not native
class ReceiveFuture(OwnedFuture[Any]):
    """A future of a message."""

    def __init__(self, siblings: "ReceiveFutures") -> None:
        super().__init__()
        self._siblings = siblings

    def cancel(self) -> bool:
        """Cancel the future; False if a message is being fetched for it, or is there."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self._siblings.remove(self)
        return is_cancelled


class ReceiveFutures:
    """The futures of one queue that are not done: `pending` can still be cancelled, `claimed` cannot."""

    __slots__ = ("_queue", "claimed", "pending")

    def __init__(self, queue: ReceiverQueueBase) -> None:
        self._queue = queue
        self.pending: deque[ReceiveFuture] = deque()
        self.claimed: ReceiveFuture | None = None

    def add(self, *, ahead: bool) -> ReceiveFuture:
        """Add a future at the end, or ahead of all others."""
        future = ReceiveFuture(self)
        if ahead:
            self.pending.appendleft(future)
        else:
            self.pending.append(future)
        return future

    def remove(self, future: ReceiveFuture) -> None:
        """Remove a future that was cancelled, unless the loop was faster."""
        try:
            self.pending.remove(future)
        except ValueError:
            return
        future.set_running_or_notify_cancel()  # otherwise `concurrent.futures.wait` would not be notified
        self._queue.cancel_request()

    def serve(self) -> None:
        """Give messages to the futures; if no message will come, an error."""
        queue = self._queue
        while self._claim():
            outcome = queue.take_given_back()
            if outcome is not None:
                queue.cancel_request()  # it needs no other message
            else:
                outcome = queue.take()
            if outcome is None:
                outcome = queue.end_reason
            if outcome is None:
                break
            future, self.claimed = self.claimed, None
            if future is not None:
                settle(future, outcome)

    def fail(self, future: ReceiveFuture, error: Exception) -> None:
        """Fail a future, unless it is being served and ends there."""
        try:
            self.pending.remove(future)
        except ValueError:
            return
        settle(future, error)

    def _claim(self) -> bool:
        """Claim the future that gets the next message, once there is one for it."""
        while self.claimed is None and self.pending and (self._queue.given_back or self._queue.can_answer()):
            try:
                future = self.pending.popleft()
            except IndexError:  # its owner has just removed it
                break
            if future.set_running_or_notify_cancel():
                self.claimed = future
            else:
                self._queue.cancel_request()
        return self.claimed is not None
