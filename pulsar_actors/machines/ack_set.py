"""Which messages of one batch are not acknowledged yet.

A batch is stored as one entry, so the messages in it are told apart by a bit set: bit i is 1 while message i is *not*
acknowledged. On the wire it is what Java's `BitSet.toLongArray` gives: 64 bits a word, lowest first, each word a signed
number, trailing zero words dropped.

Nothing at all means the entry as a whole, which reads differently in each direction: in an acknowledgement "all of
it is acknowledged", in a delivery "none of it is".

Here a set is a Python int, a mask; the empty set is 0.
"""

from collections.abc import Iterable, Iterator

_WORD = 64
_WORD_MASK = (1 << _WORD) - 1
_SIGN = 1 << (_WORD - 1)


def full(batch_size: int) -> int:
    """Give the set of a batch in which nothing is acknowledged."""
    return (1 << batch_size) - 1


def without(mask: int, index: int) -> int:
    """Acknowledge one message."""
    return mask & ~(1 << index)


def without_up_to(mask: int, index: int) -> int:
    """Acknowledge a message and all before it in the batch."""
    return mask >> (index + 1) << (index + 1)


def starting_at(batch_size: int, index: int) -> int:
    """Give the set for a seek to a message inside the batch: it and all after it are wanted."""
    return without_up_to(full(batch_size), index - 1)


def to_words(mask: int) -> list[int]:
    """Write a set for the wire; the empty set is no words, which acknowledges the whole entry."""
    words: list[int] = []
    while mask:
        word = mask & _WORD_MASK
        words.append(word - (1 << _WORD) if word & _SIGN else word)
        mask >>= _WORD
    return words


def from_words(words: Iterable[int]) -> int:
    """Read the set that an acknowledgement carries."""
    return sum((word & _WORD_MASK) << (place * _WORD) for place, word in enumerate(words))


def delivered(words: Iterable[int], batch_size: int) -> int:
    """Read the `ack_set` of a delivery: the messages to hand out. No words: all; bits beyond the batch mean nothing."""
    whole = full(batch_size)
    present = list(words)
    return from_words(present) & whole if present else whole


def indexes(mask: int) -> Iterator[int]:
    """Give the places in the set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
