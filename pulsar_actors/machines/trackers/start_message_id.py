"""The start message id of a consumer: where its subscription starts, at first and again after each reconnect or seek.

A durable subscription has its position at the broker. One that is not durable, like a reader's, ends with its
connection, and the next SUBSCRIBE must name the position to resume at: after the last entry that was opened here. The
last *received* entry would be wrong, because the queue of unopened entries is dropped with the connection. The last
*handed-out* message would be wrong, too, because the messages of an opened batch are still handed out after the
connection is lost. So nothing is lost or repeated. A chunked message may begin before the last opened entry and end
after it. Then the start is its first chunk, and opened messages between are dropped here. A start after a chunked
message is at its first chunk, too: other messages may begin between its chunks, and end after it.

SUBSCRIBE with a ledger and an entry starts *after* that entry; with a batch index as well, it starts *at* that entry.
So an inclusive start always carries a batch index. The messages of that entry that come before the start are dropped
here. An entry that is no batch counts as one message. So does every entry if the start has no batch index.

Only messages of that entry are dropped. If an earlier entry comes, the subscription was moved back, by an administrator
or by a seek whose answer was lost. Then everything is delivered, that entry included.

EARLIEST and LATEST may be the start, too; no message is dropped here for them. LATEST moves as messages are published:
a consumer that subscribed at LATEST again after a reconnect would miss those that came meanwhile. So the broker is
asked for the last entry before its first MESSAGE, and that entry is the start from then on.

SUBSCRIBE can also name a time, but only in whole seconds back from now: that may be up to a second too early, and it is
wrong by the difference of the clocks. So SEEK has to follow, with the time as it is, before the first message. A broker
that closes a consumer because of its SEEK keeps the new position for the consumer's next SUBSCRIBE, which may then name
any start. But the topic may move to another broker meanwhile, and then the position is gone. So if anything fails, or
if SUBSCRIBE goes over another connection, it names the time again, and SEEK follows again.

A topic in another cluster has other ids, also for messages that were replicated there. So no id that was read, or that
a reader was given, means anything after a move there. EARLIEST, LATEST and a time do: reading starts there again. In
place of an id it starts at EARLIEST, as messages that come twice are better than messages that never come. Java
subscribes with the former id, and then skips or repeats as many messages as the numbers happen to mean. Only an id that
no broker has accepted yet stays: it may be of the new cluster.

A non-persistent topic has no positions, and all its messages have the same id: reading always starts at the end.
"""

import math
from enum import Enum, unique

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers import ack_set
from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import EncodeError
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandSeek


@unique
class TimeIs(Enum):
    """What the broker knows of the publish time at which a reader starts."""

    KEPT = "The broker keeps the position of the time, for the next SUBSCRIBE."
    UNKNOWN = "A SUBSCRIBE was sent for that position, or the broker may not have it; or the start is no time."
    NAMED = "SUBSCRIBE has named the time, in whole seconds."


class SubscribeStart(NamedTuple):
    """The start as SUBSCRIBE names it; the broker goes back so many seconds if that is not 0."""

    message_id: MessageId | None
    rollback_seconds: int = 0


def _check_start(message_id: MessageId) -> None:
    """Refuse an id that SUBSCRIBE cannot carry, at once and not in the actor."""
    try:
        message_id.to_data()
    except EncodeError as error:
        raise InvalidArgument(f"no message to start at: {error.what}") from error


