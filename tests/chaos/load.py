"""The load of a run: producers and consumers of several kinds, in threads, whose calls are all recorded.

Each worker keeps the times at which its work succeeded, so that a run can tell when it went on after a fault.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pulsar_actors as pulsar
from pulsar_actors.exceptions import PulsarException
from tests.histories.recording import RecordedConsumer, RecordedProducer, RecordedTransaction, Recorder

KEYS = tuple("abcdefgh")
PARTITIONS = 3
PACE = 0.02
"""Seconds between the messages of a sender."""
BLOCK_MS = 500
TRANSACTIONS = "transactions"
"""The worker that copies in them."""
AGAIN = 0.2
TRANSACTION_TIMEOUT = timedelta(seconds=3)

BY_KEY: dict[str, Any] = {"batching_type": pulsar.BatchingType.KeyBased}
"""Without it a batch has messages of several keys, and Key_Shared delivers it by the first of them."""

IN_CHUNKS: dict[str, Any] = {"batching_enabled": False, "chunking_enabled": True, "chunk_max_message_size": 5}
"""A content has three chunks or four. They have a topic of their own, without a Shared subscription: an Apache Pulsar
4.2.4 keeps the chunks of a message for the consumer that got the first one, even if that has gone, and may send nothing
more to the subscription then."""
REFUSES_EACH = 10
"""The shared subscription refuses each tenth of what comes, and gets it again."""

CLIENT_OPTIONS: dict[str, Any] = {
    "operation_timeout_seconds": 60,
    "connection_timeout_ms": 3000,
    "keep_alive_interval_seconds": 1,
    "max_backoff_interval_ms": 1000,
}
"""A program that is to go on within seconds says so: by default, a long outage is followed by a wait of up to a
minute, and a dead connection is noticed within two."""


class Work:
    """What one thread does again and again, and when it succeeded."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._succeeded: deque[tuple[float, float]] = deque(maxlen=100_000)

    def succeed(self, began: float) -> None:
        """Note that something which began then has succeeded."""
        self._succeeded.append((began, time.monotonic()))

    def went_on_at(self, since: float) -> float | None:
        """Return when the first piece of work had succeeded that began after this moment."""
        return min((ended for began, ended in list(self._succeeded) if began >= since), default=None)


