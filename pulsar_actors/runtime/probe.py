"""Whether a cluster can be reached: whether any of its hosts takes a TCP connection, which is closed at once.

That says little of how the cluster is, and costs it next to nothing; the official client asks no more either. The hosts
are tried in turn, each for as long as a connection may take.
"""

from collections.abc import Callable

from pulsar_actors.machines.failover_events import Probed
from pulsar_actors.runtime.loop import Loop, Transport
from pulsar_actors.wire.service_url import ServiceUrl


class Probe:
    """The question with this number. `answered` is told once, on the loop."""

    __slots__ = ("_answered", "_hosts", "_loop", "_number", "_timeout", "_transport", "_turn")

    def __init__(
        self, loop: Loop, number: int, to: ServiceUrl, timeout: float, answered: Callable[[Probed], None]
    ) -> None:
        self._loop = loop
        self._number = number
        self._hosts = list(to.hosts)
        self._timeout = timeout
        self._answered = answered
        self._turn = 0
        self._transport: Transport | None = None

    def begin(self) -> None:
        """Try the first host, or the next."""
        if not self._hosts:
            self._answered(Probed(self._number, reachable=False))
            return
        host, port = self._hosts.pop(0)
        self._turn += 1
        self._transport = self._loop.connect(host, port, self)
        self._loop.later(self._timeout, self._give_up, self._turn)

    def opened(self) -> None:
        """Hear that somebody is there."""
        self._hang_up()
        self._hosts.clear()
        self._turn += 1
        self._answered(Probed(self._number, reachable=True))

    def received(self, data: bytes) -> None:
        """Take no interest in what a peer says."""

    def writable(self) -> None:
        """Write nothing."""

    def lost(self, reason: str) -> None:
        """Hear that nobody is there."""
        self._transport = None
        self.begin()

    def _give_up(self, turn: int) -> None:
        if turn == self._turn and self._transport is not None:
            self._hang_up()
            self.begin()

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._transport = None
