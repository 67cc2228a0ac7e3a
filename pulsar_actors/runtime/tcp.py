"""TCP on a loop: non-blocking sockets, one read for each time that there is something to read, gathered writes.

A host name is resolved off the loop, for that may block for as long as a name server likes; each of its addresses is
tried in turn. Whatever goes wrong is told to the owner as `lost`, and always later, never from within a call of the
owner's own: so an owner is never entered twice.
"""

import errno
import os
import selectors
import socket
from collections.abc import Callable, Sequence
from typing import Any

from pulsar_actors.runtime.loop import MOST_BUFFERS, Buffer, Listener, Loop, Owner, Transport

READ_SIZE = 256 * 1024
BACKLOG = 128
RESOLVE_TIMEOUT = 30.0
_GATHERS = hasattr(socket.socket, "sendmsg")  # not on Windows
_BUSY = (BlockingIOError, InterruptedError)
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR)

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class TcpTransport(Transport):
    """One TCP stream, over the first of its peer's addresses that answers."""

    __slots__ = (
        "_addresses",
        "_is_open",
        "_loop",
        "_mask",
        "_no_delay",
        "_owner",
        "_problem",
        "_selector",
        "_socket",
        "_wants_room",
    )

    def __init__(self, loop: Loop, selector: selectors.BaseSelector, *, no_delay: bool = True) -> None:
        self._loop = loop
        self._no_delay = no_delay
        self._selector = selector
        self._owner: Owner | None = None
        self._socket: socket.socket | None = None
        self._addresses: list[_Address] = []
        self._problem = "its name has no address"
        self._mask = 0
        self._is_open = False
        self._wants_room = False

    def dial(self, host: str, port: int, owner: Owner) -> None:
        """Begin to connect."""
        self._owner = owner
        address = _literal(host, port)
        if address is not None:
            self._loop.post(self._resolved, [address])
        else:
            self._loop.off_loop(lambda: _resolve(host, port), self._resolved, timeout=RESOLVE_TIMEOUT)

    def adopt(self, accepted: socket.socket) -> None:
        """Take a socket that is connected; its owner is named with `own`, in the same turn."""
        self._socket = _prepared(accepted, no_delay=self._no_delay)
        self._is_open = True
        self._watch(selectors.EVENT_READ)

    def own(self, owner: Owner) -> None:
        """Name the owner of an accepted connection."""
        self._owner = owner

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Write what the socket takes."""
        if self._socket is None or not self._is_open:
            return 0
        try:
            if _GATHERS:
                return self._socket.sendmsg(buffers[:MOST_BUFFERS])
            return self._socket.send(buffers[0]) if buffers else 0
        except _BUSY:
            return 0
        except OSError as error:
            self._loop.post(self._lose, _reason(error))
            return 0

    def await_room(self) -> None:
        """Watch for room, once; before the connection is there, as soon as it is."""
        if self._is_open:
            self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
        else:
            self._wants_room = True

    def close(self) -> None:
        """Close the socket."""
        self._owner = None
        self._addresses = []
        self._discard()

    def _resolved(self, addresses: list[_Address] | Exception) -> None:
        if isinstance(addresses, Exception):
            self._problem = _reason(addresses)
        else:
            self._addresses = addresses
        self._try_next(None)

    def _try_next(self, _: None) -> None:
        if self._owner is None:
            return
        if not self._addresses:
            self._lose(self._problem)
            return
        family, address = self._addresses.pop(0)
        try:
            self._socket = _prepared(socket.socket(family, socket.SOCK_STREAM), no_delay=self._no_delay)
            problem = self._socket.connect_ex(address)
        except OSError as error:
            self._failed(_reason(error))
            return
        if problem in _UNDER_WAY:
            self._watch(selectors.EVENT_WRITE)
        else:
            self._failed(os.strerror(problem))

    def _failed(self, problem: str) -> None:
        self._problem = problem
        self._discard()
        self._try_next(None)

    def _happened(self, mask: int) -> None:
        """Do what the selector says can be done."""
        if self._socket is None:  # closed because of what another socket had to say in the same turn
            return
        if not self._is_open:
            self._connected()
            return
        if mask & selectors.EVENT_WRITE:
            self._watch(selectors.EVENT_READ)
            if self._owner is not None:
                self._owner.writable()
        if mask & selectors.EVENT_READ:
            self._read()

    def _connected(self) -> None:
        assert self._socket is not None  # noqa: S101 - the selector watches it
        problem = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            self._failed(os.strerror(problem))
            return
        self._is_open = True
        self._watch(selectors.EVENT_READ | (selectors.EVENT_WRITE if self._wants_room else 0))
        if self._owner is not None:
            self._owner.opened()

    def _read(self) -> None:
        if self._socket is None or self._owner is None:  # closed by the owner, in the same turn
            return
        try:
            data = self._socket.recv(READ_SIZE)
        except _BUSY:
            return
        except OSError as error:
            self._lose(_reason(error))
            return
        if data:
            self._owner.received(data)
        else:
            self._lose("the peer closed the connection")

    def _lose(self, reason: str) -> None:
        owner, self._owner = self._owner, None
        self._discard()
        if owner is not None:
            owner.lost(reason)

    def _watch(self, mask: int) -> None:
        assert self._socket is not None  # noqa: S101 - its callers have one
        if not self._mask:
            self._selector.register(self._socket, mask, self._happened)
        elif mask != self._mask:
            self._selector.modify(self._socket, mask, self._happened)
        self._mask = mask

    def _discard(self) -> None:
        if self._socket is None:
            return
        if self._mask:
            self._selector.unregister(self._socket)
            self._mask = 0
        self._socket.close()
        self._socket = None
        self._is_open = False


class TcpListener(Listener):
    """A listening TCP socket."""

    def __init__(
        self,
        loop: Loop,
        selector: selectors.BaseSelector,
        address: tuple[str, int],
        accept: Callable[[Transport, str], Owner],
    ) -> None:
        self._loop = loop
        self._selector = selector
        self._accept = accept
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket: socket.socket | None = socket.create_server(address, family=family, backlog=BACKLOG)
        self._socket.settimeout(0)
        self._port = int(self._socket.getsockname()[1])
        selector.register(self._socket, selectors.EVENT_READ, self._happened)

    @property
    def port(self) -> int:
        """The port."""
        return self._port

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def _happened(self, _: int) -> None:
        if self._socket is None:
            return
        try:
            accepted, peer = self._socket.accept()
        except OSError:  # it has gone again, or there are too many files open: the next event tries again
            return
        transport = TcpTransport(self._loop, self._selector)
        transport.adopt(accepted)
        try:
            transport.own(self._accept(transport, str(peer[0])))
        except BaseException:
            transport.close()
            raise


def _prepared(made: socket.socket, *, no_delay: bool) -> socket.socket:
    """Have no call of ours wait, nor, with `no_delay`, small writes for larger ones."""
    made.settimeout(0)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, no_delay)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def _literal(host: str, port: int) -> _Address | None:
    """Give the address that a host is if it is no name: then nobody need be asked."""
    try:
        found = socket.getaddrinfo(_ascii(host), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:
        return None
    return found[0][0], found[0][4]


def _resolve(host: str, port: int) -> list[_Address]:
    """Ask for the addresses of a name; this may block."""
    found = socket.getaddrinfo(_ascii(host), port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _ascii(host: str) -> bytes:
    """Give a host as bytes: of a str, Python has its codec for international names loaded, which takes a while."""
    return host.encode()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
