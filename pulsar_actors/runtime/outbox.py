"""Where callers leave messages for a producer's actor, and where they learn that there is no room.

The first message in an empty box and the one that fills it wake the actor; all others cost an append. The actor takes
what is there, and then looks whether something is left that nobody will tell it of. Callers share a lock, because room
is counted by all of them; the actor never takes it, and only ever frees room.
"""

import threading
from typing import Any

from pulsar_actors.exceptions import ProducerQueueIsFull
from pulsar_actors.machines.ledgers.batching import BatchLimits
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.outgoing import Outgoing, Report
from pulsar_actors.runtime.waiting_line import WaitingLine


class Outbox:
    """The open buffer of one producer. `limits` is None where messages are not batched; `waiting` waits for room."""

    __slots__ = (
        "_bytes",
        "_checkpoint",
        "_lock",
        "_said_full",
        "buffer",
        "closed",
        "limits",
        "pending",
        "report",
        "waiting",
    )

    def __init__(
        self,
        pending: PendingSends[Any],
        limits: BatchLimits | None,
        report: Report,
        interleaving: Interleaving = THREADS,
    ) -> None:
        self.pending = pending
        self.limits = limits
        self.report = report
        self.buffer: list[Outgoing] = []
        self.closed: Exception | None = None
        self._bytes = 0
        self._said_full = False
        self._lock = interleaving.lock()
        self._checkpoint = interleaving.checkpoint
        self.waiting = WaitingLine()

    def put(self, message: Outgoing) -> bool:
        """Leave a message; tell whether the actor has to hear of it. Raises LimitReached where there is no room."""
        size = len(message[0])
        with self._lock:
            reserved = False
            try:
                reserved = self.pending.try_reserve(1, size)
                if not reserved:
                    raise ProducerQueueIsFull(
                        "max_pending_messages are pending already: wait, or use block_if_queue_full=True"
                    )
                self.buffer.append(message)
                self._bytes += size
                is_news = len(self.buffer) == 1 or self._fills()
            except KeyboardInterrupt:
                if reserved and message not in self.buffer:
                    self.pending.take_back(1, size)
                raise
        if self.closed is not None:
            self.end(self.closed)
        return is_news

    def line_up(self, future: SlimFuture[None]) -> None:
        """Have a future end when there may be room."""
        self.waiting.append(future)

    def has_room(self) -> bool:
        """Tell whether a message could be left now."""
        return self.pending.has_room(1)

    def room(self) -> SlimFuture[None]:
        """Give a future that ends when there may be room for a message."""
        future: SlimFuture[None] = SlimFuture()
        self.line_up(future)
        self._checkpoint()
        if self.closed is not None or self.has_room():
            self.waiting.wake_all()
        return future

    def take(self, count: int) -> None:
        """Remove the first so many, which the actor has seen to."""
        self._checkpoint()
        del self.buffer[:count]
        self._checkpoint()
        self._bytes = 0  # where it should be a little more, a batch is filled a little later
        self._said_full = False

    def _fills(self) -> bool:
        """Tell, once, that there is a full batch."""
        if self._said_full or self.limits is None or not self.limits.full(len(self.buffer), self._bytes):
            return False
        self._said_full = True
        return True

    def forget(self, error: Exception) -> None:
        """Refuse whatever comes, in a forked child, where a thread that is not there may have the lock."""
        self._lock = threading.Lock()
        self.closed = error
        self.buffer = []

    def end(self, error: Exception) -> None:
        """Refuse whatever comes from now on, and fail what is here."""
        if self.closed is None:
            self.closed = error
        with self._lock:
            left, self.buffer = self.buffer, []
        for message in left:
            self.pending.give_back(1, len(message[0]))
        if left:
            self.report(left, error)
        self.waiting.wake_all()
