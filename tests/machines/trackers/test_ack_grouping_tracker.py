import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.ack_grouping_tracker import (
    AckAnswer,
    AckGroup,
    AckGroupingTracker,
    AckOutcome,
    AckReceipts,
    corrupt_group,
    id_fault,
)
from pulsar_actors.machines.trackers.chunked_messages import ChunkedMessages
from pulsar_actors.machines.trackers.entry_map import LAST_ID, Generation, is_real
from pulsar_actors.wire.message_id import EARLIEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck

NOW = Generation()
EntryKey = tuple[int, int]


def plain(entry: int) -> MessageId:
    return MessageId(1, entry)


def batched(entry: int, index: int, size: int = 4) -> MessageId:
    return MessageId(1, entry, -1, index, size)


class NeighbouringChunks:
    """Chunks that nothing lies between; `unread` is the first that is not read."""

    unread: EntryKey | None = None

    def take_chunks_of(self, message_id: MessageId) -> list[EntryKey]:
        assert message_id.first_chunk is not None
        return [(1, entry) for entry in range(message_id.first_chunk.entry_id, message_id.entry_id + 1)]

    def first_unread(self, up_to: EntryKey) -> EntryKey | None:
        return self.unread


def groups(*, batch_index_acks: bool = False, receipts: bool = False) -> AckGroupingTracker:
    return AckGroupingTracker(NeighbouringChunks(), batch_index_acks=batch_index_acks, receipts=receipts)


def drained(acks: AckGroupingTracker) -> list[tuple[bool, dict[EntryKey, int]]]:
    return [(group.cumulative, dict(group.entries)) for group in acks.drain()]


def test_what_is_held_goes_out_in_commands_of_a_thousand_entries() -> None:
    acks = groups()
    assert not acks.is_holding
    acks.acknowledge([plain(entry) for entry in range(2500)], NOW)
    assert acks.is_holding
    assert [len(group.entries) for group in acks.drain()] == [1000, 1000, 500]
    assert not acks.is_holding
    assert acks.drain() == []


def test_a_batch_goes_out_when_its_last_message_is_acknowledged() -> None:
    acks = groups()
    assert acks.acknowledge([batched(3, index) for index in (0, 2, 3)], NOW).entries == []
    assert acks.drain() == []
    assert acks.unacknowledged_of((1, 3), 0b1111) == 0b0010
    assert acks.acknowledge([batched(3, 1)], NOW).entries == [(1, 3)]
    acks.acknowledge([batched(3, 1)], NOW)
    assert drained(acks) == [(False, {(1, 3): 0})]


def test_a_batch_with_index_acks_goes_out_as_what_is_missing() -> None:
    acks = groups(batch_index_acks=True)
    acks.acknowledge([batched(3, 1)], NOW)
    assert drained(acks) == [(False, {(1, 3): 0b1101})]
    acks.acknowledge([batched(3, index) for index in (0, 2, 3)], NOW)
    assert drained(acks) == [(False, {(1, 3): 0})]


def test_what_the_broker_withholds_is_not_waited_for_and_not_acknowledged_either() -> None:
    acks = groups()
    acks.note_delivery((1, 3), 0b1000, 4)
    assert acks.acknowledge([batched(3, 3)], NOW).entries == [(1, 3)]
    assert drained(acks) == [(False, {(1, 3): 0b0111})], "somebody may have it in a transaction that is aborted"
    acks.note_delivery((1, 3), 0b0100, 4)
    assert acks.unacknowledged_of((1, 3), 0b0100) == 0b0100
    assert acks.acknowledge([batched(3, 2)], NOW).entries == [(1, 3)]
    assert drained(acks) == [(False, {(1, 3): 0b1011})]


@pytest.mark.parametrize("receipts", [False, True])
@pytest.mark.parametrize("is_sent", [False, True])
def test_what_the_broker_withholds_is_not_acknowledged_by_a_message_of_an_earlier_delivery(
    *, receipts: bool, is_sent: bool
) -> None:
    acks = groups(receipts=receipts)
    acks.note_delivery((1, 3), 0b1100, 4)
    acks.note_delivery((1, 3), 0b0100, 4)
    acks.acknowledge([batched(3, 2)], NOW)
    said = drained(acks) if is_sent else []
    acks.acknowledge([batched(3, 3)], NOW)
    said += drained(acks)
    assert said
    assert all(left & 0b0011 == 0b0011 for _, entries in said for left in entries.values()), said


