"""The clock of a program under test: `time.sleep`, `time.time` and `time.monotonic` on virtual time.

They are replaced in the module `time` while a simulation is open, and only for the threads of the simulation: any other
thread sleeps and reads the clock as ever. A program that did `from time import sleep` keeps the function it has.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import SupportsIndex

from pulsar_actors.simulation.world import EPOCH_MS, World


@contextmanager
def virtual_clock(world: World) -> Generator[None, None, None]:
    """Let the threads of a world have its time."""
    sleep, wall, monotonic = time.sleep, time.time, time.monotonic

    def virtual_sleep(seconds: float | SupportsIndex) -> None:
        if world.is_here():
            world.block(_never, max(0.0, float(seconds)))
        else:
            sleep(seconds)

    def of_world(virtual: Callable[[], float], real: Callable[[], float]) -> Callable[[], float]:
        return lambda: virtual() if world.is_here() else real()

    time.sleep = virtual_sleep
    time.time = of_world(lambda: EPOCH_MS / 1000 + world.now, wall)
    time.monotonic = of_world(lambda: world.now, monotonic)
    try:
        yield
    finally:
        time.sleep, time.time, time.monotonic = sleep, wall, monotonic


def _never() -> bool:
    return False
