"""Show what telemetry and the history cost for a message: the CPU time of a client that has them, beside one without.

    python tests/benchmarks/telemetry_cost.py [--messages 5000] [--rounds 7]

A message is sent, received and acknowledged. In batches, that takes a few microseconds; with calls of `send()` that
wait, a hundred times as long. The embedded broker runs in another process, so the CPU time of this one is the client's.
OpenTelemetry's SDK has no exporter, whose cost depends on where it sends to. Clients take turns, so that other load of
the machine affects all of them, and a ratio is that of two turns of one round.

The Python calls of a message are counted apart from that, in turns of their own. Those outside of pulsar_actors are
OpenTelemetry's. The last line is about the history, which each client has: it records changes of state.
"""

import argparse
import contextlib
import statistics
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased

import pulsar_actors as pulsar
from pulsar_actors.cli.broker import BrokerProcess
from pulsar_actors.client.client import context_of
from pulsar_actors.otel import Telemetry
from tests.benchmarks.hot_paths import PATIENCE_MS, Fired, counting, recording_time, rows, time_of

PAYLOAD: Final = b"x" * 100


def telemetry(*, sampler: Sampler = ALWAYS_ON, **options: Any) -> Telemetry:
    """Return a telemetry with an SDK that collects, and exports nothing."""
    meters, tracers = MeterProvider([InMemoryMetricReader()]), TracerProvider(sampler=sampler)
    return Telemetry(meter_provider=meters, tracer_provider=tracers, **options)


NOTHING: Final = "nothing"
SETUPS: Final[Mapping[str, Callable[[], Telemetry | None]]] = {
    NOTHING: lambda: None,
    "metrics": telemetry,
    "times_of_messages": lambda: telemetry(times_of_messages=True),
    "traces": lambda: telemetry(traces=True),
    "traces, 1 of 100 sampled": lambda: telemetry(traces=True, sampler=ParentBased(TraceIdRatioBased(0.01))),
}


class Turns:
    """The two ways to use a client. Each has a topic with a producer and a consumer, which are there from the start."""

    def __init__(self, client: pulsar.Client) -> None:
        self._batching = _handles(client, batching_enabled=True, max_pending_messages=10_000, block_if_queue_full=True)
        self._plain = _handles(client)
        self.loop = context_of(client).engine.loops[0]

    def in_batches(self, messages: int) -> None:
        """Send messages in batches, and then receive all of them."""
        producer, consumer = self._batching
        for _ in range(messages):
            producer.send_async(PAYLOAD, _ignore)
        producer.flush()
        for _ in range(messages):
            consumer.acknowledge(consumer.receive(PATIENCE_MS))

    def one_by_one(self, messages: int) -> None:
        """Send a message, receive it, and only then send the next one."""
        producer, consumer = self._plain
        for _ in range(messages):
            producer.send(PAYLOAD)
            consumer.acknowledge(consumer.receive(PATIENCE_MS))


def _handles(client: pulsar.Client, **options: Any) -> tuple[pulsar.Producer, pulsar.Consumer]:
    topic = f"telemetry-cost-{uuid.uuid4().hex[:12]}"
    return client.create_producer(topic, **options), client.subscribe(topic, "s", receiver_queue_size=10_000)


WAYS: Final[Mapping[str, tuple[Callable[[Turns, int], None], int]]] = {
    "in batches": (Turns.in_batches, 1),
    "one by one": (Turns.one_by_one, 10),
}
"""The ways, and how many times fewer messages a turn has."""


def costs(everybody: Mapping[str, Turns], messages: int, rounds: int) -> Iterator[str]:
    """Measure both ways with all clients. Give a line for each."""
    for way, (turn, fewer) in WAYS.items():
        each_turn = max(1, messages // fewer)
        times: dict[str, list[float]] = {name: [] for name in everybody}
        for number in range(-1, rounds):  # the first round does not count: it is slow
            for name, one in everybody.items():
                began = time.process_time()
                turn(one, each_turn)
                if number >= 0:
                    times[name].append((time.process_time() - began) / each_turn * 1e6)
        yield f"a message sent, received and acknowledged, {way}:"
        for name, one in everybody.items():
            ratios = sorted(mine / plain for mine, plain in zip(times[name], times[NOTHING], strict=True))
            calls = Counter[str]()
            with counting(calls, one.loop):
                turn(one, each_turn)
            ours = sum(count for module, count in calls.items() if module.startswith("pulsar_actors."))
            yield (
                f"  {name:24} {statistics.median(times[name]):7.1f} us, {statistics.median(ratios):5.1f} times nothing"
                f" ({ratios[0]:.1f} to {ratios[-1]:.1f}); {calls.total() / each_turn:5.0f} Python calls,"
                f" {ours / each_turn:.0f} of them in pulsar_actors"
            )
        yield ""


def history(one: Turns, messages: int) -> str:
    """Return the line about the history."""
    paths: dict[str, Fired] = {}
    began = time.process_time()
    with rows(paths, "a message", messages):
        one.in_batches(messages)
    each = (time.process_time() - began) / messages * 1e9
    recorded, recording = paths["a message"].recorded, recording_time()
    return (
        f"the history: {recorded:.4f} changes of state a message, {recording:,.0f} ns for one:"
        f" {100 * recorded * recording / each:.2f} % of what a message takes in batches"
    )


def span_time() -> float:
    """Return the CPU time of a span of the SDK without attributes, in microseconds."""
    tracer = TracerProvider().get_tracer("a program")
    return time_of(lambda: tracer.start_span("a span").end(), 2_000) / 1e3


def _ignore(_: object, __: object) -> None:
    """Do nothing, as only the client is measured."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", help="of the broker to use instead of an embedded one")
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        service_url = given.service_url or stack.enter_context(BrokerProcess()).service_url
        everybody = {
            name: Turns(stack.enter_context(pulsar.Client(service_url, telemetry=make())))
            for name, make in SETUPS.items()
        }
        for line in costs(everybody, given.messages, given.rounds):
            print(line, flush=True)
        print(f"a span of OpenTelemetry's SDK that is started and ended, without attributes: {span_time():.1f} us")
        print(history(everybody[NOTHING], given.messages))


if __name__ == "__main__":
    main(sys.argv[1:])
