"""An engine whose connections can be cut, as a network does that fails: to see what becomes of a client then.

It is a client's usual engine, with a cable between each connection and its socket. Cutting it closes the socket under
the client without asking: what was not read yet is lost, and so is what nobody has received. The client hears what it
would hear of any connection that ends. It works on whatever broker the client talks to, and for the client alone.
"""

from collections.abc import Sequence

from pulsar_actors.runtime.loop import Buffer, Owner, Transport
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.runtime.thread_loop import ThreadLoop


class Cable(Transport):
    """A transport to its owner, and an owner to the transport behind it."""

    def __init__(self, owner: Owner, loop: "CuttableLoop") -> None:
        self.transport: Transport | None = None
        self._owner = owner
        self._loop = loop
        loop.cables.add(self)

    def cut(self) -> None:
        """End the connection, to the surprise of both sides."""
        self.close()
        self._owner.lost("the cable was cut")

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Pass it on."""
        return 0 if self.transport is None else self.transport.send(buffers)

    def await_room(self) -> None:
        """Pass it on."""
        if self.transport is not None:
            self.transport.await_room()

    def close(self) -> None:
        """Pass it on, once."""
        self._loop.cables.discard(self)
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    def opened(self) -> None:
        """Pass it back."""
        self._loop.has_opened = True
        self._owner.opened()

    def received(self, data: bytes) -> None:
        """Pass it back."""
        self._owner.received(data)

    def writable(self) -> None:
        """Pass it back."""
        self._owner.writable()

    def lost(self, reason: str) -> None:
        """Pass it back."""
        self._loop.cables.discard(self)
        self._owner.lost(reason)


class CuttableLoop(ThreadLoop):
    """A loop that knows its connections."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.cables: set[Cable] = set()
        self.has_opened = False
        """Whether there has been a new connection since the last cut."""

    def connect(self, host: str, port: int, owner: Owner, *, no_delay: bool = True) -> Transport:
        """Open a connection, over a cable."""
        cable = Cable(owner, self)
        cable.transport = super().connect(host, port, cable, no_delay=no_delay)
        return cable

    def cut(self) -> int:
        """Cut every cable there is, and tell how many those were. On the loop only."""
        cables = list(self.cables)
        self.has_opened = False
        for cable in cables:
            cable.cut()
        return len(cables)


class CuttableEngine(ThreadEngine):
    """Real threads, one loop, and connections that can be cut."""

    def __init__(self) -> None:
        super().__init__(io_threads=0, listener_threads=1)
        self.loop = CuttableLoop("pulsar-io-0")
        self.loops = [self.loop]
        self.loop.start()

    def stop(self, timeout: float) -> None:
        """End the loop with the rest."""
        self.loop.stop(0.0)
        super().stop(timeout)
        self.loop.stop(timeout)

    def forget_everything(self) -> None:
        """Let go of what a forked child has inherited, the loop's included."""
        super().forget_everything()
        self.loop.forget_everything()
