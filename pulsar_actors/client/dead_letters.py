"""The senders of dead letters and retry letters: they send a consumer's messages to another topic.

Which messages become letters is decided in `machines/trackers/dead_letters.py`: those of `reconsume_later`, and entries
that have failed too often. The original is acknowledged only when the other topic has stored the message. If anything
fails, the original stays unacknowledged and is delivered again: at worst a message comes twice, but none is lost.

The Java client also has `reconsumeLaterCumulative`: it sends one message to the retry topic, and acknowledges all
before it, which are not put off. Here that takes two calls.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, cast

from pulsar_actors.client.acknowledge import (
    Acknowledger,
    AcknowledgingHandle,
    ack_target_in,
    as_sequence,
    when_all_done,
)
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.create_producer import (
    new_producer_handle,
    partition_metadata_request,
    start_producer,
)
from pulsar_actors.client.message import Message, new_messages, unknown_schema_of, written_schema_of
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.open_handles import WeakCollection
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_state import AnySendingState
from pulsar_actors.client.schema import BYTES, BytesSchema, Schema
from pulsar_actors.client.validation import LONGEST_MS, whole_number
from pulsar_actors.client.validation import properties as check_properties
from pulsar_actors.exceptions import (
    AuthorizationError,
    InternalError,
    OperationNotSupported,
    PulsarException,
    Timeout,
    TopicNotFound,
)
from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.machines.trackers.dead_letters import (
    Origin,
    dead_letter_properties,
    dead_letter_topic,
    retry_message,
)
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.subscribed_topics import with_text
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.opened_entry import OpenedEntry, open_entry
from pulsar_actors.runtime.schema_versions import SchemaVersions, StoredSchema
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.PulsarApi_pb2 import KeyValue
from pulsar_actors.wire.PulsarApi_pb2 import Schema as SchemaData
from pulsar_actors.wire.topic_name import TopicName

ProducerFuture = SlimFuture[Producer]
SchemaKey: TypeAlias = tuple[int, bytes, tuple[tuple[str, str], ...]]


class LetterOptions(ProducerOptions):
    """The options of a producer whose messages bring the data keys that encrypt them.

    A namespace that demands encryption refuses other producers. One that does not demand it takes plain messages, too.
    """

    @property
    def is_encrypted(self) -> bool:
        """True, although the producer has no public keys of its own."""
        return True


class WrittenSchema(BytesSchema):
    """The schema that a message was written with. A letter has the bytes of the message, so nothing is encoded."""

    def __init__(self, stored: StoredSchema) -> None:
        self._stored = stored

    def announced(self) -> SchemaData:
        """Return the definition as the brokers of the original's topic keep it."""
        stored = self._stored
        return SchemaData(
            name="",
            schema_data=stored.data,
            type=cast("SchemaData.Type.ValueType", stored.type),
            properties=[KeyValue(key=key, value=value) for key, value in stored.properties.items()],
        )


def letter_options(topic: str, options: ConsumerOptions) -> ProducerOptions:
    """Make the options of the producer of a consumer's letters."""
    options_class = ProducerOptions if options.crypto_key_reader is None else LetterOptions
    return options_class(
        topic=topic,
        schema=options.schema,
        max_pending_messages=0,
        max_pending_messages_across_partitions=0,
        chunking_enabled=True,
    )


