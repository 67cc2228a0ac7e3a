"""Producers that wait for a topic get it one after the other, also if brokers forget that they wait."""

from collections.abc import Callable
from contextlib import suppress

from pulsar_actors.broker.broker import Broker
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.producer import LINE_CHECK_INTERVAL
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import NAMESPACE, OPERATION_TIMEOUT, TOPIC, Scene, play

LONGEST_TURN = 5.0


def waiting_in_line(scene: Scene) -> None:
    """Unload the topic, or move it, while several producers wait for their turn."""
    world, dice = scene.world, scene.dice
    number, unloads = 2 + dice.below(3), dice.below(4)
    scene.add_brokers(1, [])
    clients = [scene.client() for _ in range(2)]

    def take_turn(name: int) -> None:
        mine = Dice(world.seed, f"turn {name}")
        producer = clients[name % 2].create_producer(
            TOPIC, access_mode=ProducerAccessMode.WaitForExclusive, send_timeout_millis=int(OPERATION_TIMEOUT * 1000)
        )
        scene.sleep(LONGEST_TURN * mine.chance())
        with suppress(PulsarException):  # another may have taken the topic during an unload
            producer.send(b"%d" % name)
        producer.close()

    def unload(broker: Broker) -> None:
        topic = broker.cluster.namespace(NAMESPACE).topics.get(TOPIC)
        if topic is not None:
            topic.unload()

    ways: tuple[Callable[[Broker], object], ...] = (unload, lambda broker: scene.move(broker, TOPIC))
    for _ in range(unloads):
        way = ways[dice.below(2)]
        world.after(number * LONGEST_TURN * dice.chance(), lambda way=way: scene.on_broker(way))  # type: ignore[misc]
    callers = [world.spawn(lambda name=name: take_turn(name)) for name in range(number)]  # type: ignore[misc]
    longest = LINE_CHECK_INTERVAL + 3 * OPERATION_TIMEOUT + LONGEST_TURN
    world.run(until=lambda: all(caller.ended for caller in callers), limit=number * longest)
    for caller in callers:
        caller.result()
    scene.end()


def test_all_that_wait_for_a_topic_get_their_turn_whatever_unloads_it() -> None:
    play(60, waiting_in_line, NetworkConditions())
