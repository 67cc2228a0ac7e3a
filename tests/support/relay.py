"""The network between a client and a broker: a TCP relay that can do what networks do."""

import contextlib
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable

CHUNK = 65_536
PATIENCE = 10.0
_ABORTS = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose close sends RST."""


class _Pair:
    """A connection of a client, and that to the broker."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.client = client
        self.broker = broker
        self.is_half_open = False
        self.has_garbage = False

    def abort(self) -> None:
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTS)
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads it
            end.close()

    def end(self) -> None:
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lose_broker(self) -> None:
        """End the connection to the broker, and do not tell the client."""
        self.is_half_open = True
        with contextlib.suppress(OSError):
            self.broker.shutdown(socket.SHUT_RDWR)


class Relay:
    """Relays connections to one port of a broker, which may not listen yet. It ends with the block."""

    def __init__(self, service_url: str = "") -> None:
        """Relay to this URL, or to what `lead_to` says later."""
        self._target = ("127.0.0.1", int(service_url.rpartition(":")[2] or 0))
        self.connections = 0
        """How many there have been so far."""
        self._pairs: list[_Pair] = []
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        """All that were ever open: a half-open one may still be read from."""
        self._lock = threading.Lock()
        self._passes = threading.Event()
        self._passes.set()
        self._delay = 0.0
        self._bytes_per_second = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        self.port: int = self._listener.getsockname()[1]
        self.service_url = f"pulsar://127.0.0.1:{self.port}"
        self._begin(self._accept)

    def lead_to(self, port: int) -> None:
        """Relay to this port from now on."""
        self._target = ("127.0.0.1", port)

    def reset(self) -> None:
        """End all connections with RST, on both sides."""
        for pair in self._take_pairs():
            pair.abort()

    def cut(self) -> None:
        """End all connections, on both sides."""
        for pair in self._take_pairs():
            pair.end()

    def half_open(self) -> None:
        """End all connections to the broker. The client's stay open, and nobody answers there any more."""
        for pair in self._take_pairs():
            pair.lose_broker()

    def corrupt(self) -> None:
        """Put garbage into all streams to the client."""
        with self._lock:
            for pair in self._pairs:
                pair.has_garbage = True

    def refuse(self) -> None:
        """Accept no connection from now on."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def stall(self) -> None:
        """Read nothing and pass nothing on, in either direction, nor for connections that are made meanwhile."""
        self._passes.clear()

    def slow_down(self, delay: float, bytes_per_second: int) -> None:
        """Pass everything on late, and no faster than this."""
        self._delay, self._bytes_per_second = delay, bytes_per_second

    def heal(self) -> None:
        """Relay well from now on. What was held back is passed on."""
        self._delay, self._bytes_per_second = 0.0, 0
        self._passes.set()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self.heal()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        for end in self._sockets:
            end.close()

    def _take_pairs(self) -> list[_Pair]:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        return pairs

    def _begin(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True, name="relay")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            self._begin(lambda client=client: self._relay(client))  # type: ignore[misc]

    def _relay(self, client: socket.socket) -> None:
        self._passes.wait()
        try:
            broker = socket.create_connection(self._target, PATIENCE)
        except OSError:
            client.close()
            return
        broker.settimeout(None)
        self._sockets.append(broker)
        pair = _Pair(client, broker)
        with self._lock:
            self._pairs.append(pair)
            self.connections += 1
        self._begin(lambda: self._pass_on(pair, client, broker))
        self._pass_on(pair, broker, client)

    def _pass_on(self, pair: _Pair, one: socket.socket, other: socket.socket) -> None:
        to_client = other is pair.client
        with contextlib.suppress(OSError):
            while self._passes.wait() and (data := one.recv(CHUNK)):
                self._passes.wait()
                if self._delay:
                    time.sleep(self._delay + len(data) / self._bytes_per_second)
                if to_client and pair.has_garbage:
                    pair.has_garbage = False
                    data = secrets.token_bytes(64) + data
                if not pair.is_half_open:
                    other.sendall(data)
        if pair.is_half_open:
            return  # the client is not told
        pair.end()
