"""Spans of messages, as Pulsar's PIP-446 has them; the context travels in the properties of messages, as W3C has it.

A producer's span begins with the call and ends with the broker's answer. A consumer's begins when the program receives
the message, and ends when it acknowledges the message, or when the broker is asked for it again, because the program
has refused it or its time has run out. A message that nobody acknowledges would keep its span for ever, so a consumer
has the spans of `MOST_OPEN` messages at most: the oldest ends first.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, MutableMapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from pulsar_actors.client.interceptors import ConsumerInterceptor, MessageToSend, ProducerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.otel.metrics import NotedMessage, noted
from pulsar_actors.wire.topic_name import TopicName

MOST_OPEN: Final = 10_000
MOST_DELIVERIES: Final = 3
"""The number of spans of one message that may be open."""

MESSAGE_ID: Final = "messaging.message.id"
"""This attribute is set only on a span that is recorded: its text takes longer than a span that is dropped."""

_NO_CONTEXT: Final = Context()
_OK: Final = Status(StatusCode.OK)


class _Setter(Setter[dict[str, str]]):
    def set(self, carrier: dict[str, str], key: str, value: str) -> None:
        carrier[key] = value


class _Getter(Getter[dict[str, str]]):
    def get(self, carrier: dict[str, str], key: str) -> list[str] | None:
        value = carrier.get(key)
        return None if value is None else [value]

    def keys(self, carrier: dict[str, str]) -> list[str]:
        return list(carrier)


_SETTER: Final = _Setter()
_GETTER: Final = _Getter()
"""That of OpenTelemetry takes any mapping, and looks at each value for long."""


class Tracing:
    """A tracer, the way contexts travel, and the consumers whose messages have spans."""

    def __init__(self, tracer: trace.Tracer, propagator: TextMapPropagator, *, links: bool) -> None:
        self.tracer = tracer
        self.propagator = propagator
        self.links = links
        self.consumers: MutableMapping[Any, ConsumerTracing] = weakref.WeakKeyDictionary()

    def start_send(self, topic: str) -> Span:
        """Start the span of a message that is sent, below the one that is current."""
        template = _template("send", topic)
        return self.tracer.start_span(template.name, None, SpanKind.PRODUCER, template.attributes)

    def start_process(self, topic: str, subscription: str, properties: dict[str, str]) -> Span:
        """Start the span of a message that is received, below that of its sender, or with a link to it."""
        template = _template("process", topic, subscription)
        parent = self.propagator.extract(properties, _NO_CONTEXT, _GETTER) if properties else _NO_CONTEXT
        links: tuple[Link, ...] = ()
        if self.links:
            sender = trace.get_current_span(parent).get_span_context()
            links, parent = (Link(sender),) if sender.is_valid else (), _NO_CONTEXT
        return self.tracer.start_span(template.name, parent, SpanKind.CONSUMER, template.attributes, links)

    def with_context(self, span: Span, properties: dict[str, str] | None) -> dict[str, str]:
        """Return a copy of the properties of a message with the context of a span, unless one is there already."""
        copied = {} if properties is None else dict(properties)
        if not copied or self.propagator.fields.isdisjoint(copied):
            self.propagator.inject(copied, trace.set_span_in_context(span), _SETTER)
        return copied

    def span_of(self, consumer: object, message: Message) -> Span:
        """Return the span of a message of a consumer; without one, a span that does nothing."""
        tracing = self.consumers.get(consumer)
        return trace.INVALID_SPAN if tracing is None else tracing.span_of(message)


class ProducerTracing(ProducerInterceptor):
    """Makes the spans of one producer."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:  # noqa: ANN401 - the base's
        """Start a span, below the one that is current, and put its context into the properties, unless there is one."""
        if not _takes_a_context(message):  # it is going to be refused
            return message
        began = message.began if isinstance(message, NotedMessage) else None
        span = self._tracing.start_send(producer.topic())
        made = noted(message._replace(properties=self._tracing.with_context(span, message.properties)), began)
        made.span = span
        return made

    def on_send_acknowledgement(
        self,
        producer: Any,  # noqa: ANN401, ARG002 - the base's
        message: MessageToSend,
        message_id: MessageId | None,
        error: Exception | None,
    ) -> None:
        """End the span."""
        span = message.span if isinstance(message, NotedMessage) else None
        if span is None:
            return
        if error is None and span.is_recording():
            span.set_attribute(MESSAGE_ID, str(message_id))
        _end(span, error)


