"""How a message that is too large for a frame is cut.

Its chunks are entries of their own, never batched, that share an id (`uuid`) and a sequence id. `chunks.py` puts them
together again.
"""

from typing import NamedTuple

from pulsar_actors.exceptions import InvalidArgument


class PlannedChunk(NamedTuple):
    """One piece of a message, `payload[start:stop]`, and what its metadata says of the whole."""

    uuid: str
    chunk_id: int
    num_chunks_from_msg: int
    total_chunk_msg_size: int
    start: int
    stop: int


def plan_chunks(size: int, largest: int, uuid: str) -> list[PlannedChunk]:
    """Plan the chunks of a payload, where one frame has room for `largest` bytes beside its metadata."""
    if largest < 1:
        raise InvalidArgument(f"a chunk needs room for at least one byte beside its metadata, got {largest}")
    if size <= largest:
        raise InvalidArgument(f"a payload of {size:,} bytes needs no chunks of {largest:,} bytes")
    starts = range(0, size, largest)
    return [
        PlannedChunk(uuid, chunk_id, len(starts), size, start, min(start + largest, size))
        for chunk_id, start in enumerate(starts)
    ]
