from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConnectError,
    ConnectionLost,
    InternalError,
    InvalidArgument,
    OutcomeUnknown,
    ProducerBusy,
    PulsarException,
    TopicTerminated,
    TopicTerminatedBeforeReceipt,
)
from pulsar_actors.machines.trackers.pending_messages import (
    RESUMES_WITHIN,
    FailedSend,
    MemoryLimit,
    PendingFlushes,
    PendingMessages,
    PendingSend,
    ReceiptVerdict,
    SendQuota,
    StoredSend,
    pending_limit,
)
from pulsar_actors.wire.transaction_id import TransactionId


def _queue(messages: int = 0) -> PendingMessages[str]:
    return PendingMessages(SendQuota(messages), SendQuota(0))


def _add(queue: PendingMessages[str], token: str, first: int, last: int | None = None, **more: Any) -> PendingSend[str]:
    last = first if last is None else last
    item = PendingSend(token, first, last, last - first + 1, 10, more.pop("deadline", 30.0), **more)
    queue.reserve(item.messages, item.size)
    queue.add(item)
    return item


def _written(*spans: tuple[str, int, int]) -> PendingMessages[str]:
    queue = _queue()
    for span in spans:
        _add(queue, *span)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    return queue


@pytest.mark.parametrize("sequence_id", [5, 7, 9])
def test_a_batch_is_acknowledged_by_any_id_of_its_range(sequence_id: int) -> None:
    queue = _written(("batch", 5, 9))
    assert queue.receipt(1, sequence_id, (3, 4)) == StoredSend("batch", ((3, 4),), 9)


def test_a_receipt_below_the_head_is_ignored() -> None:
    queue = _written(("batch", 5, 9))
    assert queue.receipt(1, 4, (3, 4)) is ReceiptVerdict.IGNORED
    assert len(queue) == 1


def test_a_receipt_above_the_head_means_that_the_connection_lost_something() -> None:
    queue = _written(("batch", 5, 9), ("next", 10, 10))
    assert queue.skips_head(1, 10, (3, 4))
    assert queue.receipt(1, 10, (3, 4)) is ReceiptVerdict.SKIPS_HEAD
    assert len(queue) == 2


def _behind_a_transaction(*spans: tuple[str, int, int]) -> PendingMessages[str]:
    """A queue that begins with a message of a transaction, with the id 0; "t" begins those of transactions."""
    queue = _queue()
    for token, first, last in (("t", 0, 0), *spans):
        item = PendingSend(token, first, last, 1, 10, 30.0)
        queue.reserve(1, 10)
        queue.add(item.in_transaction(TransactionId(0, 0)) if token.startswith("t") else item)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    return queue


def test_plain_messages_may_overtake_those_of_transactions_in_their_order() -> None:
    queue = _behind_a_transaction(("plain", 1, 1), ("t2", 2, 2), ("plain2", 3, 4))
    for sequence_id, token in ((1, "plain"), (3, "plain2")):
        assert not queue.skips_head(1, sequence_id, (3, 4))
        assert queue.receipt(1, sequence_id, (3, 4)) == StoredSend(
            token, ((3, 4),), 4 if sequence_id == 3 else 1, overtook=True
        )
    for sequence_id, token in ((0, "t"), (2, "t2")):
        assert queue.receipt(1, sequence_id, (3, 5)) == StoredSend(token, ((3, 5),), sequence_id)
    assert (len(queue), queue.used) == (0, (0, 0))


def test_no_message_overtakes_a_plain_one_and_those_of_transactions_not_each_other() -> None:
    queue = _behind_a_transaction(("t2", 1, 1), ("plain", 2, 2), ("plain2", 3, 3))
    for sequence_id in (1, 3):
        assert queue.skips_head(1, sequence_id, (3, 4))
        assert queue.receipt(1, sequence_id, (3, 4)) is ReceiptVerdict.SKIPS_HEAD


