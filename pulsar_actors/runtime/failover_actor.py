"""The actor that watches over a client's clusters, and has it go to another when its own is gone.

The guardian makes it like a producer, by `Admit`, and ends it with the client. Whoever made it is told, by `use`, where
to go; that is called on the loop.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from pulsar_actors.exceptions import InternalError
from pulsar_actors.machines.binding_events import EndAtOnce
from pulsar_actors.machines.failover import PRIMARY, Failover
from pulsar_actors.machines.failover_events import Begin, End, Probe, Probed, Use
from pulsar_actors.runtime import probe
from pulsar_actors.runtime.actor import MachineActor
from pulsar_actors.runtime.binding_messages import CloseHandle, Place, Retired
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.wire.service_url import ServiceUrl

FAILOVER = "failover"
"""The kind of its place."""


class Watched(NamedTuple):
    """The clusters, how many seconds a probe of one host may take, and whom to tell which to use."""

    clusters: tuple[ServiceUrl, ...]
    timeout: float
    use: Callable[[int], None]


class FailoverActor(MachineActor[Failover]):
    """One client's."""

    def __init__(self, loop: Loop, place: Place, machine: Failover, watched: Watched) -> None:
        super().__init__(loop, place.guardian)
        self.machine = machine
        self._watched = watched

    def on_start(self) -> None:
        """Begin."""
        self.feed(Begin())

    def receive(self, message: object) -> None:
        """Take the guardian's word that it is over."""
        if not isinstance(message, (CloseHandle, EndAtOnce)):
            raise InternalError(f"a failover does not take {message!r}")
        self.feed(End())

    def over(self) -> None:
        """Go."""
        if not self.actor_stopped.is_set():
            self.tell_guardian(Retired(self.actor_ref))
            self.finish()

    # One method for each effect.

    def _probe(self, effect: Probe) -> None:
        def answered(probed: Probed) -> None:
            self.guarded(self.feed, probed)

        cluster = self._watched.clusters[effect.cluster]
        probe.Probe(self.loop, effect.probe, cluster, self._watched.timeout, answered).begin()

    def _go(self, effect: Use) -> None:
        why = "it can be reached again" if effect.cluster == PRIMARY else "the one in use cannot be reached"
        LOG.warning("failover to %s: %s", self._watched.clusters[effect.cluster], why)
        self._watched.use(effect.cluster)

    PERFORMS: ClassVar = {Probe: _probe, Use: _go}
