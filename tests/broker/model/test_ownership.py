from typing import Any

from pulsar_actors.wire.topic_name import TopicName


def test_the_longest_beginning_of_a_name_decides_who_serves_it(world: Any) -> None:
    cluster = world.cluster
    cluster.assign("persistent://public/", "a")
    cluster.assign("persistent://public/default/t", "b")
    assert [cluster.owner_of(TopicName.parse(name)) for name in ("x", "t", "t-partition-0")] == ["a", "b", "b"]


def test_a_topic_that_nobody_was_given_is_served_by_whoever_is_asked(world: Any) -> None:
    assert world.cluster.owner_of(TopicName.parse("t")) is None
    world.cluster.assign("persistent://", "a")
    world.cluster.assign("persistent://", None)
    world.cluster.assign("persistent://", None)
    assert world.cluster.owner_of(TopicName.parse("t")) is None