def test_a_plain_message_overtakes_those_of_transactions_although_its_user_gave_it_a_lower_id() -> None:
    queue = _queue()
    queue.reserve(2, 20)
    queue.add(PendingSend("t", 9, 9, 1, 10, None).in_transaction(TransactionId(0, 0)))
    queue.add(PendingSend("plain", 5, 5, 1, 10, 30.0))
    queue.bind(1, 0.0)
    queue.take_unwritten()
    assert queue.receipt(1, 5, (3, 4)) == StoredSend("plain", ((3, 4),), 5, overtook=True)


@pytest.mark.parametrize("message_id", [(3, 4), (-1, -1)])
def test_the_late_receipt_of_what_has_timed_out_skips_nothing(message_id: tuple[int, int]) -> None:
    queue = _behind_a_transaction(("late", 1, 1))
    queue.fail_plain()
    for _ in range(2):
        assert not queue.skips_head(1, 1, message_id)
        assert queue.receipt(1, 1, message_id) is ReceiptVerdict.IGNORED
        _add(queue, "next", 2)
        queue.take_unwritten()
    assert queue.receipt(1, 0, (3, 5)) == StoredSend("t", ((3, 5),), 0)


def test_a_message_of_an_old_id_that_the_broker_has_overtakes_what_it_still_stores() -> None:
    queue = _written(("new", 10, 10), ("batch", 11, 14), ("old", 5, 5), ("older", 4, 4), ("newer", 15, 15))
    for sequence_id, token in ((5, "old"), (4, "older")):
        stored = queue.receipt(1, sequence_id, (-1, -1))
        assert stored == StoredSend(token, ((-1, -1),), sequence_id, overtook=True)
    for sequence_id, last, token in ((10, 10, "new"), (11, 14, "batch"), (15, 15, "newer")):
        assert queue.receipt(1, sequence_id, (3, 4)) == StoredSend(token, ((3, 4),), last)
    assert (len(queue), queue.used) == (0, (0, 0))


def test_a_message_of_an_old_id_in_a_transaction_that_the_broker_has_overtakes_what_it_still_stores() -> None:
    queue = _written(("new", 10, 10))
    queue.reserve(1, 10)
    queue.add(PendingSend("old", 5, 5, 1, 10, None).in_transaction(TransactionId(0, 0)))
    queue.take_unwritten()
    assert queue.receipt(1, 5, (-1, -1)) == StoredSend("old", ((-1, -1),), 5, overtook=True)
    assert queue.next_deadline() == 30.0


def test_a_batch_that_begins_with_an_id_that_the_broker_has_overtakes_what_it_still_stores() -> None:
    queue = _written(("new", 8, 8), ("batch", 5, 10))
    assert queue.receipt(1, 5, (-1, -1)) == StoredSend("batch", ((-1, -1),), 10, overtook=True)


def test_a_large_message_of_an_old_id_overtakes_and_the_receipts_of_its_other_chunks_come_too_late() -> None:
    queue = _written(("new", 10, 10))
    _add(queue, "large", 5, frames=3)
    queue.take_unwritten()
    assert queue.receipt(1, 5, (-1, -1)) == StoredSend("large", ((-1, -1),), 5, overtook=True)
    assert queue.receipt(1, 10, (3, 4)) == StoredSend("new", ((3, 4),), 10)
    assert [queue.receipt(1, 5, (3, entry)) for entry in (5, 6)] == [ReceiptVerdict.IGNORED] * 2


def test_a_message_of_an_old_id_that_the_broker_stores_overtakes_nothing() -> None:
    queue = _written(("new", 10, 10), ("old", 5, 5))
    assert not queue.skips_head(1, 5, (3, 4))
    assert queue.receipt(1, 5, (3, 4)) is ReceiptVerdict.IGNORED
    assert queue.receipt(1, 10, (3, 5)) == StoredSend("new", ((3, 5),), 10)
    assert queue.receipt(1, 5, (3, 6)) == StoredSend("old", ((3, 6),), 5)


