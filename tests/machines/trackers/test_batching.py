from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.batching import (
    BatchLimits,
    PlannedBatch,
    count_complete,
    plan_batches,
    plan_chunks,
    plan_key_batches,
    split_batch_plan,
)

SIZES = st.lists(st.integers(0, 12), max_size=40)
LIMITS = st.builds(BatchLimits, st.integers(1, 8), st.integers(1, 20))


@st.composite
def buffers(draw: st.DrawFn) -> tuple[list[int], list[str | None], set[int]]:
    sizes = draw(SIZES)
    keys = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=len(sizes), max_size=len(sizes)))
    alone: set[int] = draw(st.sets(st.sampled_from(range(len(sizes))))) if sizes else set()
    return sizes, keys, alone


def _spans(batches: list[PlannedBatch]) -> list[tuple[list[int], int, int | None, bool]]:
    return [(list(b.positions), b.sequence_id, b.highest_sequence_id, b.batched) for b in batches]


def test_a_batch_carries_its_lowest_and_its_highest_id() -> None:
    plan = plan_batches(range(5, 10), [1] * 5, BatchLimits(messages=2))
    assert _spans(plan) == [([0, 1], 5, 6, True), ([2, 3], 7, 8, True), ([4], 9, 9, True)]


def test_ids_that_users_gave_out_of_order_still_span_the_batch() -> None:
    assert _spans(plan_batches([5, 3, 9], [1] * 3, BatchLimits())) == [([0, 1, 2], 3, 9, True)]


def test_a_message_over_the_byte_limit_is_a_batch_of_one() -> None:
    plan = plan_batches(range(3), [4, 100, 4], BatchLimits(size=10))
    assert _spans(plan) == [([0], 0, 0, True), ([1], 1, 1, True), ([2], 2, 2, True)]


def test_a_message_with_a_delivery_time_travels_alone_and_in_its_place() -> None:
    plan = plan_batches(range(4), [1] * 4, BatchLimits(), alone={1})
    assert _spans(plan) == [([0], 0, 0, True), ([1], 1, None, False), ([2, 3], 2, 3, True)]


def test_key_batches_go_by_their_last_id_and_in_its_order() -> None:
    plan = plan_key_batches(range(6), [1] * 6, list("abbaab"), BatchLimits())
    assert _spans(plan) == [([0, 3, 4], 4, None, True), ([1, 2, 5], 5, None, True)]
    plan = plan_key_batches(range(3), [1] * 3, list("aba"), BatchLimits())
    assert _spans(plan) == [([1], 1, None, True), ([0, 2], 2, None, True)]


@given(buffers(), LIMITS)
def test_batches_keep_every_message_once_in_order_and_within_the_limits(buffer: Any, limits: BatchLimits) -> None:
    sizes, _, alone = buffer
    plan = plan_batches(range(100, 100 + len(sizes)), sizes, limits, alone)
    assert [position for batch in plan for position in batch.positions] == list(range(len(sizes)))
    for batch in plan:
        assert len(batch.positions) <= limits.messages
        assert len(batch.positions) == 1 or sum(sizes[p] for p in batch.positions) <= limits.size
        assert batch.batched == (not alone & set(batch.positions))
        assert batch.batched or len(batch.positions) == 1


@given(buffers(), LIMITS)
def test_batches_are_as_large_as_the_limits_allow(buffer: Any, limits: BatchLimits) -> None:
    sizes, _, alone = buffer
    plan = plan_batches(range(len(sizes)), sizes, limits, alone)
    for batch, after in pairwise(plan):
        if batch.batched and after.batched:
            grown = sum(sizes[p] for p in batch.positions) + sizes[after.positions[0]]
            assert len(batch.positions) == limits.messages or grown > limits.size


