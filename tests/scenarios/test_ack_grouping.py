"""An acknowledgement reaches the broker when its group is full or when the time is over, and none is forgotten.

With a time of 0 it is sent at once. After any trouble the times hold again, and what was acknowledged before a clean
close is acknowledged, however long the group's time is.
"""

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import PATIENCE, SUBSCRIPTION, TOPIC, Scene, play

KINDS = tuple(ConsumerType)
AT_ONCE = 0.1
"""Virtual seconds that an acknowledgement is on its way when all is well."""
UNNOTICED = PATIENCE / 4
"""Virtual seconds within which a lost connection is noticed by its client."""
KEPT = 70.0
"""Virtual seconds for which a broker may keep the consumer of a lost connection, and messages with it."""


class Grouping:
    """A consumer that acknowledges, and looks at the broker."""

    def __init__(self, scene: Scene, client: Client, publisher: Publisher) -> None:
        self.scene = scene
        self.client = client
        self.publisher = publisher
        self.dice = dice = Dice(scene.world.seed, "grouping")
        self.kind = KINDS[dice.below(len(KINDS))]
        self.seconds = (0, 0.05, 1.0, 3600.0)[dice.below(4)]
        self.most = (1, 2, 5, 1000)[dice.below(4)]

    def program(self) -> None:
        scene = self.scene
        consumer = self._subscribe()
        last = scene.world.now
        while not (self.publisher.caller.ended and scene.is_calm and self._backlog() == 0):
            try:
                consumer.acknowledge(consumer.receive(300))
                last = scene.world.now
            except Timeout:  # the last group may be sent with the close only
                if (
                    scene.is_calm
                    and self.publisher.caller.ended
                    and scene.world.now > max(last, scene.calm_since) + KEPT
                ):
                    break
        self._see_that_the_times_hold(consumer)
        self._close(consumer)
        scene.sleep(UNNOTICED)
        assert self._backlog() == 0, f"{self._backlog()} are acknowledged, and the consumer is closed"

    def _subscribe(self) -> Consumer:
        return subscribe(
            self.scene,
            self.client,
            consumer_type=self.kind,
            ack_grouping_time_ms=int(self.seconds * 1000),
            ack_grouping_max_size=self.most,
        )

    def _see_that_the_times_hold(self, consumer: Consumer) -> None:
        """Acknowledge single messages, and see when the broker has them."""
        scene, world = self.scene, self.scene.world
        producer = scene.insist(lambda: self.client.create_producer(TOPIC, batching_enabled=False))
        world.block(lambda: world.now > scene.calm_since + UNNOTICED and self._is_alone() and consumer.is_connected())
        # One that the consumer's loop takes just when its group begins is not counted, and the group waits for another.
        held = 0 if self.seconds == 0 or self.most == 1 else self.most
        for number in range(1 + self.dice.below(8)):
            content = f"one more {number}".encode()
            producer.send(content)
            self._acknowledge_up_to(consumer, content)
            assert world.block(lambda: self._backlog() <= held, AT_ONCE), f"{self._backlog()} in a group of {self.most}"
        if self.seconds < PATIENCE:
            assert world.block(lambda: self._backlog() == 0, self.seconds + AT_ONCE), f"{self._backlog()} are late"

    def _acknowledge_up_to(self, consumer: Consumer, content: bytes) -> None:
        """Receive this message, behind any that came again although they were acknowledged in the end."""
        is_there = False
        while not is_there:
            message = consumer.receive(3000)
            is_there = message.data() == content
            consumer.acknowledge(message)

    def _is_alone(self) -> bool:
        """Return whether the broker has no other consumer, of a connection that is lost."""
        topic = self.scene.topic()
        assert topic is not None
        return len(topic.subscriptions[SUBSCRIPTION].consumers) == 1

    def _backlog(self) -> int:
        topic = self.scene.topic()
        assert topic is not None
        return topic.subscriptions[SUBSCRIPTION].backlog()

    def _close(self, consumer: Consumer) -> None:
        try:
            consumer.close()
        except PulsarException as error:
            raise AssertionError(f"all is well, and the close failed: {error!r}") from error


def grouping(scene: Scene) -> None:
    client = scene.client()
    publisher = Publisher(scene, client)
    in_troubles(scene, Grouping(scene, client, publisher).program, publisher, patience=4 * PATIENCE)


def test_an_acknowledgement_is_sent_with_its_group() -> None:
    play(40, grouping, deduplication=True)
