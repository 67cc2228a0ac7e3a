"""The topics of a namespace: listed, and watched.

A pattern is matched against the whole name without its domain. The hash of a list lets a client say which list it has:
the CRC32-C of the sorted names joined by commas, as eight hexadecimal digits of its bytes, lowest first.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Handlers
from pulsar_actors.wire.checksum import checksum
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    ServerError,
)

__all__ = ["HANDLERS"]

LONGEST_PATTERN: Final = 50
"""Brokers match no longer pattern: a list is then left as it is, and a watch is refused."""

_DOMAINS: Final = {
    CommandGetTopicsOfNamespace.PERSISTENT: "persistent",
    CommandGetTopicsOfNamespace.NON_PERSISTENT: "non-persistent",
    CommandGetTopicsOfNamespace.ALL: None,
}


def on_get_topics(session: Session, asked: CommandGetTopicsOfNamespace, _: memoryview) -> None:
    """List the topics, unless the client has this very list."""
    topics = _topics_of(session.here.cluster, asked.namespace, _DOMAINS[asked.mode])
    filtered = asked.HasField("topics_pattern") and len(asked.topics_pattern) <= LONGEST_PATTERN
    if filtered:
        topics = _matching(topics, _compiled(asked.topics_pattern))
    digest = _hash(topics)
    changed = not asked.HasField("topics_hash") or asked.topics_hash != digest
    session.send(
        CommandGetTopicsOfNamespaceResponse(
            request_id=asked.request_id,
            topics=topics if changed else (),
            filtered=filtered,
            topics_hash=digest,
            changed=changed,
        )
    )


def on_watch(session: Session, asked: CommandWatchTopicList, _: memoryview) -> None:
    """List the persistent topics that match, and tell of those that come and go.

    A client that asks again with the same id wants the list once more, and to go on watching.
    """
    if len(asked.topics_pattern) > LONGEST_PATTERN:
        text = f"Unable to create topic list watcher: Pattern longer than maximum: {LONGEST_PATTERN}"
        raise Refusal(ServerError.NotAllowedError, text)
    watch = TopicWatch(session, asked)
    earlier = session.watchers.pop(asked.watcher_id, None)
    if earlier is not None:
        earlier()
    namespace = session.here.cluster.namespaces.get(asked.namespace)
    if namespace is not None:
        session.watchers[asked.watcher_id] = watch.begin(namespace)
    topics = watch.topics()
    digest = _hash(topics)
    known = asked.HasField("topics_hash") and asked.topics_hash == digest
    session.send(
        CommandWatchTopicListSuccess(
            request_id=asked.request_id,
            watcher_id=asked.watcher_id,
            topic=() if known else topics,
            topics_hash=digest,
        )
    )


def on_close_watch(session: Session, asked: CommandWatchTopicListClose, _: memoryview) -> None:
    """Tell no more; a watch that is not there is over as well."""
    stop = session.watchers.pop(asked.watcher_id, None)
    if stop is not None:
        stop()
    session.send(CommandSuccess(request_id=asked.request_id))


class TopicWatch:
    """One watch of a client.

    What comes or goes in one turn of the loop is told together, for the hash that comes with it is that of all topics;
    but a topic that goes and comes again is told of twice.
    """

    __slots__ = ("_came", "_namespace", "_pattern", "_session", "_watcher_id", "_went")

    def __init__(self, session: Session, asked: CommandWatchTopicList) -> None:
        self._session = session
        self._watcher_id = asked.watcher_id
        self._namespace = asked.namespace
        self._pattern = _compiled(asked.topics_pattern)
        self._came: dict[str, None] = {}
        self._went: dict[str, None] = {}

    def begin(self, namespace: Namespace) -> Callable[[], None]:
        """Tell from now on; gives the function that ends it."""
        stop_hearing = namespace.watch(self.changed)

        def stop() -> None:
            stop_hearing()
            self._came, self._went = {}, {}

        return stop

    def topics(self) -> list[str]:
        """Give the topics that match now."""
        return _matching(_topics_of(self._session.here.cluster, self._namespace, "persistent"), self._pattern)

    def changed(self, came: Sequence[str], went: Sequence[str]) -> None:
        """Tell the client in the next turn, if any of it is its business."""
        new, gone = (dict.fromkeys(self._mine(names)) for names in (came, went))
        if not self._went.keys().isdisjoint(new) or not self._came.keys().isdisjoint(gone):
            self._tell(None)
        is_first = not (self._came or self._went)
        self._came |= new
        self._went |= gone
        if is_first and (new or gone):
            self._session.here.loop.post(self._tell, None)

    def _tell(self, _: None) -> None:
        came, self._came = self._came, {}
        went, self._went = self._went, {}
        if came or went:
            self._session.send(
                CommandWatchTopicUpdate(
                    watcher_id=self._watcher_id, new_topics=came, deleted_topics=went, topics_hash=_hash(self.topics())
                )
            )

    def _mine(self, names: Sequence[str]) -> list[str]:
        return _matching([name for name in names if name.startswith("persistent:")], self._pattern)


def _topics_of(cluster: Cluster, namespace: str, domain: str | None) -> list[str]:
    """List the topics; a namespace that is not there has none."""
    return cluster.topics_of(namespace, domain) if namespace in cluster.namespaces else []


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern.partition("://")[2] or pattern)
    except (re.error, RecursionError) as fault:
        raise Refusal(ServerError.InvalidTopicName, f"Invalid topics pattern: {fault}") from fault


def _matching(topics: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    return [topic for topic in topics if pattern.fullmatch(topic.partition("://")[2])]


def _hash(topics: Sequence[str]) -> str:
    return checksum(",".join(sorted(topics)).encode()).to_bytes(4, "little").hex()


HANDLERS: Final[Handlers] = {
    CommandGetTopicsOfNamespace: on_get_topics,
    CommandWatchTopicList: on_watch,
    CommandWatchTopicListClose: on_close_watch,
}