def test_an_acknowledgement_of_a_whole_entry_leaves_out_what_the_broker_withholds() -> None:
    acks = groups()
    acks.note_delivery((1, 3), 0b1100, 4)
    acks.acknowledge([MessageId(1, 3)], NOW)
    assert drained(acks) == [(False, {(1, 3): 0b0011})]


@pytest.mark.parametrize("batch_index_acks", [False, True])
def test_what_a_broker_has_left_out_of_a_batch_may_come_later_and_is_never_acknowledged_for_it(
    batch_index_acks: bool,  # noqa: FBT001 - a case
) -> None:
    """It may be pending in a transaction, which is then aborted."""
    acks = groups(batch_index_acks=batch_index_acks)
    acks.note_delivery((1, 3), 0b1110, 4)
    assert acks.acknowledge([batched(3, 1)], NOW).entries == []
    assert drained(acks) == ([(False, {(1, 3): 0b1101})] if batch_index_acks else [])
    acks.note_delivery((1, 3), 0b1101, 4)
    assert acks.unacknowledged_of((1, 3), 0b1101) == 0b1101
    acks.note_delivery((1, 3), 0b1111, 4)
    assert acks.acknowledge([batched(3, index) for index in (2, 3)], NOW).entries == []
    assert acks.acknowledge([batched(3, 0)], NOW).entries == [(1, 3)]


def test_a_batch_that_is_redelivered_is_counted_anew() -> None:
    acks = groups()
    acks.acknowledge([batched(3, index) for index in range(3)], NOW)
    acks.forget([(1, 3), (1, 4)])
    assert acks.acknowledge([batched(3, 3)], NOW).entries == []


def test_cumulative_in_mid_batch_acknowledges_the_entry_before() -> None:
    acks = groups()
    assert acks.acknowledge_up_to(batched(3, 1), NOW) == AckOutcome(up_to=(1, 2))
    assert drained(acks) == [(True, {(1, 2): 0})]
    acks.acknowledge_up_to(batched(3, 2), NOW)
    assert acks.drain() == [], "the entry before has been said"
    acks.acknowledge([batched(3, 3)], NOW)
    assert drained(acks) == [(False, {(1, 3): 0})]


def test_cumulative_in_mid_batch_with_index_acks_says_what_is_missing() -> None:
    acks = groups(batch_index_acks=True)
    acks.acknowledge_up_to(batched(3, 1), NOW)
    assert drained(acks) == [(True, {(1, 3): 0b1100})]
    assert acks.acknowledge_up_to(batched(3, 3), NOW).up_to == (1, 3)
    assert drained(acks) == [(True, {(1, 3): 0})]


def test_the_furthest_cumulative_ack_goes_out_alone() -> None:
    acks = groups()
    acks.acknowledge([batched(2, 0)], NOW)
    for entry in (5, 9, 7):
        acks.acknowledge_up_to(plain(entry), NOW)
    assert acks.unacknowledged_of((1, 2), 0b1111) == 0b1111, "nobody will ask for the set again"
    assert drained(acks) == [(True, {(1, 9): 0})]


def test_what_is_held_is_not_delivered_again() -> None:
    acks = groups(batch_index_acks=True)
    acks.acknowledge([plain(1), batched(2, 1)], NOW)
    assert [acks.is_acknowledged((1, entry)) for entry in (1, 2, 3)] == [True, False, False]
    assert acks.unacknowledged_of((1, 2), 0b1111) == 0b1101
    acks.drain()
    assert not acks.is_acknowledged((1, 1))
    acks.acknowledge_up_to(batched(5, 1), NOW)
    assert [acks.is_acknowledged((1, entry)) for entry in (4, 5)] == [True, False]
    assert acks.unacknowledged_of((1, 5), 0b1111) == 0b1100


def test_a_chunked_message_is_acknowledged_with_every_chunk() -> None:
    acks = groups()
    chunked = MessageId(1, 6, first_chunk=MessageId(1, 4))
    assert acks.acknowledge([chunked], NOW).entries == [(1, 4), (1, 5), (1, 6)]
    assert drained(acks) == [(False, {(1, 4): 0, (1, 5): 0, (1, 6): 0})]
    assert acks.acknowledge_up_to(chunked, NOW).up_to == (1, 6)


