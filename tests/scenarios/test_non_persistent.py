"""A topic that keeps nothing: messages may be lost in troubles, but what comes was sent, and the flow never ends.

What is queued at a consumer outlives its connection. A producer that connects again sends again what had no receipt:
so the numbers of its messages may go back once for each time.
"""

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.keys import FailingKeys, Keys
from tests.scenarios.programs import subscribe
from tests.scenarios.scene import PATIENCE, Scene, play
from tests.scenarios.test_consuming import check_permits
from tests.scenarios.troubles import Troubles

TOPIC = "non-persistent://public/default/topic"


class Talker:
    """Sends numbers, one after the other, for as long as somebody listens."""

    def __init__(self, scene: Scene, client: Any, options: dict[str, Any]) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, "talker")
        self._client = client
        self._options = options
        self.count = 0
        self.reconnects = 0
        self.calm_from: int | None = None
        """The first number that is sent after all troubles."""
        self.is_over = False

    def talk(self) -> None:
        scene, dice = self._scene, self._dice
        producer = scene.insist(
            lambda: self._client.create_producer(
                TOPIC,
                send_timeout_millis=0,
                batching_enabled=dice.happens(0.5),
                batching_max_messages=1 + dice.below(5),
                max_pending_messages=0,
                **self._options,
            )
        )
        futures = []
        while not self.is_over:
            if scene.is_calm and self.calm_from is None:
                scene.sleep(15.0)  # until all have found their way
                self.calm_from = self.count
            self.count += 1
            futures.append(producer.send_async(str(self.count - 1).encode()))
            if dice.happens(0.4):
                scene.sleep(10.0 ** (dice.chance() * 2 - 2))
        for future in futures:
            scene.world.block(future)
            assert future.exception() is None
        self.reconnects = producer.stats().reconnects
        producer.close()


class Listener:
    """A caller that receives, until so many messages have come that were sent after all troubles."""

    def __init__(self, scene: Scene, consumer: Consumer, talker: Talker, most: int, name: str) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, f"listener {name}")
        self._talker = talker
        self._left = most
        self.consumer = consumer
        self.numbers: list[int] = []

    def listen(self) -> None:
        while self._left > 0:
            if not self._scene.is_calm and self._dice.happens(0.1):
                self._scene.sleep(3 * self._dice.chance())  # while messages queue, and connections come and go
            for message in self._receive():
                number = int(message.data())
                self._scene.world.note(f"received {number}")
                assert number < self._talker.count
                self.numbers.append(number)
                self._left -= self._talker.calm_from is not None and number >= self._talker.calm_from
                self._treat(message)

    def _receive(self) -> list[Message]:
        way = self._dice.below(4)
        try:
            if way == 0:
                future = self.consumer.receive_async()
                if not self._scene.world.block(future, 1.0) and future.cancel():
                    return []
                self._scene.world.block(future)
                return [future.result()]
            timeout = (0, 30, 500)[self._dice.below(3)]
            if way == 1:
                return self.consumer.receive_many(1 + self._dice.below(8), timeout)
            return [self.consumer.receive(timeout)]
        except Timeout:
            return []

    def _treat(self, message: Message) -> None:
        if self._dice.happens(0.6):
            self.consumer.acknowledge(message)
        elif self._dice.happens(0.2):
            self.consumer.negative_acknowledge(message)
        elif self._dice.happens(0.1):
            self.consumer.redeliver_unacknowledged_messages()

    def check(self, reconnects: int) -> None:
        """See that nothing came out of order, but for what was sent again."""
        back = sum(after <= before for before, after in pairwise(self.numbers))
        assert back <= reconnects, f"went back {back} times, and {reconnects} times was something sent again"


def unkept(scene: Scene, kind: ConsumerType) -> None:
    world, dice = scene.world, scene.dice
    client = scene.client()
    queue = (0, 1, 2, 3, 7, 1000)[dice.below(6)]
    encrypted, timeout = dice.happens(0.5), 10_000 if dice.happens(0.3) else None
    sending: dict[str, Any] = {"encryption_key": "key", "crypto_key_reader": Keys()} if encrypted else {}
    talker = Talker(scene, client, sending)
    listeners: list[Listener] = []

    def listen(name: str) -> None:
        losing = Dice(world.seed, f"keys {name}")
        likely = (0.5, 0.95)[losing.below(2)]  # what was decrypted once needs no key again for a while
        keys = FailingKeys(lambda: not scene.is_calm and losing.happens(likely))
        options: dict[str, Any] = {"crypto_key_reader": keys} if encrypted else {}
        consumer = subscribe(
            scene,
            client,
            TOPIC,
            consumer_type=kind,
            receiver_queue_size=queue,
            unacked_messages_timeout_ms=timeout,
            negative_ack_redelivery_delay_ms=200,
            **options,
        )
        listener = Listener(scene, consumer, talker, 2 * queue % 1000 + 5, name)
        listeners.append(listener)
        listener.listen()

    troubles = Troubles(scene)
    count = 2 if kind is ConsumerType.Shared and dice.happens(0.5) else 1
    callers = [world.spawn(lambda number=number: listen(f"{number}")) for number in range(count)]  # type: ignore[misc]
    talking = world.spawn(talker.talk, "talker")
    calm = troubles.until + 5.0
    world.after(calm, scene.calm)
    world.run(until=lambda: all(caller.ended for caller in callers), limit=calm + 2 * PATIENCE)
    talker.is_over = True
    world.run(until=lambda: talking.ended, limit=PATIENCE)
    for caller in [talking, *callers]:
        caller.result()
    for listener in listeners:
        listener.check(talker.reconnects)
        drain(listener.consumer)
    check_permits(scene, [each.consumer for each in listeners], prefetches=queue > 0, topic=TOPIC)
    scene.end()


def drain(consumer: Consumer) -> None:
    """Take what is left."""
    with suppress(Timeout):
        while True:
            consumer.receive(1000)


@pytest.mark.parametrize(("kind", "seeds"), [("Exclusive", 20), ("Shared", 20), ("KeyShared", 10)])
def test_what_comes_of_a_topic_that_keeps_nothing_was_sent_and_the_flow_never_ends(kind: str, seeds: int) -> None:
    play(seeds, lambda scene: unkept(scene, ConsumerType[kind]))
