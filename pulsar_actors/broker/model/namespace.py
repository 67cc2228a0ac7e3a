"""A namespace: its policies, its partitioned topics, and its topics, which include partitions."""

from collections.abc import Callable
from typing import TypeAlias

from pulsar_actors.broker.model.settings import Policies
from pulsar_actors.broker.model.topic import Topic

TopicsWatcher: TypeAlias = Callable[[list[str], list[str]], None]
"""Called with the names of created and of deleted topics."""


class Namespace:
    """One namespace, created by `Cluster.create_namespace`.

    `topics` has topics and partitions by complete name, `partitioned` the number of partitions of each partitioned
    topic.
    """

    __slots__ = ("_watchers", "name", "partitioned", "policies", "topics")

    def __init__(self, name: str) -> None:
        self.name = name
        self.policies = Policies()
        self.topics: dict[str, Topic] = {}
        self.partitioned: dict[str, int] = {}
        self._watchers: list[TopicsWatcher] = []

    def watch(self, watcher: TopicsWatcher) -> Callable[[], None]:
        """Call the watcher when topics are created and deleted. Return the function that stops this."""
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def add(self, topics: list[Topic]) -> None:
        """Add topics."""
        names = [str(topic.name) for topic in topics]
        self.topics.update(zip(names, topics, strict=True))
        self._tell(names, [])

    def remove(self, names: list[str]) -> None:
        """Remove topics."""
        for name in names:
            del self.topics[name]
        self._tell([], names)

    def _tell(self, came: list[str], went: list[str]) -> None:
        if came or went:
            for watcher in list(self._watchers):
                watcher(came, went)
