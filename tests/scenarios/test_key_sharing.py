"""Consumers share keys as their policies say, while they come and go, and whatever goes wrong.

With hash ranges, a message comes only to a consumer whose range has its key, and nobody gets a range that another has.
Messages of a key come for the first time in the order in which they are stored, whoever gets them; only where the
consumers allow it, they may not. In the end everything is acknowledged, and nothing is lost.
"""

from collections.abc import Sequence

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import BatchingType, ConsumerType, InitialPosition, KeySharedMode
from pulsar_actors.client.policies import ConsumerKeySharedPolicy
from pulsar_actors.exceptions import ConsumerAssignError, ConsumerBusy, PulsarException, Timeout
from pulsar_actors.machines.trackers.message_routing import HASHES, HashName
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Place
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import SUBSCRIPTION, TEMPORARY, TOPIC, Scene, play

HASH_RANGE = 2**16
KEYS = 12

Range = tuple[int, int]


def place_of(key: str) -> int:
    """Return where a key is within the ranges."""
    return HASHES[HashName.MURMUR3_32](key) % HASH_RANGE or 1


class Sharing:
    """The consumers of one subscription, each of which has a part of the keys."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = self.dice = Dice(scene.world.seed, "sharing")
        self.is_sticky = dice.happens(0.6)
        self.keeps_order = not dice.happens(0.3)
        self.clients = [scene.client() for _ in range(1 + dice.below(2))]
        self.count = 1 + dice.below(60)
        self.arrived: dict[str, list[Place]] = {}
        """The places of the messages of each key, in the order of their first arrival."""
        self.acknowledged: set[bytes] = set()
        self.parts = self._parts(1 + dice.below(4))

    def _parts(self, number: int) -> list[Sequence[Range]]:
        """Cut the hashes into parts of one or two ranges."""
        cuts = sorted({self.dice.below(HASH_RANGE - 1) for _ in range(2 * number - 1)})
        ranges = list(zip([0, *(cut + 1 for cut in cuts)], [*cuts, HASH_RANGE - 1], strict=True))
        return [ranges[at::number] for at in range(number) if ranges[at::number]]

    def policy(self, ranges: Sequence[Range]) -> ConsumerKeySharedPolicy:
        if self.is_sticky:
            return ConsumerKeySharedPolicy(KeySharedMode.Sticky, not self.keeps_order, list(ranges))
        return ConsumerKeySharedPolicy(KeySharedMode.AutoSplit, not self.keeps_order)

    def subscribe(self, client: Client, ranges: Sequence[Range], queue: int) -> Consumer:
        return client.subscribe(
            TOPIC,
            SUBSCRIPTION,
            ConsumerType.KeyShared,
            key_shared_policy=self.policy(ranges),
            initial_position=InitialPosition.Earliest,
            receiver_queue_size=queue,
            negative_ack_redelivery_delay_ms=200,
        )

    def is_drained(self) -> bool:
        topic = self.scene.topic()
        return (
            self.scene.is_calm
            and topic is not None
            and self.publisher.ended
            and SUBSCRIPTION in topic.subscriptions
            and topic.subscriptions[SUBSCRIPTION].backlog() == 0
        )

    def program(self) -> None:
        scene, world = self.scene, self.scene.world
        self.publisher = world.spawn(self._publish, "publisher")
        members = [
            world.spawn(lambda number=number, part=part: self._take_part(number, part))  # type: ignore[misc]
            for number, part in enumerate(self.parts)
        ]
        intruder = world.spawn(self._intrude, "intruder")
        world.block(lambda: all(caller.ended for caller in (self.publisher, *members, intruder)))
        for caller in (self.publisher, *members, intruder):
            caller.result()
        stored = {message.content for message in scene.stored()}
        assert len(stored) == self.count
        assert stored == self.acknowledged, f"never received: {stored - self.acknowledged}"

    def _publish(self) -> None:
        scene, dice = self.scene, Dice(self.scene.world.seed, "publisher")
        producer = scene.insist(
            lambda: self.clients[0].create_producer(
                TOPIC,
                send_timeout_millis=0,
                producer_name="publisher",
                batching_enabled=dice.happens(0.5),
                batching_type=BatchingType.KeyBased,
            )
        )
        sent = []
        for number in range(self.count):
            sent.append(producer.send_async(str(number).encode(), partition_key=f"key {dice.below(KEYS)}"))
            if dice.happens(0.3):
                scene.sleep(10.0 ** (dice.chance() * 3 - 3))
        for future in sent:
            scene.world.block(future)
            future.result()
        self._close(producer)

    def _take_part(self, number: int, part: Sequence[Range]) -> None:
        """Receive what is for this part of the keys, and leave and come back now and then."""
        scene, dice = self.scene, Dice(self.scene.world.seed, f"member {number}")
        client, queue = self.clients[number % len(self.clients)], (0, 1, 3, 1000)[dice.below(4)]
        while not self.is_drained():
            try:
                consumer = self.subscribe(client, part, queue)
            except (ConsumerAssignError, *TEMPORARY):  # the broker has not noticed that this one is gone, or the other
                scene.sleep(0.3)
                continue
            stays = 1 + dice.below(30)
            while not self.is_drained() and (stays or scene.is_calm):
                stays -= 1
                self._receive(dice, consumer, part)
            self._close(consumer)
            scene.sleep(0 if scene.is_calm else dice.chance())

    def _receive(self, dice: Dice, consumer: Consumer, part: Sequence[Range]) -> None:
        try:
            message = consumer.receive((0, 30, 500)[dice.below(3)])
        except Timeout:
            return
        key = message.partition_key()
        if self.is_sticky:
            at = place_of(key)
            assert any(first <= at <= last for first, last in part), f"{key} is at {at}, and came to {part}"
        place, places = Place.of(message.message_id()), self.arrived.setdefault(key, [])
        if place not in places:
            if self.keeps_order:
                assert not places or place > places[-1], f"{place} of {key} came after {places[-1]}"
            places.append(place)
        if dice.happens(0.2) and not self.scene.is_calm:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
            self.acknowledged.add(message.data())

    def _intrude(self) -> None:
        """Ask for what others have."""
        scene, dice = self.scene, Dice(self.scene.world.seed, "intruder")
        while self.is_sticky and not scene.is_calm:
            scene.sleep(dice.chance())
            part = self.parts[dice.below(len(self.parts))]
            at = part[dice.below(len(part))][dice.below(2)]
            try:
                consumer = self.subscribe(self.clients[-1], [(at, at)], 1)
            except (ConsumerAssignError, ConsumerBusy):
                continue
            except PulsarException as error:
                scene.world.note(f"the intruder: {error!r}")
                continue
            assert len(self._names_of(at)) < 2, f"{self._names_of(at)} all have {at}"
            self._close(consumer)

    def _names_of(self, at: int) -> list[str]:
        topic = self.scene.topic()
        subscription = topic.subscriptions.get(SUBSCRIPTION) if topic is not None else None
        consumers = subscription.consumers if subscription is not None else ()
        return [each.name for each in consumers if any(first <= at <= last for first, last in each.request.hash_ranges)]

    def _close(self, handle: object) -> None:
        try:
            handle.close()  # type: ignore[attr-defined]
        except PulsarException as error:
            self.scene.world.note(f"a close: {error!r}")


def sharing(scene: Scene) -> None:
    in_troubles(scene, Sharing(scene).program)


def test_each_key_comes_to_the_consumer_whose_it_is_in_its_order() -> None:
    play(60, sharing, deduplication=True)