class LazyProducer:
    """A producer that sends received messages to one other topic. It is created for the first such message.

    Most consumers never need it. If the producer has ended permanently, for example because its topic was deleted, the
    next message gets a new one. First a broker is asked for the number of partitions; no thread waits for the answer.
    The producer ends with its consumer, which has the only reference to it. `producers` is the client's list of
    producers.

    Messages are sent one by one, because a batch has no delivery time; and in chunks if they are large, because the
    original may have been chunked. The send queue has no limit, because the program has these messages in memory
    already. Any thread may use this object. It keeps neither the consumer nor the client alive.

    A letter has the consumer's schema. If that decodes a payload with the schema that it was written with, the letter
    has the latter, as in the Java client, and there is another producer for each such schema.
    """

    __slots__ = (
        "_context", "_initial_subscription", "_lock", "_of_written", "_options", "_pending", "_producer", "_producers",
    )  # fmt: skip

    def __init__(
        self,
        context: ClientContext,
        producers: WeakCollection[Producer],
        options: ProducerOptions,
        initial_subscription: str = "",
    ) -> None:
        self._context = context
        self._producers = producers
        self._options = options
        self._initial_subscription = initial_subscription
        self._producer: Producer | None = None
        self._pending: ProducerFuture | None = None  # None once it has ended: its callbacks hold messages
        self._lock = context.engine.interleaving.lock()
        self._of_written: dict[SchemaKey, LazyProducer] | None = None  # those for other schemas, if there are any

    @property
    def topic(self) -> str:
        """The topic that messages are sent to."""
        return self._options.topic

    def forward(
        self, message: Message, properties: Mapping[str, str], deliver_at_ms: int | None = None
    ) -> SlimFuture[MessageId]:
        """Send a message with these properties, and return a future of its new id."""
        done: SlimFuture[MessageId] = SlimFuture()
        send = partial(_send_with, message, properties, deliver_at_ms, done)
        unknown = unknown_schema_of(message) if self._options.schema.needs_writer else None
        if unknown is None:
            self._send(message, send, done)
        else:
            schemas, topic, version = unknown
            schemas.request(topic, version).add_done_callback(lambda _: self._send(message, send, done))
        return done

    def _send(
        self, message: Message, send: Callable[["Future[Producer]"], object], done: SlimFuture[MessageId]
    ) -> None:
        try:
            self._for_schema_of(message).producer_future().add_done_callback(send)
        except Exception as fault:  # noqa: BLE001 - a future's callback may not raise, and somebody waits
            settle(done, fault)

    def _for_schema_of(self, message: Message) -> "LazyProducer":
        """Return the producer for the schema that a message was written with. It is known by now, or was refused."""
        stored = _written_schema_if_needed(message, self._options.schema)
        if stored is None:
            return self
        key = stored.type, stored.data, tuple(sorted(stored.properties.items()))
        with self._lock:
            if self._of_written is None:
                self._of_written = {}
            if key not in self._of_written:
                options = self._options.replace(schema=WrittenSchema(stored))
                self._of_written[key] = LazyProducer(
                    self._context, self._producers, options, self._initial_subscription
                )
            return self._of_written[key]

    def close_soon(self) -> None:
        """Start the close, which sends pending messages first. `forward` is not called again."""
        for other in tuple((self._of_written or {}).values()):
            other.close_soon()
        pending = self._pending
        if pending is not None:
            pending.add_done_callback(_close_when_created)
        elif self._producer is not None:
            self._producer.close_soon()

    def producer_future(self) -> ProducerFuture:
        """Return a future of the producer; the first call starts its creation."""
        future: ProducerFuture = SlimFuture()
        with self._lock:
            producer, pending = self._producer, self._pending
            is_there = producer is not None and producer.is_open  # it may have ended permanently
            if pending is None and not is_there:
                self._pending = future
        if pending is not None:
            return pending
        if producer is not None and is_there:
            settle(future, producer)
        else:
            self._create(future)
        return future

    def _create(self, future: ProducerFuture) -> None:
        name = TopicName.parse(self._options.topic)
        if name.partition_index >= 0:
            self._create_with_partitions(future, 0)
            return

        def partitions_counted(answer: "Future[Any]") -> None:
            error = answer.exception()
            if error is None:
                self._create_with_partitions(future, int(answer.result().partitions))
            else:
                self._settle(future, as_exception(error))

        self._context.ask_broker(partition_metadata_request(name)).add_done_callback(partitions_counted)

    def _create_with_partitions(self, future: ProducerFuture, partitions: int) -> None:
        state = start_producer(self._context, self._options, partitions, self._initial_subscription)
        state.link.created.add_done_callback(partial(self._created, future, state))

    def _created(self, future: ProducerFuture, state: AnySendingState, created: "Future[None]") -> None:
        error = created.exception()
        if error is not None:
            self._settle(future, as_exception(error))
            return
        self._producer = producer = new_producer_handle(state, self._options)
        self._producers.add(producer)
        self._settle(future, producer)

    def _settle(self, future: ProducerFuture, outcome: Producer | Exception) -> None:
        self._pending = None
        settle(future, outcome)


