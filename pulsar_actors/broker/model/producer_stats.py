"""What the statistics say of one producer, under Pulsar's names."""

from typing import Any

from pulsar_actors.broker.model.consumer_stats import instant, rate
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.wire.PulsarApi_pb2 import ProducerAccessMode


def producer_stats(producer: Producer, now_ms: int) -> dict[str, Any]:
    """Give the statistics of a producer; rates are those of the whole time since it connected."""
    since = producer.connected_ms
    return {
        "accessMode": ProducerAccessMode.Name(producer.request.access_mode),
        "msgRateIn": rate(producer.messages_in, since, now_ms),
        "msgThroughputIn": rate(producer.bytes_in, since, now_ms),
        "averageMsgSize": producer.bytes_in / producer.messages_in if producer.messages_in else 0.0,
        "chunkedMessageRate": rate(producer.chunks_in, since, now_ms),
        "producerId": producer.request.producer_id,
        "supportsPartialProducer": producer.request.supports_partial_producer,
        "producerName": producer.name,
        "address": producer.request.address,
        "connectedSince": instant(since),
        "clientVersion": producer.request.client_version,
        "metadata": producer.request.metadata,
    }
