from typing import Any

import pytest

from pulsar_actors.broker.model.consumer import AckedEntry
from pulsar_actors.broker.model.entry import Position
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ServerError
from pulsar_actors.wire.transaction_id import TransactionId

EXCLUSIVE, SHARED, KEY_SHARED = (
    CommandSubscribe.SubType.Exclusive,
    CommandSubscribe.SubType.Shared,
    CommandSubscribe.SubType.Key_Shared,
)
NOWHERE = AckedEntry(Position(99, 99))
FIRST, SECOND = TransactionId(0, 0), TransactionId(0, 1)
ALL_TYPES = [EXCLUSIVE, SHARED, KEY_SHARED]
DISTRIBUTING = [SHARED, KEY_SHARED]


def end(receiver: Any, transaction: TransactionId = FIRST, *, commit: bool, low: int = -1) -> None:
    receiver.subscription.end_transaction(transaction, commit=commit, low_water_mark=low)


def refused(call: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(Refusal) as caught:
        call(*arguments, **options)
    assert caught.value.code == ServerError.TransactionConflict


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_a_commit_acknowledges(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind)
    world.producer().send_all([b"a", b"b", b"c"])
    receiver.ack_in(FIRST, b"a", b"c")
    assert receiver.subscription.backlog() == 3
    end(receiver, commit=True)
    assert receiver.subscription.backlog() == 1
    receiver.close()
    assert world.consumer(subscription_type=kind).take() == [b"b"]


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_what_is_pending_does_not_come_again_until_the_abort(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind)
    world.producer().send_all([b"a", b"b", b"c"])
    receiver.ack_in(FIRST, b"b")
    assert receiver.take() == [b"a", b"b", b"c"]
    receiver.redeliver()
    assert sorted(receiver.take()) == [b"a", b"c"]
    receiver.close()
    another = world.consumer(subscription_type=kind)
    assert sorted(another.take()) == [b"a", b"c"]
    end(another, commit=False)
    assert b"b" in another.take()


@pytest.mark.parametrize("kind", DISTRIBUTING)
def test_after_an_abort_those_messages_come_again_and_that_is_counted(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind)
    world.producer().send_all([b"a", b"b", b"c"])
    receiver.ack_in(FIRST, b"a", b"c")
    receiver.take()
    end(receiver, commit=False)
    assert (sorted(receiver.got), receiver.counts) == ([b"a", b"c"], [1, 1])
    receiver.ack(b"a", b"c")
    assert receiver.subscription.backlog() == 1


@pytest.mark.parametrize("kind", DISTRIBUTING)
def test_a_message_that_two_transactions_give_back_before_it_can_be_delivered_comes_once(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind, permits=2)
    world.producer().send_all([b"a", b"b"])
    for transaction in (FIRST, SECOND):
        receiver.ack_in(transaction, b"b")
        end(receiver, transaction, commit=False)
    assert receiver.subscription.dispatcher.replaying == 1
    receiver.take()
    receiver.flow(10)
    assert receiver.take() == [b"b"]


def test_after_an_abort_an_exclusive_subscription_goes_back_to_the_first_unacknowledged_message(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b", b"c"])
    receiver.ack(b"a")
    receiver.ack_in(FIRST, b"c")
    receiver.take()
    end(receiver, commit=False)
    assert receiver.take() == [b"b", b"c"]


@pytest.mark.parametrize("kind", DISTRIBUTING)
def test_a_blocked_consumer_goes_on_when_its_messages_are_pending(world: Any, kind: Any) -> None:
    world.settings.max_unacked_per_consumer = 2
    receiver = world.consumer(subscription_type=kind)
    world.producer().send_all([b"a", b"b", b"c"])
    assert receiver.got == [b"a", b"b"]
    receiver.ack_in(FIRST, b"a", b"b")
    assert receiver.got == [b"a", b"b", b"c"]


@pytest.mark.parametrize("kind", DISTRIBUTING)
def test_a_consumer_has_a_message_no_longer_when_it_is_pending(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind)
    world.producer().send(b"batch", num_messages_in_batch=4)
    receiver.ack_in(FIRST, b"batch", ack_set=0b1101)
    assert (receiver.made.unacked, len(receiver.made.pending)) == (3, 1)
    receiver.ack_in(FIRST, b"batch", ack_set=0b0010)
    assert (receiver.made.unacked, len(receiver.made.pending)) == (0, 0)
    end(receiver, commit=True)
    assert (receiver.made.unacked, receiver.subscription.backlog()) == (0, 0)


@pytest.mark.parametrize("kind", DISTRIBUTING)
def test_what_waits_to_come_again_does_not_once_it_is_pending(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind, permits=1)
    world.producer().send(b"a")
    position = receiver.position_of(b"a")
    receiver.nack(b"a")
    receiver.deliveries.clear()
    receiver.subscription.acknowledge_in_transaction(receiver.made, FIRST, [AckedEntry(position)])
    receiver.flow(10)
    assert receiver.take() == []
    end(receiver, commit=False)
    assert receiver.take() == [b"a"]


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_messages_of_a_batch_are_pending_one_by_one(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind)
    world.producer().send(b"batch", num_messages_in_batch=4)
    receiver.ack_in(FIRST, b"batch", ack_set=0b1110)
    receiver.ack_in(SECOND, b"batch", ack_set=0b1101)
    receiver.ack(b"batch", ack_set=0b1011)
    receiver.deliveries.clear()
    receiver.redeliver()
    assert [each.ack_set for each in receiver.deliveries] == [0b1000]
    end(receiver, FIRST, commit=True)
    receiver.deliveries.clear()
    end(receiver, SECOND, commit=False)
    assert [each.ack_set for each in receiver.deliveries] == [0b1010]
    assert receiver.made.unacked == (0 if kind == EXCLUSIVE else 2)
    receiver.ack(b"batch")
    assert (receiver.made.unacked, receiver.subscription.backlog()) == (0, 0)


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_a_batch_that_was_acknowledged_in_several_commands_comes_again_once(world: Any, kind: Any) -> None:
    receiver = world.consumer(subscription_type=kind)
    world.producer().send(b"batch", num_messages_in_batch=4)
    receiver.ack_in(FIRST, b"batch", ack_set=0b1110)
    receiver.ack_in(FIRST, b"batch", ack_set=0b1101)
    receiver.take()
    end(receiver, commit=False)
    assert receiver.take() == [b"batch"]


@pytest.mark.parametrize("commit", [True, False])
def test_an_acknowledgement_that_comes_after_the_end_is_aborted_with_the_end_of_a_later_transaction(
    world: Any, *, commit: bool
) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send_all([b"a", b"b", b"c", b"d"])
    end(receiver, FIRST, commit=True)
    receiver.ack_in(FIRST, b"a")
    elsewhere = TransactionId(1, 0)
    receiver.ack_in(elsewhere, b"b")
    receiver.ack_in(SECOND, b"c")
    receiver.take()
    end(receiver, elsewhere, commit=True, low=0)
    end(receiver, TransactionId(0, 2), commit=True, low=0)
    assert receiver.take() == []
    end(receiver, SECOND, commit=commit, low=0)
    assert sorted(receiver.take()) == ([b"a"] if commit else [b"a", b"c"])


def test_what_comes_after_the_end_of_its_transaction_comes_again_in_order_when_the_consumer_asks(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b", b"c"])
    end(receiver, FIRST, commit=True)
    receiver.ack_in(FIRST, b"b")
    receiver.ack_in(SECOND, b"a")
    receiver.take()
    end(receiver, SECOND, commit=True, low=0)
    assert receiver.take() == []
    receiver.redeliver()
    assert receiver.take() == [b"b", b"c"]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("holder", [FIRST, SECOND])
def test_while_a_cumulative_acknowledgement_is_pending_no_other_ends(
    world: Any, holder: TransactionId, *, commit: bool
) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b", b"c"])
    receiver.ack_in(FIRST, b"c")
    receiver.ack_up_to_in(holder, b"a")
    end(receiver, FIRST, commit=commit)
    if holder is SECOND:
        end(receiver, SECOND, commit=commit)
    assert receiver.subscription.backlog() == (2 if commit else 3)
    receiver.take()
    receiver.redeliver()
    assert receiver.take() == ([b"b"] if commit else [b"a", b"b"])
    end(receiver, FIRST, commit=True)
    assert receiver.subscription.backlog() == (1 if commit else 2)


def test_a_batch_of_which_all_messages_were_committed_is_acknowledged(world: Any) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send(b"batch", num_messages_in_batch=2)
    receiver.ack_in(FIRST, b"batch", ack_set=0b10)
    receiver.ack_in(SECOND, b"batch", ack_set=0b01)
    end(receiver, FIRST, commit=True)
    assert receiver.subscription.backlog() == 1
    end(receiver, SECOND, commit=True)
    assert receiver.subscription.backlog() == 0


@pytest.mark.parametrize("transaction", [FIRST, SECOND], ids=["the same", "another"])
def test_what_is_pending_cannot_be_acknowledged_in_a_transaction_again(world: Any, transaction: TransactionId) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send_all([b"a", b"b"])
    receiver.ack_in(FIRST, b"a")
    refused(receiver.ack_in, transaction, b"a")
    refused(receiver.ack_in, transaction, b"b", b"a")
    end(receiver, transaction, commit=True)
    assert receiver.subscription.backlog() == (1 if transaction == FIRST else 2)


def test_what_is_acknowledged_cannot_be_in_a_transaction(world: Any) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    sender = world.producer()
    sender.send(b"a")
    sender.send(b"batch", num_messages_in_batch=4)
    receiver.ack(b"a")
    receiver.ack(b"batch", ack_set=0b1110)
    refused(receiver.ack_in, FIRST, b"a")
    refused(receiver.ack_in, FIRST, b"batch", ack_set=0b1100)
    receiver.ack_in(FIRST, b"batch", ack_set=0b1101)
    refused(receiver.ack_in, SECOND, b"batch")


def test_a_whole_batch_may_be_acknowledged_after_a_part_of_it(world: Any) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send(b"batch", num_messages_in_batch=4)
    receiver.ack(b"batch", ack_set=0b1110)
    receiver.ack_in(FIRST, b"batch")
    end(receiver, commit=True)
    assert receiver.subscription.backlog() == 0


def test_a_whole_batch_is_not_acknowledged_after_a_part_of_it_in_another_transaction(world: Any) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send(b"batch", num_messages_in_batch=4)
    receiver.ack_in(FIRST, b"batch", ack_set=0b1110)
    end(receiver, FIRST, commit=True)
    refused(receiver.ack_in, SECOND, b"batch")
    receiver.ack_in(SECOND, b"batch", ack_set=0b0001)
    end(receiver, SECOND, commit=True)
    assert receiver.subscription.backlog() == 0


def test_one_message_twice_in_one_command_is_a_conflict(world: Any) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send(b"a")
    refused(receiver.ack_in, FIRST, b"a", b"a")
    receiver.ack_in(FIRST, b"a")


def test_there_is_a_conflict_about_a_message_that_does_not_exist(world: Any) -> None:
    receiver = world.consumer()
    refused(receiver.subscription.acknowledge_in_transaction, receiver.made, FIRST, [NOWHERE])
    refused(receiver.subscription.acknowledge_cumulative_in_transaction, FIRST, NOWHERE)


def test_an_acknowledgement_without_a_transaction_counts_at_once(world: Any) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send_all([b"a", b"b"])
    receiver.ack_in(FIRST, b"a", b"b")
    receiver.ack(b"a")
    assert receiver.subscription.backlog() == 1
    receiver.take()
    end(receiver, commit=False)
    assert receiver.take() == [b"b"]


def test_an_abort_of_what_is_acknowledged_meanwhile_delivers_nothing_again(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b"])
    receiver.ack_in(FIRST, b"b")
    receiver.ack(b"b")
    receiver.take()
    end(receiver, commit=False)
    assert receiver.take() == []


def test_a_cumulative_acknowledgement_counts_with_the_commit_and_hides_nothing_before(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b", b"c"])
    receiver.ack_up_to_in(FIRST, b"b")
    receiver.take()
    receiver.redeliver()
    assert receiver.take() == [b"a", b"b", b"c"]
    end(receiver, commit=True)
    receiver.redeliver()
    assert receiver.take() == [b"c"]


def test_after_the_abort_of_a_cumulative_acknowledgement_nothing_comes_again_unasked(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b"])
    receiver.ack_up_to_in(FIRST, b"b")
    receiver.take()
    end(receiver, commit=False)
    assert receiver.take() == []
    assert receiver.subscription.backlog() == 2
    receiver.redeliver()
    assert receiver.take() == [b"a", b"b"]


def test_a_cumulative_acknowledgement_inside_a_batch_reaches_to_the_message(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send(b"batch", num_messages_in_batch=4)
    receiver.ack_up_to_in(FIRST, b"batch", ack_set=0b1110)
    receiver.ack_up_to_in(FIRST, b"batch", ack_set=0b1100)
    refused(receiver.ack_up_to_in, FIRST, b"batch", ack_set=0b1110)
    end(receiver, commit=True)
    receiver.deliveries.clear()
    receiver.redeliver()
    assert [each.ack_set for each in receiver.deliveries] == [0b1100]


def test_one_transaction_at_a_time_has_a_cumulative_acknowledgement_and_only_moves_it_forward(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b", b"c"])
    receiver.ack(b"a")
    refused(receiver.ack_up_to_in, FIRST, b"a")
    receiver.ack_up_to_in(FIRST, b"b")
    refused(receiver.ack_up_to_in, FIRST, b"b")
    refused(receiver.ack_up_to_in, SECOND, b"c")
    receiver.ack_up_to_in(FIRST, b"c")
    end(receiver, commit=False)
    receiver.ack_up_to_in(SECOND, b"b")
    end(receiver, SECOND, commit=True)
    assert receiver.subscription.backlog() == 1


def test_a_shared_subscription_ignores_a_cumulative_acknowledgement(world: Any) -> None:
    receiver = world.consumer(subscription_type=SHARED)
    world.producer().send(b"a")
    receiver.ack_up_to_in(FIRST, b"a")
    end(receiver, commit=True)
    assert receiver.subscription.backlog() == 1


def test_the_transactions_of_a_subscription_are_counted(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b"])
    receiver.ack_in(FIRST, b"a")
    receiver.ack_up_to_in(SECOND, b"b")
    assert receiver.subscription.pending_acks.ongoing == 2
    end(receiver, SECOND, commit=True)
    end(receiver, FIRST, commit=False)
    assert receiver.subscription.pending_acks.ongoing == 0


def test_pending_acknowledgements_outlive_an_unload(world: Any) -> None:
    receiver = world.consumer()
    world.producer().send_all([b"a", b"b"])
    receiver.ack_in(FIRST, b"a")
    world.topic().unload()
    receiver = world.consumer()
    assert receiver.take() == [b"b"]
    end(receiver, commit=False)
    assert receiver.take() == [b"a", b"b"]


@pytest.mark.parametrize("kind", ["acknowledge_in_transaction", "acknowledge_cumulative_in_transaction"])
def test_a_topic_that_stores_nothing_has_no_acknowledgements_in_transactions(world: Any, kind: str) -> None:
    receiver = world.consumer("non-persistent://public/default/n")
    call = getattr(receiver.subscription, kind)
    arguments = (receiver.made, FIRST, []) if kind == "acknowledge_in_transaction" else (FIRST, NOWHERE)
    with pytest.raises(Refusal, match="Non-persistent") as caught:
        call(*arguments)
    assert caught.value.code == ServerError.NotAllowedError
