"""How things stand: what `stats()` gives of a client, a producer or a consumer.

A snapshot is a value: it can be kept, compared, pickled and printed, and does not change. Totals count from the
creation of the handle. Rates cost nothing per message: they are worked out of two totals, some time apart, when
somebody asks. `RateMeter` keeps the earlier one, and keeps it for a while, so that two askers in quick succession get
much the same answer and not the noise of the milliseconds between them. `now` is in monotonic seconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ClientStats", "ConsumerStats", "ProducerStats", "RateMeter", "Rates"]

_SPAN = 1.0
"""A rate is over so many seconds at least, once they have passed."""


class Rates(NamedTuple):
    """What went through in a second, lately."""

    messages: float = 0.0
    size: float = 0.0
    """In bytes of payload."""


class _Sample(NamedTuple):
    at: float
    messages: int
    size: int


class RateMeter:
    """The rates of one producer or consumer, from totals that are sampled when somebody asks."""

    __slots__ = ("_earlier", "_later")

    def __init__(self, now: float) -> None:
        self._earlier = self._later = _Sample(now, 0, 0)

    def rates(self, messages: int, size: int, now: float) -> Rates:
        """Give the rates since an earlier sample, and note the totals as they are now."""
        if now - self._later.at >= _SPAN:
            self._earlier, self._later = self._later, _Sample(now, messages, size)
        at, messages_then, size_then = self._earlier
        seconds = now - at
        if seconds <= 0:
            return Rates()
        return Rates((messages - messages_then) / seconds, (size - size_then) / seconds)


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """A producer of one topic, or one partition."""

    topic: str
    producer_name: str
    connected: bool
    pending: int
    """Messages that a broker has yet to acknowledge, and..."""
    in_flight: int
    """...those of them that were written to a connection."""
    pending_bytes: int
    sent: int
    """Messages that a broker has acknowledged, and their payloads in bytes."""
    sent_bytes: int
    failed: int
    rates: Rates
    reconnects: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """A consumer, or a reader, of one topic or one partition."""

    topic: str
    subscription_name: str
    consumer_name: str
    connected: bool
    queued: int
    """Messages that have arrived and were not handed out."""
    permits: int
    """Messages that the broker may still send."""
    received: int
    """Messages that were handed out, and their payloads in bytes."""
    received_bytes: int
    acknowledged: int
    refused: int
    """Negatively acknowledged."""
    rates: Rates
    reconnects: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ClientStats:
    """A client and all that it has open."""

    connections: int
    pending_lookups: int
    pending_bytes: int
    """Of messages on their way to brokers."""
    producers: tuple[ProducerStats, ...]
    consumers: tuple[ConsumerStats, ...]

    @property
    def pending(self) -> int:
        """Messages of all producers that a broker has yet to acknowledge."""
        return sum(one.pending for one in self.producers)

    @property
    def queued(self) -> int:
        """Messages of all consumers that have arrived and were not handed out."""
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
        """Those of all producers and consumers together."""
        return sum(one.reconnects for one in self.producers) + sum(one.reconnects for one in self.consumers)


def _sum(rates: Iterable[Rates]) -> Rates:
    """Add rates up."""
    messages, size = 0.0, 0.0
    for one in rates:
        messages += one.messages
        size += one.size
    return Rates(messages, size)
