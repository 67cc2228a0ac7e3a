"""Metrics of a client for Prometheus, in one line. It takes the extra `prometheus`.

    prometheus_client.REGISTRY.register(PulsarCollector(client))

The numbers are read when Prometheus asks, so a message costs nothing. Counters include producers and consumers that
have ended. A topic with partitions is one topic.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec

if find_spec("prometheus_client") is None:
    raise ImportError("pulsar_actors.prometheus needs prometheus_client: pip install 'pulsar-actors[prometheus]'")

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pulsar_actors.client.client import Client, context_of
from pulsar_actors.client.totals import ConsumerTotals, ProducerTotals, Totals

__all__ = ["PulsarCollector"]

_PRODUCERS = {
    "opened": "Producers that were opened.",
    "closed": "Those of them that have ended.",
    "sent": "Messages that a broker has stored.",
    "sent_bytes": "Bytes of the payloads of these messages.",
    "failed": "Messages that have failed.",
    "reconnects": "Times that a producer was registered with a broker again.",
    "open": "Producers that are open.",
    "pending": "Messages without a receipt of the broker.",
    "pending_bytes": "Bytes of the payloads of these messages.",
}
_CONSUMERS = {
    "opened": "Consumers and readers that were opened.",
    "closed": "Those of them that have ended.",
    "received": "Messages that were handed out.",
    "received_bytes": "Bytes of the payloads of these messages.",
    "acknowledged": "Messages that were acknowledged.",
    "negatively_acknowledged": "Messages that were negatively acknowledged.",
    "undecryptable": "Entries that no key decrypts.",
    "ack_timeouts": "Entries that were not acknowledged in time, and asked for again.",
    "dead_letters": "Messages that were delivered too often, and sent to the dead letter topic.",
    "reconnects": "Times that a consumer was registered with a broker again.",
    "open": "Consumers and readers that are open.",
    "queued": "Messages that have arrived and were not handed out yet.",
    "queued_bytes": "Bytes of the payloads of these messages.",
}
_NOW = frozenset({"open", "pending", "pending_bytes", "queued", "queued_bytes"})
"""The fields that are gauges. The others are counters."""


class PulsarCollector(Collector):
    """The metrics of one client. Without `per_topic` all topics are added up: each topic is a time series more."""

    def __init__(self, client: Client, *, per_topic: bool = True, labels: dict[str, str] | None = None) -> None:
        """Make a collector.

        client
            Whose metrics they are.
        per_topic = True
            Whether metrics have the labels `topic` and `subscription`.
        labels = {}
            Labels of all metrics, which tell several clients of one process apart.
        """
        self._totals = context_of(client).only(Totals)
        self._per_topic = per_topic
        self._labels = labels or {}

    def describe(self) -> Iterable[Metric]:
        """Describe nothing, so that registering reads no numbers."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read the numbers."""
        snapshot = self._totals.snapshot()
        yield self._gauge("connections", "Connections to brokers.", snapshot.connections)
        yield self._gauge("pending_lookups", "Lookups without an answer.", snapshot.pending_lookups)
        topics: dict[tuple[str, ...], ProducerTotals] = {(name,): one for name, one in snapshot.producers.items()}
        yield from self._families("producer", _PRODUCERS, ("topic",), topics)
        subscriptions: dict[tuple[str, ...], ConsumerTotals] = {
            tuple(key): one for key, one in snapshot.consumers.items()
        }
        yield from self._families("consumer", _CONSUMERS, ("topic", "subscription"), subscriptions)

    def _gauge(self, name: str, text: str, value: int) -> Metric:
        family = GaugeMetricFamily(f"pulsar_client_{name}", text, labels=tuple(self._labels))
        family.add_metric(tuple(self._labels.values()), value)
        return family

    def _families(
        self,
        kind: str,
        texts: dict[str, str],
        names: tuple[str, ...],
        totals: "Mapping[tuple[str, ...], ProducerTotals | ConsumerTotals]",
    ) -> Iterator[Metric]:
        labels = (*self._labels, *(names if self._per_topic else ()))
        for field, text in texts.items():
            make = GaugeMetricFamily if field in _NOW else CounterMetricFamily
            family = make(f"pulsar_client_{kind}_{field}", text, labels=labels)
            values = {key: getattr(one, field) for key, one in totals.items()}
            if not self._per_topic:
                values = {(): sum(values.values())}
            for key, value in values.items():
                family.add_metric((*self._labels.values(), *key), value)
            yield family
