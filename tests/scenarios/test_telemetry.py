"""What telemetry counts of clients of all kinds agrees with what they did, whatever went wrong.

What was opened was closed in the end, no queue is left with anything in it, and each message that was sent is counted
once, with its outcome. Each span has ended.
"""

from collections import Counter
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from pulsar_actors.otel import Telemetry
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Outcome, Sent
from tests.scenarios.scene import Scene, play
from tests.scenarios.test_everything import Everything

LEVELS = ("producer.message.pending", "consumer.receive_queue")
OPENED = ("connection", "producer", "consumer")


class Spans(SpanProcessor):
    """Counts spans by their names, without what follows the first word: those that began, and those that ended."""

    def __init__(self) -> None:
        self.begun = Counter[str]()
        self.ended = Counter[str]()

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.begun[span.name.partition(" ")[0]] += 1

    def on_end(self, span: Any) -> None:
        self.ended[span.name.partition(" ")[0]] += 1


def totals(reader: InMemoryMetricReader) -> Counter[str]:
    """Sum up each metric over its attributes; the durations of sends are counted by their outcomes."""
    found = Counter[str]()
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                name = metric.name.removeprefix("pulsar.client.")
                for point in metric.data.data_points:
                    status = (point.attributes or {}).get("pulsar.response.status")
                    found[f"{name} {status}" if status else name] += getattr(point, "value", None) or getattr(
                        point, "count", 0
                    )
    return found


def measuring(scene: Scene) -> None:
    dice, spans, reader = Dice(scene.world.seed, "telemetry"), Spans(), InMemoryMetricReader()
    meters, tracers = MeterProvider([reader], shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(spans)
    scene.options["telemetry"] = Telemetry(
        traces=dice.happens(0.5),
        times_of_messages=(timed := dice.happens(0.7)),
        per_topic=dice.happens(0.5),
        meter_provider=meters,
        tracer_provider=tracers,
    )
    story = Everything(scene, troubled=True)
    story.play()
    story.judge()
    scene.end()
    counted = totals(reader)
    for what in OPENED:
        opened, closed = counted[f"{what}.opened"], counted[f"{what}.closed"]
        assert opened == closed, f"{what}: {opened} opened, and {closed} closed"
    for level in LEVELS:
        assert not counted[f"{level}.count"], f"{level}: {counted[f'{level}.count']} left"
        assert not counted[f"{level}.size"], f"{level}: {counted[f'{level}.size']} bytes left"
    if timed:
        sent = Counter(each.outcome is Outcome.DONE for each in story.recorder.history.of(Sent))
        for status, number in (("success", sent[True]), ("failed", sent[False])):
            told = counted[f"producer.message.send.duration {status}"]
            assert told == number, f"{told} sends counted as {status}, and {number} were"
    assert spans.begun == spans.ended, f"{spans.begun} spans began, and {spans.ended} ended"


def test_telemetry_agrees_with_what_clients_did() -> None:
    play(15, measuring, deduplication=True)
