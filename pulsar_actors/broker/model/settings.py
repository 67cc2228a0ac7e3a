"""What an administrator of a real broker writes in `broker.conf`, as far as this one heeds it; Pulsar's defaults."""

from dataclasses import dataclass

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.excerpt import excerpt

_LEAST = {
    "max_message_size": 1,
    "max_unacked_per_consumer": 0,
    "max_unacked_per_subscription": 0,
    "failover_delay": 0,
    "kept_bytes": 0,
}


@dataclass(slots=True)
class Settings:
    """The limits and defaults of a whole cluster.

    cluster_name
        What the cluster is called; the names that it gives to producers begin with it.
    max_message_size
        In bytes: what is larger is refused, unless it comes in chunks.
    max_unacked_per_consumer, max_unacked_per_subscription
        Of a Shared subscription: with so many messages unacknowledged, no more are delivered; 0: any number.
    allow_auto_topic_creation, allow_auto_subscription_creation
        Whether producers and consumers may use what nobody has made.
    deduplication
        Whether a message that a producer sends twice is stored once.
    failover_delay
        How many seconds a Failover subscription waits before its new active consumer is served.
    kept_bytes
        How much a topic keeps of what no subscription needs. A real broker keeps it on disk, and for a few minutes at
        least; here it takes memory, so there is an end to it.
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

    def __post_init__(self) -> None:
        """Refuse what no broker could work with."""
        for name, least in _LEAST.items():
            given = getattr(self, name)
            if not given >= least:
                raise InvalidArgument(f"{name} is {least} or more, not {excerpt(given)}")
