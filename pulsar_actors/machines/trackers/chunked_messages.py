"""The chunked messages of one consumer, assembled from their chunks.

A message over the broker's limit travels as chunks: entries with the same uuid, numbered from 0, possibly mixed with
chunks of other messages. They are kept until the last has come. Chunks must come in order; those of one producer do,
unless something was lost or sent twice:

- a chunk 0 that comes again starts the message again: the producer, or the broker, sends all of it again. Several
  messages may have the same uuid, because many clients make it of the producer's name and the sequence id. A chunk
  belongs to the last of them that began before it. So a chunk 0 that is *older* than the message that is here begins
  another one: the newer message is set aside for it;
- a chunk that is here already is dropped. If it is another entry than before, the producer sent it twice, and the
  second entry is acknowledged. If it is the same entry, the broker sent it twice, and nothing needs to be done;
- a chunk that comes too early shows that one is missing. The chunks that are here are dropped, and are redelivered
  later. But if the message is older than `expiry`, they are acknowledged at last and the message is lost: its producer
  will not send the missing chunk any more. In an ordered subscription they are acknowledged at once: everything
  unacknowledged comes in order there, so the missing chunk is before the start, or was acknowledged. In both cases
  there is one exception, a message whose first chunks were dropped here: they will be redelivered.

An incomplete message must not stay for ever. It expires if no chunk of it comes for `expiry` seconds (0: never), as its
producer may have died. Two observations show that none comes: the broker has had permits for so long without a break,
or an entry comes that was published so long after the latest chunk had come here. Time alone shows nothing: a program
that is slow, or rests, lets the queue fill, often in the middle of a message, and the other chunks wait at the broker
(`pause`). Entries are dated by the clocks of their producers, which may be ahead of ours by `CLOCKS_DIFFER`. A chunk
that comes again in a redelivery of everything makes its message no younger.

The chunks of a message that expires are acknowledged in an ordered subscription. In others, the broker may hold back
the next chunk: its key belongs to a consumer that has joined in the middle of the message, and Key_Shared waits until
this consumer has no entry of that key any more; or this consumer has too many unacknowledged messages. So all chunks
are given back first, by a redelivery at once. They are acknowledged when the message expires here a second time. A
chunk without a beginning is acknowledged when it is old and has come here for twice `expiry`, because another consumer
may wait for so long before it gives the beginning back. The counts of the broker cannot tell how often a message was
given back: they also rise when a program refuses it. So each consumer remembers what it gave back (`_given_back`).

No more than `max_pending` messages are kept (0: no limit). When there is no room, the *new* message is refused and
redelivered later. Dropping the oldest instead could go on without end: with more than `max_pending` messages
interleaved, each would be dropped before its last chunk came. The one that has had no chunk for longest is dropped in
two cases only: with `auto_ack_oldest`, by which the user accepts its loss, and if no chunk of it comes for
`STALLED_AFTER` seconds. Then it is redelivered and not lost, so these are seconds of any kind, also without permits.

Many messages may stay incomplete at once. After a lost connection a producer sends again all that has no receipt. On a
topic with deduplication the broker drops the last chunk of each message that it has, and only that one. What it stores
of them must not keep out what comes next. So when there is no room, the oldest message gives its room up whose producer
has begun one that is later and incomplete, too: the payload is dropped, and the entries wait for `expiry` as before,
but no more than `KEPT` messages do. If another chunk of it comes all the same, all of them are redelivered, and it
keeps its room then.

Chunks are redelivered only after a delay (`set_aside` in `negative_acks_tracker.py`). At once, there would probably
still be too many incomplete messages. In an ordered subscription everything behind them would come again, too. There,
a message that was dropped is remembered until its first chunk comes, or until a later entry shows that it will not
come. In others it is remembered for `expiry` seconds after that delay, because other consumers may get it.

No cumulative acknowledgement may cover chunks of a message that is not read yet (`first_unread`).

The metadata is not trusted. The declared size is only compared; memory is allocated only for chunks that are here, and
each has at least one byte. Chunks that contradict each other, or their declared sizes, make the whole message corrupt.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.entry_map import LONGEST_WAIT, EntryKey, EntryMap
from pulsar_actors.machines.trackers.negative_acks_tracker import SHORTEST_SET_ASIDE
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata

ENCRYPTION_TAG_SIZE = 16
"""In bytes."""

KEPT = 1000
"""The chunks of so many complete messages are remembered, whatever happens to connections and transactions.

