"""What a failover hears and what it answers with: the events and effects of `failover.py`.

Each event's class is its trigger in the chart. Clusters go by their place: 0 is the primary.
"""

from typing import NamedTuple

# Events of our own side.


class Begin(NamedTuple):
    """Watch over the clusters."""


class End(NamedTuple):
    """Watch no longer."""


# Events of probes and of timers.


class Probed(NamedTuple):
    """Whether a cluster could be reached; `probe` is the number of the question."""

    probe: int
    reachable: bool


class CheckDue(NamedTuple):
    """It is time to look again."""

    generation: int


# Effects.


class Probe(NamedTuple):
    """Find out whether a cluster can be reached; answer with `Probed`, which carries the same number."""

    probe: int
    cluster: int


class Use(NamedTuple):
    """Go to this cluster."""

    cluster: int
