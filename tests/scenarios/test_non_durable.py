"""A subscription that is not durable misses and repeats nothing while its consumer is there, whatever goes wrong.

It begins with the first message, or with what is published after `subscribe` has returned. It ends with its consumer.
A Failover one stays while the broker has not noticed that a connection is lost, so the consumer's next connection finds
it as it was: what has not been acknowledged comes again.
"""

from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.consumer_options import IN_ORDER
from pulsar_actors.client.enums import ConsumerType, InitialPosition, SubscriptionMode
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Place
from tests.scenarios.programs import Publisher, in_troubles
from tests.scenarios.scene import PATIENCE, SUBSCRIPTION, TOPIC, Scene, play

UNNOTICED = 70.0
"""Virtual seconds after which a broker has noticed that a connection is lost: until then it has its consumer, too,
which takes a part of what comes to a Shared subscription."""
KINDS = (ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.Shared, ConsumerType.KeyShared)


class Passing:
    """One consumer at a time of a subscription that nobody keeps."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = self.dice = Dice(scene.world.seed, "passing")
        self.kind = KINDS[dice.below(len(KINDS))]
        self.queue = (0, 1, 3, 1000)[dice.below(4)]
        self.acknowledges = dice.happens(0.7)
        self.client = scene.client()
        self.publisher = Publisher(scene, self.client)

    def program(self) -> None:
        while not (self.publisher.caller.ended and self.scene.is_calm):
            self._stay(until_the_end=False)
        self._stay(until_the_end=True)

    def _stay(self, *, until_the_end: bool) -> None:
        scene, dice = self.scene, self.dice
        position = (InitialPosition.Earliest, InitialPosition.Latest)[0 if until_the_end else dice.below(2)]
        consumer: Consumer = scene.insist(
            lambda: self.client.subscribe(
                TOPIC,
                SUBSCRIPTION,
                self.kind,
                subscription_mode=SubscriptionMode.NonDurable,
                initial_position=position,
                receiver_queue_size=self.queue,
            )
        )
        at_first = [] if position is InitialPosition.Earliest else self._places()
        got: list[Place] = []
        stays = 1 + dice.below(40)
        while stays or (until_the_end and not set(got).issuperset(self._places())):
            stays = max(0, stays - 1)
            try:
                message = consumer.receive((0, 30, 500)[dice.below(3)])
            except Timeout:
                continue
            got.append(Place.of(message.message_id()))
            if self.acknowledges:
                consumer.acknowledge(message)
        scene.world.note(f"from {position}, {at_first[-1:]} on, came {got}")
        if self.kind in IN_ORDER:
            self._check(got, position, at_first)
        try:
            consumer.close()
        except PulsarException as error:
            scene.world.note(f"a close: {error!r}")
        else:
            assert scene.world.block(self._is_gone, UNNOTICED) or not scene.is_calm, "it outlives its consumer"

    def _check(self, got: list[Place], position: InitialPosition, at_first: list[Place]) -> None:
        if self.kind is ConsumerType.Failover:
            got = list(dict.fromkeys(got))
        expected = [place for place in self._places() if got and (got[0] <= place <= got[-1])]
        assert got == expected, f"came {got}, where {expected} are stored"
        if position is InitialPosition.Earliest:
            assert got[:1] in ([], self._places()[:1]), f"the first is {self._places()[0]}, and {got[0]} came"
        elif got:
            missed = [place for place in self._places() if place < got[0] and place not in at_first]
            assert not missed, f"published after the subscribe, and missed: {missed}"

    def _is_gone(self) -> bool:
        topic = self.scene.topic()
        return not self.scene.is_calm or (topic is not None and SUBSCRIPTION not in topic.subscriptions)

    def _places(self) -> list[Place]:
        return [message.place for message in self.scene.stored()]


def passing(scene: Scene) -> None:
    story = Passing(scene)
    in_troubles(scene, story.program, story.publisher, patience=PATIENCE + 2 * UNNOTICED)


def test_a_subscription_that_is_not_durable_misses_and_repeats_nothing() -> None:
    play(40, passing, once_failed=(150_000_080,), deduplication=True)
