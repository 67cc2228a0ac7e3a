"""Where callers leave messages for a producer's actor, and where they learn that there is no room.

The first message in an empty box and the one that fills it wake the actor; all others cost an append. There is no lock
on this way, which costs more than all the rest of it: a message is appended, and *then* the caller looks whether the
actor rests, and whether the box is closed. The actor takes what is there, says that it rests, and *then* looks whether
something is left that nobody will tell it of. That it is told of something twice, does no harm.

What is in the box and what the producer has pending counts, together, against its limit. Callers who come close to it
take turns, by a lock, so that they do not pass it together; the actor takes the lock when it moves messages from the
one to the other. A caller who looks while there is room, and whom the system then holds up until others have filled the
box, passes the limit: by its one message, as it looks again before the next.
"""

import sys
import threading
from typing import Any, Final

from pulsar_actors.exceptions import ProducerQueueIsFull
from pulsar_actors.machines.ledgers.batching import BatchLimits
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.outgoing import Outgoing, Report
from pulsar_actors.runtime.waiting_line import WaitingLine

CLOSE: Final = 64
"""Places to the limit, from which on callers take turns."""


class Outbox:
    """The open buffer of one producer. `limits` is None where messages are not batched; `waiting` waits for room."""

    __slots__ = (
        "_bytes",
        "_checkpoint",
        "_full",
        "_full_bytes",
        "_lock",
        "_places",
        "_rests",
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
        self.buffer: list[Any] = []  # two places for each message: see `outgoing.py`
        self.closed: Exception | None = None
        self._places = pending.messages
        self._rests = True
        self._full, self._full_bytes = (sys.maxsize, sys.maxsize)
        if limits is not None:
            self._full, self._full_bytes = 2 * limits.messages, limits.size
        self._bytes = 0
        self._said_full = False
        self._lock = interleaving.lock()
        self._checkpoint = interleaving.checkpoint
        self.waiting = WaitingLine()

    def put(self, payload: bytes, place: object) -> bool:
        """Leave a message; tell whether the actor has to hear of it. Raises LimitReached where there is no room."""
        buffer, places = self.buffer, self._places
        if places.limit and (len(buffer) >> 1) + places.used + CLOSE > places.limit:
            self._put_in_turn(payload, place)
        else:
            buffer.extend((payload, place))
        self._bytes += len(payload)
        is_news = self._rests
        if is_news:
            self._rests = False
        if (len(buffer) >= self._full or self._bytes >= self._full_bytes) and not self._said_full:
            self._said_full = is_news = True
        if self.closed is not None:
            self.end(self.closed)
        return is_news

    def _put_in_turn(self, payload: bytes, place: object) -> None:
        with self._lock:
            if not self._places.has_place(len(self.buffer) >> 1):
                raise ProducerQueueIsFull(
                    "max_pending_messages are pending already: wait, or use block_if_queue_full=True"
                )
            self.buffer.extend((payload, place))

    def used(self) -> tuple[int, int]:
        """Give the messages that are on their way, and their bytes: those in the box, and those that are pending."""
        with self._lock:
            here = self.buffer[::2]
            messages, size = self.pending.used
        return messages + len(here), size + sum(map(len, here))

    def line_up(self, future: SlimFuture[None]) -> None:
        """Have a future end when there may be room."""
        self.waiting.append(future)

    def has_room(self) -> bool:
        """Tell whether a message could be left now."""
        with self._lock:
            return self._places.has_place(len(self.buffer) >> 1)

    def room(self) -> SlimFuture[None]:
        """Give a future that ends when there may be room for a message."""
        future: SlimFuture[None] = SlimFuture()
        self.line_up(future)
        self._checkpoint()
        if self.closed is not None or self.has_room():
            self.waiting.wake_all()
        return future

    def look(self) -> Outgoing:
        """Give what is there, to the actor, who then hears of it anew when there is a full batch."""
        self._said_full = False
        return Outgoing.from_flat(self.buffer[:])

    def take(self, count: int, size: int) -> None:
        """Remove the first so many, of so many bytes, which the actor has seen to; they are pending from now on."""
        self._checkpoint()
        with self._lock:
            self.pending.reserve(count, size)
            del self.buffer[: 2 * count]
        self._checkpoint()
        self._bytes = 0  # where it should be a little more, a batch is filled a little later

    def has_more(self) -> bool:
        """Tell the actor whether something is left; if not, it rests until it hears of more."""
        self._rests = True
        self._checkpoint()
        self._rests = not self.buffer
        return not self._rests

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
            left = self.buffer[:]
            del self.buffer[: len(left)]
        if left:
            messages = Outgoing.from_flat(left)
            self.given_up(messages.size)
            self.report(messages.replies, error)
        self.waiting.wake_all()

    def given_up(self, size: int) -> None:
        """Hear of messages that go no further, and have so many bytes."""
