"""A message in chunks whose producer is interrupted in the middle.

If the producer is away for long, and comes back, the message arrives: consumers may have given up the first chunks. It
also arrives if consumers join and leave a Key_Shared subscription meanwhile, so that its key moves, and if the program
rests in its middle. If the producer has died, a program that has always something to do, so that the broker is hardly
ever allowed to send, gets past the chunks all the same.
"""

import math
from typing import Any

from pulsar_actors.broker.fault_rules import Action, CloseConnection, InterceptedCommand
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType, KeySharedMode
from pulsar_actors.client.policies import ConsumerKeySharedPolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.exceptions import Timeout
from pulsar_actors.machines.trackers.chunked_messages import CLOCKS_DIFFER
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend
from tests.scenarios.programs import subscribe
from tests.scenarios.scene import PATIENCE, SUBSCRIPTION, TOPIC, Scene, play

CHUNK = 5
"""Bytes of a chunk."""
EXPIRY = 60.0
"""Virtual seconds for which a message may stay incomplete, which is the default."""
WORK = 3.0
"""Virtual seconds that a program with much to do takes for a message."""
HEARD = 0.02
"""Virtual seconds in which the client gets all receipts, and does not connect again."""


def chunking_producer(client: Client) -> Producer:
    made: Producer = client.create_producer(
        TOPIC,
        "chunks",
        send_timeout_millis=0,
        batching_enabled=False,
        chunking_enabled=True,
        chunk_max_message_size=CHUNK,
    )
    return made


def interrupt(scene: Scene, sends: int, away: float) -> None:
    """Close the connection of a producer behind so many SENDs, and let the first client be cut off for a while."""
    left = [sends]

    def judge(seen: InterceptedCommand) -> Action | None:
        if not isinstance(seen.command, CommandSend) or left[0] < 0:
            return None
        left[0] -= 1
        if left[0] >= 0:
            return None
        scene.world.after(HEARD, cut_off)
        return CloseConnection()

    def cut_off() -> None:
        for loop in scene.hosts[1]:
            scene.world.faults.partition(loop.name, away)

    assert scene.broker is not None
    scene.broker.faults.control(judge)


def interrupting(scene: Scene, only: ConsumerType | None = None) -> None:
    world, dice = scene.world, Dice(scene.world.seed, "interrupted chunks")
    producer = chunking_producer(scene.client())
    kind = only or ConsumerType(dice.below(len(ConsumerType)))
    queue = (1, 2, 1000)[dice.below(3)]
    joining = Dice(world.seed, "joining")
    policy = ConsumerKeySharedPolicy(KeySharedMode.AutoSplit, joining.happens(0.3))
    options: dict[str, Any] = {"consumer_type": kind, "receiver_queue_size": queue}
    if kind is ConsumerType.KeyShared:
        options["key_shared_policy"] = policy
    consumer = subscribe(scene, scene.client(), **options)
    received: list[bytes] = []

    def receive(consumer: Consumer, leaves: float = math.inf) -> None:
        while not scene.is_over and world.now < leaves:
            try:
                message = consumer.receive(500)
            except Timeout:
                continue
            received.append(message.data())
            consumer.acknowledge(message)

    def join() -> None:
        client = scene.client()
        scene.sleep(joining.chance() * away)
        receive(subscribe(scene, client, **options), world.now + 3 * EXPIRY * joining.chance())
        client.close()

    readers = [world.spawn(lambda: receive(consumer), "reader")]
    away = (1.0, 25.0, 35.0, EXPIRY, 2 * EXPIRY)[dice.below(5)] + dice.chance()
    if kind is ConsumerType.KeyShared:
        joined = 1 + joining.below(3) if only else joining.below(3)
        readers += [world.spawn(join, f"joining {number}") for number in range(joined)]
    interrupt(scene, 1 + dice.below(5), away)
    contents = [b"%d " % number + b"x" * dice.below(6 * CHUNK) for number in range(1 + dice.below(3))]
    keys = [f"key {joining.below(3)}" if kind is ConsumerType.KeyShared else None for _ in contents]
    futures = [producer.send_async(content, partition_key=key) for content, key in zip(contents, keys, strict=True)]
    world.run(
        until=lambda: all(one.done() for one in futures) and len(set(received)) == len(contents), limit=away + PATIENCE
    )
    scene.is_over = True
    world.run(until=lambda: all(reader.ended for reader in readers))
    for reader in readers:
        reader.result()
    for future in futures:
        future.result()
    scene.end()


