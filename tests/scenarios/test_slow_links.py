"""A network on which a message takes longer than the interval of the keepalive, in calm weather.

A producer publishes and a consumer receives, by one client or two. Bytes go all the time, and so no connection is given
up, though PING and PONG wait behind them. Nothing is repeated, and everything arrives.
"""

from typing import Any

from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import subscribe
from tests.scenarios.scene import KEEPALIVE, TOPIC, Scene, play

SLOW = NetworkConditions(latency=0.5, smallest_window=1024, largest_window=4096)
"""Four to sixteen KiB a second, in each direction of each connection."""


def crawling(scene: Scene) -> None:
    dice, world = Dice(scene.world.seed, "slow link"), scene.world
    clients = [scene.client(keep_alive_interval_seconds=KEEPALIVE) for _ in range(1 + dice.below(2))]
    payloads = [bytes([number]) * dice.below(100_000) for number in range(1 + dice.below(8))]
    handles: list[Any] = []

    def program() -> None:
        consumer = subscribe(scene, clients[-1], receiver_queue_size=1 + dice.below(10))
        producer = clients[0].create_producer(TOPIC, send_timeout_millis=0, batching_enabled=dice.happens(0.5))
        handles.extend((producer, consumer))
        sent = producer.send_many(payloads)
        for payload in payloads:
            message = consumer.receive()
            assert message.data() == payload
            consumer.acknowledge(message)
        world.block(sent)
        assert sent.result() == len(payloads)

    caller = world.spawn(program, "program")
    world.run(until=lambda: caller.ended, limit=1000.0)
    caller.result()
    reconnects = [handle.stats().reconnects for handle in handles]
    assert reconnects == [0, 0], f"connections were given up that were in use: {reconnects}"
    scene.end()


def test_a_connection_over_which_bytes_go_slowly_is_kept() -> None:
    play(60, crawling, SLOW)
