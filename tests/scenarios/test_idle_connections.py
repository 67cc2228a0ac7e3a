"""Connections that are closed when nobody has used them for a while, and opened again when they are needed.

Visitors come, use a topic of one broker or another, and leave, while a producer and a consumer stay and say little. No
connection that has users is closed: in calm weather nothing connects twice. In the end there are no more connections
than handles that are open, and whoever comes then is served as well.
"""

from contextlib import suppress
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import subscribe
from tests.scenarios.received import Received
from tests.scenarios.scene import KEEPALIVE, LONGEST_BACKOFF, OPERATION_TIMEOUT, PATIENCE, TOPIC, Scene, play
from tests.scenarios.sent import Sender, Sent, a_producer
from tests.scenarios.troubles import Troubles

TOPICS = [TOPIC, f"{TOPIC}-2", f"{TOPIC}-3"]


class House:
    """A client, and those who use it."""

    def __init__(self, scene: Scene, *, troubled: bool) -> None:
        dice = Dice(scene.world.seed, "house")
        self.scene = scene
        self.troubled = troubled
        timeout = (1.0, 2.0, OPERATION_TIMEOUT)[dice.below(3)]
        asked = timeout * (0.1, 1.0, 1.5)[dice.below(3)]
        self.idle = max(asked, timeout)
        scene.add_brokers(dice.below(3), TOPICS)
        self.slots = 1 + dice.below(4)
        self.client: Client = scene.client(
            operation_timeout_seconds=timeout,
            connection_max_idle_seconds=asked,
            connections_per_broker=self.slots,
            initial_backoff_interval_ms=(1, 100, int(LONGEST_BACKOFF * 1000))[dice.below(3)],
        )
        self.sent = Sent()
        self.received = Received()
        self.residents: list[Any] = []
        self.visitors = [scene.world.spawn(lambda name=name: self._visit(name)) for name in "abc"[: 1 + dice.below(3)]]  # type: ignore[misc]
        self.writer = scene.world.spawn(self._write)
        self.reader = scene.world.spawn(self._read)

    @property
    def callers(self) -> list[Caller]:
        return [*self.visitors, self.writer, self.reader]

    def rest(self, dice: Dice) -> None:
        """Rest for a moment, or until connections are idle."""
        self.scene.sleep(3 * self.idle * dice.chance() ** 3)

    def _visit(self, name: str) -> None:
        scene, sender = self.scene, Sender(self.scene, self.sent, name)
        dice = Dice(scene.world.seed, f"visitor {name}")
        for _ in range(1 + dice.below(4)):
            sender.producer_number += 1
            topic = TOPICS[dice.below(len(TOPICS))]
            with suppress(PulsarException):
                self.client.get_topic_partitions(topic)
            self.rest(dice)
            producer = a_producer(scene, self.client, dice, topic)
            self._count()
            for _ in range(1 + dice.below(3)):
                sender.do(producer)
                self.rest(dice)
            with suppress(PulsarException):
                producer.close()

    def _count(self) -> None:
        """See that there are no more connections than allowed, while none is lost."""
        assert self.scene.broker is not None
        count, most = self.client.stats().connections, self.slots * len(self.scene.broker.nodes)
        assert self.troubled or count <= most, f"{count} connections, and {most} may be"

    def _write(self) -> None:
        dice, sender = Dice(self.scene.world.seed, "writer"), Sender(self.scene, self.sent, "writer")
        producer = self.scene.insist(lambda: self.client.create_producer(TOPIC, send_timeout_millis=0))
        self.residents.append(producer)
        while not all(caller.ended for caller in self.visitors) or not self.scene.is_calm:
            sender.send(producer)
            self.rest(dice)
        sender.send(producer)

    def _read(self) -> None:
        """Receive all that is stored, and go on until nobody writes any more."""
        consumer = subscribe(self.scene, self.client)
        self.residents.append(consumer)
        while not (self.writer.ended and self._has_all()):
            with suppress(Timeout):
                message = consumer.receive(2000)
                self.received.note(message, "reader")
                consumer.acknowledge(message)

    def _has_all(self) -> bool:
        return {arrival.place for arrival in self.received.arrivals} == {each.place for each in self.scene.stored()}

    def grow_quiet(self) -> None:
        """Let some who stayed go, and see that only the connections of the others remain."""
        dice = Dice(self.scene.world.seed, "quiet")
        for resident in self.residents[:]:
            if dice.happens(0.5):
                resident.close()
                self.residents.remove(resident)
        self.scene.sleep(3 * self.idle + 2 * KEEPALIVE + 1.0)
        left = self.client.stats().connections
        assert left <= len(self.residents), f"{left} connections for {len(self.residents)} handles"
        self.scene.check_connections()
        self._visit("late")


def idling(scene: Scene, *, troubled: bool = True) -> None:
    house, world = House(scene, troubled=troubled), scene.world
    calm = (Troubles(scene).until if troubled else 0.0) + 5.0
    world.after(calm, scene.calm)
    world.run(until=lambda: all(caller.ended for caller in house.callers), limit=calm + 3 * PATIENCE + 50 * house.idle)
    for caller in house.callers:
        caller.result()
    if not troubled:
        reconnects = [resident.stats().reconnects for resident in house.residents]
        assert reconnects == [0, 0], f"connections were closed that were in use: {reconnects}"
        house.received.check_nothing_is_repeated()
    last = world.spawn(house.grow_quiet)
    world.run(until=lambda: last.ended, limit=2 * PATIENCE + 50 * house.idle)
    last.result()
    scene.end()
    house.received.check_contents(scene)
    house.received.check_order()
    house.sent.check(scene, once=True, topics=TOPICS)


def test_idle_connections_are_closed_and_opened_again_when_they_are_needed() -> None:
    play(30, idling, deduplication=True)


def test_no_connection_that_is_in_use_is_closed_for_being_idle() -> None:
    play(15, lambda scene: idling(scene, troubled=False), CALM, deduplication=True)
