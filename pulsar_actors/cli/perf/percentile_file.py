"""A latency histogram as a file, in the form that HdrHistogram's tools write and its plotters read.

A line for each step towards the longest time, each of these five times closer to it than half the way; times are
milliseconds. `https://hdrhistogram.github.io/HdrHistogram/plotFiles.html` draws several such files in one picture.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pulsar_actors.cli.perf.histogram import EXACT_BITS, Histogram

STEPS: Final = 5
"""From one halving of what is left to the next."""

_HEAD: Final = f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}\n"


def write(path: Path, histogram: Histogram) -> None:
    """Write it, over whatever the file had."""
    path.write_text("".join(lines(histogram)))


def lines(histogram: Histogram) -> Iterator[str]:
    """Give the file line by line."""
    total = len(histogram)
    longest = histogram.at(100)
    yield _HEAD + "\n"
    level, seen = 0.0, 0
    for seconds, count in histogram.buckets():
        seen += count
        while level <= 100 * seen / total:
            yield f"{seconds * 1e3:12.3f} {level / 100:1.12f} {seen:10d} {100 / (100 - level):14.2f}\n"
            level += 100 / (STEPS * 2 ** (math.floor(math.log2(100 / (100 - level))) + 1))
            if seen == total:
                yield f"{longest * 1e3:12.3f} {1:1.12f} {total:10d}\n"
                break
    mean, deviation = histogram.mean() * 1e3, histogram.deviation() * 1e3
    doublings = 1 + max(0, round(longest * 1e6).bit_length() - EXACT_BITS)
    yield f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]\n"
    yield f"#[Max     = {longest * 1e3:12.3f}, Total count    = {total:12d}]\n"
    yield f"#[Buckets = {doublings:12d}, SubBuckets     = {1 << EXACT_BITS:12d}]\n"
