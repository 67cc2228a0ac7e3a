"""TLS between a socket and whoever speaks through it, on the broker's side.

It is a transport of plain bytes to the one above and the owner of the encrypted one below. It takes something to
encrypt only when all that was encrypted before has left, so that no more waits here than a socket is busy with.
"""

import ssl
from collections import deque
from collections.abc import Sequence
from itertools import islice

from pulsar_actors.runtime.loop import Buffer, Loop, Owner, Transport
from pulsar_actors.runtime.tls import TlsStream
from pulsar_actors.runtime.tls_faults import TlsFailed

__all__ = ["TlsTransport"]

_AT_ONCE = 256 * 1024
_MOST_BUFFERS = 64


class TlsTransport(Transport):
    """The encrypted side of one accepted connection."""

    __slots__ = ("_loop", "_owner", "_stream", "_transport", "_wanted", "_wire")

    def __init__(self, loop: Loop, transport: Transport, context: ssl.SSLContext) -> None:
        self._loop = loop
        self._transport = transport
        self._stream = TlsStream(context, server_side=True)
        self._wire: deque[Buffer] = deque()  # encrypted, on its way
        self._wanted = False  # the one above waits for room
        self._owner: Owner | None = None
        self._put(self._stream.start())

    def peer_name(self) -> str | None:
        """Give the name in the peer's certificate."""
        return self._stream.peer_name()

    def own(self, owner: Owner) -> None:
        """Name whoever is above."""
        self._owner = owner

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt as much as is sensible at once, and none while something waits below."""
        if self._owner is None or self._wire or not self._stream.is_agreed:
            return 0
        taken, portion = 0, list[Buffer]()
        for buffer in buffers:
            part = memoryview(buffer)[: _AT_ONCE - taken]
            portion.append(part)
            taken += len(part)
        for data in self._stream.encrypt(portion):
            self._wire.append(data)
        self._flush()
        return taken

    def await_room(self) -> None:
        """Say `writable` when the handshake is done and nothing waits below."""
        self._wanted = True
        self._loop.post(self._offer_room, None)

    def close(self) -> None:
        """Say goodbye if that fits now, and end it."""
        if self._owner is not None:
            self._owner = None
            if not self._wire and self._stream.is_agreed:
                self._transport.send([self._stream.close_notify()])
        self._transport.close()

    def opened(self) -> None:
        """Hear nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Decrypt it, and pass it on."""
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
        """Go on sending what is encrypted."""
        self._flush()
        self._offer_room(None)

    def lost(self, reason: str) -> None:
        """Pass it on."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(reason)

    def _put(self, data: bytes) -> None:
        if data:
            self._wire.append(data)
            self._flush()

    def _flush(self) -> None:
        wire = self._wire
        while wire:
            batch = list(islice(wire, _MOST_BUFFERS))
            offered = sum(map(len, batch))
            taken = left = self._transport.send(batch)
            while wire and left >= len(wire[0]):
                left -= len(wire.popleft())
            if taken < offered:
                wire[0] = memoryview(wire[0])[left:]
                self._transport.await_room()
                return

    def _offer_room(self, _: None) -> None:
        if self._wanted and not self._wire and self._stream.is_agreed and self._owner is not None:
            self._wanted = False
            self._owner.writable()
