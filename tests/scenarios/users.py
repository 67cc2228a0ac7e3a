"""Callers that use a client for whatever it offers, alone and several at once, and take every error but one of ours."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.crypto_key_reader import EncryptionKeyReader
from pulsar_actors.client.enums import ConsumerCryptoFailureAction, ConsumerType, InitialPosition, ProducerAccessMode
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.client.shared_transaction import join_transaction, open_shared_transaction
from pulsar_actors.exceptions import InternalError, PulsarException
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import EPOCH_MS
from tests.scenarios.scene import NAMESPACE, OPERATION_TIMEOUT, PARTS, SUBSCRIPTION, TOPIC, Scene, focused

SECOND = f"{TOPIC}-2"
ALL = re.compile(f"{NAMESPACE}/.*")
ACCESS = (ProducerAccessMode.Exclusive, ProducerAccessMode.WaitForExclusive, ProducerAccessMode.ExclusiveWithFencing)
TRANSACTION = timedelta(seconds=10)


class User:
    """One of them, until it is calm. A patient one keeps what it makes for long."""

    def __init__(
        self, scene: Scene, client: Client, number: int, keys: EncryptionKeyReader, *, is_patient: bool = False
    ) -> None:
        self._scene = scene
        self._client = client
        self._keys = keys
        self._dice = Dice(scene.world.seed, f"user {number}")
        self._helpers: list[Caller] = []
        patient = (self._stay, self._unsubscribe_until_it_is_told)
        uses: tuple[Callable[[], object], ...] = patient if is_patient else (
            self._produce, self._produce_alone, self._consume, self._consume_and_leave, self._read,
            self._read_from_a_time, self._gather, self._share_a_set, self._ask, self._work, self._end_twice, self._view,
            self._retry, self._end_amid_an_acknowledgement, self._close_amid_acknowledgements, self._flood,
            self._share_a_transaction, self._seek_what_came, *patient,
        )  # fmt: skip
        self._uses = focused(self._dice, uses)
        self._caller = scene.world.spawn(self._run, f"user {number}")

    @property
    def callers(self) -> list[Caller]:
        return [self._caller, *self._helpers]

    def _run(self) -> None:
        while not self._scene.is_calm:
            self._try(self._one(*self._uses))
            self._scene.sleep(10.0 ** (self._dice.chance() * 3 - 3))

    def _try(self, call: Any) -> None:
        try:
            call()
        except InternalError:
            raise
        except PulsarException as error:
            self._scene.world.note(f"{getattr(call, '__name__', call)}: {error!r}"[:300])

    def _beside(self, *calls: Callable[[], object]) -> None:
        """Make calls, each in a caller of its own."""
        for call in calls:
            self._helpers.append(self._scene.world.spawn(lambda call=call: self._try(call)))  # type: ignore[misc]

    def _one(self, *of: Any) -> Any:
        return of[self._dice.below(len(of))]

    def _topic(self) -> str:
        return str(PARTS) if self._dice.happens(0.3) else TOPIC

    def _rest(self) -> None:
        self._scene.sleep(10.0 ** (self._dice.chance() * 3 - 3))

    def _produce(self, topic: str | None = None, **options: Any) -> None:
        if self._dice.happens(0.2):
            options |= {"encryption_keys": ["key"], "crypto_key_reader": self._keys}
        producer = self._client.create_producer(
            topic or self._topic(), batching_enabled=self._dice.happens(0.5), send_timeout_millis=3000, **options
        )
        try:
            for _ in range(1 + self._dice.below(5)):
                producer.send_async(b"x")
            if self._dice.happens(0.3):
                self._beside(producer.close)
                self._rest()
                producer.send(b"late")
            producer.flush()
        finally:
            self._try(producer.close)

    def _produce_alone(self) -> None:
        self._produce(TOPIC, access_mode=self._one(*ACCESS))

    def _subscribe(self, **options: Any) -> Any:
        return self._client.subscribe(
            self._topic(),
            self._one(SUBSCRIPTION, "another"),
            consumer_type=self._one(*ConsumerType),
            ack_receipt_enabled=self._dice.happens(0.5),
            crypto_failure_action=self._one(*ConsumerCryptoFailureAction),
            **options,
        )

    def _uses_of(self, consumer: Any) -> "tuple[Callable[[], object], ...]":
        return (
            lambda: consumer.seek(self._one(MessageId.earliest, MessageId.latest, 0)),
            consumer.get_last_message_id,
            consumer.get_broker_consumer_stats,
            consumer.unsubscribe,
            consumer.redeliver_unacknowledged_messages,
            lambda: consumer.acknowledge(consumer.receive(300)),
            lambda: consumer.acknowledge_cumulative(consumer.receive(300)),
            lambda: consumer.negative_acknowledge(consumer.receive(300)),
            lambda: self._acknowledge_in_a_transaction(consumer),
        )

    def _acknowledge_in_a_transaction(self, consumer: Any) -> None:
        transaction = self._client.new_transaction(TRANSACTION)
        with suppress(PulsarException):
            consumer.acknowledge(consumer.receive(300), transaction=transaction)
        transaction.abort()

    def _consume(self) -> None:
        consumer = self._subscribe()
        try:
            with suppress(PulsarException):
                message = consumer.receive(300)
                (consumer.acknowledge if self._dice.happens(0.7) else consumer.negative_acknowledge)(message)
            self._try(self._one(*self._uses_of(consumer)))
        finally:
            self._try(consumer.close)

    def _consume_and_leave(self) -> None:
        """Let several call at once, and one of them close it amid that."""
        consumer = self._subscribe()
        uses = self._uses_of(consumer)
        same = self._one(*uses)
        self._beside(*(same if self._dice.happens(0.3) else self._one(*uses) for _ in range(1 + self._dice.below(4))))
        self._rest()
        self._beside(consumer.close)
        for _ in range(self._dice.below(4)):
            self._try(self._one(*uses))

    def _read(self) -> None:
        start = self._one(MessageId.earliest, MessageId.latest, MessageId.latest)
        inclusive = self._dice.happens(0.5)
        reader = self._client.create_reader(self._topic(), start, start_message_id_inclusive=inclusive)
        try:
            for _ in range(1 + self._dice.below(3)):
                if reader.has_message_available():
                    reader.read_next(300)
                if self._dice.happens(0.3):
                    reader.seek(self._one(MessageId.earliest, MessageId.latest))
        finally:
            self._try(reader.close)

    def _read_from_a_time(self) -> None:
        """Seek a time, and lose the connection before a message has come."""
        reader = self._client.create_reader(self._topic(), MessageId.latest)
        calls = (
            reader.has_message_available, lambda: reader.read_next(300), lambda: reader.seek(MessageId.earliest),
            lambda: reader.seek(EPOCH_MS), self._rest,
        )  # fmt: skip
        try:
            reader.seek(EPOCH_MS)
            for _ in range(1 + self._dice.below(3)):
                self._scene.world.faults.cut()
                self._rest()
                self._try(self._one(*calls))
        finally:
            self._try(reader.close)

    def _gather(self) -> None:
        consumer = self._client.subscribe(ALL, "all", ConsumerType.Shared, pattern_auto_discovery_period=1)
        self._use_set(consumer)

    def _share_a_set(self) -> None:
        consumer = self._client.subscribe([TOPIC, SECOND], "set", self._one(ConsumerType.Shared, ConsumerType.Failover))
        self._use_set(consumer)

    def _use_set(self, consumer: Any) -> None:
        calls = (
            consumer.unsubscribe, consumer.redeliver_unacknowledged_messages, consumer.get_last_message_id,
            lambda: consumer.acknowledge(consumer.receive(300)), lambda: consumer.seek(MessageId.earliest),
        )  # fmt: skip
        self._beside(*(self._one(*calls) for _ in range(self._dice.below(4))))
        self._scene.sleep(2 * self._dice.chance())
        self._try(consumer.close)

    def _ask(self) -> None:
        self._client.get_topic_partitions(self._topic())

    def _work(self) -> None:
        transaction = self._client.new_transaction(TRANSACTION)
        producer = self._client.create_producer(TOPIC)
        try:
            producer.send(b"x", transaction=transaction)
            (transaction.commit if self._dice.happens(0.7) else transaction.abort)()
        finally:
            self._try(producer.close)

    def _end_twice(self) -> None:
        transaction = self._client.new_transaction(TRANSACTION)
        producer = self._client.create_producer(TOPIC)
        ends = (transaction.commit, transaction.abort)
        self._beside(*(self._one(*ends) for _ in range(2)))
        self._try(lambda: producer.send_async(b"x", transaction=transaction))
        for _ in range(2):
            self._try(self._one(*ends))
        self._try(producer.close)

    def _stay(self) -> None:
        """Keep a producer and a consumer for longer than any call waits, whatever becomes of them."""
        producer = self._client.create_producer(
            self._topic(),
            send_timeout_millis=3000,
            batching_enabled=True,
            batching_max_publish_delay_ms=self._one(10, 1000),
            lazy_start_partitioned_producers=self._dice.happens(0.5),
        )
        try:
            consumer = self._subscribe()
            for _ in range(self._dice.below(40)):
                if self._scene.is_calm:
                    break
                self._try(lambda: producer.send_async(b"x"))
                self._try(lambda: consumer.acknowledge(consumer.receive(300)))
                self._scene.sleep(self._dice.chance())
            self._try(consumer.close)
        finally:
            self._try(producer.close)

    def _unsubscribe_until_it_is_told(self) -> None:
        """Unsubscribe, and again if there is no answer, and give a late one its time."""
        consumer = self._subscribe()
        for _ in range(1 + self._dice.below(3)):
            self._try(consumer.unsubscribe)
            self._scene.sleep(OPERATION_TIMEOUT * self._dice.chance() * self._dice.below(2))
        self._try(consumer.close)

    def _end_amid_an_acknowledgement(self) -> None:
        """Acknowledge in a transaction, while others end the transaction and close the consumer."""
        consumer = self._client.subscribe(TOPIC, "amid", initial_position=InitialPosition.Earliest)
        try:
            self._produce(TOPIC)
            message = consumer.receive(300)
            transaction = self._client.new_transaction(TRANSACTION)
            self._beside(consumer.close, self._one(transaction.commit, transaction.abort))
            consumer.acknowledge(message, transaction=transaction)
        finally:
            self._try(consumer.close)

    def _close_amid_acknowledgements(self) -> None:
        """Acknowledge what was received, while another caller closes the consumer."""
        consumer = self._client.subscribe(self._topic(), "amid", initial_position=InitialPosition.Earliest)
        self._produce(TOPIC)
        messages = [consumer.receive(300) for _ in range(1 + self._dice.below(3))]
        self._beside(consumer.close)
        for message in messages:
            self._try(lambda message=message: self._one(consumer.acknowledge, consumer.acknowledge_cumulative)(message))
            self._scene.sleep(0.01 * self._dice.chance())

    def _seek_what_came(self) -> None:
        consumer = self._client.subscribe(TOPIC, "seeking", initial_position=InitialPosition.Earliest)
        try:
            self._produce(TOPIC)
            for _ in range(1 + self._dice.below(4)):
                self._try(lambda: consumer.seek(consumer.receive(300).message_id()))
        finally:
            self._try(consumer.close)

    def _flood(self) -> None:
        """Send faster than a broker can say that it takes no more."""
        producer = self._client.create_producer(TOPIC, batching_enabled=False, access_mode=self._one(*ACCESS))
        try:
            for _ in range(50):
                producer.send_async(b"x")
                self._scene.sleep(0.002 * self._dice.chance())
        finally:
            self._try(producer.close)

    def _share_a_transaction(self) -> None:
        """Have two work on one transaction, each of whom ends or leaves it, whatever the other does."""
        opened = open_shared_transaction(self._client, TRANSACTION, 1)
        joined = join_transaction(self._client, opened.txn_id, TRANSACTION)
        producer = self._client.create_producer(TOPIC, send_timeout_millis=3000)
        try:
            for each in (opened, joined):
                producer.send_async(b"x", transaction=each)
                self._beside(self._one(each.commit, each.abort, each.leave, each.leave))
                self._rest()
        finally:
            self._try(producer.close)

    def _view(self) -> None:
        self._client.create_table_view(TOPIC).close()

    def _retry(self) -> None:
        """Refuse what comes until it goes to a dead letter topic."""
        consumer = self._client.subscribe(
            TOPIC,
            "refusing",
            ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=10,
            dead_letter_policy=ConsumerDeadLetterPolicy(1, "persistent://public/default/dead"),
        )
        try:
            self._produce(TOPIC)
            for _ in range(2 + self._dice.below(4)):
                consumer.negative_acknowledge(consumer.receive(300))
        finally:
            self._try(consumer.close)
