"""The network: listeners, connects, and faults.

Hosts are names. The name of a loop is the host that it connects from. A listener on "0.0.0.0" is found under every
host, and "localhost" is "127.0.0.1". A connect to an address without a listener is refused.

A connect arrives after a delay, and looks for a listener then. From that moment on both ends are independent, as with a
kernel that answers before the program accepts: the client may send its first bytes, and even close, before the
listener's loop is told.

Faults happen with the probabilities of the conditions, or when a test asks for one, at once or by `World.after`. They
apply to the connections of a host, or to all if no host is named. A connection has two hosts: the name of the loop that
connected, and the host that it connected to. Each fault is counted and noted in the history, unless there was no
connection for it.
"""

import errno
import math
import os
from collections import Counter
from collections.abc import Callable

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import Listener, Loop, Transport, TransportOwner
from pulsar_actors.simulation.connection import (
    CLOSED_BY_PEER,
    RESET,
    ConnectionEnd,
    NetworkConditions,
    NetworkContext,
    NetworkFault,
    Pipe,
)
from pulsar_actors.simulation.scheduler import Dice, Misuse, TaskQueue

_OF_CONNECTS = (NetworkFault.REFUSE, NetworkFault.IGNORE)
_OF_PIECES = (NetworkFault.CUT, NetworkFault.STALL, NetworkFault.DEAFEN, NetworkFault.SPIKE, NetworkFault.PARTITION)


