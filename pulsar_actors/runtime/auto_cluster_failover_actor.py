"""The actor that probes a client's clusters, and moves the client when its cluster cannot be reached.

It is registered with the client's actor like a producer, and ends with the client. `use` is called on the loop with the
index of the cluster to move to.

A cluster counts as reachable if any of its hosts accepts a TCP connection, which is closed at once. The official client
does the same. The hosts are tried in turn, each for as long as a connection may take.
"""

from collections.abc import Callable
from typing import ClassVar

from pulsar_actors.exceptions import InternalError
from pulsar_actors.machines.auto_cluster_failover import (
    PRIMARY,
    AutoClusterFailoverMachine,
    ClusterProbed,
    ProbeCluster,
    StartFailover,
    StopFailover,
    UseCluster,
)
from pulsar_actors.machines.connection_handler_events import EndAtOnce
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import MachineActor
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop, Transport
from pulsar_actors.runtime.messages import ActorEnded, ActorStarted, CloseHandle, Registration
from pulsar_actors.wire.service_url import ServiceUrl


class ClusterProbe:
    """One probe of a cluster; its number is in the answer. `answered` is called once, on the loop."""

    __slots__ = ("_answered", "_attempt", "_hosts", "_loop", "_number", "_timeout", "_transport")

    def __init__(
        self, loop: Loop, number: int, to: ServiceUrl, timeout: float, answered: Callable[[ClusterProbed], None]
    ) -> None:
        self._loop = loop
        self._number = number
        self._hosts = list(to.hosts)
        self._timeout = timeout
        self._answered = answered
        self._attempt = 0
        self._transport: Transport | None = None

    def begin(self) -> None:
        """Try the next host."""
        if not self._hosts:
            self._answered(ClusterProbed(self._number, reachable=False))
            return
        host, port = self._hosts.pop(0)
        self._attempt += 1
        self._transport = self._loop.connect(host, port, self)
        self._loop.later(self._timeout, self._give_up, self._attempt)

    def opened(self) -> None:
        """Report that the cluster can be reached: a host has accepted a connection."""
        self._disconnect()
        self._hosts.clear()
        self._attempt += 1
        self._answered(ClusterProbed(self._number, reachable=True))

    def received(self, data: bytes) -> None:
        """Ignore the bytes of the peer."""

    def writable(self) -> None:
        """Ignore this: nothing is written."""

    def lost(self, reason: str) -> None:
        """Try the next host: this one cannot be reached."""
        self._transport = None
        self.begin()

    def _give_up(self, attempt: int) -> None:
        if attempt == self._attempt and self._transport is not None:
            self._disconnect()
            self.begin()

    def _disconnect(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._transport = None


FAILOVER = "failover"
"""The kind of the failover's registration."""


class FailoverTargets(NamedTuple):
    """The clusters, the seconds for a probe of one host, and the function that moves the client."""

    clusters: tuple[ServiceUrl, ...]
    timeout: float
    use: Callable[[int], None]


class AutoClusterFailoverActor(MachineActor[AutoClusterFailoverMachine]):
    """The automatic cluster failover of one client."""

    def __init__(
        self, registration: Registration, machine: AutoClusterFailoverMachine, watched: FailoverTargets
    ) -> None:
        super().__init__(registration.loop, registration.guardian)
        self.machine = machine
        self._watched = watched

    def __str__(self) -> str:
        return "the automatic cluster failover"

    def on_start(self) -> None:
        """Register with the guardian, which ends this actor with the client, and start probing."""
        self.tell_guardian(ActorStarted(self.actor_ref))
        self.feed(StartFailover())

    def receive(self, message: object) -> None:
        """Take the guardian's message to end, the only message to this actor."""
        if not isinstance(message, (CloseHandle, EndAtOnce)):
            raise InternalError(f"a failover does not take {message!r}")
        self.feed(StopFailover())

    def over(self) -> None:
        """End the actor."""
        if not self.actor_stopped.is_set():
            self.tell_guardian(ActorEnded(self.actor_ref))
            self.finish()

    # One method for each effect.

    def _probe(self, effect: ProbeCluster) -> None:
        def answered(probed: ClusterProbed) -> None:
            self.guarded(self.feed, probed)

        cluster = self._watched.clusters[effect.cluster]
        ClusterProbe(self.loop, effect.probe, cluster, self._watched.timeout, answered).begin()

    def _move(self, effect: UseCluster) -> None:
        why = "it can be reached again" if effect.cluster == PRIMARY else "the one in use cannot be reached"
        LOG.warning("failover to %s: %s", self._watched.clusters[effect.cluster], why)
        self._watched.use(effect.cluster)

    PERFORMS: ClassVar = {ProbeCluster: _probe, UseCluster: _move}
