"""The metrics: with the names, units and attributes of the Java client.

Counts and sizes are read from the totals of clients when they are collected, so they cost nothing for a message. Times
are recorded as they end: of lookups, of batches, and, by an interceptor, of messages.

Python's API cannot advise that an attribute be dropped, as Java's does for the topic. So metrics have the tenant and
the namespace, and the topic only on demand. It is the name without the partition: partitions are counted together.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from time import monotonic
from typing import Any, Final, ParamSpec

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation
from opentelemetry.trace import Span

from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.interceptors import MessageToSend, ProducerInterceptor
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.totals import COUNTED, ConsumerKey, ConsumerTotals, ProducerTotals, Snapshot, Totals
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.fork import forget_on_fork
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.memory_limit import MemoryLimitController
from pulsar_actors.runtime.observer import ClientObserver, LookupEnded
from pulsar_actors.wire.topic_name import TopicName

BOUNDARIES: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Of histograms of times, in seconds."""

Attributes = Mapping[str, str]
AnyTotals = ProducerTotals | ConsumerTotals
P = ParamSpec("P")


class _Metric(NamedTuple):
    """A metric that is read from totals: its name below `pulsar.client.`, and the field of the totals."""

    name: str
    unit: str
    text: str
    field: str


COUNTERS: Final[Mapping[type[AnyTotals], tuple[_Metric, ...]]] = {
    ProducerTotals: (
        _Metric("producer.opened", "{session}", "Producers that were opened.", "opened"),
        _Metric("producer.closed", "{session}", "Those of them that have ended.", "closed"),
        _Metric("producer.message.send.size", "By", "Bytes of messages that are stored.", "sent_bytes"),
    ),
    ConsumerTotals: (
        _Metric("consumer.opened", "{session}", "Consumers that were opened.", "opened"),
        _Metric("consumer.closed", "{session}", "Those of them that have ended.", "closed"),
        _Metric("consumer.message.received.count", "{message}", "Messages that were handed out.", "received"),
        _Metric("consumer.message.received.size", "By", "Bytes of these messages.", "received_bytes"),
        _Metric("consumer.message.ack", "{message}", "Messages that were acknowledged.", "acknowledged"),
        _Metric("consumer.message.nack", "{message}", "Messages that were refused.", "negatively_acknowledged"),
        _Metric("consumer.message.dlq", "{message}", "Messages that became dead letters.", "dead_letters"),
        _Metric("consumer.message.ack.timeout", "{message}", "Entries not acknowledged in time.", "ack_timeouts"),
    ),
}
GAUGES: Final[Mapping[type[AnyTotals], tuple[_Metric, ...]]] = {
    ProducerTotals: (
        _Metric("producer.message.pending.count", "{message}", "Messages without a receipt.", "pending"),
        _Metric("producer.message.pending.size", "By", "Bytes of these messages.", "pending_bytes"),
    ),
    ConsumerTotals: (
        _Metric("consumer.receive_queue.count", "{message}", "Messages in the queue.", "queued"),
        _Metric("consumer.receive_queue.size", "By", "Bytes of these messages.", "queued_bytes"),
    ),
}


def _never_raises(tell: Callable[P, None]) -> Callable[P, None]:
    """Log what a meter raises: it must not end the actor that tells of something."""

    @wraps(tell)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            tell(*args, **kwargs)
        except Exception:  # noqa: BLE001 - a meter is not ours
            LOG.exception("a metric could not be recorded")

    return guarded


