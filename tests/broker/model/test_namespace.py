from typing import Any

import pytest

from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.wire.topic_name import TopicName

ONE = "persistent://public/default/one"


@pytest.fixture
def namespace(world: Any) -> Namespace:
    made: Namespace = world.cluster.namespace("public/default")
    return made


def test_whoever_watches_hears_of_topics_that_come_and_go(world: Any, namespace: Namespace) -> None:
    heard: list[tuple[list[str], list[str]]] = []
    stop = namespace.watch(lambda came, went: heard.append((came, went)))
    world.topic("one")
    world.topic("one")
    world.cluster.create_partitioned(TopicName.parse("two"), 2)
    world.cluster.delete_topic(TopicName.parse("one"))
    stop()
    stop()
    world.topic("three")
    partitions = [f"persistent://public/default/two-partition-{index}" for index in range(2)]
    assert heard == [([ONE], []), (partitions, []), ([], [ONE])]


def test_nothing_is_told_where_nothing_comes_or_goes(world: Any, namespace: Namespace) -> None:
    name = TopicName.parse("p")
    world.cluster.create_partitioned(name, 1)
    world.cluster.delete_topic(name.partition(0))
    heard: list[list[str]] = []
    namespace.watch(lambda came, went: heard.append(went))
    world.cluster.delete_partitioned(name)
    assert heard == []


def test_a_watcher_may_stop_while_it_is_told(world: Any, namespace: Namespace) -> None:
    heard: list[list[str]] = []
    stops = [namespace.watch(lambda came, went: (heard.append(came), stops[0]()))]
    namespace.watch(lambda came, went: heard.append(came))
    world.topic("one")
    world.topic("two")
    assert heard == [[ONE], [ONE], [ONE.replace("one", "two")]]
