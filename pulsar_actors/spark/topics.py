"""The topics of a query: given by name or by a pattern, and their partitions as they are now.

A lookup must not create a topic: otherwise a broker with topic auto-creation would create one for a misspelt name.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, TypeAlias

from pulsar_actors.client.client import Client, context_of
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, TopicNotFound
from pulsar_actors.machines.trackers.subscribed_topics import TopicPattern
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.spark.control_topic import ATTEMPTS_SUFFIX, CONTROL_SUFFIX
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetTopicsOfNamespace, CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["TopicChoice"]


_NOT_STORED: Final = "messages there are not stored and cannot be read later: only persistent topics store"
_OF_CONTROL_TOPICS: Final = (CONTROL_SUFFIX, f"{CONTROL_SUFFIX}{ATTEMPTS_SUFFIX}")
_OPTIONS: Final = ("topic", "topics", "topicspattern")

NamespaceLister: TypeAlias = Callable[[str], set[str]]
"""Lists the persistent topics of a namespace. The broker is asked only once."""


class TopicChoice(NamedTuple):
    """Topics by name, or by a `pattern`. If `waits` is set, a named topic may be created later."""

    names: tuple[TopicName, ...]
    pattern: str | None
    waits: bool

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, waits: bool) -> "TopicChoice":
        """Parse the options."""
        given = [name for name in _OPTIONS if name in texts]
        if len(given) != 1:
            takes = "one of topic, topics and topicsPattern"
            raise InvalidConfiguration(f"say what to read by {takes}, got {' and '.join(given) or 'none of them'}")
        text = texts[given[0]].strip()
        if given[0] == "topicspattern":
            if text.startswith("non-persistent:"):
                raise InvalidConfiguration(f"{text}: {_NOT_STORED}")
            _compiled(text)
            return cls((), text, waits)
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if given[0] == "topic" and len(parts) > 1:
            raise InvalidConfiguration("topic takes the name of one topic: give several as topics")
        if not parts:
            raise InvalidConfiguration(f"{given[0]} takes the name of a topic, got none")
        names = tuple(dict.fromkeys(TopicName.parse(part) for part in parts))
        for name in names:
            if not name.is_persistent:
                raise InvalidConfiguration(f"{name}: {_NOT_STORED}")
        return cls(names, None, waits)

    @property
    def awaited(self) -> tuple[TopicName, ...]:
        """The topics that need not exist yet."""
        return self.names if self.waits else ()

    def partitions(self, client: Client) -> list[TopicName]:
        """List the partitions that exist now; an unpartitioned topic is its own partition."""

        @cache
        def listed(namespace: str) -> set[str]:
            return _list_namespace(client, namespace)

        names = self.names if self.pattern is None else _matching(self.pattern, listed)
        return sorted({partition for name in names for partition in _partitions_of(client, name, listed)})

    def require(self, partitions: Iterable[TopicName]) -> None:
        """Refuse named topics that do not exist, unless the query waits for them."""
        existing = {topic for partition in partitions for topic in (partition, partition.base)}
        for name in self.names:
            if name not in existing and not self.waits:
                hint = "make it first, or have the query wait for it with waitingForNonExistedTopic"
                raise TopicNotFound("TopicNotFound", f"there is no topic {name}: {hint}")


def _compiled(text: str) -> TopicPattern:
    try:
        return TopicPattern(re.compile(text))
    except (re.error, InvalidArgument) as fault:
        raise InvalidConfiguration(f"topicsPattern takes a regular expression of topics' names: {fault}") from fault


def _matching(text: str, listed: NamespaceLister) -> list[TopicName]:
    """List the topics that match a pattern, without control topics, which have no rows."""
    pattern = _compiled(text)
    names = [TopicName.parse(topic) for topic in pattern.sort(listed(pattern.namespace))]
    return [name for name in names if not name.base.local_name.endswith(_OF_CONTROL_TOPICS)]


def _partitions_of(client: Client, name: TopicName, listed: NamespaceLister) -> list[TopicName]:
    """List the partitions of a topic, or the topic itself if it has none.

    The list is empty if the topic does not exist.
    """
    if name.partition_index < 0:
        command = CommandPartitionedTopicMetadata(topic=str(name), request_id=0, metadata_auto_creation_enabled=False)
        context = context_of(client)
        try:
            count = context.wait_for_answer(
                context.ask_broker(command), f"asking for the partitions of {name}"
            ).partitions
        except TopicNotFound:
            return []
        if count:
            return [name.partition(index) for index in range(count)]
    return [name] if str(name) in listed(name.namespace_name) else []


def _list_namespace(client: Client, namespace: str) -> set[str]:
    """List the persistent topics of a namespace."""
    command = CommandGetTopicsOfNamespace(
        request_id=0, namespace=namespace, mode=CommandGetTopicsOfNamespace.PERSISTENT
    )
    context = context_of(client)
    return set(context.wait_for_answer(context.ask_broker(command), f"asking for the topics of {namespace}").topics)