class ClientMetrics(ClientObserver):
    """The metrics of all clients that have one `Telemetry`. Any thread may use it."""

    def __init__(self, meter: Meter, *, per_topic: bool) -> None:
        self._per_topic = per_topic
        self._lock = threading.Lock()
        self._clients: list[_Client] = []
        self._ended: dict[str | ConsumerKey, AnyTotals] = {}  # of clients that are gone
        self._topics: dict[str, Attributes] = {}
        self._outcomes: tuple[dict[str, Attributes], dict[str, Attributes]] = ({}, {})
        counter, name = meter.create_counter, "pulsar.client.connection."
        self._opened = counter(f"{name}opened", "{connection}", "Connections that brokers have accepted.")
        self._closed = counter(f"{name}closed", "{connection}", "Such connections that have ended.")
        self._failed = counter(f"{name}failed", "{connection}", "Connections that failed before that.")
        self._lookups = _histogram(meter, "pulsar.client.lookup.duration", "Lookups, with their retries.")
        self._batches = _histogram(
            meter, "pulsar.client.producer.rpc.send.duration", "From writing a batch to the broker's answer."
        )
        self.sends = _histogram(
            meter, "pulsar.client.producer.message.send.duration", "From the call to the broker's answer."
        )
        for metrics, create in (
            (COUNTERS, meter.create_observable_counter),
            (GAUGES, meter.create_observable_up_down_counter),
        ):
            for kind, one in ((kind, one) for kind, several in metrics.items() for one in several):
                create(f"pulsar.client.{one.name}", [partial(self._observe, kind, one.field)], one.unit, one.text)
        memory = meter.create_observable_up_down_counter
        memory("pulsar.client.memory.buffer.usage", [self._memory_used], "By", "Bytes of pending messages.")
        memory("pulsar.client.memory.buffer.limit", [self._memory_limit], "By", "The most bytes of them.")
        forget_on_fork(self)

    def add(self, context: ClientContext) -> None:
        """Count what a client does."""
        client = _Client(weakref.ref(context), context.only(Totals), context.limiter)
        with self._lock:
            self._clients.append(client)

    def forget_everything(self) -> None:
        """Replace the lock, in a forked child: another thread may have held it during the fork."""
        self._lock = threading.Lock()

    def attributes_of(self, topic: str) -> Attributes:
        """Return the attributes of a topic."""
        found = self._topics.get(topic)
        if found is None:
            name = TopicName.parse(topic).base
            found = {"pulsar.tenant": name.tenant, "pulsar.namespace": name.namespace_name}
            if self._per_topic:
                found["pulsar.topic"] = str(name)
            self._topics[topic] = found
        return found

    def outcome_of(self, topic: str, *, failed: bool) -> Attributes:
        """Return the attributes of something that has ended on a topic."""
        found = self._outcomes[failed].get(topic)
        if found is None:
            found = self._outcomes[failed][topic] = {**self.attributes_of(topic), **status_of(failed=failed)}
        return found

    # What actors tell.

    @_never_raises
    def connection_opened(self) -> None:
        """Count it."""
        self._opened.add(1)

    @_never_raises
    def connection_closed(self) -> None:
        """Count it."""
        self._closed.add(1)

    @_never_raises
    def connection_failed(self, *, at_tcp: bool) -> None:
        """Count it."""
        self._failed.add(1, {"pulsar.failure.type": "tcp-failed" if at_tcp else "handshake"})

    @_never_raises
    def lookup_ended(self, lookup: LookupEnded) -> None:
        """Record its time."""
        attributes = {
            "pulsar.lookup.transport-type": "http" if lookup.is_over_http else "binary",
            "pulsar.lookup.type": lookup.kind,
            **status_of(failed=lookup.failed),
        }
        self._lookups.record(lookup.seconds, attributes)

    @_never_raises
    def batches_answered(self, topic: str, seconds: Sequence[float], *, failed: bool) -> None:
        """Record their times."""
        attributes = self.outcome_of(topic, failed=failed)
        for one in seconds:
            self._batches.record(one, attributes)

    # What is read when it is collected.

    def _observe(self, kind: type[AnyTotals], field: str, _: CallbackOptions) -> Iterator[Observation]:
        values: dict[tuple[tuple[str, str], ...], int] = {}
        for key, totals in self._totals().items():
            if isinstance(totals, kind):
                attributes = tuple(self._attributes(key).items())
                values[attributes] = values.get(attributes, 0) + getattr(totals, field)
        return iter([Observation(value, dict(attributes)) for attributes, value in values.items()])

    def _attributes(self, key: str | ConsumerKey) -> Attributes:
        if isinstance(key, str):
            return self.attributes_of(key)
        return {**self.attributes_of(key.topic), "pulsar.subscription": key.subscription}

    def _totals(self) -> dict[str | ConsumerKey, AnyTotals]:
        """Return the totals of all clients. Those of a client that is gone are kept, since no counter may fall."""
        with self._lock:
            alive: list[_Client] = []
            for client in self._clients:
                if client.context() is not None:
                    alive.append(client)
                    continue
                for key, totals in _all_of(client.totals.snapshot()):
                    _add(self._ended, key, _counters_of(totals))
            self._clients = alive
            sums = dict(self._ended)
        for client in alive:
            for key, totals in _all_of(client.totals.snapshot()):
                _add(sums, key, totals)
        return sums

    def _memory_used(self, _: CallbackOptions) -> Iterator[Observation]:
        limiters = self._limiters()
        return iter([Observation(sum(one.used for one in limiters))] if limiters else [])

    def _memory_limit(self, _: CallbackOptions) -> Iterator[Observation]:
        limiters = self._limiters()
        return iter([Observation(sum(one.limit for one in limiters))] if limiters else [])

    def _limiters(self) -> list[MemoryLimitController]:
        alive = [client for client in self._clients.copy() if client.context() is not None]
        return [client.limiter for client in alive if client.limiter is not None]


