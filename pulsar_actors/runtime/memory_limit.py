"""The memory limit of a client, `memory_limit_bytes`, shared by the threads of all callers and the I/O threads.

A caller takes a message's bytes before it enqueues the message. When the message ends, by a receipt or an error, the
producer's loop frees them, through the quota that counts the producer's pending bytes. A caller without room waits in
the `WaiterQueue` of its producer. The controller has all these queues, because any producer may free memory. The caller
adds its queue and *then* looks for room; the loop frees bytes and *then* wakes the queues (see `loop.py`).

A client without a limit has no controller.
"""

from collections.abc import Sequence
from typing import Any

from pulsar_actors.exceptions import LimitReached, MemoryBufferIsFull
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.pending_messages import MemoryLimit, PendingMessages, SendQuota
from pulsar_actors.runtime.future import SlimFuture, WaiterQueue
from pulsar_actors.runtime.interrupts import DeferInterrupts
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.send_queue import NONE_IS_SMALL, ReportOutcomes, SendQueue


class MemoryLimitController:
    """The pending bytes of all producers of one client. Any thread may use it."""

    __slots__ = ("_limit", "_lines", "_lock")

    def __init__(self, limit: int, interleaving: Interleaving = THREADS) -> None:
        self._limit = MemoryLimit(limit)
        self._lines: dict[int, WaiterQueue] = {}
        self._lock = interleaving.lock()

    @property
    def used(self) -> int:
        """The bytes that are pending."""
        return self._limit.used

    @property
    def limit(self) -> int:
        """The most bytes that may be pending."""
        return self._limit.limit

    def has_room(self) -> bool:
        """Return whether there is room for a message now."""
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
        """Wake the callers of this queue once, when there is room."""
        self._lines[id(line)] = line

    def _wake_all(self) -> None:
        while self._lines:
            try:
                _, line = self._lines.popitem()
            except KeyError:  # another thread was faster
                return
            line.wake_all()


class MemoryLimitedQuota(SendQuota):
    """The pending bytes of one producer. They have no limit of their own; they count towards the client's limit."""

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

    A message takes its bytes from the controller, and then its place in the queue. Each step has its own lock, held
    only for that step. So Ctrl-C is deferred until both steps are done.
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
        self.small = NONE_IS_SMALL  # each message takes its bytes
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

    def put_many(self, payloads: Sequence[bytes], tags: Sequence[object]) -> tuple[int, bool]:
        """Enqueue the first of these messages, one by one, as many as there is room for."""
        count, must_notify = 0, False
        try:
            for payload, tag in zip(payloads, tags, strict=True):
                must_notify |= self.put(payload, tag)
                count += 1
        except LimitReached:
            if not count:
                raise
        return count, must_notify

    def discarded(self, size: int) -> None:
        """Give back the bytes of messages that the producer has not counted yet."""
        self._limiter.free(size)

    def has_room(self) -> bool:
        """Return whether a message could be enqueued now."""
        return self._limiter.has_room() and super().has_room()

    def add_waiter(self, future: SlimFuture[None]) -> None:
        """Complete a future when there may be room, whichever producer frees it."""
        super().add_waiter(future)
        self._limiter.wake_when_free(self.waiting)
