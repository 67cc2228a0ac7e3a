"""A broker on a loop that is there already: everything of one broker but the thread.

It is for programs that have a loop of their own, such as a simulation; everybody else wants `EmbeddedBroker`. All of
its methods belong to the loop.
"""

import ssl
from collections.abc import Callable
from functools import partial

from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.broker.session.directory import Directory, Node
from pulsar_actors.broker.session.doors import Doors
from pulsar_actors.broker.session.handlers import HANDLERS
from pulsar_actors.broker.session.surroundings import Surroundings
from pulsar_actors.broker.session.web_door import WebDoor
from pulsar_actors.runtime.loop import Listener, Loop, Owner, Transport
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Broker"]


class Broker:
    """A cluster, the brokers that serve it, and their ports.

    `cluster` is what it knows: topics, subscriptions, cursors. `faults` is what it shall do wrong. `nodes` are the
    brokers that clients see: one after `listen`, and one more with each `add_listener`.
    """

    def __init__(self, loop: Loop, options: BrokerOptions | None = None, context: ssl.SSLContext | None = None) -> None:
        self._loop = loop
        self._options = options or BrokerOptions()
        self._context = context
        self.cluster = Cluster(loop, self._options.settings)
        self.directory = Directory(self.cluster)
        self.faults = Faults(self._release_stalls)
        here = Surroundings(
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
        self._doors = Doors(here, self.faults)
        self._web = WebDoor(here)
        self._listeners: list[Listener] = []

    @property
    def nodes(self) -> list[Node]:
        """The brokers that clients see."""
        return self.directory.nodes

    @property
    def connections(self) -> list[int]:
        """The numbers of the clients' connections that there are; they count from 1 as connections come."""
        return [session.number for session in self._doors]

    def listen(self) -> Node:
        """Open the ports of the first broker; OSError says which one cannot be had."""
        options = self._options
        return self._open(options.port, options.web_port, options.tls_port, options.web_tls_port)

    def add_listener(self) -> Node:
        """Add a broker to the cluster, on free ports. It serves what it is given, and what nobody was given."""
        return self._open(0, 0, 0, 0)

    def assign(self, topic: str, node: Node) -> None:
        """Give a topic, with its partitions and all whose names begin like it, to one of the brokers.

        Whoever is connected to it is sent there.
        """
        prefix = str(TopicName.parse(topic))
        self.cluster.assign(prefix, node.name)
        for namespace in list(self.cluster.namespaces.values()):
            for name, loaded in list(namespace.topics.items()):
                if name.startswith(prefix):
                    loaded.unload(node.address)

    def advertise(self, listener: str, address: Address) -> None:
        """Name another way to the first broker."""
        self.nodes[0].advertised[listener] = address

    def migrate(self, topic: str, service_url: str, service_url_tls: str = "") -> None:
        """Send a topic, with its partitions and all whose names begin like it, to another cluster for good.

        Producers go at once, consumers when they have acknowledged what is left here.
        """
        self.cluster.migrations.begin(str(TopicName.parse(topic)), service_url, service_url_tls)

    def cut_connections(self) -> None:
        """End every connection of a client, as a network that fails does."""
        self._doors.close("cut")

    def close(self) -> None:
        """End everything."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self._doors.close("the broker stops")
        self._web.close()

    def _open(self, port: int, web_port: int, tls_port: int, web_tls_port: int) -> Node:
        node = Node(f"{self._options.settings.cluster_name}-{len(self.nodes)}")
        doors, web, context = self._doors, self._web, self._context
        node.service_url = self._listen("pulsar", port, partial(doors.let_in, node, None))
        node.web_url = self._listen("http", web_port, partial(web.let_in, node, None))
        if context is not None:
            node.service_url_tls = self._listen("pulsar+ssl", tls_port, partial(doors.let_in, node, context))
            node.web_url_tls = self._listen("https", web_tls_port, partial(web.let_in, node, context))
        self.directory.add(node)
        return node

    def _listen(self, scheme: str, port: int, accept: Callable[[Transport, str], Owner]) -> str:
        host = self._options.host
        try:
            listener = self._loop.listen(host, port, accept)
        except OSError as fault:
            self.close()
            raise OSError(fault.errno, f"cannot listen on port {port} of {host}: {fault.strerror}") from fault
        self._listeners.append(listener)
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}:{listener.port}"
        LOG.info("the broker listens on %s", url)
        return url

    def _release_stalls(self) -> None:
        """Do it on the loop, whoever asks."""
        self._loop.post(self._release, None)

    def _release(self, _: None) -> None:
        for session in self._doors:
            session.release()
