"""What an administrator decided for one namespace.

Its fields may be set at any time. What is said of consumers and subscriptions counts for those that come afterwards.
"""

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Policies:
    """The policies of a namespace; None: as the cluster's settings say."""

    deduplication: bool | None = None
    allow_auto_topic_creation: bool | None = None
    allow_auto_subscription_creation: bool | None = None
    auto_topic_partitions: int = 0
    """Topics that are made by themselves have so many partitions; 0: none."""
    max_unacked_per_consumer: int | None = None
    max_unacked_per_subscription: int | None = None
    longest_delay_ms: int = 0
    """A message that is to be delivered later than that is refused; 0: none is."""
    encryption_required: bool = False
    schema_validation_enforced: bool = False


def decided(choice: T | None, otherwise: T) -> T:
    """Give what was decided, or what counts otherwise."""
    return otherwise if choice is None else choice
