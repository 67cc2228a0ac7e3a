"""A recorder between a client and a broker: it forwards every frame in both directions, and keeps it.

It cuts the stream into frames itself, by the four-byte sizes, so the recording does not depend on the code under test.
`alter` may replace a frame on its way; the recording has the original.
"""

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

CHUNK = 1 << 16


class Recorded(NamedTuple):
    connection: int
    sender: str  # "client" or "broker"
    step: str  # the step of the script
    frame: bytes


class Tap:
    """A recorder that forwards `port` to `self.target`, which may be set later."""

    def __init__(self, alter: Callable[[bytes], bytes] = bytes) -> None:
        self.step = ""
        self.target = 0
        self._alter = alter
        self._frames: list[Recorded] = []
        self._open: set[socket.socket] = set()
        self._quiet = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def taken(self) -> list[Recorded]:
        """Wait until every connection has ended, and return the frames since the last call."""
        with self._quiet:
            self._quiet.wait_for(lambda: not self._open, 30)
            frames, self._frames = self._frames, []
        return frames

    def passed(self) -> list[Recorded]:
        """Return the frames so far, and keep them."""
        with self._quiet:
            return list(self._frames)

    def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        with contextlib.suppress(OSError):  # macOS cannot shut a listener down
            self._listener.shutdown(socket.SHUT_RDWR)  # because a blocked accept does not notice a close
        self._listener.close()
        with self._quiet:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self.taken()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            for connection in itertools.count():
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(connection, client), daemon=True).start()

    def _connect(self, connection: int, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self.target)) as broker:
            with self._quiet:
                self._open |= {client, broker}
            answers = threading.Thread(target=self._pump, args=(connection, "broker", broker, client))
            answers.start()
            self._pump(connection, "client", client, broker)
            answers.join()
            with self._quiet:
                self._open -= {client, broker}
                self._quiet.notify_all()

    def _pump(self, connection: int, sender: str, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for frame in _frames_of(source):
                with self._quiet:
                    self._frames.append(Recorded(connection, sender, self.step, frame))
                sink.sendall(self._alter(frame))
        for end in (source, sink):  # the other side has closed
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR if end is sink else socket.SHUT_RD)


def _frames_of(source: socket.socket) -> Iterator[bytes]:
    rest = bytearray()
    while data := source.recv(CHUNK):
        rest.extend(data)
        while len(rest) >= 4 and len(rest) >= (size := 4 + struct.unpack_from(">I", rest)[0]):
            yield bytes(rest[:size])
            del rest[:size]
