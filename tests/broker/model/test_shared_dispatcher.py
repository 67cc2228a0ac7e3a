from typing import Any

import pytest

from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

SHARED = CommandSubscribe.SubType.Shared
NUMBERS = [b"%d" % number for number in range(10)]


def test_a_negative_acknowledgement_counts_and_the_loss_of_a_consumer_does_not(world: Any) -> None:
    """As a real broker 4.2.4 was seen to count."""
    first = world.consumer(kind=SHARED)
    world.producer().send_all([b"0", b"1"])
    first.made.redeliver()
    assert first.counts == [0, 0, 1, 1]
    second = world.consumer(kind=SHARED)
    first.made.close()
    assert second.counts == [1, 1]
    second.made.redeliver()
    assert second.counts == [1, 1, 2, 2]
    second.made.close()
    assert world.consumer(kind=SHARED).counts == [0, 0]


def test_only_what_is_listed_comes_again(world: Any) -> None:
    consumer = world.consumer(kind=SHARED)
    world.producer().send_all(NUMBERS)
    consumer.nack(b"7", b"3")
    assert consumer.got[10:] == [b"3", b"7"]


def test_what_a_consumer_does_not_have_cannot_be_demanded_by_it(world: Any) -> None:
    first, second = (world.consumer(kind=SHARED) for _ in range(2))
    world.producer().send_all([b"0", b"1"])
    first.made.redeliver([second.position_of(b"1")])
    first.ack(b"0")
    first.nack(b"0")
    assert (first.got, second.got) == ([b"0"], [b"1"])


def test_what_comes_again_goes_before_what_is_new(world: Any) -> None:
    consumer = world.consumer(kind=SHARED, permits=2)
    world.producer().send_all(NUMBERS)
    consumer.nack(b"1")
    consumer.made.flow(2)
    assert consumer.got == [b"0", b"1", b"1", b"2"]


def test_what_was_acknowledged_meanwhile_does_not_come_again(world: Any) -> None:
    consumer = world.consumer(kind=SHARED, permits=2)
    world.producer().send_all([b"0", b"1"])
    consumer.nack(b"0", b"1")
    consumer.ack(b"0")
    consumer.made.flow(5)
    assert consumer.got[2:] == [b"1"]


def test_the_others_get_what_one_that_went_had_not_acknowledged(world: Any) -> None:
    first, second = (world.consumer(kind=SHARED) for _ in range(2))
    world.producer().send_all(NUMBERS)
    first.ack(b"2")
    first.made.close()
    assert sorted(second.got) == [each for each in NUMBERS if each != b"2"]


def test_anybody_may_acknowledge_what_somebody_has(world: Any) -> None:
    first, second = (world.consumer(kind=SHARED) for _ in range(2))
    world.producer().send_all([b"0", b"1"])
    second.deliveries += first.deliveries
    second.ack(b"0")
    assert (first.made.unacked, first.made.pending) == (0, {})


def test_a_cumulative_acknowledgement_does_nothing(world: Any) -> None:
    consumer = world.consumer(kind=SHARED)
    world.producer().send_all(NUMBERS)
    consumer.ack_up_to(b"9")
    assert consumer.made.subscription.backlog() == 10


def test_messages_of_a_batch_are_counted_down_as_they_are_acknowledged(world: Any) -> None:
    consumer = world.consumer(kind=SHARED)
    world.producer().send(b"b", num_messages_in_batch=10)
    consumer.ack(b"b", ack_set=0b11)
    assert consumer.made.unacked == 2
    consumer.nack(b"b")
    assert [each.ack_set for each in consumer.deliveries] == [None, 0b11]
    assert (consumer.made.unacked, consumer.made.permits) == (2, 1000 - 12)


def test_an_acknowledgement_forgets_how_often_an_entry_came(world: Any) -> None:
    consumer = world.consumer(kind=SHARED)
    world.producer().send(b"b", num_messages_in_batch=2)
    consumer.nack(b"b")
    consumer.ack(b"b", ack_set=0b1)
    consumer.nack(b"b")
    assert consumer.counts == [0, 1, 1]


def test_a_consumer_with_too_much_unacknowledged_waits_until_half_of_it_is(world: Any) -> None:
    world.settings.max_unacked_per_consumer = 4
    consumer = world.consumer(kind=SHARED)
    world.producer().send_all(NUMBERS)
    assert (consumer.got, consumer.made.blocked) == (NUMBERS[:4], True)
    consumer.made.flow(10)
    consumer.ack(b"0")
    assert (consumer.got, consumer.made.permits) == (NUMBERS[:4], 996)
    consumer.ack(b"1")
    assert (consumer.got, consumer.made.permits) == (NUMBERS[:6], 1004)