class StartMessageId:
    """The start of one consumer of one partition. Times are wall-clock milliseconds, as messages carry."""

    __slots__ = (
        "_asked", "_connection_id", "_inclusive", "_is_accepted", "_message_id", "_moved_back", "_opened", "_time_is",
        "_time_ms", "_unread_from", "durable", "inclusive", "persistent",
    )  # fmt: skip

    def __init__(
        self,
        message_id: MessageId | None = None,
        *,
        inclusive: bool = False,
        durable: bool = True,
        persistent: bool = True,
    ) -> None:
        self.durable = durable
        self.persistent = persistent
        self.inclusive = inclusive
        self._connection_id = ""  # of the last SUBSCRIBE
        self._is_accepted = False  # by a broker, which has the cluster's ids
        self._time_ms: int | None = None
        self._opened: MessageId | None = None
        self._unread_from: EntryKey | None = None
        if message_id is not None:
            _check_start(message_id)
        self._asked: MessageId | int | None = message_id  # as the user gave it
        self._set(message_id)

    def _set(self, message_id: MessageId | None) -> None:
        """Start at a message, or after it. In both cases the first chunk of a chunked message comes first."""
        if message_id is not None and message_id.first_chunk is not None and self.inclusive:
            message_id = message_id.first_chunk
        if message_id is not None and not self.persistent:
            message_id = LATEST
        self._message_id = message_id
        self._moved_back = False
        self._inclusive = self.inclusive
        self._time_ms = None
        self._time_is = TimeIs.UNKNOWN
        self._opened = None
        first_chunk = None if message_id is None else message_id.first_chunk
        self._unread_from = None if first_chunk is None else first_chunk.position

    def opened(self, message_id: MessageId, unread_from: EntryKey | None = None) -> None:
        """Note the last entry that was opened; its messages are handed out even if the connection is lost.

        `unread_from` is the first chunk of a message that was not opened, if that is before the entry.
        """
        if not self.durable:
            self._opened = message_id
            self._unread_from = unread_from

    def sought(self, message_id: MessageId | None) -> None:
        """Start at the message of a seek."""
        self._asked = message_id
        self._set(message_id)

    def sought_time(self, publish_time_ms: int) -> None:
        """Start at the first message published at a time or later."""
        self._asked = publish_time_ms
        self._set(None)
        self._time_ms = publish_time_ms

    def accepted(self) -> None:
        """Note that a broker has accepted the start."""
        self._is_accepted = True

    def leave_cluster(self) -> None:
        """Start in another cluster where the user has asked for, or at EARLIEST in place of a message of this one."""
        if isinstance(self._asked, int):
            self.sought_time(self._asked)
        else:
            self.sought(EARLIEST if self._is_accepted and is_message(self._asked) else self._asked)

    def note_position(self) -> None:
        """Note that the broker has closed the consumer for its SEEK, and so keeps the position."""
        if self._time_ms is not None:
            self._time_is = TimeIs.KEPT

    def forget_position(self) -> None:
        """Note that the next broker may have no position of a seek to a time: SUBSCRIBE has to name the time."""
        self._time_is = TimeIs.UNKNOWN

    def attached(self, connection_id: str) -> None:
        """Note the connection of the next SUBSCRIBE. Another one than before may lead to another broker."""
        if not self.durable and connection_id != self._connection_id:
            self._connection_id = connection_id
            self.forget_position()

    @property
    def is_rough(self) -> bool:
        """True if the last SUBSCRIBE has named a time, and reading would begin up to a second too early."""
        return self._time_is is TimeIs.NAMED

    @property
    def time(self) -> int:
        """The time that is the start, if it is rough."""
        assert self._time_ms is not None  # noqa: S101 - SUBSCRIBE has named it
        return self._time_ms

    @property
    def has_unresolved_latest(self) -> bool:
        """True if the start is LATEST, and the entry that LATEST stood for is not known yet."""
        return not self.durable and self._message_id == LATEST

    def resolve_latest(self, last_before: MessageId) -> None:
        """Start after this entry, the last one that the broker did not send, unless the start was moved since."""
        if self.has_unresolved_latest:
            self._message_id = MessageId(last_before.ledger_id, last_before.entry_id, last_before.partition)
            self._inclusive = False

    def subscribe(self, now_ms: int) -> SubscribeStart:
        """Return the start for SUBSCRIBE. From now on, messages before it are dropped."""
        if self.durable:
            return SubscribeStart(None)
        self._moved_back = False
        if self._opened is not None:
            self._time_is = TimeIs.UNKNOWN
            self._message_id = MessageId(self._opened.ledger_id, self._opened.entry_id, self._opened.partition)
            self._inclusive = False
            self._time_ms = None
        if self._unread_from is not None:
            return SubscribeStart(MessageId(*self._unread_from, batch_index=0))
        if self._time_is is TimeIs.KEPT:
            self._time_is = TimeIs.UNKNOWN
            return SubscribeStart(EARLIEST)
        if self._time_ms is not None:
            self._time_is = TimeIs.NAMED
            seconds = math.ceil((now_ms - self._time_ms) / 1000)
            return SubscribeStart(EARLIEST, seconds) if seconds > 0 else SubscribeStart(LATEST)
        start = self._message_id
        if (
            start is not None
            and self._inclusive
            and start.batch_index < 0
            and EARLIEST.ledger_id < start.ledger_id < LATEST.ledger_id
        ):
            start = MessageId(start.ledger_id, start.entry_id, start.partition, 0)
        return SubscribeStart(start)

    def note_arrival(self, entry: EntryKey) -> None:
        """Note an entry that the broker sends. If it is before the start, no messages are dropped any longer."""
        start = self._message_id
        if start is not None and entry < start.position and start != LATEST and not self._was_opened(entry, start):
            self._moved_back = True

    def is_before(self, entry: EntryKey) -> bool:
        """Check whether a message that is a whole entry comes before the start and is dropped."""
        start = self._message_id
        if start is None or self._inclusive or self._moved_back:
            return False
        return start.position == entry or (self._was_opened(entry, start) and entry != self._unread_from)

    def _was_opened(self, entry: EntryKey, start: MessageId) -> bool:
        return self._unread_from is not None and self._unread_from <= entry < start.position

    def first_wanted(self, entry: EntryKey, batch_size: int) -> int:
        """Return the index of the first message of a batch that is not before the start: the size if all are."""
        start = None if self._moved_back else self._message_id
        if start is None or start.position != entry:
            return 0 if start is None or not self._was_opened(entry, start) else batch_size
        if start.batch_index < 0:
            return 0 if self._inclusive else batch_size
        return min(batch_size, start.batch_index if self._inclusive else start.batch_index + 1)

    def leaves(self, last: MessageId, passed: EntryKey | None, acknowledged: MessageId | None) -> bool:
        """Return whether there are messages left to read, if `last` is the topic's last message.

        `passed` is the last entry that was opened or dropped here. Without such an entry, the start decides. If the
        start is a time or LATEST, the broker's position decides: `acknowledged` is the last message before it.
        """
        if last.entry_id < 0:
            return False
        start = self._message_id
        if passed is not None:
            if self._unread_from is not None and start is not None:
                passed = max(passed, start.position)  # it is before the start that the first entries come from
            return last.position > passed
        if start is None or start == LATEST:
            return acknowledged is not None and last.position > acknowledged.position
        if start.batch_index < 0:
            return last.position >= start.position if self._inclusive else last.position > start.position
        return last >= start if self._inclusive else last > start


def is_message(target: MessageId | int | None) -> bool:
    """Return whether a start is a message, whose id means something in one cluster only."""
    return isinstance(target, MessageId) and target not in {EARLIEST, LATEST}


def seek_command(consumer_id: int, target: MessageId | int, largest_batch: int) -> CommandSeek:
    """Write SEEK to a message, or to wall-clock ms; an entry has at most `largest_batch` messages."""
    if isinstance(target, int):
        return CommandSeek(consumer_id=consumer_id, message_publish_time=target)
    command = CommandSeek(consumer_id=consumer_id, message_id=(target.first_chunk or target).entry.to_data())
    command.message_id.ack_set.extend(_wanted_words(target, largest_batch))
    return command


def _wanted_words(target: MessageId, largest_batch: int) -> list[int]:
    """Return the `ack_set` of the messages to deliver from the entry.

    No words, which means all, without a possible batch.
    """
    if not 0 < target.batch_index < target.batch_size <= largest_batch:
        return []
    return ack_set.to_words(ack_set.starting_at(target.batch_size, target.batch_index))
