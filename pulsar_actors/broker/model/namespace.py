"""A namespace: its policies, its partitioned topics, and its topics, which include partitions."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TypeAlias

from pulsar_actors.broker.model.settings import Policies
from pulsar_actors.broker.model.storage import State, TopicStorage
from pulsar_actors.broker.model.topic import Topic

TopicsWatcher: TypeAlias = Callable[[list[str], list[str]], None]
"""Called with the names of created and of deleted topics."""


class Namespace:
    """One namespace, created by `Cluster.create_namespace`.

    `topics` has topics and partitions by complete name, `partitioned` the number of partitions of each partitioned
    topic. Whoever changes the policies calls `changed`.
    """

    __slots__ = ("_record", "_watchers", "name", "partitioned", "policies", "topics")

    def __init__(self, name: str, storage: TopicStorage) -> None:
        self.name = name
        self.policies = Policies()
        self.topics: dict[str, Topic] = {}
        self.partitioned: dict[str, int] = {}
        self._watchers: list[TopicsWatcher] = []
        self._record = storage.record("namespace", name, self._state)
        if (stored := self._record.stored) is None:
            self.changed()
        else:
            self.policies = Policies(**stored["policies"])
            self.partitioned = stored["partitioned"]

    def changed(self) -> None:
        """Store the policies and the numbers of partitions."""
        self._record.changed()

    def forget(self) -> None:
        """Store nothing any longer: it is deleted."""
        self._record.remove()

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Set the number of partitions of a topic; 0: it is no partitioned topic any longer."""
        if partitions:
            self.partitioned[topic] = partitions
        else:
            del self.partitioned[topic]
        self.changed()

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

    def _state(self) -> State:
        return {"policies": asdict(self.policies), "partitioned": self.partitioned}

    def _tell(self, came: list[str], went: list[str]) -> None:
        if came or went:
            for watcher in list(self._watchers):
                watcher(came, went)
