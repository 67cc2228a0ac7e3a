"""Metrics as OpenTelemetry's SDK collects them: the names, units and attributes are those of the Java client."""

import gc
import pickle
import socket
from collections.abc import Iterator
from typing import Any, Final

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint, Sum

import pulsar_actors as pulsar
from pulsar_actors import asyncio as pulsar_asyncio
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.otel import Telemetry
from pulsar_actors.otel.metrics import BOUNDARIES
from pulsar_actors.testing import Simulation
from tests.support.life import until

COUNTER, UP_DOWN, HISTOGRAM = "counter", "up-down counter", "histogram"

OF_JAVA: Final = {
    "pulsar.client.connection.opened": (COUNTER, "{connection}"),
    "pulsar.client.connection.closed": (COUNTER, "{connection}"),
    "pulsar.client.connection.failed": (COUNTER, "{connection}"),
    "pulsar.client.producer.opened": (COUNTER, "{session}"),
    "pulsar.client.producer.closed": (COUNTER, "{session}"),
    "pulsar.client.consumer.opened": (COUNTER, "{session}"),
    "pulsar.client.consumer.closed": (COUNTER, "{session}"),
    "pulsar.client.producer.message.send.duration": (HISTOGRAM, "s"),
    "pulsar.client.producer.rpc.send.duration": (HISTOGRAM, "s"),
    "pulsar.client.producer.message.send.size": (COUNTER, "By"),
    "pulsar.client.producer.message.pending.count": (UP_DOWN, "{message}"),
    "pulsar.client.producer.message.pending.size": (UP_DOWN, "By"),
    "pulsar.client.consumer.message.received.count": (COUNTER, "{message}"),
    "pulsar.client.consumer.message.received.size": (COUNTER, "By"),
    "pulsar.client.consumer.receive_queue.count": (UP_DOWN, "{message}"),
    "pulsar.client.consumer.receive_queue.size": (UP_DOWN, "By"),
    "pulsar.client.consumer.message.ack": (COUNTER, "{message}"),
    "pulsar.client.consumer.message.nack": (COUNTER, "{message}"),
    "pulsar.client.consumer.message.dlq": (COUNTER, "{message}"),
    "pulsar.client.consumer.message.ack.timeout": (COUNTER, "{message}"),
    "pulsar.client.lookup.duration": (HISTOGRAM, "s"),
    "pulsar.client.memory.buffer.usage": (UP_DOWN, "By"),
    "pulsar.client.memory.buffer.limit": (UP_DOWN, "By"),
}
"""What the Java client 4.2 has."""

NAMESPACE: Final = {"pulsar.tenant": "public", "pulsar.namespace": "public/default"}
OK: Final = {"pulsar.response.status": "success"}
FAILED: Final = {"pulsar.response.status": "failed"}


