"""A message comes again when its delay is over, never earlier, and the delay grows as its backoff says.

A message that is refused has the delay of refusals; one that is neither refused nor acknowledged comes again when its
acknowledgement is overdue. Both grow with the number of redeliveries that the message tells. Only a new connection may
bring it earlier. What was acknowledged in time does not come again at all.
"""

from typing import NamedTuple

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message, stored_entry_of
from pulsar_actors.client.policies import MultiplierRedeliveryBackoff
from pulsar_actors.exceptions import Timeout
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.negative_acks_tracker import SHORTEST_STEP
from pulsar_actors.machines.trackers.unacked_message_tracker import STEPS_PER_TIMEOUT
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import in_troubles, subscribe
from tests.scenarios.scene import PATIENCE, SUBSCRIPTION, TOPIC, Scene, play

MOST_REFUSALS = 5
AT_ONCE = 0.5
"""Virtual seconds within which a request for redelivery brings a message when all is well."""
MEANWHILE = 0.1
"""Virtual seconds that an acknowledgement may be on its way from a caller to its consumer's loop."""
TAKEN = 0.02
"""Virtual seconds that a caller may take to get a message: its time counts from when it is handed out."""
NEVER = float("inf")
KINDS = (ConsumerType.Shared, ConsumerType.KeyShared)


class Expected(NamedTuple):
    """When a message may come again, if its generation lasts."""

    since: float
    due: float
    latest: float
    generation: Generation


class Delays:
    """The delays that one consumer has asked for."""

    def __init__(self, dice: Dice) -> None:
        self.delay_ms = (0, 100, 700)[dice.below(3)]
        self.backoff = self._backoff(dice) if dice.happens(0.6) else None
        self.timeout_ms = (0, 300, 2000)[dice.below(3)]
        self.timeout_backoff = self._backoff(dice) if self.timeout_ms and dice.happens(0.5) else None

    def _backoff(self, dice: Dice) -> MultiplierRedeliveryBackoff:
        least = (0, 20, 300)[dice.below(3)]
        return MultiplierRedeliveryBackoff(least, least + 1500, (1.5, 2, 10)[dice.below(3)])

    def of_refusal(self, redeliveries: int) -> float:
        return self.delay_ms / 1000 if self.backoff is None else _after(self.backoff, redeliveries)

    def of_timeout(self, redeliveries: int) -> float:
        if not self.timeout_ms:
            return NEVER
        more = 0.0 if self.timeout_backoff is None else _after(self.timeout_backoff, redeliveries)
        return self.timeout_ms / 1000 + more


def _after(backoff: MultiplierRedeliveryBackoff, redeliveries: int) -> float:
    milliseconds = backoff.min_delay_ms
    for _ in range(redeliveries):
        milliseconds = min(milliseconds * backoff.multiplier, backoff.max_delay_ms)
    return milliseconds / 1000


class Delaying:
    """A consumer that refuses, forgets and acknowledges, and looks at the clock."""

    def __init__(self, scene: Scene, client: Client) -> None:
        self.scene = scene
        self.client = client
        self.dice = Dice(scene.world.seed, "delaying")
        self.delays = Delays(self.dice)
        self.count = 1 + self.dice.below(20)
        self.expected: dict[bytes, Expected] = {}
        self.refusals: dict[bytes, int] = {}
        self.acknowledged: set[bytes] = set()

    def program(self) -> None:
        scene, delays = self.scene, self.delays
        consumer = subscribe(
            scene,
            self.client,
            consumer_type=KINDS[self.dice.below(2)],
            receiver_queue_size=(1, 3, 1000)[self.dice.below(3)],
            negative_ack_redelivery_delay_ms=delays.delay_ms,
            negative_ack_redelivery_backoff=delays.backoff,
            unacked_messages_timeout_ms=delays.timeout_ms,
            ack_timeout_redelivery_backoff=delays.timeout_backoff,
            ack_grouping_time_ms=(0, 100, 5000)[self.dice.below(3)],
        )
        publisher = scene.world.spawn(self._publish, "publisher")
        while not (publisher.ended and scene.is_calm and self._backlog() == 0):
            try:
                self._treat(consumer, consumer.receive((30, 300)[self.dice.below(2)]))
            except Timeout:
                self._see_that_none_is_late(consumer)
        publisher.result()
        assert len(self.acknowledged) == self.count
        consumer.close()

    def _publish(self) -> None:
        scene, dice = self.scene, Dice(self.scene.world.seed, "publisher")
        producer = scene.insist(
            lambda: self.client.create_producer(
                TOPIC, batching_enabled=False, producer_name="publisher", send_timeout_millis=0
            )
        )
        sent = []
        for number in range(self.count):
            sent.append(producer.send_async(str(number).encode()))
            scene.sleep(dice.chance() * dice.below(2))
        for future in sent:
            scene.world.block(future)
            future.result()

    def _backlog(self) -> int:
        topic = self.scene.topic()
        assert topic is not None
        return topic.subscriptions[SUBSCRIPTION].backlog()

    def _treat(self, consumer: Consumer, message: Message) -> None:
        now, content, count = self.scene.world.now, message.data(), message.redelivery_count()
        generation = stored_entry_of(message).generation
        before = self.expected.get(content)
        self.scene.world.note(f"{content!r} came, redelivered {count} times, {generation}; expected: {before}")
        if before is not None and before.generation == generation:
            assert now >= before.due, f"{content!r} came {before.due - now:.3f} s too early: {before}"
        overdue = now - TAKEN + self.delays.of_timeout(count)
        if content in self.acknowledged or self.dice.happens(0.3) or self.refusals.get(content, 0) >= MOST_REFUSALS:
            self.acknowledged.add(content)
            consumer.acknowledge(message)
            too_late = self.scene.world.now + MEANWHILE >= overdue
            self.expected[content] = Expected(now, 0.0 if too_late else NEVER, NEVER, generation)
            return
        self.refusals[content] = self.refusals.get(content, 0) + 1
        if overdue == NEVER or self.dice.happens(0.6):
            if self.dice.happens(0.3):
                self.scene.sleep(self.dice.chance() * self.delays.timeout_ms / 2000)
            consumer.negative_acknowledge(message)
            due = self.scene.world.now + self.delays.of_refusal(count)
            if self.scene.world.now + MEANWHILE >= overdue:  # it may be on its way again already
                due = min(due, overdue)
            self.expected[content] = Expected(self.scene.world.now, due, due + SHORTEST_STEP, generation)
        else:
            latest = overdue + TAKEN + self.delays.timeout_ms / 1000 / STEPS_PER_TIMEOUT
            self.expected[content] = Expected(now, overdue, latest, generation)

    def _see_that_none_is_late(self, consumer: Consumer) -> None:
        """See that nothing waits for longer than it was told to, once all is well."""
        now, generation = self.scene.world.now, consumer._state.machine.messages.generation
        for content, expected in self.expected.items():
            if expected.generation == generation and self.scene.is_calm and self.calm_since < expected.since:
                assert now < expected.latest + AT_ONCE, f"{content!r} is late, at {now}: {expected}"

    @property
    def calm_since(self) -> float:
        """The time of the last fault, and what it takes to notice a lost connection."""
        return self.scene.calm_since + PATIENCE / 4


def delaying(scene: Scene) -> None:
    in_troubles(scene, Delaying(scene, scene.client()).program, patience=2 * PATIENCE)


def test_what_is_refused_or_forgotten_comes_again_after_its_delay_and_not_before() -> None:
    play(60, delaying, deduplication=True)
