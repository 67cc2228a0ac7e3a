import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.trackers import ack_set
from pulsar_actors.wire.batch import encode_batch, split_batch
from pulsar_actors.wire.errors import MalformedBatch

# What java.util.BitSet (Java 17) gives: size of the batch, index, and toLongArray() after clear(index),
# after clear(0, index + 1), and of set(index, size).
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
JAVA = [
    (10, 0, [1022], [1022], [1023]),
    (10, 4, [1007], [992], [1008]),
    (10, 9, [511], [], [512]),
    (64, 62, [-4611686018427387905], [LOWEST], [-4611686018427387904]),
    (64, 63, [HIGHEST], [], [LOWEST]),
    (65, 63, [HIGHEST, 1], [0, 1], [LOWEST, 1]),
    (65, 64, [-1], [], [0, 1]),
    (130, 0, [-2, -1, 3], [-2, -1, 3], [-1, -1, 3]),
    (130, 63, [HIGHEST, -1, 3], [0, -1, 3], [LOWEST, -1, 3]),
    (130, 64, [-1, -2, 3], [0, -2, 3], [0, -1, 3]),
    (130, 127, [-1, HIGHEST, 3], [0, 0, 3], [0, LOWEST, 3]),
    (130, 128, [-1, -1, 2], [0, 0, 2], [0, 0, 3]),
]
JAVA_FULL = [
    (1, [1]),
    (10, [1023]),
    (63, [HIGHEST]),
    (64, [-1]),
    (65, [-1, 1]),
    (128, [-1, -1]),
    (130, [-1, -1, 3]),
]


@pytest.mark.parametrize(("size", "index", "cleared", "cleared_up_to", "kept"), JAVA)
def test_sets_are_written_as_java_writes_them(
    size: int, index: int, cleared: list[int], cleared_up_to: list[int], kept: list[int]
) -> None:
    whole = ack_set.full(size)
    assert ack_set.to_words(whole ^ 1 << index) == cleared
    assert ack_set.to_words(ack_set.without_up_to(whole, index)) == cleared_up_to
    assert ack_set.to_words(ack_set.starting_at(size, index)) == kept


@pytest.mark.parametrize(("size", "words"), JAVA_FULL)
def test_a_fresh_batch_is_all_ones(size: int, words: list[int]) -> None:
    assert ack_set.to_words(ack_set.full(size)) == words


@given(st.sets(st.integers(0, 300)))
def test_words_read_back_as_the_set_that_was_written(places: set[int]) -> None:
    mask = sum(1 << place for place in places)
    words = ack_set.to_words(mask)
    assert ack_set.from_words(words) == mask
    assert all(LOWEST <= word <= HIGHEST for word in words)
    assert not words or words[-1] != 0


def test_a_delivery_without_words_is_all_of_the_batch() -> None:
    assert ack_set.delivered([], 3) == 0b111


@given(st.integers(1, 200), st.lists(st.integers(LOWEST, HIGHEST), min_size=1, max_size=5))
def test_a_delivery_with_words_is_what_they_leave_of_the_batch(size: int, words: list[int]) -> None:
    left = [place for place in range(size) if place < 64 * len(words) and words[place // 64] >> place % 64 & 1]
    assert ack_set.delivered(words, size) == sum(1 << place for place in left)


class Asked(Sequence[int]):
    """A million words, and how many of them were asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: Any) -> Any:
        asked = len(range(len(self))[index])
        self.asked += asked
        return [1] * asked


def test_words_beyond_the_batch_are_not_read() -> None:
    words = Asked()
    assert ack_set.delivered(words, 65) == 1 | 1 << 64
    assert words.asked == 2


def test_a_set_of_millions_is_written_and_read_in_no_time() -> None:
    mask = ack_set.starting_at(1 << 22, 1)
    start = time.perf_counter()
    words = ack_set.to_words(mask)
    assert (len(words), words[0], ack_set.from_words(words) == mask) == (1 << 16, -2, True)
    assert time.perf_counter() - start < 5.0, "more than ten if it grows with the square of the size"


@pytest.mark.parametrize("count", [1, 7])
def test_the_largest_batch_is_the_largest_that_can_be_split(count: int) -> None:
    payload = encode_batch([(None, b"")] * count)
    assert ack_set.largest_batch(len(payload)) == count
    assert len(split_batch(payload, count)) == count
    assert ack_set.largest_batch(len(payload) - 1) == count - 1
    with pytest.raises(MalformedBatch):
        split_batch(payload[:-1], count)
