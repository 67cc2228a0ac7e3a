"""The set of messages of one batch that are not acknowledged yet.

A batch is stored as one entry. A bit set has a bit for each message of the batch: bit i is 1 while message i is *not*
acknowledged. On the wire it is the result of Java's `BitSet.toLongArray`: words of 64 bits, lowest first, each a signed
number, without trailing words of zero.

A set without words stands for the whole entry, with a meaning that depends on the direction: in an acknowledgement all
messages are acknowledged, in a delivery none is.

Here a set is an int, a mask; the empty set is 0. A mask needs a bit for each message that the batch declares, so a size
from a peer or a user is compared with `largest_batch` before a mask is made.
"""

import struct
from collections.abc import Sequence

from pulsar_actors.wire.batch import SMALLEST_MESSAGE

_WORD = 64


def largest_batch(size: int) -> int:
    """Return the most messages that fit into so many bytes, neither compressed nor encrypted."""
    return size // SMALLEST_MESSAGE


def full(batch_size: int) -> int:
    """Return the set of a batch in which no message is acknowledged."""
    return (1 << batch_size) - 1


def without_up_to(mask: int, index: int) -> int:
    """Return the set without a message and all before it in the batch."""
    return mask >> (index + 1) << (index + 1)


def starting_at(batch_size: int, index: int) -> int:
    """Return the set for a seek to a message inside the batch: that message and all after it."""
    return without_up_to(full(batch_size), index - 1)


def to_words(mask: int) -> list[int]:
    """Write a set for the wire; the empty set is no words, which acknowledges the whole entry."""
    if not mask:
        return []
    count = _words(mask.bit_length())
    return list(struct.unpack(f"<{count}q", mask.to_bytes(count * 8, "little")))


def from_words(words: Sequence[int]) -> int:
    """Read the set that an acknowledgement carries."""
    return int.from_bytes(struct.pack(f"<{len(words)}q", *words), "little")


def delivered(words: Sequence[int], batch_size: int) -> int:
    """Read the `ack_set` of a delivery: the messages to hand out. No words: all. Bits beyond the batch are ignored."""
    if not words:
        return (1 << batch_size) - 1  # `full`, without the call
    present = words[: _words(batch_size)]
    return from_words(present) & full(min(batch_size, len(present) * _WORD))


def _words(bits: int) -> int:
    return -(-bits // _WORD)
