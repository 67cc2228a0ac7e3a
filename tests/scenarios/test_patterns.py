"""A pattern subscription keeps up with topics that come, go and come again, whatever goes wrong.

What holds whatever happens: what is stored in a topic that is there in the end is received, since the subscription is
made where a topic begins; each message is of the topic that it says; a topic that was deleted ends quietly, and nobody
brings it back by consuming it. Where one consumer has a topic for itself, messages come for the first time in order.
A message may come again only if a connection or a binding was lost: where only topics come and go, none does.
"""

import re
from contextlib import suppress
from typing import Any

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.exceptions import NotAllowedError, PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.topic_name import TopicName
from tests.histories.history import Place
from tests.scenarios.programs import in_troubles
from tests.scenarios.received import Received
from tests.scenarios.scene import NAMESPACE, PATIENCE, Scene, play

LEAF = f"persistent://{NAMESPACE}/leaf"
PATTERN = re.compile(f"{NAMESPACE}/leaf-.*")
SUBSCRIPTION = "gatherer"
KINDS = (ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.Shared, ConsumerType.KeyShared)


class Life:
    """A topic that comes, is written to, and may go and come again. `is_over` if it went with nobody left to write."""

    def __init__(self, scene: Scene, client: Client, number: int) -> None:
        self.name = TopicName.parse(f"{LEAF}-{number}")
        self.is_over = False
        self._scene = scene
        self._client = client
        self._dice = Dice(scene.world.seed, f"life {number}")
        self._written = 0
        self.caller = scene.world.spawn(self._run, f"leaf-{number}")

    def _run(self) -> None:
        dice = self._dice
        self._rest()
        for _ in range(1 + dice.below(4)):
            partitions = (0, 1, 3)[dice.below(3)]
            self._come(partitions)
            if partitions and dice.happens(0.5):
                self._soon(lambda broker, more=partitions + 1: broker.cluster.grow(self.name, more))
            if not partitions and dice.happens(0.3):
                self._soon(lambda broker: broker.cluster.delete_topic(self.name, force=True))
                self._write()
                return
            self._write()
            self._rest()
            if dice.happens(0.3):
                return
            self._go(partitions)
            if dice.happens(0.5):
                self._rest()

    def _come(self, partitions: int) -> None:
        self.is_over = False
        self._scene.world.note(f"{self.name} comes, {partitions} partitions")
        if partitions:
            self._have_broker(lambda broker: broker.cluster.create_partitioned(self.name, partitions))
        else:
            self._have_broker(lambda broker: broker.cluster.create_topic(self.name))

    def _go(self, partitions: int) -> None:
        self._scene.world.note(f"{self.name} goes")
        if partitions:
            self._have_broker(lambda broker: broker.cluster.delete_partitioned(self.name, force=True))
        else:
            self._have_broker(lambda broker: broker.cluster.delete_topic(self.name, force=True))
        self.is_over = True

    def _have_broker(self, action: Any) -> None:
        """Do something with the topic, which a client that was late may have made anew, without partitions."""
        with suppress(Refusal):
            self._scene.have_broker(action)

    def _write(self) -> None:
        """Write what can be written: a topic that goes meanwhile comes again, or takes no more."""
        dice = self._dice
        try:
            producer = self._scene.insist(
                lambda: self._client.create_producer(
                    str(self.name), send_timeout_millis=5000, batching_enabled=dice.happens(0.5)
                )
            )
            for _ in range(1 + dice.below(12)):
                self._written += 1
                producer.send_async(f"{self.name}#{self._written}".encode(), _nothing)
                if dice.happens(0.3):
                    self._rest()
            producer.close()
        except PulsarException as error:
            self._scene.world.note(f"the writer of {self.name}: {error!r}")

    def _rest(self) -> None:
        self._scene.sleep(10.0 ** (self._dice.chance() * 3 - 2.5))

    def _soon(self, action: Any) -> None:
        def act(broker: Broker) -> None:
            with suppress(Refusal):  # it may have gone by then
                action(broker)

        self._scene.world.after(10.0 ** (self._dice.chance() * 3 - 3), lambda: self._scene.on_broker(act))


