"""TCP transports on a loop: non-blocking sockets, one read for each event, gathered writes.

A host name is resolved off the loop, since a name server may take long. Its addresses are tried in turn: the next one
when one fails, or has not answered for a moment, and the first that answers is used, in the manner of RFC 8305 (Happy
Eyeballs). So an address that drops packets does not take the time of the others. Each name is resolved in a thread of
its own, so one that hangs holds up no other. A transport that is closed does not wait for its
name: so this takes no longer than the owner allows for the connection.

An error is reported to the owner as `lost`. This is never done during the owner's own call, so an owner is not
re-entered.
"""

import errno
import os
import select
import selectors
import socket
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

from pulsar_actors.runtime.loop import MAX_BUFFERS, Buffer, Listener, Loop, Transport, TransportOwner

SMALL_READ, LARGE_READ = 64 * 1024, 1024 * 1024
"""The most bytes of one read: large after a full one, because all that follows a read is then done once for more bytes.
The memory for a large read is mapped and unmapped each time, which takes several times as long as a small read does.
"""

FEW = 16 * 1024
"""After a read of fewer bytes than this the next one is small again."""

BACKLOG = 128
RESOLVE_TIMEOUT = 30.0
"""The most seconds for a name, if the owner does not close the transport earlier."""

NEXT_ADDRESS_AFTER = 0.25
"""In seconds: if an address has not answered by then, it is tried further, but the next one as well."""

_GATHERS = hasattr(socket.socket, "sendmsg")  # not on Windows
_BUSY = (BlockingIOError, InterruptedError)
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR)

_names = count(1)  # one for each name that is resolved
_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class SocketLoop(Loop):
    """A loop with TCP connections. `written` is the one that was written last, unless it is closed.

    `epoll` is the selector's own, if it has one. With it, connections can be lent while the loop's thread sleeps.
    """

    written: "TcpTransport | None" = None
    epoll: Any = None


class TcpTransport(Transport):
    """One TCP connection, to the first address of the host that answers.

    An idle one can be lent to a caller that waits for an answer (`thread_loop.py`): the loop does not hear of bytes any
    longer, until it is taken back, or waits for room to write. The selector does not know that, only epoll does.
    """

    __slots__ = (
        "_addresses",
        "_dialled",
        "_loop",
        "_mask",
        "_no_delay",
        "_owner",
        "_poll",
        "_problem",
        "_read_size",
        "_resolver",
        "_selector",
        "_socket",
        "_wants_room",
        "is_lent",
    )

    def __init__(self, loop: SocketLoop, selector: selectors.BaseSelector, *, no_delay: bool = True) -> None:
        self._loop = loop
        self._no_delay = no_delay
        self._selector = selector
        self._owner: TransportOwner | None = None
        self._socket: socket.socket | None = None
        self._resolver: str | None = None  # the executor that resolves the name
        self._addresses: list[_Address] = []  # those that were not tried
        self._dialled: list[socket.socket] = []  # those that have not answered
        self._problem = "its name has no address"
        self._mask = 0
        self._read_size = SMALL_READ
        self.is_lent = False
        self._wants_room = False
        self._poll: Any = None  # what a caller waits with, from the first one on

    def dial(self, host: str, port: int, owner: TransportOwner) -> None:
        """Begin to connect."""
        self._owner = owner
        address = _numeric_address(host, port)
        if address is not None:
            self._loop.post(self._resolved, [address])
        else:
            self._resolver = f"name-{next(_names)}"
            self._loop.run_blocking(
                lambda: _resolve(host, port), self._resolved, timeout=RESOLVE_TIMEOUT, executor=self._resolver
            )

    def adopt(self, accepted: socket.socket) -> None:
        """Use an accepted socket. The caller calls `set_owner` before the loop goes on."""
        self._socket = _prepared(accepted, no_delay=self._no_delay)
        self._watch(selectors.EVENT_READ)

    def set_owner(self, owner: TransportOwner) -> None:
        """Set the owner of an accepted connection."""
        self._owner = owner

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Write as much as the socket takes."""
        if self._socket is None:
            return 0
        self._loop.written = self
        try:
            if _GATHERS:
                return self._socket.sendmsg(buffers[:MAX_BUFFERS])
            return self._socket.send(buffers[0]) if buffers else 0
        except _BUSY:
            return 0
        except OSError as error:
            self._loop.post(self._lose, _reason(error))
            return 0

    def await_room(self) -> None:
        """Watch once for room to write; before the socket is connected, from its connection on."""
        if self._socket is not None:
            self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
        else:
            self._wants_room = True

    def close(self) -> None:
        """Close the socket."""
        self._owner = None
        self._addresses = []
        self._give_up_resolver()
        self._hang_up()
        self._discard()

    def lend(self) -> bool:
        """Stop watching for bytes, because a caller reads them. Return False if it is not idle, or lent already."""
        epoll = self._loop.epoll
        if epoll is None or self.is_lent or self._mask != selectors.EVENT_READ or self._socket is None:
            return False
        epoll.modify(self._socket, 0)
        self.is_lent = True
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        return True

    def wait(self, seconds: float) -> None:
        """Wait in the caller's thread until bytes have arrived, for so many seconds at most."""
        self._poll.poll(seconds * 1000)

    def take_back(self) -> None:
        """Watch for bytes again."""
        if self.is_lent:
            self._loop.epoll.modify(self._socket, select.EPOLLIN)
            self.is_lent = False

    def _resolved(self, addresses: list[_Address] | Exception) -> None:
        self._give_up_resolver()
        if self._owner is None:
            return
        if isinstance(addresses, Exception):
            self._problem = _reason(addresses)
        else:
            self._addresses = addresses
        self._try_next()

    def _give_up_resolver(self) -> None:
        resolver, self._resolver = self._resolver, None
        if resolver is not None:
            self._loop.give_up_executor(resolver)

    def _try_next(self) -> None:
        """Dial addresses until one may answer."""
        while self._addresses:
            family, address = self._addresses.pop(0)
            try:
                dialled = _prepared(socket.socket(family, socket.SOCK_STREAM), no_delay=self._no_delay)
            except OSError as error:
                self._problem = _reason(error)
                continue
            problem = _connect(dialled, address)
            if problem is None:
                self._await_answer(dialled)
                return
            self._problem = problem
            dialled.close()
        if not self._dialled:
            self._lose(self._problem)

    def _await_answer(self, dialled: socket.socket) -> None:
        self._dialled.append(dialled)
        self._selector.register(dialled, selectors.EVENT_WRITE, partial(self._answered, dialled))
        if self._addresses:
            self._loop.later(NEXT_ADDRESS_AFTER, self._try_next_as_well, len(self._addresses))

    def _try_next_as_well(self, left: int) -> None:
        """Dial the next address after the one that left so many, unless that was done meanwhile, or none is needed."""
        if self._addresses and len(self._addresses) == left:
            self._try_next()

    def _answered(self, dialled: socket.socket, _: int) -> None:
        if dialled not in self._dialled:  # given up in the same turn of the loop
            return
        self._dialled.remove(dialled)
        self._selector.unregister(dialled)
        problem = dialled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            self._problem = os.strerror(problem)
            dialled.close()
            self._try_next()
        else:
            self._connected(dialled)

    def _connected(self, dialled: socket.socket) -> None:
        self._addresses = []
        self._hang_up()
        self._socket = dialled
        self._watch(selectors.EVENT_READ | (selectors.EVENT_WRITE if self._wants_room else 0))
        if self._owner is not None:
            self._owner.opened()

    def _hang_up(self) -> None:
        """Give up the addresses that have not answered."""
        given_up, self._dialled = self._dialled, []
        for dialled in given_up:
            self._selector.unregister(dialled)
            dialled.close()

    def _ready(self, mask: int) -> None:
        """Write and read as the selector's mask says."""
        if self._socket is None:  # closed in the same turn of the loop, by an event of another socket
            return
        if mask & selectors.EVENT_WRITE:
            self._watch(selectors.EVENT_READ)
            if self._owner is not None:
                self._owner.writable()
        if mask & selectors.EVENT_READ:
            self.read()

    def read(self) -> None:
        """Read once, if there is something to read."""
        if self._socket is None or self._owner is None:  # closed by the owner in the same turn of the loop
            return
        try:
            data = self._socket.recv(self._read_size)
        except _BUSY:
            return
        except OSError as error:
            self._lose(_reason(error))
            return
        if data:
            if len(data) == SMALL_READ:
                self._read_size = LARGE_READ
            elif len(data) < FEW:
                self._read_size = SMALL_READ
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
            self._selector.register(self._socket, mask, self._ready)
        elif mask != self._mask:
            self._selector.modify(self._socket, mask, self._ready)
            self.is_lent = False
        self._mask = mask

    def _discard(self) -> None:
        if self._socket is None:
            return
        if self._mask:
            self._selector.unregister(self._socket)
            self._mask = 0
        self._socket.close()
        self._socket = None
        self.is_lent = False
        if self._loop.written is self:
            self._loop.written = None


