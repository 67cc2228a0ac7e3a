"""Where a subscription starts, at first and again after each reconnect.

A durable subscription has its place at the broker. One that is not durable, as a reader's, ends with its connection,
and the next SUBSCRIBE must name where to go on: after the last entry that was opened here. Opened is what counts, not
received, because the queue of unopened entries is dropped with the connection, and not handed out, because an opened
batch outlives it. So nothing is lost or repeated. A message in chunks may begin before what was opened last and end
after it; then the start is its first chunk, and what lies between and was opened is left out here.

The broker counts in entries. It starts after the entry it is given, or, when a batch index is given too, at that entry;
so an inclusive start is named with a batch index, and what comes before the start inside that one entry is left out
here. An entry that is no batch is one message, and so is an entry to a start that names no batch index.

Only that entry is looked at. Should one from before it come, then the subscription was moved back, by an administrator
or by a seek whose answer was lost: all that this brings is delivered, that entry included.

The two ends of a topic are positions too, and nothing is before them. But the last one moves: who subscribed there
again after a reconnect would miss what came meanwhile. So the broker is asked behind which entry it began to send, and
that is the start from then on.

A time can be named in SUBSCRIBE as well, but in whole seconds back from now, which is too far by up to one. After a
seek it need not be: a broker that ends a consumer because it moves the subscription keeps that for the consumer to come
back to, whatever start that one names. Only if it is another binding that is lost is the time named again.

A topic that is not stored has no place to go to, and all its messages have one id: whatever message is named, the start
is the end.
"""

import math
from typing import NamedTuple

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.wire.errors import EncodeError
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId


class StartAt(NamedTuple):
    """What SUBSCRIBE says of the start; the broker goes back so many seconds if that is not 0."""

    message_id: MessageId | None
    rollback_seconds: int = 0


def _check(message_id: MessageId) -> None:
    """Refuse what SUBSCRIBE cannot say, before anything waits for it."""
    try:
        message_id.to_data()
    except EncodeError as error:
        raise InvalidArgument(f"no message to start at: {error.what}") from error


class StartPosition:
    """The start of one consumer of one partition. Times are wall-clock milliseconds, as messages carry."""

    __slots__ = (
        "_inclusive", "_is_set", "_message_id", "_moved_back", "_opened", "_time_ms", "_unread_from", "durable",
        "inclusive", "stored",
    )  # fmt: skip

    def __init__(
        self,
        message_id: MessageId | None = None,
        *,
        inclusive: bool = False,
        durable: bool = True,
        stored: bool = True,
    ) -> None:
        self.durable = durable
        self.stored = stored
        self.inclusive = inclusive
        self._time_ms: int | None = None
        self._opened: MessageId | None = None
        self._unread_from: EntryKey | None = None
        if message_id is not None:
            _check(message_id)
        self._set(message_id)

    def _set(self, message_id: MessageId | None) -> None:
        """Start at a message; at a chunked one, its first chunk is needed too if it is to be delivered."""
        if message_id is not None and message_id.first_chunk is not None and self.inclusive:
            message_id = message_id.first_chunk
        if message_id is not None and not self.stored:
            message_id = LATEST
        self._message_id = message_id
        self._moved_back = False
        self._inclusive = self.inclusive
        self._time_ms = None
        self._is_set = False
        self._opened = None
        self._unread_from = None

    def opened(self, message_id: MessageId, unread_from: EntryKey | None = None) -> None:
        """Note that an entry was opened: its messages are handed out from here, whatever becomes of the connection.

        `unread_from` is where a message begins that was not opened, if that is before.
        """
        self._opened = message_id
        self._unread_from = unread_from

    def sought(self, message_id: MessageId) -> None:
        """Start at the message of a seek."""
        self._set(message_id)

    def sought_time(self, publish_time_ms: int) -> None:
        """Start at the first message published at a time or later."""
        self._set(None)
        self._time_ms = publish_time_ms
        self._is_set = True

    def stays_bound(self) -> None:
        """Hear that a seek has ended no consumer: when one ends, it will not be for this."""
        self._is_set = False

    @property
    def is_adrift(self) -> bool:
        """Hold for the end of the topic, while nobody knows which entry that was."""
        return not self.durable and self._message_id == LATEST

    def moor(self, last_before: MessageId) -> None:
        """Start after this entry, the last one that the broker passed over, unless something has moved the start."""
        if self.is_adrift:
            self._message_id = MessageId(last_before.ledger_id, last_before.entry_id, last_before.partition)
            self._inclusive = False

    def subscribe(self, now_ms: int) -> StartAt:
        """Give what SUBSCRIBE says now, and filter by it from now on."""
        if self.durable:
            return StartAt(None)
        self._moved_back = False
        if self._opened is not None:
            self._is_set = False
            self._message_id = MessageId(self._opened.ledger_id, self._opened.entry_id, self._opened.partition)
            self._inclusive = False
            self._time_ms = None
        if self._unread_from is not None:
            return StartAt(MessageId(*self._unread_from, batch_index=0))
        if self._is_set:
            self._is_set = False
            return StartAt(EARLIEST)
        if self._time_ms is not None:
            seconds = math.ceil((now_ms - self._time_ms) / 1000)
            return StartAt(EARLIEST, seconds) if seconds > 0 else StartAt(LATEST)
        start = self._message_id
        if (
            start is not None
            and self._inclusive
            and start.batch_index < 0
            and EARLIEST.ledger_id < start.ledger_id < LATEST.ledger_id
        ):
            start = MessageId(start.ledger_id, start.entry_id, start.partition, 0)
        return StartAt(start)

    def met(self, entry: EntryKey) -> None:
        """Take note of an entry that the broker sends: there is no start any longer if it is from before that."""
        start = self._message_id
        if start is not None and entry < start.position and start != LATEST and not self._was_opened(entry, start):
            self._moved_back = True

    def is_before(self, entry: EntryKey) -> bool:
        """Tell whether a message that is a whole entry comes before the start and is to be left out."""
        start = self._message_id
        if start is None or self._inclusive or self._moved_back:
            return False
        return start.position == entry or self._was_opened(entry, start)

    def _was_opened(self, entry: EntryKey, start: MessageId) -> bool:
        return self._unread_from is not None and self._unread_from <= entry < start.position

    def first_wanted(self, entry: EntryKey, batch_size: int) -> int:
        """Give the index of the first message of a batch that does not come before the start: its size if all do."""
        start = None if self._moved_back else self._message_id
        if start is None or start.position != entry:
            return 0 if start is None or not self._was_opened(entry, start) else batch_size
        if start.batch_index < 0:
            return 0 if self._inclusive else batch_size
        return min(batch_size, start.batch_index if self._inclusive else start.batch_index + 1)

    def leaves(self, last: MessageId, passed: EntryKey | None, acknowledged: MessageId | None) -> bool:
        """Tell whether something is left to read, where this is the topic's last message.

        `passed` is the last entry that was opened or left out here. Before there is any, it is for the start to say, or
        where that is a time or the end of the topic, for the broker, which has `acknowledged` up to where it began.
        """
        if last.entry_id < 0:
            return False
        if passed is not None:
            return last.position > passed
        start = self._message_id
        if start is None or start == LATEST:
            return acknowledged is not None and last.position > acknowledged.position
        if start.batch_index < 0:
            return last.position >= start.position if self._inclusive else last.position > start.position
        return last >= start if self._inclusive else last > start
