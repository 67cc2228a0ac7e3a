"""An event loop of asyncio on virtual time, whose turns are steps of the simulation like all others."""

import asyncio
from typing import Any

from pulsar_actors.simulation.world import World


class SimulatedEventLoop(asyncio.BaseEventLoop):
    """An event loop without sockets. Where another waits for them, this one lets the world go on."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._selector = self

    def time(self) -> float:
        """Read the virtual clock."""
        return self._world.now

    def select(self, timeout: float | None) -> list[Any]:
        """Wait until something is ready, for at most so many seconds."""
        self._world.block(lambda: bool(self._ready), timeout)  # type: ignore[attr-defined]
        return []

    def _process_events(self, _: list[Any]) -> None:
        """Do nothing: there are none."""

    def _write_to_self(self) -> None:
        """Do nothing: `select` looks for what is ready."""