class TcpListener(Listener):
    """A listening TCP socket."""

    def __init__(
        self,
        loop: SocketLoop,
        selector: selectors.BaseSelector,
        address: tuple[str, int],
        accept: Callable[[Transport, str], TransportOwner],
    ) -> None:
        self._loop = loop
        self._selector = selector
        self._accept = accept
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket: socket.socket | None = socket.create_server(address, family=family, backlog=BACKLOG)
        self._socket.settimeout(0)
        self._port = int(self._socket.getsockname()[1])
        selector.register(self._socket, selectors.EVENT_READ, self._ready)

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

    def _ready(self, _: int) -> None:
        if self._socket is None:
            return
        try:
            accepted, peer = self._socket.accept()
        except OSError:  # the peer has gone, or too many files are open: the next event tries again
            return
        transport = TcpTransport(self._loop, self._selector)
        transport.adopt(accepted)
        try:
            transport.set_owner(self._accept(transport, str(peer[0])))
        except BaseException:
            transport.close()
            raise


def _prepared(made: socket.socket, *, no_delay: bool) -> socket.socket:
    """Make a socket non-blocking; with `no_delay`, small writes do not wait for larger ones."""
    made.settimeout(0)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, no_delay)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def _connect(dialled: socket.socket, address: tuple[Any, ...]) -> str | None:
    """Begin to connect; return the problem if that has failed already."""
    try:
        problem = dialled.connect_ex(address)
    except OSError as error:
        return _reason(error)
    return None if problem in _UNDER_WAY else os.strerror(problem)


def _numeric_address(host: str, port: int) -> _Address | None:
    """Return the address if the host is an IP address, which needs no name server; None for a name."""
    try:
        found = socket.getaddrinfo(_ascii(host), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:
        return None
    return found[0][0], found[0][4]


def _resolve(host: str, port: int) -> list[_Address]:
    """Resolve a host name; this may block."""
    found = socket.getaddrinfo(_ascii(host), port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _ascii(host: str) -> bytes:
    """Encode a host: for a str, Python would load its codec for international names, which takes a while."""
    return host.encode()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
