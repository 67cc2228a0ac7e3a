"""The transport of a connection: TLS if it is used, and a queue of frames in front of the socket.

The owner writes frames and receives plain bytes. With TLS, frames are encrypted in slices, as the socket takes them, so
few encrypted bytes wait here. If TLS is going to be used, bytes that arrive before it has started are not given to the
owner as plain bytes: they are kept and given to TLS.

The buffers of frames are requested only when they are about to be written. While the peer does not read, the frames
wait in the queue without buffers. The frames of a batch that has ended meanwhile, for example by a send timeout, have
no buffers any longer: nothing is written, and the payload is not kept alive. So a stalled peer costs only the memory of
pending messages, which producers limit, and the buffers of one write.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from pulsar_actors.runtime.loop import MAX_BUFFERS, Buffer, Transport, TransportOwner
from pulsar_actors.runtime.tls_config import PeerDistrusted, TlsFailed

if TYPE_CHECKING:
    from pulsar_actors.runtime.tls import TlsStream

MAX_READY_BYTES: Final = 512 * 1024
"""The most bytes of frames to prepare at once: more than a socket takes."""

_MAX_EARLY_BYTES: Final = 4096
"""The most bytes to keep of those that arrive before TLS has started. A correct peer sends none."""


class OutgoingFrames(Protocol):
    """Frames that are written together."""

    def buffers(self) -> Sequence[Buffer]:
        """Return the bytes to write now; none if the frames are not needed any longer."""
        ...


class EncodedBytes:
    """Outgoing frames that are encoded already."""

    __slots__ = ("_bytes",)

    def __init__(self, data: Buffer) -> None:
        self._bytes = data

    def buffers(self) -> Sequence[Buffer]:
        """Return the bytes."""
        return (self._bytes,)


class BufferedTransportOwner(Protocol):
    """The reader and writer of a transport. No method is called after `lost`, nor after `BufferedTransport.close`."""

    def opened(self) -> None:
        """Handle that the transport is connected."""
        ...

    def secured(self) -> None:
        """Handle that TLS is agreed."""
        ...

    def received(self, data: bytes) -> None:
        """Handle plain bytes that have arrived."""
        ...

    def lost(self, reason: str) -> None:
        """Handle the end of the transport, after `close_when_written` too."""
        ...

    def certificate_refused(self, reason: str) -> None:
        """Handle the end of the transport after the peer's certificate was refused."""
        ...


