"""The actor of one socket: it reads and writes frames for the actor of its connection.

It connects to one host, once. For the next host its connection starts another socket actor, with another serial number,
so that events of a socket that was closed are recognised and dropped. All frames of one read go to the connection in
one message.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pulsar_actors.exceptions import InternalError
from pulsar_actors.machines.connection_events import (
    AllowFrames,
    AwaitActivity,
    CloseSocket,
    OpenSocket,
    PeerActive,
    SocketLost,
    StartTls,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
    WriteFrames,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, LoopActor, tell
from pulsar_actors.runtime.loop import Loop, Transport, TransportOwner
from pulsar_actors.runtime.transport import BufferedTransport
from pulsar_actors.wire.errors import FrameError
from pulsar_actors.wire.frames import Frame, FrameReader

if TYPE_CHECKING:
    import ssl

MakeTlsContext = Callable[[], "ssl.SSLContext"]
TLS_CONTEXT_TIMEOUT = 30.0  # reading certificates from a disk


class SocketEvent(NamedTuple):
    """To the connection: an event of its socket with this serial number."""

    serial: int
    event: object


class FramesReceived(NamedTuple):
    """The whole frames of one read."""

    frames: list[Frame]


class SocketActor(LoopActor):
    """The actor of one socket of a connection."""

    def __init__(
        self, loop: Loop, connection: ActorRef, serial: int, make_context: MakeTlsContext, to: OpenSocket
    ) -> None:
        super().__init__(loop, connection)
        self._connection = connection
        self._serial = serial
        self._make_context = make_context
        self._reader = FrameReader()

        def connect(owner: TransportOwner) -> Transport:
            return loop.connect(to.host, to.port, owner, no_delay=to.no_delay)

        self._transport = BufferedTransport(self, connect, tls_follows=to.tls)

    def receive(self, message: object) -> None:
        """Take the connection's messages."""
        if type(message) is WriteFrames:  # the most frequent one: `match` would look up its field by name
            self._transport.write(message.frames)
            return
        match message:
            case AllowFrames(limit):
                self._reader.limit = limit
            case AwaitActivity():
                self._transport.await_activity(lambda: self._report(PeerActive()))
            case StartTls(host):
                self.run_blocking(
                    self._make_context, lambda made: self._start_tls(made, host), timeout=TLS_CONTEXT_TIMEOUT
                )
            case CloseSocket(flush=True):
                self._transport.close_when_written()
            case CloseSocket():
                self._transport.close()
                self.finish()
            case _:
                raise InternalError(f"a socket does not take {message!r}")

    def opened(self) -> None:
        """Tell the connection that the socket is connected."""
        self._report(TcpOpened())

    def secured(self) -> None:
        """Tell the connection that TLS is agreed."""
        self._report(TlsAgreed())

    def received(self, data: bytes) -> None:
        """Split the bytes into frames. A bug there ends only this actor."""
        self.guarded(self._report_frames, data)

    def lost(self, reason: str) -> None:
        """Tell the connection, and end: a socket connects once."""
        self._report(SocketLost(reason))
        self.finish()

    def certificate_refused(self, reason: str) -> None:
        """Tell the connection, and end."""
        self._report(SocketLost(reason, is_distrusted=True))
        self.finish()

    def abandon(self, bug: Exception) -> None:
        """Close the socket. The connection is this actor's guardian, and is told of the bug."""
        self._transport.close()

    def _report_frames(self, data: bytes) -> None:
        """Report frames. If there is a fault, report the complete frames before it first."""
        try:
            frames = self._reader.feed(data)
        except FrameError as fault:
            self._report(FramesReceived(self._reader.frames_before_fault))
            self._report(StreamBroken(fault))
            return
        if frames:
            tell(self._connection, SocketEvent(self._serial, FramesReceived(frames)))

    def _start_tls(self, made: "ssl.SSLContext | Exception", host: str) -> None:
        if isinstance(made, Exception):
            self._transport.lost(f"TLS could not be set up: {made}")
            return
        from pulsar_actors.runtime.tls import TlsStream  # noqa: PLC0415 - loaded where TLS is spoken

        self._transport.secure(TlsStream(made, host))

    def _report(self, event: object) -> None:
        tell(self._connection, SocketEvent(self._serial, event))