def test_a_receipt_ends_the_tokens_of_its_group() -> None:
    acks = groups(receipts=True)
    assert acks.acknowledge([plain(1), batched(2, 0)], NOW, ["a", "b"]).tokens == ("b",)
    assert acks.acknowledge_up_to(plain(0), NOW, "c").tokens == ()
    first, second = acks.drain()
    acks.awaits(1, first)
    acks.awaits(2, second)
    assert acks.answered(1, failed=False).tokens == ("c",)
    assert acks.answered(2, failed=False).tokens == ("a",)
    assert acks.answered(2, failed=False) == AckAnswer(), "late"
    assert acks.acknowledge_up_to(plain(0), NOW, "d").tokens == ("d",)


def test_without_receipts_tokens_end_at_once() -> None:
    acks = groups()
    assert acks.acknowledge([plain(1)], NOW, ["a"]).tokens == ("a",)
    assert acks.acknowledge_up_to(plain(1), NOW, "b").tokens == ("b",)


def test_a_failed_cumulative_ack_is_not_marked_done() -> None:
    acks = groups(receipts=True)
    for request_id in (1, 2):
        acks.acknowledge_up_to(batched(3, 3), NOW, "token")
        (group,) = acks.drain()
        acks.awaits(request_id, group)
        assert dict(group.entries) == {(1, 3): 0}
        assert acks.is_acknowledged((1, 3))
        assert acks.answered(request_id, failed=True).tokens == ("token",)
        assert not acks.is_acknowledged((1, 3))


def test_a_failed_ack_can_be_made_again() -> None:
    acks = groups(receipts=True)
    acks.acknowledge([batched(3, index) for index in range(4)], NOW, list("abcd"))
    (group,) = acks.drain()
    acks.awaits(1, group)
    assert acks.answered(1, failed=True).tokens == ("d",)
    assert acks.unacknowledged_of((1, 3), 0b1111) == 0b1000
    acks.acknowledge([batched(3, 3)], NOW, ["e"])
    (group,) = acks.drain()
    assert dict(group.entries) == {(1, 3): 0}
    acks.awaits(2, group)
    acks.acknowledge([plain(3)], NOW, ["f"])
    assert acks.answered(2, failed=True).tokens == ("e",)
    assert acks.unacknowledged_of((1, 3), 0b1111) == 0b1111, "it is held whole by now"


def test_a_disconnect_sends_again_what_is_unanswered() -> None:
    acks = groups(receipts=True)
    acks.acknowledge([plain(7)], NOW, ["a"])
    acks.acknowledge_up_to(plain(5), NOW, "b")
    for request_id, group in enumerate(acks.drain()):
        acks.awaits(request_id, group)
    acks.acknowledge_up_to(plain(6), NOW, "c")
    acks.disconnected()
    assert acks.answered(0, failed=False) == AckAnswer()
    assert acks.is_acknowledged((1, 7))
    cumulative, single = acks.drain()
    assert (dict(cumulative.entries), dict(single.entries)) == ({(1, 6): 0}, {(1, 7): 0})
    acks.awaits(10, cumulative)
    acks.awaits(11, single)
    assert sorted(acks.answered(10, failed=False).tokens) == ["b", "c"]
    assert acks.answered(11, failed=False).tokens == ("a",)


def test_after_a_disconnect_the_broker_decides_what_comes_again() -> None:
    acks = groups()
    acks.acknowledge_up_to(plain(5), NOW)
    acks.drain()
    assert acks.is_acknowledged((1, 5))
    acks.disconnected()
    assert not acks.is_acknowledged((1, 5))


def test_acks_of_messages_from_before_a_seek_are_void() -> None:
    acks = groups(receipts=True)
    acks.acknowledge([plain(1)], NOW, ["a"])
    after = NOW.sought()
    assert acks.sought(after) == ("a",)
    assert acks.acknowledge([plain(1)], NOW, ["b"]).tokens == ("b",)
    assert acks.acknowledge([plain(1)], NOW).tokens == ()
    assert acks.acknowledge_up_to(plain(1), NOW, "c").tokens == ("c",)
    assert acks.drain() == []
    acks.acknowledge([plain(1)], after.attached_to(1), ["d"])
    assert len(acks.drain()) == 1


def test_abandoned_tokens_are_given_back() -> None:
    acks = groups(receipts=True)
    acks.acknowledge([plain(1)], NOW, ["a"])
    acks.awaits(1, acks.drain()[0])
    acks.acknowledge([plain(2)], NOW, ["b"])
    assert acks.drop_all() == (("b",), ("a",))
    assert acks.drop_all() == ((), ())


