from collections.abc import Sequence

import pytest

from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.transactional_acks import (
    TransactionalAck,
    TransactionalAcks,
    transactional_command,
)
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck
from pulsar_actors.wire.transaction_id import TransactionId

ID = TransactionId(0, 0)


def ack(*message_ids: MessageId, cumulative: bool = False, token: str = "token") -> TransactionalAck:
    return TransactionalAck(Generation(), message_ids, cumulative, ID, token)


def one_by_one(message_id: MessageId) -> Sequence[tuple[int, int]]:
    return [message_id.position]


def written(given: TransactionalAck) -> CommandAck:
    return transactional_command(7, given, given.left(one_by_one))


def named(command: CommandAck) -> list[tuple[int, list[int], int]]:
    """Return the entry, the set and the size of the batch of each id, -1 where there is none."""
    return [
        (one.entryId, list(one.ack_set), one.batch_size if one.HasField("batch_size") else -1)
        for one in command.message_id
    ]


def in_batch(entry: int, index: int, size: int = 4) -> MessageId:
    return MessageId(1, entry, -1, index, size)


def test_the_first_transaction_of_a_cluster_is_named_although_both_parts_of_its_id_are_zero() -> None:
    command = written(ack(MessageId(1, 5)))
    assert command.HasField("txnid_most_bits")
    assert command.HasField("txnid_least_bits")
    assert (command.consumer_id, command.ack_type) == (7, CommandAck.Individual)
    assert named(command) == [(5, [], -1)]


def test_messages_of_a_batch_are_one_id_with_the_set_of_the_others_and_the_size() -> None:
    assert named(written(ack(in_batch(5, 0), in_batch(5, 3)))) == [(5, [0b0110], 4)]


def test_a_batch_whose_messages_are_all_there_is_a_whole_entry() -> None:
    assert named(written(ack(*(in_batch(5, index) for index in range(4))))) == [(5, [], -1)]


def test_an_acknowledgement_does_not_repeat_an_earlier_one_of_its_transaction() -> None:
    written(ack(in_batch(5, 0)))
    assert named(written(ack(in_batch(5, 1)))) == [(5, [0b1101], 4)]


@pytest.mark.parametrize(("index", "expected"), [(1, (5, [0b1100], 4)), (3, (5, [], -1))])
def test_a_cumulative_one_names_what_comes_after_it_in_its_batch(
    index: int, expected: tuple[int, list[int], int]
) -> None:
    command = written(ack(in_batch(5, index), cumulative=True))
    assert (command.ack_type, named(command)) == (CommandAck.Cumulative, [expected])


def test_of_a_chunked_message_each_chunk_is_named_and_cumulatively_the_last() -> None:
    chunked = MessageId(1, 9, first_chunk=MessageId(1, 7))
    chunks = [(1, 7), (1, 8), (1, 9)]
    assert list(ack(chunked).left(lambda _: chunks)) == chunks
    assert list(ack(chunked, cumulative=True).left(lambda _: chunks)) == [(1, 9)]


def test_what_is_no_message_is_refused() -> None:
    assert ack(MessageId(1, 5)).fault(100) is None
    assert "is no message" in str(ack(MessageId(1, 5), MessageId(-1, -1)).fault(100))


def test_each_that_was_sent_has_one_answer() -> None:
    acks = TransactionalAcks()
    first, second = acks.sent(ack(MessageId(1, 5), token="a")), acks.sent(ack(MessageId(1, 6), token="b"))
    assert acks.answered(second) == ("b",)
    assert acks.answered(second) == ()
    assert acks.drop_unanswered() == ("a",)
    assert acks.answered(first) == ()


def test_those_whose_callers_have_given_up_are_not_sent() -> None:
    acks = TransactionalAcks()
    acks.hold(ack(MessageId(1, 5), token="late"))
    acks.hold(ack(MessageId(1, 6), token="b"))
    acks.drop_held(["late"])
    assert [held.token for held in acks.take_held()] == ["b"]


def test_those_of_a_transaction_that_is_over_are_dropped_alone() -> None:
    acks, over = TransactionalAcks(), TransactionId(0, 1)
    acks.hold(ack(MessageId(1, 5), token="kept"))
    acks.hold(ack(MessageId(1, 6), token="held")._replace(transaction=over))
    number = acks.sent(ack(MessageId(1, 7), token="sent")._replace(transaction=over))
    assert acks.drop_of(over) == ("held", "sent")
    assert acks.answered(number) == ()
    assert [held.token for held in acks.take_held()] == ["kept"]
