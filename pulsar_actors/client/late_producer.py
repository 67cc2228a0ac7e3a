"""The producer of a consumer that has to send messages on: to a dead letter topic, or to one for retries.

Most consumers never send any, so it is made when the first message comes, and anew if it ended for good: its topic was
deleted, say. Whether that topic has partitions is asked first, without anybody waiting. It ends with its consumer,
which has the only reference to it.

Messages leave one by one, for a delivery time is not a batch's, in chunks if they are large, since the original may
have come so, and as of the consumer's schema. The queue has no limit: who has received them holds them already.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from pulsar_actors.client.living import Living
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.partitions import question_about
from pulsar_actors.client.producer_maker import begin_producer, producer_with
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.schema import Schema
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import InternalError
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.wire.topic_name import TopicName

Made = SlimFuture[Producer]


class LateProducer:
    """The way of received messages to one topic; `producers` are those of the client, among which it is listed.

    Any thread may use it, and it keeps neither consumer nor client.
    """

    __slots__ = ("_initial_subscription", "_lock", "_making", "_options", "_producer", "_producers", "_workshop")

    def __init__(
        self,
        workshop: Workshop,
        producers: Living[Producer],
        topic: str,
        schema: Schema,
        initial_subscription: str = "",
    ) -> None:
        self._workshop = workshop
        self._producers = producers
        self._options = ProducerOptions(
            topic=topic,
            schema=schema,
            max_pending_messages=0,
            max_pending_messages_across_partitions=0,
            chunking_enabled=True,
        )
        self._initial_subscription = initial_subscription
        self._producer: Producer | None = None
        self._making: Made | None = None  # not kept beyond that: its callbacks have messages
        self._lock = workshop.engine.interleaving.lock()

    @property
    def topic(self) -> str:
        """The topic that it sends to."""
        return self._options.topic

    def forward(
        self, message: Message, properties: Mapping[str, str], deliver_at_ms: int | None = None
    ) -> SlimFuture[MessageId]:
        """Send a message on, with these properties, and give a future of where it is."""
        done: SlimFuture[MessageId] = SlimFuture()
        self._made().add_done_callback(partial(_send_with, message, properties, deliver_at_ms, done))
        return done

    def close_soon(self) -> None:
        """Begin to close, once what is here has been sent; nothing more will come."""
        making = self._making
        if making is not None:
            making.add_done_callback(_close)
        elif self._producer is not None:
            self._producer.close_soon()

    def _made(self) -> Made:
        """Give a future of the producer; whoever comes first has it made."""
        made: Made = SlimFuture()
        with self._lock:
            producer, making = self._producer, self._making
            is_there = producer is not None and producer.is_open  # it may have ended for good
            if making is None and not is_there:
                self._making = made
        if making is not None:
            return making
        if producer is not None and is_there:
            settle(made, producer)
        else:
            self._begin_to_make(made)
        return made

    def _begin_to_make(self, made: Made) -> None:
        name = TopicName.parse(self._options.topic)
        if name.partition_index >= 0:
            self._make(made, 0)
            return

        def counted(answer: "Future[Any]") -> None:
            error = answer.exception()
            if error is None:
                self._make(made, int(answer.result().partitions))
            else:
                self._end(made, known(error))

        self._workshop.ask(question_about(name)).add_done_callback(counted)

    def _make(self, made: Made, partitions: int) -> None:
        begun: Future[Any] = begin_producer(self._workshop, self._options, partitions, self._initial_subscription)
        begun.add_done_callback(partial(self._enter, made))

    def _enter(self, made: Made, begun: "Future[Any]") -> None:
        error = begun.exception()
        if error is not None:
            self._end(made, known(error))
            return
        self._producer = producer = producer_with(begun.result(), self._options)
        self._producers.add(producer)
        self._end(made, producer)

    def _end(self, made: Made, outcome: Producer | Exception) -> None:
        self._making = None
        settle(made, outcome)


def _send_with(
    message: Message,
    properties: Mapping[str, str],
    deliver_at_ms: int | None,
    done: SlimFuture[MessageId],
    made: "Future[Producer]",
) -> None:
    error = made.exception()
    if error is not None:
        settle(done, known(error))
        return
    try:
        made.result().forward(message, properties, deliver_at_ms, done)
    except Exception as fault:  # noqa: BLE001 - a future's callback may not raise, and somebody waits
        settle(done, fault)


def _close(made: "Future[Producer]") -> None:
    if made.exception() is None:
        made.result().close_soon()


def known(error: BaseException) -> Exception:
    """Give an error that can be raised to whoever waits."""
    return error if isinstance(error, Exception) else InternalError(repr(error))
