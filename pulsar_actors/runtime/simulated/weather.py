"""The weather: how quick the network is, and how often it fails by itself.

Faults of connecting are drawn once a connect, all others once a piece that is sent. `Fault` has a member for every
kind; whoever wants one at a certain moment asks `faults.py` for it.
"""

from dataclasses import dataclass, replace
from enum import Enum


class Fault(Enum):
    """What can go wrong on the network; the value is the name of its probability in `Weather`."""

    REFUSE = "refuse"
    """A connect is refused, though somebody listens."""
    IGNORE = "ignore"
    """A connect is never answered."""
    CUT = "cut"
    """A connection ends, and what is on its way is lost from some byte on."""
    STALL = "stall"
    """Nothing arrives in one direction for a while."""
    DEAFEN = "deafen"
    """Nothing arrives in one direction ever again."""
    SPIKE = "spike"
    """One piece takes very long, and so does what comes after it."""
    PARTITION = "partition"
    """A host is cut off for a while: nothing is lost, and nothing arrives."""


@dataclass(frozen=True, slots=True)
class Weather:
    """What a network is like. Times are in seconds, sizes in bytes, faults are probabilities."""

    latency: float = 0.002
    """The longest way of a piece."""
    smallest_window: int = 4 * 1024
    largest_window: int = 256 * 1024
    """How much may be on its way in one direction: drawn for each, between the two."""
    fragments: float = 0.2
    """How often a piece that arrives is cut in two; those that arrive together are joined."""
    helper_latency: float = 0.02
    """The longest time that work off a loop takes."""
    yields: float = 0.5
    """How often something else goes first at a caller's checkpoint."""
    outage: float = 10.0
    """The longest that a stall, a spike or a partition lasts."""
    refuse: float = 0.0
    ignore: float = 0.0
    cut: float = 0.0
    stall: float = 0.0
    deafen: float = 0.0
    spike: float = 0.0
    partition: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("fragments", "yields", *(fault.value for fault in Fault)):
            if not 0.0 <= (probability := getattr(self, name)) <= 1.0:
                raise ValueError(f"{name} is a probability from 0 to 1, not {probability!r}")
        for name in ("latency", "helper_latency", "outage"):
            if not 0.0 <= (seconds := getattr(self, name)) < float("inf"):
                raise ValueError(f"{name} is a time in seconds, not {seconds!r}")
        if not 1 <= self.smallest_window <= self.largest_window:
            sizes = f"{self.smallest_window!r} and {self.largest_window!r}"
            raise ValueError(f"smallest_window and largest_window are at least 1 byte, in that order, not {sizes}")

    def without_faults(self) -> "Weather":
        """Give the same network, which does not fail by itself."""
        return replace(self, refuse=0.0, ignore=0.0, cut=0.0, stall=0.0, deafen=0.0, spike=0.0, partition=0.0)


CALM = Weather()
ROUGH = Weather(refuse=0.1, ignore=0.05, cut=0.01, stall=0.01, deafen=0.002, spike=0.02, partition=0.002)
