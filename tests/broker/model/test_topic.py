from typing import Any

import pytest

from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.position import EARLIEST, LATEST, Position
from pulsar_actors.broker.model.refusal import Conflict, Missing, Refusal
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ProducerAccessMode

NUMBERS = [b"%d" % number for number in range(5)]


@pytest.mark.parametrize(("earliest", "expected"), [(True, [b"0", b"1"]), (False, [b"1"])])
@pytest.mark.parametrize("durable", [True, False])
def test_a_new_subscription_begins_at_either_end(world: Any, durable: bool, earliest: bool, expected: Any) -> None:  # noqa: FBT001 - a case
    producer = world.producer()
    producer.send(b"0")
    consumer = world.consumer(earliest=earliest, durable=durable)
    producer.send(b"1")
    assert consumer.got == expected


def test_a_subscription_that_is_there_goes_on_where_it_was(world: Any) -> None:
    first = world.consumer()
    producer = world.producer()
    producer.send_all(NUMBERS)
    first.ack_up_to(b"2")
    first.made.close()
    assert world.consumer(earliest=True).got == NUMBERS[3:]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (EARLIEST, NUMBERS),
        (LATEST, []),
        (Position(1, 3), NUMBERS[3:]),
        (Position(1, -1), NUMBERS),
        (Position(1, 4), NUMBERS[4:]),
        (Position(1, 5), []),
        (Position(1, 99), []),
        (Position(0, 7), NUMBERS),
        (Position(2**63 - 1, 2**48 - 1), []),
    ],
)
def test_a_reader_begins_with_the_entry_it_names(world: Any, start: Position, expected: Any) -> None:
    world.producer().send_all(NUMBERS)
    assert world.consumer(durable=False, start=start).got == expected


def test_a_reader_that_names_what_is_not_there_yet_may_begin_at_the_earliest(world: Any) -> None:
    world.producer().send_all(NUMBERS)
    assert world.consumer(durable=False, start=Position(9, 9), earliest=True).got == NUMBERS


def test_a_durable_subscription_does_not_heed_a_start(world: Any) -> None:
    world.producer().send_all(NUMBERS)
    assert world.consumer(start=Position(1, 3)).got == []


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_may_begin_some_time_ago(world: Any, durable: bool) -> None:  # noqa: FBT001 - a case
    producer = world.producer()
    for data in NUMBERS:
        producer.send(data, publish_time=world.clock.now_ms)
        world.pass_time(10)
    assert world.consumer(durable=durable, rollback_seconds=30).got == NUMBERS[2:]


def test_the_end_of_a_topic_lets_its_producers_go_and_no_other_comes(world: Any) -> None:
    producer = world.producer(access_mode=ProducerAccessMode.Exclusive)
    waiting = world.producer(access_mode=ProducerAccessMode.WaitForExclusive)
    position = producer.send(b"0")
    assert world.topic().terminate() == position
    assert [str(each) for each in waiting.heard] == ["TopicTerminatedError: Topic was already terminated"]
    assert (producer.made.connected, waiting.made.connected) == (False, False)
    with pytest.raises(Refusal, match="TopicTerminatedError"):
        world.producer()


def test_a_producer_that_has_gone_publishes_nothing(world: Any) -> None:
    producer = world.producer()
    producer.made.close()
    producer.made.close()
    with pytest.raises(Refusal, match="PersistenceError: Producer is closed"):
        producer.send()


def test_an_unload_sends_everybody_away_and_opens_a_ledger(world: Any) -> None:
    producer, consumer, reader = world.producer(), world.consumer(), world.consumer(subscription="r", durable=False)
    producer.send_all([b"0", b"1"])
    consumer.ack(b"0")
    moved_to = Address("pulsar://b:1", "pulsar+ssl://b:2")
    world.topic().unload(moved_to)
    assert [each.heard for each in (producer, consumer, reader)] == [[("closed", moved_to)]] * 3
    assert list(world.topic().subscriptions) == ["s"]
    assert world.producer().send(b"2") == (2, 0)
    assert world.consumer().got == [b"1", b"2"]