def _written_schema_if_needed(message: Message, schema: Schema) -> StoredSchema | None:
    """Return the schema that a message was written with, if its consumer's schema needs that, and can get it."""
    try:
        return written_schema_of(message) if schema.needs_writer else None
    except (TopicNotFound, AuthorizationError, OperationNotSupported):  # then the original has no value, either
        return None


def _send_with(
    message: Message,
    properties: Mapping[str, str],
    deliver_at_ms: int | None,
    done: SlimFuture[MessageId],
    producer: "Future[Producer]",
) -> None:
    error = producer.exception()
    if error is not None:
        settle(done, as_exception(error))
        return
    try:
        producer.result().forward(message, properties, deliver_at_ms, done)
    except Exception as fault:  # noqa: BLE001 - a future's callback may not raise, and somebody waits
        settle(done, fault)


def _close_when_created(producer: "Future[Producer]") -> None:
    if producer.exception() is None:
        producer.result().close_soon()


def as_exception(error: BaseException) -> Exception:
    """Return the error as an Exception, which a future can have."""
    return error if isinstance(error, Exception) else InternalError(repr(error))


_delay = whole_number(0, LONGEST_MS)


class RetryLetters:
    """Puts off messages of one consumer (`reconsume_later`). Any thread may use it."""

    __slots__ = ("_dead_letter_producer", "_engine", "_in_flight", "_max_retries", "_retry_producer", "_subscription")

    def __init__(
        self,
        engine: Engine,
        subscription: str,
        max_retries: int,
        retry_producer: LazyProducer,
        dead_letter_producer: LazyProducer,
    ) -> None:
        self._engine = engine
        self._subscription = subscription
        self._max_retries = max_retries
        self._retry_producer = retry_producer
        self._dead_letter_producer = dead_letter_producer
        self._in_flight: dict[Future[None], None] = {}

    def reconsume_later(
        self, handle: AcknowledgingHandle, acks: Acknowledger, given: object, delay_ms: int, properties: object
    ) -> "Future[None]":
        """Put off each of these messages, and return a future of the outcome. All are checked before any is sent."""
        _delay("delay_ms", delay_ms)
        further = cast("dict[str, str]", check_properties("properties", properties))
        messages = [_checked_message(one) for one in as_sequence(given)]
        for one in messages:
            ack_target_in(handle, one)
        return when_all_done([self._send(handle, acks, one, delay_ms, further) for one in messages])

    def wait(self, seconds: float) -> None:
        """Wait until the messages being sent have ended, stored or failed, for so many seconds at most."""
        ended: SlimFuture[None] = SlimFuture()
        when_all_done(list(self._in_flight)).add_done_callback(lambda _: settle(ended, None))
        with suppress(Timeout):
            self._engine.block(ended, seconds, "waiting for messages that are being put off")

    def close_soon(self) -> None:
        """Start to close the producers."""
        self._retry_producer.close_soon()
        self._dead_letter_producer.close_soon()

    def _send(
        self,
        handle: AcknowledgingHandle,
        acks: Acknowledger,
        message: Message,
        delay_ms: int,
        further: Mapping[str, str],
    ) -> "Future[None]":
        origin = Origin(message.topic_name(), self._subscription, str(message.message_id()))
        own = {**message.properties(), **further}
        properties, is_dead, deliver_at_ms = retry_message(
            own, origin, delay_ms, self._engine.wall_clock_ms(), self._max_retries
        )
        producer = self._dead_letter_producer if is_dead else self._retry_producer
        done: SlimFuture[None] = SlimFuture()
        self._in_flight[done] = None
        done.add_done_callback(self._remove)
        sent = producer.forward(message, properties, deliver_at_ms)
        sent.add_done_callback(_InFlightRetry(handle, acks, message, producer.topic, done))
        return done

    def _remove(self, done: "Future[None]") -> None:
        self._in_flight.pop(done, None)


