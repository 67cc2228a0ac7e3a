"""Which messages travel together, and under which sequence ids.

A batch is cut from the open buffer by position: from its sizes follow ranges that keep within the limits, and the
messages themselves are not touched. A message with a delivery time travels alone, since a broker delays whole entries;
what came before it is cut off first, so order holds. A single message over the byte limit is a batch of one.

A default batch announces its lowest sequence id and its highest. A key-based batch holds one key, so that brokers can
hand it to that key's consumer. The batches of several keys interleave in ids, where a range would say too much: each
goes by its last id alone, and they are sent with that id rising, or a broker that removes duplicates would take the
lower ones for repeats.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from pulsar_actors.exceptions import InvalidArgument


class BatchLimits(NamedTuple):
    """When a batch is full: by messages, by bytes of payload, or by seconds since its first message."""

    messages: int = 1000
    size: int = 128 * 1024
    delay: float = 0.01

    def check(self) -> None:
        """Refuse limits under which no batch could ever be sent."""
        if self.messages < 1 or self.size < 1 or self.delay < 0:
            raise InvalidArgument(f"a batch holds at least 1 message of 1 byte, and waits 0 seconds or more: {self}")

    def full(self, messages: int, size: int) -> bool:
        """Whether a buffer with so much in it should be sent without waiting for more."""
        return messages >= self.messages or size >= self.size


class Batch(NamedTuple):
    """Positions in the buffer, in order. A message that is not `batched` has no single-message metadata."""

    positions: Sequence[int]
    sequence_id: int
    highest_sequence_id: int | None
    batched: bool


def _runs(sizes: Sequence[int], alone: Collection[int], limits: BatchLimits) -> Iterator[range]:
    """Cut the buffer into ranges within the limits; positions in `alone` are ranges of their own."""
    totals = list(accumulate(sizes))
    ends = sorted({*alone, len(sizes)})
    start = 0
    for end in ends:
        while start < end:
            before = totals[start] - sizes[start]
            stop = bisect_right(totals, before + limits.size, start + 1, min(start + limits.messages, end))
            yield range(start, stop)
            start = stop
        if end < len(sizes):
            yield range(end, end + 1)
            start = end + 1


def count_complete(sizes: Sequence[int], limits: BatchLimits, alone: Collection[int] = ()) -> int:
    """Count the messages of a buffer that need not wait for more: all but those of a last batch that has room."""
    last = [range(0), *_runs(sizes, alone, limits)][-1]
    is_whole = last.start in alone or limits.full(len(last), sum(sizes[last.start : last.stop]))
    return len(sizes) if is_whole else last.start


def _span(ids: Sequence[int]) -> tuple[int, int]:
    """Find the lowest and the highest id. Ids that users gave need not rise; our own are a range: no search."""
    return (ids[0], ids[-1]) if isinstance(ids, range) else (min(ids), max(ids))


def plan_batches(
    ids: Sequence[int], sizes: Sequence[int], limits: BatchLimits, alone: Collection[int] = ()
) -> list[Batch]:
    """Plan the batches of a buffer whose messages have these sequence ids and payload sizes."""
    batches: list[Batch] = []
    for run in _runs(sizes, alone, limits):
        if run.start in alone:
            batches.append(Batch(run, ids[run.start], None, batched=False))
        else:
            lowest, highest = _span(ids[run.start : run.stop])
            batches.append(Batch(run, lowest, highest, batched=True))
    return batches


def plan_key_batches(
    ids: Sequence[int],
    sizes: Sequence[int],
    keys: Sequence[object],
    limits: BatchLimits,
    alone: Collection[int] = (),
) -> list[Batch]:
    """Plan key-based batches. The limits hold for what is sent together; messages without a key share a batch."""
    batches: list[Batch] = []
    for run in _runs(sizes, alone, limits):
        if run.start in alone:
            batches.append(Batch(run, ids[run.start], None, batched=False))
            continue
        by_key: dict[object, list[int]] = {}
        for position in run:
            by_key.setdefault(keys[position], []).append(position)
        together = [Batch(members, ids[members[-1]], None, batched=True) for members in by_key.values()]
        batches.extend(sorted(together, key=lambda batch: batch.sequence_id))
    return batches


def halves(batch: Batch, ids: Sequence[int]) -> tuple[Batch, ...]:
    """Split a batch that turned out too large: what goes with the payloads is not counted before it is packed.

    One message is not to be split, nor those of a key: the ids of these would no longer rise from batch to batch.
    """
    middle = len(batch.positions) // 2
    if not middle or batch.highest_sequence_id is None:
        return ()
    parts = (batch.positions[:middle], batch.positions[middle:])
    return tuple(Batch(part, *_span([ids[position] for position in part]), batched=True) for part in parts)
