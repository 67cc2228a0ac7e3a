"""Which consumer of a Failover subscription is active was recorded from a real broker."""

from typing import Any

import pytest

from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe
from pulsar_actors.wire.topic_name import TopicName

FAILOVER = CommandSubscribe.SubType.Failover

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
        world.consumer(topic, kind=FAILOVER, name=name, priority_level=level) for name, level in levels.items()
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
