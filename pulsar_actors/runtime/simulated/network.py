"""The network: who listens where, and how a connection comes to be.

Hosts are names, and a loop's own name is the host that it connects from. What listens on "0.0.0.0" is found under every
host, and "localhost" is "127.0.0.1". Whoever connects to an address on which nobody listens is refused.

A connect arrives after a delay, and only then is looked for a listener. From there on both ends go their own ways, as
they do where a kernel answers before the program accepts: the client may have sent its first bytes, and even have
closed, before the listener's loop hears of it.
"""

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from pulsar_actors.runtime.loop import Listener, Loop, Owner, Transport
from pulsar_actors.runtime.simulated.agenda import Lane
from pulsar_actors.runtime.simulated.connection import CLOSED_BY_PEER, RESET, End, Pipe, Setting
from pulsar_actors.runtime.simulated.errors import Misuse
from pulsar_actors.runtime.simulated.faults import Faults
from pulsar_actors.runtime.simulated.weather import Fault

Accept = Callable[[Transport, str], Owner]
Address = tuple[str, int]

REFUSED = "the connection was refused"

_EVERY_HOST = ("0.0.0.0", "::", "")  # noqa: S104 - nothing is bound
_FIRST_FREE_PORT = 20_000
_LARGEST_PORT = 65_535


class Site(NamedTuple):
    """A loop, and the name under which the network knows it."""

    loop: Loop
    name: str


class SimulatedListener(Listener):
    """A port on which connections are accepted, on one loop."""

    __slots__ = ("_accept", "_address", "_lane", "_network", "_site", "_waiting")

    def __init__(self, network: "Network", site: Site, address: Address, accept: Accept) -> None:
        self._network = network
        self._site = site
        self._address = address
        self._accept = accept
        self._lane = Lane(f"{address[0]}:{address[1]}", site.loop)
        self._waiting: list[End] = []  # connected, but not accepted yet

    @property
    def port(self) -> int:
        """The port."""
        return self._address[1]

    def close(self) -> None:
        """Accept no more; who waits to be accepted is turned away."""
        setting = self._network.setting
        if setting.agenda.here is not self._site.loop:
            raise Misuse(f"the listener on {self._lane.name} was closed outside of its loop")
        self.shut()

    def shut(self) -> None:
        """End it, whether by its owner or with its loop."""
        self._network.forget(self._address, self)
        self._network.setting.agenda.close(self._lane)
        waiting, self._waiting = self._waiting, []
        for end in waiting:
            end.shut(RESET)

    def is_on(self, loop: Loop) -> bool:
        """Tell whether it belongs to the loop."""
        return self._site.loop is loop

    def welcome(self, server: End) -> None:
        """Take a connection that is there, and have it accepted soon."""
        server.settle(self._site.loop)
        self._waiting.append(server)
        setting = self._network.setting
        setting.agenda.at(setting.agenda.now + setting.delay(), self._lane, self._take, server)

    def _take(self, server: End) -> None:
        self._waiting.remove(server)
        server.is_open = True
        try:
            owner = self._accept(server, server.peer.host)
        except BaseException:
            server.shut(RESET)
            raise
        if not server.closed:
            server.open(owner)


class Network:
    """All listeners and connections of one world."""

    def __init__(self, setting: Setting, faults: Faults) -> None:
        self.setting = setting
        self._faults = faults
        self._lane = Lane("network")
        self._listeners: dict[Address, SimulatedListener] = {}
        self._next_port = _FIRST_FREE_PORT
        self._connects = 0

    def listen(self, site: Site, host: str, port: int, accept: Accept) -> SimulatedListener:
        """Let connections to the address be accepted; 0 finds a free port."""
        if not 0 <= port <= _LARGEST_PORT:
            raise OSError(errno.EINVAL, f"{port} is no port")
        address = (_known_as(host), port or self._free_port())
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{host}:{port}")
        listener = self._listeners[address] = SimulatedListener(self, site, address, accept)
        return listener

    def connect(self, site: Site, host: str, port: int, owner: Owner) -> End:
        """Begin to connect."""
        self._connects += 1
        host = _known_as(host)
        client = End(self.setting, site.name, f"{site.name}>{host}:{port} #{self._connects}")
        server = End(self.setting, host, f"{host}:{port}<{site.name} #{self._connects}")
        Pipe(self.setting, client, server)
        Pipe(self.setting, server, client)
        client.settle(site.loop)
        client.owner = owner
        self._faults.watch(client)
        fate = self._faults.fate_of_connect(client)
        if fate is not Fault.IGNORE:
            call = _Call(client, (host, port), owner, refused=fate is Fault.REFUSE)
            self.setting.agenda.at(self._arrival(client), self._lane, self._knock, call)
        return client

    def forget(self, address: Address, listener: SimulatedListener) -> None:
        """Let the address be free again, if it is still this listener's."""
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def leave(self, loop: Loop) -> None:
        """Close all that a loop has, as the end of a process does."""
        for listener in [listener for listener in self._listeners.values() if listener.is_on(loop)]:
            listener.shut()
        for client in self._faults.connections:
            for end in (client, client.peer):
                if end.loop is loop:
                    end.shut(CLOSED_BY_PEER)

    def _knock(self, call: "_Call") -> None:
        """Arrive where somebody listens, or not."""
        client = call.client
        if client.closed:
            return
        listener = self._listener(*call.address)
        if call.refused or listener is None:
            self.setting.agenda.at(self._arrival(client), client.lane, client.lose, REFUSED)
            return
        listener.welcome(client.peer)
        self.setting.agenda.at(self._arrival(client), client.lane, self._answer, call)

    def _answer(self, call: "_Call") -> None:
        call.client.open(call.owner)
        call.owner.opened()

    def _arrival(self, client: End) -> float:
        return max(self.setting.agenda.now + self.setting.delay(), self._faults.cut_off_until(client))

    def _listener(self, host: str, port: int) -> SimulatedListener | None:
        hosts = (host, *_EVERY_HOST)
        return next((found for name in hosts if (found := self._listeners.get((name, port)))), None)

    def _free_port(self) -> int:
        while any(port == self._next_port for _, port in self._listeners):
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1


class _Call(NamedTuple):
    """A connect on its way."""

    client: End
    address: Address
    owner: Owner
    refused: bool


def _known_as(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host
