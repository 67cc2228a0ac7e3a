"""The consumer with the best level of priority comes first, and each is told the truth, whatever goes wrong.

Of a Failover subscription, on each partition, one of those with the best level is active in the end, and what every
consumer was told last is true. Of a Shared subscription, others get messages only while those of a better level have no
permits. Nothing is lost meanwhile.
"""

from typing import Any

from pulsar_actors.broker.model.dispatcher import SingleActiveConsumerDispatcher
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.interceptors import ConsumerEventListener
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import PARTS, PATIENCE, SUBSCRIPTION, TOPIC, Scene, play

LEVELS = 3
SETTLED = 70.0
"""Virtual seconds after the last fault within which everybody is told who is active: a broker may take a minute to
notice that a connection is lost, and until then it has the consumers of that connection, too."""


class Told(ConsumerEventListener):
    """What one consumer was told, by partition."""

    def __init__(self, partitions: int) -> None:
        self._expected = range(partitions) if partitions else (-1,)
        self.last: dict[int, bool] = {}

    def became_active(self, consumer: Any, partition: int) -> None:
        self._note(consumer, partition, is_active=True)

    def became_inactive(self, consumer: Any, partition: int) -> None:
        self._note(consumer, partition, is_active=False)

    def _note(self, consumer: Any, partition: int, *, is_active: bool) -> None:
        assert isinstance(consumer, Consumer)
        assert partition in self._expected
        self.last[partition] = is_active


class Member:
    """One consumer of a Failover subscription at a time, which leaves and comes back with another level."""

    def __init__(self, story: "TakingOver", number: int) -> None:
        self._story = story
        self._scene = story.scene
        self._dice = Dice(story.scene.world.seed, f"member {number}")
        self._client = story.clients[number % len(story.clients)]
        self.name = f"member {number}"
        self.level = 0
        self.told = Told(story.partitions)
        self.consumer: Consumer | None = None

    def run(self) -> None:
        while not self._story.is_over:
            self.consumer = self._subscribe()
            stays = 1 + self._dice.below(20)
            while not self._story.is_over and (stays or self._scene.is_calm):
                stays -= 1
                self._use(self.consumer)
            if self._story.is_over:
                return
            try:
                self.consumer.close()
            except PulsarException as error:
                self._scene.world.note(f"{self.name} closes: {error!r}")
            self._scene.sleep(self._dice.chance())

    def _subscribe(self) -> Consumer:
        self.level = self._dice.below(LEVELS)
        self.told = Told(self._story.partitions)
        return subscribe(
            self._scene,
            self._client,
            self._story.topic,
            consumer_type=ConsumerType.Failover,
            consumer_name=self.name,
            priority_level=self.level,
            consumer_event_listener=self.told,
            start_message_id_inclusive=True,
            receiver_queue_size=(1, 3, 1000)[self._dice.below(3)],
        )

    def _use(self, consumer: Consumer) -> None:
        try:
            message = consumer.receive((0, 30, 500)[self._dice.below(3)])
            self._story.received.add(message.data())
            consumer.acknowledge(message)
            if not self._scene.is_calm and self._dice.happens(0.05):
                consumer.seek(message.message_id())
        except Timeout:
            return
        except PulsarException as error:
            self._scene.world.note(f"{self.name}: {error!r}")


