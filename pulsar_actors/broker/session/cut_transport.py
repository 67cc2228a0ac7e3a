"""A connection that a fault ends after so many bytes: a transport to its session, and the owner of the real one."""

from collections.abc import Sequence

from pulsar_actors.broker.session.reception import Reception
from pulsar_actors.runtime.loop import Buffer, Loop, Owner, Transport

__all__ = ["CutTransport"]


class CutTransport(Transport):
    """Ends the connection after so many bytes in one of the directions, wherever in a frame that is."""

    __slots__ = ("_loop", "_may_receive", "_may_send", "_owner", "_transport")

    def __init__(self, loop: Loop, transport: Transport, reception: Reception) -> None:
        self._loop = loop
        self._transport = transport
        self._may_send = reception.sent
        self._may_receive = reception.received
        self._owner: Owner | None = None

    def own(self, owner: Owner) -> None:
        """Name whoever is above."""
        self._owner = owner

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Send no more than may be sent."""
        if self._owner is None:
            return 0
        if self._may_send is None:
            return self._transport.send(buffers)
        allowed, left = list[Buffer](), self._may_send
        for buffer in buffers:
            allowed.append(memoryview(buffer)[:left])
            left -= min(left, len(buffer))
        taken = self._transport.send(allowed)
        self._may_send -= taken
        if not self._may_send:
            self._cut()
        return taken

    def await_room(self) -> None:
        """Ask the transport below."""
        self._transport.await_room()

    def close(self) -> None:
        """End it."""
        self._owner = None
        self._transport.close()

    def opened(self) -> None:
        """Hear nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Pass on no more than may come."""
        owner = self._owner
        if owner is None:
            return
        if self._may_receive is None:
            owner.received(data)
            return
        allowed = data[: self._may_receive]
        self._may_receive -= len(allowed)
        if allowed:
            owner.received(allowed)
        if not self._may_receive:
            self._cut()

    def writable(self) -> None:
        """Pass it on."""
        if self._owner is not None:
            self._owner.writable()

    def lost(self, reason: str) -> None:
        """Pass it on."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.lost(reason)

    def _cut(self) -> None:
        """End it below at once, and let the one above hear of it after this turn."""
        self._transport.close()
        self._loop.post(self.lost, "a scripted fault cut the connection")
