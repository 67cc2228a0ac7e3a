"""Times, counted in buckets: enough to tell any percentile to within a thousandth, whatever lies between them.

Up to 2,048 microseconds each microsecond has a bucket of its own; from there on each doubling has 1,024 of them. So a
run of days takes no more memory than one of seconds. One thread records; any other may take a copy, for a dictionary is
copied in one step of the interpreter.
"""

import math
from typing import Final

EXACT_BITS: Final = 11
"""Numbers with so many bits have buckets of their own."""


class Histogram:
    """How often there was which time. Times are seconds here, and whole microseconds inside."""

    __slots__ = ("_counts",)

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        self._counts = {} if counts is None else counts

    def record(self, seconds: float) -> None:
        """Count one time; what a clock that was set back makes negative counts as none."""
        bucket = _bucket(max(0, round(seconds * 1e6)))
        self._counts[bucket] = self._counts.get(bucket, 0) + 1

    def copy(self) -> "Histogram":
        """Give what has been recorded so far."""
        return Histogram(self._counts.copy())

    def __add__(self, other: "Histogram") -> "Histogram":
        counts = self._counts.copy()
        for bucket, count in other._counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        return Histogram(counts)

    def __sub__(self, earlier: "Histogram") -> "Histogram":
        """Give what was recorded since an earlier copy of the same."""
        before = earlier._counts
        rest = {bucket: count - before.get(bucket, 0) for bucket, count in self._counts.items()}
        return Histogram({bucket: count for bucket, count in rest.items() if count})

    def __len__(self) -> int:
        return sum(self._counts.values())

    def buckets(self) -> list[tuple[float, int]]:
        """Give the times that there were, from the shortest on, and how often."""
        return [(_middle(bucket) / 1e6, self._counts[bucket]) for bucket in sorted(self._counts)]

    def at(self, percentile: float) -> float:
        """Give the time that so many of a hundred do not exceed; 0 if there is none at all."""
        wanted = math.ceil(len(self) * percentile / 100)
        seconds = 0.0
        for seconds, count in self.buckets():  # noqa: B007 - the last one counts, too
            wanted -= count
            if wanted <= 0:
                break
        return seconds

    def mean(self) -> float:
        """Give the mean time; 0 if there is none at all."""
        return sum(seconds * count for seconds, count in self.buckets()) / (len(self) or 1)

    def deviation(self) -> float:
        """Give the standard deviation; 0 if there is none at all."""
        mean = self.mean()
        return math.sqrt(sum((seconds - mean) ** 2 * count for seconds, count in self.buckets()) / (len(self) or 1))


def _bucket(number: int) -> int:
    """Find the bucket of so many microseconds: how far they are shifted, and the bits that are left."""
    shift = max(0, number.bit_length() - EXACT_BITS)
    return (shift << EXACT_BITS) + (number >> shift)


def _middle(bucket: int) -> float:
    shift, kept = divmod(bucket, 1 << EXACT_BITS)
    return (kept << shift) + ((1 << shift) - 1) / 2