def new_retry_letters(
    options: ConsumerOptions, context: ClientContext, producers: WeakCollection[Producer]
) -> RetryLetters | None:
    """Make the `RetryLetters` of a consumer with `enable_retry`; None without it."""
    policy = options.dead_letter_policy
    if not options.enable_retry or policy is None:
        return None

    def new_producer(topic: str | None, initial_subscription: str | None) -> LazyProducer:
        return LazyProducer(context, producers, letter_options(topic or "", options), initial_subscription or "")

    retry_producer, dead_letter_producer = (
        new_producer(policy.retry_letter_topic, ""),
        new_producer(policy.dead_letter_topic, policy.initial_subscription_name),
    )
    return RetryLetters(
        context.engine, options.subscription_name, policy.max_redeliver_count, retry_producer, dead_letter_producer
    )


class _InFlightRetry:
    """The callback of a message that is sent.

    It drops its reference to the consumer at the end, as futures keep callbacks.
    """

    __slots__ = ("_acks", "_done", "_handle", "_message", "_topic")

    def __init__(
        self, handle: AcknowledgingHandle, acks: Acknowledger, message: Message, topic: str, done: SlimFuture[None]
    ) -> None:
        self._handle: list[AcknowledgingHandle] = [handle]
        self._acks = acks
        self._message = message
        self._topic = topic
        self._done = done

    def __call__(self, sent: "Future[Any]") -> None:
        """Acknowledge a message that was sent, or pass on the error."""
        handle, error = self._handle.pop(), sent.exception()
        if error is not None:
            settle(self._done, _retry_error(self._topic, error))
            return
        try:
            acknowledged = self._acks.acknowledge_forwarded(handle, self._message)
        except Exception as fault:  # noqa: BLE001 - a future's callback may not raise, and somebody waits
            settle(self._done, fault)
            return
        done = self._done
        acknowledged.add_done_callback(lambda last: settle(done, cast("Exception | None", last.exception())))


def _retry_error(topic: str, error: BaseException) -> Exception:
    if isinstance(error, PulsarException):
        return with_text(error, f"{topic} did not take the message, which stays unacknowledged: {error}")
    return as_exception(error)


def _checked_message(given: object) -> Message:
    if not isinstance(given, Message):
        raise TypeError(f"a Message is put off, not {type(given).__name__}")
    return given


ReportSent = Callable[[Exception | None], None]


class DeadLetterSender:
    """Sends the dead letters of one consumer: each message of an entry separately. Called on the consumer's loop."""

    __slots__ = ("_limit", "_producer", "_schemas", "_subscription", "_topic")

    def __init__(
        self,
        producer: LazyProducer,
        topic: str,
        subscription: str,
        limit: int,
        schemas: SchemaVersions | None = None,
    ) -> None:
        self._schemas = schemas
        self._producer = producer
        self._topic = topic
        self._subscription = subscription
        self._limit = limit

    def __call__(self, delivery: DeliveredEntry, generation: Generation, report: ReportSent) -> None:
        """Send an entry, and report the outcome."""
        opened = OpenedEntry(delivery, generation, self._topic, BYTES.decode_message, self._schemas)
        try:
            messages = new_messages(*open_entry(delivery, opened, self._limit, compacted=False)[:4])
        except EntryError as fault:
            report(fault)
            return
        forward = self._producer.forward
        sent = [forward(one, dead_letter_properties(one.properties(), self._origin(one))) for one in messages]

        def sent_on(done: "Future[None]") -> None:
            error = done.exception()
            report(error if isinstance(error, Exception) else None)

        when_all_done(sent).add_done_callback(sent_on)

    def _origin(self, message: Message) -> Origin:
        return Origin(self._topic, self._subscription, str(message.message_id()))


def new_dead_letter_sender(
    policy: ConsumerDeadLetterPolicy,
    options: ConsumerOptions,
    context: ClientContext,
    producers: WeakCollection[Producer],
) -> DeadLetterSender:
    """Make the sender of a consumer with a policy.

    The consumer's actor keeps it, so it keeps neither consumer nor client.
    """
    topic, subscription = str(TopicName.parse(options.topics[0])), options.subscription_name
    target = policy.dead_letter_topic or dead_letter_topic(topic, subscription)
    producer = LazyProducer(context, producers, letter_options(target, options), policy.initial_subscription_name or "")
    return DeadLetterSender(producer, topic, subscription, DEFAULT_MAX_MESSAGE_SIZE, context.schemas)