def test_a_redelivery_unblocks_a_consumer(world: Any) -> None:
    world.settings.max_unacked_per_consumer = 2
    consumer = world.consumer(kind=SHARED)
    world.producer().send_all(NUMBERS[:3])
    consumer.made.redeliver()
    assert consumer.got == [b"0", b"1", b"0", b"1"]


def test_the_namespace_may_set_another_limit(world: Any) -> None:
    policies = world.cluster.namespace("public/default").policies
    policies.max_unacked_per_consumer = 0
    policies.max_unacked_per_subscription = 0
    world.settings.max_unacked_per_consumer = world.settings.max_unacked_per_subscription = 1
    consumer = world.consumer(kind=SHARED)
    world.producer().send_all(NUMBERS)
    assert consumer.got == NUMBERS


def test_a_subscription_with_too_much_unacknowledged_reads_nothing_new(world: Any) -> None:
    world.settings.max_unacked_per_subscription = 4
    first, second = (world.consumer(kind=SHARED) for _ in range(2))
    world.producer().send_all(NUMBERS)
    assert len(first.got + second.got) == 4
    first.nack(b"0")
    assert len(first.got + second.got) == 5
    for each in (first, second):
        each.ack(*each.got)
    assert sorted({*first.got, *second.got}) == NUMBERS[:8]


def test_chunks_of_a_message_go_to_one_consumer_even_without_permits(world: Any) -> None:
    first = world.consumer(kind=SHARED, permits=2)
    second = world.consumer(kind=SHARED, permits=100)
    producer = world.producer()
    for chunk in range(4):
        producer.send(b"chunk", uuid="u", chunk_id=chunk, num_chunks_from_msg=4)
        producer.send(b"plain")
    assert first.got.count(b"chunk") == 4
    assert second.got.count(b"chunk") == 0
    assert first.made.permits < 0


def test_when_its_consumer_goes_a_chunked_message_begins_again_elsewhere(world: Any) -> None:
    first = world.consumer(kind=SHARED)
    second = world.consumer(kind=SHARED)
    producer = world.producer()
    for chunk in range(2):
        producer.send(b"%d" % chunk, uuid="u", chunk_id=chunk, num_chunks_from_msg=3)
    first.made.close()
    producer.send(b"2", uuid="u", chunk_id=2, num_chunks_from_msg=3)
    assert second.got == [b"0", b"1", b"2"]


def test_what_has_a_delivery_time_comes_at_that_time(world: Any) -> None:
    consumer = world.consumer(kind=SHARED)
    producer = world.producer()
    producer.send(b"late", deliver_at_time=world.clock.now_ms + 500)
    producer.send(b"now", deliver_at_time=world.clock.now_ms)
    assert consumer.got == [b"now"]
    assert consumer.made.subscription.dispatcher.delayed == 1
    world.pass_time(0.5)
    assert consumer.got == [b"now", b"late"]


@pytest.mark.parametrize("kind", [CommandSubscribe.SubType.Exclusive, CommandSubscribe.SubType.Failover])
def test_other_types_deliver_at_once(world: Any, kind: Any) -> None:
    consumer = world.consumer(kind=kind)
    world.pass_time(1)
    world.producer().send(b"0", deliver_at_time=world.clock.now_ms + 500)
    assert consumer.got == [b"0"]


def test_what_is_delayed_waits_for_the_next_consumer_too(world: Any) -> None:
    first = world.consumer(kind=SHARED)
    world.producer().send(b"late", deliver_at_time=world.clock.now_ms + 500)
    first.made.close()
    second = world.consumer(kind=SHARED)
    world.pass_time(0.4)
    assert second.got == []
    world.pass_time(0.1)
    assert (first.got, second.got) == ([], [b"late"])


def test_what_is_dropped_for_want_of_memory_does_not_come_again(world: Any) -> None:
    consumer = world.consumer(kind=SHARED, durable=False, permits=2)
    producer = world.producer()
    producer.send_all([b"0", b"1"])
    producer.send(b"late", deliver_at_time=world.clock.now_ms + 500)
    consumer.nack(b"0", b"1")
    world.topic().log.trim(3, 0)
    consumer.made.flow(10)
    world.pass_time(1)
    assert consumer.got == [b"0", b"1"]


def test_a_skip_forgets_what_is_out(world: Any) -> None:
    world.settings.max_unacked_per_consumer = 4
    consumer = world.consumer(kind=SHARED)
    world.producer().send_all(NUMBERS)
    consumer.made.subscription.skip(3)
    assert consumer.made.unacked == 4
    assert consumer.got == NUMBERS[:7]
    consumer.made.redeliver()
    assert consumer.got[7:] == NUMBERS[3:7]
