"""Topics that are not stored.

Which consumer of a Failover subscription is active was recorded from a real broker.
"""

from typing import Any

import pytest

from pulsar_actors.broker.model.entry import EARLIEST_POSITION
from pulsar_actors.broker.model.stats import topic_stats
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe
from pulsar_actors.wire.topic_name import TopicName

TYPES = CommandSubscribe.SubType
FAILOVER = TYPES.Failover
TOPIC = "non-persistent://public/default/t"


@pytest.mark.parametrize("subscription_type", [TYPES.Exclusive, TYPES.Failover, TYPES.Shared, TYPES.Key_Shared])
def test_an_entry_goes_to_whoever_listens(world: Any, subscription_type: Any) -> None:
    consumer = world.consumer(TOPIC, subscription_type=subscription_type)
    assert world.producer(TOPIC).send(b"0") == (0, 0)
    assert (consumer.got, consumer.deliveries[0].entry.position) == ([b"0"], (0, 0))


@pytest.mark.parametrize("subscription_type", [TYPES.Exclusive, TYPES.Shared, TYPES.Key_Shared])
def test_what_nobody_can_take_is_dropped(world: Any, subscription_type: Any) -> None:
    consumer = world.consumer(TOPIC, subscription_type=subscription_type, permits=1)
    producer = world.producer(TOPIC)
    producer.send_all([b"0", b"1"])
    consumer.flow(10)
    producer.send(b"2")
    assert consumer.got == [b"0", b"2"]
    assert topic_stats(world.topic(TOPIC))["subscriptions"]["s"]["msgDropRate"] == 1.0


def test_every_subscription_gets_it(world: Any) -> None:
    one, other = world.consumer(TOPIC), world.consumer(TOPIC, "other")
    world.producer(TOPIC).send(b"0")
    assert one.got == other.got == [b"0"]


def test_failover_says_at_once_whose_turn_it_is(world: Any) -> None:
    first = world.consumer(TOPIC, subscription_type=FAILOVER, name="a")
    second = world.consumer(TOPIC, subscription_type=FAILOVER, name="b")
    consumers = {each.made: each for each in (first, second)}
    active = consumers[first.subscription.dispatcher.selector.active]
    active.close()
    (other,) = (each for each in (first, second) if each is not active)
    assert other.heard[-1] == "active"


def test_nothing_can_be_acknowledged_delivered_again_or_sought(world: Any) -> None:
    consumer = world.consumer(TOPIC, subscription_type=TYPES.Shared)
    world.producer(TOPIC).send(b"0")
    consumer.ack(b"0")
    consumer.ack_up_to(b"0")
    consumer.redeliver(epoch=5)
    consumer.subscription.reset_to_time(0)
    assert (consumer.got, consumer.heard, consumer.made.unacked) == ([b"0"], [], 0)
    consumer.subscription.skip()
    assert consumer.subscription.dispatcher.acknowledge(consumer.made, consumer.deliveries[0].entry, None) == 0
    assert consumer.made.epoch == 5


def test_a_subscription_without_consumers_drops_everything(world: Any) -> None:
    consumer = world.consumer(TOPIC)
    consumer.close()
    world.producer(TOPIC).send(b"0")
    assert world.consumer(TOPIC).got == []


def test_a_subscription_that_never_had_consumers_drops_everything(world: Any) -> None:
    world.topic(TOPIC).create_subscription("s", at=EARLIEST_POSITION)
    assert world.producer(TOPIC).send(b"0") == (0, 0)
    world.topic(TOPIC).unload()
    assert world.topic(TOPIC).subscriptions == {}


def test_a_batch_is_sent_whole_for_one_permit(world: Any) -> None:
    consumer = world.consumer(permits=11)
    producer = world.producer()
    for _ in range(3):
        producer.send(num_messages_in_batch=10)
    assert (len(consumer.got), consumer.made.permits) == (2, -9)


def test_acknowledged_messages_of_a_batch_cost_no_permits(world: Any) -> None:
    consumer = world.consumer(permits=10)
    world.producer().send(b"b", num_messages_in_batch=10)
    consumer.ack(b"b", ack_set=0b11)
    consumer.redeliver()
    consumer.flow(5)
    assert [each.ack_set for each in consumer.deliveries] == [None, 0b11]
    assert consumer.made.permits == 3


def test_redelivery_starts_over_from_the_first_that_is_not_acknowledged(world: Any) -> None:
    consumer = world.consumer()
    world.producer().send_all([b"0", b"1", b"2", b"3"])
    consumer.ack(b"0", b"2")
    consumer.take()
    consumer.redeliver()
    assert consumer.counts == [0, 0]
    assert consumer.take() == [b"1", b"3"]


def test_a_listed_redelivery_starts_over_too(world: Any) -> None:
    consumer = world.consumer()
    world.producer().send_all([b"0", b"1", b"2"])
    consumer.nack(b"2")
    assert consumer.got[3:] == [b"0", b"1", b"2"]


def test_entries_carry_the_epoch_of_the_last_redelivery(world: Any) -> None:
    consumer = world.consumer(consumer_epoch=3)
    producer = world.producer()
    producer.send(b"0")
    consumer.redeliver(epoch=4)
    consumer.redeliver(epoch=2)
    producer.send(b"1")
    assert consumer.epochs == [3, 4, 4, 4]


