from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConnectError,
    ConnectionLost,
    InternalError,
    OutcomeUnknown,
    ProducerBusy,
    PulsarException,
    TopicTerminated,
    TopicTerminatedBeforeReceipt,
)
from pulsar_actors.machines.ledgers.pending_sends import Failed, Pending, PendingSends, Receipt, Stored
from pulsar_actors.machines.ledgers.send_quota import SendQuota


def _queue(messages: int = 0) -> PendingSends[str]:
    return PendingSends(SendQuota(messages), SendQuota(0))


def _add(queue: PendingSends[str], token: str, first: int, last: int | None = None, **more: Any) -> Pending[str]:
    last = first if last is None else last
    item = Pending(token, first, last, last - first + 1, 10, more.pop("deadline", 30.0), **more)
    queue.reserve(item.messages, item.size)
    queue.add(item)
    return item


def _written(*spans: tuple[str, int, int]) -> PendingSends[str]:
    queue = _queue()
    for span in spans:
        _add(queue, *span)
    queue.bind(1)
    queue.take_unwritten()
    return queue


@pytest.mark.parametrize("sequence_id", [5, 7, 9])
def test_a_batch_is_acknowledged_by_any_id_of_its_range(sequence_id: int) -> None:
    queue = _written(("batch", 5, 9))
    assert queue.receipt(1, sequence_id, (3, 4)) == Stored("batch", ((3, 4),), 9, duplicate=False)


def test_a_receipt_below_the_head_is_ignored() -> None:
    queue = _written(("batch", 5, 9))
    assert queue.receipt(1, 4, (3, 4)) is Receipt.IGNORED
    assert len(queue) == 1


def test_a_receipt_above_the_head_means_that_the_connection_lost_something() -> None:
    queue = _written(("batch", 5, 9), ("next", 10, 10))
    assert queue.skips_head(1, 10)
    assert queue.receipt(1, 10, (3, 4)) is Receipt.SKIPS_HEAD
    assert len(queue) == 2


def test_a_receipt_within_the_head_or_of_another_connection_or_for_nothing_written_skips_nothing() -> None:
    queue = _written(("batch", 5, 9), ("next", 10, 10))
    assert not any(queue.skips_head(1, sequence_id) for sequence_id in range(10))
    assert not queue.skips_head(0, 10)
    queue.bind(2)
    assert not queue.skips_head(2, 10)


def test_a_receipt_from_an_earlier_connection_or_for_nothing_written_is_ignored() -> None:
    queue = _written(("old", 0, 0))
    queue.bind(2)
    assert queue.receipt(2, 0, (3, 4)) is Receipt.IGNORED
    queue.take_unwritten()
    assert queue.receipt(1, 0, (3, 4)) is Receipt.IGNORED
    assert queue.find(1, 0) is None
    assert isinstance(queue.receipt(2, 0, (3, 4)), Stored)


def test_a_dropped_duplicate_is_told_from_a_fresh_success() -> None:
    queue = _written(("again", 5, 5))
    assert queue.receipt(1, 5, (-1, -1)) == Stored("again", ((-1, -1),), 5, duplicate=True)


def test_the_same_id_given_twice_takes_two_receipts_in_order() -> None:
    queue = _written(("first", 5, 5), ("second", 5, 5))
    assert queue.receipt(1, 5, (3, 4)) == Stored("first", ((3, 4),), 5, duplicate=False)
    assert queue.receipt(1, 5, (-1, -1)) == Stored("second", ((-1, -1),), 5, duplicate=True)


def test_chunks_share_an_id_and_the_last_receipt_ends_the_message() -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=3)
    queue.bind(1)
    queue.take_unwritten()
    assert [queue.receipt(1, 5, (3, entry)) for entry in (0, 1)] == [Receipt.CHUNK] * 2
    assert queue.receipt(1, 5, (3, 2)) == Stored("large", ((3, 0), (3, 1), (3, 2)), 5, duplicate=False)


def test_one_chunk_dropped_as_a_duplicate_makes_the_message_one() -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=2)
    queue.bind(1)
    queue.take_unwritten()
    queue.receipt(1, 5, (3, 0))
    assert queue.receipt(1, 5, (-1, -1)) == Stored("large", ((3, 0), (-1, -1)), 5, duplicate=True)


def test_chunks_that_are_stored_are_not_written_again() -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=3)
    queue.bind(1)
    queue.take_unwritten()
    queue.receipt(1, 5, (3, 0))
    queue.bind(2)
    assert [item.next_frame for item in queue.take_unwritten()] == [1]
    queue.receipt(2, 5, (3, 1))
    assert isinstance(queue.receipt(2, 5, (3, 2)), Stored)


