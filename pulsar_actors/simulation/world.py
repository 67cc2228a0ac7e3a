"""The world: a clock, a network, loops and callers, and the code that runs the steps.

    with World(seed=17) as world:
        broker, client = world.loop("broker"), world.loop("client")
        ...
        first = world.spawn(lambda: producer.send(b"1"))
        world.run()
        assert first.result() == ...

All code runs on the thread that made the world, except that callers have threads. One of these runs at a time, while
the world's thread waits. An exception on a loop is added to `failures`, and fails the run at its end unless the test
removes it. The exception of a caller is, too, if its `result` is not called, and so is an error that the package logs
with a traceback.

While a world is open, Python's cyclic garbage collector is off: it would run, with finalizers, after a number of
allocations, and so at times that no seed decides.

A loop of the world has two queues, for posted tasks and for timers. Each keeps its order; between the two there is
none, as with a real loop. Methods for the loop's own thread raise elsewhere: on a real loop such a call would cause
rare errors without a visible reason.
"""

import gc
import math
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar, final

from pulsar_actors.runtime.loop import Listener, Loop, Transport, TransportOwner
from pulsar_actors.simulation.caller import Caller, Condition, is_there
from pulsar_actors.simulation.connection import CALM, NetworkConditions, NetworkContext, NetworkFault
from pulsar_actors.simulation.network import Network, NetworkFaults, NetworkNode
from pulsar_actors.simulation.scheduler import (
    Deadlock,
    Dice,
    History,
    Livelock,
    LogReader,
    Misuse,
    OutOfTime,
    Scheduler,
    SimulationFailed,
    TaskFailure,
    TaskQueue,
    TasksFailed,
    label,
)

T = TypeVar("T")

EPOCH_MS = 1_750_000_000_000
"""The wall clock when the virtual clock is at 0."""


