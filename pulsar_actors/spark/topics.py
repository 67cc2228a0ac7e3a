"""Which topics are meant: named, or by a pattern; and the partitions of each, as they are now.

Looking makes no topic: a broker that makes topics unasked would make one of a slip of the pen, and what it is asked
here says that it should not.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from pulsar_actors.client.client import Client, workshop_of
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, TopicNotFound
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetTopicsOfNamespace, CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["TopicChoice"]

_NOT_STORED: Final = "what is sent there is not stored, to be read again: only persistent topics store"
_OPTIONS: Final = ("topic", "topics", "topicspattern")

Listed: TypeAlias = Callable[[str], set[str]]
"""Lists what a namespace stores, and asks for that once."""


class TopicChoice(NamedTuple):
    """Topics by their names, or by a `pattern`. `waits` says that a topic may be there later."""

    names: tuple[TopicName, ...]
    pattern: str | None
    waits: bool

    @classmethod
    def of(cls, texts: Mapping[str, str], *, waits: bool) -> "TopicChoice":
        """Read it off the options."""
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
        """Name what need not be there yet."""
        return self.names if self.waits else ()

    def partitions(self, client: Client) -> list[TopicName]:
        """List the partitions there are now; of a topic that has none, itself."""

        @cache
        def listed(namespace: str) -> set[str]:
            return _listed(client, namespace)

        names = self.names if self.pattern is None else _matching(self.pattern, listed)
        return sorted({partition for name in names for partition in _partitions_of(client, name, listed)})

    def require(self, partitions: Iterable[TopicName]) -> None:
        """Refuse topics that are named, are not there, and are not waited for."""
        there = {topic for partition in partitions for topic in (partition, partition.base)}
        for name in self.names:
            if name not in there and not self.waits:
                hint = "make it first, or have the query wait for it with waitingForNonExistedTopic"
                raise TopicNotFound("TopicNotFound", f"there is no topic {name}: {hint}")


def _compiled(text: str) -> TopicPattern:
    try:
        return TopicPattern(re.compile(text))
    except (re.error, InvalidArgument) as fault:
        raise InvalidConfiguration(f"topicsPattern takes a regular expression of topics' names: {fault}") from fault


def _matching(text: str, listed: Listed) -> list[TopicName]:
    pattern = _compiled(text)
    return [TopicName.parse(topic) for topic in pattern.sort(listed(pattern.namespace))]


def _partitions_of(client: Client, name: TopicName, listed: Listed) -> list[TopicName]:
    """List a topic's partitions, or itself; nothing, if there is no such topic."""
    if name.partition_index < 0:
        command = CommandPartitionedTopicMetadata(topic=str(name), request_id=0, metadata_auto_creation_enabled=False)
        workshop = workshop_of(client)
        try:
            count = workshop.wait_for(workshop.ask(command), f"asking for the partitions of {name}").partitions
        except TopicNotFound:
            return []
        if count:
            return [name.partition(index) for index in range(count)]
    return [name] if str(name) in listed(name.namespace_name) else []


def _listed(client: Client, namespace: str) -> set[str]:
    """List what a namespace stores."""
    command = CommandGetTopicsOfNamespace(
        request_id=0, namespace=namespace, mode=CommandGetTopicsOfNamespace.PERSISTENT
    )
    workshop = workshop_of(client)
    return set(workshop.wait_for(workshop.ask(command), f"asking for the topics of {namespace}").topics)
