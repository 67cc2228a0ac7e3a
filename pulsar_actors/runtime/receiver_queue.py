"""The receiver queue of one consumer: entries go in from its actor, messages come out to callers.

The actor adds entries unopened. A caller that finds no message opens the next entries, takes the first message, and
makes the next ones a *slice*: a list of messages in reverse order, from which all callers then take without a lock, by
one `pop` each. So most messages cost their caller only that `pop`, and the queue keeps no message alive that was taken.

Once half of the queue is free, a report to the actor is due: it lets the consumer grant as many permits (FLOW). A slice
ends one message before that, so that the caller that takes the last message of the half sends the report itself, and
does not leave it to a next call, which may never come. Room is also freed by messages that are never handed out: those
of corrupt entries, found here, and those that the actor drops as they arrive. All of it counts towards the half, so
the actor tells the queue how much room is free and not granted. If that is more than when the slice was set up, the
slice is shortened.

Opened messages are handed out even if the connection is lost: a reader resumes after the last opened entry. Whatever
brings them again drops them, and empties the slice, even while callers take from it: a seek, a redelivery of
everything, or a new connection of a durable subscription. The queue of a non-persistent topic outlives its connections.
Each report carries the generation of its messages, so that the actor can ignore reports of an earlier one.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from pulsar_actors.compiling import mypyc_attr
from pulsar_actors.machines.consumer_events import (
    EntryCorrupt,
    HandedOut,
    MessagesDiscarded,
    ReceiverGaveUp,
    ReceiverWaits,
)
from pulsar_actors.machines.incoming_entries import CorruptEntry, DeliveredEntry, Skipped
from pulsar_actors.machines.trackers.entry_map import EntryKey, Generation
from pulsar_actors.machines.trackers.flow_permits import grant_threshold
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.interrupts import DeferInterrupts
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.opened_entry import DecodeMessage, EntryContents, MakeMessages, OpenedEntry, open_entry
from pulsar_actors.runtime.receiver_queue_base import ReceiverQueueBase
from pulsar_actors.runtime.schema_versions import SchemaVersions
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.message_id import MessageId

MAX_OPENED_AT_ONCE: Final = 100
"""The most messages of single entries that are opened in one step."""

MADE_AT_ONCE = 512  # not Final, for tests: compiled code would have the number in place of the name
"""The most messages of a batch that are made in one step. So few never fill the garbage collector's young generation,
if a caller drops each message before it takes the next ones. A whole batch of them does, and is then looked at again
and again."""

MAX_SKIPPED: Final = 1000

SIZING: Final = -(2**62)
"""Less than any room, which is below 0 if a kept queue holds more than its size: while a slice is set up, the actor
waits for its end and then shortens it."""


class ReceiverQueueSettings(NamedTuple):
    """The settings of one queue: `make` makes messages, `decode` decodes their values, `size` gives that of a payload.

    With `reports_ids`, the actor gets the ids of handed-out messages, for readers. With `reports_entries`, the actor
    gets the id of an entry before its messages are handed out, for acknowledgement timeouts: afterwards would be too
    late, since a caller that gets a message may never call again.
    """

    queue_size: int
    topic: str
    make: MakeMessages
    decode: DecodeMessage
    reports_ids: bool = False
    compacted: bool = False
    reports_entries: bool = False
    schemas: SchemaVersions | None = None
    size: Callable[[Any], int] = len


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceiverQueue(ReceiverQueueBase):
    """The queue of one consumer. `tell` takes reports for the actor; `next_messages` is the slice."""

    __slots__ = (
        "_entries", "_entry", "_freed", "_indexes", "_lock", "_opened", "_settings", "_sized_for", "_slice_size",
        "_sliced", "_tell", "_threshold", "_unmade", "_unreported", "_unreported_generation", "_unreported_ids",
        "ended", "generation", "max_message_size", "next_messages", "opened_bytes", "opened_messages", "progress",
        "undecryptable",
    )  # fmt: skip

    def __init__(
        self, settings: ReceiverQueueSettings, tell: Callable[[object], object], interleaving: Interleaving = THREADS
    ) -> None:
        super().__init__(interleaving)
        self.ended = False
        self.generation = Generation()
        self.progress = ReadProgress(keeps_skipped=settings.reports_ids)
        self.opened_messages = 0
        self.opened_bytes = 0
        self.undecryptable = 0  # the number of entries that no key decrypts
        self.max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        self.next_messages: list[Any] = []  # always this list
        self._settings = settings
        self._tell = tell
        self._threshold = grant_threshold(settings.queue_size)
        self._lock = interleaving.lock()
        self._entries: deque[DeliveredEntry] = deque()
        self._opened: list[Any] = []  # messages that are in no slice yet, in reverse order
        self._unmade: EntryContents | None = None  # the rest of a batch, whose messages are not made yet
        self._entry: OpenedEntry | None = None  # the entry of those messages, where ids or entries are reported
        self._indexes: Sequence[int] = ()  # the batch indexes of that entry's messages
        self._sliced = 0  # the number of that entry's messages that were put into a slice
        self._slice_size = 0  # the number of messages in the slice that are not counted in `_unreported`
        self._unreported = 0  # the number of handed-out messages that are not reported yet
        self._unreported_generation = self.generation
        self._unreported_ids: list[MessageId] = []
        self._freed = 0  # the room that is free and not granted, by the actor's last count
        self._sized_for = 0  # the same when the slice was set up

    # The callers' side.

    def take(self) -> Any:  # noqa: ANN401 - a message, as `make` makes it
        """Take the next message, or None if there is none now."""
        try:
            return self.next_messages.pop()
        except IndexError:
            return self._refill()

    def take_many(self, most: int, messages: list[Any]) -> None:
        """Take the messages that there are now, so many at most, and append them to a list. They get no slice."""
        with DeferInterrupts(), self._lock:
            before = len(messages)
            most += before
            with suppress(IndexError):
                while self.next_messages and len(messages) < most:
                    messages.append(self.next_messages.pop())
            if self.next_messages:
                return
            self._count_slice()
            self._report_if_due()
            while len(messages) < most and (self._opened or self._open_more()):
                self._report_entry()
                self._slice_size = min(most - len(messages), len(self._opened))
                self._sliced += self._slice_size
                messages.extend(self._opened[: -self._slice_size - 1 : -1])
                del self._opened[-self._slice_size :]
                self._count_slice()
                self._report_if_due()
            if len(messages) == before:
                self._report()

    def take_entry(self) -> EntryContents | None:
        """Take all messages of the next entry. A caller that does so takes no single messages.

        None is acknowledged by a reader, so that its position shows if the broker has skipped messages.
        """
        with DeferInterrupts(), self._lock:
            self._report_earlier_generation()
            while self._entries and self.closed is None:
                contents = self._open_one(self._entries.popleft())
                if contents is not None and contents.payloads:
                    self._unreported += len(contents.payloads)
                    self._report_if_due()
                    return contents
            self._report()
            return None

    @property
    def queued(self) -> int:
        """The number of queued messages, by the counts that entries declare."""
        return sum(entry.messages for entry in tuple(self._entries)) + self.opened_count

    @property
    def opened_count(self) -> int:
        """The number of queued messages that are in opened entries."""
        unmade = self._unmade
        return (0 if unmade is None else len(unmade.payloads)) + len(self._opened) + len(self.next_messages)

    @property
    def opened_size(self) -> int:
        """The bytes of their payloads."""
        unmade = self._unmade
        made = (*self._opened, *self.next_messages)
        return (0 if unmade is None else sum(map(len, unmade.payloads))) + sum(map(self._settings.size, made))

    def queued_size(self) -> int:
        """Add up the payloads of the queued messages; of entries that are not opened yet, as they have arrived."""
        return self.opened_size + sum(len(delivery.payload) for delivery in self._entries.copy())

    @property
    def prefetches(self) -> bool:
        """True if the broker is asked for messages before a caller waits for one."""
        return self._settings.queue_size > 0

    def is_terminated(self) -> bool:
        """Return whether the broker has reported the end of the topic."""
        return self.ended

    def can_answer(self) -> bool:
        """Return whether a future can end at once: there is a message, or none will come.

        If not, all handed-out messages are reported: the next message may need their permits.
        """
        with self._lock:  # a caller that is opening an entry may leave messages of it
            can_answer = bool(self.queued) or self.end_reason is not None
            if not can_answer:
                self._count_slice()
                self._report()
        return can_answer

    def still_delivers(self, topic: str, generation: Generation) -> bool:
        """Return whether a message that was opened in a generation may still be handed out."""
        return generation.still_delivers(self.generation)

    def request_one(self) -> None:
        """Ask the broker for a message, if the queue prefetches none."""
        if not self.prefetches:
            self._tell(ReceiverWaits())

    def cancel_request(self) -> None:
        """Ask for one message less."""
        if not self.prefetches:
            self._tell(ReceiverGaveUp())

    # The actor's side.

    def add(self, entries: Iterable[DeliveredEntry]) -> None:
        """Queue entries, and wake as many callers as there are messages."""
        entries = tuple(entries)
        messages = sum(entry.messages for entry in entries)
        self._entries.extend(entries)
        self.checkpoint()
        self.wake_callers(messages)

    def clear(self, generation: Generation) -> None:
        """Drop the queued entries, and also the opened messages if these come again in the new generation."""
        with self._lock:
            self._entries.clear()
            self.progress.passed = None
            self.checkpoint()
            if not self.generation.still_delivers(generation):
                self._void_opened()
            if not self.generation.still_acknowledges(generation):
                self.progress.reset()
                self.ended = False
            self._report()
            self.checkpoint()
            self.generation = generation

    def resize(self, size: int) -> None:
        """Report freed room once half of the new size is free."""
        with self._lock:
            self._threshold = grant_threshold(size)
            self._shorten_slice()

    def note_freed(self, freed: int) -> None:
        """Note how much room is free and not granted, and shorten the slice if it reaches too far now."""
        self._freed = freed
        self.checkpoint()
        if freed > self._sized_for:
            with self._lock:
                self._shorten_slice()

    def mark_end(self) -> None:
        """Note the end of the topic: no entry comes after those that are queued."""
        self.ended = True
        self.checkpoint()
        self.wake_all_callers()

    def end(self, error: Exception) -> None:
        """Stop handing out messages."""
        if self.closed is None:
            self.closed = error
        with self._lock:
            self._entries.clear()
            self.checkpoint()
            self._void_opened()
        self.wake_all_callers()

    def forget(self, error: Exception) -> None:
        """Stop handing out messages, in a forked child, where a thread that does not exist there may hold the lock."""
        self._lock = threading.Lock()
        self.closed = error
        self._entries.clear()
        self._drop_opened()
        self.next_messages.clear()

    # Slices, under the lock.

    def _refill(self) -> Any:  # noqa: ANN401 - a message
        """Take a message, and set up the next slice. Return None if there are no messages."""
        with DeferInterrupts(), self._lock:
            with suppress(IndexError):
                return self.next_messages.pop()  # another caller was faster, and has set up a slice
            self._count_slice()
            self._report_if_due()
            if not self._opened and not self._open_more():
                self._report()
                return None
            self._report_entry()
            message = self._opened.pop()
            self._sliced += 1
            self._slice_size = 1
            self._count_slice()
            self._report_if_due()
            self._next_slice()
            return message

    def _report_entry(self) -> None:
        entry = self._entry
        if self._settings.reports_entries and entry is not None:
            self._tell(HandedOut(self.generation, 0, (entry.message_id,), (entry.redelivery_count,)))

    def _next_slice(self) -> None:
        """Set up the next slice, which ends before the next report is due."""
        self._sized_for = SIZING
        self.checkpoint()
        freed = self._freed
        size = self._room_until_due(freed)
        upcoming = self._opened[-size:] if size else []
        del self._opened[len(self._opened) - len(upcoming) :]
        self._slice_size = len(upcoming)
        self._sliced += len(upcoming)
        self.checkpoint()
        self.next_messages[:] = upcoming
        self._sized_for = freed

    def _shorten_slice(self) -> None:
        """Put back messages at the far end of the slice, unless callers take them meanwhile."""
        self._sized_for = self._freed
        allowed = self._room_until_due(self._sized_for)
        with suppress(IndexError):
            while self._slice_size > allowed:
                self._opened.append(self.next_messages.pop(0))
                self._slice_size -= 1
                self._sliced -= 1
        if not self.next_messages:
            self._count_slice()
            self._report_if_due()

    def _open_more(self) -> bool:
        """Make the next messages of the batch that is open, or open the next entry.

        Several entries are opened if they are single messages whose ids are not reported.
        """
        unmade = self._unmade  # an attribute that was None once would be None below to mypyc
        if unmade is not None:
            self._opened = self._make(unmade)
            self._opened.reverse()
            return True
        self._drop_opened()
        self.checkpoint()
        self._report_earlier_generation()
        settings = self._settings
        one_at_a_time = settings.reports_ids or settings.reports_entries or not self.prefetches
        most = 1 if one_at_a_time else min(self._threshold, MAX_OPENED_AT_ONCE)
        while self._entries and self._unmade is None and len(self._opened) < most and self.closed is None:
            contents = self._open_one(self._entries.popleft())
            if contents is not None:
                self._entry = contents.entry
                self._opened += self._make(contents)
                self._indexes = contents.indexes
        self._opened.reverse()
        return bool(self._opened)

    def _make(self, contents: EntryContents) -> list[Any]:
        """Make the first messages of an entry, and keep the rest for the next call."""
        stored, payloads, entry, indexes = contents[:4]
        if len(payloads) <= MADE_AT_ONCE:
            self._unmade = None
        else:
            self._unmade = EntryContents(stored[MADE_AT_ONCE:], payloads[MADE_AT_ONCE:], entry, indexes[MADE_AT_ONCE:])
            stored, payloads, indexes = stored[:MADE_AT_ONCE], payloads[:MADE_AT_ONCE], indexes[:MADE_AT_ONCE]
        return self._settings.make(stored, payloads, entry, indexes)

    def _open_one(self, delivery: DeliveredEntry) -> EntryContents | None:
        """Open an entry, and count it; None if it is corrupt."""
        settings = self._settings
        self.checkpoint()
        opened = OpenedEntry(delivery, self.generation, settings.topic, settings.decode, settings.schemas)
        try:
            contents = open_entry(delivery, opened, self.max_message_size, compacted=settings.compacted)
        except EntryError as fault:
            position, messages = delivery.message_id.position, delivery.messages
            self._tell(EntryCorrupt(self.generation, position, messages, fault.validation_error))
            self.progress.found_corrupt(CorruptEntry(position, fault.validation_error))
            return None
        self.progress.opened = delivery.message_id
        self.opened_messages += len(contents.payloads)
        self.opened_bytes += contents.octets
        if contents.skipped:
            self._tell(MessagesDiscarded(self.generation, contents.skipped))
        return contents

    def _void_opened(self) -> None:
        """Drop the opened messages. Callers that are about to take from the slice find it empty."""
        left: list[Any] = []
        with suppress(IndexError):
            while True:
                left.append(self.next_messages.pop())
        self.opened_messages -= len(left) + self.opened_count  # nobody has got them
        self.opened_bytes -= sum(map(self._settings.size, left)) + self.opened_size
        self._unreported += self._slice_size - len(left)
        self._slice_size = 0
        self._drop_opened()

    def _drop_opened(self) -> None:
        self._opened, self._unmade, self._indexes, self._sliced = [], None, (), 0

    # Reports of freed room, under the lock.

    def _count_slice(self) -> None:
        """Count the messages of the last slice as handed out."""
        size = self._slice_size
        self._unreported += size
        if size and self._settings.reports_ids and self._entry is not None:
            last, ids = self._entry.id_of(self._indexes[self._sliced - 1]), self._unreported_ids
            if ids and ids[-1].position == last.position:
                ids.pop()
            ids.append(last)
        self._slice_size = 0

    def _room_until_due(self, freed: int) -> int:
        """Return how many messages can be handed out before the one with which a report is due."""
        return max(0, self._threshold - 1 - freed - self._unreported)

    def _report_if_due(self) -> None:
        if self._unreported + self._freed >= self._threshold:
            self._report()

    def _report_earlier_generation(self) -> None:
        if self._unreported_generation != self.generation:
            self._report()
            self._unreported_generation = self.generation

    def _report(self) -> None:
        if self._unreported:
            self._tell(HandedOut(self._unreported_generation, self._unreported, tuple(self._unreported_ids)))
            self._unreported, self._unreported_ids = 0, []


_NOTHING_SKIPPED: Final[deque[Skipped]] = deque(maxlen=0)
"""The skipped entries of all consumers that keep none: a deque for each would take most of a KiB."""


class ReadProgress:
    """The read progress of one consumer.

    `opened` is the last entry that was opened: a reader resumes after it. `passed` is the last entry that arrived and
    of which no message was queued: a reader that waits for the end of a topic must not wait for such entries. For these
    readers the latest `MAX_SKIPPED` skipped entries are kept, and earlier ones are counted.
    """

    __slots__ = ("_corrupt", "_forgotten", "_keeps_skipped", "_skipped", "opened", "passed")

    def __init__(self, *, keeps_skipped: bool) -> None:
        self.opened: MessageId | None = None
        self.passed: EntryKey | None = None
        self._keeps_skipped = keeps_skipped
        self._skipped: deque[Skipped] = deque() if keeps_skipped else _NOTHING_SKIPPED
        self._forgotten = 0  # the number of skipped entries that are not kept any longer
        self._corrupt: EntryKey | None = None  # the last corrupt entry

    @property
    def furthest(self) -> EntryKey | None:
        """The last entry that is completely read, provided that the queue is empty."""
        opened = None if self.opened is None else self.opened.position
        return max((one for one in (opened, self._corrupt, self.passed) if one is not None), default=None)

    def found_corrupt(self, skipped: CorruptEntry) -> None:
        """Note an entry that could not be opened."""
        self.add_skipped([skipped])
        self._corrupt = skipped.entry

    def add_skipped(self, skipped: Iterable[Skipped]) -> None:
        """Keep skipped entries for a reader that asks."""
        if not self._keeps_skipped:
            return
        self._skipped.extend(skipped)
        while len(self._skipped) > MAX_SKIPPED:
            self._skipped.popleft()
            self._forgotten += 1

    def take_skipped(self) -> tuple[list[Skipped], int]:
        """Take the skipped entries that are kept, and the number of those that are not."""
        kept = [self._skipped.popleft() for _ in range(len(self._skipped))]
        forgotten, self._forgotten = self._forgotten, 0
        return kept, forgotten

    def reset(self) -> None:
        """Forget the opened and skipped entries: they come again."""
        self.opened = self._corrupt = None
        self._skipped.clear()
        self._forgotten = 0
