"""The queue of acknowledgements between the callers of a consumer and its actor. It groups them by time and number.

To acknowledge a received message is to append its index to its opened entry; the first such message puts the entry into
the queue. No object is made for each message. The first acknowledgement of a group tells the actor, which ends the
group after `group_time`. To end a group, the actor drains the queue into its machine, whose tracker
(`ack_grouping_tracker.py`) holds the acknowledgements, and feeds it `AcksDue`, which sends all that is held. A group
ends at once when it has `group_size` items, or when a caller waits for a receipt. Each acknowledgement carries the
generation of its message, because a seek makes earlier ones void.

The actor also drains the queue before it handles any other message, so that no close, seek, redelivery or lost
connection overtakes an acknowledgement. Items that are drained early still belong to the group: they are sent at its
end, and they count towards `group_size`.

`end_group` notes that no group is open and *then* takes the queued items. A caller appends and *then* checks if a group
is open (the rule "append, then look" of `loop.py`). So either the actor takes the item, or the caller tells the actor
of a new group. Two callers that append at the same time may both tell the actor; the second group is then empty. In the
same way the actor marks an entry as not queued and *then* takes its acknowledged indexes. There may be none left, if
two callers have queued the entry.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Final

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.trackers.ack_grouping_tracker import MAX_ENTRIES, AckToken
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.opened_entry import OpenedEntry, batch_indexes
from pulsar_actors.wire.message_id import MessageId

DEFAULT_GROUP_TIME: Final = 0.1

_NOTIFIED: Final = sys.maxsize
_ONE_ACK: Final = (-1,)


class QueuedAck(NamedTuple):
    """One acknowledgement, and the token that gets the broker's answer. All of a consumer have a token, or none has."""

    generation: Generation
    message_id: MessageId
    cumulative: bool
    token: AckToken | None


class AcksQueued(NamedTuple):
    """To the actor: acknowledgements are in the queue. End their group after so many seconds; 0 means now."""

    delay: float


