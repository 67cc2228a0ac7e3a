from typing import Any

import pytest
from session_bench import Bench, Caller, messages, only

from pulsar_actors.machines.ledgers.ack_set import from_words, full, to_words
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandRedeliverUnacknowledgedMessages,
    CommandSend,
    CommandSubscribe,
    MessageIdData,
    ServerError,
)

INDIVIDUAL, CUMULATIVE = CommandAck.Individual, CommandAck.Cumulative


@pytest.fixture
def bench() -> Bench:
    return Bench()


def fill(bench: Bench, count: int, **metadata: Any) -> None:
    writer = bench.client()
    writer.produce()
    for i in range(count):
        writer.send(CommandSend(producer_id=0, sequence_id=i), b"%d" % i, **metadata)


def shared(bench: Bench, permits: int = 100, **fields: Any) -> tuple[Caller, list[tuple[int, int]]]:
    """Give a consumer of a Shared subscription, and the ids of what it was sent."""
    caller = bench.client()
    options: dict[str, Any] = {"subType": CommandSubscribe.Shared, **fields}
    heard = caller.consume(permits=permits, initialPosition=CommandSubscribe.Earliest, **options)
    return caller, messages(heard)


def ack(*ids: tuple[int, int], kind: Any = INDIVIDUAL, **fields: Any) -> CommandAck:
    named = [MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in ids]
    return CommandAck(consumer_id=0, ack_type=kind, message_id=named, **fields)


def left_for_the_next(bench: Bench, caller: Caller, **fields: Any) -> list[tuple[int, int]]:
    caller.hang_up()
    return shared(bench, **fields)[1]


def test_what_is_acknowledged_is_not_delivered_again(bench: Bench) -> None:
    fill(bench, 5)
    caller, ids = shared(bench)
    assert caller.say(ack(ids[1], ids[3])) == []
    assert left_for_the_next(bench, caller) == [ids[0], ids[2], ids[4]]


def test_a_cumulative_acknowledgement_covers_all_before_it(bench: Bench) -> None:
    fill(bench, 5)
    caller, ids = shared(bench, subType=CommandSubscribe.Exclusive)
    caller.say(ack(ids[2], kind=CUMULATIVE))
    assert left_for_the_next(bench, caller, subType=CommandSubscribe.Exclusive) == ids[3:]


def test_an_acknowledgement_is_confirmed_if_that_is_wanted(bench: Bench) -> None:
    fill(bench, 1)
    caller, ids = shared(bench)
    assert caller.say(ack(*ids, request_id=77)) == [CommandAckResponse(consumer_id=0, request_id=77)]


def test_what_cannot_be_read_is_acknowledged_like_anything_else(bench: Bench) -> None:
    fill(bench, 2)
    caller, ids = shared(bench)
    caller.say(ack(ids[0], validation_error=CommandAck.ValidationError.ChecksumMismatch))
    assert left_for_the_next(bench, caller) == ids[1:]


def test_messages_of_a_batch_are_acknowledged_by_their_index(bench: Bench) -> None:
    fill(bench, 1, num_messages_in_batch=4)
    caller, ids = shared(bench)
    named = MessageIdData(ledgerId=ids[0][0], entryId=ids[0][1], ack_set=to_words(full(4) & ~0b0101))
    caller.say(CommandAck(consumer_id=0, ack_type=INDIVIDUAL, message_id=[named]))
    (again,) = only(caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=0)), CommandMessage)
    assert from_words(again.ack_set) == 0b1010
    assert again.redelivery_count == 1


def test_an_acknowledgement_for_a_consumer_that_is_gone_means_nothing(bench: Bench) -> None:
    caller = bench.client()
    assert caller.say(ack((1, 1)), ack((1, 1), request_id=5)) == []
    assert not caller.is_closed


@pytest.mark.parametrize("count", [0, 2])
def test_a_cumulative_acknowledgement_that_does_not_name_one_message_means_nothing(bench: Bench, count: int) -> None:
    fill(bench, 3)
    caller, ids = shared(bench, subType=CommandSubscribe.Exclusive)
    (answer,) = caller.say(ack(*ids[:count], kind=CUMULATIVE, request_id=5))
    assert answer == CommandAckResponse(consumer_id=0, request_id=5)
    assert left_for_the_next(bench, caller, subType=CommandSubscribe.Exclusive) == ids


def test_an_acknowledgement_in_a_transaction_is_refused(bench: Bench) -> None:
    fill(bench, 1)
    caller, ids = shared(bench)
    (answer,) = caller.say(ack(*ids, txnid_least_bits=1, txnid_most_bits=1, request_id=5))
    assert isinstance(answer, CommandAckResponse)
    assert answer.error == ServerError.NotAllowedError
    assert caller.say(ack(*ids, txnid_least_bits=1, txnid_most_bits=1)) == []
    assert left_for_the_next(bench, caller) == ids


def test_what_is_wanted_again_comes_again_and_is_counted(bench: Bench) -> None:
    fill(bench, 3)
    caller, ids = shared(bench)
    wanted = MessageIdData(ledgerId=ids[1][0], entryId=ids[1][1])
    for count in (1, 2):
        (again,) = caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[wanted]))
        assert isinstance(again, CommandMessage)
        assert (again.message_id.entryId, again.redelivery_count) == (1, count)


def test_all_come_again_if_none_is_named(bench: Bench) -> None:
    fill(bench, 3)
    caller, ids = shared(bench)
    caller.say(ack(ids[0]))
    assert messages(caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=0))) == ids[1:]


def test_what_comes_again_has_the_epoch_that_it_was_wanted_with(bench: Bench) -> None:
    fill(bench, 2)
    caller, _ = shared(bench, subType=CommandSubscribe.Exclusive, consumer_epoch=0)
    heard = caller.say(
        CommandRedeliverUnacknowledgedMessages(consumer_id=0, consumer_epoch=3),
        CommandFlow(consumer_id=0, messagePermits=100),
    )
    assert [each.consumer_epoch for each in only(heard, CommandMessage)] == [3, 3]


def test_a_consumer_that_is_gone_gets_nothing_again(bench: Bench) -> None:
    caller = bench.client()
    assert caller.say(CommandRedeliverUnacknowledgedMessages(consumer_id=9)) == []
    assert not caller.is_closed
