"""The world: a clock, a network, loops, and callers, and the one place where a step is made.

    with World(seed=17) as world:
        broker, client = world.loop("broker"), world.loop("client")
        ...
        first = world.spawn(lambda: producer.send(b"1"))
        world.run()
        assert first.result() == ...

All of it runs on the thread that made the world, except that each caller has a thread, of which one at a time runs
while that one waits. What raises on a loop is kept in `failures`, and fails the run in the end: a test that expects it
takes it out. The same holds for callers whose `result` nobody asked for, and for what the package logs with a
traceback.

While a world is open Python's collector of cycles is off. It runs after so many allocations, whoever makes them, and
with it run finalizers: a step that no seed decides.
"""

import gc
import math
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, final

from pulsar_actors.runtime.simulated.agenda import Agenda, Lane
from pulsar_actors.runtime.simulated.caller import Caller, Condition, is_there
from pulsar_actors.runtime.simulated.connection import Setting
from pulsar_actors.runtime.simulated.dice import Dice
from pulsar_actors.runtime.simulated.errors import (
    Deadlock,
    Failure,
    Livelock,
    Misuse,
    OutOfTime,
    SimulationFailed,
    TasksFailed,
)
from pulsar_actors.runtime.simulated.faults import Faults
from pulsar_actors.runtime.simulated.history import History, label
from pulsar_actors.runtime.simulated.log import LogReader
from pulsar_actors.runtime.simulated.network import Network
from pulsar_actors.runtime.simulated.simulated_loop import SimulatedLoop
from pulsar_actors.runtime.simulated.weather import CALM, Fault, Weather

LONGEST = 24 * 3600.0
"""Virtual seconds that a run may take unless it says otherwise."""

MOST_STEPS_AT_ONCE = 1_000_000
"""Before the clock moves again."""


