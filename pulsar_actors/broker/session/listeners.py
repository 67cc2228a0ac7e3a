"""The ports of the broker: each accepted connection becomes a session or an HTTP connection, with TLS if configured.

A scripted fault may apply to a whole connection: `CutTransport` ends it after so many bytes, and `SilentConnection`
never answers.
"""

import ssl
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from pulsar_actors.broker.fault_rules import Reception
from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.session.credentials import CertificateName, credentials_in, identify
from pulsar_actors.broker.session.directory import Node
from pulsar_actors.broker.session.session import Session, SessionContext
from pulsar_actors.broker.tokens import TokenRefused
from pulsar_actors.broker.web.calls import BrokerUrls, WebContext
from pulsar_actors.broker.web.http import HttpRefusal
from pulsar_actors.broker.web.server import WebServer
from pulsar_actors.runtime.loop import Buffer, Loop, Transport, TransportOwner
from pulsar_actors.runtime.tls import TlsStream
from pulsar_actors.runtime.tls_config import TlsFailed

__all__ = ["CutTransport", "SessionListeners", "SilentConnection", "TlsTransport", "WebListeners"]
_MAX_ENCRYPTED_AT_ONCE = 256 * 1024
_MAX_BUFFERS = 64


class SessionListeners:
    """The broker's sessions, through all its ports."""

    __slots__ = ("_context", "_count", "_faults", "_sessions", "_silent")

    def __init__(self, context: SessionContext, faults: Faults) -> None:
        self._context = context
        self._faults = faults
        self._sessions: dict[int, Session] = {}
        self._silent: list[Transport] = []
        self._count = 0

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the sessions in the order in which they came."""
        return iter(list(self._sessions.values()))

    def accept(self, node: Node, tls_context: ssl.SSLContext | None, transport: Transport, peer: str) -> TransportOwner:
        """Take a connection to one of the brokers, encrypted if there is a `tls_context`."""
        met = self._faults.receive()
        if met is None:
            return self._open_session(node, tls_context, transport, peer)
        if met.hang_up:
            transport.close()
            return SilentConnection()
        if met.silent:
            self._silent.append(transport)
            return SilentConnection()
        cut = CutTransport(self._context.loop, transport, met)
        cut.set_owner(self._open_session(node, tls_context, cut, peer))
        return cut

    def close(self, reason: str) -> None:
        """End every connection."""
        for session in self:
            session.close(reason)
        for transport in self._silent:
            transport.close()
        self._silent.clear()

    def _open_session(
        self, node: Node, tls_context: ssl.SSLContext | None, transport: Transport, peer: str
    ) -> TransportOwner:
        """Create the session of a connection, with TLS if there is a `tls_context`."""
        self._count += 1
        if tls_context is None:
            return self._session(node, transport, peer)
        encrypted = TlsTransport(self._context.loop, transport, tls_context)
        session = self._session(node, encrypted, peer, encrypted.peer_name)
        encrypted.set_owner(session)
        return encrypted

    def _session(
        self, node: Node, transport: Transport, peer: str, certificate_name: Callable[[], str | None] = lambda: None
    ) -> Session:
        session = Session(
            self._context,
            node,
            transport,
            self._count,
            peer,
            on_closed=self._forget,
            certificate_name=certificate_name,
        )
        self._sessions[session.number] = session
        return session

    def _forget(self, session: Session) -> None:
        del self._sessions[session.number]


class WebListeners:
    """The broker's HTTP servers, each created when its port is first used."""

    __slots__ = ("_context", "_servers")

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._servers: dict[tuple[str, bool], WebServer] = {}

    def accept(self, node: Node, tls_context: ssl.SSLContext | None, transport: Transport, peer: str) -> TransportOwner:
        """Take a connection to one of the brokers, encrypted if there is a `tls_context`."""
        server = self._server(node, encrypted=tls_context is not None)
        if tls_context is None:
            return server.accept(transport, peer)
        encrypted = TlsTransport(self._context.loop, transport, tls_context)
        encrypted.set_owner(server.accept(encrypted, peer, encrypted.peer_name))
        return encrypted

    def close(self) -> None:
        """End every connection."""
        for server in self._servers.values():
            server.close()

    def _server(self, node: Node, *, encrypted: bool) -> WebServer:
        server = self._servers.get((node.name, encrypted))
        if server is None:
            context = self._context
            web_context = WebContext(context.cluster, context.loop, node.name, self._urls_of, encrypted)
            server = WebServer(web_context, self._check)
            self._servers[node.name, encrypted] = server
        return server

    def _urls_of(self, name: str) -> BrokerUrls:
        node = self._context.directory.node(name)
        return BrokerUrls(node.service_url, node.service_url_tls, node.web_url, node.web_url_tls, node.advertised)

    def _check(self, authorization: str, certificate_name: CertificateName) -> None:
        """Refuse a request whose credentials are no good."""
        context = self._context
        method, data = credentials_in(authorization)
        if not method and context.certificates:
            method = "tls"  # which is shown by TLS and not by the request
        try:
            identify(context, method, data, certificate_name)
        except TokenRefused as fault:
            schemes = ("Bearer", context.tokens is not None), ("Basic", context.passwords is not None)
            challenges = tuple(("WWW-Authenticate", scheme) for scheme, is_taken in schemes if is_taken)
            raise HttpRefusal(401, str(fault), challenges) from fault


