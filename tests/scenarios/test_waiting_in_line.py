"""Producers that wait for a topic get it one after the other, also if brokers forget them, or do not answer."""

from collections.abc import Callable
from contextlib import suppress

from pulsar_actors.broker.broker import Broker
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.producer import LINE_CHECK_INTERVAL
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer
from tests.scenarios.scene import NAMESPACE, OPERATION_TIMEOUT, TOPIC, Scene, play

LONGEST_TURN = 5.0


def waiting_in_line(scene: Scene) -> None:
    """Unload the topic, or move it, or leave a question without an answer, while several wait for their turn.

    Some turns last for so long that the others ask if the topic is still taken.
    """
    world, dice = scene.world, scene.dice
    number, unloads = 2 + dice.below(3), dice.below(4)
    longest_turn = 2 * LINE_CHECK_INTERVAL if dice.happens(0.3) else LONGEST_TURN
    scene.add_brokers(1, [])
    clients = [scene.client() for _ in range(2)]

    def take_turn(name: int) -> None:
        mine = Dice(world.seed, f"turn {name}")
        mode, time_limit = ProducerAccessMode.WaitForExclusive, int(OPERATION_TIMEOUT * 1000)
        producer = scene.insist(
            lambda: clients[name % 2].create_producer(TOPIC, access_mode=mode, send_timeout_millis=time_limit)
        )
        scene.sleep(longest_turn * mine.chance())
        with suppress(PulsarException):  # another may have taken the topic during an unload
            producer.send(b"%d" % name)
        producer.close()

    def unload(broker: Broker) -> None:
        topic = broker.cluster.namespace(NAMESPACE).topics.get(TOPIC)
        if topic is not None:
            topic.unload()

    def leave(broker: Broker) -> None:
        broker.faults.on(CommandProducer).drop()

    ways: tuple[Callable[[Broker], object], ...] = (unload, lambda broker: scene.move(broker, TOPIC), leave)
    for _ in range(unloads):
        way = ways[dice.below(3)]
        world.after(number * longest_turn * dice.chance(), lambda way=way: scene.on_broker(way))  # type: ignore[misc]
    callers = [world.spawn(lambda name=name: take_turn(name)) for name in range(number)]  # type: ignore[misc]
    longest = LINE_CHECK_INTERVAL + 3 * OPERATION_TIMEOUT + longest_turn
    world.run(until=lambda: all(caller.ended for caller in callers), limit=number * longest)
    for caller in callers:
        caller.result()
    scene.end()


def test_all_that_wait_for_a_topic_get_their_turn_whatever_unloads_it() -> None:
    play(60, waiting_in_line, NetworkConditions())
