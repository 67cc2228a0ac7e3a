"""The broker's configuration: `Settings` of the cluster, as in `broker.conf`, and `Policies` of one namespace.

The defaults are Pulsar's. The fields of policies may be set at any time. Those for consumers and subscriptions apply to
later ones only.
"""

from dataclasses import dataclass
from typing import TypeVar

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.errors import excerpt

_LEAST = {
    "max_message_size": 1,
    "max_unacked_per_consumer": 0,
    "max_unacked_per_subscription": 0,
    "failover_delay": 0,
    "kept_bytes": 0,
    "transaction_coordinators": 0,
}


@dataclass(slots=True)
class Settings:
    """The limits and defaults of a whole cluster.

    cluster_name
        The cluster's name; the names that it gives to producers begin with it.
    max_message_size
        In bytes. Larger messages are refused, unless they come in chunks.
    max_unacked_per_consumer, max_unacked_per_subscription
        The limits of unacknowledged messages of a Shared subscription: at the limit, no more are delivered; 0: no
        limit.
    allow_auto_topic_creation, allow_auto_subscription_creation
        True if producers and consumers create missing topics and subscriptions.
    deduplication
        True if a message that a producer sends twice is stored once.
    failover_delay
        Seconds that a Failover subscription waits before it sends messages to a new active consumer.
    kept_bytes
        The most bytes of entries that a topic keeps although no subscription needs them. A real broker keeps them on
        disk, for a few minutes at least; here they take memory.
    transaction_coordinators
        The number of transaction coordinators; 0: transactions are not enabled. A broker with a data folder has no
        fewer than it had before.
    """

    cluster_name: str = "standalone"
    max_message_size: int = 5 * 1024 * 1024
    max_unacked_per_consumer: int = 50_000
    max_unacked_per_subscription: int = 200_000
    allow_auto_topic_creation: bool = True
    allow_auto_subscription_creation: bool = True
    deduplication: bool = False
    failover_delay: float = 1.0
    kept_bytes: int = 512 * 1024 * 1024
    transaction_coordinators: int = 1

    def __post_init__(self) -> None:
        """Refuse values that no broker can work with."""
        for name, least in _LEAST.items():
            given = getattr(self, name)
            if not given >= least:
                raise InvalidArgument(f"{name} is {least} or more, not {excerpt(given)}")


T = TypeVar("T")


@dataclass(slots=True)
class Policies:
    """The policies of a namespace; None: the cluster's settings apply."""

    deduplication: bool | None = None
    allow_auto_topic_creation: bool | None = None
    allow_auto_subscription_creation: bool | None = None
    auto_topic_partitions: int = 0
    """The number of partitions of topics that are created automatically; 0: topics without partitions."""
    max_unacked_per_consumer: int | None = None
    max_unacked_per_subscription: int | None = None
    longest_delay_ms: int = 0
    """The longest delivery delay of a message; longer ones are refused; 0: no limit."""
    encryption_required: bool = False
    schema_validation_enforced: bool = False


def policy_or_default(choice: T | None, otherwise: T) -> T:
    """Return the policy if it is set, else the default."""
    return otherwise if choice is None else choice
