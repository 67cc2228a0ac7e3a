"""A pattern subscription of very many topics: it has them all, gets what comes, and ends as any other.

PULSAR_SIMULATION_FACTOR=50 python -m pytest tests/scenarios/test_many_topics.py   # 100,000 of them
"""

import os
import re
import resource
from unittest import mock

from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.simulation import world as simulated_world
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.world import World
from pulsar_actors.wire.topic_name import TopicName
from tests.scenarios.scene import FACTOR, NAMESPACE, PATIENCE, Scene

TOPICS = 2_000
STEPS_OF_A_TOPIC = 100
"""More than a topic takes to be found, asked for and subscribed to, all of which may happen at one moment."""
BYTES_OF_A_TOPIC = 60_000
"""Twice what a topic takes here, in the client and in the broker."""


def name_of(number: int) -> str:
    return f"persistent://{NAMESPACE}/many-{number}"


def make(scene: Scene, numbers: range) -> None:
    for number in numbers:
        name = TopicName.parse(name_of(number))
        scene.on_broker(lambda broker, name=name: broker.cluster.create_topic(name))


def test_a_pattern_has_all_topics_that_match() -> None:
    count = int(TOPICS * float(os.environ.get(FACTOR, "1")))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    patience = mock.patch.object(simulated_world, "MOST_STEPS_AT_ONCE", STEPS_OF_A_TOPIC * count)
    with patience, World(0, CALM) as world:
        scene = Scene(world)

        make(scene, range(count))
        client = scene.client(operation_timeout_seconds=600, concurrent_lookup_requests=2 * count)
        consumer = client.subscribe(
            re.compile(f"{NAMESPACE}/many-.*"),
            "s",
            initial_position=InitialPosition.Earliest,
            pattern_auto_discovery_period=1,
            receiver_queue_size=1,
        )
        make(scene, range(count, count + 10))
        last = (0, count // 2, count - 1, count + 9)
        for number in last:
            client.create_producer(name_of(number)).send(f"{number}".encode())
        received = {(message.topic_name(), message.data()) for message in (consumer.receive(60_000) for _ in last)}
        assert received == {(name_of(number), f"{number}".encode()) for number in last}
        deadline = world.now + PATIENCE
        while consumers(scene, count + 10) < count + 10:
            assert world.now < deadline
            scene.sleep(1.0)
        client.close()
        scene.check_nothing_is_left()
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < BYTES_OF_A_TOPIC * count


def consumers(scene: Scene, count: int) -> int:
    """Count the topics that have one consumer."""
    topics = [scene.topic(name_of(number)) for number in range(count)]
    return sum(len(topic.subscriptions["s"].consumers) == 1 for topic in topics if topic and "s" in topic.subscriptions)
