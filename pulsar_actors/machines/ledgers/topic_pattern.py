"""Which topics a pattern means: those of one namespace whose whole name, without the domain, it matches.

The namespace is read off the pattern itself, which is written like a topic's name and may leave out the same parts. The
partitions of a partitioned topic are one topic, and it is that topic's name which has to match: `orders-.*` does not
mean the partitions of `orders`.
"""

import re
from collections.abc import Iterable

from pulsar_actors.exceptions import InvalidTopicName
from pulsar_actors.wire.topic_name import TopicName

_INLINE_FLAGS = re.compile(r"^\(\?[aiLmsux]+\)")


class TopicPattern:
    """One pattern."""

    __slots__ = ("_regex", "namespace", "text")

    def __init__(self, pattern: "re.Pattern[str]") -> None:
        name = TopicName.parse(_INLINE_FLAGS.sub("", pattern.pattern))  # the compiled pattern has them as well
        self.text = str(name)
        self.namespace = name.namespace_name
        self._regex = re.compile(_without_domain(self.text), pattern.flags)

    def sort(self, topics: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Give the topics that match, each with the names under which it was listed: its own, or its partitions'.

        What a broker lists and is no topic's name matches nothing.
        """
        found: dict[str, list[str]] = {}
        for topic in topics:
            base = _base_of(topic)
            if base is not None and self._regex.fullmatch(_without_domain(base)):
                found.setdefault(base, []).append(topic)
        return {base: tuple(names) for base, names in found.items()}


def _base_of(topic: str) -> str | None:
    try:
        return str(TopicName.parse(topic).base)
    except InvalidTopicName:
        return None


def _without_domain(name: str) -> str:
    return name.partition("://")[2]
