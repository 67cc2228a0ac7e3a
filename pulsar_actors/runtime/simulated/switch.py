"""Where callers and loops of a simulated engine change places: at its checkpoints, and on the way in and out of locks.

At a checkpoint others may go first, and now and then a caller loses its turn for a while: time passes, and something
arrives meanwhile. Not while it has a lock, for which a loop may be waiting that cannot let time pass.
"""

import threading

from pulsar_actors.runtime.simulated.dice import Dice
from pulsar_actors.runtime.simulated.world import World

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
