"""What an administrator decided for one namespace.

Its fields may be set at any time. What is said of consumers and subscriptions counts for those that come afterwards.
"""

from dataclasses import dataclass


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
    encryption_required: bool = False
    schema_validation_enforced: bool = False


def first_of(*choices: bool | None) -> bool:
    """Give the first that was decided; the last one always is."""
    return next(bool(choice) for choice in choices if choice is not None)
