"""The read progress of a table view, and the calls that wait for it.

A table view is complete when it has read all messages that its topic had when it was created, and a refresh ends when
it has read all that the topic had at the call. Both wait for the last message of each partition at that time. The end
is taken once: a topic that is written faster than it is read would have no other.

Not every last message arrives. Compaction may have removed it, it may be corrupt, or it may be a chunk of a message
that was never completed. So an entry that has passed without a message counts as read, as does every entry before it.
A topic that is deleted meanwhile has nothing left to wait for.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.wire.message_id import MessageId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    """A call that waits, and the last messages that were not read yet, by topic."""

    token: T
    unread: dict[str, MessageId]


class TableViewProgress(Generic[T]):
    """The last message that was read of each topic, and the tokens of the calls that wait."""

    __slots__ = ("_last_read", "_waiting")

    def __init__(self) -> None:
        self._last_read: dict[str, MessageId] = {}
        self._waiting: list[_Waiting[T]] = []

    def wait_for(self, last_messages: Mapping[str, MessageId], token: T) -> Sequence[T]:
        """Wait until these messages are read; an id without an entry is of an empty topic. Return who is done."""
        unread = {
            topic: last
            for topic, last in last_messages.items()
            if last.entry_id >= 0 and not _covers(self._last_read.get(topic), last)
        }
        if not unread:
            return (token,)
        self._waiting.append(_Waiting(token, unread))
        return ()

    def read(self, topic: str, message_id: MessageId) -> Sequence[T]:
        """Note a message that was read. Return the tokens of the calls that wait for nothing any longer."""
        self._last_read[topic] = message_id
        for waiting in self._waiting:
            last = waiting.unread.get(topic)
            if last is not None and _covers(message_id, last):
                del waiting.unread[topic]
        return self._take_done()

    def passed(self, topic: str, entry: EntryKey) -> Sequence[T]:
        """Note that all messages up to the end of an entry were read, or will never arrive."""
        return self.read(topic, MessageId(*entry))

    def keep_only(self, topics: Collection[str]) -> Sequence[T]:
        """Wait for no messages of other topics, because these are deleted."""
        for waiting in self._waiting:
            for topic in waiting.unread.keys() - set(topics):
                del waiting.unread[topic]
        return self._take_done()

    @property
    def awaited(self) -> Collection[str]:
        """The topics of which messages are awaited."""
        return {topic for waiting in self._waiting for topic in waiting.unread}

    def _take_done(self) -> Sequence[T]:
        if all(waiting.unread for waiting in self._waiting):
            return ()
        done = [waiting.token for waiting in self._waiting if not waiting.unread]
        self._waiting = [waiting for waiting in self._waiting if waiting.unread]
        return done


def _covers(read: MessageId | None, last: MessageId) -> bool:
    """Return whether `last` was read, if `read` was. An id without a batch index stands for its whole entry."""
    if read is None or read.position != last.position:
        return read is not None and read.position > last.position
    if read.batch_index < 0:
        return True
    return read.batch_index >= (last.batch_index if last.batch_index >= 0 else read.batch_size - 1)