@pytest.mark.parametrize("cumulative", [False, True])
def test_what_was_sent_on_a_lost_connection_may_have_been_done(*, cumulative: bool) -> None:
    acks = groups(receipts=True)
    if cumulative:
        acks.acknowledge_up_to(plain(1), NOW, "a")
    else:
        acks.acknowledge([plain(1)], NOW, ["a"])
    acks.awaits(1, acks.drain()[0])
    acks.disconnected()
    acks.acknowledge([plain(2)], NOW, ["b"])
    assert acks.drop_all() == (("b",), ("a",))


@pytest.mark.parametrize("is_void", [False, True])
def test_what_is_no_message_fails_alone(*, is_void: bool) -> None:
    acks = groups(receipts=True)
    generation = NOW
    if is_void:
        acks.sought(NOW.sought())
    wrong = batched(1, 4)
    outcome = acks.acknowledge([plain(8), wrong, plain(9)], generation, list("abc"))
    assert [(token, type(fault)) for token, fault in outcome.faults] == [("b", InvalidArgument)]
    assert outcome.tokens == (("a", "c") if is_void else ())
    assert outcome.entries == ([] if is_void else [(1, 8), (1, 9)])
    outcome = acks.acknowledge_up_to(wrong, generation, "d")
    assert [token for token, _ in outcome.faults] == ["d"]
    assert drained(acks) == ([] if is_void else [(False, {(1, 8): 0, (1, 9): 0})])


def test_without_tokens_what_is_no_message_still_fails_alone() -> None:
    acks = groups()
    outcome = acks.acknowledge([plain(8), MessageId(-1, -1)], NOW)
    assert [token for token, _ in outcome.faults] == [None]
    assert drained(acks) == [(False, {(1, 8): 0})]


def knows(acks: AckGroupingTracker, entry: int = 3) -> bool:
    try:
        return acks.known_id(MessageId(1, entry, -1, 2)).batch_size == 4
    except InvalidArgument:
        return False


def with_batch(**options: bool) -> AckGroupingTracker:
    acks = groups(**options)
    acks.note_delivery((1, 3), 0b1111, 4)
    assert knows(acks)
    return acks


def test_an_id_without_the_size_of_its_batch_gets_it_until_the_batch_is_acknowledged() -> None:
    acks = with_batch()
    for index in range(3):
        acks.acknowledge([batched(3, index)], NOW)
        assert knows(acks)
    acks.acknowledge([acks.known_id(MessageId(1, 3, -1, 3))], NOW)
    assert not knows(acks)
    assert drained(acks) == [(False, {(1, 3): 0})]


def test_a_cumulative_ack_forgets_the_sizes_of_the_batches_that_it_covers() -> None:
    acks = with_batch()
    acks.acknowledge_up_to(batched(3, 1), NOW)
    assert knows(acks)
    acks.acknowledge_up_to(plain(4), NOW)
    assert not knows(acks)


def test_a_batch_that_a_transaction_has_acknowledged_is_known_again_after_its_abort() -> None:
    acks = with_batch()
    acks.acknowledge_in_transaction({(1, 3): (0b0001, 4)}, cumulative=False)
    assert knows(acks)
    acks.acknowledge_in_transaction({(1, 3): (0, 4)}, cumulative=False)
    assert not knows(acks)
    acks.note_delivery((1, 3), 0b1111, 4)
    assert knows(acks)


def test_after_a_seek_no_batch_is_known() -> None:
    acks = with_batch()
    acks.sought(NOW.sought())
    assert not knows(acks)


@pytest.mark.parametrize("failed", [False, True])
def test_a_batch_whose_acknowledgement_is_refused_is_known_again(*, failed: bool) -> None:
    acks = with_batch(receipts=True)
    acks.acknowledge([batched(3, index) for index in range(4)], NOW)
    (group,) = acks.drain()
    acks.awaits(1, group)
    acks.answered(1, failed=failed)
    assert knows(acks) is failed


def test_an_id_that_names_no_message_is_not_known() -> None:
    acks = with_batch()
    for wrong in (MessageId(1, 3, -1, 4), batched(3, 4), MessageId(1, -1)):
        with pytest.raises(InvalidArgument, match="is no message"):
            acks.known_id(wrong)
    for right in (plain(3), batched(5, 0), EARLIEST):
        assert acks.known_id(right) is right


