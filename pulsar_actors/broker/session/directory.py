"""The brokers of the cluster, and the answers of their lookups.

A cluster looks like several brokers to its clients. Each broker has its own addresses, and a topic may be assigned to
one of them. The first broker is the leader. For a topic of another broker, the leader redirects the client there and
marks the answer as `authoritative`. Every other broker redirects the client to the leader, unless the client came by an
authoritative redirect: then it names the owner itself. So no lookup takes more than two redirects.

Real brokers redirect in this way for topics that no broker has loaded yet.
"""

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.interfaces import Address, Refusal
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Directory", "LookupResult", "Node"]


class Node:
    """One broker of the cluster, as clients see it: its name and its addresses.

    It may advertise other addresses, each under the name of a listener, for clients in other networks.
    """

    __slots__ = ("advertised", "name", "service_url", "service_url_tls", "web_url", "web_url_tls")

    def __init__(self, name: str) -> None:
        self.name = name
        self.service_url = ""
        self.service_url_tls = ""
        self.web_url = ""
        self.web_url_tls = ""
        self.advertised: dict[str, Address] = {}

    @property
    def address(self) -> Address:
        """The addresses of the binary protocol."""
        return Address(self.service_url, self.service_url_tls)

    def address_for(self, listener: str) -> Address:
        """Return the address advertised for a listener, or its own for an empty name; Refusal for an unknown one."""
        if not listener:
            return self.address
        found = self.advertised.get(listener)
        if found is None:
            raise Refusal(ServerError.ServiceNotReady, f"the broker do not have {listener} listener")
        return found


class LookupResult(NamedTuple):
    """The broker that serves the topic, or (`redirect`) the broker for the next lookup."""

    node: Node
    redirect: bool
    authoritative: bool


class Directory:
    """The brokers, in the order in which they were added."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[str, Node] = {}

    @property
    def nodes(self) -> list[Node]:
        """All brokers; the first is the leader."""
        return list(self._nodes.values())

    def node(self, name: str) -> Node:
        """Find a broker by its name; Refusal for an unknown one."""
        node = self._nodes.get(name)
        if node is None:
            raise Refusal(ServerError.ServiceNotReady, f"{name} is no broker of this cluster")
        return node

    def add(self, node: Node) -> None:
        """Add a broker."""
        self._nodes[node.name] = node

    def serves(self, node: Node, topic: TopicName) -> bool:
        """Return whether a broker serves a topic, or may serve it."""
        return self._owner(topic, node) is node

    def lookup(self, topic: TopicName, asked_node: Node, *, authoritative: bool) -> LookupResult:
        """Answer a lookup at a broker; Refusal if the topic is assigned to an unknown one."""
        owner = self._owner(topic, asked_node)
        leader = self.nodes[0]
        if owner is asked_node:
            return LookupResult(asked_node, redirect=False, authoritative=True)
        if asked_node is leader:
            return LookupResult(owner, redirect=True, authoritative=True)
        if authoritative:
            return LookupResult(owner, redirect=False, authoritative=True)
        return LookupResult(leader, redirect=True, authoritative=False)

    def _owner(self, topic: TopicName, asked_node: Node) -> Node:
        name = self._cluster.owner_of(topic)
        return asked_node if name is None else self.node(name)
