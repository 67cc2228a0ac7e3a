"""The actor of one socket: it turns bytes into frames and parcels into bytes, for the actor of its connection.

It is made to dial one host, once. Its connection makes another for the next host, and knows them apart by their serial
number, so that a socket that was closed has no voice any longer. All frames of one read go up in one message.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pulsar_actors.exceptions import InternalError
from pulsar_actors.machines.connection_events import (
    AllowFrames,
    CloseSocket,
    OpenSocket,
    SocketLost,
    StartTls,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
)
from pulsar_actors.runtime.actor import Address, LoopActor
from pulsar_actors.runtime.channel import Channel
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.write_queue import Parcel
from pulsar_actors.wire.errors import FrameError
from pulsar_actors.wire.frames import Frame, FrameReader

if TYPE_CHECKING:
    import ssl

MakeContext = Callable[[], "ssl.SSLContext"]
CONTEXT_TIMEOUT = 30.0  # reading certificates from a disk


class FromSocket(NamedTuple):
    """To the connection: what happened on a socket of its own."""

    serial: int
    event: object


class Frames(NamedTuple):
    """The whole frames of one read."""

    frames: list[Frame]


class WriteOut(NamedTuple):
    """From the connection: write these."""

    parcels: tuple[Parcel, ...]


class SocketActor(LoopActor):
    """One socket of one connection."""

    def __init__(self, loop: Loop, connection: Address, serial: int, make_context: MakeContext, to: OpenSocket) -> None:
        super().__init__(loop, connection)
        self._serial = serial
        self._make_context = make_context
        self._reader = FrameReader()
        self._channel = Channel(self, tls_follows=to.tls)
        self._channel.transport = loop.connect(to.host, to.port, self._channel, no_delay=to.no_delay)

    def receive(self, message: object) -> None:
        """Do what the connection says."""
        match message:
            case WriteOut(parcels):
                self._channel.write(parcels)
            case AllowFrames(limit):
                self._reader.limit = limit
            case StartTls(host):
                self.off_loop(self._make_context, lambda made: self._start_tls(made, host), timeout=CONTEXT_TIMEOUT)
            case CloseSocket(flush=True):
                self._channel.close_when_written()
            case CloseSocket():
                self._channel.close()
                self.finish()
            case _:
                raise InternalError(f"a socket does not take {message!r}")

    def opened(self) -> None:
        """Say so."""
        self._say(TcpOpened())

    def secured(self) -> None:
        """Say so."""
        self._say(TlsAgreed())

    def received(self, data: bytes) -> None:
        """Cut what came into frames."""
        self.guarded(self._cut, data)

    def lost(self, reason: str) -> None:
        """Say so; a socket lives once."""
        self._say(SocketLost(reason))
        self.finish()

    def distrusted(self, reason: str) -> None:
        """Say so likewise."""
        self._say(SocketLost(reason, is_distrusted=True))
        self.finish()

    def abandon(self, bug: Exception) -> None:
        """Close the socket; the connection hears of the bug as its guardian."""
        self._channel.close()

    def _cut(self, data: bytes) -> None:
        """Say first the frames that were whole before a fault."""
        try:
            frames = self._reader.feed(data)
        except FrameError as fault:
            self._say(Frames(self._reader.frames_before_fault))
            self._say(StreamBroken(fault))
            return
        if frames:
            self._say(Frames(frames))

    def _start_tls(self, made: "ssl.SSLContext | Exception", host: str) -> None:
        if isinstance(made, Exception):
            self._channel.lost(f"TLS could not be set up: {made}")
            return
        from pulsar_actors.runtime.tls import TlsStream  # noqa: PLC0415 - loaded where TLS is spoken

        self._channel.secure(TlsStream(made, host))

    def _say(self, event: object) -> None:
        self.tell_guardian(FromSocket(self._serial, event))