def test_a_repeat_overtakes_no_earlier_one_whose_receipt_must_have_been_lost() -> None:
    queue = _written(("a", 5, 5), ("b", 6, 6))
    assert queue.skips_head(1, 6, (-1, -1))
    assert queue.receipt(1, 6, (-1, -1)) is ReceiptVerdict.SKIPS_HEAD


@pytest.mark.parametrize(
    ("last", "failed"),
    [
        pytest.param(-1, ["t", "t2", "t4"], id="nothing drops repeats"),
        pytest.param(0, ["t2"], id="the first is stored"),
        pytest.param(1, ["t", "t2"], id="the first plain one is stored"),
        pytest.param(2, ["t"], id="the second is stored, and so the first, which is not known for sure"),
        pytest.param(3, ["t", "t2"], id="the second plain one is stored"),
        pytest.param(4, ["t", "t2"], id="the last is stored"),
    ],
)
def test_what_is_certainly_stored_of_a_transaction_or_has_no_plain_message_behind_it_may_be_written_again(
    last: int, failed: list[str]
) -> None:
    queue = _behind_a_transaction(("plain", 1, 1))
    for number in (2, 3, 4):
        item = PendingSend(f"t{number}", number, number, 1, 10, None)
        queue.reserve(1, 10)
        queue.add(item if number == 3 else item.in_transaction(TransactionId(0, 0)))
        queue.take_unwritten()
    queue.unbind()
    assert queue.has_unrepeatable(last)
    assert [one.token for one in queue.fail_unrepeatable(last)] == failed


def test_a_large_plain_message_overtakes_with_its_last_chunk() -> None:
    queue = _behind_a_transaction()
    queue.reserve(1, 10)
    queue.add(PendingSend("large", 1, 1, 1, 10, None, 2))
    queue.take_unwritten()
    assert queue.receipt(1, 1, (3, 0)) is ReceiptVerdict.CHUNK
    assert queue.receipt(1, 1, (3, 1)) == StoredSend("large", ((3, 0), (3, 1)), 1, overtook=True)


def test_a_receipt_within_the_head_or_of_another_connection_or_for_nothing_written_skips_nothing() -> None:
    queue = _written(("batch", 5, 9), ("next", 10, 10))
    assert not any(queue.skips_head(1, sequence_id, (3, 4)) for sequence_id in range(10))
    assert not queue.skips_head(0, 10, (3, 4))
    queue.bind(2, 0.0)
    assert not queue.skips_head(2, 10, (3, 4))


def test_a_receipt_from_an_earlier_connection_or_for_nothing_written_is_ignored() -> None:
    queue = _written(("old", 0, 0))
    queue.bind(2, 0.0)
    assert queue.receipt(2, 0, (3, 4)) is ReceiptVerdict.IGNORED
    queue.take_unwritten()
    assert queue.receipt(1, 0, (3, 4)) is ReceiptVerdict.IGNORED
    assert queue.find(1, 0) is None
    assert isinstance(queue.receipt(2, 0, (3, 4)), StoredSend)


def test_a_dropped_duplicate_is_told_from_a_fresh_success() -> None:
    queue = _written(("again", 5, 5))
    assert queue.receipt(1, 5, (-1, -1)) == StoredSend("again", ((-1, -1),), 5)


def test_the_same_id_given_twice_takes_two_receipts_in_order() -> None:
    queue = _written(("first", 5, 5), ("second", 5, 5))
    assert queue.receipt(1, 5, (3, 4)) == StoredSend("first", ((3, 4),), 5)
    assert queue.receipt(1, 5, (-1, -1)) == StoredSend("second", ((-1, -1),), 5)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_chunks_share_an_id_and_the_last_receipt_ends_the_message_whichever_it_is(order: tuple[int, ...]) -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=3)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    *first, last = [queue.receipt(1, 5, (3, entry)) for entry in order]
    assert first == [ReceiptVerdict.CHUNK] * 2
    assert last == StoredSend("large", ((3, 0), (3, 1), (3, 2)), 5)