def test_a_new_connection_sends_the_whole_queue_in_order_before_anything_new() -> None:
    queue = _written(("a", 0, 0), ("b", 1, 1))
    _add(queue, "c", 2)
    queue.unbind()
    _add(queue, "d", 3)
    assert queue.take_unwritten() == []
    queue.bind(2)
    _add(queue, "e", 4)
    assert [item.token for item in queue.take_unwritten()] == ["a", "b", "c", "d", "e"]
    assert queue.take_unwritten() == []


@pytest.mark.parametrize("connected", [True, False])
def test_a_timeout_fails_everything_in_order_and_says_what_may_be_stored(connected: bool) -> None:  # noqa: FBT001 - a case
    queue = _written(("a", 0, 0), ("b", 1, 1))
    if not connected:
        queue.unbind()
    _add(queue, "c", 2, deadline=90.0)
    assert queue.next_deadline() == 30.0
    assert [queue.is_late(now) for now in (29.9, 30.0)] == [False, True]
    assert queue.fail_all() == [Failed("a", True), Failed("b", True), Failed("c", False)]  # noqa: FBT003 - reads well
    assert queue.next_deadline() is None
    assert not queue.is_late(99.0)


def test_without_a_send_timeout_nothing_expires() -> None:
    queue = _queue()
    _add(queue, "patient", 0, deadline=None)
    assert queue.next_deadline() is None
    assert not queue.is_late(1e9)


def test_a_refused_message_in_mid_queue_fails_alone() -> None:
    queue = _written(("a", 0, 0), ("b", 1, 3), ("c", 4, 4))
    refused = queue.find(1, 2)
    assert refused is not None
    assert queue.fail(refused) == Failed("b", may_be_stored=False)
    assert queue.find(1, 2) is None
    assert [queue.receipt(1, sequence_id, (3, 4)) for sequence_id in (0, 4)] == [
        Stored("a", ((3, 4),), 0, duplicate=False),
        Stored("c", ((3, 4),), 4, duplicate=False),
    ]


def test_a_refused_message_may_be_stored_from_an_earlier_connection() -> None:
    queue = _queue()
    item = _add(queue, "a", 0)
    for generation in (1, 2):
        queue.bind(generation)
        queue.take_unwritten()
    assert queue.fail(item) == Failed("a", may_be_stored=True)


def test_ending_an_item_twice_is_an_error_and_frees_nothing() -> None:
    messages, memory = SendQuota(0), SendQuota(0)
    queue = PendingSends[str](messages, memory)
    first = _add(queue, "a", 0)
    _add(queue, "b", 1)
    queue.bind(1)
    queue.take_unwritten()
    queue.fail(first)
    with pytest.raises(ValueError, match="not in deque"):
        queue.fail(first)
    assert (messages.used, memory.used) == (1, 10)


def test_what_is_reserved_counts_until_it_is_given_back() -> None:
    queue = _queue(3)
    queue.reserve(2, 90)
    assert queue.used == (2, 90)
    queue.give_back(2, 90)
    assert queue.used == (0, 0)


@pytest.mark.parametrize(("first", "last"), [(-1, 0), (5, 4)])
def test_a_range_of_ids_that_runs_backwards_is_refused(first: int, last: int) -> None:
    with pytest.raises(InternalError, match=f"{first} to {last}"):
        Pending("bad", first, last, 1, 1, None)


CLOSED, UNKNOWN, BUG = AlreadyClosed("closed"), ConnectionLost("lost"), InternalError("a bug")
TERMINATED, BUSY = TopicTerminated("Over", "no"), ProducerBusy("Busy", "no")


@pytest.mark.parametrize(
    ("error", "may_be_stored", "told"),
    [
        (CLOSED, False, CLOSED),
        (CLOSED, True, OutcomeUnknown("it was sent and no receipt came before the end: closed")),
        (UNKNOWN, False, ConnectError("it was not sent: lost")),
        (UNKNOWN, True, UNKNOWN),
        (BUG, False, BUG),
        (BUG, True, BUG),
        (TERMINATED, False, TERMINATED),
        (TERMINATED, True, TopicTerminatedBeforeReceipt("Over", "it was sent and no receipt came before the end: no")),
        (BUSY, True, OutcomeUnknown("it was sent and no receipt came before the end: Busy: no")),
    ],
    ids=repr,
)
def test_an_error_claims_to_know_of_an_item_what_is_known(
    error: PulsarException,
    may_be_stored: bool,  # noqa: FBT001 - a case
    told: PulsarException,
) -> None:
    found = Failed("token", may_be_stored).told(error)
    assert (type(found), str(found)) == (type(told), str(told))