def _nothing(*_: object) -> None:
    """Leave it to the broker what was stored."""


class Gatherer:
    """Receives and acknowledges whatever the pattern brings, until that is all there is."""

    def __init__(self, scene: Scene, client: Client, lives: list[Life]) -> None:
        self.received = Received()
        self._scene = scene
        self._client = client
        self._lives = lives
        self._dice = Dice(scene.world.seed, "gatherer")
        self.kind = KINDS[self._dice.below(len(KINDS))]
        self._places: set[tuple[str, Place]] = set()

    def run(self) -> None:
        consumer = self._scene.insist(self._subscribe)
        while self.missing() or not self._is_served():
            try:
                message = consumer.receive(500)
            except Timeout:
                continue
            topic = message.topic_name()
            said = message.data().decode().partition("#")[0]
            assert TopicName.parse(topic).base == TopicName.parse(said), f"{message.data()!r} came as one of {topic}"
            self.received.note(message, topic)
            self._places.add((topic, Place.of(message.message_id())))
            consumer.acknowledge(message)

    def _subscribe(self) -> Any:
        """Subscribe, again if a topic got partitions when it was just being subscribed to as one without any."""
        while True:
            with suppress(NotAllowedError):
                return self._client.subscribe(
                    PATTERN,
                    SUBSCRIPTION,
                    consumer_type=self.kind,
                    initial_position=InitialPosition.Earliest,
                    pattern_auto_discovery_period=1,
                    receiver_queue_size=(1, 3, 1000)[self._dice.below(3)],
                )

    def missing(self) -> list[str]:
        """Name what is to come yet: topics' lives, or messages that are stored and were not received."""
        living = [f"life of {life.name}" for life in self._lives if not life.caller.ended]
        if living or not self._scene.is_calm:
            return [*living, "calm"]
        stored = ((name, message) for name in self._scene.topics() for message in self._scene.stored(name))
        return [
            f"{message.content!r} at {message.place}"
            for name, message in stored
            if name.startswith(LEAF) and (name, message.place) not in self._places
        ]

    def _is_served(self) -> bool:
        """Tell whether each topic that matches has one consumer, and others none."""
        return all(self._consumers(name) == int(name.startswith(LEAF)) for name in self._scene.topics())

    def _consumers(self, name: str) -> int:
        topic = self._scene.topic(name)
        subscription = topic.subscriptions.get(SUBSCRIPTION) if topic else None
        return len(subscription.consumers) if subscription else 0


def gathering(scene: Scene) -> None:
    client, writers = scene.client(partitions_update_interval=0.5), scene.client(partitions_update_interval=0.5)
    scene.on_broker(lambda broker: broker.cluster.create_topic(TopicName.parse("branch-1")))
    is_quiet = scene.dice.happens(0.4)
    if is_quiet:
        scene.calm()
    lives = [Life(scene, writers, number) for number in range(1 + scene.dice.below(4))]
    gatherer = Gatherer(scene, client, lives)
    in_troubles(scene, gatherer.run, patience=2 * PATIENCE, **({"most": 0} if is_quiet else {}))
    for life in lives:
        life.caller.result()
        left = [name for name in scene.topics() if TopicName.parse(name).base == life.name]
        assert not (life.is_over and left), f"{left} came again, with nobody to write there"
    if gatherer.kind in {ConsumerType.Exclusive, ConsumerType.Failover}:
        gatherer.received.check_order()
    if is_quiet:
        gatherer.received.check_nothing_is_repeated()


def test_what_is_stored_in_a_topic_of_a_pattern_is_received_while_others_come_and_go() -> None:
    play(20, gathering)