@pytest.mark.parametrize("overtakes", [False, True])
def test_a_receipt_that_comes_twice_counts_for_one_chunk(*, overtakes: bool) -> None:
    queue = _queue()
    if overtakes:
        before = PendingSend("before it", 4, 4, 1, 10, None).in_transaction(TransactionId(0, 0))
        queue.reserve(before.messages, before.size)
        queue.add(before)
    _add(queue, "large", 5, frames=2)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    assert queue.receipt(1, 5, (3, 0)) == ReceiptVerdict.CHUNK
    assert queue.receipt(1, 5, (3, 0)) == ReceiptVerdict.IGNORED
    stored = queue.receipt(1, 5, (3, 1))
    assert stored == StoredSend("large", ((3, 0), (3, 1)), 5, overtook=overtakes)


def test_chunks_of_a_topic_that_stores_nothing_have_all_the_same_receipt() -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=2)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    queue.receipt(1, 5, (0, 0))
    assert isinstance(queue.receipt(1, 5, (0, 0)), StoredSend)


def test_a_last_chunk_that_is_dropped_as_a_duplicate_completes_a_message_whose_place_is_not_known() -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=2)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    queue.receipt(1, 5, (3, 0))
    assert queue.receipt(1, 5, (-1, -1)) == StoredSend("large", ((3, 0), (-1, -1)), 5)


def test_last_chunks_that_are_dropped_as_duplicates_overtake_those_that_are_stored_again() -> None:
    queue = _queue()
    for sequence_id in (5, 6):
        _add(queue, f"large {sequence_id}", sequence_id, frames=3)
    _add(queue, "new", 7)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    assert queue.receipt(1, 5, (-1, -1)) == StoredSend("large 5", ((-1, -1),), 5)
    assert queue.receipt(1, 5, (3, 0)) == ReceiptVerdict.IGNORED
    assert queue.receipt(1, 6, (-1, -1)) == StoredSend("large 6", ((-1, -1),), 6)
    for sequence_id, entry in ((5, 1), (6, 2), (6, 3)):
        assert queue.receipt(1, sequence_id, (3, entry)) == ReceiptVerdict.IGNORED
    assert queue.receipt(1, 7, (3, 4)) == StoredSend("new", ((3, 4),), 7)
    assert queue.used == (0, 0)


def test_a_message_of_which_some_chunks_are_in_another_cluster_is_written_from_its_start() -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=3)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    queue.receipt(1, 5, (3, 0))
    queue.unbind()
    queue.leave_cluster()
    queue.bind(2, 0.0)
    assert [item.next_frame for item in queue.take_unwritten()] == [0]


@pytest.mark.parametrize("receipt", [(-1, -1), (3, 9)], ids=["as expected", "of a broker that has forgotten it"])
def test_of_a_message_that_the_broker_has_only_the_last_chunk_is_written_again(receipt: tuple[int, int]) -> None:
    queue = _queue()
    for sequence_id in (5, 6):
        _add(queue, sequence_id, sequence_id, frames=3)
    queue.bind(1, 0.0, last_sequence_id=9)
    assert [item.next_frame for item in queue.take_unwritten()] == [0, 0], "they have never been written"
    queue.bind(2, 0.0, last_sequence_id=5)
    assert [item.next_frame for item in queue.take_unwritten()] == [2, 0]
    queue.bind(3, 0.0, last_sequence_id=-1)
    assert [item.next_frame for item in queue.take_unwritten()] == [0, 0], "the next broker does not have them"
    queue.bind(2, 0.0, last_sequence_id=5)
    queue.take_unwritten()
    stored = queue.receipt(2, 5, receipt)
    assert isinstance(stored, StoredSend)
    assert stored.message_ids[-1] == (-1, -1)
    assert queue.receipt(2, 6, (3, 10)) == ReceiptVerdict.CHUNK


