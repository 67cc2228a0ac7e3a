"""A broker on an existing loop: `EmbeddedBroker` without its thread.

It is for programs with their own loop, such as a simulation; other programs use `EmbeddedBroker`. All its methods are
called on the loop.
"""

import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.interfaces import Address, Refusal
from pulsar_actors.broker.model.storage import IN_MEMORY
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.broker.session.directory import Directory, Node
from pulsar_actors.broker.session.handlers import HANDLERS
from pulsar_actors.broker.session.listeners import SessionListeners, WebListeners
from pulsar_actors.broker.session.session import Session, SessionContext
from pulsar_actors.broker.web.calls import MAX_PARTITIONS
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.loop import Listener, Loop, Transport, TransportOwner
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pathlib import Path

    from pulsar_actors.broker.data_folder import DataFolder

__all__ = ["Broker"]


Accept: TypeAlias = Callable[[Transport, str], TransportOwner]


class Broker:
    """A cluster, the brokers that serve it, and their ports.

    `cluster` has the topics, subscriptions and cursors, `faults` the scripted faults. `nodes` are the brokers that
    clients see: one after `listen`, and one more with each `add_listener`. `when_failed` is called if the broker ends
    because its data cannot be stored.
    """

    def __init__(
        self,
        loop: Loop,
        options: BrokerOptions | None = None,
        context: ssl.SSLContext | None = None,
        when_failed: Callable[[], object] = lambda: None,
    ) -> None:
        self._loop = loop
        self._options = options or BrokerOptions()
        self._context = context
        folder = self._options.data_folder
        self._data = None if folder is None else _data_in(folder)
        try:
            self.cluster = Cluster(loop, self._options.settings, self._data or IN_MEMORY)
            self.commit()
        except BaseException:
            if self._data is not None:
                self._data.close()
            raise
        self.directory = Directory(self.cluster)
        self.faults = Faults(self._release_stalls)
        session_context = SessionContext(
            loop=loop,
            cluster=self.cluster,
            directory=self.directory,
            faults=self.faults,
            handlers=HANDLERS,
            tokens=self._options.tokens,
            passwords=self._options.passwords,
            certificates=self._options.trust_certs_file is not None,
            keepalive=self._options.keepalive_seconds,
            broker_entry_metadata=self._options.broker_entry_metadata,
        )
        self._sessions = SessionListeners(session_context, self.faults)
        self._web = WebListeners(session_context)
        self._listeners: list[Listener] = []
        data = self._data
        if data is not None:
            data.when_changed = lambda: loop.post(lambda _: data.commit(), None)
            data.when_failed = lambda: loop.post(self._end, when_failed)

    @property
    def failure(self) -> str | None:
        """Why the broker has ended by itself; None if it has not."""
        return None if self._data is None else self._data.failure

    @property
    def nodes(self) -> list[Node]:
        """The brokers that clients see."""
        return self.directory.nodes

    @property
    def connections(self) -> list[int]:
        """The numbers of the clients' open connections, which are counted from 1 in the order of arrival."""
        return [session.number for session in self._sessions]

    @property
    def sessions(self) -> Iterator[Session]:
        """The clients' open connections."""
        return iter(self._sessions)

    def listen(self) -> Node:
        """Open the ports of the first broker; OSError names a port that is taken."""
        options = self._options
        return self._open(options.port, options.web_port, options.tls_port, options.web_tls_port)

    def create_topic(self, topic: str, partitions: int = 0) -> None:
        """Create a topic, with so many partitions or with none.

        InvalidArgument if it exists already, or if its namespace does not.
        """
        name = TopicName.parse(topic)
        if type(partitions) is not int or not 0 <= partitions <= MAX_PARTITIONS:
            raise InvalidArgument(f"partitions is from 0 (none) to {MAX_PARTITIONS:,}, not {excerpt(partitions)}")
        try:
            if partitions:
                self.cluster.create_partitioned(name, partitions)
            else:
                self.cluster.create_topic(name)
        except Refusal as refused:
            raise InvalidArgument(f"topic {name} cannot be created: {refused}") from None

    def add_listener(self) -> Node:
        """Add a broker, on free ports. It serves the topics assigned to it, and those assigned to none."""
        return self._open(0, 0, 0, 0)

    def assign(self, topic: str, node: Node) -> None:
        """Assign a topic, its partitions and all other topics whose names begin with its name, to one of the brokers.

        Connected clients of these topics are sent there.
        """
        prefix = str(TopicName.parse(topic))
        self.cluster.assign(prefix, node.name)
        self.cluster.coordinators.unload(prefix)
        for namespace in list(self.cluster.namespaces.values()):
            for name, loaded in list(namespace.topics.items()):
                if name.startswith(prefix):
                    loaded.unload(node.address)

    def advertise(self, listener: str, address: Address) -> None:
        """Advertise another address of the first broker, under the name of a listener."""
        self.nodes[0].advertised[listener] = address

    def migrate(self, topic: str, service_url: str, service_url_tls: str = "") -> None:
        """Move a topic, its partitions, and all other topics whose names begin with its name, to another cluster.

        Producers are sent there at once, consumers when they have acknowledged all messages that are left here. A data
        folder does not keep this, nor what is assigned.
        """
        self.cluster.migrations.begin(str(TopicName.parse(topic)), service_url, service_url_tls)

    def cut_connections(self) -> None:
        """End every connection of a client, as a network failure does."""
        self._sessions.close("cut")

    def commit(self) -> None:
        """Store all changes, if this broker has a data folder; OSError if that is not possible any longer."""
        if self._data is not None and not self._data.commit():
            raise OSError(self._data.failure)

    def close(self) -> None:
        """End every connection, close every port, and store all changes."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self._sessions.close("the broker stops")
        self._web.close()
        if self._data is not None:
            self._data.close()

    def _open(self, port: int, web_port: int, tls_port: int, web_tls_port: int) -> Node:
        node = Node(f"{self._options.settings.cluster_name}-{len(self.nodes)}")
        sessions, web, context = self._sessions, self._web, self._context
        node.service_url = self._listen("pulsar", port, partial(sessions.accept, node, None))
        node.web_url = self._listen("http", web_port, partial(web.accept, node, None))
        if context is not None:
            node.service_url_tls = self._listen("pulsar+ssl", tls_port, partial(sessions.accept, node, context))
            node.web_url_tls = self._listen("https", web_tls_port, partial(web.accept, node, context))
        self.directory.add(node)
        return node

    def _listen(self, scheme: str, port: int, accept: Accept) -> str:
        host = self._options.host
        try:
            listener = self._loop.listen(host, port, self._committing(accept))
        except OSError as fault:
            self.close()
            reason = str(fault.strerror).partition(" (while attempting")[0]  # Python adds the address, which is there
            raise OSError(fault.errno, f"cannot listen on port {port} of {host}: {reason}") from fault
        self._listeners.append(listener)
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}:{listener.port}"
        LOG.info("the broker listens on %s", url)
        return url

    def _committing(self, accept: Accept) -> Accept:
        """Have connections send nothing before it is stored, if this broker has a data folder."""
        data = self._data
        if data is None:
            return accept
        from pulsar_actors.broker.data_folder import CommittingTransport  # noqa: PLC0415 - as above

        return lambda transport, peer: accept(CommittingTransport(transport, data), peer)

    def _end(self, when_failed: Callable[[], object]) -> None:
        try:
            self.close()
        finally:
            when_failed()

    def _release_stalls(self) -> None:
        """Release stalled commands, on the loop: faults are used from any thread."""
        self._loop.post(self._release, None)

    def _release(self, _: None) -> None:
        for session in self._sessions:
            session.release()


def _data_in(folder: "str | Path") -> "DataFolder":
    from pulsar_actors.broker.data_folder import DataFolder  # noqa: PLC0415 - most brokers have none, and need no SQLite

    return DataFolder(folder)
