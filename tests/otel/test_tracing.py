"""Spans as OpenTelemetry's SDK exports them: each ends once, whatever happens to its message."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import pulsar_actors as pulsar
from pulsar_actors import asyncio as pulsar_asyncio
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.otel import Telemetry, tracing
from tests.support.life import until

TOPIC = "persistent://public/default/t"


class Exported:
    """The spans of one telemetry."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(traces=True, tracer_provider=self.provider, **options)

    def spans(self, kind: SpanKind) -> list[ReadableSpan]:
        """Return those that have ended, in the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]

    @property
    def sent(self) -> list[ReadableSpan]:
        return self.spans(SpanKind.PRODUCER)

    @property
    def processed(self) -> list[ReadableSpan]:
        return self.spans(SpanKind.CONSUMER)


@pytest.fixture
def exported() -> Exported:
    return Exported()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker, exported: Exported) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url, telemetry=exported.telemetry) as client:
        yield client


def acknowledged_by(span: ReadableSpan) -> Any:
    return (span.attributes or {}).get("messaging.pulsar.acknowledgment.type")


def test_a_message_has_a_span_from_the_call_to_the_receipt(client: pulsar.Client, exported: Exported) -> None:
    message_id = client.create_producer("t").send(b"x")
    [span] = exported.sent
    assert span.name == f"send {TOPIC}"
    assert span.attributes == {
        "messaging.system": "pulsar",
        "messaging.destination.name": TOPIC,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": str(message_id),
    }
    assert span.status.status_code is StatusCode.OK
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "pulsar_actors"


def test_it_is_below_the_span_that_is_current(client: pulsar.Client, exported: Exported) -> None:
    producer = client.create_producer("t")
    tracer = exported.provider.get_tracer("program")
    with tracer.start_as_current_span("order") as order:
        producer.send(b"x")
    [span] = exported.sent
    assert span.parent is not None
    assert span.parent.span_id == order.get_span_context().span_id


def test_the_span_of_a_received_message_is_below_that_of_its_sender(client: pulsar.Client, exported: Exported) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    given = {"a": "b"}
    message_id = producer.send(b"x", properties=given)
    assert given == {"a": "b"}, "the program's own properties are not changed"
    message = consumer.receive(10_000)
    assert set(message.properties()) == {"a", "traceparent"}
    assert exported.processed == []
    consumer.acknowledge(message)
    [sent], [processed] = exported.sent, exported.processed
    assert sent.context is not None
    assert processed.parent is not None
    assert (processed.parent.trace_id, processed.parent.span_id) == (sent.context.trace_id, sent.context.span_id)
    assert processed.parent.is_remote
    assert processed.name == f"process {TOPIC}"
    assert processed.attributes == {
        "messaging.system": "pulsar",
        "messaging.destination.name": TOPIC,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.subscription.name": "s",
        "messaging.message.id": str(message_id),
        "messaging.pulsar.acknowledgment.type": "acknowledge",
    }
    assert processed.status.status_code is StatusCode.OK


def test_or_it_has_a_link_to_it(broker: EmbeddedBroker) -> None:
    exported = Exported(parent="link")
    with pulsar.Client(broker.service_url, telemetry=exported.telemetry) as client:
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
        producer.send(b"x")
        consumer.acknowledge(consumer.receive(10_000))
    [sent], [processed] = exported.sent, exported.processed
    assert sent.context is not None
    assert processed.parent is None
    assert [link.context.span_id for link in processed.links] == [sent.context.span_id]


def test_a_trace_with_a_link_is_a_new_one_whatever_span_is_current(broker: EmbeddedBroker) -> None:
    exported = Exported(parent="link")
    with pulsar.Client(broker.service_url, telemetry=exported.telemetry) as client:
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
        producer.send(b"x")
        with exported.provider.get_tracer("program").start_as_current_span("shift"):
            consumer.acknowledge(consumer.receive(10_000))
    [processed] = exported.processed
    assert processed.parent is None


def test_what_the_program_carries_along_goes_with_the_message(client: pulsar.Client) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    token = attach(baggage.set_baggage("customer", "7"))
    producer.send(b"x")
    detach(token)
    assert consumer.receive(10_000).properties()["baggage"] == "customer=7"


def test_a_context_that_the_program_has_put_there_stays(client: pulsar.Client) -> None:
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    producer.send(b"x", properties={"traceparent": own})
    assert consumer.receive(10_000).properties() == {"traceparent": own}


def test_each_message_of_a_batch_has_its_own_span(client: pulsar.Client, exported: Exported) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t", batching_enabled=True)
    for _ in range(5):
        producer.send_async(b"x", lambda result, message_id: None)
    producer.flush()
    messages = [consumer.receive(10_000) for _ in range(5)]
    for message in messages:
        consumer.acknowledge(message)
    assert len({span.context.span_id for span in exported.sent if span.context}) == 5
    assert len(exported.processed) == 5
    parents = [span.parent.span_id for span in exported.processed if span.parent]
    assert parents == [span.context.span_id for span in exported.sent if span.context]


def test_a_message_that_fails_ends_its_span_with_the_error(
    client: pulsar.Client, broker: EmbeddedBroker, exported: Exported
) -> None:
    producer = client.create_producer("t")
    broker.faults.on("send").refuse("NotAllowedError", "no")
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"x")
    [span] = exported.sent
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "NotAllowedError"
    assert [event.name for event in span.events] == ["exception"]


def test_wrong_properties_are_refused_as_ever(client: pulsar.Client, exported: Exported) -> None:
    producer = client.create_producer("t")
    for wrong in (["a"], {"a": 1}):
        with pytest.raises(pulsar.InvalidArgument):
            producer.send(b"x", properties=wrong)  # type: ignore[arg-type] # that is what is tried
    assert all(span.status.status_code is StatusCode.ERROR for span in exported.sent)


def test_a_cumulative_acknowledgement_ends_all_before_it(client: pulsar.Client, exported: Exported) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    for _ in range(4):
        producer.send(b"x")
    messages = [consumer.receive(10_000) for _ in range(4)]
    consumer.acknowledge_cumulative(messages[2])
    assert list(map(acknowledged_by, exported.processed)) == ["cumulative_acknowledge"] * 3
    consumer.close()
    until(lambda: list(map(acknowledged_by, exported.processed)) == ["cumulative_acknowledge"] * 3 + [None])


def test_a_refused_message_ends_its_span_and_comes_again_with_another(
    client: pulsar.Client, exported: Exported
) -> None:
    consumer = client.subscribe("t", "s", negative_ack_redelivery_delay_ms=1, consumer_type=pulsar.ConsumerType.Shared)
    client.create_producer("t").send(b"x")
    consumer.negative_acknowledge(consumer.receive(10_000))
    consumer.acknowledge(consumer.receive(10_000))
    until(lambda: list(map(acknowledged_by, exported.processed)) == ["negative_acknowledge", "acknowledge"])


def test_a_message_that_comes_again_before_its_span_has_ended_ends_it(
    client: pulsar.Client, exported: Exported
) -> None:
    consumer = client.subscribe("t", "s")
    client.create_producer("t").send(b"x")
    consumer.receive(10_000)
    consumer.redeliver_unacknowledged_messages()
    assert exported.processed == []
    consumer.acknowledge(consumer.receive(10_000))
    assert list(map(acknowledged_by, exported.processed)) == [None, "acknowledge"]


def test_what_is_told_late_is_about_an_earlier_delivery(client: pulsar.Client, exported: Exported) -> None:
    consumer = client.subscribe("t", "s")
    client.create_producer("t").send(b"x")
    first = consumer.receive(10_000)
    consumer.redeliver_unacknowledged_messages()
    again = consumer.receive(10_000)
    assert exported.telemetry._tracing is not None
    exported.telemetry._tracing.consumers[consumer].on_negative_acks_send(consumer, {first.message_id()})
    assert list(map(acknowledged_by, exported.processed)) == ["negative_acknowledge"]
    assert exported.telemetry.span_of(consumer, again).is_recording()


def test_a_consumer_has_no_more_open_spans_than_its_limit(
    client: pulsar.Client, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "MOST_OPEN", 3)
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    for _ in range(5):
        producer.send(b"x")
        consumer.receive(10_000)
    assert len(exported.processed) == 2


def test_partitions_have_their_number_and_the_name_of_their_topic(
    client: pulsar.Client, broker: EmbeddedBroker, exported: Exported
) -> None:
    broker.create_topic("t", 2)
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    for _ in range(2):
        producer.send(b"x")
        consumer.acknowledge(consumer.receive(10_000))
    names = {(span.attributes or {})["messaging.destination.name"] for span in (*exported.sent, *exported.processed)}
    assert names == {TOPIC}
    partitions = {(span.attributes or {})["messaging.destination.partition.id"] for span in exported.processed}
    assert partitions == {"0", "1"}


def test_the_program_can_work_below_the_span_of_a_message(client: pulsar.Client, exported: Exported) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    answers = client.create_producer("answers")
    producer.send(b"x")
    message = consumer.receive(10_000)
    with trace.use_span(exported.telemetry.span_of(consumer, message)):
        answers.send(b"y")
    consumer.acknowledge(message)
    assert exported.telemetry.span_of(consumer, message) is trace.INVALID_SPAN
    [processed] = exported.processed
    assert processed.context is not None
    assert exported.sent[-1].parent is not None
    assert exported.sent[-1].parent.span_id == processed.context.span_id


def test_a_listener_has_its_message_in_a_span(client: pulsar.Client, exported: Exported) -> None:
    client.subscribe("t", "s", message_listener=lambda consumer, message: consumer.acknowledge(message))
    client.create_producer("t").send(b"x")
    until(lambda: list(map(acknowledged_by, exported.processed)) == ["acknowledge"])


def test_asyncio_has_them_too(broker: EmbeddedBroker, exported: Exported) -> None:
    import asyncio  # noqa: PLC0415 - for this test only

    async def use() -> None:
        async with pulsar_asyncio.Client(broker.service_url, telemetry=exported.telemetry) as client:
            consumer = await client.subscribe("t", "s")
            producer = await client.create_producer("t")
            with exported.provider.get_tracer("program").start_as_current_span("order") as order:
                await producer.send(b"x")
            message = await consumer.receive()
            await consumer.acknowledge(message)
            assert exported.sent[0].parent is not None
            assert exported.sent[0].parent.span_id == order.get_span_context().span_id

    asyncio.run(use())
    assert list(map(acknowledged_by, exported.processed)) == ["acknowledge"]


def test_without_traces_nothing_is_added_to_messages(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url, telemetry=Telemetry()) as client:
        consumer = client.subscribe("t", "s")
        client.create_producer("t").send(b"x")
        assert consumer.receive(10_000).properties() == {}


def test_spans_end_when_the_client_closes(broker: EmbeddedBroker, exported: Exported) -> None:
    with pulsar.Client(broker.service_url, telemetry=exported.telemetry) as client:
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
        producer.send(b"x")
        consumer.receive(10_000)
        broker.faults.on("send").drop()
        producer.send_async(b"y", lambda result, message_id: None)
        assert (len(exported.sent), len(exported.processed)) == (1, 0)
        client.shutdown()
    until(lambda: (len(exported.sent), len(exported.processed)) == (2, 1))
    assert exported.sent[1].status.status_code is StatusCode.ERROR
