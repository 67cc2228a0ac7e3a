from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, MessageMetadata, ServerError
from pulsar_actors.wire.transaction_id import TransactionId

EXCLUSIVE, SHARED, KEY_SHARED = (
    CommandSubscribe.SubType.Exclusive,
    CommandSubscribe.SubType.Shared,
    CommandSubscribe.SubType.Key_Shared,
)
ALL_TYPES = [EXCLUSIVE, SHARED, KEY_SHARED]
FIRST, SECOND = TransactionId(0, 0), TransactionId(0, 1)
OF_ANOTHER = TransactionId(1, 0)


def end(world: Any, transaction: TransactionId, *, commit: bool = True, low: int = -1, topic: str = "t") -> None:
    world.topic(topic).end_transaction(transaction, commit=commit, low_water_mark=low)


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_messages_of_a_transaction_come_with_the_commit_and_in_the_order_of_writing(world: Any, kind: Any) -> None:
    sender, receiver = world.producer(), world.consumer(subscription_type=kind)
    sender.send(b"before")
    sender.send(b"in", transaction=FIRST)
    sender.send(b"plain")
    sender.send(b"in, too", transaction=FIRST)
    assert receiver.take() == [b"before"]
    end(world, FIRST)
    assert receiver.take() == [b"in", b"plain", b"in, too"]


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_messages_of_an_aborted_transaction_never_come_and_use_no_permits(world: Any, kind: Any) -> None:
    sender, receiver = world.producer(), world.consumer(subscription_type=kind, permits=2)
    sender.send_all([b"a", b"b", b"c"], transaction=FIRST)
    sender.send(b"plain")
    end(world, FIRST, commit=False)
    sender.send(b"later")
    assert receiver.take() == [b"plain", b"later"]
    assert world.consumer(subscription="from the start", earliest=True, permits=1000).take() == [b"plain", b"later"]


def test_the_oldest_open_transaction_holds_those_that_ended_behind_it(world: Any) -> None:
    sender, receiver = world.producer(), world.consumer()
    sender.send(b"first", transaction=FIRST)
    sender.send(b"second", transaction=SECOND)
    end(world, SECOND)
    assert receiver.take() == []
    end(world, FIRST, commit=False)
    assert receiver.take() == [b"second"]


def test_a_marker_takes_an_entry_and_counts_as_backlog_until_it_is_read(world: Any) -> None:
    sender = world.producer()
    receiver = world.consumer(permits=0)
    in_transaction = sender.send(b"in", transaction=FIRST)
    end(world, FIRST)
    after = sender.send(b"after")
    assert after.entry_id == in_transaction.entry_id + 2
    assert receiver.subscription.backlog() == 3
    receiver.flow(10)
    receiver.ack(b"in", b"after")
    assert receiver.subscription.backlog() == 0


def test_the_last_message_is_the_last_that_may_be_delivered(world: Any) -> None:
    sender, receiver = world.producer(), world.consumer()
    plain = sender.send(b"plain")
    in_transaction = sender.send(b"in", transaction=FIRST)
    sender.send(b"aborted", transaction=SECOND)
    assert receiver.subscription.last_message() == (plain, -1)
    end(world, FIRST)
    assert receiver.subscription.last_message() == (in_transaction, -1)
    end(world, SECOND, commit=False)
    assert receiver.subscription.last_message() == (in_transaction, -1)


def test_a_message_with_the_transaction_in_its_command_only_waits_for_the_end_but_outlives_an_abort(world: Any) -> None:
    """The Go client forgot the metadata once."""
    sender, receiver = world.producer(), world.consumer()
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    ids = {"sequence_id": 0, "highest_sequence_id": -1, "transaction": FIRST}
    world.topic().publish(sender.made, b"in", metadata, **ids)
    assert receiver.take() == []
    end(world, FIRST, commit=False)
    assert receiver.take() == [b"in"]


def test_a_transaction_known_to_be_aborted_takes_no_more_messages(world: Any) -> None:
    sender = world.producer()
    sender.send(b"in", transaction=FIRST)
    end(world, FIRST, commit=False)
    with pytest.raises(Refusal, match="has been ended") as caught:
        sender.send(b"late", transaction=FIRST)
    assert caught.value.code == ServerError.NotAllowedError


