"""How connections come in: what is put between a socket and its session, and which of them are there.

A door is a port of one of the cluster's brokers. What comes through it may meet a fault before it has said anything;
otherwise it gets a session.
"""

import ssl
from collections.abc import Iterator

from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.session.cut_transport import CutTransport
from pulsar_actors.broker.session.deaf import Deaf
from pulsar_actors.broker.session.directory import Node
from pulsar_actors.broker.session.session import Session
from pulsar_actors.broker.session.surroundings import Surroundings
from pulsar_actors.broker.session.tls_transport import TlsTransport
from pulsar_actors.runtime.loop import Owner, Transport

__all__ = ["Doors"]


class Doors:
    """The connections of one broker, through all its ports."""

    __slots__ = ("_count", "_deaf", "_faults", "_here", "_sessions")

    def __init__(self, here: Surroundings, faults: Faults) -> None:
        self._here = here
        self._faults = faults
        self._sessions: dict[int, Session] = {}
        self._deaf: list[Transport] = []
        self._count = 0

    def __iter__(self) -> Iterator[Session]:
        """Give the sessions that there are, in the order in which they came."""
        return iter(list(self._sessions.values()))

    def let_in(self, node: Node, context: ssl.SSLContext | None, transport: Transport, peer: str) -> Owner:
        """Take a connection that came to a broker, encrypted if there is a context."""
        met = self._faults.receive()
        if met is None:
            return self._seat(node, context, transport, peer)
        if met.hang_up:
            transport.close()
            return Deaf()
        if met.silent:
            self._deaf.append(transport)
            return Deaf()
        cut = CutTransport(self._here.loop, transport, met)
        cut.own(self._seat(node, context, cut, peer))
        return cut

    def close(self, reason: str) -> None:
        """End every connection."""
        for session in self:
            session.close(reason)
        for transport in self._deaf:
            transport.close()
        self._deaf.clear()

    def _seat(self, node: Node, context: ssl.SSLContext | None, transport: Transport, peer: str) -> Owner:
        """Give it a session, behind TLS if that is wanted."""
        self._count += 1
        if context is None:
            return self._session(node, transport, peer)
        encrypted = TlsTransport(self._here.loop, transport, context)
        session = self._session(node, encrypted, peer)
        session.certified_as = encrypted.peer_name
        encrypted.own(session)
        return encrypted

    def _session(self, node: Node, transport: Transport, peer: str) -> Session:
        session = Session(self._here, node, transport, self._count, peer)
        self._sessions[session.number] = session
        session.at_end(self._forget)
        return session

    def _forget(self, session: Session) -> None:
        del self._sessions[session.number]