def test_chunks_that_are_stored_are_not_written_again() -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=3)
    queue.bind(1, 0.0)
    queue.take_unwritten()
    queue.receipt(1, 5, (3, 0))
    queue.bind(2, 0.0)
    assert [item.next_frame for item in queue.take_unwritten()] == [1]
    queue.receipt(2, 5, (3, 1))
    assert isinstance(queue.receipt(2, 5, (3, 2)), StoredSend)


@pytest.mark.parametrize(("away", "next_frame"), [(RESUMES_WITHIN, 2), (RESUMES_WITHIN + 0.1, 0)])
def test_long_after_the_last_receipt_of_a_chunk_all_are_written_again(away: float, next_frame: int) -> None:
    queue = _queue()
    _add(queue, "large", 5, frames=3)
    queue.bind(1, now=100.0)
    queue.take_unwritten()
    for entry, now in ((0, 110.0), (1, 120.0)):
        assert queue.receipt(1, 5, (3, entry)) == ReceiptVerdict.CHUNK
        queue.chunk_stored(now)
    queue.bind(2, now=120.0 + away)
    assert [item.next_frame for item in queue.take_unwritten()] == [next_frame]


def test_a_new_connection_sends_the_whole_queue_in_order_before_anything_new() -> None:
    queue = _written(("a", 0, 0), ("b", 1, 1))
    _add(queue, "c", 2)
    queue.unbind()
    _add(queue, "d", 3)
    assert queue.take_unwritten() == []
    queue.bind(2, 0.0)
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
    assert queue.fail_all() == [FailedSend("a", True), FailedSend("b", True), FailedSend("c", False)]  # noqa: FBT003 - reads well
    assert queue.next_deadline() is None
    assert not queue.is_late(99.0)


@pytest.mark.parametrize(
    ("end", "left"),
    [
        pytest.param(lambda queue: queue.receipt(1, 1, (3, 4)), None, id="a receipt"),
        pytest.param(lambda queue: queue.fail(queue.find(1, 1)), None, id="a refusal"),
        pytest.param(lambda queue: queue.fail_plain(), None, id="a timeout"),
        pytest.param(lambda queue: queue.fail_all(), None, id="the end"),
        pytest.param(lambda queue: queue.receipt(1, 0, (3, 4)), 30.0, id="a receipt of a transaction"),
        pytest.param(lambda queue: queue.fail(queue.find(1, 0)), 30.0, id="a refusal in a transaction"),
        pytest.param(lambda queue: queue.fail_transaction(TransactionId(0, 0)), 30.0, id="the end of a transaction"),
    ],
)
def test_the_first_plain_message_among_those_of_transactions_has_the_next_deadline(
    end: Callable[[PendingMessages[str]], object], left: float | None
) -> None:
    queue = _behind_a_transaction(("plain", 1, 1), ("t2", 2, 2))
    assert queue.next_deadline() == 30.0
    end(queue)
    assert queue.next_deadline() == left
    queue.fail_plain()
    queue.reserve(1, 10)
    queue.add(PendingSend("t3", 4, 4, 1, 10, 30.0).in_transaction(TransactionId(0, 0)))
    assert queue.next_deadline() is None
    _add(queue, "later", 5, deadline=90.0)
    assert queue.next_deadline() == 90.0


def test_a_plain_message_that_is_stored_before_those_of_transactions_has_a_deadline_no_longer() -> None:
    queue = _written(("plain", 0, 0))
    queue.reserve(1, 10)
    queue.add(PendingSend("t", 1, 1, 1, 10, 30.0).in_transaction(TransactionId(0, 0)))
    queue.receipt(1, 0, (3, 4))
    assert queue.next_deadline() is None