class NetworkFaults:
    """The faults of one world. `connections` are the client ends of open connections."""

    def __init__(self, seed: int, context: NetworkContext) -> None:
        self.injected: Counter[NetworkFault] = Counter()
        self.connections: list[ConnectionEnd] = []
        self._context = context
        self._dice = Dice(seed, "faults")
        self._queue = TaskQueue("faults")
        self._ordered: dict[NetworkFault, Counter[str]] = {fault: Counter() for fault in _OF_CONNECTS}
        self._partitions: dict[str, float] = {}
        self._chances: list[tuple[NetworkFault, float]] = []
        self._apply(context.conditions)

    def watch(self, client: ConnectionEnd) -> None:
        """Add a connection, and drop those that have ended."""
        self._forget_ended()
        self.connections.append(client)

    def calm(self) -> None:
        """Draw no more faults. Those that have begun continue."""
        self._apply(self._context.conditions.without_faults())

    def refuse(self, host: str, times: int = 1) -> None:
        """Refuse so many connects to the host."""
        self._ordered[NetworkFault.REFUSE][host] += times

    def ignore(self, host: str, times: int = 1) -> None:
        """Leave the next connects to the host, so many, without an answer."""
        self._ordered[NetworkFault.IGNORE][host] += times

    def cut(self, host: str | None = None) -> int:
        """Cut connections, and lose the bytes in flight; return how many connections there were."""
        return sum(self._cut(client) for client in self._of(host))

    def stall(self, sender: str | None = None, seconds: float = math.inf) -> int:
        """Stop the bytes from the host on its present connections, for a while or for ever."""
        fault = NetworkFault.STALL if seconds < math.inf else NetworkFault.DEAFEN
        return sum(self._stall(fault, pipe, seconds) for pipe in self._pipes_from(sender))

    def spike(self, sender: str | None, seconds: float) -> int:
        """Delay the next piece from the host, and those after it."""
        return sum(self._spike(pipe, seconds) for pipe in self._pipes_from(sender))

    def partition(self, host: str, seconds: float) -> None:
        """Cut the host off for a while: pieces and connects arrive afterwards."""
        until = self._context.scheduler.now + seconds
        self._partitions[host] = max(self._partitions.get(host, 0.0), until)
        for client in self._of(host):
            for pipe in (client.outgoing, client.incoming):
                pipe.stall(until)
        self._note(NetworkFault.PARTITION, host, f"for {seconds:.3f} s")

    def fate_of_connect(self, client: ConnectionEnd) -> NetworkFault | None:
        """Draw if the connect of this client end is refused or ignored."""
        for fault in _OF_CONNECTS:
            ordered = self._ordered[fault]
            is_ordered = ordered[client.peer.host] > 0
            if is_ordered:
                ordered[client.peer.host] -= 1
            if is_ordered or self._dice.happens(getattr(self._context.conditions, fault.value)):
                self._note(fault, client.name)
                return fault
        return None

    def cut_off_until(self, client: ConnectionEnd) -> float:
        """Return the time from which the hosts of a connection can reach each other."""
        return max(self._partitions.get(end.host, 0.0) for end in (client, client.peer))

    def _apply(self, conditions: NetworkConditions) -> None:
        self._context.conditions = conditions
        likely = [(fault, float(getattr(conditions, fault.value))) for fault in _OF_PIECES]
        self._chances = [(fault, probability) for fault, probability in likely if probability]
        self._context.before_send = self._before_send if self._chances else None

    def _before_send(self, sender: ConnectionEnd) -> None:
        """Draw for each fault if it applies to the piece that is about to be sent."""
        for fault, probability in self._chances:
            if self._dice.happens(probability):
                self._strike(fault, sender)

    def _strike(self, fault: NetworkFault, sender: ConnectionEnd) -> None:
        context = self._context
        seconds = context.conditions.outage * self._dice.chance()
        match fault:
            case NetworkFault.CUT:  # a little later, so that the piece may be in flight
                context.scheduler.at(context.scheduler.now + 2 * context.delay(), self._queue, self._cut, sender)
            case NetworkFault.STALL:
                self._stall(fault, sender.outgoing, seconds)
            case NetworkFault.DEAFEN:
                self._stall(fault, sender.outgoing, math.inf)
            case NetworkFault.SPIKE:
                self._spike(sender.outgoing, seconds)
            case _:
                self.partition((sender, sender.peer)[self._dice.below(2)].host, seconds)

    def _cut(self, end: ConnectionEnd) -> bool:
        if end.closed and end.peer.closed:
            return False
        lost = [pipe.cut() for pipe in (end.outgoing, end.incoming)]
        self._note(NetworkFault.CUT, end.name, f"loses {lost[0]} sent and {lost[1]} received")
        return True

    def _stall(self, fault: NetworkFault, pipe: Pipe, seconds: float) -> bool:
        pipe.stall(self._context.scheduler.now + seconds)
        self._note(fault, pipe.writer.name, f"for {seconds:.3f} s")
        return True

    def _spike(self, pipe: Pipe, seconds: float) -> bool:
        pipe.delay(seconds)
        self._note(NetworkFault.SPIKE, pipe.writer.name, f"of {seconds:.3f} s")
        return True

    def _of(self, host: str | None) -> list[ConnectionEnd]:
        """Return the client ends of the connections that a host has part in."""
        self._forget_ended()
        return [end for end in self.connections if host in (None, end.host, end.peer.host)]

    def _forget_ended(self) -> None:
        self.connections = [end for end in self.connections if not (end.closed and end.peer.closed)]

    def _pipes_from(self, sender: str | None) -> list[Pipe]:
        ends = [end for client in self._of(sender) for end in (client, client.peer)]
        return [end.outgoing for end in ends if sender in (None, end.host)]

    def _note(self, fault: NetworkFault, place: str, how: str = "") -> None:
        self.injected[fault] += 1
        self._context.history.add(self._context.scheduler.now, place, f"FAULT {fault.value} {how}".rstrip())


Accept = Callable[[Transport, str], TransportOwner]
HostPort = tuple[str, int]

REFUSED = "the connection was refused"

_EVERY_HOST = ("0.0.0.0", "::", "")  # noqa: S104 - nothing is bound
_FIRST_FREE_PORT = 20_000
_LARGEST_PORT = 65_535


class NetworkNode(NamedTuple):
    """A loop, and its name in the network."""

    loop: Loop
    name: str