class ConsumerTracing(ConsumerInterceptor):
    """Makes the spans of one consumer. Any thread may use it.

    A message may come again before the consumer is told, on another thread, that its redelivery was asked for. So the
    spans of its deliveries are in a list, and what is told late is about an earlier one.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[Any, ...], list[Span]] = OrderedDict()
        self._is_known = False  # to `Tracing`, from the first message on

    def before_consume(self, consumer: Any, message: Message) -> Message:  # noqa: ANN401 - the base's
        """Start the span of a message."""
        tracing, message_id = self._tracing, message.message_id()
        span = tracing.start_process(message.topic_name(), consumer.subscription_name(), message.properties())
        if span.is_recording():
            span.set_attribute(MESSAGE_ID, str(message_id))
        key, ended = _key(message_id), list[Span]()
        with self._lock:
            if not self._is_known:
                tracing.consumers[consumer] = self
                self._is_known = True
            spans = self._open.setdefault(key, [])
            self._open.move_to_end(key)
            spans.append(span)
            if len(spans) > MOST_DELIVERIES:
                ended.append(spans.pop(0))
            if len(self._open) > MOST_OPEN:
                ended += self._open.popitem(last=False)[1]
        _end_all(ended)
        return message

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:  # noqa: ANN401, ARG002 - the base's
        """End the span of a message."""
        with self._lock:
            spans = self._open.pop(_key(message_id), [])
        _settle(spans, "acknowledge", error)

    def on_acknowledge_cumulative(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:  # noqa: ANN401, ARG002 - the base's
        """End the spans of a message, and of all before it in its partition."""
        topic, partition, *place = _key(message_id)
        with self._lock:
            keys = [key for key in self._open if key[:2] == (topic, partition) and [*key[2:]] <= place]
            several = [self._open.pop(key) for key in keys]
        for spans in several:
            _settle(spans, "cumulative_acknowledge", error)

    def on_negative_acks_send(self, consumer: Any, message_ids: AbstractSet[MessageId]) -> None:  # noqa: ANN401, ARG002 - the base's
        """End the spans of entries that the program has refused."""
        self._redelivered(message_ids, "negative_acknowledge")

    def on_ack_timeout_send(self, consumer: Any, message_ids: AbstractSet[MessageId]) -> None:  # noqa: ANN401, ARG002 - the base's
        """End the spans of entries whose time has run out."""
        self._redelivered(message_ids, "ack_timeout")

    def span_of(self, message: Message) -> Span:
        """Return the span of a message."""
        spans = self._open.get(_key(message.message_id()))
        return spans[-1] if spans else trace.INVALID_SPAN

    def close(self) -> None:
        """End what is left."""
        with self._lock:
            left, self._open = [span for spans in self._open.values() for span in spans], OrderedDict()
        _end_all(left)

    def _redelivered(self, message_ids: AbstractSet[MessageId], how: str) -> None:
        """End the spans of the deliveries before the last; of the only one, if the message has not come again yet."""
        entries, ended = {_key(one)[:-1] for one in message_ids}, list[Span]()
        with self._lock:
            for key in [key for key in self._open if key[:-1] in entries]:
                spans = self._open[key]
                several = spans[:-1] or spans[:]
                del spans[: len(several)]
                if not spans:
                    del self._open[key]
                ended += several
        for span in ended:
            _settle([span], how, None)


def _settle(spans: list[Span], how: str, error: Exception | None) -> None:
    """End the spans of a message. Only the last delivery was settled."""
    _end_all(spans[:-1])
    for span in spans[-1:]:
        span.set_attribute("messaging.pulsar.acknowledgment.type", how)
        _end(span, error)


def _end_all(spans: Iterable[Span]) -> None:
    for span in spans:
        span.end()


def _end(span: Span, error: Exception | None) -> None:
    if error is None:
        span.set_status(_OK)
    else:
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


def _key(message_id: MessageId) -> tuple[Any, ...]:
    """Return what tells a message of a consumer from others: the topic, because a consumer may have several."""
    wire = message_id.wire
    return message_id.topic_name(), wire.partition, wire.ledger_id, wire.entry_id, wire.batch_index


class _SpanTemplate(NamedTuple):
    """The name and the attributes of all spans of an operation on a topic."""

    name: str
    attributes: dict[str, str]


@lru_cache(maxsize=10_000)
def _template(operation: str, topic: str, subscription: str | None = None) -> _SpanTemplate:
    """Return the name and the attributes of spans. They are the same for each message, so they are made once."""
    name = TopicName.parse(topic)
    attributes = {
        "messaging.system": "pulsar",
        "messaging.destination.name": str(name.base),
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if name.partition_index >= 0:
        attributes["messaging.destination.partition.id"] = str(name.partition_index)
    if subscription is not None:
        attributes["messaging.destination.subscription.name"] = subscription
    return _SpanTemplate(f"{operation} {name.base}", attributes)


def _takes_a_context(message: MessageToSend) -> bool:
    given = cast("object", message.properties)
    return given is None or isinstance(given, dict)