def test_what_was_written_before_an_unload_is_still_read(world: Any) -> None:
    """As a real broker 4.2.4 was seen to keep it, with no subscription at all."""
    world.producer().send_all(NUMBERS)
    world.topic().unload()
    world.producer().send(b"after")
    assert world.consumer(durable=False, start=EARLIEST).got == [*NUMBERS, b"after"]


def test_the_last_position_is_that_of_the_last_entry(world: Any) -> None:
    assert world.topic().last_position() == (1, -1)
    world.producer().send_all(NUMBERS)
    assert world.topic().last_position() == (1, 4)


def test_an_entry_is_found_by_its_position(world: Any) -> None:
    position = world.producer().send(b"0")
    assert world.topic().entry_at(position).data == b"0"
    with pytest.raises(Missing):
        world.topic().entry_at(Position(1, 1))


@pytest.mark.parametrize(
    ("at", "expected"), [(EARLIEST, NUMBERS), (LATEST, []), (Position(1, 2), NUMBERS[2:]), (Position(5, 5), [])]
)
def test_a_subscription_can_be_made_without_a_consumer(world: Any, at: Position, expected: Any) -> None:
    world.producer().send_all(NUMBERS)
    world.topic().create_subscription("s", at=at, properties={"a": "b"})
    with pytest.raises(Conflict):
        world.topic().create_subscription("s", at=at)
    assert world.consumer().got == expected


def test_a_producer_may_have_a_subscription_made(world: Any) -> None:
    world.producer(initial_subscription="first").send(b"0")
    world.producer(initial_subscription="first")
    assert world.consumer(subscription="first").got == [b"0"]
    world.cluster.namespace("public/default").policies.allow_auto_subscription_creation = False
    world.producer(initial_subscription="first")
    with pytest.raises(Refusal, match="initial subscription"):
        world.producer(initial_subscription="second")


def test_a_namespace_may_demand_encryption(world: Any) -> None:
    world.cluster.namespace("public/default").policies.encryption_required = True
    with pytest.raises(Refusal, match="Encryption is required"):
        world.producer()
    producer = world.producer(encrypted=True)
    with pytest.raises(Refusal, match="Messages must be encrypted"):
        producer.send()
    producer.send(encryption_keys=[{"key": "k", "value": b"v"}])


def test_a_topic_keeps_only_so_much_of_what_no_subscription_needs(world: Any) -> None:
    world.settings.kept_bytes = 1000
    world.producer().send_all([b"x"] * 3000)
    assert world.topic().log.base == 2049 - 1000
    assert len(world.consumer(durable=False, start=EARLIEST, permits=9999).got) == 3000 - 1049


def test_a_topic_keeps_what_a_durable_subscription_needs(world: Any) -> None:
    world.settings.kept_bytes = 0
    world.topic().create_subscription("s", at=EARLIEST)
    reader = world.consumer(subscription="r", durable=False, permits=0)
    world.producer().send_all([b"x"] * 3000)
    assert world.topic().log.base == 0
    world.topic().subscriptions["s"].skip(2500)
    world.producer().send_all([b"x"] * 100)
    assert world.topic().log.base == 2500
    reader.made.flow(9999)
    assert len(reader.got) == 600


def test_entries_know_when_they_came_and_how_many_messages_came_before(world: Any) -> None:
    consumer = world.consumer()
    producer = world.producer()
    producer.send(num_messages_in_batch=3)
    producer.send()
    entries = [each.entry for each in consumer.deliveries]
    assert [(each.index, each.broker_timestamp) for each in entries] == [
        (2, world.clock.now_ms),
        (3, world.clock.now_ms),
    ]


def test_a_topic_is_in_use_while_anybody_is_connected(world: Any) -> None:
    topic = world.topic()
    for make in (world.producer, world.consumer):
        assert not topic.is_in_use()
        someone = make()
        assert topic.is_in_use()
        someone.made.close()


def test_consumers_of_different_subscriptions_do_not_disturb_each_other(world: Any) -> None:
    one = world.consumer(subscription="one")
    other = world.consumer(subscription="other", kind=CommandSubscribe.SubType.Shared)
    world.producer().send_all(NUMBERS)
    one.ack_up_to(b"4")
    assert (one.got, other.got) == (NUMBERS, NUMBERS)
    assert other.made.subscription.backlog() == 5
