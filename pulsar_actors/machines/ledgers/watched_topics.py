"""Which topics a watcher has been told of, so that it is told of each that comes or goes once.

The broker gives a list when a watch begins, and changes from then on. With either comes a hash of all that it has now.
Asked again with the hash of the last time it gives no list if nothing has changed, which is the usual end of a
reconnect; so an empty list means nothing unless its hash is another.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Difference(NamedTuple):
    """What has come and what has gone, in order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class WatchedTopics:
    """The topics of one watch."""

    __slots__ = ("_topics", "hash")

    def __init__(self) -> None:
        self._topics: set[str] = set()
        self.hash: str | None = None

    def listed(self, topics: Iterable[str], topics_hash: str) -> Difference:
        """Take a whole list."""
        if topics_hash == self.hash:
            return Difference((), ())
        before, self._topics, self.hash = self._topics, set(topics), topics_hash
        return Difference(tuple(sorted(self._topics - before)), tuple(sorted(before - self._topics)))

    def changed(self, added: Iterable[str], removed: Iterable[str], topics_hash: str) -> Difference:
        """Take a change, without going through what stays: there may be thousands of topics and as many changes."""
        self.hash = topics_hash
        wanted = set(added)
        came, went = wanted - self._topics, self._topics.intersection(removed) - wanted
        self._topics |= came
        self._topics -= went
        return Difference(tuple(sorted(came)), tuple(sorted(went)))
