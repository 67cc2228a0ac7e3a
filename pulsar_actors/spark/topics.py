"""Which topics are meant: named, or by a pattern; and the partitions of each, as they are now.

Looking makes no topic: a broker that makes topics unasked would make one of a slip of the pen, and what it is asked
here says that it should not.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pulsar_actors.client.client import Client, workshop_of
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, TopicNotFound
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetTopicsOfNamespace, CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["TopicChoice"]

_OPTIONS: Final = ("topic", "topics", "topicspattern")


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
                raise InvalidConfiguration(f"{name} stores nothing that could be read again: only persistent topics do")
        return cls(names, None, waits)

    def partitions(self, client: Client) -> list[TopicName]:
        """List the partitions there are now; of a topic that has none, itself. Topics that are waited for may lack."""
        return sorted(set(self._matching(client) if self.pattern is not None else self._named(client)))

    def _named(self, client: Client) -> list[TopicName]:
        found: list[TopicName] = []
        for name in self.names:
            partitions = _partitions_of(client, name)
            if not partitions and not self.waits:
                hint = "make it first, or have the query wait for it with waitingForNonExistedTopic"
                raise TopicNotFound("TopicNotFound", f"there is no topic {name}: {hint}")
            found += partitions
        return found

    def _matching(self, client: Client) -> list[TopicName]:
        pattern = _compiled(self.pattern or "")
        found: list[TopicName] = []
        for topic in pattern.sort(_listed(client, pattern.namespace)):
            found += _partitions_of(client, TopicName.parse(topic))
        return found


def _compiled(text: str) -> TopicPattern:
    try:
        return TopicPattern(re.compile(text))
    except (re.error, InvalidArgument) as fault:
        raise InvalidConfiguration(f"topicsPattern takes a regular expression of topics' names: {fault}") from fault


def _partitions_of(client: Client, name: TopicName) -> list[TopicName]:
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
    return [name] if str(name) in _listed(client, name.namespace_name) else []


def _listed(client: Client, namespace: str) -> set[str]:
    """List what a namespace stores."""
    command = CommandGetTopicsOfNamespace(
        request_id=0, namespace=namespace, mode=CommandGetTopicsOfNamespace.PERSISTENT
    )
    workshop = workshop_of(client)
    return set(workshop.wait_for(workshop.ask(command), f"asking for the topics of {namespace}").topics)