class _Client(NamedTuple):
    context: "weakref.ref[ClientContext]"
    totals: Totals
    limiter: MemoryLimitController | None


def _all_of(snapshot: Snapshot) -> Iterator[tuple[str | ConsumerKey, AnyTotals]]:
    yield from snapshot.producers.items()
    yield from snapshot.consumers.items()


def _add(sums: dict[str | ConsumerKey, AnyTotals], key: str | ConsumerKey, totals: AnyTotals) -> None:
    known = sums.get(key)
    values: list[int] = [a + b for a, b in zip(known, totals, strict=True)] if known is not None else [*totals]
    sums[key] = type(totals)(*values)


def _counters_of(totals: AnyTotals) -> AnyTotals:
    """Drop what is of the moment."""
    kind = type(totals)
    return kind(*tuple(totals)[: COUNTED[kind]])


def status_of(*, failed: bool) -> Attributes:
    """Return the attribute for the outcome of a request."""
    return _STATUS[failed]


_STATUS: Final = ({"pulsar.response.status": "success"}, {"pulsar.response.status": "failed"})


def _histogram(meter: Meter, name: str, text: str) -> Histogram:
    return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=BOUNDARIES)


class SendDurations(ProducerInterceptor):
    """Measures the time of each message from the call to the answer, batching included."""

    def __init__(self, client_metrics: ClientMetrics) -> None:
        self._metrics = client_metrics

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:  # noqa: ANN401, ARG002 - the base's
        """Note the time."""
        return noted(message)

    def on_send_acknowledgement(
        self,
        producer: Any,  # noqa: ANN401 - the base's
        message: MessageToSend,
        message_id: MessageId | None,  # noqa: ARG002 - the base's
        error: Exception | None,
    ) -> None:
        """Record the time."""
        if isinstance(message, NotedMessage) and message.began is not None:
            attributes = self._metrics.outcome_of(producer.topic(), failed=error is not None)
            self._metrics.sends.record(monotonic() - message.began, attributes)


class NotedMessage(MessageToSend):
    """A message with the time of the call, and perhaps its span: an interceptor gets its own message again at the end.

    Notes in the properties would cost more: a message with properties has a header, even if they are empty.
    """

    began: float | None = None  # None if another interceptor has made this message of one with notes
    span: Span | None = None


def noted(message: MessageToSend, began: float | None = None) -> NotedMessage:
    """Return the message with notes."""
    made = NotedMessage(*message)
    made.began = monotonic() if began is None else began
    return made
