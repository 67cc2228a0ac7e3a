"""Putting large messages together again.

A message over the broker's limit travels as chunks: entries with the same uuid, numbered from 0, possibly mixed with
chunks of other messages. They are kept until the last has come. Chunks must come in order; those of one producer do,
unless something was lost or sent twice:

- a chunk 0 that comes again begins the message anew: the producer, or the broker, sent all of it again;
- a chunk that was here already is dropped: if it is another entry than before, the producer sent it twice, and it is
  acknowledged; if it is the same entry, the broker sent it twice, and the first one still stands for it;
- a chunk that comes too early shows that one is lost: what is here is dropped, and waits for redelivery. When the
  message is so old that nobody will send its beginning, the stray chunk is acknowledged instead.

What can not be finished must not stay for ever: at most `max_pending` messages are kept (0: no limit), the oldest goes
first, and none is kept longer than `expiry` seconds (0: no limit).

What the metadata says is not believed. The declared size is only compared: memory is taken for chunks that are here,
each of which has a byte or more, and chunks that contradict each other, or their sizes, make the whole message corrupt.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.wire.message_id import MessageId


class Chunk(NamedTuple):
    """One chunk, as its entry says; `age` is how many seconds ago it was published."""

    message_id: MessageId
    uuid: str
    chunk_id: int
    num_chunks: int
    total_size: int
    payload: bytes
    age: float = 0.0


class Whole(NamedTuple):
    """A message put together; its id is that of its last chunk, with that of its first."""

    message_id: MessageId
    payload: bytes


@dataclass(slots=True)
class ChunkOutcome:
    """What came of a chunk. The permits of every chunk but the last of a whole message are to be returned."""

    whole: Whole | None = None
    permits: int = 1
    acknowledge: list[MessageId] = field(default_factory=list[MessageId])
    redeliver: list[MessageId] = field(default_factory=list[MessageId])
    corrupt: list[MessageId] = field(default_factory=list[MessageId])


@dataclass(slots=True)
class _Pending:
    num_chunks: int
    total_size: int
    since: float
    size: int = 0
    ids: list[MessageId] = field(default_factory=list[MessageId])
    payloads: list[bytes] = field(default_factory=list[bytes])


class ChunkAssembly:
    """The unfinished chunked messages of one consumer, and the chunks of those it finished. Times are monotonic."""

    __slots__ = ("_finished", "_pending", "auto_ack_oldest", "expiry", "max_pending", "max_size")

    def __init__(
        self, *, max_size: int, max_pending: int = 10, auto_ack_oldest: bool = False, expiry: float = 60.0
    ) -> None:
        self.max_size = max_size
        self.max_pending = max_pending
        self.auto_ack_oldest = auto_ack_oldest
        self.expiry = expiry
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._finished: dict[MessageId, tuple[EntryKey, ...]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, chunk: Chunk, now: float) -> ChunkOutcome:
        """Take a chunk, and give what follows from it."""
        pending = self._pending.get(chunk.uuid)
        if self._contradicts(chunk, pending):
            return self._corrupt(chunk, pending)
        if chunk.chunk_id == 0:
            return self._begin(chunk, pending, now)
        if pending is None or chunk.chunk_id > len(pending.ids):
            return self._stray(chunk, pending)
        if chunk.chunk_id < len(pending.ids):
            known = pending.ids[chunk.chunk_id] == chunk.message_id
            return ChunkOutcome(acknowledge=[] if known else [chunk.message_id])
        return self._append(chunk, pending, ChunkOutcome())

    def _contradicts(self, chunk: Chunk, pending: _Pending | None) -> bool:
        size = len(chunk.payload)
        if not (0 <= chunk.chunk_id < chunk.num_chunks and size <= chunk.total_size <= self.max_size):
            return True
        if chunk.num_chunks > 1 and not (size and chunk.num_chunks <= chunk.total_size):
            return True
        if pending is None or chunk.chunk_id == 0:
            return chunk.num_chunks == 1 and size != chunk.total_size
        if (chunk.num_chunks, chunk.total_size) != (pending.num_chunks, pending.total_size):
            return True
        if chunk.chunk_id != len(pending.ids):
            return False
        size += pending.size
        return size > chunk.total_size or (chunk.chunk_id + 1 == chunk.num_chunks and size != chunk.total_size)

    def _corrupt(self, chunk: Chunk, pending: _Pending | None) -> ChunkOutcome:
        """Give up a message: all its chunks are refused at once."""
        if pending is None:
            return ChunkOutcome(corrupt=[chunk.message_id])
        del self._pending[chunk.uuid]
        return ChunkOutcome(corrupt=list(dict.fromkeys([*pending.ids, chunk.message_id])))

    def _begin(self, chunk: Chunk, again: _Pending | None, now: float) -> ChunkOutcome:
        outcome = ChunkOutcome()
        if again is not None:
            del self._pending[chunk.uuid]
            if again.ids[0] != chunk.message_id:
                outcome.acknowledge += again.ids
        pending = _Pending(chunk.num_chunks, chunk.total_size, now)
        if chunk.num_chunks > 1:
            self._make_room(outcome)
            self._pending[chunk.uuid] = pending
        return self._append(chunk, pending, outcome)

    def _make_room(self, outcome: ChunkOutcome) -> None:
        if self.max_pending and len(self._pending) >= self.max_pending:
            _, oldest = self._pending.popitem(last=False)
            (outcome.acknowledge if self.auto_ack_oldest else outcome.redeliver).extend(oldest.ids)

    def _stray(self, chunk: Chunk, pending: _Pending | None) -> ChunkOutcome:
        outcome = ChunkOutcome()
        if pending is not None:
            del self._pending[chunk.uuid]
            outcome.redeliver += pending.ids
        is_old = self.expiry and chunk.age > self.expiry
        (outcome.acknowledge if is_old else outcome.redeliver).append(chunk.message_id)
        return outcome

    def _append(self, chunk: Chunk, pending: _Pending, outcome: ChunkOutcome) -> ChunkOutcome:
        pending.ids.append(chunk.message_id)
        pending.payloads.append(chunk.payload)
        pending.size += len(chunk.payload)
        if len(pending.ids) == chunk.num_chunks:
            outcome.whole = self._finish(chunk, pending)
            outcome.permits = 0
        return outcome

    def _finish(self, chunk: Chunk, pending: _Pending) -> Whole:
        self._pending.pop(chunk.uuid, None)
        first, last = pending.ids[0], pending.ids[-1]
        message_id = MessageId(last.ledger_id, last.entry_id, last.partition, first_chunk=first)
        self._finished[message_id] = tuple((one.ledger_id, one.entry_id) for one in pending.ids)
        return Whole(message_id, b"".join(pending.payloads))

    def chunks_of(self, message_id: MessageId) -> tuple[EntryKey, ...]:
        """Give the entries of a chunked message. Of one that was not put together here, its id knows two."""
        known = self._finished.get(message_id)
        if known is not None:
            return known
        ends = [message_id] if message_id.first_chunk is None else [message_id.first_chunk, message_id]
        return tuple(dict.fromkeys((one.ledger_id, one.entry_id) for one in ends))

    def take_chunks_of(self, message_id: MessageId) -> tuple[EntryKey, ...]:
        """Give the entries of a chunked message that is acknowledged, and forget them."""
        entries = self.chunks_of(message_id)
        self._finished.pop(message_id, None)
        return entries

    def expire(self, now: float) -> list[MessageId]:
        """Drop what is unfinished for too long, and give its chunks, to be acknowledged."""
        expired: list[MessageId] = []
        next_expiry = self.next_expiry()
        while next_expiry is not None and next_expiry <= now:
            _, oldest = self._pending.popitem(last=False)
            expired += oldest.ids
            next_expiry = self.next_expiry()
        return expired

    def next_expiry(self) -> float | None:
        """Give the time at which the oldest unfinished message expires."""
        if not (self.expiry and self._pending):
            return None
        return next(iter(self._pending.values())).since + self.expiry

    def clear(self) -> None:
        """Drop everything, because it comes again: after a seek or a redelivery of everything."""
        self._pending.clear()
        self._finished.clear()