class AckQueue:
    """The acknowledgements of one consumer that its machine has not seen yet."""

    __slots__ = ("_checkpoint", "_group_size", "_group_time", "_notify_at", "_tell", "drained", "queued")

    def __init__(
        self,
        tell: Callable[[object], object],
        interleaving: Interleaving = THREADS,
        *,
        group_size: int = MAX_ENTRIES,
        group_time: float = DEFAULT_GROUP_TIME,
    ) -> None:
        self.queued: list[QueuedAck | OpenedEntry] = []
        self.drained = 0
        self._tell = tell
        self._group_size = group_size
        self._group_time = group_time if group_size > 1 else 0.0  # a group of one is full when it begins
        self._checkpoint = interleaving.checkpoint
        self._notify_at = 0  # the length of the queue at which the actor is told; 0 while no group is open

    # The callers' side.

    def acknowledge_opened(self, opened: OpenedEntry, index: int) -> None:
        """Acknowledge a received message. Most acknowledgements come this way."""
        opened.acknowledged.append(index)
        if not opened.is_queued:
            self.enqueue_entry(opened)

    def acknowledge_many(self, opened: OpenedEntry, indexes: Sequence[int]) -> None:
        """Acknowledge several messages of one entry."""
        opened.acknowledged.extend(indexes)
        if not opened.is_queued:
            self.enqueue_entry(opened)

    def enqueue_entry(self, opened: OpenedEntry) -> None:
        """Enqueue an entry that is not in the queue, and that a caller has added an acknowledged message to."""
        try:
            opened.is_queued = True
            self._checkpoint()
            self._enqueue(opened)
        except KeyboardInterrupt:  # other callers rely on the entry being queued
            self._enqueue(opened)
            raise

    def acknowledge(self, message_id: MessageId, generation: Generation, token: AckToken | None = None) -> None:
        """Acknowledge a message by its id."""
        self._enqueue(QueuedAck(generation, message_id, cumulative=False, token=token))

    def acknowledge_up_to(self, message_id: MessageId, generation: Generation, token: AckToken | None = None) -> None:
        """Acknowledge a message and all before it."""
        self._enqueue(QueuedAck(generation, message_id, cumulative=True, token=token))

    def flush(self) -> None:
        """Tell the actor to end the group now: a caller waits for the receipt."""
        self._tell(AcksQueued(0.0))

    # The actor's side.

    def begin_group(self) -> None:
        """Begin a group, unless one is open, for acknowledgements that the machine holds."""
        if not self._notify_at:
            self._notify_actor()

    def end_group(self) -> list[Acknowledge | AcknowledgeUpTo]:
        """Take everything out, as events; the next acknowledgement begins a new group."""
        self._notify_at = 0
        self._checkpoint()
        return self.drain()

    def drain(self) -> list[Acknowledge | AcknowledgeUpTo]:
        """Take everything out, as events in the order in which it came."""
        queued = self.queued
        count = len(queued)
        taken = queued[:count]
        del queued[:count]
        self._count_early(count)
        groups: list[_Group | AcknowledgeUpTo] = []
        for item in taken:
            if isinstance(item, OpenedEntry):
                indexes = self._take_indexes(item)
                if indexes:
                    _last_group(groups, item.generation).add_entry(item, indexes)
                    self.drained += len(indexes)
            else:
                self.drained += 1
                if item.cumulative:
                    groups.append(AcknowledgeUpTo(item.generation, item.message_id, item.token))
                else:
                    _last_group(groups, item.generation).add(item)
        return [each.event() if isinstance(each, _Group) else each for each in groups]

    # Behind both.

    def _enqueue(self, item: QueuedAck | OpenedEntry) -> None:
        queued = self.queued
        queued.append(item)
        if len(queued) >= self._notify_at:
            self._notify_actor()

    def _notify_actor(self) -> None:
        """Tell the actor that a group has begun, or that it is full."""
        if self._notify_at:
            self._notify_at = _NOTIFIED
            self._tell(AcksQueued(0.0))
            return
        self._checkpoint()
        try:
            self._notify_at = self._group_size
            self._tell(AcksQueued(self._group_time))
        except KeyboardInterrupt:  # no other caller tells the actor
            self._tell(AcksQueued(self._group_time))
            raise

    def _count_early(self, count: int) -> None:
        """Lower the size at which the open group is full, and *then* check if it is full already."""
        if 0 < self._notify_at < _NOTIFIED:
            self._notify_at = max(1, self._notify_at - count)
            self._checkpoint()
            if len(self.queued) >= self._notify_at:
                self._notify_actor()

    def _take_indexes(self, opened: OpenedEntry) -> Sequence[int]:
        opened.is_queued = False
        self._checkpoint()
        count = len(opened.acknowledged)
        indexes = opened.acknowledged[:count]
        del opened.acknowledged[:count]
        return indexes


class _Group:
    """The acknowledgements of one generation since the last cumulative one, which become one event."""

    __slots__ = ("_ids", "_parts", "_tokens", "generation")

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self._ids: list[MessageId] = []
        self._tokens: list[AckToken] = []
        self._parts: list[tuple[MessageId, int]] = []

    def add(self, ack: QueuedAck) -> None:
        self._ids.append(ack.message_id)
        if ack.token is not None:
            self._tokens.append(ack.token)

    def add_entry(self, opened: OpenedEntry, indexes: Sequence[int]) -> None:
        if opened.size:
            self._parts.append((opened.message_id.in_batch(-1, opened.size), _bit_set(indexes)))
        else:
            self._ids.append(opened.message_id)

    def event(self) -> Acknowledge:
        return Acknowledge(self.generation, tuple(self._ids), tuple(self._tokens) or None, tuple(self._parts))


def _last_group(groups: list[_Group | AcknowledgeUpTo], generation: Generation) -> _Group:
    """Return the last group, if it is of this generation; otherwise a new one."""
    last = groups[-1] if groups else None
    if not isinstance(last, _Group) or last.generation != generation:
        last = _Group(generation)
        groups.append(last)
    return last


def _bit_set(indexes: Sequence[int]) -> int:
    """Return the bit set of batch indexes; in one step if they are consecutive, as they mostly are."""
    first, count = indexes[0], len(indexes)
    if tuple(indexes) == batch_indexes(first, first + count):
        return (1 << count) - 1 << first
    messages = 0
    for index in indexes:
        messages |= 1 << index
    return messages
