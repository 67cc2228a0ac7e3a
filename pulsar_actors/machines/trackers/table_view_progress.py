"""The read progress of a table view, and the calls that wait for it.

A table view is complete when it has read all messages that its topic had when it was created, and a refresh ends when
it has read all that the topic had at the call. Both wait for the last message of each partition at that time. The end
is taken once: a topic that is written faster than it is read would have no other.

Not every last message arrives. Compaction may have removed it, it may be corrupt, it may be a chunk of a message that
was never completed, or it may expire. So an entry that has passed without a message counts as read, as does every entry
before it.
A topic that is deleted meanwhile has nothing left to wait for.

A topic that goes to another cluster is read there from its start, and its ids have nothing to do with those of before.
So an id counts with the number of moves before it. After a move no message of the former cluster is waited for: the
caller asks the new cluster for its last messages, and waits again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import MessageId

T = TypeVar("T")


class MessagePlace(NamedTuple):
    """A message, and how often its topic had gone to another cluster before."""

    moves: int
    message_id: MessageId


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    """A call that waits, and the last messages that were not read yet, by topic."""

    token: T
    unread: dict[str, MessagePlace]


class TableViewProgress(Generic[T]):
    """The last message that was read of each topic, and the tokens of the calls that wait."""

    __slots__ = ("_last_read", "_waiting")

    def __init__(self) -> None:
        self._last_read: dict[str, MessagePlace] = {}
        self._waiting: list[_Waiting[T]] = []

    def wait_for(self, last_messages: Mapping[str, MessagePlace], token: T) -> Sequence[T]:
        """Wait until these messages are read; an id without an entry is of an empty topic. Return who is done."""
        unread = {
            topic: last
            for topic, last in last_messages.items()
            if last.message_id.entry_id >= 0 and not _covers(self._last_read.get(topic), last)
        }
        if not unread:
            return (token,)
        self._waiting.append(_Waiting(token, unread))
        return ()

    def read(self, topic: str, read: MessagePlace) -> Sequence[T]:
        """Note a message that was read. Return the tokens of the calls that wait for nothing any longer."""
        self._last_read[topic] = read
        for waiting in self._waiting:
            last = waiting.unread.get(topic)
            if last is not None and _covers(read, last):
                del waiting.unread[topic]
        return self._take_done()

    def passed(self, topic: str, moves: int, entry: EntryKey) -> Sequence[T]:
        """Note that all messages up to the end of an entry were read, or will never arrive."""
        return self.read(topic, MessagePlace(moves, MessageId(*entry)))

    def keep_only(self, topics: Collection[str]) -> Sequence[T]:
        """Wait for no messages of other topics, because these are deleted."""
        for waiting in self._waiting:
            for topic in waiting.unread.keys() - set(topics):
                del waiting.unread[topic]
        return self._take_done()

    def drop_all(self) -> Sequence[T]:
        """Return the tokens of all calls that wait. They wait for nothing any longer."""
        dropped = [waiting.token for waiting in self._waiting]
        self._waiting.clear()
        return dropped

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


def _covers(read: MessagePlace | None, last: MessagePlace) -> bool:
    """Return whether `last` was read, if `read` was. An id without a batch index stands for its whole entry."""
    if read is None:
        return False
    (moves, read_id), (last_moves, last_id) = read, last
    if (moves, read_id.position) != (last_moves, last_id.position):
        return (moves, read_id.position) > (last_moves, last_id.position)
    if read_id.batch_index < 0:
        return True
    return read_id.batch_index >= (last_id.batch_index if last_id.batch_index >= 0 else read_id.batch_size - 1)