def test_without_a_send_timeout_nothing_expires() -> None:
    queue = _queue()
    _add(queue, "patient", 0, deadline=None)
    assert queue.next_deadline() is None
    assert not queue.is_late(1e9)


def test_a_refused_message_in_mid_queue_fails_alone() -> None:
    queue = _written(("a", 0, 0), ("b", 1, 3), ("c", 4, 4))
    refused = queue.find(1, 2)
    assert refused is not None
    assert queue.fail(refused) == FailedSend("b", may_be_stored=False)
    assert queue.find(1, 2) is None
    assert [queue.receipt(1, sequence_id, (3, 4)) for sequence_id in (0, 4)] == [
        StoredSend("a", ((3, 4),), 0),
        StoredSend("c", ((3, 4),), 4),
    ]


def test_a_refusal_names_the_highest_id_so_a_message_with_an_id_from_the_range_of_a_batch_fails_alone() -> None:
    queue = _written(("batch", 5, 10), ("within", 7, 7))
    refused = queue.find(1, 7)
    assert refused is not None
    assert queue.fail(refused) == FailedSend("within", may_be_stored=False)
    assert queue.receipt(1, 5, (3, 4)) == StoredSend("batch", ((3, 4),), 10)


def test_a_refused_message_may_be_stored_from_an_earlier_connection() -> None:
    queue = _queue()
    item = _add(queue, "a", 0)
    for generation in (1, 2):
        queue.bind(generation, 0.0)
        queue.take_unwritten()
    assert queue.fail(item) == FailedSend("a", may_be_stored=True)


def test_ending_an_item_twice_is_an_error_and_frees_nothing() -> None:
    messages, memory = SendQuota(0), SendQuota(0)
    queue = PendingMessages[str](messages, memory)
    first = _add(queue, "a", 0)
    _add(queue, "b", 1)
    queue.bind(1, 0.0)
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
        PendingSend("bad", first, last, 1, 1, None)


CLOSED, UNKNOWN, BUG = AlreadyClosed("closed"), ConnectionLost("lost"), InternalError("a bug")
TERMINATED, BUSY = TopicTerminated("Over", "no"), ProducerBusy("Busy", "no")


@pytest.mark.parametrize(
    ("error", "may_be_stored", "told"),
    [
        (CLOSED, False, CLOSED),
        (CLOSED, True, OutcomeUnknown("it was sent, but the producer ended before the broker's receipt came: closed")),
        (UNKNOWN, False, ConnectError("it was not sent: lost")),
        (UNKNOWN, True, UNKNOWN),
        (BUG, False, BUG),
        (BUG, True, BUG),
        (TERMINATED, False, TERMINATED),
        (
            TERMINATED,
            True,
            TopicTerminatedBeforeReceipt(
                "Over", "it was sent, but the producer ended before the broker's receipt came: no"
            ),
        ),
        (BUSY, True, OutcomeUnknown("it was sent, but the producer ended before the broker's receipt came: Busy: no")),
    ],
    ids=repr,
)
def test_an_error_claims_to_know_of_an_item_what_is_known(
    error: PulsarException,
    may_be_stored: bool,  # noqa: FBT001 - a case
    told: PulsarException,
) -> None:
    found = FailedSend("token", may_be_stored).error_for(error)
    assert (type(found), str(found)) == (type(told), str(told))


def test_there_is_a_place_until_what_is_taken_and_what_waits_make_up_the_limit() -> None:
    quota = SendQuota(10)
    assert [waiting for waiting in range(20) if quota.has_place(waiting)] == list(range(10))
    quota.take(7)
    assert [waiting for waiting in range(20) if quota.has_place(waiting)] == [0, 1, 2]
    quota.free(7)
    assert quota.has_place(9)


def test_a_limit_of_0_is_no_limit() -> None:
    quota = SendQuota(0)
    quota.take(10**12)
    assert quota.has_place(10**12)


