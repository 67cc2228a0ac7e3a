"""The engine of a client in a simulated world, with its locks, checkpoints and listener workers.

Callers are callers of the world, or the test itself. A caller that blocks lets the world continue.

The world switches between callers and loops at checkpoints, and where a lock is taken or released. At a checkpoint
other steps may run first. Sometimes a caller loses its turn for a while, so that time passes and bytes arrive. This
does not happen to a caller that holds a lock: a loop may be waiting for the lock, and a loop cannot let time pass.
"""

import threading
from collections import deque
from concurrent.futures import Future
from typing import TypeVar

from pulsar_actors.exceptions import Timeout
from pulsar_actors.runtime.engine import Engine, Task, Worker
from pulsar_actors.runtime.future import result_of
from pulsar_actors.runtime.loop import Interleaving
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import World

PAUSE_PROBABILITY = 0.03
"""The probability that a caller pauses at a checkpoint."""

LONGEST_PAUSE = 0.02
"""In seconds."""


class Checkpoints:
    """The checkpoints and locks of one engine."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._dice = Dice(world.seed, f"pauses of {name}")
        self._holders: set[int] = set()

    def lock(self) -> "SimulatedLock":
        """Make a lock."""
        return SimulatedLock(self)

    def checkpoint(self) -> None:
        """Let other steps run first, or let time pass, at random."""
        world = self._world
        has_lock = threading.get_ident() in self._holders
        if has_lock and world.is_outside():
            return  # the test continues only after the next step, which may need the lock
        world.checkpoint()
        if world.is_caller() and not has_lock and self._dice.happens(PAUSE_PROBABILITY):
            world.block(lambda: False, LONGEST_PAUSE * self._dice.chance())

    def hold(self) -> None:
        """Note that the running thread holds a lock."""
        self._holders.add(threading.get_ident())

    def release(self) -> None:
        """Note that the running thread holds no lock any longer. No thread holds two."""
        self._holders.discard(threading.get_ident())


class SimulatedLock:
    """A lock with a checkpoint before and after it. Other steps may run at checkpoints while it is held."""

    __slots__ = ("_checkpoints", "_held")

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._held = False

    def __enter__(self) -> None:
        self._checkpoints.checkpoint()
        while self._held:  # held by a caller that continues in one of these steps
            self._checkpoints.checkpoint()
        self._held = True
        self._checkpoints.hold()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._held = False
        self._checkpoints.release()
        self._checkpoints.checkpoint()


class SimulatedWorker(Worker):
    """Runs tasks in order. Listeners may block, so each group of waiting tasks runs in a new caller."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._tasks: deque[Task] = deque()
        self._caller: Caller | None = None
        self._stopped = False

    def submit(self, task: Task) -> None:
        """Append a task; after the end it is dropped."""
        if self._stopped:
            return
        self._tasks.append(task)
        if self._caller is None:
            self._caller = self._world.spawn(self._run, self._name)

    def stop(self, timeout: float) -> None:
        """Take no more tasks, and wait for the present ones, unless called by one of them."""
        self._stopped = True
        if timeout > 0 and not self.is_here():
            self._world.block(self._is_idle, timeout)

    def is_here(self) -> bool:
        """Return whether the running code is one of the worker's tasks."""
        return self._caller is not None and self._caller.is_here()

    def _run(self) -> None:
        try:
            while self._tasks:
                self._tasks.popleft()()
        finally:
            self._caller = None

    def _is_idle(self) -> bool:
        return self._caller is None


T = TypeVar("T")


class SimulatedEngine(Engine):
    """The loops and workers of one client. `name` is the prefix of their hosts."""

    def __init__(self, world: World, name: str = "client", io_threads: int = 1, listener_threads: int = 1) -> None:
        self.loops = self._loops = [world.loop(f"{name}-io-{number}") for number in range(io_threads)]
        self.workers = self._workers = [
            SimulatedWorker(world, f"{name}-listener-{number}") for number in range(listener_threads)
        ]
        checkpoints = Checkpoints(world, name)
        self.interleaving = Interleaving(checkpoints.lock, checkpoints.checkpoint)
        self._world = world

    def block(self, future: Future[T], timeout: float | None, what: str) -> T:
        """Let the world continue until the future is done."""
        if not self._world.block(future, timeout):
            raise Timeout(f"{what} took longer than {timeout:g} s")
        return result_of(future)

    def stop(self, timeout: float) -> None:
        """Stop the listeners, then the loops, and wait for them unless this is one of the loops."""
        may_wait = 0.0 if self.is_on_io_thread() else timeout
        for worker in self._workers:
            worker.stop(may_wait)
        for loop in self._loops:
            loop.stop()
        if may_wait > 0:
            self._world.block(self._has_ended, may_wait)

    def is_on_io_thread(self) -> bool:
        """Return whether the caller is on one of the loops."""
        return any(loop.is_here() for loop in self.loops)

    def forget_everything(self) -> None:
        """Do nothing: a simulated world does not fork."""

    def _has_ended(self) -> bool:
        return not any(loop.is_running for loop in self._loops)
