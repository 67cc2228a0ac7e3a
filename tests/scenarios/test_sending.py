"""Every send ends once, says the truth, and keeps its place in the order, whatever goes wrong."""

from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import PATIENCE, Scene, play
from tests.scenarios.sent import Sender, Sent, a_producer
from tests.scenarios.troubles import Troubles


def sending(scene: Scene, **options: Any) -> Client:
    world, sent = scene.world, Sent()
    client = scene.client(**options)
    troubles = Troubles(scene, loses_receipts=True)
    once = bool(scene.topic_deduplicates)

    def program(name: str) -> None:
        dice = Dice(world.seed, f"producer {name}")
        senders = [Sender(scene, sent, f"{name}{number}") for number in range(1 + dice.below(2))]
        for round_number in range(1 + dice.below(2)):
            delay_ms = dice.below(3) * 10
            producer = a_producer(
                scene, client, dice, producer_name=f"{name}-{round_number}", batching_max_publish_delay_ms=delay_ms
            )

            def work(sender: Sender, producer: Any = producer) -> None:
                sender.producer_number += 1
                for _ in range(4 + dice.below(16)):
                    sender.do(producer)

            others = [world.spawn(lambda sender=sender: work(sender)) for sender in senders[1:]]  # type: ignore[misc]
            work(senders[0])
            if dice.happens(0.5):
                world.block(lambda others=others: all(other.ended for other in others))  # type: ignore[misc]
            producer.close()
            world.block(lambda others=others: all(other.ended for other in others))  # type: ignore[misc]

    callers = [world.spawn(lambda name=name: program(name), name) for name in "ab"[: 1 + scene.dice.below(2)]]  # type: ignore[misc]
    world.after(troubles.until + 5.0, scene.calm)
    world.run(until=lambda: all(caller.ended for caller in callers), limit=troubles.until + 5.0 + PATIENCE * 3)
    for caller in callers:
        caller.result()
    scene.end()
    sent.check(scene, once=once)
    return client


def sending_with_little_memory(scene: Scene) -> None:
    client = sending(scene, memory_limit_bytes=10)
    gate = client._context.limiter
    assert gate is not None
    assert gate.used == 0, "all has ended, and the limit is not as it was"


def test_every_send_ends_once_and_says_the_truth() -> None:
    play(60, sending)


def test_with_deduplication_every_message_is_stored_at_most_once() -> None:
    play(60, sending, deduplication=True)


def test_where_memory_is_scarce_every_send_ends_as_well_and_gives_back_what_it_took() -> None:
    play(20, sending_with_little_memory)
