"""Topics that are not stored."""

from typing import Any

import pytest

from pulsar_actors.broker.model.position import EARLIEST
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

TYPES = CommandSubscribe.SubType
TOPIC = "non-persistent://public/default/t"


@pytest.mark.parametrize("kind", [TYPES.Exclusive, TYPES.Failover, TYPES.Shared, TYPES.Key_Shared])
def test_an_entry_goes_to_whoever_listens(world: Any, kind: Any) -> None:
    consumer = world.consumer(TOPIC, kind=kind)
    assert world.producer(TOPIC).send(b"0") == (0, 0)
    assert (consumer.got, consumer.deliveries[0].entry.position) == ([b"0"], (0, 0))


@pytest.mark.parametrize("kind", [TYPES.Exclusive, TYPES.Shared, TYPES.Key_Shared])
def test_what_nobody_can_take_is_dropped(world: Any, kind: Any) -> None:
    consumer = world.consumer(TOPIC, kind=kind, permits=1)
    producer = world.producer(TOPIC)
    producer.send_all([b"0", b"1"])
    consumer.made.flow(10)
    producer.send(b"2")
    assert consumer.got == [b"0", b"2"]
    assert world.topic(TOPIC).stats()["subscriptions"]["s"]["msgDropRate"] == 1.0


def test_every_subscription_gets_it(world: Any) -> None:
    one, other = world.consumer(TOPIC), world.consumer(TOPIC, "other")
    world.producer(TOPIC).send(b"0")
    assert one.got == other.got == [b"0"]


def test_failover_says_at_once_whose_turn_it_is(world: Any) -> None:
    first = world.consumer(TOPIC, kind=TYPES.Failover, name="a")
    second = world.consumer(TOPIC, kind=TYPES.Failover, name="b")
    consumers = {each.made: each for each in (first, second)}
    active = consumers[first.made.subscription.dispatcher.choice.active]
    active.made.close()
    (other,) = (each for each in (first, second) if each is not active)
    assert other.heard[-1] == "active"


def test_nothing_can_be_acknowledged_delivered_again_or_sought(world: Any) -> None:
    consumer = world.consumer(TOPIC, kind=TYPES.Shared)
    world.producer(TOPIC).send(b"0")
    consumer.ack(b"0")
    consumer.ack_up_to(b"0")
    consumer.made.redeliver(epoch=5)
    consumer.made.seek_to_time(0)
    assert (consumer.got, consumer.heard, consumer.made.unacked) == ([b"0"], [], 0)
    consumer.made.subscription.skip()
    assert consumer.made.subscription.dispatcher.acknowledge(consumer.made, consumer.deliveries[0].entry, None) == 0
    assert consumer.made.epoch == 5


def test_a_subscription_without_consumers_drops_everything(world: Any) -> None:
    consumer = world.consumer(TOPIC)
    consumer.made.close()
    world.producer(TOPIC).send(b"0")
    assert world.consumer(TOPIC).got == []


def test_a_subscription_that_never_had_consumers_drops_everything(world: Any) -> None:
    world.topic(TOPIC).create_subscription("s", at=EARLIEST)
    assert world.producer(TOPIC).send(b"0") == (0, 0)
    world.topic(TOPIC).unload()
    assert world.topic(TOPIC).subscriptions == {}


def test_subscriptions_do_not_outlive_an_unload(world: Any) -> None:
    world.consumer(TOPIC)
    world.topic(TOPIC).unload()
    assert world.topic(TOPIC).subscriptions == {}
