"""The handlers of lookups, partition counts, and lists and watches of the topics of a namespace.

A pattern is matched against the whole name without its domain. By the hash of a list a client tells the broker the list
that it has: the CRC32-C of the sorted names, joined by commas, as eight hexadecimal digits, lowest byte first.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.broker.session.session import CommandHandlers, Session
from pulsar_actors.wire.entries import checksum
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["LOOKUP_HANDLERS", "require_served"]


def on_lookup(session: Session, command: CommandLookupTopic, _: bytes) -> None:
    """Answer with the broker that serves the topic, or redirect to one that can answer.

    A standalone broker tells its clients to use the address that they have already, because its own may be unreachable
    for them. This broker does the same while it is the only one.
    """
    topic = TopicName.parse(command.topic)
    context = session.context
    context.cluster.namespace(topic.namespace_name)
    result = context.directory.lookup(topic, session.node, authoritative=command.authoritative)
    address = result.node.address_for(command.advertised_listener_name)
    answer = CommandLookupTopicResponse
    session.send(
        CommandLookupTopicResponse(
            request_id=command.request_id,
            response=answer.Redirect if result.redirect else answer.Connect,
            brokerServiceUrl=address.service_url or None,
            brokerServiceUrlTls=address.service_url_tls or None,
            authoritative=result.authoritative,
            proxy_through_service_url=len(context.directory.nodes) == 1,
        )
    )


def on_partitions(session: Session, command: CommandPartitionedTopicMetadata, _: bytes) -> None:
    """Answer with the number of partitions."""
    topic = TopicName.parse(command.topic)
    count = session.context.cluster.partitions(topic, create=command.metadata_auto_creation_enabled)
    session.send(
        CommandPartitionedTopicMetadataResponse(
            request_id=command.request_id, partitions=count, response=CommandPartitionedTopicMetadataResponse.Success
        )
    )


MAX_PATTERN_LENGTH: Final = 50
"""Brokers do not match longer patterns: with one, a list is not filtered, and a watch is refused."""

_DOMAINS: Final = {
    CommandGetTopicsOfNamespace.PERSISTENT: "persistent",
    CommandGetTopicsOfNamespace.NON_PERSISTENT: "non-persistent",
    CommandGetTopicsOfNamespace.ALL: None,
}


def on_get_topics(session: Session, command: CommandGetTopicsOfNamespace, _: bytes) -> None:
    """List the topics, unless the client has the same list already."""
    topics = _topics_of(session.context.cluster, command.namespace, _DOMAINS[command.mode])
    filtered = command.HasField("topics_pattern") and len(command.topics_pattern) <= MAX_PATTERN_LENGTH
    if filtered:
        topics = _matching(topics, _compiled(command.topics_pattern))
    digest = _hash(topics)
    changed = not command.HasField("topics_hash") or command.topics_hash != digest
    session.send(
        CommandGetTopicsOfNamespaceResponse(
            request_id=command.request_id,
            topics=topics if changed else (),
            filtered=filtered,
            topics_hash=digest,
            changed=changed,
        )
    )


def on_watch(session: Session, command: CommandWatchTopicList, _: bytes) -> None:
    """List the persistent topics that match, and notify the client of created and deleted ones.

    A client that asks again with the same watcher id gets the list again, and goes on watching.
    """
    if len(command.topics_pattern) > MAX_PATTERN_LENGTH:
        text = f"Unable to create topic list watcher: Pattern longer than maximum: {MAX_PATTERN_LENGTH}"
        raise Refusal(ServerError.NotAllowedError, text)
    watch = SessionTopicListWatch(session, command)
    earlier = session.watchers.pop(command.watcher_id, None)
    if earlier is not None:
        earlier()
    namespace = session.context.cluster.namespaces.get(command.namespace)
    if namespace is not None:
        session.watchers[command.watcher_id] = watch.begin(namespace)
    topics = watch.topics()
    digest = _hash(topics)
    known = command.HasField("topics_hash") and command.topics_hash == digest
    session.send(
        CommandWatchTopicListSuccess(
            request_id=command.request_id,
            watcher_id=command.watcher_id,
            topic=() if known else topics,
            topics_hash=digest,
        )
    )


def on_close_watch(session: Session, command: CommandWatchTopicListClose, _: bytes) -> None:
    """End a watch. An unknown watch counts as ended."""
    stop = session.watchers.pop(command.watcher_id, None)
    if stop is not None:
        stop()
    session.send(CommandSuccess(request_id=command.request_id))


class SessionTopicListWatch:
    """One watch of a client.

    Changes of one turn of the loop are sent together, because the hash that comes with them is that of all topics. A
    topic that is deleted and created again is sent in two updates.
    """

    __slots__ = ("_added", "_namespace", "_pattern", "_removed", "_session", "_watcher_id")

    def __init__(self, session: Session, command: CommandWatchTopicList) -> None:
        self._session = session
        self._watcher_id = command.watcher_id
        self._namespace = command.namespace
        self._pattern = _compiled(command.topics_pattern)
        self._added: dict[str, None] = {}
        self._removed: dict[str, None] = {}

    def begin(self, namespace: Namespace) -> Callable[[], None]:
        """Start watching, and return the function that ends the watch."""
        stop_hearing = namespace.watch(self.changed)

        def stop() -> None:
            stop_hearing()
            self._added, self._removed = {}, {}

        return stop

    def topics(self) -> list[str]:
        """List the topics that match now."""
        return _matching(_topics_of(self._session.context.cluster, self._namespace, "persistent"), self._pattern)

    def changed(self, came: Sequence[str], went: Sequence[str]) -> None:
        """Notify the client in the next turn of the loop, if any of the topics match."""
        new, gone = (dict.fromkeys(self._matching_persistent(names)) for names in (came, went))
        if not self._removed.keys().isdisjoint(new) or not self._added.keys().isdisjoint(gone):
            self._send_update(None)
        is_first = not (self._added or self._removed)
        self._added |= new
        self._removed |= gone
        if is_first and (new or gone):
            self._session.context.loop.post(self._send_update, None)

    def _send_update(self, _: None) -> None:
        came, self._added = self._added, {}
        went, self._removed = self._removed, {}
        if came or went:
            self._session.send(
                CommandWatchTopicUpdate(
                    watcher_id=self._watcher_id, new_topics=came, deleted_topics=went, topics_hash=_hash(self.topics())
                )
            )

    def _matching_persistent(self, names: Sequence[str]) -> list[str]:
        return _matching([name for name in names if name.startswith("persistent:")], self._pattern)


def _topics_of(cluster: Cluster, namespace: str, domain: str | None) -> list[str]:
    """List the topics; an unknown namespace has none."""
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


def require_served(session: Session, text: str) -> TopicName:
    """Parse a topic's name; Refusal unless this broker serves the topic."""
    topic = TopicName.parse(text)
    if not session.context.directory.serves(session.node, topic):
        raise Refusal(
            ServerError.ServiceNotReady,
            f"Namespace bundle ({topic.namespace_name}/0x00000000_0xffffffff) for topic ({topic}) not served by this "
            f"instance:{session.node.name}. Please redo the lookup.",
        )
    return topic


LOOKUP_HANDLERS: Final[CommandHandlers] = {
    CommandLookupTopic: on_lookup,
    CommandPartitionedTopicMetadata: on_partitions,
    CommandGetTopicsOfNamespace: on_get_topics,
    CommandWatchTopicList: on_watch,
    CommandWatchTopicListClose: on_close_watch,
}