class SimulatedLoop(Loop):
    """A loop of a world."""

    def __init__(self, name: str, scheduler: Scheduler, network: Network, dice: Dice) -> None:
        self.name = name
        self._scheduler = scheduler
        self._network = network
        self._dice = dice
        self._node = NetworkNode(self, name)
        self._posted = TaskQueue(name, self)
        self._timers = TaskQueue(f"{name} timer", self)
        self._blocking = TaskQueue(f"{name} executor")
        self._running = True
        self._executors: dict[str, _Executor] = {}
        self.clock_error = 0.0
        """By how many seconds its wall clock is wrong."""

    @property
    def is_running(self) -> bool:
        """True until the loop has stopped."""
        return self._running

    def start(self) -> None:
        """Do nothing: the loop runs from the beginning."""

    def stop(self, timeout: float | None = None) -> None:
        """Run the functions posted before, then close all listeners and connections.

        The caller does not wait for that.
        """
        self.post(self._end, None)

    def now(self) -> float:
        """Read the virtual clock, which goes on while blocking work spends time."""
        return self._scheduler.now + self._scheduler.spent

    def wall_clock_ms(self) -> int:
        """Read the wall clock, which runs with the virtual clock."""
        return EPOCH_MS + int((self._scheduler.now + self.clock_error) * 1000)

    def chance(self) -> float:
        """Draw a number in [0, 1)."""
        return self._dice.chance()

    def is_here(self) -> bool:
        """Return whether one of its tasks is running."""
        return self._scheduler.here is self

    def post(self, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Append a function to the posted tasks."""
        self._scheduler.add(self._posted, function, argument)

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - the same
        """Schedule a function."""
        self._check("later")
        self._scheduler.at(self._scheduler.now + delay, self._timers, function, argument)

    def run_blocking(
        self,
        work: Callable[[], T],
        done: Callable[[T | Exception], object],
        *,
        timeout: float,
        executor: str = "blocking",
    ) -> None:
        """Run the work after a random time, on no loop, even if that is after the timeout.

        Work that spends time (`World.spend`) keeps its executor busy meanwhile, until the timeout at the latest.
        """
        self._check("run_blocking")
        blocking_latency = self._network.context.conditions.blocking_latency
        used = self._executors.setdefault(executor, _Executor())
        call = _BlockingCall(work, done, used, self._scheduler.now + timeout)
        now = self._scheduler.now
        self._scheduler.at(now + blocking_latency * self._dice.chance(), self._blocking, self._work, call)
        self._scheduler.at(call.deadline, self._timers, call.give_up, timeout)

    def give_up_executor(self, executor: str) -> None:
        """Answer no work that the executor has, and begin none of it."""
        self._check("give_up_executor")
        if executor in self._executors:
            self._executors.pop(executor).is_given_up = True

    def connect(self, host: str, port: int, owner: TransportOwner, *, no_delay: bool = True) -> Transport:
        """Open a connection within the world."""
        self._check("connect")
        return self._network.connect(self._node, host, port, owner)

    def listen(self, host: str, port: int, accept: Callable[[Transport, str], TransportOwner]) -> Listener:
        """Accept connections from within the world."""
        self._check("listen")
        return self._network.listen(self._node, host, port, accept)

    def _work(self, call: "_BlockingCall") -> None:
        scheduler, executor = self._scheduler, call.executor
        if executor.busy_until > scheduler.now:
            if executor.busy_until < call.deadline:  # or else it times out in the queue
                scheduler.at(executor.busy_until, self._blocking, self._work, call)
            return
        if executor.is_given_up:
            return
        outcome = call.outcome()
        spent, scheduler.spent = scheduler.spent, 0.0
        if spent:
            executor.busy_until = min(scheduler.now + spent, call.deadline)
            scheduler.at(scheduler.now + spent, self._posted, call.answer, outcome)
        else:
            self.post(call.answer, outcome)

    def _check(self, what: str) -> None:
        if self._scheduler.here is not self:
            raise Misuse(f"{what} was called outside of the loop {self.name}: post to it what shall call it")

    def _end(self, _: None) -> None:
        self._running = False
        for queue in (self._posted, self._timers, self._blocking):
            self._scheduler.close(queue)
        self._network.leave(self)


class _Executor:
    """An executor of blocking work."""

    __slots__ = ("busy_until", "is_given_up")

    def __init__(self) -> None:
        self.busy_until = 0.0
        self.is_given_up = False


class _BlockingCall:
    """Blocking work. The first answer counts, that of the work or that of the timeout."""

    __slots__ = ("_answered", "_done", "_work", "deadline", "executor")

    def __init__(
        self, work: Callable[[], Any], done: Callable[[Any], object], executor: _Executor, deadline: float
    ) -> None:
        self._work = work
        self._done = done
        self._answered = False
        self.executor = executor
        self.deadline = deadline

    def outcome(self) -> Any:  # noqa: ANN401 - whatever the work gives
        """Run the work, and return its result or its error."""
        try:
            return self._work()
        except Exception as error:  # noqa: BLE001 - it is for `done` to judge
            return error

    def give_up(self, timeout: float) -> None:
        """Answer with a TimeoutError."""
        self.answer(TimeoutError(f"it took longer than {timeout} s"))

    def answer(self, result: Any) -> None:  # noqa: ANN401 - whatever the work gives
        """Answer, unless that was done, or nobody waits for it."""
        if not self._answered and not self.executor.is_given_up:
            self._answered = True
            self._done(result)


LONGEST = 24 * 3600.0
"""The most virtual seconds of a run, by default."""

MOST_STEPS_AT_ONCE = 1_000_000
"""The most steps without any time passing."""


@final
class World:
    """One run. Everything in it is made here."""

    def __init__(self, seed: int, conditions: NetworkConditions = CALM, longest_wait: float = math.inf) -> None:
        self.seed = seed
        self._longest_wait = longest_wait
        self.history = History()
        self.failures: list[TaskFailure] = []
        self.steps = 0
        self._scheduler = Scheduler(seed)
        context = NetworkContext(self._scheduler, self.history, Dice(seed, "network"), conditions)
        self.faults = NetworkFaults(seed, context)
        self._network = Network(context, self.faults)
        self._conditions = conditions
        self._yields = Dice(seed, "yields")
        self._queue = TaskQueue("world")
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
        return self._scheduler.now

    @property
    def faults_injected(self) -> Counter[NetworkFault]:
        """The faults of the network so far."""
        return self.faults.injected

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.history.add(self._scheduler.now, "note", text)

    def loop(self, name: str) -> SimulatedLoop:
        """Make a loop. Its name is the host that it connects from."""
        if any(loop.name == name and loop.is_running for loop in self._loops):
            raise Misuse(f"there is a loop {name!r} already, which has not been stopped")
        loop = SimulatedLoop(name, self._scheduler, self._network, Dice(self.seed, f"loop {name}"))
        self._loops.append(loop)
        return loop

    def after(self, delay: float, action: Callable[[], object]) -> None:
        """Run an action later, such as a fault, as a step on no loop."""
        self._scheduler.at(self._scheduler.now + delay, self._queue, lambda _: action(), None)

    def spend(self, seconds: float) -> None:
        """Let the blocking work that is running take so long: its outcome comes that much later."""
        self._scheduler.spent += seconds

    def spawn(self, function: Callable[[], Any], name: str | None = None) -> Caller:
        """Run a function as a caller. It starts in its first turn."""
        self._callers = [caller for caller in self._callers if not caller.ended]
        self._spawned += 1
        caller = Caller(name or f"caller-{self._spawned}", function, self._scheduler, self.failures)
        self._callers.append(caller)
        return caller

    def run(self, until: Callable[[], bool] | None = None, limit: float = LONGEST) -> None:
        """Make steps until the condition holds. Without one: until all callers have ended.

        Without callers as well: until no step is left or the virtual time is over.
        """
        if self._here("run") is not None:
            raise Misuse("a caller cannot run the world that it is in: `block` waits")
        goal = until or (self._callers_have_ended if not self._callers_have_ended() else _never)
        deadline = self._scheduler.now + limit
        if self._run_until(goal, deadline):
            return
        if goal is not _never:
            raise self._stuck(limit)
        if not self._scheduler.is_empty():
            self._scheduler.now = deadline

    def block(self, wait_for: Condition, timeout: float | None = None) -> bool:
        """Wait for a condition or a future, and return whether it has come.

        A caller returns its turn meanwhile. On the thread of the test, outside of any step, the world runs meanwhile:
        without a timeout for the longest wait of the world, and then it raises.
        """
        caller = self._here("block")
        if caller is not None:
            self.checkpoint()
            return caller.wait(wait_for, math.inf if timeout is None else self._scheduler.now + timeout)
        deadline = self._scheduler.now + (self._longest_wait if timeout is None else timeout)
        if self._run_until(is_there(wait_for), deadline):
            return True
        if timeout is None:
            raise self._stuck(self._longest_wait)
        self._scheduler.now = max(self._scheduler.now, deadline)
        return False

    def checkpoint(self) -> None:
        """Let another step run first, at random, as a thread might be interrupted here.

        In a caller, any step may run first. In a task of a loop, only callers may, because a loop runs one task at a
        time.
        """
        if not self._yields.happens(self._conditions.yields):
            return
        caller = self._caller()
        if caller is not None:
            caller.yield_turn()
        elif self._stepping:
            self._let_a_caller_go_first()
        elif self._scheduler.has_ready():
            self._step()

    def is_here(self) -> bool:
        """Return whether this is one of the world's threads, on which its time counts."""
        if threading.get_ident() == self._thread:
            return True
        return any(caller.is_here() for caller in self._callers)

    def is_caller(self) -> bool:
        """Return whether this is the thread of a caller."""
        return self._caller() is not None

    def is_outside(self) -> bool:
        """Return whether this is the test itself, outside of any step."""
        return self._caller() is None and not self._stepping

    def close(self) -> None:
        """End all callers, and switch the garbage collector on again. A second call does nothing."""
        self._closed = True
        with self._open:
            for caller in self._callers:
                caller.abandon()
            self._callers.clear()

    # Steps

    def _run_until(self, goal: Callable[[], bool], deadline: float) -> bool:
        scheduler = self._scheduler
        at_once = 0
        while not goal():
            if scheduler.has_ready():
                at_once += 1
                if at_once > MOST_STEPS_AT_ONCE:
                    last = "\n".join(self.history.lines(last=20))
                    raise Livelock(f"{at_once:,} steps at {scheduler.now} s, the last of them:\n{last}")
                self._step()
            elif scheduler.advance(deadline):
                at_once = 0
            else:
                return False
        return True

    def _step(self) -> None:
        self._stepping = True
        try:
            self._perform(*self._scheduler.take())
        finally:
            self._stepping = False
        for caller in self._callers:
            caller.look()

    def _perform(self, queue: TaskQueue, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - a task's
        """Run one step. A BaseException that is no ordinary error ends the run."""
        scheduler = self._scheduler
        before, scheduler.here = scheduler.here, queue.loop
        self.steps += 1
        self.history.add(scheduler.now, queue.name, label(function))
        try:
            function(argument)
        except SimulationFailed:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - a loop goes on, whatever raises
            self._fail(queue.name, error)
        finally:
            scheduler.here = before

    def _let_a_caller_go_first(self) -> None:
        ready = [caller for caller in self._callers if caller.queue.items]
        if ready:
            caller = ready[self._yields.below(len(ready))]
            self._perform(*self._scheduler.take_from(caller.queue))

    def _fail(self, place: str, error: BaseException) -> None:
        self.failures.append(TaskFailure(self._scheduler.now, place, error))

    # The calling thread, and callers that are left

    def _here(self, what: str) -> Caller | None:
        """Return the caller of this thread, or None for the test's thread. Raise within a task."""
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
        raise Misuse(
            f"{threading.current_thread().name} is a thread that the simulation did not start: use its `start`"
        )

    def _callers_have_ended(self) -> bool:
        return all(caller.ended for caller in self._callers)

    def _stuck(self, limit: float) -> SimulationFailed:
        """Make the error for callers that wait: Deadlock if no step is left, OutOfTime otherwise."""
        who = (
            "\n".join(caller.whereabouts() for caller in self._callers if not caller.ended) or "every caller has ended"
        )
        if self._scheduler.is_empty():
            return Deadlock(f"nothing will ever happen, and what is waited for has not come:\n{who}")
        return OutOfTime(f"{limit:,g} s of virtual time are over, and what is waited for has not come:\n{who}")


def _never() -> bool:
    return False
