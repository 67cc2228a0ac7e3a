"""Metrics and traces for OpenTelemetry. They take the extra `otel`, which is OpenTelemetry's API without its SDK.

    from pulsar_actors.otel import Telemetry

    client = pulsar.Client("pulsar://localhost:6650", telemetry=Telemetry(traces=True))

Make one for the process, and give it to all clients. `metrics.py` has the metrics, `tracing.py` the spans.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

if find_spec("opentelemetry") is None:
    raise ImportError("pulsar_actors.otel needs OpenTelemetry: pip install 'pulsar-actors[otel]'")

from opentelemetry import trace
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.propagate import get_global_textmap
from opentelemetry.propagators.textmap import TextMapPropagator

from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.telemetry import ClientTelemetry
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.otel.metrics import ClientMetrics, SendDurations
from pulsar_actors.otel.tracing import ConsumerTracing, ProducerTracing, Tracing
from pulsar_actors.version import __version__

__all__ = ["Telemetry"]

SCOPE = "pulsar_actors"


class Telemetry(ClientTelemetry):
    """Metrics and traces of the clients that have it."""

    def __init__(  # noqa: PLR0913 - each is a choice of the user
        self,
        *,
        traces: bool = False,
        times_of_messages: bool = False,
        per_topic: bool = False,
        parent: Literal["message", "link"] = "message",
        meter_provider: MeterProvider | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        """Make a telemetry. Without providers it uses the global ones, which may be set later.

        traces = False
            Make spans, and put their context into the properties of messages. That takes many times what sending and
            receiving in batches take; a sampler that drops most spans saves a third.
        times_of_messages = False
            Measure how long each message takes from the call to the broker's answer. It is the only metric that costs
            something for each message, and that is many times what sending takes: the others are read when they are
            collected, or recorded once for a batch.
        per_topic = False
            Give metrics the topic. Each topic is then a time series of its own. Otherwise they have its namespace.
        parent = "message"
            What the span of a received message is below: the span that sent it, or "link": a new trace, which has a
            link to that span.
        meter_provider = None
        tracer_provider = None
        propagator = None
            Those to use instead of the global ones.
        """
        if parent not in ("message", "link"):
            raise InvalidArgument(f"parent is 'message' or 'link', not {parent!r}")
        self._pickles = (meter_provider, tracer_provider, propagator) == (None, None, None)
        self._given = {
            "traces": traces, "times_of_messages": times_of_messages, "per_topic": per_topic, "parent": parent,
        }  # fmt: skip
        self._metrics = ClientMetrics(get_meter(SCOPE, __version__, meter_provider), per_topic=per_topic)
        self._durations = SendDurations(self._metrics) if times_of_messages else None
        self._tracing = None
        if traces:
            tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
            self._tracing = Tracing(tracer, propagator or get_global_textmap(), links=parent == "link")

    def begin(self, context: object) -> ClientMetrics:
        """Observe a client."""
        assert isinstance(context, ClientContext)  # noqa: S101 - its module imports that of the base, and is not named there
        self._metrics.add(context)
        return self._metrics

    def producer_interceptors(self) -> Sequence[ProducerInterceptor]:
        """Return those of a new producer."""
        tracing = [] if self._tracing is None else [ProducerTracing(self._tracing)]
        return [*([] if self._durations is None else [self._durations]), *tracing]

    def consumer_interceptors(self) -> Sequence[ConsumerInterceptor]:
        """Return those of a new consumer."""
        return [] if self._tracing is None else [ConsumerTracing(self._tracing)]

    def span_of(self, consumer: object, message: Message) -> trace.Span:
        """Return the span of a received message, to make it the current one while the program works on it.

        with trace.use_span(telemetry.span_of(consumer, message)):
        """
        return trace.INVALID_SPAN if self._tracing is None else self._tracing.span_of(consumer, message)

    def __reduce__(self) -> Any:  # noqa: ANN401 - what pickle takes
        """Pickle it by its arguments: another process has other providers."""
        if not self._pickles:
            raise TypeError("a Telemetry with providers of its own cannot be pickled: make it where it is needed")
        return _with, (self._given,)


def _with(given: dict[str, Any]) -> Telemetry:
    return Telemetry(**given)