class TlsTransport(Transport):
    """TLS on the broker's side: a transport of plain bytes for its owner, and the owner of the encrypted transport.

    It takes bytes to encrypt only when all encrypted bytes are written, so that few encrypted bytes wait here.
    """

    __slots__ = ("_encrypted", "_loop", "_owner", "_room_wanted", "_stream", "_transport")

    def __init__(self, loop: Loop, transport: Transport, tls_context: ssl.SSLContext) -> None:
        self._loop = loop
        self._transport = transport
        self._stream = TlsStream(tls_context, server_side=True)
        self._encrypted: deque[Buffer] = deque()  # not taken by the transport yet
        self._room_wanted = False  # the owner waits for room
        self._owner: TransportOwner | None = None
        self._put(self._stream.start())

    def peer_name(self) -> str | None:
        """Return the name in the peer's certificate."""
        return self._stream.peer_name()

    def set_owner(self, owner: TransportOwner) -> None:
        """Set the owner of the plain bytes."""
        self._owner = owner

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt a limited part of the buffers; nothing while encrypted bytes wait."""
        if self._owner is None or self._encrypted or not self._stream.is_agreed:
            return 0
        taken, portion = 0, list[Buffer]()
        for buffer in buffers:
            part = memoryview(buffer)[: _MAX_ENCRYPTED_AT_ONCE - taken]
            portion.append(part)
            taken += len(part)
        for data in self._stream.encrypt(portion):
            self._encrypted.append(data)
        self._flush()
        return taken

    def await_room(self) -> None:
        """Call `writable` of the owner when the handshake is done and nothing waits."""
        self._room_wanted = True
        self._loop.post(self._offer_room, None)

    def close(self) -> None:
        """Close the transport, with a TLS close notification if that can be written now."""
        if self._owner is not None:
            self._owner = None
            if not self._encrypted and self._stream.is_agreed:
                self._transport.send([self._stream.close_notify()])
        self._transport.close()

    def opened(self) -> None:
        """Do nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Decrypt the bytes, and pass them on."""
        try:
            output = self._stream.feed(data)
        except TlsFailed as failure:
            self._put(self._stream.alert())
            self._transport.close()
            self.lost(str(failure))
            return
        self._put(output.to_send)
        if output.agreed:
            self._offer_room(None)
        if output.plaintext and self._owner is not None:
            self._owner.received(output.plaintext)
        if output.ended:
            self._transport.close()
            self.lost("the peer closed the connection")

    def writable(self) -> None:
        """Send more of the encrypted bytes."""
        self._flush()
        self._offer_room(None)

    def lost(self, reason: str) -> None:
        """Pass it on."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(reason)

    def _put(self, data: bytes) -> None:
        if data:
            self._encrypted.append(data)
            self._flush()

    def _flush(self) -> None:
        wire = self._encrypted
        while wire:
            batch = list(islice(wire, _MAX_BUFFERS))
            offered = sum(map(len, batch))
            taken = left = self._transport.send(batch)
            while wire and left >= len(wire[0]):
                left -= len(wire.popleft())
            if taken < offered:
                wire[0] = memoryview(wire[0])[left:]
                self._transport.await_room()
                return

    def _offer_room(self, _: None) -> None:
        if self._room_wanted and not self._encrypted and self._stream.is_agreed and self._owner is not None:
            self._room_wanted = False
            self._owner.writable()


class CutTransport(Transport):
    """A transport that a fault ends after so many bytes in one direction, even inside a frame."""

    __slots__ = ("_loop", "_owner", "_receive_quota", "_send_quota", "_transport")

    def __init__(self, loop: Loop, transport: Transport, reception: Reception) -> None:
        self._loop = loop
        self._transport = transport
        self._send_quota = reception.sent
        self._receive_quota = reception.received
        self._owner: TransportOwner | None = None

    def set_owner(self, owner: TransportOwner) -> None:
        """Set the owner."""
        self._owner = owner

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Send no more bytes than the fault allows."""
        if self._owner is None:
            return 0
        if self._send_quota is None:
            return self._transport.send(buffers)
        allowed, left = list[Buffer](), self._send_quota
        for buffer in buffers:
            allowed.append(memoryview(buffer)[:left])
            left -= min(left, len(buffer))
        taken = self._transport.send(allowed)
        self._send_quota -= taken
        if not self._send_quota:
            self._cut()
        return taken

    def await_room(self) -> None:
        """Pass it on."""
        self._transport.await_room()

    def close(self) -> None:
        """Close it."""
        self._owner = None
        self._transport.close()

    def opened(self) -> None:
        """Do nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Pass on no more bytes than the fault allows."""
        owner = self._owner
        if owner is None:
            return
        if self._receive_quota is None:
            owner.received(data)
            return
        allowed = data[: self._receive_quota]
        self._receive_quota -= len(allowed)
        if allowed:
            owner.received(allowed)
        if not self._receive_quota:
            self._cut()

    def writable(self) -> None:
        """Pass it on."""
        if self._owner is not None:
            self._owner.writable()

    def lost(self, reason: str) -> None:
        """Pass it on."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(reason)

    def _cut(self) -> None:
        """Close the transport at once, and tell the owner after this turn."""
        self._transport.close()
        self._loop.post(self.lost, "a scripted fault cut the connection")


class SilentConnection:
    """The owner of a transport that a fault keeps open without an answer, or has closed already."""

    __slots__ = ()

    def opened(self) -> None:
        """Do nothing."""

    def received(self, data: bytes) -> None:
        """Do nothing."""

    def writable(self) -> None:
        """Do nothing."""

    def lost(self, reason: str) -> None:
        """Do nothing."""
