"""Where callers leave messages for a producer's actor, and where they learn that there is no room.

The first message in an empty box and the one that fills it wake the actor; all others cost an append. There is no lock
on this way, which costs more than all the rest of it: a message is appended, and *then* the caller looks whether there
are so many now that somebody has to know. While the actor rests, and once the box is closed, that is so from the first
one on. The actor takes what is there, says that it rests, and *then* looks whether something is left that nobody will
tell it of. That it is told of something twice, does no harm; and who is about to tell it, may put off what others see.

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

NEVER: Final = sys.maxsize
"""More than will ever be in a box."""


class Outbox:
    """The open buffer of one producer. `limits` is None where messages are not batched; `waiting` waits for room."""

    __slots__ = (
        "_bytes",
        "_checkpoint",
        "_full",
        "_full_bytes",
        "_lock",
        "_near",
        "_news_at",
        "_news_at_bytes",
        "_places",
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
        self._full, self._full_bytes = (NEVER, NEVER) if limits is None else (2 * limits.messages, limits.size)
        self._news_at, self._news_at_bytes = 0, NEVER  # the length of the buffer from which on the actor has to know
        self._bytes = 0
        self._lock = interleaving.lock()
        self._checkpoint = interleaving.checkpoint
        self.waiting = WaitingLine()
        self._near = NEVER  # and the one from which on callers take turns
        self._measure_room()

    def put(self, payload: bytes, place: object) -> bool:
        """Leave a message; tell whether the actor has to hear of it. Raises LimitReached where there is no room."""
        buffer = self.buffer
        if len(buffer) >= self._near:
            self._put_in_turn(payload, place)
        else:
            buffer.extend((payload, place))
        self._bytes += len(payload)
        return (len(buffer) >= self._news_at or self._bytes >= self._news_at_bytes) and self._is_news()

    def _is_news(self) -> bool:
        is_full = len(self.buffer) >= self._full or self._bytes >= self._full_bytes
        if is_full:
            self._expect(NEVER, NEVER)
        else:
            self._expect(self._full, self._full_bytes)
        return self.closed is None

    def _expect(self, length: int, size: int) -> None:
        """Have callers go on without a look until there is so much, unless the box was closed meanwhile."""
        self._news_at, self._news_at_bytes = length, size
        self._checkpoint()
        if self.closed is not None:
            self.end(self.closed)

    def _rest(self) -> None:
        self._news_at, self._news_at_bytes = 0, NEVER

    def _measure_room(self) -> None:
        places = self._places
        self._near = 2 * (places.limit - places.used - CLOSE) if places.limit else NEVER

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
        self._expect(self._full, self._full_bytes)
        return Outgoing.from_flat(self.buffer[:])

    def take(self, count: int, size: int) -> None:
        """Remove the first so many, of so many bytes, which the actor has seen to; they are pending from now on."""
        self._checkpoint()
        with self._lock:
            self.pending.reserve(count, size)
            self._measure_room()
            del self.buffer[: 2 * count]
        self._checkpoint()
        self._bytes = 0  # where it should be a little more, a batch is filled a little later

    def has_more(self) -> bool:
        """Tell the actor whether something is left; if not, it rests until it hears of more."""
        self._rest()
        self._checkpoint()
        if not self.buffer:
            return False
        self._expect(self._full, self._full_bytes)
        return True

    def freed(self) -> None:
        """Hear, from the actor, that some of what was pending has ended: there may be room."""
        self._measure_room()
        self.waiting.wake_all()

    def forget(self, error: Exception) -> None:
        """Refuse whatever comes, in a forked child, where a thread that is not there may have the lock."""
        self._lock = threading.Lock()
        self.closed = error
        self._rest()
        self.buffer = []

    def end(self, error: Exception) -> None:
        """Refuse whatever comes from now on, and fail what is here."""
        if self.closed is None:
            self.closed = error
        self._rest()
        with self._lock:
            left = self.buffer[:]
            del self.buffer[: len(left)]
        if left:
            messages = Outgoing.from_flat(left)
            self.given_up(messages.size)
            self.report([(messages.replies, error)])
        self.waiting.wake_all()

    def given_up(self, size: int) -> None:
        """Hear of messages that go no further, and have so many bytes."""
