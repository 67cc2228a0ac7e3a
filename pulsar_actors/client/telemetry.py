"""The base class of telemetry: it observes clients, and gives interceptors for their producers and consumers.

`pulsar_actors.otel` has the one there is. It is separate because it needs OpenTelemetry.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pulsar_actors.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from pulsar_actors.runtime.observer import ClientObserver

__all__ = ["ClientTelemetry"]


class ClientTelemetry(ABC):
    """Telemetry of clients, of one or of several."""

    @abstractmethod
    def begin(self, context: object) -> ClientObserver | None:
        """Begin to observe a client that is being made, by its ClientContext. Return what its actors tell."""

    @abstractmethod
    def producer_interceptors(self) -> Sequence[ProducerInterceptor]:
        """Return interceptors for a new producer, to be called after the user's."""

    @abstractmethod
    def consumer_interceptors(self) -> Sequence[ConsumerInterceptor]:
        """Return interceptors for a new consumer, to be called after the user's."""
