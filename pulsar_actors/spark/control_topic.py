"""The control topic of exactly-once writing, and the topic of attempts beside it: small records in JSON.

The control topic has the markers of batches that are *written*. A marker is sent in the transaction of its batch, so it
is visible if and only if the batch is. The other topic has attempts, which are visible at once: that a driver has
*opened* a transaction, that a task *began* to send its part of a batch, and that a driver is *committing* or *aborting*
a batch. They have a topic of their own, because messages behind a marker are held back until its transaction has ended,
and its driver may be dead.

A durable subscription keeps the records of each. What is not needed any more is acknowledged. So there is little more
than the marker of each job's last batch. A message TTL acknowledges that, too, and an expiry of subscriptions deletes
the subscription. Brokers then delete the records, but not at once. So markers that are missed are looked for among all
records that are stored.
"""

import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.transaction import Transaction
from pulsar_actors.exceptions import ConsumerBusy, InvalidMessage, ProducerBusy, Timeout
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.transaction_id import TransactionId

__all__ = [
    "ABORTING",
    "ATTEMPTS_SUFFIX",
    "BEGAN",
    "COMMITTING",
    "CONTROL_SUFFIX",
    "LOOKING",
    "OPENED",
    "WRITTEN",
    "ControlTopic",
    "Record",
]

CONTROL_SUFFIX: Final = "-spark-exactly-once"
"""The end of the name of a control topic, unless it is chosen."""
ATTEMPTS_SUFFIX: Final = "-attempts"
"""The end of the name of the topic of attempts, after that of the control topic."""

OPENED: Final = "opened"
BEGAN: Final = "began"
COMMITTING: Final = "committing"
ABORTING: Final = "aborting"
WRITTEN: Final = "written"
LOOKING: Final = "looking"
"""A record without content. A driver adds it to a topic, and has seen all earlier records when it reads it."""

SUBSCRIPTION: Final = "spark-exactly-once"
ATTEMPT_KEPT_MS: Final = 24 * 60 * 60 * 1000
"""Milliseconds after which an attempt of another job counts no more: its transaction has ended long before."""
BUSY_PAUSE: Final = 0.1
"""Seconds between two tries to get what another process has: an exclusive subscription, or the name of a producer."""

_Handle = TypeVar("_Handle", Consumer, Producer)


class Record(NamedTuple):
    """A message of these topics. `job` and `batch` say what was written, and `part` which data partition of it.

    When a transaction is opened, the stream is known, and not the job.
    """

    kind: str
    job: str
    batch: int
    transaction: TransactionId
    part: int = -1

    def encode(self) -> bytes:
        """Return the payload."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, payload: bytes) -> "Record":
        """Return the record of a payload."""
        try:
            fields: dict[str, Any] = json.loads(payload)
            return cls(transaction=TransactionId(*fields.pop("transaction")), **fields)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidMessage(
                f"there is a message that is no record of a batch in a control topic: {error}"
            ) from None


class ControlTopic:
    """One of the two topics, as one client uses it before a deadline."""

    def __init__(self, client: Client, topic: str, seconds: float) -> None:
        self._client = client
        self.topic = topic
        self._deadline = time.monotonic() + seconds

    def prepare(self) -> None:
        """Make the topic and its subscription, so that records are kept."""
        self._subscribe().close()

    @contextmanager
    def part(self, name: str | None) -> Generator[Producer, None, None]:
        """Give one task at a time the producer with this name. Others wait: those that Spark starts as a substitute.

        Without a name, all tasks get one.
        """
        producer = self._once_free(lambda: self._client.create_producer(self.topic, name), ProducerBusy)
        try:
            yield producer
        finally:
            producer.close()

    def between(self, last: MessageId, own: MessageId) -> Iterator[Record]:
        """Yield the records after one message, and before one of our own, which is plain."""
        with self._client.create_reader(self.topic, last) as reader:
            while (message := reader.read_next(self._milliseconds_left())).message_id() != own:
                yield Record.decode(message.data())

    @contextmanager
    def log(self) -> Generator["ControlLog", None, None]:
        """Read the records that are kept, and add some. One process at a time does so."""
        producer = self._client.create_producer(self.topic)
        consumer = self._subscribe()
        try:
            yield ControlLog(consumer, producer, self._milliseconds_left, partial(self.between, MessageId.earliest))
        finally:
            consumer.close()
            producer.close()

    def _subscribe(self) -> Consumer:
        earliest = InitialPosition.Earliest
        return self._once_free(
            lambda: self._client.subscribe(self.topic, SUBSCRIPTION, initial_position=earliest), ConsumerBusy
        )

    def _once_free(self, create: Callable[[], _Handle], busy: type[ConsumerBusy] | type[ProducerBusy]) -> _Handle:
        while True:
            try:
                return create()
            except busy:
                if time.monotonic() >= self._deadline:
                    raise
            time.sleep(BUSY_PAUSE)

    def _milliseconds_left(self) -> int:
        return max(1, int((self._deadline - time.monotonic()) * 1000))


class ControlLog:
    """The records that are kept, read from the first on by the only process that does so."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer,
        milliseconds_left: Callable[[], int],
        stored_before: Callable[[MessageId], Iterator[Record]],
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._milliseconds_left = milliseconds_left
        self.stored_before = stored_before
        """Yields all records that the broker has stored before one of our own, also those that are not kept."""
        self._read: list[tuple[Record, Message]] = []

    def add(self, record: Record, transaction: Transaction | None = None) -> MessageId:
        """Add a record."""
        return self._producer.send(record.encode(), transaction=transaction)

    def records_before(self, own: MessageId) -> Iterator[Record]:
        """Yield the records that come before one of our own, which is plain.

        Messages come after all transactions have ended that have sent something before them. So what these records do
        not say when our own is reached will never have been true before it.
        """
        while True:
            try:
                message = self._consumer.receive(self._milliseconds_left())
            except Timeout:
                raise Timeout(
                    f"{self._producer.topic()} was not read up to {own}: a transaction holds back what comes after it; "
                    "it ends with its timeout"
                ) from None
            record = Record.decode(message.data())
            self._read.append((record, message))
            if message.message_id() >= own:
                return
            yield record

    def last_opened(self, stream: str) -> tuple[Record, MessageId] | None:
        """Return the record of the last transaction that was opened for a stream, and its id."""
        own = self.add(Record(LOOKING, stream, 0, TransactionId(0, 0)))
        list(self.records_before(own))
        self._forget([own])
        opened = [(it, message.message_id()) for it, message in self._read if it.kind == OPENED and it.job == stream]
        return opened[-1] if opened else None

    def forget_attempts(self, job: str) -> None:
        """Acknowledge the attempts of a job, and those of jobs that failed and did not come back."""
        oldest = time.time() * 1000 - ATTEMPT_KEPT_MS
        ended = {record.transaction for record, _ in self._read if record.job == job}
        self._forget(
            [it for record, it in self._read if record.transaction in ended or it.publish_timestamp() < oldest]
        )

    def forget_markers(self, job: str, batch: int, unneeded: MessageId | None) -> None:
        """Acknowledge the markers of earlier batches of a job, and one that nobody will look for."""
        old = [
            it for record, it in self._read if record.job == job and (record.kind != WRITTEN or record.batch < batch)
        ]
        self._forget([*old, *([] if unneeded is None else [unneeded])])

    def _forget(self, old: Sequence[Message | MessageId]) -> None:
        if old:
            self._consumer.acknowledge(list(old))
