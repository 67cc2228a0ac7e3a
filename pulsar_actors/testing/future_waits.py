"""Threads of a simulation that wait for futures: the world goes on meanwhile, and the timeout is in virtual time.

That is so for `result` and `exception` of the futures that a client gives, and for `wait` and `as_completed` of
`concurrent.futures`. Any other thread waits as ever.
"""

import threading
from concurrent.futures import Future
from typing import Any

from pulsar_actors.runtime.future import Waits
from pulsar_actors.simulation.world import World

LATENESS = 1e-6
"""So many seconds after its time a wait ends. `as_completed` waits again, and for ever, unless its time is exceeded."""


class VirtualWaits(Waits):
    """The waits of a world's threads, and of others."""

    def __init__(self, world: World, others: Waits) -> None:
        self._world = world
        self._others = others

    def begin(self, future: "Future[Any]", timeout: float | None) -> float | None:
        """Let the world go on until the future is done, or the time is over."""
        if not self._world.is_here():
            return self._others.begin(future, timeout)
        self._world.block(future, timeout)
        return 0.0

    def waiters(self) -> list[Any]:
        """Make a list whose waiters wait in the same way."""
        return _Waiters(self._world)


class _Waiters(list[Any]):
    """The waiters of one future. A waiter of several futures gets its event from the first one."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def append(self, waiter: Any) -> None:  # noqa: ANN401 - it is private to `concurrent.futures`
        """Add a waiter, which has not begun to wait."""
        if not isinstance(waiter.event, _VirtualEvent):
            waiter.event = _VirtualEvent(self._world)
        super().append(waiter)


class _VirtualEvent(threading.Event):
    """An event that lets the world go on until it is set."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it is set within so many seconds, which are virtual in the threads of the world."""
        if not self._world.is_here():
            return super().wait(timeout)
        return self._world.block(self.is_set, None if timeout is None else timeout + LATENESS)
