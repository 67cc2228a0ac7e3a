"""A listener that is paused is not called, and loses nothing, whatever goes wrong.

When a pause returns, one call may be under way or about to begin; there is no other until the listener is resumed. A
listener is called with one message at a time, whatever the threads. All partitions together have no more permits than
the consumer may hold, and while it is paused for long, no more messages leave the broker than it has room for.
"""

from contextlib import suppress
from typing import Any

from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import PARTS, SUBSCRIPTION, TOPIC, Scene, play

KINDS = tuple(ConsumerType)
SOON = 0.3
"""Virtual seconds in which a call ends that was under way."""


class Listener:
    """A listener, which sees that it is called when it may be."""

    def __init__(self, scene: Scene, name: str, *, refuses: bool) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, name)
        self._refuses = refuses
        self.is_paused = True
        self.late = 0
        """The calls that have begun since the last pause has returned, or since the start."""
        self._is_called = False
        self.received: set[bytes] = set()

    def __call__(self, consumer: Any, message: Message) -> None:
        assert isinstance(consumer, Consumer)
        assert not self._is_called, "called with two messages at once"
        self._is_called = True
        self.late += self.is_paused
        if self._dice.happens(0.2):
            self._scene.sleep(self._dice.chance() * SOON / 2)
        self.received.add(message.data())
        if self._dice.happens(0.05):
            self.pause(consumer)
            self._scene.world.after(SOON, lambda: self._resume_unless_closed(consumer))
        if self._refuses and not self._scene.is_calm and self._dice.happens(0.2):
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
        self._is_called = False

    def _resume_unless_closed(self, consumer: Consumer) -> None:
        with suppress(AlreadyClosed):
            self.resume(consumer)

    def pause(self, consumer: Consumer) -> None:
        consumer.pause_message_listener()
        self.is_paused, self.late = True, 0

    def resume(self, consumer: Consumer) -> None:
        self.is_paused = False
        consumer.resume_message_listener()


class Pausing:
    """A consumer with a listener, and somebody who pauses it again and again."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = self.dice = Dice(scene.world.seed, "pausing")
        self.kind = KINDS[dice.below(len(KINDS))]
        self.partitions = (0, 0, 2, 3)[dice.below(4)]
        self.topic = str(PARTS) if self.partitions else TOPIC
        if self.partitions:
            scene.on_broker(lambda broker: broker.cluster.create_partitioned(PARTS, self.partitions))
        self.names = [str(PARTS.partition(number)) for number in range(self.partitions)] or [TOPIC]
        self.queue = (1, 3, 1000)[dice.below(3)] if self.partitions else (0, 1, 3, 1000)[dice.below(4)]
        self.together = (0, 5, 50_000)[dice.below(3)]
        self.starts_paused = dice.happens(0.5)
        self.client = scene.client()
        self.publisher = Publisher(scene, self.client, topic=self.topic)
        self.listener = Listener(scene, "listener", refuses=dice.happens(0.3))
        self.listener.is_paused = self.starts_paused

    @property
    def room(self) -> int:
        """The most messages that a consumer of one partition may hold, by one: a broker never splits a batch."""
        return min(self.queue, max(1, self.together // self.partitions)) if self.partitions else self.queue

    def program(self) -> None:
        scene, dice, listener = self.scene, self.dice, self.listener
        consumer = subscribe(
            scene,
            self.client,
            self.topic,
            consumer_type=self.kind,
            receiver_queue_size=self.queue,
            max_total_receiver_queue_size_across_partitions=self.together,
            message_listener=listener,
            start_paused=self.starts_paused,
            negative_ack_redelivery_delay_ms=100,
        )
        if self.starts_paused:
            scene.sleep(2 * dice.chance())
            assert not listener.late, "called before it was resumed for the first time"
            listener.resume(consumer)
        while not self._is_drained():
            scene.sleep(dice.chance())
            if dice.happens(0.4):
                continue
            listener.pause(consumer)
            if dice.happens(0.3):  # at once: a call that was about to begin must not be lost
                listener.resume(consumer)
                continue
            scene.sleep(SOON + 2 * dice.chance())
            if listener.is_paused:
                assert listener.late <= 1, f"{listener.late} calls while it was paused"
                self._see_that_no_more_is_taken_than_there_is_room_for()
            listener.resume(consumer)
        stored = {message.content for name in self.names for message in scene.stored(name)}
        assert stored == listener.received, f"never received: {stored - listener.received}"
        consumer.close()

    def _see_that_no_more_is_taken_than_there_is_room_for(self) -> None:
        for name in self.names:
            topic = self.scene.topic(name)
            for consumer in topic.subscriptions[SUBSCRIPTION].consumers if topic is not None else ():
                assert consumer.permits <= max(1, self.room), f"{consumer.permits} permits for {self.room} places"

    def _is_drained(self) -> bool:
        topics = [self.scene.topic(name) for name in self.names]
        return (
            self.scene.is_calm
            and self.publisher.caller.ended
            and all(topic is not None and topic.subscriptions[SUBSCRIPTION].backlog() == 0 for topic in topics)
        )


def pausing(scene: Scene) -> None:
    story = Pausing(scene)
    in_troubles(scene, story.program, story.publisher)


def test_a_paused_listener_is_not_called_and_loses_nothing() -> None:
    play(40, pausing, deduplication=True)
