"""A trace that goes from this client through the broker to the official client, and back."""

from typing import Any

import pulsar
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import pulsar_actors
from pulsar_actors.otel import Telemetry
from tests.support.subjects import Broker

on_a_real_broker = pytest.mark.parametrize("broker", ["apache"], indirect=True)


@on_a_real_broker
def test_a_trace_goes_through_the_official_client(broker: Broker, topic: str) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(traces=True, tracer_provider=provider)
    official: Any = pulsar.Client(broker.service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))
    with pulsar_actors.Client(broker.service_url, telemetry=telemetry) as ours:
        between = official.subscribe(topic, "official")
        last = ours.subscribe(f"{topic}-on", "ours")
        ours.create_producer(topic).send(b"x", properties={"a": "b"})
        passed = between.receive(20_000)
        official.create_producer(f"{topic}-on").send(passed.data(), properties=passed.properties())
        message = last.receive(20_000)
        last.acknowledge(message)
    official.close()
    assert message.properties()["a"] == "b"
    [sent] = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.PRODUCER]
    [processed] = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.CONSUMER]
    assert processed.parent is not None
    assert sent.context is not None
    assert (processed.parent.trace_id, processed.parent.span_id) == (sent.context.trace_id, sent.context.span_id)
