"""A program that reads, writes and acknowledges in transactions has written each message once, whatever went wrong."""

from collections import Counter
from datetime import timedelta

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.transaction import Transaction
from pulsar_actors.exceptions import OutcomeUnknown, PulsarException, Timeout
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import Publisher, in_troubles, subscribe
from tests.scenarios.received import place_of
from tests.scenarios.scene import SUBSCRIPTION, TOPIC, Place, Scene, play

RESULTS = f"{TOPIC}-results"
TIMEOUT = timedelta(seconds=10)


class Processor:
    """Takes messages, sends a result for each and acknowledges them in one transaction, until no message is left."""

    def __init__(self, scene: Scene, client: Client, publisher: Publisher) -> None:
        self._scene = scene
        self._client = client
        self._publisher = publisher
        dice = self._dice = Dice(scene.world.seed, "processor")
        kind = (ConsumerType.Exclusive, ConsumerType.Shared, ConsumerType.KeyShared)[dice.below(3)]
        self._consumer = subscribe(scene, client, consumer_type=kind, batch_index_ack_enabled=dice.happens(0.5))
        self._producer = scene.insist(
            lambda: client.create_producer(
                RESULTS,
                producer_name="processor",
                batching_enabled=dice.happens(0.5),
                send_timeout_millis=0,
            )
        )

    def run(self) -> None:
        while not self._is_drained():
            messages = self._take_some()
            if messages and not self._process(messages):
                self._consumer.redeliver_unacknowledged_messages()
        self._consumer.close()

    def _take_some(self) -> list[Message]:
        """Take messages; one that comes twice, because it was asked for again, counts once."""
        taken: dict[Place, Message] = {}
        try:
            while not taken or self._dice.happens(0.7):
                message = self._consumer.receive(20 if taken else 300)
                taken[place_of(message)] = message
        except Timeout:
            pass
        return list(taken.values())

    def _process(self, messages: list[Message]) -> bool:
        transaction: Transaction = self._scene.insist(lambda: self._client.new_transaction(TIMEOUT))
        try:
            self._work(transaction, messages)
            if self._dice.happens(0.2):
                transaction.abort()
                return False
            self._scene.perhaps_cut_soon()
            self._commit(transaction)
        except PulsarException as error:
            self._scene.world.note(f"{transaction!r} failed: {error!r}")
            transaction.abort_async()
            return False
        return True

    def _work(self, transaction: Transaction, messages: list[Message]) -> None:
        sent = [self._producer.send_async(each.data(), transaction=transaction) for each in messages]
        if self._dice.happens(0.3):
            self._producer.send_async(b"plain")
        self._scene.perhaps_cut_soon()
        self._consumer.acknowledge_async(messages, transaction=transaction)
        for future in sent:
            self._scene.world.block(future)

    def _commit(self, transaction: Transaction) -> None:
        """Commit, however often that takes. If it has probably succeeded, what is not acknowledged comes again."""
        while True:
            try:
                transaction.commit()
            except OutcomeUnknown as error:
                self._scene.world.note(f"not known: {error!r}")
                if transaction.state.name == "COMMITTING":
                    continue
            return

    def _is_drained(self) -> bool:
        topic = self._scene.topic()
        is_empty = topic is not None and not topic.subscriptions[SUBSCRIPTION].backlog()
        return self._publisher.caller.ended and self._scene.is_calm and is_empty


def processing(scene: Scene) -> None:
    client = scene.client()
    publisher = Publisher(scene, client, most=20)

    def program() -> None:
        Processor(scene, client, publisher).run()
        reader = scene.insist(lambda: client.create_reader(RESULTS, MessageId.earliest))
        results: Counter[bytes] = Counter()
        while reader.has_message_available():
            results[reader.read_next(60_000).data()] += 1
        results.pop(b"plain", None)
        assert results == Counter(str(number).encode() for number in range(publisher.count))

    in_troubles(scene, program, publisher)


def test_each_message_is_processed_exactly_once() -> None:
    play(60, processing, deduplication=True)
