"""A channel: a transport, what waits to be written to it, and TLS if that is wanted.

Its owner writes parcels and hears of plain bytes; whether they travel encrypted is settled here. With TLS, parcels are
encrypted a slice at a time, as the socket takes them, so that no more lies here encrypted than a socket is busy with.

What comes before TLS has begun is not taken for plain bytes where TLS is to come: it is kept, and TLS judges it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from pulsar_actors.runtime.loop import Transport
from pulsar_actors.runtime.tls_faults import PeerDistrusted, TlsFailed
from pulsar_actors.runtime.write_queue import Bytes, Parcel, WriteQueue

if TYPE_CHECKING:  # TLS is loaded where it is spoken
    from pulsar_actors.runtime.tls import TlsStream

_MOST_EARLY: Final = 4096  # bytes: no peer has anything to say before TLS has begun


class ChannelOwner(Protocol):
    """Whoever reads and writes. None of these is called after the end, nor after `Channel.close`."""

    def opened(self) -> None:
        """Hear that the transport is connected."""
        ...

    def secured(self) -> None:
        """Hear that TLS is agreed."""
        ...

    def received(self, data: bytes) -> None:
        """Take what came."""
        ...

    def lost(self, reason: str) -> None:
        """Hear that it has ended; after `close_when_written` too."""
        ...

    def distrusted(self, reason: str) -> None:
        """Hear likewise that it has ended, since the peer's certificate was refused."""
        ...


class Channel:
    """One connection's bytes, in both directions. It is the transport's owner; the transport is set right after."""

    __slots__ = ("_early", "_ending", "_owner", "_plain", "_tls", "_wire", "transport")

    transport: Transport

    def __init__(self, owner: ChannelOwner, *, tls_follows: bool = False) -> None:
        self._owner: ChannelOwner | None = owner
        self._plain = WriteQueue()
        self._wire = self._plain  # another queue where TLS comes between
        self._tls: TlsStream | None = None
        self._ending = False
        self._early: bytes | None = b"" if tls_follows else None

    def secure(self, tls: "TlsStream") -> None:
        """Agree on TLS; everything after this is encrypted."""
        self._tls = tls
        self._wire = WriteQueue()
        self._put_on_wire(tls.start())
        self._pump()
        early, self._early = self._early, None
        if early:
            self.received(early)

    def write(self, parcels: Iterable[Parcel]) -> None:
        """Write them, as soon as there is room."""
        idle = not self._plain and not self._wire
        self._plain.add(parcels)
        if idle:
            self._pump()

    def close_when_written(self) -> None:
        """Write what is here, then end; the owner hears `lost`."""
        self._ending = True
        if not self._plain and not self._wire:
            self._pump()

    def close(self) -> None:
        """End at once; the owner hears nothing more."""
        self._owner = None
        self._plain.clear()
        self._wire.clear()
        self.transport.close()

    def opened(self) -> None:
        """Pass it on."""
        if self._owner is not None:
            self._owner.opened()

    def received(self, data: bytes) -> None:
        """Decrypt what came, if it is encrypted, and pass it on."""
        if self._early is not None:
            self._early = (self._early + data)[:_MOST_EARLY]
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
        """Go on writing."""
        self._pump()

    def lost(self, reason: str) -> None:
        """Pass it on, and let go of everything."""
        owner = self._owner
        if self._tls is not None:
            reason = self._tls.cut_off(reason)
        self.close()
        if owner is not None:
            owner.lost(reason)

    def _pump(self) -> None:
        while self._owner is not None:
            self._encrypt()
            buffers = self._wire.next_buffers()
            if not buffers:
                break
            waiting = self._wire.ready_bytes
            taken = self.transport.send(buffers)
            self._wire.wrote(taken)
            if taken < waiting:
                self.transport.await_room()
                return
        if self._ending:
            self._say_goodbye()

    def _encrypt(self) -> None:
        if self._tls is None or self._wire or not self._tls.is_agreed:
            return
        buffers = self._plain.next_buffers()
        if buffers:
            for data in self._tls.encrypt(buffers):
                self._put_on_wire(data)
            self._plain.wrote(self._plain.ready_bytes)

    def _say_goodbye(self) -> None:
        if self._tls is not None:
            self.transport.send([self._tls.close_notify()])
        self.lost("closed")

    def _fail(self, tls: "TlsStream", failure: TlsFailed) -> None:
        """Tell the peer why, if it still listens, and end."""
        alert = tls.alert()
        if alert:
            self.transport.send([alert])
        owner = self._owner
        self.close()
        if owner is not None and isinstance(failure, PeerDistrusted):
            owner.distrusted(str(failure))
        elif owner is not None:
            owner.lost(str(failure))

    def _put_on_wire(self, data: bytes) -> None:
        if data:
            self._wire.add((Bytes(data),))
