"""The engine of a client in a simulated world: its callers are callers of the world, or the test itself.

To block is to let the world go on.
"""

from concurrent.futures import Future
from typing import TypeVar

from pulsar_actors.exceptions import Timeout
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.interleaving import Interleaving
from pulsar_actors.runtime.simulated.switch import Switch
from pulsar_actors.runtime.simulated.worker import SimulatedWorker
from pulsar_actors.runtime.simulated.world import World

T = TypeVar("T")


class SimulatedEngine(Engine):
    """The loops and workers of one client, whose name is that of the host they are on."""

    def __init__(self, world: World, name: str = "client", io_threads: int = 1, listener_threads: int = 1) -> None:
        self.loops = self._loops = [world.loop(f"{name}-io-{number}") for number in range(io_threads)]
        self.workers = self._workers = [
            SimulatedWorker(world, f"{name}-listener-{number}") for number in range(listener_threads)
        ]
        switch = Switch(world, name)
        self.interleaving = Interleaving(switch.lock, switch.checkpoint)
        self._world = world

    def block(self, future: Future[T], timeout: float | None, what: str) -> T:
        """Let the world go on until the future has ended."""
        if not self._world.block(future, timeout):
            raise Timeout(f"{what} took longer than {timeout:g} s")
        return future.result(0)

    def stop(self, timeout: float) -> None:
        """Stop the listeners, then the loops; wait for them, if that is asked for and possible here."""
        may_wait = 0.0 if self.is_inside() else timeout
        for worker in self._workers:
            worker.stop(may_wait)
        for loop in self._loops:
            loop.stop()
        if may_wait > 0:
            self._world.block(self._has_ended, may_wait)

    def is_inside(self) -> bool:
        """Ask the loops."""
        return any(loop.is_here() for loop in self.loops)

    def forget_everything(self) -> None:
        """Do nothing: nobody forks a simulated world."""

    def _has_ended(self) -> bool:
        return not any(loop.is_running for loop in self._loops)