def test_freeing_more_than_was_taken_is_an_error_and_changes_nothing() -> None:
    quota = SendQuota(10)
    quota.take(5)
    quota.free(3)
    with pytest.raises(InternalError, match="something ended twice"):
        quota.free(3)
    assert quota.used == 2


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="-1"):
        SendQuota(-1)


@pytest.mark.parametrize(
    ("max_pending", "across", "partitions", "limit"),
    [(1000, 50_000, 10, 1000), (1000, 50_000, 100, 500), (1000, 10, 100, 1), (0, 50_000, 10, 5000), (1000, 0, 9, 1000)],
)
def test_pending_messages_are_shared_out_between_partitions(
    max_pending: int, across: int, partitions: int, limit: int
) -> None:
    assert pending_limit(max_pending, across, partitions) == limit


def test_no_limit_at_all_stays_no_limit() -> None:
    assert pending_limit(0, 0, 5) == 0


def test_a_flush_waits_for_as_many_as_were_pending_and_not_for_later_ones() -> None:
    flushes: PendingFlushes[str] = PendingFlushes()
    flushes.ask("first", 1)
    flushes.ask("second", 2)
    assert flushes.take_finished(2) == []
    flushes.heads_ended(1)
    assert flushes.take_finished(5) == ["first"]
    flushes.heads_ended(1)
    assert flushes.take_finished(5) == ["second"]


def test_with_nothing_pending_every_flush_is_finished_in_order() -> None:
    flushes: PendingFlushes[str] = PendingFlushes()
    flushes.ask("first", 1)
    flushes.ask("second", 2)
    assert flushes.take_finished(0) == ["first", "second"]
    assert flushes.take_finished(0) == []


@given(st.lists(st.sampled_from(["publish", "flush", "end", "fail last"]), max_size=40))
def test_a_flush_is_never_early_and_never_forgotten(steps: list[str]) -> None:
    flushes: PendingFlushes[int] = PendingFlushes()
    pending: list[int] = []
    waits_for: dict[int, set[int]] = {}
    for number, step in enumerate(steps):
        if step == "publish":
            pending.append(number)
        elif step == "flush":
            waits_for[number] = set(pending)
            flushes.ask(number, len(pending))
        elif step == "end" and pending:
            pending.pop(0)
            flushes.heads_ended(1)
        elif step == "fail last" and pending:
            pending.pop()
        for finished in flushes.take_finished(len(pending)):
            assert waits_for.pop(finished).isdisjoint(pending)
        assert pending or not waits_for


def test_messages_are_taken_until_the_limit_is_reached() -> None:
    memory = MemoryLimit(10)
    assert [memory.take(4) for _ in range(4)] == [True, True, True, False]
    assert memory.used == 12, "the one that reached the limit may pass it"


def test_a_message_over_the_whole_limit_finds_room_while_there_is_some() -> None:
    memory = MemoryLimit(10)
    memory.take(9)
    assert memory.take(1000)


def test_whoever_makes_room_learns_that_there_was_none() -> None:
    memory = MemoryLimit(10)
    memory.take(8)
    memory.take(8)
    assert [memory.free(4), memory.free(4), memory.free(4)] == [False, True, False]


def test_freeing_more_than_was_taken_is_an_error_and_changes_nothing_memory_limit() -> None:
    memory = MemoryLimit(10)
    memory.take(5)
    with pytest.raises(InternalError, match="something ended twice"):
        memory.free(6)
    assert memory.used == 5


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_a_positive_number(limit: int) -> None:
    with pytest.raises(InvalidArgument, match=str(limit)):
        MemoryLimit(limit)


@given(st.integers(1, 50), st.lists(st.integers(0, 30)))
def test_the_limit_is_passed_by_one_message_at_most(limit: int, sizes: list[int]) -> None:
    memory = MemoryLimit(limit)
    taken = [size for size in sizes if memory.take(size)]
    assert memory.used == sum(taken)
    assert sum(taken[:-1]) < limit