class TakingOver:
    """Some members, and the look at who is active in the end."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = Dice(scene.world.seed, "taking over")
        self.partitions = (0, 0, 1, 3)[dice.below(4)]
        self.topic = str(PARTS) if self.partitions else TOPIC
        self.clients: list[Client] = [scene.client() for _ in range(1 + dice.below(3))]
        if self.partitions:
            scene.on_broker(lambda broker: broker.cluster.create_partitioned(PARTS, self.partitions))
        self.names = [str(PARTS.partition(number)) for number in range(self.partitions)] or [TOPIC]
        self.publisher = Publisher(scene, self.clients[0], topic=self.topic)
        self.received: set[bytes] = set()
        self.is_over = False
        self.members = [Member(self, number) for number in range(1 + dice.below(4))]

    def program(self) -> None:
        scene, world = self.scene, self.scene.world
        callers = [world.spawn(member.run, member.name) for member in self.members]
        world.block(lambda: scene.is_calm and self.publisher.caller.ended)
        assert world.block(self._is_settled, SETTLED), self._describe()
        world.block(lambda: not any(self._backlogs()))
        self.is_over = True
        world.block(lambda: all(caller.ended for caller in callers))
        for caller in callers:
            caller.result()
        stored = {message.content for name in self.names for message in scene.stored(name)}
        assert stored == self.received, f"never received: {stored - self.received}"

    def _backlogs(self) -> list[int]:
        topics = [self.scene.topic(name) for name in self.names]
        return [topic.subscriptions[SUBSCRIPTION].backlog() for topic in topics if topic is not None]

    def _active(self, name: str) -> Any:
        """Return the consumer that the broker has as the active one, once all members are there."""
        topic = self.scene.topic(name)
        subscription = topic.subscriptions.get(SUBSCRIPTION) if topic is not None else None
        dispatcher = subscription.dispatcher if subscription is not None else None
        if not isinstance(dispatcher, SingleActiveConsumerDispatcher):
            return None
        names = {each.name for each in dispatcher.consumers}
        return dispatcher.active if names == {member.name for member in self.members} else None

    def _is_settled(self) -> bool:
        best = min(member.level for member in self.members)
        for name, partition in zip(self.names, range(self.partitions) or [-1], strict=True):
            active = self._active(name)
            if active is None or active.request.priority_level != best:
                return False
            told = {member.name for member in self.members if member.told.last.get(partition)}
            unsaid = [member for member in self.members if partition not in member.told.last]
            if told != {active.name} or unsaid:
                return False
        return True

    def _describe(self) -> str:
        told = {f"{member.name} of level {member.level}": member.told.last for member in self.members}
        active = {name: getattr(self._active(name), "name", None) for name in self.names}
        return f"active are {active}, and the members were told: {told}"


def taking_over(scene: Scene) -> None:
    story = TakingOver(scene)
    in_troubles(scene, story.program, story.publisher, patience=PATIENCE + SETTLED)


def preferring(scene: Scene) -> None:
    """Have one of a better level and some others, and see who gets what when all is well again."""
    dice = Dice(scene.world.seed, "preferring")
    client, levels = scene.client(), [0, *(1 + dice.below(LEVELS) for _ in range(1 + dice.below(3)))]
    publisher = Publisher(scene, client)
    queue = 10 + dice.below(10)

    def program() -> None:
        consumers = [
            subscribe(scene, client, consumer_type=ConsumerType.Shared, priority_level=level, receiver_queue_size=queue)
            for level in levels
        ]
        got: set[bytes] = set()
        while not (scene.is_calm and publisher.caller.ended and _is_drained_by(scene, consumers)):
            got |= _drain(scene, consumers, dice)
        assert got == {message.content for message in scene.stored()}
        before = [consumer.stats().received for consumer in consumers]
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(queue // 2):
            producer.send(f"for the first {number}".encode())
        for _ in range(queue // 2):
            consumers[0].acknowledge(consumers[0].receive(3000))
        assert [consumer.stats().received for consumer in consumers[1:]] == before[1:]
        for number in range(2 * queue):  # more than the first has places for
            producer.send(f"for all {number}".encode())
        with_any = 0
        while with_any < 2 * queue:
            with_any += len(_drain(scene, consumers[1:], dice)) or len(_drain(scene, consumers[:1], dice))
        assert any(consumer.stats().received > count for consumer, count in zip(consumers[1:], before[1:], strict=True))

    in_troubles(scene, program, publisher, patience=PATIENCE + SETTLED)


def _is_drained_by(scene: Scene, consumers: list[Consumer]) -> bool:
    """Return whether all is acknowledged, and the broker has these consumers, and no connection is lost unnoticed."""
    topic = scene.topic()
    assert topic is not None
    subscription = topic.subscriptions[SUBSCRIPTION]
    is_well = scene.world.now > scene.calm_since + PATIENCE / 4 and all(each.is_connected() for each in consumers)
    return is_well and len(subscription.consumers) == len(consumers) and subscription.backlog() == 0


def _drain(scene: Scene, consumers: list[Consumer], dice: Dice) -> set[bytes]:
    """Receive what is there, of any of them."""
    got: set[bytes] = set()
    for consumer in consumers:
        while True:
            try:
                message = consumer.receive((30, 300)[dice.below(2)])
            except Timeout:
                break
            got.add(message.data())
            consumer.acknowledge(message)
    return got


def test_who_takes_over_is_of_the_best_level_and_everybody_is_told_the_truth() -> None:
    play(60, taking_over, deduplication=True)


def test_others_get_messages_only_while_those_of_a_better_level_take_no_more() -> None:
    play(30, preferring, deduplication=True)
