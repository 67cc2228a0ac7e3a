"""The memory limit of a client, `memory_limit_bytes`: shared by the threads of all callers and the I/O threads.

A caller takes a message's bytes before it enqueues the message. Whatever ends the message gives them back, on the
producer's loop, through the quota with which the producer counts its pending bytes. A caller that finds no room waits
in its producer's own line, and the controller knows the lines, since another producer may make the room. The caller
adds the line and *then* looks for room; whoever gives bytes back does so and *then* wakes the lines.

A client without a limit has no controller.
"""

from typing import Any

from pulsar_actors.exceptions import LimitReached, MemoryBufferIsFull
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.pending_messages import MemoryLimit, PendingMessages, SendQuota
from pulsar_actors.runtime.future import SlimFuture, WaiterQueue
from pulsar_actors.runtime.interrupts import DeferInterrupts
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.send_queue import ReportOutcomes, SendQueue


class MemoryLimitController:
    """The bytes that the producers of one client have pending, all together. Any thread may use it."""

    __slots__ = ("_limit", "_lines", "_lock")

    def __init__(self, limit: int, interleaving: Interleaving = THREADS) -> None:
        self._limit = MemoryLimit(limit)
        self._lines: dict[int, WaiterQueue] = {}
        self._lock = interleaving.lock()

    @property
    def used(self) -> int:
        """The bytes that are pending."""
        return self._limit.used

    def has_room(self) -> bool:
        """Tell whether a message may be taken now."""
        return self._limit.has_room

    def take(self, size: int) -> bool:
        """Take the bytes of a message; False if there is no room."""
        with self._lock:
            return self._limit.take(size)

    def free(self, size: int) -> None:
        """Give bytes back, and wake those who wait if there was no room before."""
        with self._lock:
            has_room_again = self._limit.free(size)
        if has_room_again:
            self._wake_all()

    def wake_when_free(self, line: WaiterQueue) -> None:
        """Have those who wait in a line woken when there is room, once."""
        self._lines[id(line)] = line

    def _wake_all(self) -> None:
        while self._lines:
            try:
                _, line = self._lines.popitem()
            except KeyError:  # another thread was faster
                return
            line.wake_all()


class MemoryLimitedQuota(SendQuota):
    """The pending bytes of one producer. They have no limit of their own, and count for the client's."""

    __slots__ = ("_limiter",)

    def __init__(self, limiter: MemoryLimitController) -> None:
        super().__init__(0)
        self._limiter = limiter

    def free(self, amount: int) -> None:
        """Give bytes back to the client, too."""
        super().free(amount)
        self._limiter.free(amount)


class MemoryLimitedSendQueue(SendQueue):
    """The send queue of a producer whose client has a memory limit.

    A message takes its bytes from the controller, and then its place in the queue. The two have a lock each, and the
    locks are held one after the other. So Ctrl-C waits until both steps are done.
    """

    __slots__ = ("_limiter",)

    def __init__(
        self,
        limiter: MemoryLimitController,
        pending: PendingMessages[Any],
        limits: BatchLimits | None,
        report: ReportOutcomes,
        interleaving: Interleaving = THREADS,
    ) -> None:
        super().__init__(pending, limits, report, interleaving)
        self._limiter = limiter

    def put(self, payload: bytes, tag: object) -> bool:
        """Enqueue a message, if the client has room for its bytes and the producer for one more message."""
        with DeferInterrupts():
            size = len(payload)
            if not self._limiter.take(size):
                raise MemoryBufferIsFull(
                    "memory_limit_bytes are pending already: wait, or use block_if_queue_full=True"
                )
            try:
                return super().put(payload, tag)
            except LimitReached:
                self._limiter.free(size)
                raise

    def discarded(self, size: int) -> None:
        """Give back the bytes of messages that the producer has not counted yet."""
        self._limiter.free(size)

    def has_room(self) -> bool:
        """Tell whether a message could be enqueued now."""
        return self._limiter.has_room() and super().has_room()

    def add_waiter(self, future: SlimFuture[None]) -> None:
        """Have a future end when there may be room, whichever producer makes it."""
        super().add_waiter(future)
        self._limiter.wake_when_free(self.waiting)