class SimulatedListener(Listener):
    """A port on which connections are accepted, on one loop."""

    __slots__ = ("_accept", "_address", "_network", "_node", "_queue", "_waiting")

    def __init__(self, network: "Network", node: NetworkNode, address: HostPort, accept: Accept) -> None:
        self._network = network
        self._node = node
        self._address = address
        self._accept = accept
        self._queue = TaskQueue(f"{address[0]}:{address[1]}", node.loop)
        self._waiting: list[ConnectionEnd] = []  # connected, but not accepted yet

    @property
    def port(self) -> int:
        """The port."""
        return self._address[1]

    def close(self) -> None:
        """Accept no more, and reset the connections that wait to be accepted."""
        context = self._network.context
        if context.scheduler.here is not self._node.loop:
            raise Misuse(f"the listener on {self._queue.name} was closed outside of its loop")
        self.shut()

    def shut(self) -> None:
        """Close, for the owner or with its loop."""
        self._network.forget(self._address, self)
        self._network.context.scheduler.close(self._queue)
        waiting, self._waiting = self._waiting, []
        for end in waiting:
            end.shut(RESET)

    def is_on(self, loop: Loop) -> bool:
        """Return whether the listener belongs to the loop."""
        return self._node.loop is loop

    def enqueue(self, server: ConnectionEnd) -> None:
        """Queue a connection to be accepted."""
        server.settle(self._node.loop)
        self._waiting.append(server)
        context = self._network.context
        context.scheduler.at(context.scheduler.now + context.delay(), self._queue, self._take, server)

    def _take(self, server: ConnectionEnd) -> None:
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

    def __init__(self, context: NetworkContext, faults: NetworkFaults) -> None:
        self.context = context
        self._faults = faults
        self._queue = TaskQueue("network")
        self._listeners: dict[HostPort, SimulatedListener] = {}
        self._next_port = _FIRST_FREE_PORT
        self._connects = 0

    def listen(self, node: NetworkNode, host: str, port: int, accept: Accept) -> SimulatedListener:
        """Listen at an address; port 0 finds a free one."""
        if not 0 <= port <= _LARGEST_PORT:
            raise OSError(errno.EINVAL, f"{port} is no port")
        address = (_normalized(host), port or self._free_port())
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{host}:{port}")
        listener = self._listeners[address] = SimulatedListener(self, node, address, accept)
        return listener

    def connect(self, node: NetworkNode, host: str, port: int, owner: TransportOwner) -> ConnectionEnd:
        """Begin to connect."""
        self._connects += 1
        host = _normalized(host)
        client = ConnectionEnd(self.context, node.name, f"{node.name}>{host}:{port} #{self._connects}")
        server = ConnectionEnd(self.context, host, f"{host}:{port}<{node.name} #{self._connects}")
        Pipe(self.context, client, server)
        Pipe(self.context, server, client)
        client.settle(node.loop)
        client.owner = owner
        self._faults.watch(client)
        fate = self._faults.fate_of_connect(client)
        if fate is not NetworkFault.IGNORE:
            call = _PendingConnect(client, (host, port), owner, refused=fate is NetworkFault.REFUSE)
            self.context.scheduler.at(self._arrival(client), self._queue, self._connect_arrives, call)
        return client

    def forget(self, address: HostPort, listener: SimulatedListener) -> None:
        """Free the address, if it is still this listener's."""
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def leave(self, loop: Loop) -> None:
        """Close all listeners and connections of a loop, as the end of a process does."""
        for listener in [listener for listener in self._listeners.values() if listener.is_on(loop)]:
            listener.shut()
        for client in self._faults.connections:
            for end in (client, client.peer):
                if end.loop is loop:
                    end.shut(CLOSED_BY_PEER)

    def _connect_arrives(self, call: "_PendingConnect") -> None:
        """Find a listener for a connect that arrives."""
        client = call.client
        if client.closed:
            return
        listener = self._listener(*call.address)
        if call.refused or listener is None:
            self.context.scheduler.at(self._arrival(client), client.queue, client.lose, REFUSED)
            return
        listener.enqueue(client.peer)
        self.context.scheduler.at(self._arrival(client), client.queue, self._answer, call)

    def _answer(self, call: "_PendingConnect") -> None:
        call.client.open(call.owner)
        call.owner.opened()

    def _arrival(self, client: ConnectionEnd) -> float:
        return max(self.context.scheduler.now + self.context.delay(), self._faults.cut_off_until(client))

    def _listener(self, host: str, port: int) -> SimulatedListener | None:
        hosts = (host, *_EVERY_HOST)
        return next((found for name in hosts if (found := self._listeners.get((name, port)))), None)

    def _free_port(self) -> int:
        while any(port == self._next_port for _, port in self._listeners):
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1


class _PendingConnect(NamedTuple):
    """A connect in flight."""

    client: ConnectionEnd
    address: HostPort
    owner: TransportOwner
    refused: bool


def _normalized(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host
