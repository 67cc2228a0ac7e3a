"""How the model reaches those who are connected: a producer and a consumer each come with such a link.

The model calls these while it works, so an implementation only puts down what it is told, for a later write, and calls
nothing of the model back.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.refusal import Refusal


class Address(NamedTuple):
    """The broker, or the other cluster, that has the topic now; either URL may be empty."""

    service_url: str
    service_url_tls: str = ""
    is_cluster: bool = False


class Delivery(NamedTuple):
    """One entry on its way to a consumer.

    `ack_set` is which messages of the batch are not acknowledged yet, as a mask; None: nothing of it is.
    """

    entry: StoredEntry
    redelivery_count: int
    ack_set: int | None


class ProducerLink(Protocol):
    """A producer's end of the connection."""

    def ready(self) -> None:
        """Hear that it waits no more: the topic is this producer's, with the `topic_epoch` that it has now."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Hear, while it waits for the topic, that it will never get it. It is gone from the model."""
        ...

    def closed(self, moved_to: Address | None) -> None:
        """Hear that the broker lets the producer go; it is gone from the model."""
        ...


class ConsumerLink(Protocol):
    """A consumer's end of the connection."""

    def has_room(self) -> bool:
        """Tell whether more may be delivered now. If not, `Consumer.resume` says when."""
        ...

    def deliver(self, deliveries: Sequence[Delivery], consumer_epoch: int) -> None:
        """Take these entries, in this order; -1 is no epoch."""
        ...

    def active(self, is_active: bool) -> None:  # noqa: FBT001 - as the command says it
        """Hear whether it is this consumer's turn (Failover)."""
        ...

    def reached_end(self) -> None:
        """Hear that the topic is terminated, and that nothing comes after what was delivered."""
        ...

    def closed(self, moved_to: Address | None) -> None:
        """Hear that the broker lets the consumer go; it is gone from the model."""
        ...