def test_a_message_arrives_however_long_its_producer_was_away() -> None:
    play(60, interrupting, CALM)


def test_a_message_arrives_though_consumers_join_and_leave_while_its_producer_is_away() -> None:
    play(30, lambda scene: interrupting(scene, ConsumerType.KeyShared), CALM)


def resting(scene: Scene) -> None:
    """Let a program rest for longer than messages may stay incomplete, while its queue is full in the middle of one."""
    world, dice = scene.world, Dice(scene.world.seed, "resting")
    client = scene.client()
    producer = chunking_producer(client)
    kind = (ConsumerType.Exclusive, ConsumerType.Shared)[dice.below(2)]
    consumer = subscribe(scene, client, consumer_type=kind, receiver_queue_size=1 + dice.below(5))
    contents = [b"%d " % number + b"x" * dice.below(6 * CHUNK) for number in range(3 + dice.below(6))]
    received: list[bytes] = []

    def read() -> None:
        for _ in contents:
            if dice.happens(0.5):
                scene.sleep(2 * EXPIRY)
            message = consumer.receive()
            received.append(message.data())
            consumer.acknowledge(message)

    sent = [producer.send_async(content) for content in contents]
    reader = world.spawn(read, "reader")
    world.run(until=lambda: reader.ended, limit=len(contents) * 3 * EXPIRY)
    reader.result()
    assert received == contents
    assert all(one.exception(0) is None for one in sent)
    scene.end()


def test_a_message_arrives_at_a_program_that_rests_in_its_middle() -> None:
    play(20, resting, CALM)


def overloading(scene: Scene) -> None:
    """Let a program take as long for each message as its producer, or a little longer, from a full queue."""
    world, dice = scene.world, Dice(scene.world.seed, "overload")
    dying, other = scene.client(), scene.client()
    producer, steady = chunking_producer(dying), other.create_producer(TOPIC)
    consumer = subscribe(scene, other, consumer_type=ConsumerType.Exclusive, receiver_queue_size=1 + dice.below(3))
    interrupt(scene, 1 + dice.below(3), PATIENCE)
    producer.send_async(b"y" * 4 * CHUNK)
    scene.sleep(1.0)
    dying.shutdown()
    ends = world.now + EXPIRY + CLOCKS_DIFFER + 20 * WORK

    def write() -> None:
        while world.now < ends:
            steady.send(b"steady")
            scene.sleep(WORK * (0.8 + 0.2 * dice.chance()))

    def read() -> None:
        while world.now < ends + 20 * WORK:
            try:
                message = consumer.receive(500)
            except Timeout:
                continue
            scene.sleep(WORK)
            consumer.acknowledge_cumulative(message)

    callers = [world.spawn(write, "writer"), world.spawn(read, "reader")]
    world.run(until=lambda: all(caller.ended for caller in callers), limit=2 * (ends - world.now))
    for caller in callers:
        caller.result()
    topic = scene.topic()
    assert topic is not None
    stored = topic.managed_ledger.end - topic.managed_ledger.base
    assert topic.subscriptions[SUBSCRIPTION].backlog() < stored / 2, "the chunks keep what is behind them"
    scene.is_calm = True
    scene.end()


def test_chunks_of_a_dead_producer_do_not_hold_back_the_acknowledgements_of_a_program_that_is_never_idle() -> None:
    play(10, overloading, CALM)
