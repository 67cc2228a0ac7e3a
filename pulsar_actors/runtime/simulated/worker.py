"""The worker of a simulated engine: listeners may block, so each burst of its tasks runs as a caller of its own."""

from collections import deque

from pulsar_actors.runtime.engine import Task, Worker
from pulsar_actors.runtime.simulated.caller import Caller
from pulsar_actors.runtime.simulated.world import World


class SimulatedWorker(Worker):
    """Does tasks one after the other, as a caller of the world."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._tasks: deque[Task] = deque()
        self._caller: Caller | None = None
        self._stopped = False

    def submit(self, task: Task) -> None:
        """Have it done; after the end, nothing is."""
        if self._stopped:
            return
        self._tasks.append(task)
        if self._caller is None:
            self._caller = self._world.spawn(self._run, self._name)

    def stop(self, timeout: float) -> None:
        """Take no more tasks, and wait for those that are there, but not for the one that says so."""
        self._stopped = True
        if timeout > 0 and not self.is_here():
            self._world.block(self._is_idle, timeout)

    def is_here(self) -> bool:
        """Tell whether one of its tasks is asking."""
        return self._caller is not None and self._caller.is_here()

    def _run(self) -> None:
        try:
            while self._tasks:
                self._tasks.popleft()()
        finally:
            self._caller = None

    def _is_idle(self) -> bool:
        return self._caller is None
