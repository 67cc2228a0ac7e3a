"""The HTTP side's ports: a server for each of the cluster's brokers, and another behind TLS if that is wanted."""

import ssl

from pulsar_actors.broker.session.directory import Node
from pulsar_actors.broker.session.surroundings import Surroundings
from pulsar_actors.broker.session.tls_transport import TlsTransport
from pulsar_actors.broker.tokens import TokenRefused
from pulsar_actors.broker.web.calls import BrokerUrls, Site
from pulsar_actors.broker.web.server import WebServer
from pulsar_actors.runtime.loop import Owner, Transport

__all__ = ["WebDoor"]


class WebDoor:
    """Makes the servers as their ports are used for the first time."""

    __slots__ = ("_here", "_servers")

    def __init__(self, here: Surroundings) -> None:
        self._here = here
        self._servers: dict[tuple[str, bool], WebServer] = {}

    def let_in(self, node: Node, context: ssl.SSLContext | None, transport: Transport, peer: str) -> Owner:
        """Take a connection that came to a broker, encrypted if there is a context."""
        server = self._server(node, encrypted=context is not None)
        if context is None:
            return server.accept(transport, peer)
        encrypted = TlsTransport(self._here.loop, transport, context)
        encrypted.own(server.accept(encrypted, peer))
        return encrypted

    def close(self) -> None:
        """End every connection."""
        for server in self._servers.values():
            server.close()

    def _server(self, node: Node, *, encrypted: bool) -> WebServer:
        server = self._servers.get((node.name, encrypted))
        if server is None:
            here = self._here
            site = Site(here.cluster, here.loop, node.name, self._urls_of, encrypted)
            server = WebServer(site, None if here.tokens is None else self._refusal_of)
            self._servers[node.name, encrypted] = server
        return server

    def _urls_of(self, name: str) -> BrokerUrls:
        node = self._here.directory.node(name)
        return BrokerUrls(node.service_url, node.service_url_tls, node.web_url, node.web_url_tls, node.advertised)

    def _refusal_of(self, token: str) -> str | None:
        """Say why a token is refused, None if it is not."""
        tokens = self._here.tokens
        assert tokens is not None  # noqa: S101 - only then is this asked
        if not token:
            return "this broker wants a token, and the request came with none"
        try:
            tokens.check(token, self._here.loop.wall_clock_ms())
        except TokenRefused as fault:
            return str(fault)
        return None