def test_the_largest_batch_follows_from_the_largest_message() -> None:
    acks = AckGroupingTracker(ChunkedMessages(max_size=100))
    acks.largest_batch = 10
    assert not acks.acknowledge([batched(1, 9, 10)], NOW).faults
    ((_, fault),) = acks.acknowledge([batched(1, 9, 11)], NOW).faults
    assert "at most 10, not 11" in str(fault)


def test_an_id_that_nobody_put_together_acknowledges_the_ends_that_it_knows() -> None:
    acks = AckGroupingTracker(ChunkedMessages(max_size=100))
    acks.acknowledge([MessageId(1, 6, first_chunk=MessageId(1, 4))], NOW)
    assert drained(acks) == [(False, {(1, 4): 0, (1, 6): 0})]


@pytest.mark.parametrize("receipts", [False, True])
def test_what_is_held_of_a_batch_is_said_although_it_is_redelivered(*, receipts: bool) -> None:
    acks = groups(batch_index_acks=True, receipts=receipts)
    acks.acknowledge([batched(4, 0)], NOW)
    acks.forget([(1, 4)])
    assert acks.unacknowledged_of((1, 4), 0b1111) == 0b1110
    acks.acknowledge([batched(4, 2)], NOW)
    assert drained(acks) == [(False, {(1, 4): 0b1010})]


def test_what_is_held_of_a_batch_is_said_although_a_cumulative_ack_has_passed_it() -> None:
    acks = groups(batch_index_acks=True, receipts=True)
    acks.acknowledge([batched(4, 0)], NOW)
    acks.acknowledge_up_to(plain(5), NOW)
    acks.acknowledge([batched(4, 2)], NOW)
    assert drained(acks) == [(True, {(1, 5): 0}), (False, {(1, 4): 0b1010})]


def test_a_cumulative_ack_in_mid_batch_counts_what_is_held_of_it() -> None:
    acks = groups(batch_index_acks=True)
    acks.acknowledge([batched(4, 3)], NOW)
    acks.forget([(1, 4)])
    acks.acknowledge_up_to(batched(4, 2), NOW)
    assert drained(acks) == [(True, {(1, 4): 0}), (False, {(1, 4): 0b0111})]


def test_a_refusal_names_the_entries_that_are_not_acknowledged() -> None:
    acks = groups(receipts=True)
    chunked = MessageId(1, 9, first_chunk=MessageId(1, 7))
    acks.acknowledge_up_to(plain(2), NOW)
    acks.acknowledge([chunked, plain(4), plain(5)], NOW)
    for number, group in enumerate(acks.drain()):
        acks.awaits(number, group)
    acks.acknowledge([plain(5)], NOW)
    assert acks.answered(0, failed=True).refused == ((1, 2),)
    assert acks.answered(1, failed=True).refused == ((1, 7), (1, 8), (1, 9), (1, 4)), "the other is held again"


def test_how_far_batches_got_is_forgotten_when_a_whole_binding_has_not_touched_them() -> None:
    acks = groups()
    acks.acknowledge([batched(entry, 0) for entry in range(3)], NOW)
    acks.rebound()
    acks.acknowledge([batched(0, 1)], NOW)
    assert acks.unacknowledged_of((1, 1), 0b1111) == 0b1110
    acks.rebound()
    assert [acks.unacknowledged_of((1, entry), 0b1111) for entry in range(3)] == [0b1100, 0b1110, 0b1111]


def test_an_ack_costs_no_more_when_many_are_held() -> None:
    acks = groups(receipts=True)
    acks.acknowledge([batched(entry, 0) for entry in range(1000, 3000)], NOW)
    Counted.comparisons = 0
    for entry in range(1000):
        acks.acknowledge_up_to(MessageId(1, Counted(entry)), NOW, entry)
    assert Counted.comparisons < 100 * 1000, "each looked through all that is kept"
    assert len(acks.drain()[0].acknowledged) == 1000


