"""The queue between a consumer's actor and its callers: entries go in, messages come out.

The actor puts entries here as they came. A caller that finds no message opens the next ones and sets up a list of
messages, the next one last, which all callers then take from without a lock, each with one `pop`. So almost all
messages cost their caller nothing but that, and a message that was taken is nobody else's to keep alive. The lists are
slices of at most half a queue, because the end of a list is where somebody notices that permits are due: the next
caller, or, of a list of one message, whoever sets it up.

What was opened is handed out, whatever becomes of the connection: a reader resumes after the last entry opened. A seek
or a redelivery of everything voids it, for it comes again. Emptying the list also stops those who are just taking from
it. What was handed out is reported by generation, so that the actor can tell what is still worth counting.

How callers wait is told in `supply.py`.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pulsar_actors.machines.consumer_events import Await, GiveUp, HandedOut, Returned, Spoiled
from pulsar_actors.machines.entry_intake import Delivery
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.left_out import Unreadable
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.interrupts import PutOff
from pulsar_actors.runtime.opened import Contents, Decode, Make, Opened, open_entry
from pulsar_actors.runtime.progress import Progress
from pulsar_actors.runtime.supply import Supply
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.message_id import MessageId

MOST_AT_ONCE: Final = 100
"""Messages of single entries to be opened in one go."""


class Terms(NamedTuple):
    """What a consumer's queue is told when it is made.

    `reports_ids` asks for the ids of what was handed out, for readers; `reports_entries` for those of what is about to
    be, for acknowledgement timeouts: whoever gets it may never come back.
    """

    queue_size: int
    topic: str
    make: Make
    decode: Decode
    reports_ids: bool = False
    compacted: bool = False
    reports_entries: bool = False


class HandOff(Supply):
    """The queue of one consumer. `tell` gives the actor reports; `at_hand` has what callers take next."""

    __slots__ = (
        "_entries", "_handed", "_handed_ids", "_handed_of", "_indexes", "_lock", "_messages", "_next",
        "_open_entry", "_size", "_step", "_tell", "_terms", "at_hand", "ended", "generation", "max_message_size",
        "opened_bytes", "opened_messages", "progress",
    )  # fmt: skip

    def __init__(self, terms: Terms, tell: Callable[[object], object], interleaving: Interleaving = THREADS) -> None:
        super().__init__(interleaving)
        self.ended = False
        self.generation = Generation()
        self.progress = Progress(keeps_left_out=terms.reports_ids)
        self.opened_messages = 0
        self.opened_bytes = 0
        self.max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        self._terms = terms
        self._tell = tell
        self._step = max(1, terms.queue_size // 2)
        self._lock = interleaving.lock()
        self._entries: deque[Delivery] = deque()
        self._messages: list[Any] = []  # opened, and in no slice yet; the next one last
        self._indexes: Sequence[int] = ()  # of the messages of the last entry opened
        self._open_entry: Opened | None = None  # whose messages they are, where ids are reported
        self._next = 0  # how many of the open entry were in a slice
        self.at_hand: list[Any] = []
        self._size = 0  # how many it had
        self._handed = 0  # and not reported yet
        self._handed_of = self.generation
        self._handed_ids: list[MessageId] = []

    # The actor's side.

    def clear(self, generation: Generation) -> None:
        """Drop what is queued; what is opened too, if it comes again in the new generation."""
        with self._lock:
            self._entries.clear()
            self.progress.passed = None
            self.checkpoint()
            if not self.generation.still_delivers(generation):
                self._void()
            if not self.generation.still_acknowledges(generation):
                self.progress.begin_again()
                self.ended = False
            self._report()
            self.checkpoint()
            self.generation = generation

    def add(self, entries: Iterable[Delivery]) -> None:
        """Queue entries, and wake as many callers as they have messages for."""
        entries = tuple(entries)
        messages = sum(entry.messages for entry in entries)
        self._entries.extend(entries)
        self.checkpoint()
        self.announce(messages)

    def mark_end(self) -> None:
        """Note that nothing comes after what is queued."""
        self.ended = True
        self.checkpoint()
        self.announce_all()

    def end(self, error: Exception) -> None:
        """Hand out nothing more."""
        if self.closed is None:
            self.closed = error
        with self._lock:
            self._entries.clear()
            self.checkpoint()
            self._void()
        self.announce_all()

    def forget(self, error: Exception) -> None:
        """Hand out nothing, in a forked child, where a thread that is not there may have the lock."""
        self._lock = threading.Lock()
        self.closed = error
        self._entries.clear()
        self._messages, self._indexes, self._next = [], (), 0
        self.at_hand = []

    # The callers' side.

    def take(self) -> Any:  # noqa: ANN401 - a message, as `make` makes it
        """Take the next message, or None if there is none now."""
        try:
            return self.at_hand.pop()
        except IndexError:
            return self._refill()

    def take_entry(self) -> Contents | None:
        """Take all messages of the next entry, as they were opened. It is for who takes no single ones."""
        with PutOff(), self._lock:
            self._begin_counting()
            while self._entries and self.closed is None:
                contents = self._open_one(self._entries.popleft())
                if contents is not None and contents.payloads:
                    self._handed += len(contents.payloads)
                    self._handed_ids.append(contents.entry.id_of(contents.indexes[-1]))
                    if self._handed >= self._step:
                        self._report()
                    return contents
            self._report()
            return None

    def await_one(self) -> None:
        """Ask for a message, where they come one at a time."""
        if not self.asks_by_itself:
            self._tell(Await())

    def give_up_one(self) -> None:
        """Ask for one less."""
        if not self.asks_by_itself:
            self._tell(GiveUp())

    def still_delivers(self, topic: str, generation: Generation) -> bool:
        """Tell whether a message that was opened in a generation may still be handed out."""
        return generation.still_delivers(self.generation)

    @property
    def asks_by_itself(self) -> bool:
        """Tell whether the broker is asked for messages before anybody waits for one."""
        return self._terms.queue_size > 0

    @property
    def queued(self) -> int:
        """Count the messages that are here, as far as entries say."""
        return sum(entry.messages for entry in tuple(self._entries)) + self.left_open

    @property
    def left_open(self) -> int:
        """Count those of them that are opened."""
        return len(self._messages) + len(self.at_hand)

    def is_at_its_end(self) -> bool:
        """Tell whether the topic was terminated, and said so."""
        return self.ended

    def is_due(self) -> bool:
        """Tell whether there is a message, or will be none: then whoever asks next gets its answer at once.

        If not, what was handed out is reported: the message that is waited for may take the permit of the last one.
        """
        with self._lock:  # a caller who is just opening an entry may leave messages of it
            due = bool(self.queued) or self.over is not None
            if not due:
                self._count()
                self._report()
        return due

    # Behind both.

    def _refill(self) -> Any:  # noqa: ANN401 - a message
        with PutOff(), self._lock:
            while self.at_hand or self._next_slice():
                with suppress(IndexError):  # another caller was faster
                    return self.at_hand.pop()
        return None

    def _next_slice(self) -> bool:
        """Set up the next list to take from; its predecessor is empty."""
        self._count()
        if not self._messages and not self._open_more():
            self._report()
            return False
        upcoming = self._messages[-self._step :]
        del self._messages[-self._step :]
        self._size = len(upcoming)
        self._next += len(upcoming)
        self.checkpoint()
        entry = self._open_entry
        if self._terms.reports_entries and entry is not None:
            self._tell(HandedOut(self.generation, 0, (entry.message_id,), (entry.redelivery_count,)))
        self.at_hand = upcoming
        if self._size == 1:  # it is taken before the lock is let go of
            self._count()
        if self._handed >= self._step:
            self._report()
        return True

    def _open_more(self) -> bool:
        """Open an entry; or several, while they are single messages and nobody wants to know their ids."""
        self._messages, self._indexes, self._next = [], (), 0
        self.checkpoint()
        self._begin_counting()
        are_told = self._terms.reports_ids or self._terms.reports_entries
        most = 1 if are_told or not self.asks_by_itself else min(self._step, MOST_AT_ONCE)
        while self._entries and len(self._messages) < most and self.closed is None:
            contents = self._open_one(self._entries.popleft())
            if contents is not None:
                self._open_entry = contents.entry
                self._messages += self._terms.make(*contents[:4])
                self._indexes = contents.indexes
        self._messages.reverse()
        return bool(self._messages)

    def _open_one(self, delivery: Delivery) -> Contents | None:
        """Open an entry, and count it; None if it is corrupt."""
        terms = self._terms
        self.checkpoint()
        opened = Opened(delivery, self.generation, terms.topic, terms.decode)
        try:
            contents = open_entry(delivery, opened, self.max_message_size, compacted=terms.compacted)
        except EntryError as fault:
            position, messages = delivery.message_id.position, delivery.messages
            self._tell(Spoiled(self.generation, position, messages, fault.validation_error))
            self.progress.found_corrupt(Unreadable(position, fault.validation_error))
            return None
        self.progress.opened = delivery.message_id
        self.opened_messages += len(contents.payloads)
        self.opened_bytes += sum(map(len, contents.payloads))
        if contents.left_out:
            self._tell(Returned(self.generation, contents.left_out))
        return contents

    def _begin_counting(self) -> None:
        """Report what was handed out in the generation before."""
        if self._handed_of != self.generation:
            self._report()
            self._handed_of = self.generation

    def _count(self) -> None:
        """Count as handed out what the last slice had."""
        size = self._size
        self._handed += size
        if size and self._terms.reports_ids and self._open_entry is not None:
            self._handed_ids.append(self._open_entry.id_of(self._indexes[self._next - 1]))
        self._size = 0

    def _report(self) -> None:
        """Tell the actor what was handed out."""
        if self._handed:
            self._tell(HandedOut(self._handed_of, self._handed, tuple(self._handed_ids)))
            self._handed, self._handed_ids = 0, []

    def _void(self) -> None:
        """Drop what is opened. Those who are about to take from the list find it empty."""
        left = 0
        with suppress(IndexError):
            while True:
                self.at_hand.pop()
                left += 1
        self._handed += self._size - left
        self._size = 0
        self._messages, self._indexes, self._next = [], (), 0