@final
class World:
    """Everything that a run consists of."""

    def __init__(self, seed: int, weather: Weather = CALM) -> None:
        self.seed = seed
        self.history = History()
        self.failures: list[Failure] = []
        self.steps = 0
        self._agenda = Agenda(seed)
        setting = Setting(self._agenda, self.history, Dice(seed, "network"), weather)
        self.faults = Faults(seed, setting)
        self._network = Network(setting, self.faults)
        self._weather = weather
        self._yields = Dice(seed, "yields")
        self._lane = Lane("world")
        self._loops: list[SimulatedLoop] = []
        self._callers: list[Caller] = []
        self._spawned = 0
        self._stepping = False
        self._closed = False
        self._thread = threading.get_ident()
        self._open = ExitStack()

    def __enter__(self) -> "World":
        if gc.isenabled():
            gc.disable()
            self._open.callback(gc.enable)
        self._open.enter_context(LogReader(self.note, self._fail))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.close()
        if self.failures and not isinstance(error, KeyboardInterrupt):
            raise TasksFailed(self.failures) from (error or self.failures[0].error)

    @property
    def now(self) -> float:
        """Read the virtual clock."""
        return self._agenda.now

    @property
    def faults_injected(self) -> Counter[Fault]:
        """Count the faults of the network so far."""
        return self.faults.injected

    def note(self, text: str) -> None:
        """Write into the history."""
        self.history.add(self._agenda.now, "note", text)

    def loop(self, name: str) -> SimulatedLoop:
        """Make a loop. Its name is the host that it connects from."""
        if any(loop.name == name and loop.is_running for loop in self._loops):
            raise Misuse(f"there is a loop {name!r} already, which has not been stopped")
        loop = SimulatedLoop(name, self._agenda, self._network, Dice(self.seed, f"loop {name}"))
        self._loops.append(loop)
        return loop

    def after(self, delay: float, action: Callable[[], object]) -> None:
        """Do something later, as a step of its own on no loop: a fault, say."""
        self._agenda.at(self._agenda.now + delay, self._lane, lambda _: action(), None)

    def spawn(self, function: Callable[[], Any], name: str | None = None) -> Caller:
        """Let a function run as a caller, which begins when its turn comes."""
        self._callers = [caller for caller in self._callers if not caller.ended]
        self._spawned += 1
        caller = Caller(name or f"caller-{self._spawned}", function, self._agenda, self.failures)
        self._callers.append(caller)
        return caller

    def run(self, until: Callable[[], bool] | None = None, limit: float = LONGEST) -> None:
        """Make steps until the condition holds; if there is none, until all callers have ended.

        If there are no callers either, until nothing is left to happen or the virtual time is over.
        """
        if self._here("run") is not None:
            raise Misuse("a caller cannot run the world that it is in: `block` waits")
        goal = until or (self._callers_have_ended if not self._callers_have_ended() else _never)
        deadline = self._agenda.now + limit
        if self._run_until(goal, deadline):
            return
        if goal is not _never:
            raise self._stuck(limit)
        if not self._agenda.is_empty():
            self._agenda.now = deadline

    def block(self, wait_for: Condition, timeout: float | None = None) -> bool:
        """Wait for a condition or a future, and tell whether it has come; without a timeout, for ever.

        A caller gives its turn back meanwhile. On the thread of the test, outside of any step, the world runs instead.
        """
        deadline = math.inf if timeout is None else self._agenda.now + timeout
        caller = self._here("block")
        if caller is not None:
            self.checkpoint()
            return caller.wait(wait_for, deadline)
        if self._run_until(is_there(wait_for), deadline):
            return True
        if timeout is None:
            raise self._stuck(math.inf)
        self._agenda.now = max(self._agenda.now, deadline)
        return False

    def checkpoint(self) -> None:
        """Let something else go first, perhaps: this is where a thread might be interrupted.

        A caller lets anything go first. A task of a loop lets callers, since a loop does one thing at a time.
        """
        if not self._yields.happens(self._weather.yields):
            return
        caller = self._caller()
        if caller is not None:
            caller.yield_turn()
        elif self._stepping:
            self._let_a_caller_go_first()
        elif self._agenda.has_ready():
            self._step()

    def is_caller(self) -> bool:
        """Tell whether a caller is asking, and not a task or the test itself."""
        return self._caller() is not None

    def is_outside(self) -> bool:
        """Tell whether the test itself is asking, outside of any step."""
        return self._caller() is None and not self._stepping

    def close(self) -> None:
        """End all callers, wherever they are, and give back what was changed in Python. Doing it again does nothing."""
        self._closed = True
        with self._open:
            for caller in self._callers:
                caller.abandon()
            self._callers.clear()

    # Steps

    def _run_until(self, goal: Callable[[], bool], deadline: float) -> bool:
        agenda = self._agenda
        at_once = 0
        while not goal():
            if agenda.has_ready():
                at_once += 1
                if at_once > MOST_STEPS_AT_ONCE:
                    last = "\n".join(self.history.lines(last=20))
                    raise Livelock(f"{at_once:,} steps at {agenda.now} s, the last of them:\n{last}")
                self._step()
            elif agenda.advance(deadline):
                at_once = 0
            else:
                return False
        return True

    def _step(self) -> None:
        self._stepping = True
        try:
            self._perform(*self._agenda.take())
        finally:
            self._stepping = False
        for caller in self._callers:
            caller.look()

    def _perform(self, lane: Lane, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - a task's
        """Make one step. What is not an ordinary error is the test's own affair, and ends the run."""
        agenda = self._agenda
        before, agenda.here = agenda.here, lane.loop
        self.steps += 1
        self.history.add(agenda.now, lane.name, label(function))
        try:
            function(argument)
        except SimulationFailed:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - a loop goes on, whatever raises
            self._fail(lane.name, error)
        finally:
            agenda.here = before

    def _let_a_caller_go_first(self) -> None:
        ready = [caller for caller in self._callers if caller.lane.items]
        if ready:
            caller = ready[self._yields.below(len(ready))]
            self._perform(*self._agenda.take_from(caller.lane))

    def _fail(self, place: str, error: BaseException) -> None:
        self.failures.append(Failure(self._agenda.now, place, error))

    # Who is asking, and who is left

    def _here(self, what: str) -> Caller | None:
        """Give the caller who asks, or None for the thread of the test; refuse everybody else."""
        caller = self._caller()
        if self._closed:
            raise Misuse(f"{what} in a world that is closed")
        if caller is None and self._stepping:
            raise Misuse(f"{what} within a task: a loop must never wait")
        return caller

    def _caller(self) -> Caller | None:
        if threading.get_ident() == self._thread:
            return None
        for caller in self._callers:
            if caller.is_here():
                return caller
        raise Misuse(f"{threading.current_thread().name} is a thread that this world did not start")

    def _callers_have_ended(self) -> bool:
        return all(caller.ended for caller in self._callers)

    def _stuck(self, limit: float) -> SimulationFailed:
        """Say who waits for what, and whether it is late or will never come."""
        who = "\n".join(caller.whereabouts() for caller in self._callers if not caller.ended) or "no caller waits"
        if self._agenda.is_empty():
            return Deadlock(f"nothing will ever happen, and what is waited for has not come:\n{who}")
        return OutOfTime(f"{limit} s of virtual time are over, and what is waited for has not come:\n{who}")


def _never() -> bool:
    return False
