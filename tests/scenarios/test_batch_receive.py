"""`batch_receive` returns what its policy says, in its time, whatever goes wrong, and loses nothing.

A list has no more messages than the policy says, and no more bytes, unless a single message has. It is shorter than it
could be only when its time is over, or when the next message would be too large for it.
"""

from typing import Any

from pulsar_actors.client.consumer_options import IN_ORDER
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Place
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import PARTS, SUBSCRIPTION, TOPIC, Scene, play

KINDS = tuple(ConsumerType)
TAKEN = 0.3
"""Virtual seconds that a call may take beyond its timeout."""


class Batches:
    """A consumer, and one caller that receives batches of it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = self.dice = Dice(scene.world.seed, "batches")
        self.kind = KINDS[dice.below(len(KINDS))]
        self.has_partitions = dice.happens(0.3)
        self.topic = str(PARTS) if self.has_partitions else TOPIC
        if self.has_partitions:
            scene.on_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 2))
        self.names = [str(PARTS.partition(number)) for number in range(2)] if self.has_partitions else [TOPIC]
        self.queue = (1, 3, 1000)[dice.below(3)] if self.has_partitions else (0, 1, 3, 1000)[dice.below(4)]
        self.policy = ConsumerBatchReceivePolicy(
            (-1, 1, 3, 7)[dice.below(4)], (0, 1, 4, 9)[dice.below(4)], self._time()
        )
        self.client = scene.client()
        self.publisher = Publisher(scene, self.client, topic=self.topic)
        self.arrived: dict[str, list[Place]] = {}
        self.received: set[bytes] = set()
        self.unfilled: list[Message] = []
        """The last list, if it was returned before its time although it had room for another message."""

    def _time(self) -> int:
        return (20, 200, 1500)[self.dice.below(3)]

    def program(self) -> None:
        scene, dice = self.scene, self.dice
        consumer = subscribe(
            scene,
            self.client,
            self.topic,
            consumer_type=self.kind,
            receiver_queue_size=self.queue,
            batch_receive_policy=self.policy,
            batch_index_ack_enabled=dice.happens(0.5),
        )
        while not self._is_drained():
            began = scene.world.now
            messages = self._receive(consumer)
            self._check(messages, scene.world.now - began)
            if not scene.is_calm and dice.happens(0.1):
                consumer.redeliver_unacknowledged_messages()
                self.unfilled = []
            elif messages:
                consumer.acknowledge(messages)
                self.received |= {message.data() for message in messages}
        stored = {message.content for name in self.names for message in scene.stored(name)}
        assert stored == self.received, f"never received: {stored - self.received}"
        consumer.close()

    def _receive(self, consumer: Any) -> list[Message]:
        if self.dice.happens(0.5):
            batch: list[Message] = consumer.batch_receive()
            return batch
        future = consumer.batch_receive_async()
        if self.dice.happens(0.2):
            self.scene.sleep(self.dice.chance() * 0.2)
            if future.cancel():
                return []
        self.scene.world.block(future)
        return list(future.result())

    def _check(self, messages: list[Message], seconds: float) -> None:
        policy, size = self.policy, size_of(messages)
        self.scene.world.note(f"after {seconds:.3f} s: {[message.data() for message in messages]}")
        assert policy.max_num_message <= 0 or len(messages) <= policy.max_num_message
        assert len(messages) <= 1 or not policy.is_exceeded_by(size), f"{size} bytes"
        assert seconds <= policy.timeout_ms / 1000 + TAKEN, f"{seconds} s"
        if messages and self.unfilled:
            together = size_of(self.unfilled) + len(messages[0].data())
            is_later = stored_together(self.unfilled[-1], messages[0])
            assert policy.is_exceeded_by(together) or not is_later, f"{len(self.unfilled)} were returned too soon"
        is_early = seconds < policy.timeout_ms / 1000 and not policy.is_filled_by(len(messages), size)
        self.unfilled = messages if is_early else []
        for message in messages:
            place, places = Place.of(message.message_id()), self.arrived.setdefault(message.topic_name(), [])
            if place not in places:
                assert self.kind not in IN_ORDER or not places or place > places[-1], f"{place} after {places[-1]}"
                places.append(place)

    def _is_drained(self) -> bool:
        topics = [self.scene.topic(name) for name in self.names]
        return (
            self.scene.is_calm
            and self.publisher.caller.ended
            and all(topic is not None and topic.subscriptions[SUBSCRIPTION].backlog() == 0 for topic in topics)
        )


def size_of(messages: list[Message]) -> int:
    return sum(len(message.data()) for message in messages)


def stored_together(one: Message, other: Message) -> bool:
    """Return whether a message is stored right behind another, in one entry, so that both were there."""
    before, after = Place.of(one.message_id()), Place.of(other.message_id())
    return one.topic_name() == other.topic_name() and before[:2] == after[:2] and after.index == before.index + 1


def batches(scene: Scene) -> None:
    story = Batches(scene)
    in_troubles(scene, story.program, story.publisher)


def test_a_batch_is_what_its_policy_says() -> None:
    play(40, batches, once_failed=(1542,), deduplication=True)