class Counted(int):
    """A number that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) > other

    __hash__ = int.__hash__


def test_a_refused_ack_of_a_batch_that_is_redelivered_leaves_all_of_it_missing() -> None:
    acks = groups(batch_index_acks=True, receipts=True)
    acks.acknowledge([batched(4, 0)], NOW)
    acks.forget([(1, 4)])
    (group,) = acks.drain()
    acks.awaits(1, group)
    acks.answered(1, failed=True)
    acks.acknowledge([batched(4, 1)], NOW)
    assert drained(acks) == [(False, {(1, 4): 0b1101})]


def test_each_refused_ack_of_a_batch_counts_as_never_made() -> None:
    acks = groups(batch_index_acks=True, receipts=True)
    acks.acknowledge([batched(4, 0)], NOW, ["a"])
    (first,) = acks.drain()
    acks.acknowledge([batched(4, index) for index in (1, 2, 3)], NOW, list("bcd"))
    (second,) = acks.drain()
    acks.awaits(1, first)
    acks.awaits(2, second)
    acks.answered(1, failed=True)
    assert acks.unacknowledged_of((1, 4), 0b1111) == 0b0001
    acks.answered(2, failed=True)
    acks.acknowledge([batched(4, 3)], NOW)
    assert drained(acks) == [(False, {(1, 4): 0b0111})]


def test_a_refused_cumulative_ack_takes_back_what_it_covers_of_its_batch_and_no_more() -> None:
    acks = groups(receipts=True)
    acks.acknowledge([batched(3, 3)], NOW)
    acks.acknowledge_up_to(batched(3, 2), NOW)
    (group,) = acks.drain()
    acks.awaits(1, group)
    acks.answered(1, failed=True)
    assert acks.unacknowledged_of((1, 3), 0b1111) == 0b0111


def test_a_batch_that_is_complete_stays_so_when_more_of_it_is_acknowledged_before_the_answer() -> None:
    acks = groups(receipts=True)
    acks.acknowledge([batched(3, index) for index in range(4)], NOW)
    (group,) = acks.drain()
    acks.awaits(1, group)
    assert acks.acknowledge_up_to(batched(3, 1), NOW).up_to == (1, 3)


@pytest.mark.parametrize("failed", [False, True])
def test_nothing_is_kept_of_batches_once_they_are_answered(*, failed: bool) -> None:
    acks = groups(receipts=True)
    acks.acknowledge_up_to(batched(3, 3), NOW)
    acks.acknowledge_up_to(plain(2), NOW)
    acks.acknowledge([plain(4), *(batched(5, index) for index in range(4))], NOW)
    for request_id, group in enumerate(acks.drain()):
        acks.awaits(request_id, group)
    for request_id in (0, 1):
        acks.answered(request_id, failed=failed)
    assert acks.unacknowledged_of((1, 5), 0b1111) == (0b1000 if failed else 0b1111)
    assert len(acks._unacknowledged._values) == failed  # what is kept shows nowhere else


SIZES = {0: 1, 1: 3, 2: 1, 3: 2, 4: 4}
MESSAGES = [(entry, index) for entry, size in SIZES.items() for index in range(size)]


class AcksAgainstABroker(RuleBasedStateMachine):
    """A broker that applies commands, and a user who knows what was acknowledged."""

    @initialize(batch_index_acks=st.booleans(), receipts=st.booleans())
    def start(self, *, batch_index_acks: bool, receipts: bool) -> None:
        self.acks = groups(batch_index_acks=batch_index_acks, receipts=receipts)
        self.user: set[tuple[int, int]] = set()
        self.broker: set[tuple[int, int]] = set()
        self.said: set[tuple[int, int]] = set()
        self.tokens: dict[int, set[tuple[int, int]]] = {}  # what each says is acknowledged
        self.count = 0
        self.on_the_way: dict[int, AckGroup] = {}

    def message_id(self, entry: int, index: int) -> MessageId:
        return plain(entry) if SIZES[entry] == 1 else batched(entry, index, SIZES[entry])

    def token(self, covered: set[tuple[int, int]]) -> int:
        self.count += 1
        self.tokens[self.count] = covered
        return self.count

    def end(self, tokens: tuple[int, ...], *, done: bool = False) -> None:
        for token in tokens:
            covered = self.tokens.pop(token)
            assert not (done and self.acks.batch_index_acks) or covered <= self.broker, "said to be done, and is not"

    @rule(message=st.sampled_from(MESSAGES))
    def acknowledge(self, message: tuple[int, int]) -> None:
        self.user.add(message)
        self.end(self.acks.acknowledge([self.message_id(*message)], NOW, [self.token({message})]).tokens)

    @rule(message=st.sampled_from(MESSAGES))
    def acknowledge_up_to(self, message: tuple[int, int]) -> None:
        covered = {one for one in MESSAGES if one <= message}
        self.user |= covered
        self.end(self.acks.acknowledge_up_to(self.message_id(*message), NOW, self.token(covered)).tokens)

    @rule(entry=st.sampled_from(list(SIZES)))
    def redeliver(self, entry: int) -> None:
        self.acks.forget([(1, entry)])

    @rule()
    def drain(self) -> None:
        for group in self.acks.drain():
            self.count += 1
            if self.acks.receipts:
                self.acks.awaits(self.count, group)
            self.on_the_way[self.count] = group
            self.said |= self.covered(group)
        assert not self.acks.batch_index_acks or self.user <= self.said, "something was never said"

    def covered(self, group: AckGroup) -> set[tuple[int, int]]:
        """What a broker does at the word of a command."""
        covered: set[tuple[int, int]] = set()
        for (_, entry), unacknowledged in group.entries:
            covered |= {(entry, index) for index in range(SIZES.get(entry, 0)) if not unacknowledged >> index & 1}
            if group.cumulative:
                covered |= {one for one in MESSAGES if one[0] < entry}
        return covered

    @precondition(lambda self: self.on_the_way)
    @rule(data=st.data(), failed=st.booleans())
    def answer(self, data: st.DataObject, *, failed: bool) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.on_the_way)))
        group = self.on_the_way.pop(request_id)
        covered = self.covered(group)
        assert covered <= self.user, "an acknowledgement of something that the user has not acknowledged"
        self.broker |= set() if failed else covered
        self.end(self.acks.answered(request_id, failed=failed).tokens, done=not failed)

    @rule()
    def disconnect(self) -> None:
        self.on_the_way.clear()
        self.acks.disconnected()

    @rule()
    def rebound(self) -> None:
        self.acks.rebound()

    @invariant()
    def nothing_is_filtered_that_the_user_has_not_acknowledged(self) -> None:
        for entry, size in SIZES.items():
            if self.acks.is_acknowledged((1, entry)):
                assert {(entry, index) for index in range(size)} <= self.user

    def teardown(self) -> None:
        self.drain()
        self.end([token for tokens in self.acks.drop_all() for token in tokens])
        assert not self.tokens, "a token was forgotten"


TestAcksAgainstABroker = AcksAgainstABroker.TestCase
TestAcksAgainstABroker.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 0b1111)), max_size=8), st.booleans())
def test_sets_of_messages_are_acknowledged_as_they_are_one_by_one(sets: list[tuple[int, int]], indexed: object) -> None:
    at_once, one_by_one = groups(batch_index_acks=bool(indexed)), groups(batch_index_acks=bool(indexed))
    for entry, messages in sets:
        ids = [batched(entry, index) for index in range(4) if messages >> index & 1]
        whole = at_once.acknowledge_parts([(MessageId(1, entry, batch_size=4), messages)], NOW)
        assert whole == one_by_one.acknowledge(ids, NOW)
    assert drained(at_once) == drained(one_by_one)


def test_sets_of_messages_from_before_a_seek_are_void_and_those_of_no_entry_count_for_nothing() -> None:
    acks = groups()
    assert acks.acknowledge_parts([(MessageId(-1, 5, batch_size=4), 0b1111)], NOW) == AckOutcome([])
    acks.sought(NOW.sought())
    assert acks.acknowledge_parts([(MessageId(1, 5, batch_size=4), 0b1111)], NOW) == AckOutcome([])
    assert drained(acks) == []


def test_a_group_is_written_with_what_is_missing_of_each_entry() -> None:
    command = AckGroup((((7, 1), 0), ((7, 2), 0b110))).command(5)
    assert command.consumer_id == 5
    assert command.ack_type == CommandAck.AckType.Individual
    assert [(one.ledgerId, one.entryId, list(one.ack_set)) for one in command.message_id] == [(7, 1, []), (7, 2, [6])]
    assert not command.HasField("validation_error")


def test_a_cumulative_group_before_the_first_entry_travels_unsigned() -> None:
    command = AckGroup((((7, -1), 0),), cumulative=True).command(5)
    assert command.ack_type == CommandAck.AckType.Cumulative
    assert command.message_id[0].entryId == 2**64 - 1
    assert not command.HasField("request_id")


def test_a_corrupt_entry_is_acknowledged_with_its_reason() -> None:
    error = CommandAck.ValidationError.DecompressionError
    command = corrupt_group([(7, 1)], error).command(5)
    assert command.validation_error == error
    assert command.ack_type == CommandAck.AckType.Individual


def test_entries_whose_ids_stand_for_none_or_do_not_fit_are_not_real() -> None:
    assert all(map(is_real, [(0, 0), (LAST_ID, LAST_ID), (5, 0)]))
    assert not any(map(is_real, [(-1, 0), (0, -1), (-1, -1), (LAST_ID + 1, 0), (0, LAST_ID + 1)]))


LARGEST = 873_813


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (MessageId(1, 1, -1, 0, 0), "not 0"),
        (MessageId(1, 1, -1, 4, 4), "not 4"),
        (MessageId(1, 1, -1, -7, 4), "batch_index"),
        (MessageId(1, 1, -1, 0, 2**31 - 1), "at most 873,813, not 2,147,483,647"),
        (MessageId(1, 1, -1, 0, 2**40), "at most 873,813, not 1,099,511,627,776"),
        (MessageId(2**63, 0), "(9223372036854775808,0,-1,-1) is no message: the ids"),
        (MessageId(1, 2**63), "the ids"),
        (MessageId(-1, 0), "the ids"),
        (MessageId(0, -1), "the ids"),
        (MessageId(1, 5, first_chunk=MessageId(1, -1)), "the ids"),
    ],
)
def test_what_no_message_can_be_is_named_with_what_is_wrong(wrong: MessageId, why: str) -> None:
    error = id_fault(wrong, LARGEST)
    assert isinstance(error, InvalidArgument)
    assert why in str(error)


@pytest.mark.parametrize(
    "right",
    [
        MessageId(0, 0),
        MessageId(2**63 - 1, 2**63 - 1),
        MessageId(1, 1, -1, LARGEST - 1, LARGEST),
        MessageId(1, 5, first_chunk=MessageId(1, 0)),
    ],
)
def test_what_may_be_a_message_has_no_fault(right: MessageId) -> None:
    assert id_fault(right, LARGEST) is None


def test_each_is_told_once() -> None:
    receipts = AckReceipts(5.0)
    receipts.awaited(("a", "b"), 1.0)
    assert receipts.ended(("a", "a", "x")) == ("a",)
    assert receipts.ended(("a",)) == ()
    assert receipts.expire(100.0) == ("b",)
    assert receipts.ended(("b",)) == ()


def test_who_has_waited_longest_is_late_first() -> None:
    receipts = AckReceipts(5.0)
    assert receipts.next_deadline() is None
    receipts.awaited(("a",), 1.0)
    receipts.awaited(("b",), 2.0)
    assert receipts.next_deadline() == 6.0
    assert receipts.expire(5.9) == ()
    assert receipts.expire(6.0) == ("a",)
    assert receipts.next_deadline() == 7.0


def unread(entry: EntryKey) -> NeighbouringChunks:
    chunks = NeighbouringChunks()
    chunks.unread = entry
    return chunks


def sent_up_to(acks: AckGroupingTracker) -> list[EntryKey]:
    return [group.position[:2] for group in acks.drain() if group.cumulative]


def test_a_cumulative_acknowledgement_stops_before_a_message_that_is_not_read_and_goes_on_when_it_is() -> None:
    chunks = unread((1, 4))
    acks = AckGroupingTracker(chunks)
    acks.acknowledge_up_to(plain(9), NOW)
    assert sent_up_to(acks) == [(1, 3)]
    assert sent_up_to(acks) == []
    assert acks.is_holding_cumulative
    assert acks.is_acknowledged((1, 9)), "it is not delivered again"
    acks.disconnected()
    assert sent_up_to(acks) == [(1, 3)]
    chunks.unread = (1, 7)
    assert sent_up_to(acks) == [(1, 6)]
    chunks.unread = None
    assert sent_up_to(acks) == [(1, 9)]
    assert not acks.is_holding_cumulative


def test_the_receipt_of_an_acknowledgement_that_is_held_back_is_that_of_the_whole() -> None:
    chunks = unread((1, 4))
    acks = AckGroupingTracker(chunks, receipts=True)
    assert acks.acknowledge_up_to(plain(9), NOW, "token").tokens == ()
    (part,) = acks.drain()
    acks.awaits(1, part)
    assert sent_up_to(acks) == [], "the part is under way"
    assert acks.answered(1, failed=False).tokens == ()
    chunks.unread = None
    (whole,) = acks.drain()
    acks.awaits(2, whole)
    assert acks.answered(2, failed=False).tokens == ("token",)


def test_an_acknowledgement_that_is_held_back_at_the_end_was_never_sent() -> None:
    acks = AckGroupingTracker(unread((1, 4)), receipts=True)
    acks.acknowledge_up_to(plain(9), NOW, "token")
    acks.drain()
    assert acks.drop_all() == (("token",), ())
    assert not acks.is_holding_cumulative
