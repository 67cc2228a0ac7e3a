"""Options of consumers that change when something happens, but not what a program may rely on."""

from typing import Any

from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.interceptors import ConsumerEventListener
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy, MultiplierRedeliveryBackoff
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import Scene

LATER = MultiplierRedeliveryBackoff(50, 1000, 3)
"""Delays of redelivery that grow quickly."""

PROPERTIES = {"of": "all"}


class FurtherOptions:
    """What all consumers of one seed have; each draws the rest for itself, from dice of their own."""

    def __init__(self, scene: Scene, kind: ConsumerType) -> None:
        self._dice = dice = Dice(scene.world.seed, "further options")
        self._kind = kind
        self.ack_timeout = dice.happens(0.3)
        self.batches = dice.happens(0.3)
        self.starts_paused = dice.happens(0.3)
        """True if a consumer with a listener is to be resumed first."""

    def draw(self, *, listens: bool) -> dict[str, Any]:
        """Return the options of one consumer."""
        dice = self._dice
        options: dict[str, Any] = {
            "ack_grouping_time_ms": (0, 10, 100, 20_000)[dice.below(4)],
            "ack_grouping_max_size": (1, 3, 1000)[dice.below(3)],
            "max_total_receiver_queue_size_across_partitions": (0, 5, 50_000)[dice.below(3)],
            "broker_consumer_stats_cache_time_ms": (0, 30_000)[dice.below(2)],
            "max_pending_chunked_message": dice.below(3),
            "subscription_properties": PROPERTIES,
            "properties": {"number": str(dice.below(10))},
        }
        if dice.happens(0.5):
            options["negative_ack_redelivery_backoff"] = LATER
        if self.ack_timeout:
            options["unacked_messages_timeout_ms"] = (300, 3000)[dice.below(2)]
            options["ack_timeout_redelivery_backoff"] = LATER if dice.happens(0.5) else None
        if self._kind in (ConsumerType.Shared, ConsumerType.Failover):
            options["priority_level"] = dice.below(3)
        if dice.happens(0.5):
            options["consumer_event_listener"] = ConsumerEventListener()
        if self.batches:
            options["batch_receive_policy"] = ConsumerBatchReceivePolicy(1 + dice.below(5), 30 * dice.below(2), 200)
        if listens and self.starts_paused:
            options["start_paused"] = True
        return options

    def check(self, scene: Scene, subscription: str) -> None:
        """See that the broker has what belongs to the subscription, whatever has become of its first consumer."""
        for name in scene.topics():
            topic = scene.topic(name)
            if topic is not None and subscription in topic.subscriptions:
                assert topic.subscriptions[subscription].properties == PROPERTIES
