"""Whatever goes wrong, each message has its results written once on each topic, all of them or none, and nothing waits.

Workers take messages of one topic, write a result of each to two others and acknowledge them, in one transaction, which
they commit, abort or leave behind. Readers of the results watch.

What becomes of a transaction is true though its end is asked for twice at once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.fault_rules import InterceptedCommand
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.transaction import TransactionState
from pulsar_actors.exceptions import OutcomeUnknown, PulsarException, Timeout
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandAddPartitionToTxn,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxn,
    CommandEndTxnResponse,
    CommandNewTxn,
    CommandNewTxnResponse,
    CommandTcClientConnectResponse,
)
from tests.scenarios.programs import Publisher, subscribe
from tests.scenarios.scene import NAMESPACE, PATIENCE, SUBSCRIPTION, Scene, play
from tests.scenarios.troubles import Troubles

RESULTS = [f"persistent://{NAMESPACE}/{name}" for name in ("first", "second")]
ANSWERS = (
    CommandNewTxnResponse,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxnResponse,
    CommandTcClientConnectResponse,
    CommandAckResponse,
)
REQUESTS = (CommandNewTxn, CommandAddPartitionToTxn, CommandEndTxn)
TIMEOUT = timedelta(seconds=15)
LATE = "late acknowledgement"
"""One that reaches the broker after the end of its transaction hides its message until another transaction has ended
that acknowledges on the subscription, and in Failover until the consumer begins again, too."""


class Reader:
    """Reads the results of one topic until it is told to end, and notes them in their order."""

    def __init__(self, scene: Scene, client: Client, topic: str) -> None:
        self.scene = scene
        self.contents: list[bytes] = []
        self.places: set[Any] = set()
        self.caller = scene.world.spawn(lambda: self._read(client, topic), f"reader of {topic}")

    def _read(self, client: Client, topic: str) -> None:
        reader = self.scene.insist(
            lambda: client.subscribe(topic, "readers", initial_position=InitialPosition.Earliest)
        )
        while not self.scene.is_over:
            try:
                message = reader.receive(500)
            except Timeout:
                continue
            place = message.message_id().serialize()
            if place not in self.places:  # a message that comes again, after a lost connection
                self.places.add(place)
                self.contents.append(message.data())
            reader.acknowledge(message)


class Worker:
    """Works on messages in transactions, and counts how they ended."""

    def __init__(self, scene: Scene, client: Client, name: str, kind: ConsumerType, ended: Counter[str]) -> None:
        self.scene = scene
        self.client = client
        self.dice = Dice(scene.world.seed, f"worker {name}")
        self.name = name
        self.kind = kind
        self.ended = ended
        self.caller = scene.world.spawn(self.work, name)

    def work(self) -> None:
        consumer = subscribe(self.scene, self.client, consumer_type=self.kind, negative_ack_redelivery_delay_ms=200)
        producers = [self._producer(topic) for topic in RESULTS]
        while not self.scene.is_over:
            messages = self._receive(consumer)
            if not messages:
                if self.ended[LATE] and self.kind is ConsumerType.Failover:
                    consumer.redeliver_unacknowledged_messages()
                continue
            try:
                self._process(messages, consumer, producers)
            except PulsarException as error:
                self.ended[type(error).__name__] += 1
                consumer.negative_acknowledge(messages)

    def _producer(self, topic: str) -> Any:
        dice = self.dice
        batching, timeout = dice.happens(0.5), (0, 3000)[dice.below(2)]
        return self.scene.insist(
            lambda: self.client.create_producer(topic, batching_enabled=batching, send_timeout_millis=timeout)
        )

    def _receive(self, consumer: Any) -> Sequence[Message]:
        try:
            messages: list[Message] = consumer.receive_many(1 + self.dice.below(4), 300)
        except Timeout:
            return []
        return messages

    def _process(self, messages: Sequence[Message], consumer: Any, producers: Sequence[Any]) -> None:
        dice, scene = self.dice, self.scene
        transaction = self.client.new_transaction(TIMEOUT)
        way = dice.below(10) if not scene.is_calm else 0
        for message in messages:
            for producer in producers:
                if dice.happens(0.3):
                    producer.send(b"of " + message.data(), transaction=transaction)
                else:
                    producer.send_async(b"of " + message.data(), None, transaction=transaction)
            if dice.happens(0.5):
                consumer.acknowledge(message, transaction=transaction)
            else:
                consumer.acknowledge_async(message, transaction=transaction)
        scene.perhaps_cut_soon()
        if way == 1:
            transaction.abort()
            self.ended["abort"] += 1
        elif way == 2:
            self.ended["left behind"] += 1  # it is aborted with its last reference
        else:
            self._commit(transaction)

    def _commit(self, transaction: Any) -> None:
        while True:
            try:
                transaction.commit()
            except OutcomeUnknown:
                self.ended["unanswered"] += 1
                if transaction.state is not TransactionState.COMMITTING:
                    raise
            else:
                self.ended["commit"] += 1
                return


class Transactions:
    """Some workers of one subscription, until each message is acknowledged and its results can be read."""

    def __init__(self, scene: Scene, kind: ConsumerType) -> None:
        self.scene = scene
        self.ended: Counter[str] = Counter()
        clients = [scene.client() for _ in range(1 + scene.dice.below(2))]
        self.publisher = Publisher(scene, clients[0], most=15)
        self.readers = [Reader(scene, clients[-1], topic) for topic in RESULTS]
        self.freer = scene.world.spawn(self._free_hidden, "freer")
        number = 1 + scene.dice.below(3) if kind is ConsumerType.Shared else 1
        self.workers = [
            Worker(scene, clients[each % len(clients)], f"worker {each}", kind, self.ended) for each in range(number)
        ]

    def is_done(self) -> bool:
        topic = self.scene.topic()
        return (
            self.scene.is_calm
            and self.publisher.caller.ended
            and topic is not None
            and SUBSCRIPTION in topic.subscriptions
            and topic.subscriptions[SUBSCRIPTION].backlog() == 0
            and all(len(set(reader.contents)) >= self.publisher.count for reader in self.readers)
        )

    def _free_hidden(self) -> None:
        """Have one more transaction after those that are over, while there are acknowledgements of them."""
        scene, publisher = self.scene, self.publisher
        while not scene.is_over:
            scene.sleep(5.0)
            if scene.is_calm and publisher.caller.ended and self._is_hidden():
                publisher.publish_another()

    def _note_late(self, seen: InterceptedCommand) -> None:
        command, broker = seen.command, self.scene.broker
        assert broker is not None
        if isinstance(command, CommandAck) and command.HasField("txnid_most_bits"):
            coordinator = broker.cluster.coordinators.find(command.txnid_most_bits)
            self.ended[LATE] += command.txnid_least_bits not in coordinator.transactions

    def _calm(self) -> None:
        self.scene.calm()
        self._watch()

    def _watch(self) -> None:
        assert self.scene.broker is not None
        self.scene.broker.faults.control(self._note_late)

    def _is_hidden(self) -> bool:
        topic, broker = self.scene.topic(), self.scene.broker
        assert topic is not None
        assert broker is not None
        subscription = topic.subscriptions.get(SUBSCRIPTION)
        acks = 0 if subscription is None else subscription.pending_acks.ongoing
        return acks > 0 and not any(each.transactions for each in broker.cluster.coordinators)

    def play(self) -> None:
        scene, world = self.scene, self.scene.world
        troubles = Troubles(scene, loses_receipts=False)
        self._disturb_transactions(troubles)
        self._watch()
        world.after(troubles.until + 5.0, self._calm)
        patience = PATIENCE + 2 * TIMEOUT.total_seconds()
        world.run(until=self.is_done, limit=troubles.until + 5.0 + patience)
        scene.is_over = True
        callers = [self.publisher.caller, self.freer, *(each.caller for each in (*self.workers, *self.readers))]
        world.run(until=lambda: all(caller.ended for caller in callers), limit=patience)
        for caller in callers:
            caller.result()

    def _disturb_transactions(self, troubles: Troubles) -> None:
        dice, world = self.scene.dice, self.scene.world
        for _ in range(dice.below(5)):
            at = 10.0 ** (dice.chance() * 3 - 2)
            troubles.until = max(troubles.until, at)
            world.after(at, self._disturb)

    def _disturb(self) -> None:
        dice, scene = self.scene.dice, self.scene
        assert scene.broker is not None
        way = dice.below(4)
        if way == 0:
            scene.troubled["lose the coordinator"] += 1
            scene.on_broker(unload_coordinators)
            return
        commands: Sequence[Any] = REQUESTS if way == 1 else ANSWERS
        fault = scene.broker.faults.on(commands[dice.below(len(commands))], nth=1 + dice.below(2))
        scene.troubled["disturb a transaction"] += 1
        if way == 1:
            fault.close_connection()
        elif way == 2:
            fault.drop()
        else:
            fault.delay(10.0 ** (dice.chance() * 3 - 2))

    def check(self) -> None:
        wanted = {b"of %d" % number for number in range(self.publisher.count)}
        for reader, topic in zip(self.readers, RESULTS, strict=True):
            times = Counter(reader.contents)
            twice = {content for content, number in times.items() if number > 1}
            assert not twice, f"read twice on {topic}: {twice}; transactions: {self.ended}"
            assert set(times) == wanted, f"on {topic}: {wanted ^ set(times)}; transactions: {self.ended}"


class Racer:
    """Ends transactions while their coordinator moves, or connections are cut. So the same end is asked for twice.

    Nobody else ends them, and none times out: a call either does what it says, or does not know.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.dice = Dice(scene.world.seed, "racer")
        self.log_takes = 10.0 ** (self.dice.chance() * 1.5 - 1.5)
        self.committed: list[bytes] = []

    def race(self) -> None:
        scene = self.scene
        scene.have_broker(lambda broker: slow_down_log(broker, self.log_takes))
        client = scene.client()
        producer = client.create_producer(RESULTS[0])
        for number in range(10):
            content = b"%d" % number
            transaction = client.new_transaction(TIMEOUT)
            producer.send(content, transaction=transaction)
            disturbed = scene.world.now + 3 * self.dice.chance() * self.log_takes
            scene.world.after(disturbed - scene.world.now, self._disturb)
            if self.dice.happens(0.7):
                self._end(transaction.commit)
                self.committed.append(content)
            else:
                self._end(transaction.abort)
            scene.sleep(max(0.0, disturbed - scene.world.now) + 0.1)
        reader = client.create_reader(RESULTS[0], MessageId.earliest)
        read = [reader.read_next(1000).data() for _ in self.committed]
        assert read == self.committed
        assert not reader.has_message_available()

    def _disturb(self) -> None:
        if self.dice.happens(0.5):
            self.scene.on_broker(unload_coordinators)
        else:
            self.scene.world.faults.cut()

    def _end(self, end: Callable[[], object]) -> None:
        try:
            end()
        except OutcomeUnknown as error:
            assert "most probably committed" in str(error)  # noqa: PT017 - it ends well, too


