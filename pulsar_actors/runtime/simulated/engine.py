"""The engine of a client in a simulated world.

Callers are callers of the world, or the test itself; to block is to let the world go on. Listeners may block as well,
so each burst of a worker's tasks runs as a caller of its own, which ends when there are no more.

At a checkpoint others may go first, and now and then a caller loses its turn for a while: time passes, and something
arrives meanwhile. Not while it has a lock, for which a loop may be waiting that cannot let time pass.
"""

import threading
from collections import deque
from concurrent.futures import Future
from typing import TypeVar

from pulsar_actors.exceptions import Timeout
from pulsar_actors.runtime.engine import Engine, Task, Worker
from pulsar_actors.runtime.interleaving import Interleaving
from pulsar_actors.runtime.simulated.caller import Caller
from pulsar_actors.runtime.simulated.dice import Dice
from pulsar_actors.runtime.simulated.world import World

T = TypeVar("T")


LOSES_ITS_TURN = 0.03
"""How often a caller does at a checkpoint."""

LONGEST_PAUSE = 0.02
"""For so many seconds at most."""


class Switch:
    """Decides at the checkpoints of one engine who goes on."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._dice = Dice(world.seed, f"pauses of {name}")
        self._holders: set[int] = set()

    def lock(self) -> "SimulatedLock":
        """Make a lock."""
        return SimulatedLock(self)

    def checkpoint(self) -> None:
        """Let others go first, perhaps, or time pass."""
        world = self._world
        has_lock = threading.get_ident() in self._holders
        if has_lock and world.is_outside():
            return  # the test itself only goes on when the next step has ended, which may want the lock
        world.checkpoint()
        if world.is_caller() and not has_lock and self._dice.happens(LOSES_ITS_TURN):
            world.block(lambda: False, LONGEST_PAUSE * self._dice.chance())

    def hold(self) -> None:
        """Note that whoever runs has a lock."""
        self._holders.add(threading.get_ident())

    def release(self) -> None:
        """Note that it has none any longer; nobody has two."""
        self._holders.discard(threading.get_ident())


class SimulatedLock:
    """A lock on whose way in and out others may go first. Within it, they may at checkpoints."""

    __slots__ = ("_held", "_switch")

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._held = False

    def __enter__(self) -> None:
        self._switch.checkpoint()
        while self._held:  # by a caller that has let others go first, and goes on in one of these
            self._switch.checkpoint()
        self._held = True
        self._switch.hold()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._held = False
        self._switch.release()
        self._switch.checkpoint()


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
