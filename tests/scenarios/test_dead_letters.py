"""What is refused too often is in the dead letter topic, or still on the subscription, whatever goes wrong.

The topic may have partitions, and messages may be put off, too. A subscription that the policy names for the dead
letters has all of them, from the first. No message is lost, and none is given up before it was redelivered as often as
the policy says.
"""

from collections import Counter

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.machines.trackers.dead_letters import RECONSUMETIMES
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.scene import PARTS, PATIENCE, SUBSCRIPTION, TOPIC, Scene, play

GIVEN_UP = "given up"
"""The subscription of whoever looks at the dead letters."""
RETRY, DEAD = "persistent://public/default/retry", "persistent://public/default/dead"
KINDS = (ConsumerType.Shared, ConsumerType.KeyShared)


class Refusing:
    """Consumers that refuse, put off, forget or acknowledge each message, until nothing is left."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = self.dice = Dice(scene.world.seed, "refusing")
        self.partitions = (0, 2, 3)[dice.below(3)]
        self.topic = str(PARTS) if self.partitions else TOPIC
        if self.partitions:
            scene.on_broker(lambda broker: broker.cluster.create_partitioned(PARTS, self.partitions))
        self.names = [str(PARTS.partition(number)) for number in range(self.partitions)] or [TOPIC]
        self.puts_off = dice.happens(0.5)
        self.forgets = dice.happens(0.3)
        self.kind = KINDS[dice.below(2)]
        self.most = 1 + dice.below(3)
        self.client: Client = scene.client()
        self.publisher = Publisher(scene, self.client, most=20, topic=self.topic)
        self.policy = ConsumerDeadLetterPolicy(
            self.most, DEAD, GIVEN_UP, retry_letter_topic=RETRY if self.puts_off else None
        )
        self.tries: Counter[bytes] = Counter()
        self.acknowledged: set[bytes] = set()

    def program(self) -> None:
        scene, world = self.scene, self.scene.world
        callers = [
            world.spawn(lambda number=number: self._work(number), f"worker {number}")  # type: ignore[misc]
            for number in range(1 + self.dice.below(2))
        ]
        world.block(lambda: all(caller.ended for caller in callers))
        for caller in callers:
            caller.result()
        stored = [message for name in self.names for message in scene.stored(name)]
        published = {message.content for message in stored}
        # A batch is redelivered, and given up, as a whole: with messages that nobody has seen as often.
        alone = {message.content for message in stored if message.place.index < 0}
        dead = Counter(message.content for message in scene.stored(DEAD))
        lost = published - self.acknowledged - set(dead)
        assert not lost, f"neither acknowledged nor in the dead letter topic: {lost}"
        early = {content: self.tries[content] for content in alone & set(dead) if self.tries[content] <= self.most}
        assert not early, f"given up before {self.most + 1} tries: {early}"
        if dead:
            self._see_that_they_were_kept(dead)

    def _see_that_they_were_kept(self, dead: Counter[bytes]) -> None:
        """Receive the dead letters by the subscription of the policy, which nobody has made."""
        topic = self.scene.topic(DEAD)
        assert topic is not None
        assert GIVEN_UP in topic.subscriptions, f"the dead letters are kept for nobody: {set(topic.subscriptions)}"
        consumer = self.scene.insist(lambda: self.client.subscribe(DEAD, GIVEN_UP, ConsumerType.Shared))
        left = Counter(dead)
        while left:
            message = consumer.receive(int(PATIENCE * 1000))
            left -= Counter([message.data()])
            consumer.acknowledge(message)
        consumer.close()

    def _work(self, number: int) -> None:
        dice = Dice(self.scene.world.seed, f"worker {number}")
        while not self._is_drained():
            consumer = self._subscribe(dice)
            stays = 1 + dice.below(60)
            while not self._is_drained() and (stays or self.scene.is_calm):
                stays -= 1
                try:
                    message = consumer.receive((30, 500)[dice.below(2)])
                except Timeout:
                    continue
                self._treat(dice, consumer, message)
            try:
                consumer.close()
            except PulsarException as error:
                self.scene.world.note(f"a close: {error!r}")

    def _subscribe(self, dice: Dice) -> Consumer:
        return subscribe(
            self.scene,
            self.client,
            self.topic,
            consumer_type=self.kind,
            receiver_queue_size=(1, 3, 1000)[dice.below(3)],
            negative_ack_redelivery_delay_ms=(0, 200)[dice.below(2)],
            unacked_messages_timeout_ms=1000 if self.forgets else None,
            dead_letter_policy=self.policy,
            enable_retry=self.puts_off,
            ack_receipt_enabled=dice.happens(0.2),
        )

    def _treat(self, dice: Dice, consumer: Consumer, message: Message) -> None:
        content = message.data()
        self.tries[content] += 1
        times = int(message.properties().get(RECONSUMETIMES, "0"))
        count = message.redelivery_count()
        assert count <= self.most, f"{content!r} came, redelivered {count} times"
        assert times <= self.most, f"{content!r} came, put off {times} times"
        way = dice.below(10)
        if way < 3:
            self._acknowledge(consumer, message)
            return
        if self.puts_off and way < 6:
            self._put_off(dice, consumer, message)
        elif not self.forgets or way < 8:
            consumer.negative_acknowledge(message)

    def _acknowledge(self, consumer: Consumer, message: Message) -> None:
        try:
            consumer.acknowledge(message)
        except PulsarException as error:  # it may have happened; or else it comes again
            self.scene.world.note(f"not acknowledged: {error!r}")
        self.acknowledged.add(message.data())

    def _put_off(self, dice: Dice, consumer: Consumer, message: Message) -> None:
        self.scene.perhaps_cut_soon()
        try:
            consumer.reconsume_later(message, (0, 20, 700)[dice.below(3)])
        except PulsarException as error:
            self.scene.world.note(f"not put off: {error!r}")
            consumer.negative_acknowledge(message)

    def _is_drained(self) -> bool:
        names = [*self.names, *([RETRY] if self.puts_off else [])]
        topics = [self.scene.topic(name) for name in names]
        return (
            self.scene.is_calm
            and self.publisher.caller.ended
            and all(topic is not None and topic.subscriptions[SUBSCRIPTION].backlog() == 0 for topic in topics)
        )


def refusing(scene: Scene) -> None:
    story = Refusing(scene)
    in_troubles(scene, story.program, story.publisher, sets_clocks=False, patience=2 * PATIENCE)


def test_what_is_refused_too_often_is_in_the_dead_letter_topic_and_nothing_is_lost() -> None:
    play(40, refusing, deduplication=True)