class BufferedTransport:
    """One connection's transport, with TLS and a write queue. `connect` opens the transport for the owner given."""

    __slots__ = ("_early", "_ending", "_on_activity", "_owner", "_plain", "_tls", "_transport", "_wire")

    def __init__(
        self,
        owner: BufferedTransportOwner,
        connect: Callable[[TransportOwner], Transport],
        *,
        tls_follows: bool = False,
    ) -> None:
        self._owner: BufferedTransportOwner | None = owner
        self._plain = WriteQueue()
        self._wire = self._plain  # with TLS, a queue of its own
        self._tls: TlsStream | None = None
        self._ending = False
        self._on_activity: Callable[[], object] | None = None
        self._early: bytes | None = b"" if tls_follows else None
        self._transport = connect(self)

    def secure(self, tls: "TlsStream") -> None:
        """Start TLS: all later bytes are encrypted."""
        self._tls = tls
        self._wire = WriteQueue()
        self._put_on_wire(tls.start())
        self._pump()
        early, self._early = self._early, None
        if early:
            self.received(early)

    def write(self, frames: Iterable[OutgoingFrames]) -> None:
        """Write frames as soon as there is room."""
        plain = self._plain
        idle = not plain and (self._tls is None or not self._wire)
        plain.add(frames)
        if idle:
            self._pump()

    def await_activity(self, on_activity: Callable[[], object]) -> None:
        """Call a function once, when the peer sends bytes, or takes some for which there is no room now."""
        self._on_activity = on_activity

    def close_when_written(self) -> None:
        """Write what is queued, then end; the owner's `lost` is called."""
        self._ending = True
        if not self._plain and not self._wire:
            self._pump()

    def close(self) -> None:
        """End at once; the owner is not called again."""
        self._owner = None
        self._plain.clear()
        self._wire.clear()
        self._transport.close()

    def opened(self) -> None:
        """Tell the owner that the transport is connected."""
        if self._owner is not None:
            self._owner.opened()

    def received(self, data: bytes) -> None:
        """Decrypt the bytes, if they are encrypted, and pass them to the owner."""
        if self._on_activity is not None:
            self._note_activity(self._on_activity)
        if self._early is not None:
            self._early = (self._early + data)[:_MAX_EARLY_BYTES]
            return
        if self._tls is None:
            if self._owner is not None:
                self._owner.received(data)
            return
        try:
            output = self._tls.feed(data)
        except TlsFailed as failure:
            self._fail(self._tls, failure)
            return
        self._put_on_wire(output.to_send)
        self._pump()
        if output.agreed and self._owner is not None:
            self._owner.secured()
        if output.plaintext and self._owner is not None:
            self._owner.received(output.plaintext)
        if output.ended:
            self.lost("the peer closed the connection")

    def writable(self) -> None:
        """Write more: the transport takes bytes again."""
        if self._on_activity is not None:
            self._note_activity(self._on_activity)
        self._pump()

    def lost(self, reason: str) -> None:
        """Drop all queued frames, and tell the owner."""
        owner = self._owner
        if self._tls is not None:
            reason = self._tls.loss_reason(reason)
        self.close()
        if owner is not None:
            owner.lost(reason)

    def _note_activity(self, on_activity: Callable[[], object]) -> None:
        self._on_activity = None
        on_activity()

    def _pump(self) -> None:
        while self._owner is not None:
            if self._tls is not None:
                self._encrypt(self._tls)
            buffers = self._wire.next_buffers()
            if not buffers:
                break
            waiting = self._wire.ready_bytes
            taken = self._transport.send(buffers)
            self._wire.wrote(taken)
            if taken < waiting:
                self._transport.await_room()
                return
            if self._tls is None and not self._plain.waiting:
                break
        if self._ending:
            self._close_gracefully()

    def _encrypt(self, tls: "TlsStream") -> None:
        if self._wire or not tls.is_agreed:
            return
        buffers = self._plain.next_buffers()
        if buffers:
            for data in tls.encrypt(buffers):
                self._put_on_wire(data)
            self._plain.wrote(self._plain.ready_bytes)

    def _close_gracefully(self) -> None:
        if self._tls is not None:
            self._transport.send([self._tls.close_notify()])
        self.lost("closed")

    def _fail(self, tls: "TlsStream", failure: TlsFailed) -> None:
        """Send the peer an alert, and end."""
        alert = tls.alert()
        if alert:
            self._transport.send([alert])
        owner = self._owner
        self.close()
        if owner is not None and isinstance(failure, PeerDistrusted):
            owner.certificate_refused(str(failure))
        elif owner is not None:
            owner.lost(str(failure))

    def _put_on_wire(self, data: bytes) -> None:
        if data:
            self._wire.add((EncodedBytes(data),))


class WriteQueue:
    """Frames that wait to be written, in order, and the buffers of those to write next, of `ready_bytes` in all."""

    __slots__ = ("_ready", "ready_bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[OutgoingFrames] = deque()
        self._ready: list[Buffer] = []
        self.ready_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._ready or self.waiting)

    def add(self, frames: Iterable[OutgoingFrames]) -> None:
        """Append frames."""
        self.waiting.extend(frames)

    def next_buffers(self) -> Sequence[Buffer]:
        """Return the buffers to write next. The caller does not change the list, and reports by `wrote`."""
        waiting, ready = self.waiting, self._ready
        while waiting and self.ready_bytes < MAX_READY_BYTES and len(ready) < MAX_BUFFERS:
            for buffer in waiting.popleft().buffers():
                size = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
                if size:
                    ready.append(buffer)
                    self.ready_bytes += size
        return ready

    def wrote(self, size: int) -> None:
        """Remove so many bytes, which were written."""
        self.ready_bytes -= size
        done = 0
        for buffer in self._ready:
            length = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
            if size < length:
                break
            size -= length
            done += 1
        del self._ready[:done]
        if size:
            self._ready[0] = memoryview(self._ready[0]).cast("B")[size:]

    def clear(self) -> None:
        """Drop everything."""
        self.waiting.clear()
        self._ready.clear()
        self.ready_bytes = 0
