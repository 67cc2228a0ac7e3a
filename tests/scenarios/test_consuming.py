"""Every message is received until it is acknowledged, in its order, and nothing stands still, whatever goes wrong."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.exceptions import Timeout
from pulsar_actors.simulation.scheduler import Dice, OutOfTime
from tests.scenarios.programs import Publisher, subscribe
from tests.scenarios.received import Received
from tests.scenarios.scene import PATIENCE, SUBSCRIPTION, TOPIC, Scene, play
from tests.scenarios.troubles import Troubles

SOME_TIME = 10
"""Looks, a hundredth of a second apart at least."""

IN_ORDER = (ConsumerType.Exclusive, ConsumerType.Failover)


class Habits:
    """How the consumers of one scenario are used."""

    def __init__(self, scene: Scene, kind: ConsumerType) -> None:
        dice = Dice(scene.world.seed, "habits")
        self.kind = kind
        self.queue = (0, 1, 2, 3, 7, 1000)[dice.below(6)]
        self.batch_index_acks = dice.happens(0.3)
        self.listens = dice.happens(0.25)
        self.workers = 1 if self.listens else 1 + dice.below(3)
        self.forgets = dice.happens(0.4)
        self.refuses = dice.happens(0.4)
        self.redelivers = dice.happens(0.3)
        self.waits_for_all = dice.happens(0.5)
        self.cumulative = kind in IN_ORDER and self.workers == 1 and dice.happens(0.3)

    @property
    def asks_again(self) -> bool:
        return self.refuses or self.redelivers

    def subscribe(
        self, scene: Scene, client: Client, listener: Callable[[Any, Message], None] | None = None
    ) -> Consumer:
        return subscribe(
            scene,
            client,
            consumer_type=self.kind,
            message_listener=listener,
            receiver_queue_size=self.queue,
            negative_ack_redelivery_delay_ms=200,
            batch_index_ack_enabled=self.batch_index_acks,
            batch_receive_policy=ConsumerBatchReceivePolicy(5, -1, 50),
        )


class Worker:
    """A caller that receives and acknowledges, and now and then does not."""

    def __init__(self, scene: Scene, habits: Habits, received: Received, consumer: Any, line: str) -> None:
        self.scene = scene
        self.habits = habits
        self.received = received
        self.consumer = consumer
        self.line = line
        self.dice = Dice(scene.world.seed, f"worker {line}")
        self.forgotten: list[Message] = []

    def work(self, until: Callable[[], bool]) -> None:
        while not until():
            messages = self._receive()
            for message in messages:
                self.received.note(message, self.line)
            if len(messages) > 1 and self.dice.happens(0.3):
                self.consumer.acknowledge(messages)
            else:
                for message in messages:
                    self._treat(message)
            if self.scene.is_calm:
                self.make_good()

    def hear(self, consumer: Any, message: Message) -> None:
        """Be the listener of a consumer, before whose `subscribe` has returned, perhaps."""
        self.consumer = consumer
        self.received.note(message, self.line)
        self._treat(message)

    def _receive(self) -> list[Message]:
        way = self.dice.below(5)
        try:
            if way == 0:
                return self.consumer.batch_receive()
            if way == 1:
                future = self.consumer.receive_async()
                while not self.scene.world.block(future, 0.5):
                    if self.scene.is_over:
                        future.cancel()
                        return []
                    if self.scene.is_calm:
                        self.make_good()
                return [future.result()]
            timeout = (0, 30, 500)[self.dice.below(3)]
            if way == 2:
                return self.consumer.receive_many(1 + self.dice.below(8), timeout)
            return [self.consumer.receive(timeout)]
        except Timeout:
            return []

    def _treat(self, message: Message) -> None:
        habits, dice = self.habits, self.dice
        if self.scene.is_calm or dice.happens(0.7):
            if habits.cumulative:
                self.consumer.acknowledge_cumulative(message)
            else:
                self.consumer.acknowledge(message if dice.happens(0.5) else message.message_id())
        elif habits.refuses and dice.happens(0.5):
            self.consumer.negative_acknowledge(message)
        elif habits.redelivers and dice.happens(0.2):
            self.consumer.redeliver_unacknowledged_messages()
        elif habits.forgets:
            self.forgotten.append(message)
        else:
            self.consumer.acknowledge(message)

    def make_good(self) -> None:
        for message in self.forgotten:
            self.consumer.acknowledge(message)
        self.forgotten.clear()


class Consuming:
    """Some consumers of one subscription, until what was published is acknowledged to the last message."""

    def __init__(self, scene: Scene, kind: ConsumerType) -> None:
        self.scene = scene
        self.kind = kind
        self.received = Received()
        self.habits = Habits(scene, kind)
        self.clients = [scene.client() for _ in range(1 + scene.dice.below(2))]
        self.publisher = Publisher(scene, self.clients[0])
        self.consumers: list[Consumer] = []
        self.workers: list[Worker] = []

    def is_drained(self) -> bool:
        topic = self.scene.topic()
        return (
            self.publisher.caller.ended
            and topic is not None
            and SUBSCRIPTION in topic.subscriptions
            and topic.subscriptions[SUBSCRIPTION].backlog() == 0
            and self.scene.is_calm
        )

    def program(self, number: int) -> None:
        """Receive with one consumer, by a listener or by several workers."""
        client = self.clients[number % len(self.clients)]
        if self.habits.listens:
            self.listen(client, f"{number}")
            return
        world, habits = self.scene.world, self.habits
        consumer = habits.subscribe(self.scene, client)
        self.consumers.append(consumer)
        lines = [f"{number}.{each}" for each in range(habits.workers)]
        mine = [Worker(self.scene, habits, self.received, consumer, line) for line in lines]
        self.workers += mine
        others = [world.spawn(lambda worker=worker: worker.work(self.is_drained)) for worker in mine[1:]]  # type: ignore[misc]
        mine[0].work(self.is_drained)
        world.block(lambda: all(other.ended for other in others))

    def listen(self, client: Client, line: str) -> None:
        worker = Worker(self.scene, self.habits, self.received, None, line)
        worker.consumer = self.habits.subscribe(self.scene, client, worker.hear)
        self.consumers.append(worker.consumer)
        self.workers.append(worker)
        while not self.is_drained():
            self.scene.sleep(0.3)
            if not self.scene.is_calm and worker.dice.happens(0.1):
                worker.consumer.pause_message_listener()
                self.scene.sleep(0.3)
                worker.consumer.resume_message_listener()
            if self.scene.is_calm:
                worker.make_good()

    def play(self) -> None:
        scene, world, publisher = self.scene, self.scene.world, self.publisher
        troubles = Troubles(scene)
        numbers = [0, 1] if self.kind not in IN_ORDER and scene.dice.happens(0.5) else [0]
        callers = [world.spawn(lambda number=number: self.program(number)) for number in numbers]  # type: ignore[misc]
        Watch(scene, self.habits, self.consumers)
        world.after(troubles.until + 5.0, scene.calm)
        world.run(until=self.is_drained, limit=troubles.until + 5.0 + PATIENCE)
        scene.is_over = True
        world.run(until=lambda: all(caller.ended for caller in callers), limit=PATIENCE)
        for caller in [publisher.caller, *callers]:
            caller.result()

    def check(self) -> None:
        """See what must be true in the end, while the consumers are there and after they have closed."""
        scene, received, habits = self.scene, self.received, self.habits
        for consumer in [] if habits.listens else self.consumers:
            with contextlib.suppress(Timeout):
                while True:  # what was on its way still; and whoever looks for the next message reports the last
                    consumer.receive(3000)
        check_permits(scene, self.consumers, prefetches=habits.queue > 0)
        received.check_contents(scene)
        everything = {message.content for message in scene.stored()}
        assert len(everything) == self.publisher.count
        missing = everything - {arrival.content for arrival in received.arrivals}
        assert not missing, f"never received: {missing}"
        if self.kind in IN_ORDER and habits.workers == 1:
            received.check_order()
        if not habits.asks_again and all(consumer.stats().reconnects == 0 for consumer in self.consumers):
            received.check_nothing_is_repeated()
        if self.kind in IN_ORDER and not habits.listens and habits.queue:
            self.acknowledge_and_close_at_once()
        for consumer in self.consumers:
            consumer.close()
        again = habits.subscribe(scene, self.clients[0])
        with pytest.raises(Timeout):  # or else something came again that was acknowledged before a clean close
            again.receive(3000)

    def acknowledge_and_close_at_once(self) -> None:
        """Leave acknowledgements behind that nobody has sent yet: the close must."""
        (consumer,) = self.consumers
        if consumer._state.receiver_queue._receive_futures.claimed is not None:
            return  # a future that could not be cancelled any more is to have the next message
        self.scene.insist(lambda: self.clients[0].create_producer(TOPIC)).send(b"more")
        message = consumer.receive(int(PATIENCE * 1000))
        while message.data() != b"more":  # something that came again before it was acknowledged, long ago
            message = consumer.receive(int(PATIENCE * 1000))
        consumer.acknowledge(message)
        consumer.close()


def consuming(scene: Scene, kind: ConsumerType) -> None:
    consuming = Consuming(scene, kind)
    consuming.play()
    consuming.check()
    scene.end()


class Watch:
    """Looks now and then whether a consumer has more permits than its queue has places, or sleeps on its messages."""

    def __init__(self, scene: Scene, habits: Habits, consumers: list[Consumer]) -> None:
        self._scene = scene
        self._most = max(1, habits.queue)
        self._consumers = consumers
        self._asleep: dict[Consumer, int] = {}
        self._look()

    def _look(self) -> None:
        topic = self._scene.topic()
        for subscription in topic.subscriptions.values() if topic is not None else ():
            for consumer in subscription.consumers:
                assert consumer.permits <= self._most, f"{consumer.permits} permits for {self._most} places"
        for consumer in self._consumers:
            self._look_for_sleepers(consumer)
        if not self._scene.is_over:
            self._scene.world.after(0.01 if self._scene.world.now < 1.0 else 0.3, self._look)

    def _look_for_sleepers(self, consumer: Consumer) -> None:
        receiver_queue = consumer._state.receiver_queue
        sleeps = receiver_queue.queued > 0 and (
            receiver_queue._receive_futures.pending or any(not each.done() for each in receiver_queue._waiters)
        )
        self._asleep[consumer] = self._asleep.get(consumer, 0) + 1 if sleeps else 0
        assert self._asleep[consumer] < SOME_TIME, (
            f"callers wait, and there are {receiver_queue.queued} messages for them"
        )


def check_permits(scene: Scene, consumers: list[Consumer], *, prefetches: bool, topic: str = TOPIC) -> None:
    """See that broker and clients come to agree on how many permits are out, and that it is enough to go on."""
    served = scene.topic(topic)
    assert served is not None
    subscription = served.subscriptions[SUBSCRIPTION]

    def at_broker() -> list[int]:
        return sorted(each.permits for each in subscription.consumers)

    def at_clients() -> list[int]:
        return sorted(each._state.machine.messages.trackers.permits.at_broker for each in consumers)

    def agree() -> bool:
        are_enough = not prefetches or all(permits > 0 for permits in at_broker())
        return are_enough and at_broker() == at_clients() and all(each.is_connected() for each in consumers)

    try:
        scene.world.run(until=agree, limit=PATIENCE)
    except OutOfTime:
        raise AssertionError(f"the broker counts {at_broker()} permits, the clients {at_clients()}") from None


@pytest.mark.parametrize(("kind", "seeds"), [("Exclusive", 70), ("Failover", 25)])
def test_an_only_consumer_receives_everything_in_order(kind: str, seeds: int) -> None:
    play(seeds, lambda scene: consuming(scene, ConsumerType[kind]), deduplication=True)


@pytest.mark.parametrize(("kind", "seeds"), [("Shared", 60), ("KeyShared", 25)])
def test_consumers_that_share_a_subscription_receive_everything(kind: str, seeds: int) -> None:
    play(seeds, lambda scene: consuming(scene, ConsumerType[kind]), once_failed=(4_000_031,), deduplication=True)
