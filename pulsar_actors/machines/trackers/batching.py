"""Plans of batches and chunks: the messages of each batch, their sequence ids, and the cuts of a large message.

A batch is planned as positions in the buffer of messages. Only the sizes are needed; the messages themselves are not
touched. A message with a delivery time goes alone, since a broker delays whole entries; messages before it are cut off
first, so order holds. A single message over the byte limit is a batch of one.

A default batch announces its lowest sequence id and its highest. A key-based batch holds one key, so that brokers can
give it to that key's consumer. The ids of batches of several keys interleave, so a range would include ids of other
batches. Each key-based batch has only its last id, and the batches are sent in the order of these ids: otherwise a
broker with deduplication would drop those with lower ids as repeats.

The chunks of a message that is too large for a frame are entries of their own, never batched, that share an id (`uuid`)
and a sequence id. `chunked_messages.py` assembles them.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.named_tuple import NamedTuple


class BatchLimits(NamedTuple):
    """The limits of a batch: messages, bytes of payload, and seconds since its first message."""

    messages: int = 1000
    size: int = 128 * 1024
    delay: float = 0.01

    def check(self) -> None:
        """Refuse limits with which no batch could ever be sent."""
        if self.messages < 1 or self.size < 1 or self.delay < 0:
            raise InvalidArgument(f"a batch holds at least 1 message of 1 byte, and waits 0 seconds or more: {self}")

    def full(self, messages: int, size: int) -> bool:
        """Return whether a buffer with so many messages and bytes is a full batch."""
        return messages >= self.messages or size >= self.size


class PlannedBatch(NamedTuple):
    """Positions in the buffer, in order. A message that is not `batched` has no single-message metadata."""

    positions: Sequence[int]
    sequence_id: int
    highest_sequence_id: int | None
    batched: bool


def _cut_ranges(sizes: Sequence[int], alone: Collection[int], limits: BatchLimits) -> Iterator[range]:
    """Cut the buffer into ranges within the limits; positions in `alone` are ranges of their own."""
    totals: list[int] = []  # only needed where a range is cut by its bytes
    ends = sorted({*alone, len(sizes)})
    start = 0
    for end in ends:
        while start < end:
            stop = min(start + limits.messages, end)
            if totals or sum(sizes[start:stop]) > limits.size:
                totals = totals or list(accumulate(sizes))
                before = totals[start] - sizes[start]
                stop = bisect_right(totals, before + limits.size, start + 1, stop)
            yield range(start, stop)
            start = stop
        if end < len(sizes):
            yield range(end, end + 1)
            start = end + 1


def count_complete(sizes: Sequence[int], limits: BatchLimits, alone: Collection[int] = ()) -> int:
    """Count the messages that need not wait for more: all but those of the last batch, if that has room."""
    last = [range(0), *_cut_ranges(sizes, alone, limits)][-1]
    is_whole = last.start in alone or limits.full(len(last), sum(sizes[last.start : last.stop]))
    return len(sizes) if is_whole else last.start


def _id_range(ids: Sequence[int]) -> tuple[int, int]:
    """Return the lowest and the highest id.

    Ids from users need not be in order; our own are a range, which needs no search.
    """
    return (ids[0], ids[-1]) if isinstance(ids, range) else (min(ids), max(ids))


def plan_batches(
    ids: Sequence[int], sizes: Sequence[int], limits: BatchLimits, alone: Collection[int] = ()
) -> list[PlannedBatch]:
    """Plan the batches of a buffer whose messages have these sequence ids and payload sizes."""
    batches: list[PlannedBatch] = []
    for run in _cut_ranges(sizes, alone, limits):
        if run.start in alone:
            batches.append(PlannedBatch(run, ids[run.start], None, batched=False))
        else:
            lowest, highest = _id_range(ids[run.start : run.stop])
            batches.append(PlannedBatch(run, lowest, highest, batched=True))
    return batches


def plan_key_batches(
    ids: Sequence[int],
    sizes: Sequence[int],
    keys: Sequence[object],
    limits: BatchLimits,
    alone: Collection[int] = (),
) -> list[PlannedBatch]:
    """Plan key-based batches. The limits hold for what is sent together; messages without a key share a batch."""
    batches: list[PlannedBatch] = []
    for run in _cut_ranges(sizes, alone, limits):
        if run.start in alone:
            batches.append(PlannedBatch(run, ids[run.start], None, batched=False))
            continue
        by_key: dict[object, list[int]] = {}
        for position in run:
            by_key.setdefault(keys[position], []).append(position)
        together = [PlannedBatch(members, ids[members[-1]], None, batched=True) for members in by_key.values()]
        batches.extend(sorted(together, key=lambda batch: batch.sequence_id))
    return batches


def split_batch_plan(batch: PlannedBatch, ids: Sequence[int]) -> tuple[PlannedBatch, ...]:
    """Split a batch that turned out too large: the plan counts only payloads, and packing adds metadata.

    A batch of one message cannot be split. A key-based batch is not split, because the sequence ids of later batches
    would then be lower than that of the second part.
    """
    middle = len(batch.positions) // 2
    if not middle or batch.highest_sequence_id is None:
        return ()
    parts = (batch.positions[:middle], batch.positions[middle:])
    return tuple(PlannedBatch(part, *_id_range([ids[position] for position in part]), batched=True) for part in parts)


class PlannedChunk(NamedTuple):
    """One chunk of a message, `payload[start:stop]`, and its metadata."""

    uuid: str
    chunk_id: int
    num_chunks_from_msg: int
    total_chunk_msg_size: int
    start: int
    stop: int


def plan_chunks(size: int, largest: int, uuid: str) -> list[PlannedChunk]:
    """Plan the chunks of a payload. One frame has room for `largest` bytes of it, besides the metadata."""
    if largest < 1:
        raise InvalidArgument(f"a chunk needs room for at least one byte beside its metadata, got {largest}")
    if size <= largest:
        raise InvalidArgument(f"a payload of {size:,} bytes needs no chunks of {largest:,} bytes")
    starts = range(0, size, largest)
    return [
        PlannedChunk(uuid, chunk_id, len(starts), size, start, min(start + largest, size))
        for chunk_id, start in enumerate(starts)
    ]