def test_entries_of_a_compacted_read_carry_no_epoch(world: Any) -> None:
    consumer = world.consumer(consumer_epoch=3, read_compacted=True)
    world.producer().send(b"0")
    consumer.redeliver(epoch=4)
    assert consumer.epochs == [-1, -1]


def test_a_backlog_comes_in_parcels_and_stops_while_the_connection_is_full(world: Any) -> None:
    consumer = world.consumer(permits=0)
    world.producer().send_all([b"x"] * 250)
    consumer.most = 100
    consumer.flow(1000)
    assert len(consumer.got) == 100
    consumer.most = 1000
    consumer.resume()
    assert len(consumer.got) == 250


def test_a_parcel_of_large_entries_is_small(world: Any) -> None:
    consumer = world.consumer(permits=0)
    world.producer().send_all([b"x" * 600_000] * 5)
    consumer.most = 1
    consumer.flow(1000)
    assert len(consumer.got) == 2


def test_the_first_failover_consumer_begins_after_a_second_and_hears_so(world: Any) -> None:
    consumer = world.consumer(subscription_type=FAILOVER)
    world.producer().send(b"0")
    assert (consumer.got, consumer.heard) == ([], [])
    world.pass_time(1)
    assert (consumer.got, consumer.heard) == ([b"0"], ["active"])


def test_without_a_delay_failover_begins_at_once(world: Any) -> None:
    world.settings.failover_delay = 0.0
    consumer = world.consumer(subscription_type=FAILOVER)
    assert consumer.heard == ["active"]


def test_when_the_active_one_goes_the_other_gets_what_is_not_acknowledged(world: Any) -> None:
    first, second = world.failover_pair()
    world.producer("fo-3").send_all([b"0", b"1"])
    first.ack(b"0")
    first.close()
    assert second.got == []
    world.pass_time(1)
    assert (second.got, second.heard) == ([b"1"], ["standby", "standby", "active"])


def test_what_is_asked_of_one_that_is_not_active_does_nothing(world: Any) -> None:
    first, second = world.failover_pair()
    world.producer("fo-3").send(b"0")
    second.redeliver(epoch=7)
    assert (first.got, second.got, second.made.epoch) == ([b"0"], [], 7)


def test_changes_within_the_delay_are_one_change(world: Any) -> None:
    world.consumer("fo-3", subscription_type=FAILOVER, name="beta")
    world.pass_time(0.5)
    first = world.consumer("fo-3", subscription_type=FAILOVER, name="alpha")
    world.producer("fo-3").send(b"0")
    world.pass_time(0.5)
    assert (first.got, first.heard) == ([b"0"], ["active"])
    assert world.clock.timers == 0


def test_one_that_comes_after_all_have_gone_waits_a_whole_second(world: Any) -> None:
    world.consumer(subscription_type=FAILOVER).close()
    world.pass_time(0.9)
    late = world.consumer(subscription_type=FAILOVER)
    world.producer().send(b"0")
    world.pass_time(0.9)
    assert late.got == []
    world.pass_time(0.1)
    assert late.got == [b"0"]


def test_an_old_timer_does_not_start_the_reading_of_another_type_over(world: Any) -> None:
    world.consumer(subscription_type=FAILOVER).close()
    shared = world.consumer(subscription_type=TYPES.Shared)
    producer = world.producer()
    producer.send(b"0")
    world.pass_time(2)
    producer.send(b"1")
    assert shared.got == [b"0", b"1"]


# Pulsar 4.2.4: three consumers of these names on each of these topics, and who got the message.
RECORDED = {
    "fo-0": "gamma",
    "fo-1": "beta",
    "fo-2": "gamma",
    "fo-3": "alpha",
    "fo-4": "alpha",
    "fo-5": "alpha",
    "fo-6": "alpha",
    "fo-7": "beta",
    "fo-8": "alpha",
    "fo-9": "beta",
}


def active(world: Any, topic: str, **levels: int) -> str:
    consumers = [
        world.consumer(topic, subscription_type=FAILOVER, name=name, priority_level=level)
        for name, level in levels.items()
    ]
    world.pass_time(1)
    (chosen,) = [each.made.name for each in consumers if each.heard[-1:] == ["active"]]
    return str(chosen)


@pytest.mark.parametrize(("topic", "chosen"), list(RECORDED.items()))
def test_the_ring_of_names_chooses_as_a_real_broker_does(world: Any, topic: str, chosen: str) -> None:
    assert active(world, topic, gamma=0, alpha=0, beta=0) == chosen


@pytest.mark.parametrize(("partition", "chosen"), list(enumerate(["alpha", "beta", "gamma", "alpha"])))
def test_partitions_count_through_the_names(world: Any, partition: int, chosen: str) -> None:
    world.cluster.create_partitioned(TopicName.parse("p"), 4)
    assert active(world, f"p-partition-{partition}", gamma=0, alpha=0, beta=0) == chosen


def test_only_the_lowest_level_is_chosen_from(world: Any) -> None:
    assert active(world, "fo-3", gamma=1, alpha=2, beta=1, delta=2) in {"gamma", "beta"}
    assert active(world, "fo-0", gamma=1, alpha=2, beta=0) == "beta"
