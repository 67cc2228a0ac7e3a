"""Topics that go to another cluster for good, as when one is replaced by another.

Producers are sent there at once: what they publish is for the new cluster. A subscription's consumers are sent there
when they have acknowledged all that is left here, for nothing of it goes along. To look for that now and then will do.
Whoever comes later is sent on as well, but to a subscription with something left.
"""

from collections.abc import Mapping
from typing import Final

from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Migrations"]

LOOK_SECONDS: Final = 0.05


class Migrations:
    """Those of one cluster, by how the names of topics begin."""

    __slots__ = ("_clock", "_namespaces", "_targets")

    def __init__(self, clock: Clock, namespaces: Mapping[str, Namespace]) -> None:
        self._clock = clock
        self._namespaces = namespaces
        self._targets: dict[str, Address] = {}

    def begin(self, prefix: str, service_url: str, service_url_tls: str = "") -> None:
        """Send the topics whose complete name begins so to another cluster."""
        first = not self._targets
        self._targets[prefix] = Address(service_url, service_url_tls, is_cluster=True)
        if first:
            self._look(None)

    def target_of(self, name: TopicName, subscription: str | None = None) -> Address | None:
        """Tell where a producer, or a consumer of this subscription, has to go; None: it may stay."""
        text = str(name)
        fitting = [prefix for prefix in self._targets if text.startswith(prefix)]
        if not fitting or self._has_left(text, name.namespace_name, subscription):
            return None
        return self._targets[max(fitting, key=len)]

    def _has_left(self, topic: str, namespace: str, subscription: str | None) -> bool:
        found = self._namespaces.get(namespace)
        loaded = found.topics.get(topic) if found else None
        kept = loaded.subscriptions.get(subscription) if loaded and subscription else None
        return kept is not None and kept.backlog() > 0

    def _look(self, _: None) -> None:
        for namespace in self._namespaces.values():
            for topic in list(namespace.topics.values()):
                self._send_on(topic)
        self._clock.later(LOOK_SECONDS, self._look, None)

    def _send_on(self, topic: Topic) -> None:
        target = self.target_of(topic.name)
        if target is None:
            return
        for producer in list(topic.producers.values()):
            producer.dismiss(target)
        for subscription in list(topic.subscriptions.values()):
            if subscription.consumers and not subscription.backlog():
                subscription.dismiss_all(target)