def test_a_late_message_opens_a_committed_transaction_again_until_a_later_one_of_the_coordinator_ends(
    world: Any,
) -> None:
    sender, receiver = world.producer(), world.consumer()
    sender.send(b"in", transaction=FIRST)
    end(world, FIRST)
    sender.send(b"late", transaction=FIRST)
    sender.send(b"plain")
    assert receiver.take() == [b"in"]
    end(world, OF_ANOTHER, low=0)
    assert receiver.take() == []
    end(world, SECOND, low=0)
    assert receiver.take() == [b"plain"]
    with pytest.raises(Refusal, match="has been ended"):
        sender.send(b"later still", transaction=FIRST)


def test_the_end_of_a_later_transaction_tells_that_earlier_ones_of_the_coordinator_have_ended(world: Any) -> None:
    sender = world.producer()
    end(world, SECOND, low=0)
    with pytest.raises(Refusal, match="has been ended"):
        sender.send(b"late", transaction=FIRST)
    sender.send(b"of another coordinator", transaction=OF_ANOTHER)


def test_aborted_messages_count_for_deduplication(world: Any) -> None:
    world.settings.deduplication = True
    sender, receiver = world.producer(), world.consumer()
    sender.send(b"in", transaction=FIRST, sequence_id=7)
    end(world, FIRST, commit=False)
    assert sender.send(b"again", transaction=SECOND, sequence_id=7) == (-1, -1)
    end(world, SECOND)
    assert receiver.take() == []


def test_a_refused_message_does_not_count_for_deduplication(world: Any) -> None:
    world.settings.deduplication = True
    sender, receiver = world.producer(), world.consumer()
    sender.send(b"in", transaction=FIRST)
    end(world, FIRST, commit=False)
    with pytest.raises(Refusal):
        sender.send(b"late", transaction=FIRST, sequence_id=5)
    sender.send(b"plain", sequence_id=5)
    assert receiver.take() == [b"plain"]


def test_a_topic_that_stores_nothing_has_no_transactions(world: Any) -> None:
    sender = world.producer("non-persistent://public/default/n")
    with pytest.raises(Refusal, match="Non-persistent") as caught:
        sender.send(b"x", transaction=FIRST)
    assert caught.value.code == ServerError.NotAllowedError


def test_a_cluster_without_coordinators_has_no_transactions(make_world: Any) -> None:
    world = make_world(Settings(transaction_coordinators=0))
    with pytest.raises(Refusal, match="no transactions"):
        world.producer().send(b"x", transaction=FIRST)


def test_what_is_hidden_stays_hidden_after_an_unload_and_a_seek(world: Any) -> None:
    sender = world.producer()
    sender.send(b"open", transaction=FIRST)
    sender.send(b"aborted", transaction=SECOND)
    end(world, SECOND, commit=False)
    world.topic().unload()
    receiver = world.consumer(earliest=True)
    world.producer().send(b"plain")
    assert receiver.take() == []
    end(world, FIRST)
    assert receiver.take() == [b"open", b"plain"]
    receiver.subscription.reset_to_time(0)
    assert world.consumer().take() == [b"open", b"plain"]


def test_a_delayed_message_waits_for_the_commit_and_then_for_its_time(world: Any) -> None:
    sender, receiver = world.producer(), world.consumer(subscription_type=SHARED)
    sender.send(b"later", transaction=FIRST, deliver_at_time=world.clock.now_ms + 5_000)
    world.pass_time(1)
    end(world, FIRST)
    assert receiver.take() == []
    world.pass_time(5)
    assert receiver.take() == [b"later"]


def test_the_statistics_count_transactions(world: Any) -> None:
    sender, buffer = world.producer(), world.topic().transaction_buffer
    for transaction in (FIRST, SECOND, OF_ANOTHER):
        sender.send(b"x", transaction=transaction)
    end(world, FIRST)
    end(world, SECOND, commit=False)
    assert (buffer.ongoing, buffer.committed, buffer.aborted) == (1, 1, {SECOND})
