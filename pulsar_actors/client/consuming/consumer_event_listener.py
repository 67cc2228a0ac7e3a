"""Who is told whether a Failover consumer is the one that is served."""

from typing import Any, TypeAlias

__all__ = ["ConsumerEventListener"]

Handle: TypeAlias = Any
"""The Consumer, or the Reader, whose modules know of this one."""


class ConsumerEventListener:
    """Derive from it, and give it to `Client.subscribe`. Called on a listener's thread, one call after the other.

    A broker tells consumers of a Failover subscription, whenever one of them comes or goes.
    """

    def became_active(self, consumer: Handle, partition: int) -> None:
        """Hear that this consumer is served now; `partition` is its topic's number, or -1 if that is no partition."""

    def became_inactive(self, consumer: Handle, partition: int) -> None:
        """Hear that another is served."""
