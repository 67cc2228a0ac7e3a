"""What a process holds: memory, threads and descriptors; and whether it stays level."""

import gc
import os
import statistics
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
TOLERATED = 0.05
"""The part by which something may be larger at the end than after a quarter of the time."""


class Reading(NamedTuple):
    """What is held at a moment."""

    seconds: float
    kilobytes: int
    threads: int
    descriptors: int
    done: int
    """How much work was done so far."""


def read(seconds: float, done: int) -> Reading:
    """Read the gauges of this process, after a collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Reading(seconds, pages * PAGE_KB, threading.active_count(), len(os.listdir("/proc/self/fd")), done)  # noqa: PTH208


def growth(readings: Sequence[Reading], field: str) -> float:
    """Return by which part the last quarter is larger than the second: the first one is the start."""
    quarter = max(1, len(readings) // 4)
    before = statistics.median(getattr(each, field) for each in readings[quarter : 2 * quarter] or readings[:1])
    after = statistics.median(getattr(each, field) for each in readings[-quarter:])
    return (after - before) / before


def faults(readings: Sequence[Reading]) -> list[str]:
    """Name what has grown."""
    grown = {field: growth(readings, field) for field in ("kilobytes", "threads", "descriptors")}
    return [f"{field} have grown by {part:.1%}" for field, part in grown.items() if part > TOLERATED]
