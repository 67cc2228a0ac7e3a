"""Statistics of clients, producers and consumers: the snapshots that `stats()` returns.

A snapshot is a value: it can be kept, compared, pickled and printed, and does not change. Totals count from the
creation of the handle; `rates.py` calculates rates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.rates import Rates
from pulsar_actors.wire.protobuf import signed
from pulsar_actors.wire.PulsarApi_pb2 import CommandConsumerStatsResponse

__all__ = ["BrokerConsumerStats", "ClientStats", "ConsumerStats", "ProducerStats", "Rates"]


_TYPES = {
    "Exclusive": ConsumerType.Exclusive,
    "Shared": ConsumerType.Shared,
    "Failover": ConsumerType.Failover,
    "Key_Shared": ConsumerType.KeyShared,
}

_ADDED_UP = (
    "msg_rate_out", "msg_throughput_out", "msg_rate_redeliver", "msg_rate_expired", "message_ack_rate",
    "available_permits", "unacked_messages", "msg_backlog",
)  # fmt: skip
_LISTED = ("consumer_name", "address", "connected_since")


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """The statistics of a producer; of a partitioned topic, of all partitions together."""

    topic: str
    producer_name: str
    connected: bool
    pending: int
    """Messages without a receipt of the broker."""
    in_flight: int
    """The part of `pending` that is written to a connection."""
    pending_bytes: int
    sent: int
    """Messages that a broker has stored; `sent_bytes` is the size of their payloads."""
    sent_bytes: int
    failed: int
    """Messages whose send ended with an error, those refused for a full queue included."""
    rates: Rates
    reconnects: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """The statistics of a consumer or a reader; of several topics, of all together."""

    topic: str
    subscription_name: str
    consumer_name: str
    connected: bool
    queued: int
    """Messages that have arrived and were not handed out yet."""
    permits: int
    """Messages that the broker may still send."""
    received: int
    """Messages that were handed out; `received_bytes` is the size of their payloads."""
    received_bytes: int
    acknowledged: int
    refused: int
    """Negatively acknowledged."""
    undecryptable: int
    """Entries that no key decrypts."""
    rates: Rates
    reconnects: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class BrokerConsumerStats:
    """The broker's statistics of a consumer: `Consumer.get_broker_consumer_stats`. Rates are per second."""

    consumer_name: str
    consumer_type: ConsumerType
    address: str
    """The client's address, as the broker sees it."""
    connected_since: str
    msg_rate_out: float
    msg_throughput_out: float
    """In bytes."""
    msg_rate_redeliver: float
    msg_rate_expired: float
    """The subscription's, as is the backlog."""
    message_ack_rate: float
    available_permits: int
    unacked_messages: int
    is_blocked_consumer_on_unacked_msgs: bool
    """True if the consumer gets no messages until it acknowledges some."""
    msg_backlog: int

    @classmethod
    def of_all(cls, each: Sequence["BrokerConsumerStats"]) -> "BrokerConsumerStats":
        """Add up the statistics of a consumer's topics. Values that are no numbers are listed."""
        numbers: dict[str, Any] = {name: sum(getattr(one, name) for one in each) for name in _ADDED_UP}
        words: dict[str, Any] = {name: "; ".join({getattr(one, name): None for one in each}) for name in _LISTED}
        return cls(
            consumer_type=each[0].consumer_type if each else ConsumerType.Exclusive,
            is_blocked_consumer_on_unacked_msgs=any(one.is_blocked_consumer_on_unacked_msgs for one in each),
            **numbers,
            **words,
        )

    @classmethod
    def of(cls, answer: CommandConsumerStatsResponse) -> "BrokerConsumerStats":
        """Read a broker's answer."""
        return cls(
            consumer_name=answer.consumerName,
            consumer_type=_TYPES.get(answer.type, ConsumerType.Exclusive),
            address=answer.address,
            connected_since=answer.connectedSince,
            msg_rate_out=answer.msgRateOut,
            msg_throughput_out=answer.msgThroughputOut,
            msg_rate_redeliver=answer.msgRateRedeliver,
            msg_rate_expired=answer.msgRateExpired,
            message_ack_rate=answer.messageAckRate,
            available_permits=signed(answer.availablePermits),
            unacked_messages=answer.unackedMessages,
            is_blocked_consumer_on_unacked_msgs=answer.blockedConsumerOnUnackedMsgs,
            msg_backlog=answer.msgBacklog,
        )


@dataclass(frozen=True, slots=True)
class ClientStats:
    """The statistics of a client and of all its open handles."""

    connections: int
    pending_lookups: int
    pending_bytes: int
    """Bytes of pending messages."""
    producers: tuple[ProducerStats, ...]
    consumers: tuple[ConsumerStats, ...]

    @property
    def pending(self) -> int:
        """Messages of all producers without a receipt of the broker."""
        return sum(one.pending for one in self.producers)

    @property
    def queued(self) -> int:
        """Messages of all consumers that have arrived and are not handed out."""
        return sum(one.queued for one in self.consumers)

    @property
    def sent_rates(self) -> Rates:
        """The rates of all producers together."""
        return _sum(one.rates for one in self.producers)

    @property
    def received_rates(self) -> Rates:
        """The rates of all consumers together."""
        return _sum(one.rates for one in self.consumers)

    @property
    def reconnects(self) -> int:
        """The reconnects of all producers and consumers together."""
        return sum(one.reconnects for one in self.producers) + sum(one.reconnects for one in self.consumers)


def _sum(rates: Iterable[Rates]) -> Rates:
    """Add rates up."""
    messages, size = 0.0, 0.0
    for one in rates:
        messages += one.messages
        size += one.size
    return Rates(messages, size)