If not all chunks of a message were acknowledged in a transaction, or after a redelivery was requested, the broker would
deliver the others alone, and these are acknowledged as leftovers once they are old. After an abort, the message could
not be read any more.
"""

STALLED_AFTER = 60.0
"""After so many seconds without a chunk, an incomplete message may be dropped to make room for another."""

LONG_AGO = -math.inf

CLOCKS_DIFFER = 300.0
"""The clock of a producer may be ahead of ours by so many seconds, which is what Kerberos takes."""

STRAY_RETURNS = 2
"""A chunk without a beginning is redelivered for so many times the expiry before it may be acknowledged."""

NOTED_FOR = 10
"""The consumer remembers at least for so many times the expiry that it gave a message back."""


class Chunk(NamedTuple):
    """One chunk of two or more, from its metadata; `age` is in seconds since it was published.

    If it cannot be used yet, it is redelivered after `set_aside` seconds.

    An encrypted chunk is longer than its part of the message, by the tag of the encryption.
    """

    message_id: MessageId
    uuid: str
    chunk_id: int
    num_chunks: int
    total_size: int
    payload: bytes
    age: float = 0.0
    metadata: MessageMetadata | None = None
    set_aside: float = 0.0
    redelivery_count: int = 0

    @property
    def is_encrypted(self) -> bool:
        """True if the chunk is encrypted."""
        return self.metadata is not None and bool(self.metadata.encryption_keys)

    @property
    def producer(self) -> str:
        """The name of its producer."""
        return "" if self.metadata is None else self.metadata.producer_name

    @property
    def sequence_id(self) -> int:
        """That of the message."""
        return 0 if self.metadata is None else self.metadata.sequence_id

    @property
    def size(self) -> int:
        """The bytes of the message that are in the chunk."""
        return len(self.payload) - ENCRYPTION_TAG_SIZE * self.is_encrypted


class AssembledMessage(NamedTuple):
    """A complete message; its id is that of its last chunk, with that of its first.

    If any chunk is encrypted, `parts` has the metadata and payload of each instead of `payload`. The redelivery count
    is the lowest of those of the chunks: some were also redelivered without the others.
    """

    message_id: MessageId
    payload: bytes
    parts: tuple[tuple[MessageMetadata, bytes], ...] = ()
    redelivery_count: int = 0


@dataclass(slots=True)
class ChunkOutcome:
    """The outcome of a chunk. `redeliver_later` has the chunks to be redelivered at the time `due`.

    The permits of every chunk but the last of a complete message are to be returned.
    """

    assembled: AssembledMessage | None = None
    permits: int = 1
    acknowledge: list[MessageId] = field(default_factory=list[MessageId])
    redeliver_later: list[MessageId] = field(default_factory=list[MessageId])
    due: float = field(default=0.0, compare=False)
    corrupt: list[MessageId] = field(default_factory=list[MessageId])


@dataclass(slots=True)
class _Pending:
    """An incomplete message. `dropped` is set if its chunks come again, maybe one by one.

    It expires from `latest` on, when the latest chunk came. The first chunks, `known` in number, had come before then.
    """

    producer: str
    sequence_id: int
    num_chunks: int
    total_size: int
    latest: float
    known: int
    dropped: "_Dropped | None"
    size: int = 0
    ids: list[MessageId] = field(default_factory=list[MessageId])
    chunks: list[Chunk] = field(default_factory=list[Chunk])

    @property
    def keeps_room(self) -> bool:
        """True if another chunk came after it had given its room up."""
        return self.dropped is not None and self.dropped.keeps_room


class _Dropped(NamedTuple):
    """An incomplete message that was dropped here and will be redelivered.

    Its chunks are set aside until `due`, all of them, or one might always be missing. If everything is redelivered,
    `due` is when the latest chunk came, and `known` counts the chunks, unless the connection was lost. In an ordered
    subscription `is_awaited` is set then. `had_come_again` is set if the message was dropped before.
    """

    uuid: str
    due: float
    known: int = 0
    had_come_again: bool = False
    is_awaited: bool = False
    keeps_room: bool = False


def known_entries(message_id: MessageId) -> tuple[EntryKey, ...]:
    """Return the entries of a message that its id names: of a chunked one the first and the last."""
    known = [message_id] if message_id.first_chunk is None else [message_id.first_chunk, message_id]
    return tuple(dict.fromkeys(one.position for one in known))


class ChunkedMessages:
    """The incomplete chunked messages of one consumer, and the chunks of complete ones. Times are monotonic."""

    __slots__ = (
        "_dropped", "_finished", "_former", "_given_back", "_overtaken", "_pending", "_permits_since", "_published",
        "auto_ack_oldest", "expiry", "max_pending", "max_size", "ordered",
    )  # fmt: skip

    def __init__(
        self,
        *,
        max_size: int,
        max_pending: int = 10,
        auto_ack_oldest: bool = False,
        expiry: float = 60.0,
        ordered: bool = False,
    ) -> None:
        if not 0 <= expiry <= LONGEST_WAIT:
            raise InvalidArgument(f"unfinished chunks expire after 0 to {LONGEST_WAIT:,.0f} seconds, not {expiry}")
        self.max_size = max_size
        self.max_pending = max_pending
        self.auto_ack_oldest = auto_ack_oldest
        self.expiry = expiry
        self.ordered = ordered
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._overtaken: OrderedDict[str, _Pending] = OrderedDict()  # without their payloads
        self._dropped: dict[EntryKey, _Dropped] = {}  # by their first chunks
        self._given_back: dict[EntryKey | str, float] = {}  # by first chunk, or by uuid without a beginning; since when
        self._finished: EntryMap[tuple[EntryKey, ...]] = EntryMap()
        self._former: dict[EntryKey, tuple[EntryKey, ...]] = {}  # acknowledged in transactions, or redelivered
        self._permits_since = self._published = LONG_AGO

    def add(self, chunk: Chunk, now: float) -> ChunkOutcome:
        """Add a chunk, and return its outcome."""
        due, pending = now + chunk.set_aside, self._begun_before(chunk)
        if self._contradicts(chunk, pending):
            return self._corrupt(chunk, pending)
        if chunk.chunk_id == 0:
            return self._begin(chunk, now, due)
        if pending is None or chunk.chunk_id > len(pending.ids):
            return self._stray(chunk, pending, now, due)
        if chunk.chunk_id < len(pending.ids):
            known = pending.ids[chunk.chunk_id] == chunk.message_id
            return ChunkOutcome(acknowledge=[] if known else [chunk.message_id])
        if chunk.uuid in self._overtaken:
            self._drop(chunk.uuid, now, due)
            return ChunkOutcome(redeliver_later=[*pending.ids, chunk.message_id], due=due)
        return self._append(chunk, pending, ChunkOutcome(), now)

    def _incomplete(self, uuid: str) -> _Pending | None:
        return self._pending.get(uuid) or self._overtaken.get(uuid)

    def _take(self, uuid: str) -> _Pending | None:
        return self._pending.pop(uuid, None) or self._overtaken.pop(uuid, None)

    def _begun_before(self, chunk: Chunk) -> _Pending | None:
        """Return the message that a chunk continues, or begins again."""
        pending, entry = self._incomplete(chunk.uuid), chunk.message_id.position
        if pending is None:
            return None
        first = pending.ids[0].position
        if chunk.chunk_id == 0:
            return pending if entry == first else None
        if entry < first or any(first < dropped for dropped in self._dropped_before(chunk)):
            return None
        return pending

    def _dropped_before(self, chunk: Chunk) -> Iterator[EntryKey]:
        """Return the first chunks of the dropped messages that a chunk may belong to."""
        entry = chunk.message_id.position
        return (first for first, one in self._dropped.items() if one.uuid == chunk.uuid and first <= entry)

    def _contradicts(self, chunk: Chunk, pending: _Pending | None) -> bool:
        size = chunk.size
        if not (0 <= chunk.chunk_id < chunk.num_chunks <= chunk.total_size <= self.max_size):
            return True
        if not 0 < size <= chunk.total_size:
            return True
        if pending is None or chunk.chunk_id == 0:
            return False
        if (chunk.num_chunks, chunk.total_size) != (pending.num_chunks, pending.total_size):
            return True
        if chunk.chunk_id != len(pending.ids):
            return False
        size += pending.size
        return size > chunk.total_size or (chunk.chunk_id + 1 == chunk.num_chunks and size != chunk.total_size)

    def _corrupt(self, chunk: Chunk, pending: _Pending | None) -> ChunkOutcome:
        """Refuse all chunks of a message."""
        if pending is None:
            return ChunkOutcome(corrupt=[chunk.message_id])
        self._take(chunk.uuid)
        return ChunkOutcome(corrupt=list(dict.fromkeys([*pending.ids, chunk.message_id])))

    def _begin(self, chunk: Chunk, now: float, due: float) -> ChunkOutcome:
        outcome, other, first = ChunkOutcome(due=due), self._incomplete(chunk.uuid), chunk.message_id.position
        if chunk.uuid not in self._pending and not self._has_room(chunk, outcome, now):
            if other is not None:
                self._drop(chunk.uuid, now, due)
                outcome.redeliver_later += (one for one in other.ids if one != chunk.message_id)
            outcome.redeliver_later.append(chunk.message_id)
            before = self._dropped.get(first) or _Dropped(chunk.uuid, due)
            self._remember(first, before._replace(due=due, known=0, is_awaited=False), now)
            return outcome
        if other is not None and other.ids[0] != chunk.message_id:
            if first < other.ids[0].position or self._comes_one_by_one(other, now):
                self._drop(chunk.uuid, now, due)
                outcome.redeliver_later += other.ids
            else:
                outcome.acknowledge += other.ids
        self._take(chunk.uuid)
        dropped = self._dropped.pop(first, None)
        latest, known = (dropped.due, dropped.known) if dropped is not None and dropped.known else (now, 0)
        pending = self._pending[chunk.uuid] = _Pending(
            chunk.producer,
            chunk.sequence_id,
            chunk.num_chunks,
            chunk.total_size,
            latest,
            known,
            dropped,
        )
        return self._append(chunk, pending, outcome, now)

    def _has_room(self, chunk: Chunk, outcome: ChunkOutcome, now: float) -> bool:
        """Check whether another message may begin, and make room if something may be dropped."""
        if not self.max_pending or len(self._pending) < self.max_pending:
            return True
        uuid, oldest = next(iter(self._pending.items()))  # the one without a chunk for longest
        if self.auto_ack_oldest:
            del self._pending[uuid]
            outcome.acknowledge += oldest.ids
        elif not self._give_up_overtaken(chunk, outcome):
            if now <= oldest.latest + STALLED_AFTER:
                return False
            self._drop(uuid, now, outcome.due)
            outcome.redeliver_later += oldest.ids
        return True

    def _give_up_overtaken(self, new: Chunk, outcome: ChunkOutcome) -> bool:
        """Let go of the payload of the oldest message whose producer has begun a later one since, behind it."""
        latest = {new.producer: (new.sequence_id, new.message_id.position)}
        for one in self._pending.values():
            begun = one.sequence_id, one.ids[0].position
            latest[one.producer] = max(latest.get(one.producer, begun), begun)
        for uuid, one in self._pending.items():
            sequence_id, first = latest[one.producer]
            if not one.keeps_room and one.sequence_id < sequence_id and one.ids[0].position < first:
                one.chunks.clear()
                self._overtaken[uuid] = self._pending.pop(uuid)
                if len(self._overtaken) > KEPT:
                    outcome.acknowledge += self._overtaken.popitem(last=False)[1].ids
                return True
        return False

    def _comes_one_by_one(self, pending: _Pending, now: float) -> bool:
        """Return whether chunks that are missing may still be redelivered, because they were dropped here.

        If they did not come with the others a second time, they are lost.
        """
        dropped = None if self.ordered else pending.dropped
        return dropped is not None and not dropped.had_come_again and self._is_expected(dropped, now)

    def _drop(self, uuid: str, now: float, due: float) -> None:
        """Drop a message whose first chunks will be redelivered, and remember that."""
        had_given_up = uuid in self._overtaken
        pending = self._take(uuid)
        if pending is not None:
            keeps_room, had_come_again = had_given_up or pending.keeps_room, pending.dropped is not None
            dropped = _Dropped(uuid, due, had_come_again=had_come_again, keeps_room=keeps_room)
            self._remember(pending.ids[0].position, dropped, now)

    def _remember(self, first: EntryKey, dropped: _Dropped, now: float) -> None:
        """Remember a dropped message, and forget those that nobody waits for any longer."""
        self._put_dropped(first, dropped)
        while self._dropped and not self._is_expected(self._dropped[next(iter(self._dropped))], now):
            del self._dropped[next(iter(self._dropped))]

    def _put_dropped(self, first: EntryKey, dropped: _Dropped) -> None:
        """Remember a dropped message. Where other consumers may get such messages, keep no more than `KEPT`."""
        self._dropped.pop(first, None)
        self._dropped[first] = dropped
        if not self.ordered and len(self._dropped) > KEPT:
            del self._dropped[next(iter(self._dropped))]

    def _is_expected(self, dropped: _Dropped, now: float) -> bool:
        """Return whether the first chunks of a message that was dropped here may still be redelivered."""
        return self.ordered or now <= self._over_at(dropped.due, self.expiry)

    def _over_at(self, since: float, seconds: float) -> float:
        """Return the time from which on it is sure that nothing comes for so many seconds; infinite for 0 seconds."""
        if seconds and since + seconds + CLOCKS_DIFFER < self._published:
            return since + seconds
        return max(since, self._permits_since) + (seconds or math.inf)

    def will_come_again(self, now: float) -> bool:
        """Return whether a message that was dropped here will be redelivered as a whole. Any thread may ask."""
        return any(self._is_expected(one, now) for one in list(self._dropped.values()))

    def _stray(self, chunk: Chunk, pending: _Pending | None, now: float, due: float) -> ChunkOutcome:
        ids = [chunk.message_id] if pending is None else [*pending.ids, chunk.message_id]
        expected = [first for first in self._dropped_before(chunk) if self._is_expected(self._dropped[first], now)]
        will_come = expected or (pending is not None and self._comes_one_by_one(pending, now))
        if not will_come and self._gives_up(chunk, pending, now):
            if pending is not None:
                self._take(chunk.uuid)
            return ChunkOutcome(acknowledge=ids)
        if pending is None:  # it must come again before a message expires that has begun meanwhile
            due = min(due, now + SHORTEST_SET_ASIDE)
        due = max((self._dropped[first].due for first in expected if self._dropped[first].due > now), default=due)
        if pending is not None:
            self._drop(chunk.uuid, now, due)
        return ChunkOutcome(redeliver_later=ids, due=due)

    def _gives_up(self, chunk: Chunk, pending: _Pending | None, now: float) -> bool:
        """Return whether to acknowledge a chunk that lacks the one before it, and what is here of its message."""
        if self.ordered:
            return True
        if pending is None:
            returned = self._was_given_back(chunk.uuid, now, STRAY_RETURNS * self.expiry)
        else:
            returned = self._was_given_back(pending.ids[0].position, now) or pending.dropped is not None
        return returned and 0 < self.expiry < chunk.age

    def _was_given_back(self, message: EntryKey | str, now: float, seconds: float = 0.0) -> bool:
        """Return whether a message was given back here so many seconds ago. If it never was, note that it is now.

        If too many are noted, it is not, and comes again until there is room. If each took the place of another, all
        might come again for ever.
        """
        since = self._given_back.get(message)
        if since is not None:
            return since + seconds <= now
        if len(self._given_back) == KEPT:
            oldest = next(iter(self._given_back))
            if now < self._given_back[oldest] + NOTED_FOR * self.expiry:
                return False
            del self._given_back[oldest]
        self._given_back[message] = now
        return False

    def came_up_to(self, entry: EntryKey) -> bool:
        """Forget the dropped messages that did not come again before an entry. Return whether there were any.

        In an ordered subscription everything comes again in order. These messages were acknowledged elsewhere.
        """
        if not self.ordered:
            return False
        gone = [first for first, one in self._dropped.items() if one.is_awaited and first <= entry]
        for first in gone:
            del self._dropped[first]
        return bool(gone)

    def note_entry(self, age: float, now: float) -> bool:
        """Note that an entry has come, which was published so many seconds ago. Return whether a message expires now.

        If it was published in the future, the clock of its producer is ahead, maybe by far, and it shows nothing.
        """
        if not (self._pending or self._overtaken or self._dropped):
            return False
        if age >= -CLOCKS_DIFFER:
            self._published = max(self._published, now - age)
        return any(self._over_at(one.latest, self.expiry) <= now for one in self._oldest())

    def _append(self, chunk: Chunk, pending: _Pending, outcome: ChunkOutcome, now: float) -> ChunkOutcome:
        pending.ids.append(chunk.message_id)
        pending.chunks.append(chunk)
        pending.size += chunk.size
        if len(pending.ids) > max(pending.known, 1):
            pending.latest = now
            self._pending.move_to_end(chunk.uuid)
        if len(pending.ids) == chunk.num_chunks:
            outcome.assembled = self._finish(chunk, pending)
            outcome.permits = 0
        return outcome

    def _finish(self, chunk: Chunk, pending: _Pending) -> AssembledMessage:
        del self._pending[chunk.uuid]
        first, last = pending.ids[0], pending.ids[-1]
        message_id = MessageId(last.ledger_id, last.entry_id, last.partition, first_chunk=first)
        self._finished.put(message_id.position, tuple(one.position for one in pending.ids))
        self._given_back.pop(first.position, None)
        self._given_back.pop(chunk.uuid, None)
        chunks = pending.chunks
        count = min(one.redelivery_count for one in chunks)
        if any(one.is_encrypted for one in chunks):
            parts = tuple((one.metadata, one.payload) for one in chunks if one.metadata is not None)
            return AssembledMessage(message_id, b"", parts, count)
        return AssembledMessage(message_id, b"".join([one.payload for one in chunks]), redelivery_count=count)

    def chunks_of(self, message_id: MessageId) -> tuple[EntryKey, ...]:
        """Return the entries of a message; of a chunked one that was not assembled here, the two that its id names."""
        entry = message_id.position
        return self._finished.get(entry) or self._former.get(entry) or known_entries(message_id)

    def take_chunks_of(self, message_id: MessageId) -> tuple[EntryKey, ...]:
        """Return the entries of a chunked message that is acknowledged, and forget them."""
        entry = message_id.position
        remembered = self._former.pop(entry, None)
        return self._finished.pop(entry) or remembered or known_entries(message_id)

    def take_in_transaction(self, message_id: MessageId) -> tuple[EntryKey, ...]:
        """Return the entries of a chunked message that is acknowledged in a transaction.

        They are remembered: the message may have come twice, and be acknowledged again after an abort.
        """
        entries = self.take_chunks_of(message_id)
        self._keep(message_id.position, entries)
        return entries

    def redelivered(self, entries: Iterable[EntryKey]) -> None:
        """Wait no more for complete messages that are redelivered, maybe to another consumer.

        Their chunks are remembered: a message that is late may be acknowledged all the same.
        """
        for entry in entries:
            chunks = self._finished.pop(entry)
            if chunks is not None:
                self._keep(entry, chunks)

    def _keep(self, entry: EntryKey, chunks: tuple[EntryKey, ...]) -> None:
        self._former[entry] = chunks
        while len(self._former) > KEPT:
            del self._former[next(iter(self._former))]

    def acknowledged_up_to(self, entry: EntryKey) -> None:
        """Forget the entries of the messages that a cumulative acknowledgement covers."""
        self._finished.pop_up_to(entry)

    def unread_from(self, opened: EntryKey) -> EntryKey | None:
        """Return the first chunk of a message that a reader has not opened, if it is before the last opened entry."""
        begun = [*(entries[0] for entries in self._finished.above(opened)), *self._dropped]
        return min((first for first in begun if first < opened), default=None)

    def first_unread(self, up_to: EntryKey) -> EntryKey | None:
        """Return the first chunk that an acknowledgement of everything up to an entry must not cover.

        Its message is incomplete, or complete and not acknowledged: `acknowledged_up_to` has forgotten the others.
        """
        begun = [*self._dropped, *(pending.ids[0].position for _, pending in self._all_incomplete())]
        for entries in self._finished.values():
            if entries[0] <= up_to:
                self._finished.get(entries[-1])  # it is still in use
                begun.append(entries[0])
        return min((first for first in begun if first <= up_to), default=None)

    def has_chunk(self, uuid: str, entry: EntryKey) -> bool:
        """Return whether a chunk belongs to a message that is not read, even if later messages are acknowledged."""
        pending = self._incomplete(uuid)
        return (
            (pending is not None and pending.ids[0].position <= entry)
            or any(one.uuid == uuid and first <= entry for first, one in self._dropped.items())
            or any(entry in entries for entries in self._finished.values())
        )

    def is_dropped(self, entry: EntryKey) -> bool:
        """Return whether an entry is the first chunk of a message that was dropped here and will be redelivered."""
        return entry in self._dropped

    def pause(self) -> None:
        """Note that the broker has no permits, so that no chunk can come."""
        self._permits_since = math.inf

    def resume(self, now: float) -> bool:
        """Note that the broker has got permits. Return whether messages may expire that could not before."""
        if self._permits_since <= now:
            return False
        self._permits_since = now
        return bool(self._pending or self._overtaken)

    def expire(self, now: float) -> ChunkOutcome:
        """Drop messages that have been incomplete for too long, and return the outcome of their chunks."""
        outcome = ChunkOutcome(permits=0, due=now)
        for incomplete in (self._pending, self._overtaken):
            while incomplete and self._over_at(next(iter(incomplete.values())).latest, self.expiry) <= now:
                uuid, pending = incomplete.popitem(last=False)
                if self.ordered or self._was_given_back(pending.ids[0].position, now):
                    outcome.acknowledge += pending.ids
                else:
                    outcome.redeliver_later += pending.ids
                    dropped = _Dropped(uuid, now, keeps_room=pending.keeps_room)
                    self._remember(pending.ids[0].position, dropped, now)
        return outcome

    def next_expiry(self) -> float | None:
        """Return the time at which the oldest incomplete message expires."""
        due = min((self._over_at(one.latest, self.expiry) for one in self._oldest()), default=math.inf)
        return None if due == math.inf else due

    def _oldest(self) -> Iterator[_Pending]:
        """Return the messages to which no chunk has come for longest."""
        return (next(iter(incomplete.values())) for incomplete in (self._pending, self._overtaken) if incomplete)

    def _all_incomplete(self) -> Iterator[tuple[str, _Pending]]:
        return chain(self._overtaken.items(), self._pending.items())

    def rebound(self) -> None:
        """Forget the complete messages that were not used since the reconnect before, if there are many."""
        if len(self._finished) > KEPT:
            self._finished.drop_unused()

    def drop_unfinished(self, *, is_lost: bool) -> None:
        """Drop incomplete messages: all their chunks come again after the next reconnect or redelivery.

        If the connection is lost (`is_lost`), nobody knows when they come, and their expiry starts again.
        """
        for uuid, pending in self._all_incomplete():
            known = 0 if is_lost else max(pending.known, len(pending.ids))
            dropped = _Dropped(uuid, pending.latest, known, keeps_room=pending.keeps_room)
            self._put_dropped(pending.ids[0].position, dropped)
        self._pending.clear()
        self._overtaken.clear()
        if self.ordered:
            self._dropped = {first: one._replace(is_awaited=True) for first, one in self._dropped.items()}

    def clear(self) -> None:
        """Drop everything, after a seek."""
        self._pending.clear()
        self._overtaken.clear()
        self._dropped.clear()
        self._given_back.clear()
        self._finished.clear()
        self._former.clear()
