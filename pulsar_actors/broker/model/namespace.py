"""A namespace: its policies, the partitioned topics it knows, and its topics, partitions among them."""

from collections.abc import Callable
from typing import TypeAlias

from pulsar_actors.broker.model.policies import Policies
from pulsar_actors.broker.model.topic import Topic

TopicsWatcher: TypeAlias = Callable[[list[str], list[str]], None]
"""Called with the names of topics that came and of those that went."""


class Namespace:
    """One namespace. Made by `Cluster.create_namespace`.

    `topics` is by complete name; partitions are in it, partitioned topics are not: those are in `partitioned`, with how
    many partitions they have.
    """

    __slots__ = ("_watchers", "name", "partitioned", "policies", "topics")

    def __init__(self, name: str) -> None:
        self.name = name
        self.policies = Policies()
        self.topics: dict[str, Topic] = {}
        self.partitioned: dict[str, int] = {}
        self._watchers: list[TopicsWatcher] = []

    def watch(self, watcher: TopicsWatcher) -> Callable[[], None]:
        """Tell about topics that come and go; gives the function that ends it."""
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def add(self, topics: list[Topic]) -> None:
        """Take new topics."""
        names = [str(topic.name) for topic in topics]
        self.topics.update(zip(names, topics, strict=True))
        self._tell(names, [])

    def remove(self, names: list[str]) -> None:
        """Forget topics."""
        for name in names:
            del self.topics[name]
        self._tell([], names)

    def _tell(self, came: list[str], went: list[str]) -> None:
        if came or went:
            for watcher in list(self._watchers):
                watcher(came, went)
