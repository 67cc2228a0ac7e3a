"""Automatic failover between clusters: the primary while it can be reached, otherwise the first other one that can.

The cluster in use is probed at intervals. When it has failed a given number of consecutive probes, the others are
probed in order, the primary first, and the first that can be reached is used. If there is none, the client keeps its
cluster, and the next check tries again. While another cluster is in use, each check probes the primary as well. The
client returns to the primary after a given number of consecutive successful probes.

Only one probe runs at a time. The actor defines what a probe does. Clusters have numbers: 0 is the primary.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple

# Events of the client.


class StartFailover(NamedTuple):
    """Start to check the clusters."""


class StopFailover(NamedTuple):
    """Stop checking."""


# Events of probes and of timers.


class ClusterProbed(NamedTuple):
    """The result of a probe. `probe` is the number of the probe."""

    probe: int
    reachable: bool


class CheckDue(NamedTuple):
    """The interval until the next check is over."""

    generation: int


# Effects.


class ProbeCluster(NamedTuple):
    """Probe a cluster; answer with `ClusterProbed` of the same number."""

    probe: int
    cluster: int


class UseCluster(NamedTuple):
    """Switch the client to this cluster."""

    cluster: int


PRIMARY: Final = 0


@unique
class State(Enum):
    """The states of a failover."""

    IDLE = "Created, but not started."
    WAITING = "Waits for the next check."
    CHECKING = "Probes the cluster in use."
    SEARCHING = "Probes the other clusters in their order, because the one in use cannot be reached."
    CHECKING_PRIMARY = "Probes the primary, while another cluster is in use."
    OVER = "Stopped."


IDLE, WAITING, CHECKING, SEARCHING, CHECKING_PRIMARY, OVER = State
NOT_OVER: Final = (IDLE, WAITING, CHECKING, SEARCHING, CHECKING_PRIMARY)

# fmt: off
ROWS: Final = (
    #   trigger        source            dest              guard              does
    Row(StartFailover, IDLE,             CHECKING,         None,              "check"),
    Row(CheckDue,      WAITING,          CHECKING,         None,              "check"),
    Row(ClusterProbed, CHECKING,         SEARCHING,        "is_unreachable",  "probe_first"),
    Row(ClusterProbed, CHECKING,         CHECKING_PRIMARY, "is_on_another",   "probe_primary"),
    Row(ClusterProbed, CHECKING,         WAITING,          None,              "wait"),
    Row(ClusterProbed, SEARCHING,        WAITING,          "is_reachable",    "use_probed"),
    Row(ClusterProbed, SEARCHING,        INTERNAL,         "has_another",     "probe_next"),
    Row(ClusterProbed, SEARCHING,        WAITING,          None,              "stay"),
    Row(ClusterProbed, CHECKING_PRIMARY, WAITING,          "primary_is_back", "return_to_primary"),
    Row(ClusterProbed, CHECKING_PRIMARY, WAITING,          None,              "count_success"),
    Row(StopFailover,  NOT_OVER,         OVER),
)

# Too late, or too early to mean anything.
IGNORES: Final = (
    #      event          states
    Ignore(StopFailover,  OVER),
    Ignore(ClusterProbed, (IDLE, WAITING, OVER)),
    Ignore(CheckDue,      (IDLE, CHECKING, SEARCHING, CHECKING_PRIMARY, OVER)),
)
# fmt: on

OURS: Final = (StartFailover, StopFailover)

CHART: Final = Chart(
    "auto_cluster_failover", states=State, initial=IDLE, final=[OVER], ours=OURS, rows=ROWS, ignores=IGNORES
)


class FailoverSettings(NamedTuple):
    """The number of clusters, the seconds between checks, and the numbers of consecutive probes before a switch."""

    clusters: int
    interval: float
    failures: int
    successes: int


class AutoClusterFailoverMachine(StateMachine, chart=CHART, current=("probe",)):
    """The guards and actions of the chart, in its order."""

    __slots__ = ("_current", "_failures", "_probed", "_settings", "_successes", "_untried", "probe")

    def __init__(self, settings: FailoverSettings) -> None:
        super().__init__()
        self._settings = settings
        self._current = PRIMARY
        self._failures = 0  # of the cluster in use, in a row
        self._successes = 0  # of the primary, in a row
        self._untried: list[int] = []
        self.probe = 0
        self._probed = PRIMARY

    def check(self, event: StartFailover | CheckDue, now: float) -> Effects:
        """Probe the cluster in use."""
        return [self._probe(self._current)]

    def is_unreachable(self, event: ClusterProbed, now: float) -> bool:
        """Return whether the cluster in use has failed too many probes in a row."""
        return not event.reachable and self._failures + 1 >= self._settings.failures

    def probe_first(self, event: ClusterProbed, now: float) -> Effects:
        """Probe the first of the other clusters.

        The primary may be among them. Its successful probes so far do not count if this one fails.
        """
        self._failures += 1
        self._successes = 0
        self._untried = [each for each in range(self._settings.clusters) if each != self._current]
        return [self._probe(self._untried.pop(0))]

    def is_on_another(self, event: ClusterProbed, now: float) -> bool:
        """Return whether another cluster than the primary is in use."""
        return self._current != PRIMARY

    def probe_primary(self, event: ClusterProbed, now: float) -> Effects:
        """Probe the primary."""
        self._note(event)
        return [self._probe(PRIMARY)]

    def wait(self, event: ClusterProbed, now: float) -> Effects:
        """Wait for the next check."""
        self._note(event)
        return self._start_timer()

    def is_reachable(self, event: ClusterProbed, now: float) -> bool:
        """Return whether the cluster could be reached."""
        return event.reachable

    def use_probed(self, event: ClusterProbed, now: float) -> Effects:
        """Use the cluster that answered the last probe."""
        return self._use(self._probed)

    def has_another(self, event: ClusterProbed, now: float) -> bool:
        """Return whether a cluster has not been probed yet."""
        return bool(self._untried)

    def probe_next(self, event: ClusterProbed, now: float) -> Effects:
        """Probe the next cluster."""
        return [self._probe(self._untried.pop(0))]

    def stay(self, event: ClusterProbed, now: float) -> Effects:
        """Stay with the cluster in use: no other can be reached either."""
        return self._start_timer()

    def primary_is_back(self, event: ClusterProbed, now: float) -> bool:
        """Return whether the primary has passed enough probes in a row."""
        return event.reachable and self._successes + 1 >= self._settings.successes

    def return_to_primary(self, event: ClusterProbed, now: float) -> Effects:
        """Use the primary again."""
        return self._use(PRIMARY)

    def count_success(self, event: ClusterProbed, now: float) -> Effects:
        """Count the probes of the primary that succeeded in a row, and wait for the next check."""
        self._successes = self._successes + 1 if event.reachable else 0
        return self._start_timer()

    def _note(self, event: ClusterProbed) -> None:
        self._failures = 0 if event.reachable else self._failures + 1

    def _probe(self, cluster: int) -> Effect:
        self.probe += 1
        self._probed = cluster
        return ProbeCluster(self.probe, cluster)

    def _use(self, cluster: int) -> Effects:
        self._current, self._failures, self._successes = cluster, 0, 0
        return [UseCluster(cluster), *self._start_timer()]

    def _start_timer(self) -> Effects:
        return [self.timers.start(CheckDue, self._settings.interval)]
