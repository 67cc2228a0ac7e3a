"""Which brokers there are, and what a lookup at one of them is told about a topic.

A cluster looks like several brokers to its clients: each has addresses of its own, and a topic may be given to one of
them (`Cluster.assign`). The first is the leader. Asked for a topic that another has, it sends the client there and says
that this is its last word (`authoritative`). Every other broker sends the client to the leader, unless it has been told
that it is the last to be asked: then it names the owner itself. So no walk is longer than two steps.

This is what brokers do about topics that nobody has loaded yet, which is the moment at which redirects happen.
"""

from typing import NamedTuple, Protocol

from pulsar_actors.broker.model.links import Address
from pulsar_actors.broker.model.refusal import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Directory", "Node", "Ownership", "Way"]


class Ownership(Protocol):
    """The part of a cluster that knows who has a topic."""

    def owner_of(self, name: TopicName, /) -> str | None:
        """Name the broker that serves it; None: whichever is asked."""
        ...


class Node:
    """One broker of the cluster, as clients see it: its name and its addresses, those without TLS first.

    It may advertise other addresses, each under a name, for clients that reach it by another way.
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
        """Where the binary protocol is spoken."""
        return Address(self.service_url, self.service_url_tls)

    def address_for(self, listener: str) -> Address:
        """Give the address that is advertised under a name, or its own for an empty one; Refusal if there is none."""
        if not listener:
            return self.address
        found = self.advertised.get(listener)
        if found is None:
            raise Refusal(ServerError.ServiceNotReady, f"the broker do not have {listener} listener")
        return found


class Way(NamedTuple):
    """Where to go: to `node`, to use the topic there, or (`redirect`) to ask again there."""

    node: Node
    redirect: bool
    authoritative: bool


class Directory:
    """The brokers, in the order in which they were added."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._nodes: dict[str, Node] = {}

    @property
    def nodes(self) -> list[Node]:
        """All of them; the first is the leader."""
        return list(self._nodes.values())

    def node(self, name: str) -> Node:
        """Find one by its name; Refusal if no broker is called so."""
        node = self._nodes.get(name)
        if node is None:
            raise Refusal(ServerError.ServiceNotReady, f"{name} is no broker of this cluster")
        return node

    def add(self, node: Node) -> None:
        """Add one."""
        self._nodes[node.name] = node

    def serves(self, node: Node, topic: TopicName) -> bool:
        """Tell whether a broker has a topic, or may have it."""
        return self._owner(topic, node) is node

    def way_to(self, topic: TopicName, asked: Node, *, authoritative: bool) -> Way:
        """Say where a client that asks here must go; Refusal if the topic was given to nobody that is here."""
        owner = self._owner(topic, asked)
        leader = self.nodes[0]
        if owner is asked:
            return Way(asked, redirect=False, authoritative=True)
        if asked is leader:
            return Way(owner, redirect=True, authoritative=True)
        if authoritative:
            return Way(owner, redirect=False, authoritative=True)
        return Way(leader, redirect=True, authoritative=False)

    def _owner(self, topic: TopicName, asked: Node) -> Node:
        name = self._ownership.owner_of(topic)
        return asked if name is None else self.node(name)
