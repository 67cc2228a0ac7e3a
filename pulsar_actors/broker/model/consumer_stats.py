"""What the statistics say of one consumer, under Pulsar's names.

Rates are those of the whole time since it connected: nothing here runs once a minute to take them.
"""

from datetime import datetime, timezone
from typing import Any

from pulsar_actors.broker.model.consumer import Consumer

_MS = 1000.0


def instant(ms: int) -> str:
    """Write a time as Pulsar does."""
    return datetime.fromtimestamp(ms / _MS, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rate(count: int, since_ms: int, now_ms: int) -> float:
    """Give how many there were a second."""
    return count * _MS / max(_MS, now_ms - since_ms)


def consumer_stats(consumer: Consumer) -> dict[str, Any]:
    """Give the statistics of a consumer."""
    counters = consumer.counters
    now_ms = consumer.subscription.now_ms()

    def per_second(count: int) -> float:
        return rate(count, counters.connected_ms, now_ms)

    return {
        "msgRateOut": per_second(counters.messages_out),
        "msgThroughputOut": per_second(counters.bytes_out),
        "bytesOutCounter": counters.bytes_out,
        "msgOutCounter": counters.messages_out,
        "msgRateRedeliver": per_second(counters.messages_redelivered),
        "messageAckRate": per_second(counters.messages_acked),
        "chunkedMessageRate": per_second(counters.chunks_out),
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": round(counters.messages_out / counters.entries_out) if counters.entries_out else 0,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "drainingHashesCount": 0,
        "drainingHashesClearedTotal": 0,
        "drainingHashesUnackedMessages": 0,
        "address": consumer.request.address,
        "connectedSince": instant(counters.connected_ms),
        "clientVersion": consumer.request.client_version,
        "lastAckedTimestamp": counters.last_ack_ms,
        "lastConsumedTimestamp": counters.last_sent_ms,
        "firstMessagesSentTimestamp": counters.first_sent_ms,
        "lastConsumedFlowTimestamp": counters.last_flow_ms,
        "firstConsumedFlowTimestamp": counters.first_flow_ms,
        "metadata": consumer.request.metadata,
        "lastAckedTime": instant(counters.last_ack_ms),
        "lastConsumedTime": instant(counters.last_sent_ms),
    }
