"""How much a batch of a stream may take: so many messages, or bytes, over all partitions.

Each partition gets the share that its backlog has of all of them, so that they come to their ends together. How much
lies between two positions is estimated by `ledgers.py`; each partition with anything to read gets an entry of it at
least, or a stream would not go on.
"""

from collections.abc import Mapping

from pulsar_actors.spark.offsets import Offsets
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.position import Position
from pulsar_actors.spark.statistics import Statistics
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Rate"]


class Rate:
    """The limits of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self._messages = options.most_messages
        self._bytes = options.most_bytes
        self._statistics = None if options.cluster.admin_url is None else Statistics(options.cluster)

    def limit(self, start: Offsets, ends: Mapping[TopicName, Position]) -> dict[TopicName, Position]:
        """Bring the ends of a batch closer, where there would be too much before them."""
        if self._statistics is None or (self._messages is None and self._bytes is None):
            return dict(ends)
        behind = [topic for topic, end in ends.items() if start.at(topic) < end]
        ledgers = {topic: self._statistics.ledgers(topic) for topic in behind}
        limited = dict(ends)
        if self._messages is not None:
            sizes = {topic: float(ledgers[topic].messages(start.at(topic), limited[topic])) for topic in behind}
            for topic, share in _shares(sizes, self._messages).items():
                limited[topic] = ledgers[topic].after_messages(start.at(topic), limited[topic], share)
        if self._bytes is not None:
            sizes = {topic: ledgers[topic].size(start.at(topic), limited[topic]) for topic in behind}
            for topic, share in _shares(sizes, self._bytes).items():
                limited[topic] = ledgers[topic].after_bytes(start.at(topic), limited[topic], share)
        return limited

    def entries_behind(self, start: Offsets, ends: Mapping[TopicName, Position]) -> int | None:
        """Count the entries that have not been read; None where nobody can be asked."""
        if self._statistics is None:
            return None
        behind = [topic for topic, end in ends.items() if start.at(topic) < end]
        return sum(self._statistics.ledgers(topic).entries(start.at(topic), ends[topic]) for topic in behind)

    def close(self) -> None:
        """Close what is open."""
        if self._statistics is not None:
            self._statistics.close()


def _shares(sizes: Mapping[TopicName, float], most: int) -> dict[TopicName, float]:
    """Divide what may be taken, if that is less than there is."""
    whole = sum(sizes.values())
    return {topic: most * size / whole for topic, size in sizes.items()} if whole > most else {}
