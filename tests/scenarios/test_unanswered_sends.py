"""Messages that are lost, or whose receipts are, until their time limit or the end of their producer, client or topic.

What each send says is true, and most of all that a message was not stored: it had been written, in many a case.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pulsar_actors.broker.broker import Broker
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CommandSendReceipt
from tests.scenarios.scene import NAMESPACE, PARTS, TOPIC, Scene, play
from tests.scenarios.sent import Sender, Sent, a_producer
from tests.scenarios.silence import Silence

LONGEST_SEND = 30.0
"""The longer of the time limits of `a_producer`."""


def work(scene: Scene, client: Client, topic: str, sent: Sent, name: str) -> None:
    """Send with one producer until it has ended, and close it."""
    sender, dice = Sender(scene, sent, name), Dice(scene.world.seed, name)
    with suppress(PulsarException):
        producer = a_producer(scene, client, dice, topic, lazy_start_partitioned_producers=dice.happens(0.5))
        for _ in range(3 + dice.below(10)):
            sender.do(producer)
        if dice.happens(0.5):
            began = scene.world.now
            sender.flush(producer)
            took = scene.world.now - began
            assert took <= LONGEST_SEND + 1.0, f"flush() took {took:.3f} s, though every send ends sooner"
        producer.close()


def terminate(broker: Broker) -> None:
    """Let the topics take no more messages."""
    for topic in broker.cluster.namespace(NAMESPACE).topics.values():
        topic.terminate()


def unanswered_sends(scene: Scene) -> None:
    world, sent, topics = scene.world, Sent(), (TOPIC,)
    topic = TOPIC if scene.dice.happens(0.6) else str(PARTS)
    if topic != TOPIC:
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 3))
        topics = tuple(str(PARTS.partition(index)) for index in range(3))
    client, other = scene.client(), scene.client()
    silence = Silence(scene, CommandSend, CommandSendReceipt)

    def fence() -> None:
        with suppress(PulsarException):
            other.create_producer(topic, access_mode=ProducerAccessMode.ExclusiveWithFencing)

    def without_a_connection(end: Callable[[], object]) -> None:
        scene.have_broker(lambda broker: broker.faults.on_accept(times=None).hang_up())
        world.faults.cut()
        scene.sleep(scene.dice.chance())
        end()

    callers = [world.spawn(lambda name=name: work(scene, client, topic, sent, name), name) for name in "ab"]  # type: ignore[misc]
    terminated = partial(scene.have_broker, terminate)
    ends = [client.close, client.shutdown, fence, terminated, world.faults.cut, silence.end]
    ends += [partial(without_a_connection, end) for end in (client.close, client.shutdown)]
    silence.play_out(callers, ends)
    sent.check(scene, once=scene.topic_deduplicates, topics=topics)


def test_what_is_told_of_a_message_is_true_though_nobody_has_confirmed_it() -> None:
    play(60, unanswered_sends, CALM)


def test_with_deduplication_none_is_stored_twice_however_often_it_is_lost() -> None:
    play(30, unanswered_sends, CALM, deduplication=True)
