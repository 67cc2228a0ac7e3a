"""What the simulations of Spark share: processes that may die, each with clients of its own, and the virtual clock."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType, SimpleNamespace
from unittest import mock

from pulsar_actors.client.client import Client
from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import EPOCH_MS, World
from tests.scenarios.scene import Scene

MOST_TRIES = 2
"""How often a task is tried before its batch fails."""


@contextmanager
def clock_of(world: World, modules: Sequence[ModuleType]) -> Iterator[None]:
    """Give these modules of `pulsar_actors.spark` the clock of the world."""
    time = SimpleNamespace(
        sleep=lambda seconds: world.block(lambda: False, seconds),
        monotonic=lambda: world.now,
        time=lambda: EPOCH_MS / 1000 + world.now,
    )
    with ExitStack() as patches:
        for module in modules:
            patches.enter_context(mock.patch.object(module, "time", time))
        yield


class Fate:
    """Decides who dies, and how many in all: a query must come to its end."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self._left = dice.below(6)

    def strikes(self, probability: float) -> bool:
        """Return whether this one dies."""
        if not self._left or not self.dice.happens(probability):
            return False
        self._left -= 1
        return True


class Process:
    """A driver, or a worker with one task. Its clients end with it. It stands for a `ClusterAccess`."""

    admin_url = None

    def __init__(self, scene: Scene, fate: Fate, probability: float) -> None:
        """Make a process that dies with this probability, at some moment: all scales of time alike."""
        self._scene = scene
        self._clients: list[Client] = []
        self.is_dead = False
        self.is_replaced = False
        """Whether another driver has taken over, though this one goes on: they may not reach each other."""
        if fate.strikes(probability):
            scene.world.after(10.0 ** (fate.dice.chance() * 4 - 3), lambda: scene.world.spawn(self.die))

    def client(self) -> Client:
        self.check()
        self._clients.append(self._scene.client())
        return self._clients[-1]

    def check(self) -> None:
        """Raise if it is dead."""
        if self.is_dead:
            raise AlreadyClosed("this process is dead")

    def check_in_charge(self) -> None:
        """Raise if it may not write to the checkpoint any more."""
        self.check()
        if self.is_replaced:
            raise AlreadyClosed("another driver has taken over")

    def die(self) -> None:
        self.is_dead = True
        for client in self._clients:
            client.shutdown()


class Task:
    """A task, in a process that may die. `is_done` if it came to its end."""

    def __init__(self, scene: Scene, fate: Fate, name: str, run: Callable[[Process], None]) -> None:
        self._scene = scene
        self._run_it = run
        self._process = Process(scene, fate, 0.2)
        self.is_done = False
        self.caller: Caller = scene.world.spawn(self._run, f"task {name}")

    def _run(self) -> None:
        try:
            self._run_it(self._process)
        except InternalError:
            raise
        except PulsarException as error:
            self._scene.world.note(f"a task failed: {error!r}")
        else:
            self.is_done = not self._process.is_dead


def wait_for_part(scene: Scene, tries: list[Task], driver: Process, start: Callable[[], Task]) -> bool:
    """Wait until one of the tasks for a part has come to its end. If all fail, start another, until it is too often."""
    while True:
        scene.world.block(
            lambda: driver.is_dead or any(task.is_done for task in tries) or all(task.caller.ended for task in tries)
        )
        driver.check()
        if any(task.is_done for task in tries):
            return True
        if len(tries) >= MOST_TRIES:
            return False
        tries.append(start())


def insist(scene: Scene, fate: Fate, run: Callable[[Process], None], is_done: Callable[[], bool]) -> None:
    """Start a driver, and another one whenever one has failed or died, or is taken for dead and goes on."""
    drivers: list[Caller] = []
    while not is_done():
        process = Process(scene, fate, 0.5)
        drivers.append(scene.world.spawn(lambda process=process: drive(scene, run, process), "driver"))  # type: ignore[misc]
        patience = 10.0 ** (fate.dice.chance() * 4 - 3) if fate.strikes(0.2) else None
        scene.world.block(lambda: drivers[-1].ended, patience)
        process.is_replaced = True
        if fate.dice.happens(0.5):
            scene.sleep(10.0 ** (fate.dice.chance() * 3 - 2))
    scene.world.block(lambda: all(driver.ended for driver in drivers))
    for driver in drivers:
        driver.result()


def drive(scene: Scene, run: Callable[[Process], None], process: Process) -> None:
    """Run a driver, which may fail."""
    try:
        run(process)
    except InternalError:
        raise
    except PulsarException as error:
        scene.world.note(f"a driver failed: {error!r}")
