"""Measurements of a contest: medians, spreads, and ratios between clients.

A ratio above 1 means that this client is better: more messages a second, or less time.
"""

import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

OURS: Final = "ours"
HIGHER_IS_BETTER: Final = {"msg/s"}


class Line(NamedTuple):
    """One line of the table: the values of each client, one for each alternation, and its CPU time for a message.

    `targets` are the ratios to the official client and the Java client that are wanted, None where none is. `mebibytes`
    is what each process had at the end of a turn, as far as that is asked.
    """

    name: str
    unit: str
    values: dict[str, list[float]]
    cpu_microseconds: dict[str, list[float]]
    targets: tuple[float | None, float | None] = (None, None)
    mebibytes: Mapping[str, list[float]] = MappingProxyType({})

    def median(self, client: str) -> float | None:
        """Return a client's median, if it was measured."""
        return statistics.median(self.values[client]) if self.values.get(client) else None

    def spread(self, client: str) -> tuple[float, float]:
        """Return the least and the greatest value."""
        return min(self.values[client]), max(self.values[client])

    def cpu(self, client: str) -> float | None:
        """Return the median of the CPU time, if it was measured."""
        return statistics.median(self.cpu_microseconds[client]) if self.cpu_microseconds.get(client) else None

    def ratio(self, to: str) -> float | None:
        """Return how many times as good this client is as another one, by the medians."""
        ours, other = self.median(OURS), self.median(to)
        if ours is None or other is None:
            return None
        return ours / other if self.unit in HIGHER_IS_BETTER else other / ours


def percentile(times: Sequence[float], percent: float) -> float:
    """Return the time that so many of a hundred do not exceed."""
    return sorted(times)[min(len(times) - 1, int(len(times) * percent / 100))]