class Collected:
    """Reads the metrics of one telemetry."""

    def __init__(self, **options: Any) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader])
        self.telemetry = Telemetry(meter_provider=self._provider, **options)

    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        [scope] = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        assert (scope.scope.name, scope.scope.version) == ("pulsar_actors", pulsar.__version__)
        return {metric.name: metric for metric in scope.metrics}

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the attributes and the value of each point; of a histogram, the count."""
        metric = self.metrics().get(f"pulsar.client.{name}")
        points = [] if metric is None else metric.data.data_points
        return [(dict(point.attributes), count_of(point)) for point in points]

    def value(self, name: str) -> Any:
        """Return the value of the only point, or 0."""
        points = self.points(name)
        assert len(points) <= 1, points
        return points[0][1] if points else 0

    def shutdown(self) -> None:
        self._provider.shutdown()


def count_of(point: Any) -> Any:
    return point.count if isinstance(point, HistogramDataPoint) else point.value


@pytest.fixture
def collected() -> Iterator[Collected]:
    collected = Collected(times_of_messages=True)
    yield collected
    collected.shutdown()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker, collected: Collected) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url, telemetry=collected.telemetry) as client:
        yield client


def test_all_have_the_names_the_kinds_and_the_units_of_the_java_client(
    broker: EmbeddedBroker, collected: Collected
) -> None:
    with pulsar.Client(broker.service_url, telemetry=collected.telemetry, memory_limit_bytes=1_000_000) as client:
        consumer = client.subscribe("t", "s")
        client.create_producer("t").send(b"x")
        consumer.acknowledge(consumer.receive(10_000))
        broker.cut_connections()
        until(lambda: collected.value("connection.closed") == 1)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and does not listen
            url = f"pulsar://127.0.0.1:{taken.getsockname()[1]}"
            with (
                pulsar.Client(url, telemetry=collected.telemetry, operation_timeout_seconds=3) as other,
                pytest.raises(pulsar.PulsarException),
            ):
                other.create_producer("t")
        found = {name: (kind_of(metric), metric.unit) for name, metric in collected.metrics().items()}
    assert found == OF_JAVA


def kind_of(metric: Any) -> str:
    if not isinstance(metric.data, Sum):
        return HISTOGRAM
    assert all(isinstance(point, NumberDataPoint) for point in metric.data.data_points)
    return COUNTER if metric.data.is_monotonic else UP_DOWN


def test_messages_are_counted_with_their_namespace_and_subscription(
    client: pulsar.Client, collected: Collected
) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    for _ in range(3):
        producer.send(b"four")
    until(lambda: consumer.stats().queued == 3)
    assert collected.points("producer.opened") == [(NAMESPACE, 1)]
    assert collected.points("producer.message.send.size") == [(NAMESPACE, 12)]
    of_consumer = {**NAMESPACE, "pulsar.subscription": "s"}
    assert collected.points("consumer.receive_queue.count") == [(of_consumer, 3)]
    assert collected.points("consumer.receive_queue.size") == [(of_consumer, 12)]
    consumer.acknowledge(consumer.receive(10_000))
    consumer.negative_acknowledge(consumer.receive(10_000))
    until(lambda: collected.value("consumer.message.ack") == 1)
    assert collected.points("consumer.message.received.count") == [(of_consumer, 2)]
    assert collected.points("consumer.message.received.size") == [(of_consumer, 8)]
    assert collected.points("consumer.message.nack") == [(of_consumer, 1)]
    assert collected.points("consumer.receive_queue.count") == [(of_consumer, 1)]


def test_queues_are_empty_after_the_close_and_counters_stay(client: pulsar.Client, collected: Collected) -> None:
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    producer.send(b"x")
    until(lambda: consumer.stats().queued == 1)
    consumer.close()
    producer.close()
    assert collected.value("consumer.receive_queue.count") == 0
    assert collected.value("consumer.receive_queue.size") == 0
    assert collected.value("producer.message.pending.count") == 0
    assert (collected.value("producer.opened"), collected.value("producer.closed")) == (1, 1)
    assert (collected.value("consumer.opened"), collected.value("consumer.closed")) == (1, 1)
    assert collected.value("producer.message.send.size") == 1


def test_a_topic_is_named_only_on_demand_and_without_its_partition(broker: EmbeddedBroker) -> None:
    collected = Collected(per_topic=True, times_of_messages=True)
    broker.create_topic("p", 3)
    with pulsar.Client(broker.service_url, telemetry=collected.telemetry) as client:
        producer = client.create_producer("p")
        for _ in range(6):
            producer.send(b"x")
        of_topic = {**NAMESPACE, "pulsar.topic": "persistent://public/default/p"}
        assert collected.points("producer.message.send.size") == [(of_topic, 6)]
        assert collected.points("producer.message.send.duration") == [({**of_topic, **OK}, 6)]
        assert collected.points("producer.rpc.send.duration") == [({**of_topic, **OK}, 6)]
    collected.shutdown()


def test_times_of_messages_and_of_batches(client: pulsar.Client, collected: Collected) -> None:
    producer = client.create_producer("t", batching_enabled=True, batching_max_publish_delay_ms=10_000)
    for _ in range(5):
        producer.send_async(b"x", lambda result, message_id: None)
    producer.flush()
    assert collected.points("producer.message.send.duration") == [({**NAMESPACE, **OK}, 5)]
    assert collected.points("producer.rpc.send.duration") == [({**NAMESPACE, **OK}, 1)]
    for name in ("producer.message.send.duration", "producer.rpc.send.duration", "lookup.duration"):
        point = collected.metrics()[f"pulsar.client.{name}"].data.data_points[0]
        assert point.explicit_bounds == BOUNDARIES
        assert 0 < point.min <= point.max < 20


def test_a_refused_message_counts_as_failed(
    client: pulsar.Client, broker: EmbeddedBroker, collected: Collected
) -> None:
    producer = client.create_producer("t")
    broker.faults.on("send").refuse("NotAllowedError", "no")
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"x")
    assert collected.points("producer.message.send.duration") == [({**NAMESPACE, **FAILED}, 1)]
    assert collected.points("producer.rpc.send.duration") == [({**NAMESPACE, **FAILED}, 1)]


def test_by_default_a_producer_has_no_interceptor(broker: EmbeddedBroker) -> None:
    collected = Collected()
    assert collected.telemetry.producer_interceptors() == []
    with pulsar.Client(broker.service_url, telemetry=collected.telemetry) as client:
        client.create_producer("t").send(b"x")
        assert collected.points("producer.message.send.duration") == []
        assert collected.value("producer.rpc.send.duration") == 1
    collected.shutdown()


def test_lookups_have_their_kind_and_their_way(broker: EmbeddedBroker, collected: Collected) -> None:
    for url in (broker.service_url, broker.web_url):
        with pulsar.Client(url, telemetry=collected.telemetry) as client:
            client.create_producer("t")
    ways = [
        {"pulsar.lookup.type": kind, "pulsar.lookup.transport-type": way, **OK}
        for way in ("binary", "http")
        for kind in ("metadata", "topic")
    ]
    points = collected.points("lookup.duration")
    assert len(points) == len(ways)
    assert all((way, 1) in points for way in ways)


def test_a_lookup_that_fails_counts_as_failed(
    client: pulsar.Client, broker: EmbeddedBroker, collected: Collected
) -> None:
    broker.faults.on("lookup").refuse("AuthorizationError", "no")
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("t")
    failed = [
        attributes for attributes, _ in collected.points("lookup.duration") if attributes.items() >= FAILED.items()
    ]
    assert failed == [{"pulsar.lookup.type": "topic", "pulsar.lookup.transport-type": "binary", **FAILED}]


def test_connections_are_opened_closed_and_fail(broker: EmbeddedBroker, collected: Collected) -> None:
    with pulsar.Client(broker.service_url, telemetry=collected.telemetry) as client:
        broker.faults.on_accept().hang_up()
        client.create_producer("t")
        assert collected.points("connection.failed") == [({"pulsar.failure.type": "handshake"}, 1)]
        assert collected.points("connection.opened") == [({}, 1)]
        assert collected.points("connection.closed") == []
    until(lambda: collected.points("connection.closed") == [({}, 1)])


def test_a_host_that_does_not_listen_fails_at_tcp(collected: Collected) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"pulsar://127.0.0.1:{taken.getsockname()[1]}"
        with pulsar.Client(url, telemetry=collected.telemetry, operation_timeout_seconds=3) as client:
            with pytest.raises(pulsar.PulsarException):
                client.create_producer("t")
            [(attributes, count)] = collected.points("connection.failed")
    assert attributes == {"pulsar.failure.type": "tcp-failed"}
    assert count >= 1


def test_dead_letters_and_timeouts_are_counted(client: pulsar.Client, collected: Collected) -> None:
    consumer = client.subscribe(
        "t",
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        unacked_messages_timeout_ms=10_000,
        negative_ack_redelivery_delay_ms=1,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1),
    )
    client.create_producer("t").send(b"x")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(10_000))
    until(lambda: collected.value("consumer.message.dlq") == 1)
    until(lambda: collected.value("consumer.message.nack") == 2)
    assert collected.value("consumer.message.ack.timeout") == 0


def test_a_message_whose_time_runs_out_is_counted(collected: Collected) -> None:
    with Simulation() as simulation, simulation.client(telemetry=collected.telemetry) as client:
        options = {"consumer_type": pulsar.ConsumerType.Shared, "unacked_messages_timeout_ms": 10_000}
        consumer = client.subscribe("t", "s", **options)
        client.create_producer("t").send(b"x")
        first, again = consumer.receive(), consumer.receive(60_000)
        assert first.message_id() == again.message_id()
        assert collected.value("consumer.message.ack.timeout") == 1


def test_memory_is_that_of_all_clients_with_a_limit(broker: EmbeddedBroker, collected: Collected) -> None:
    clients = [
        pulsar.Client(broker.service_url, telemetry=collected.telemetry, memory_limit_bytes=limit)
        for limit in (0, 1000, 2000)
    ]
    stalled = broker.faults.on("receipt").stall()
    producer = clients[1].create_producer("t")
    producer.send_async(b"four", lambda result, message_id: None)
    stalled.wait()
    assert collected.value("memory.buffer.limit") == 3000
    assert collected.value("memory.buffer.usage") == 4
    stalled.release()
    producer.flush()
    assert collected.value("memory.buffer.usage") == 0
    for client in clients:
        client.close()


def test_several_clients_add_up_and_what_is_gone_stays_counted(broker: EmbeddedBroker, collected: Collected) -> None:
    for _ in range(3):
        client = pulsar.Client(broker.service_url, telemetry=collected.telemetry)
        client.create_producer("t").send(b"x")
        assert collected.value("producer.message.send.size") == _ + 1
        client.close()
        del client
        gc.collect()
    assert collected.value("producer.message.send.size") == 3
    assert (collected.value("producer.opened"), collected.value("producer.closed")) == (3, 3)
    assert collected.value("producer.message.pending.count") == 0


def test_the_asynchronous_client_has_them_too(broker: EmbeddedBroker, collected: Collected) -> None:
    import asyncio  # noqa: PLC0415 - for this test only

    async def use() -> None:
        async with pulsar_asyncio.Client(broker.service_url, telemetry=collected.telemetry) as client:
            await (await client.create_producer("t")).send(b"four")

    asyncio.run(use())
    assert collected.value("producer.message.send.size") == 4
    assert collected.value("producer.message.send.duration") == 1


def test_a_meter_that_raises_ends_nothing(
    broker: EmbeddedBroker, collected: Collected, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no disk")

    metrics = collected.telemetry._metrics
    for instrument in (metrics._opened, metrics._lookups, metrics._batches, metrics.sends):
        monkeypatch.setattr(instrument, "add", broken, raising=False)
        monkeypatch.setattr(instrument, "record", broken, raising=False)
    with pulsar.Client(broker.service_url, telemetry=collected.telemetry) as client:
        client.create_producer("t").send(b"x")
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert "a metric could not be recorded" in caplog.text


def test_it_is_pickled_by_its_arguments_unless_it_has_providers(collected: Collected) -> None:
    copied = pickle.loads(pickle.dumps(Telemetry(per_topic=True, traces=True, times_of_messages=True)))  # noqa: S301 - our own
    assert len(copied.producer_interceptors()) == 2
    assert copied._metrics.attributes_of("t")["pulsar.topic"] == "persistent://public/default/t"
    with pytest.raises(TypeError, match="cannot be pickled: make it where it is needed"):
        pickle.dumps(collected.telemetry)


def test_what_is_no_telemetry_is_refused() -> None:
    with pytest.raises(pulsar.InvalidArgument, match=r"telemetry takes a pulsar_actors\.otel\.Telemetry"):
        pulsar.Client("pulsar://127.0.0.1:1", telemetry=True)  # type: ignore[arg-type] # the usual slip
    with pytest.raises(pulsar.InvalidArgument, match="parent is 'message' or 'link', not 'both'"):
        Telemetry(parent="both")  # type: ignore[arg-type] # the same


def test_without_the_sdk_everything_works_and_nothing_is_measured(broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url, telemetry=Telemetry(traces=True)) as client:
        consumer = client.subscribe("t", "s")
        client.create_producer("t").send(b"x", properties={"a": "b"})
        message = consumer.receive(10_000)
        assert message.properties() == {"a": "b"}
        consumer.acknowledge(message)
