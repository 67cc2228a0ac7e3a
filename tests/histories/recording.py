"""Producers, consumers and transactions of a client, whose calls are noted in a history.

They have the calls that programs make, and return and raise what the client does. A content is made by the recorder,
so that it names its message. Everything works with any client that has the official client's names.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

from pulsar_actors.client.enums import ConsumerType, Result
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import PulsarException, SendManyFailed
from pulsar_actors.wire.topic_name import TopicName
from tests.histories.history import (
    Acknowledged,
    Closed,
    EndedTransaction,
    History,
    Operation,
    Outcome,
    Place,
    Sent,
    Stored,
    Subscribed,
)


class RecordedTransaction:
    """A transaction, and its name in the history."""

    def __init__(self, history: History, transaction: Any, name: str) -> None:
        self.history = history
        self.transaction = transaction
        self.name = name

    def commit(self) -> None:
        self._end(self.transaction.commit, commit=True)

    def abort(self) -> None:
        self._end(self.transaction.abort, commit=False)

    def _end(self, call: Callable[[], None], *, commit: bool) -> None:
        ended = self.history.begin(EndedTransaction, transaction=self.name, commit=commit)
        _call(self.history, ended, call)


class RecordedProducer:
    """A producer of one topic, or of a partitioned one."""

    def __init__(  # noqa: PLR0913 - each is another fact about it
        self,
        history: History,
        producer: Any,
        topic: str,
        name: str,
        *,
        once: bool = False,
        ordered_by_key: bool = False,
    ) -> None:
        self.history = history
        self.producer = producer
        self.topic = topic
        self.name = name
        self._once = once
        self._ordered_by_key = ordered_by_key
        self._sent = 0

    def send(self, key: str | None = None, *, transaction: RecordedTransaction | None = None, **options: Any) -> None:
        """Send a message, and wait."""
        sent, options = self._begin(key, transaction, options)
        try:
            self._stored(sent, self.producer.send(sent.content, **options))
        except PulsarException as error:
            self.history.end(sent, Outcome.of_error(error))
            raise

    def send_async(
        self, key: str | None = None, *, transaction: RecordedTransaction | None = None, **options: Any
    ) -> "Future[MessageId]":
        """Send a message, and return its future."""
        sent, options = self._begin(key, transaction, options)
        try:
            future: Future[MessageId] = self.producer.send_async(sent.content, **options)
        except PulsarException as error:
            self.history.end(sent, Outcome.of_error(error))
            raise
        future.add_done_callback(partial(self._told, sent))
        return future

    def send_with_callback(
        self, key: str | None = None, *, transaction: RecordedTransaction | None = None, **options: Any
    ) -> None:
        """Send a message, and have a callback told."""
        sent, options = self._begin(key, transaction, options)

        def told(result: Result, message_id: MessageId) -> None:
            if result is Result.Ok:
                self._stored(sent, message_id)
            else:
                self.history.end(sent, Outcome.of_result(result))

        self.producer.send_async(sent.content, told, **options)

    def send_many(self, number: int, *, transaction: RecordedTransaction | None = None) -> "Future[Any]":
        """Send so many messages by one call."""
        begun = [self._begin(None, transaction, {}) for _ in range(number)]
        messages = [sent for sent, _ in begun]
        options = {} if transaction is None else {"transaction": transaction.transaction}

        def told(done: "Future[Any]") -> None:
            error = done.exception()
            if isinstance(error, SendManyFailed):
                ids = error.ids or [None] * number
                outcomes = [error.errors.get(at) or ids[at] for at in range(number)]
            else:
                outcomes = done.result() if error is None else [error] * number
            for sent, outcome in zip(messages, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    self.history.end(sent, Outcome.of_error(outcome))
                else:
                    self._stored(sent, outcome)

        try:
            future: Future[Any] = self.producer.send_many([sent.content for sent in messages], ids=True, **options)
        except PulsarException as error:
            for sent in messages:
                self.history.end(sent, Outcome.of_error(error))
            raise
        future.add_done_callback(told)
        return future

    def flush(self) -> None:
        self.producer.flush()

    def close(self) -> None:
        self.producer.close()

    def _begin(
        self, key: str | None, transaction: RecordedTransaction | None, options: dict[str, Any]
    ) -> tuple[Sent, dict[str, Any]]:
        self._sent += 1
        sent = self.history.begin(
            Sent,
            producer=self.name,
            topic=self.topic,
            content=f"{self.name}/{self._sent}".encode(),
            key=key,
            transaction=None if transaction is None else transaction.name,
            once=self._once,
            line=f"{self.name}/{key}" if self._ordered_by_key else self.name,
        )
        if key is not None:
            options["partition_key"] = key
        if transaction is not None:
            options["transaction"] = transaction.transaction
        return sent, options

    def _told(self, sent: Sent, done: "Future[MessageId]") -> None:
        error = done.exception()
        if error is None:
            self._stored(sent, done.result())
        else:
            self.history.end(sent, Outcome.of_error(error))

    def _stored(self, sent: Sent, message_id: MessageId | None) -> None:
        if message_id is not None:
            sent.place = Place.of(message_id)
        self.history.end(sent, Outcome.DONE)


class RecordedConsumer:
    """A consumer, or a reader, whose callers receive and acknowledge through it.

    Its acknowledgements are done when the client says so, if it waits for receipts; otherwise with its close.
    """

    def __init__(self, history: History, subscribed: Subscribed, consumer: Any, *, receipts: bool = False) -> None:
        self.history = history
        self.subscribed = subscribed
        self.consumer = consumer
        self._receipts = receipts

    def receive(self, timeout_ms: int) -> Message:
        message: Message = self.consumer.receive(timeout_ms)
        self.note(message)
        return message

    def receive_many(self, most: int, timeout_ms: int) -> Sequence[Message]:
        messages: list[Message] = self.consumer.receive_many(most, timeout_ms)
        for message in messages:
            self.note(message)
        return messages

    def batch_receive(self) -> Sequence[Message]:
        messages: list[Message] = self.consumer.batch_receive()
        for message in messages:
            self.note(message)
        return messages

    def read_next(self, timeout_ms: int) -> Message:
        message: Message = self.consumer.read_next(timeout_ms)
        self.note(message)
        return message

    def note(self, message: Message) -> None:
        """Note a message that a listener or a future has got."""
        self.history.receive(self.subscribed, message.topic_name(), Place.of(message.message_id()), message.data())

    def acknowledge(self, message: Message, transaction: RecordedTransaction | None = None) -> None:
        self._acknowledge([message], transaction, self.consumer.acknowledge, message)

    def acknowledge_all(self, messages: Sequence[Message], transaction: RecordedTransaction | None = None) -> None:
        self._acknowledge(messages, transaction, self.consumer.acknowledge, list(messages))

    def acknowledge_cumulative(self, message: Message, transaction: RecordedTransaction | None = None) -> None:
        self._acknowledge([message], transaction, self.consumer.acknowledge_cumulative, message, cumulative=True)

    def negative_acknowledge(self, messages: Any) -> None:
        self.history.disturb("negative acknowledgement", self.subscribed.subscription)
        self.consumer.negative_acknowledge(messages)

    def redeliver_unacknowledged_messages(self) -> None:
        self.history.disturb("redelivery", self.subscribed.subscription)
        self.consumer.redeliver_unacknowledged_messages()

    def seek(self, where: Any) -> None:
        self.history.disturb("seek", self.subscribed.subscription)
        self.consumer.seek(where)
        self.history.disturb("seek", self.subscribed.subscription)

    def close(self) -> None:
        closed = self.history.begin(Closed, consumer=self.subscribed.consumer)
        _call(self.history, closed, self.consumer.close)

    def _acknowledge(
        self,
        messages: Iterable[Message],
        transaction: RecordedTransaction | None,
        call: Callable[..., object],
        argument: object,
        *,
        cumulative: bool = False,
    ) -> None:
        begun = [
            self.history.begin(
                Acknowledged,
                consumer=self.subscribed.consumer,
                subscription=self.subscribed.subscription,
                topic=message.topic_name(),
                place=Place.of(message.message_id()),
                cumulative=cumulative,
                transaction=None if transaction is None else transaction.name,
            )
            for message in messages
        ]
        waits = self._receipts or transaction is not None
        try:
            call(argument, **({} if transaction is None else {"transaction": transaction.transaction}))
        except PulsarException as error:
            # One of several may have been refused, and the others have happened.
            outcome = Outcome.UNKNOWN if len(begun) > 1 else Outcome.of_error(error)
            for each in begun:
                self.history.end(each, outcome)
            raise
        for each in begun:
            if waits:
                self.history.end(each, Outcome.DONE)
            else:
                self.history.returned(each)


class Recorder:
    """Makes what is recorded, of any clients."""

    def __init__(self) -> None:
        self.history = History()
        self._names = count(1)

    def producer(self, client: Any, topic: str, **options: Any) -> RecordedProducer:
        """Create a producer. If `once` is among the options, the broker drops what it repeats.

        That takes a name, which the broker gives it unless `named` is true.
        """
        once, named = options.pop("once", False), options.pop("named", True)
        ordered_by_key = options.pop("ordered_by_key", False)
        topic, name = _complete(topic), f"producer-{next(self._names)}"
        if once and named:
            options["producer_name"] = name
        made = client.create_producer(topic, **options)
        return RecordedProducer(self.history, made, topic, name, once=once, ordered_by_key=ordered_by_key)

    def consumer(  # noqa: PLR0913 - as `subscribe`
        self,
        client: Any,
        topics: Any,
        subscription: str,
        kind: ConsumerType = ConsumerType.Exclusive,
        *,
        name: str = "consumer",
        listener: Callable[[RecordedConsumer, Message], None] | None = None,
        pattern: "re.Pattern[str] | None" = None,
        **options: Any,
    ) -> RecordedConsumer:
        """Subscribe to a topic, or to several, which may be those that match a pattern."""
        several = [topics] if isinstance(topics, str) else list(topics)
        asked = pattern or (several[0] if len(several) == 1 else several)
        subscribed = self.history.begin(
            Subscribed,
            consumer=f"{name}-{next(self._names)}",
            topics=tuple(map(_complete, several)),
            subscription=subscription,
            kind=kind,
            by_index=bool(options.get("batch_index_ack_enabled")),
        )
        receipts = bool(options.get("ack_receipt_enabled"))
        recorded = RecordedConsumer(self.history, subscribed, None, receipts=receipts)
        if listener is not None:

            def hear(consumer: Any, message: Message) -> None:
                recorded.consumer = consumer
                recorded.note(message)
                listener(recorded, message)

            options["message_listener"] = hear
        recorded.consumer = self._subscribe(
            subscribed, lambda: client.subscribe(asked, subscription, consumer_type=kind, **options)
        )
        return recorded

    def reader(self, client: Any, topic: str, start: MessageId, **options: Any) -> RecordedConsumer:
        """Create a reader."""
        name = f"reader-{next(self._names)}"
        subscribed = self.history.begin(
            Subscribed, consumer=name, topics=(_complete(topic),), subscription=name, kind=None
        )
        made = self._subscribe(subscribed, lambda: client.create_reader(topic, start, **options))
        return RecordedConsumer(self.history, subscribed, made)

    def transaction(self, client: Any, timeout: Any) -> RecordedTransaction:
        """Open a transaction."""
        opened = client.new_transaction(timeout)
        return RecordedTransaction(self.history, opened, f"{opened.txn_id}")

    def look(self, topic: str, message: Message) -> None:
        """Note a message that the reader of the end has read."""
        self.history.stored.append(Stored(_complete(topic), Place.of(message.message_id()), message.data()))

    def _subscribe(self, subscribed: Subscribed, make: Callable[[], Any]) -> Any:
        try:
            made = make()
        except PulsarException as error:
            self.history.end(subscribed, Outcome.of_error(error))
            raise
        self.history.end(subscribed, Outcome.DONE)
        return made


def _complete(topic: str) -> str:
    return str(TopicName.parse(topic))


def _call(history: History, operation: Operation, call: Callable[[], object]) -> None:
    try:
        call()
    except PulsarException as error:
        history.end(operation, Outcome.of_error(error))
        raise
    history.end(operation, Outcome.DONE)
