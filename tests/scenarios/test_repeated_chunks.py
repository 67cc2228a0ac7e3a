"""Many messages in chunks are sent again, where the broker drops repeats.

It drops only the last chunk of each, and its disk may be slow. It says what it has when a producer connects, but it may
get more of that behind it, from the connection before; in half of the seeds it says nothing. That must hold up nobody:
each loss of a connection is followed by one reconnect, and then all messages come to consumers of any kind.

A broker that loads the topic again goes by the stored entries, first chunks too. No message may be lost by that, nor
stored twice.
"""

from typing import Any

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.fault_rules import Answer, InterceptedCommand
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import Timeout
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.protobuf import signed
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducerSuccess
from pulsar_actors.wire.topic_name import TopicName
from tests.scenarios.disk import Disk
from tests.scenarios.programs import subscribe
from tests.scenarios.scene import KEEPALIVE, PATIENCE, TOPIC, Scene, play

CHUNK = 5
"""Bytes of a chunk."""
SOON = 2 * KEEPALIVE + 5.0
"""Virtual seconds within which all has come after the last fault. The chunks of a message are kept for 60."""


def say_nothing(seen: InterceptedCommand) -> Answer | None:
    """Let the broker not say what it has of a producer."""
    if not isinstance(seen.command, CommandProducerSuccess) or signed(seen.command.last_sequence_id) < 0:
        return None
    answer = CommandProducerSuccess()
    answer.CopyFrom(seen.command)
    answer.last_sequence_id = -1
    return Answer((answer,))


def repeating(scene: Scene) -> None:
    world, dice = scene.world, Dice(scene.world.seed, "repeated chunks")
    assert scene.broker is not None
    if dice.happens(0.5):
        scene.broker.faults.control(say_nothing)
    client, kind = scene.client(), ConsumerType(dice.below(len(ConsumerType)))
    consumer = subscribe(scene, scene.client(), consumer_type=kind, receiver_queue_size=(10, 1000)[dice.below(2)])
    received: list[bytes] = []

    def receive() -> None:
        while not scene.is_over:
            try:
                message = consumer.receive(500)
            except Timeout:
                continue
            received.append(message.data())
            consumer.acknowledge(message)

    reader = world.spawn(receive)
    producer = client.create_producer(
        TOPIC, "p", send_timeout_millis=0, batching_enabled=False, chunking_enabled=True, chunk_max_message_size=CHUNK
    )
    contents, futures = list[bytes](), list[Any]()
    faults, disk = 1 + dice.below(3), Disk(scene)
    for number in range(faults):
        new = [b"%d-%d " % (number, at) + b"x" * dice.below(4 * CHUNK) for at in range(20 + dice.below(40))]
        contents += new
        futures += [producer.send_async(content) for content in new]
        disk.slow_down(dice.chance())
        world.block(lambda: False, 10.0 ** (dice.chance() * 3 - 3))
        if dice.happens(0.5):
            world.faults.cut()
        else:
            world.faults.stall("broker")  # it has read what was sent, and nobody hears it
    contents.append(b"the last" * CHUNK)
    futures.append(producer.send_async(contents[-1]))
    world.run(
        until=lambda: all(future.done() for future in futures) and len(set(received)) == len(contents),
        limit=SOON * faults,
    )
    scene.is_over = True
    world.run(until=lambda: reader.ended)
    reader.result()
    for future in futures:
        future.result()
    assert sorted(set(received)) == sorted(contents)
    assert producer.stats().reconnects <= faults
    scene.end()


def reloading(scene: Scene) -> None:
    """The topic is loaded again while chunks are written, and connections are lost. Then a reader reads all."""
    world, dice = scene.world, Dice(scene.world.seed, "reloaded chunks")
    assert scene.broker is not None
    if dice.happens(0.5):
        scene.broker.faults.control(say_nothing)
    client = scene.client()
    producer = client.create_producer(
        TOPIC, "p", send_timeout_millis=0, batching_enabled=False, chunking_enabled=True, chunk_max_message_size=CHUNK
    )
    contents, futures, disk = list[bytes](), list[Any](), Disk(scene)
    for number in range(1 + dice.below(9)):
        new = [b"%d-%d " % (number, at) + b"x" * CHUNK * (1 + dice.below(9)) for at in range(1 + dice.below(5))]
        contents += new
        futures += [producer.send_async(content) for content in new]
        if dice.happens(0.5):
            disk.slow_down(dice.chance())
        moment = 0.0
        for _ in range(dice.below(8)):
            moment += 10.0 ** (dice.chance() * 3 - 4)
            world.after(moment, (world.faults.cut, lambda: scene.on_broker(reload))[dice.below(2)])
        scene.sleep(10.0 ** (dice.chance() * 3 - 3))
    world.run(until=lambda: all(future.done() for future in futures), limit=PATIENCE)
    for future in futures:
        future.result()
    reader = client.create_reader(TOPIC, MessageId.earliest, max_pending_chunked_message=0)
    read = [reader.read_next(int(PATIENCE * 1000)).data() for _ in contents]
    assert read == contents
    assert nothing_comes(reader)
    scene.end()


def reload(broker: Broker) -> None:
    """Have the broker unload the topic, and load it again."""
    broker.cluster.unload(TopicName.parse(TOPIC))


def nothing_comes(reader: Any) -> bool:
    """See that what is left to read is no message: the first chunks of one that were stored again."""
    try:
        reader.read_next(int(SOON * 1000))
    except Timeout:
        return True
    return False


def test_they_hold_up_nobody() -> None:
    play(60, repeating, CALM, deduplication=True)


def test_none_is_lost_or_stored_twice_where_the_topic_is_loaded_again() -> None:
    play(60, reloading, CALM, deduplication=True)
