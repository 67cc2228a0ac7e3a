"""A recorder between a client and a broker: it forwards every byte both ways and keeps each whole frame.

It cuts the stream at the four-byte sizes itself: what it keeps does not depend on the code that is tested with it.
"""

import itertools
import socket
import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

CHUNK = 1 << 16


class Recorded(NamedTuple):
    connection: int
    sender: str  # "client" or "broker"
    step: str  # what the script was doing
    frame: bytes


class Tap:
    """Forward `port` to `self.target`, which may be set after the port is known."""

    def __init__(self) -> None:
        self.step = ""
        self.target = 0
        self._frames: list[Recorded] = []
        self._open: set[socket.socket] = set()
        self._quiet = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def taken(self) -> list[Recorded]:
        """Wait until every connection has ended; give what was recorded since the last call."""
        with self._quiet:
            self._quiet.wait_for(lambda: not self._open, 30)
            frames, self._frames = self._frames, []
        return frames

    def _accept(self) -> None:
        for connection in itertools.count():
            client, _ = self._listener.accept()
            broker = socket.create_connection(("127.0.0.1", self.target))
            with self._quiet:
                self._open |= {client, broker}
            for sender, source, sink in (("client", client, broker), ("broker", broker, client)):
                threading.Thread(target=self._pump, args=(connection, sender, source, sink), daemon=True).start()

    def _pump(self, connection: int, sender: str, source: socket.socket, sink: socket.socket) -> None:
        keep = self._cutter(connection, sender)
        try:
            while data := source.recv(CHUNK):
                keep(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            sink.close()
        with self._quiet:
            self._open.discard(source)
            self._quiet.notify_all()

    def _cutter(self, connection: int, sender: str) -> Callable[[bytes], None]:
        rest = bytearray()

        def keep(data: bytes) -> None:
            rest.extend(data)
            while len(rest) >= 4:
                size = 4 + struct.unpack_from(">I", rest)[0]
                if len(rest) < size:
                    return
                with self._quiet:
                    self._frames.append(Recorded(connection, sender, self.step, bytes(rest[:size])))
                del rest[:size]

        return keep