@given(buffers(), LIMITS)
def test_key_batches_hold_one_key_in_order_and_are_sent_with_rising_ids(buffer: Any, limits: BatchLimits) -> None:
    sizes, keys, alone = buffer
    plan = plan_key_batches(range(len(sizes)), sizes, keys, limits, alone)
    assert sorted(position for batch in plan for position in batch.positions) == list(range(len(sizes)))
    ids = [batch.sequence_id for batch in plan]
    assert ids == sorted(ids)
    for batch in plan:
        assert len({keys[p] for p in batch.positions}) == 1
        assert list(batch.positions) == sorted(batch.positions)
        assert batch.sequence_id == batch.positions[-1]
        assert batch.highest_sequence_id is None
    for key in set(keys):
        assert [p for b in plan for p in b.positions if keys[p] == key] == [p for p, k in enumerate(keys) if k == key]


@given(buffers(), LIMITS)
def test_only_a_last_batch_that_has_room_waits_for_more(buffer: Any, limits: BatchLimits) -> None:
    sizes, _, alone = buffer
    count = count_complete(sizes, limits, alone)
    plan = plan_batches(range(len(sizes)), sizes, limits, alone)
    complete = plan_batches(range(count), sizes[:count], limits, {place for place in alone if place < count})
    waiting = plan[len(complete) :]
    assert plan[: len(complete)] == complete
    assert len(waiting) == (count < len(sizes))
    if waiting:
        assert waiting[0].batched
        assert not limits.full(len(sizes) - count, sum(sizes[count:]))
    elif plan and plan[-1].batched:
        assert limits.full(len(plan[-1].positions), sum(sizes[place] for place in plan[-1].positions))


def test_a_buffer_is_full_by_messages_or_by_bytes() -> None:
    limits = BatchLimits(messages=10, size=100)
    assert not limits.full(9, 99)
    assert limits.full(10, 1)
    assert limits.full(1, 100)


@pytest.mark.parametrize("limits", [BatchLimits(messages=0), BatchLimits(size=0), BatchLimits(delay=-1.0)])
def test_limits_under_which_nothing_is_ever_sent_are_refused(limits: BatchLimits) -> None:
    with pytest.raises(InvalidArgument, match="a batch holds"):
        limits.check()


def test_limits_that_make_sense_pass() -> None:
    BatchLimits().check()


@given(st.permutations(range(9)), st.integers(1, 9))
def test_halves_keep_every_message_in_order_with_the_ids_that_they_have(ids: list[int], count: int) -> None:
    (batch,) = plan_batches(ids[:count], [1] * count, BatchLimits())
    parts = split_batch_plan(batch, ids)
    assert [place for part in parts for place in part.positions] == (list(range(count)) if count > 1 else [])
    for part in parts:
        spanned = [ids[place] for place in part.positions]
        assert (part.sequence_id, part.highest_sequence_id) == (min(spanned), max(spanned))
        assert part.batched


def test_messages_of_a_key_and_those_that_travel_alone_are_not_split() -> None:
    for batch in plan_key_batches(range(3), [1] * 3, ["a", "a", None], BatchLimits(), alone={2}):
        assert split_batch_plan(batch, range(3)) == ()


def test_chunks_are_cut_as_the_official_client_cuts_them() -> None:
    # An 11 MiB message of the official client, as a listener received it: its uuid, and the sizes of its payloads.
    chunks = plan_chunks(11 * 1024 * 1024, 5_242_865, "p-0")
    assert [chunk.stop - chunk.start for chunk in chunks] == [5_242_865, 5_242_865, 1_048_606]
    assert [chunk[:4] for chunk in chunks] == [("p-0", number, 3, 11_534_336) for number in range(3)]


@given(st.integers(1, 50), st.integers(1, 500))
def test_chunks_cover_the_payload_without_gap_or_overlap(largest: int, more: int) -> None:
    payload = bytes(index % 251 for index in range(largest + more))
    chunks = plan_chunks(len(payload), largest, "u")
    assert b"".join(payload[chunk.start : chunk.stop] for chunk in chunks) == payload
    assert all(0 < chunk.stop - chunk.start <= largest for chunk in chunks)


@pytest.mark.parametrize(("size", "largest"), [(10, 10), (0, 1), (5, 0)])
def test_a_payload_that_needs_no_chunks_or_fits_in_none_is_refused(size: int, largest: int) -> None:
    with pytest.raises(InvalidArgument):
        plan_chunks(size, largest, "u")