class Load:
    """All workers of a run, on one client."""

    def __init__(self, recorder: Recorder, client: pulsar.Client, namespace: str, *, transactions: bool) -> None:
        self.recorder = recorder
        self.works: list[Work] = []
        self.errors: list[BaseException] = []
        self.has_transactions = transactions
        self.plain = f"persistent://{namespace}/plain"
        self.parts = f"persistent://{namespace}/parts"
        self.results = f"persistent://{namespace}/results"
        self.large = f"persistent://{namespace}/large"
        self._client = client
        self._senders_stop = threading.Event()
        self._takers_stop = threading.Event()
        self._senders = [
            self._thread(Work("batches"), lambda work: self._send(work, self.plain, once=True)),
            self._thread(Work("keys"), lambda work: self._send(work, self.parts, once=True, keys=KEYS, **BY_KEY)),
            self._thread(Work("one by one"), lambda work: self._send(work, self.plain, batching_enabled=False)),
            self._thread(Work("chunks"), lambda work: self._send(work, self.large, once=True, **IN_CHUNKS)),
        ]
        kinds = pulsar.ConsumerType
        shared, by_key, failover = kinds.Shared, kinds.KeyShared, kinds.Failover
        self._takers = [
            self._thread(
                Work("shared"), lambda work: self._take(work, self.plain, "shared", shared, refuses_each=REFUSES_EACH)
            ),
            self._thread(Work("failover"), lambda work: self._take(work, self.plain, "failover", failover)),
            self._thread(Work("by key"), lambda work: self._take(work, self.parts, "by key", by_key)),
            self._thread(Work("by key, too"), lambda work: self._take(work, self.parts, "by key", by_key)),
            self._thread(Work("chunks in order"), lambda work: self._take(work, self.large, "in order", failover)),
            self._thread(Work("reader"), lambda work: self._read(work, self.plain)),
            self._thread(Work("reader of chunks"), lambda work: self._read(work, self.large)),
        ]
        if transactions:
            self._takers.append(self._thread(Work(TRANSACTIONS), self._copy))
        self.subscriptions = {"shared": (self.plain, shared), "failover": (self.plain, failover)}
        self.subscriptions |= {"by key": (self.parts, by_key), "in order": (self.large, failover)}
        if transactions:
            self.subscriptions["copy"] = (self.plain, shared)

    @property
    def topics(self) -> list[str]:
        """The topics without partitions, and the partitions of the others."""
        return [
            self.plain,
            self.results,
            self.large,
            *(f"{self.parts}-partition-{number}" for number in range(PARTITIONS)),
        ]

    def __enter__(self) -> "Load":
        for thread in (*self._takers, *self._senders):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let workers end that are left, of a run that has failed: without a client they would try without a pause."""
        self._senders_stop.set()
        self._takers_stop.set()

    def stop(self, within: float) -> list[str]:
        """Let the senders end, then the takers. Return the names of those that do not."""
        deadline = time.monotonic() + within
        for threads, told in ((self._senders, self._senders_stop), (self._takers, self._takers_stop)):
            told.set()
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        return [thread.name for thread in (*self._senders, *self._takers) if thread.is_alive()]

    def copy_one(self, client: pulsar.Client) -> None:
        """Send one more message, and copy one in a transaction."""
        lines = [self.recorder.producer(client, topic, send_timeout_millis=0) for topic in (self.plain, self.results)]
        consumer = self._consumer(client, self.plain, "copy", pulsar.ConsumerType.Shared)
        lines[0].send()
        received = consumer.receive(int(1000 * CLIENT_OPTIONS["operation_timeout_seconds"]))
        self._copied(consumer, lines[1], [received], self.recorder.transaction(client, TRANSACTION_TIMEOUT))
        for each in (consumer, *lines):
            each.close()

    def _thread(self, work: Work, run: Callable[[Work], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                run(work)
            except BaseException as error:  # noqa: BLE001 - the run reports it
                self.errors.append(error)

        self.works.append(work)
        return threading.Thread(target=guarded, name=work.name, daemon=True)

    def _insist(self, make: Callable[[], Any], stop: threading.Event) -> Any:
        while True:
            try:
                return make()
            except PulsarException:
                if stop.wait(AGAIN):
                    raise

    def _send(self, work: Work, topic: str, *, once: bool = False, keys: tuple[str, ...] = (), **options: Any) -> None:
        stop = self._senders_stop

        def made() -> RecordedProducer:
            return self.recorder.producer(
                self._client,
                topic,
                once=once,
                send_timeout_millis=0 if once else 30_000,
                block_if_queue_full=True,
                ordered_by_key=bool(keys),
                **{"batching_enabled": True, "batching_max_publish_delay_ms": 5, **options},
            )

        producer, number = self._insist(made, stop), 0
        while not stop.wait(PACE):
            began, number = time.monotonic(), number + 1
            try:
                future = producer.send_async(keys[number % len(keys)] if keys else None)
            except pulsar.AlreadyClosed:
                producer = self._insist(made, stop)
                continue
            except PulsarException:
                continue
            future.add_done_callback(
                lambda done, began=began: work.succeed(began) if done.exception() is None else None
            )
        _quietly(producer.flush)
        _quietly(producer.close)

    def _subscribe(self, topic: str, subscription: str, kind: pulsar.ConsumerType) -> RecordedConsumer:
        return self._insist(  # type: ignore[no-any-return]
            lambda: self._consumer(self._client, topic, subscription, kind), self._takers_stop
        )

    def _consumer(
        self, client: pulsar.Client, topic: str, subscription: str, kind: pulsar.ConsumerType
    ) -> RecordedConsumer:
        return self.recorder.consumer(
            client,
            topic,
            subscription,
            kind,
            initial_position=pulsar.InitialPosition.Earliest,
            ack_receipt_enabled=True,
            batch_index_ack_enabled=True,
            negative_ack_redelivery_delay_ms=100,
        )

    def _take(
        self, work: Work, topic: str, subscription: str, kind: pulsar.ConsumerType, refuses_each: int = 0
    ) -> None:
        consumer, came = self._subscribe(topic, subscription, kind), 0
        while not self._takers_stop.is_set():
            began = time.monotonic()
            try:
                messages = list(consumer.receive_many(20, BLOCK_MS))
                came += len(messages)
                if messages and refuses_each and came >= refuses_each:
                    came = 0
                    consumer.negative_acknowledge([messages.pop()])
                consumer.acknowledge_all(messages)
            except PulsarException:
                continue
            if messages:
                work.succeed(began)
        _quietly(consumer.close)

    def _read(self, work: Work, topic: str) -> None:
        stop = self._takers_stop
        reader = self._insist(lambda: self.recorder.reader(self._client, topic, pulsar.MessageId.earliest), stop)
        while not stop.is_set():
            began = time.monotonic()
            try:
                reader.read_next(BLOCK_MS)
            except PulsarException:
                continue
            work.succeed(began)
        _quietly(reader.close)

    def _copy(self, work: Work) -> None:
        """Take, send and acknowledge in transactions."""
        stop = self._takers_stop
        consumer = self._subscribe(self.plain, "copy", pulsar.ConsumerType.Shared)
        results = self._insist(
            lambda: self.recorder.producer(self._client, self.results, once=True, send_timeout_millis=0), stop
        )
        while not stop.is_set():
            began = time.monotonic()
            try:
                messages = consumer.receive_many(20, BLOCK_MS)
                transaction = self.recorder.transaction(self._client, TRANSACTION_TIMEOUT) if messages else None
            except PulsarException:
                continue
            if transaction is not None and self._copied(consumer, results, messages, transaction):
                work.succeed(began)
        _quietly(results.close)
        _quietly(consumer.close)

    def _copied(
        self,
        consumer: RecordedConsumer,
        results: RecordedProducer,
        messages: Sequence[pulsar.Message],
        transaction: RecordedTransaction,
    ) -> bool:
        try:
            for message in messages:
                results.send_async(transaction=transaction)
                consumer.acknowledge(message, transaction)
            transaction.commit()
        except PulsarException:
            _quietly(transaction.abort)
            _quietly(lambda: consumer.negative_acknowledge(list(messages)))
            return False
        return True


def _quietly(call: Callable[[], object]) -> None:
    """Let the history have the error."""
    try:
        call()
    except PulsarException:
        return