def unload_coordinators(broker: Broker) -> None:
    for coordinator in broker.cluster.coordinators:
        coordinator.unload()


def slow_down_log(broker: Broker, takes: float) -> None:
    """Let decisions and outcomes take time, so that an end that is asked for again meets the one under way."""
    for coordinator in broker.cluster.coordinators:
        coordinator.log_takes = takes


def racing(scene: Scene) -> None:
    caller = scene.world.spawn(Racer(scene).race, "racer")
    scene.world.run(until=lambda: caller.ended, limit=300.0)
    caller.result()
    scene.end()


def transactions(scene: Scene, kind: ConsumerType) -> None:
    story = Transactions(scene, kind)
    story.play()
    story.check()
    scene.end()


def test_workers_that_share_a_topic_write_each_result_once() -> None:
    play(
        150,
        lambda scene: transactions(scene, ConsumerType.Shared),
        once_failed=(110_000_220,),
        deduplication=True,
    )


def test_a_worker_that_has_a_topic_alone_writes_each_result_once() -> None:
    play(150, lambda scene: transactions(scene, ConsumerType.Failover), once_failed=(130_000_656,), deduplication=True)


def test_a_commit_that_races_against_itself_is_one_and_so_is_an_abort() -> None:
    play(60, racing, CALM)
