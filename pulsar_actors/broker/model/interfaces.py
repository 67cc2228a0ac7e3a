"""The model's interfaces to the rest of the broker: the clock, the links to clients, and the refusals it raises.

A producer and a consumer each have a link. The model calls links in the middle of a change, so a link only queues
commands for a later write, and must not call the model.

A refusal has the protocol's error code and a sentence. If clients or people know Pulsar's own sentence, it is used
here, too. The HTTP side also uses the class: `Missing` has another status than `Conflict`. A method that refuses does
so before it has changed anything.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import ServerError


class Clock(Protocol):
    """The part of a loop that the model uses."""

    def wall_clock_ms(self) -> int:
        """Read the wall clock, in milliseconds since 1970."""
        ...

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Call a function after so many seconds. Timers cannot be stopped: their owner must recognise a stale one."""
        ...


class Refusal(PulsarException):
    """The model refused: `code` is the ServerError to answer with, `reason` says why."""

    def __init__(self, code: "ServerError.ValueType", reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{ServerError.Name(self.code)}: {self.reason}"


class Missing(Refusal):
    """The tenant, namespace, topic, subscription, schema or entry does not exist."""


class Conflict(Refusal):
    """The tenant, namespace, topic, subscription or schema exists already."""


class Busy(Refusal):
    """The object still has clients or content, which must be removed first."""


class Address(NamedTuple):
    """The URLs of the broker, or of the other cluster, that has the topic now; either may be empty."""

    service_url: str
    service_url_tls: str = ""
    is_cluster: bool = False


class Delivery(NamedTuple):
    """One entry for a consumer.

    `ack_set` is a mask of the messages of the batch that are not acknowledged; None if none of them is.
    """

    entry: StoredEntry
    redelivery_count: int
    ack_set: int | None


class ProducerLink(Protocol):
    """The connection of a producer's client, for the model."""

    def ready(self) -> None:
        """Notify the client: its producer does not wait any longer, and has the topic with this `topic_epoch`."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Notify the client: its producer has waited, and will never get the topic. The model has removed it."""
        ...

    def closed(self, moved_to: Address | None) -> None:
        """Notify the client: the broker closed its producer, and the model has removed it."""
        ...


class ConsumerLink(Protocol):
    """The connection of a consumer's client, for the model."""

    def has_room(self) -> bool:
        """Return whether more may be delivered now. After False, the session calls `Subscription.resume` later."""
        ...

    def deliver(self, deliveries: Sequence[Delivery], consumer_epoch: int) -> None:
        """Send these entries, in this order; -1 is no epoch."""
        ...

    def active(self, is_active: bool) -> None:  # noqa: FBT001 - as in the command
        """Notify the client: its consumer is the active one of a Failover subscription, or is not any longer."""
        ...

    def reached_end(self) -> None:
        """Notify the client: the topic is terminated, and no message comes after those that were delivered."""
        ...

    def closed(self, moved_to: Address | None) -> None:
        """Notify the client: the broker closed its consumer, and the model has removed it."""
        ...
