"""A pattern brings persistent topics, others, or both, as it is told, whatever goes wrong.

All that is stored in a topic of the right kind is received, and nothing of any other. Topics that keep nothing lose
messages while there are faults, and none once all is well.
"""

import re

from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType, InitialPosition, RegexSubscriptionMode
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.topic_name import TopicName
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import NAMESPACE, PATIENCE, SUBSCRIPTION, Scene, play

PATTERN = re.compile(f"{NAMESPACE}/leaf-.*")
DOMAINS = ("persistent", "non-persistent")
WANTED = {
    RegexSubscriptionMode.PersistentOnly: ("persistent",),
    RegexSubscriptionMode.NonPersistentOnly: ("non-persistent",),
    RegexSubscriptionMode.AllTopics: DOMAINS,
}
MODES = tuple(WANTED)
LATE = 3.0
"""Virtual seconds within which a new topic is noticed when all is well."""


class Choosing:
    """Topics of both kinds, of which some come later, and a consumer by a pattern."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = self.dice = Dice(scene.world.seed, "choosing")
        self.mode = MODES[dice.below(len(MODES))]
        self.client = scene.client(partitions_update_interval=1)
        self.names = [f"{domain}://{NAMESPACE}/leaf-{domain[0]}{number}" for domain in DOMAINS for number in range(2)]
        self.wanted = [name for name in self.names if name.partition(":")[0] in WANTED[self.mode]]
        self.received: dict[bytes, str] = {}

    def program(self) -> None:
        scene, world = self.scene, self.scene.world
        writers = [world.spawn(lambda name=name: self._write(name), name) for name in self.names]  # type: ignore[misc]
        consumer: Consumer = scene.insist(
            lambda: self.client.subscribe(
                PATTERN,
                SUBSCRIPTION,
                ConsumerType.Shared,
                initial_position=InitialPosition.Earliest,
                pattern_auto_discovery_period=1,
                regex_subscription_mode=self.mode,
                receiver_queue_size=(1, 1000)[self.dice.below(2)],
            )
        )
        while not (scene.is_calm and all(writer.ended for writer in writers) and self._are_served()):
            self._receive(consumer)
        for writer in writers:
            writer.result()
        at_last = {name: f"{name}#at last".encode() for name in self.names}
        for name, content in at_last.items():
            producer = scene.insist(lambda name=name: self.client.create_producer(name))
            producer.send(content)
        deadline = world.now + PATIENCE
        while not self._has_all(at_last) and world.now < deadline:
            self._receive(consumer)
        assert self._has_all(at_last), f"of {self.wanted} came {sorted(self.received)}"
        consumer.close()

    def _has_all(self, at_last: dict[str, bytes]) -> bool:
        stored = {message.content for name in self.wanted for message in self.scene.stored(name)}
        return set(self.received) >= stored | {at_last[name] for name in self.wanted}

    def _receive(self, consumer: Consumer) -> None:
        try:
            message = consumer.receive(300)
        except Timeout:
            return
        topic = message.topic_name()
        assert topic in self.wanted, f"{self.mode} brought {topic}"
        assert message.data().decode().partition("#")[0] == topic
        self.received[message.data()] = topic
        consumer.acknowledge(message)

    def _write(self, name: str) -> None:
        scene, dice = self.scene, Dice(self.scene.world.seed, name)
        scene.sleep(dice.chance() * dice.below(10))
        producer = scene.insist(lambda: self.client.create_producer(name, send_timeout_millis=3000))
        for number in range(dice.below(10)):
            try:
                producer.send(f"{name}#{number}".encode())
            except PulsarException as error:
                scene.world.note(f"not sent: {error!r}")
            scene.sleep(dice.chance() * dice.below(2))

    def _are_served(self) -> bool:
        """Tell whether each wanted topic has one consumer that is connected, and others none."""
        is_well = self.scene.world.now > self.scene.calm_since + PATIENCE / 4 + LATE
        return is_well and all(self._consumers(name) == int(name in self.wanted) for name in self.names)

    def _consumers(self, name: str) -> int:
        assert self.scene.broker is not None
        topic = self.scene.broker.cluster.find_topic(TopicName.parse(name))
        subscription = topic.subscriptions.get(SUBSCRIPTION) if topic else None
        return len(subscription.consumers) if subscription else 0


def choosing(scene: Scene) -> None:
    in_troubles(scene, Choosing(scene).program, patience=2 * PATIENCE)


def test_a_pattern_brings_topics_of_the_kinds_that_it_is_told() -> None:
    play(30, choosing)
