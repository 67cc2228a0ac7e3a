"""The scheduler: ready steps, steps that are due later, and the clock.

Steps wait in queues. A queue keeps its order: the tasks posted to one loop, the timers of one loop, the bytes that
arrive at one end of a connection. Between queues there is no order, so the next queue is drawn from all that have a
ready step. Time passes only when no queue has one: then the clock jumps to the step that is due first.

With equal probabilities, a queue would rarely wait for long, which many bugs need. So each run draws once how strongly
it prefers the queue that became ready last.

This module also has the parts that a whole run shares: seeded numbers, the history, and the errors:

    SimulationFailed
    ├── Deadlock       a caller waits, and no step is left
    ├── OutOfTime      what was waited for has not come within the virtual time that was allowed
    ├── Livelock       so many steps without any time passing that the run will hardly end
    ├── Unresponsive   a caller keeps its turn: it waits for something real, or loops
    ├── Misuse         the world was asked for something without a meaning, such as waiting on a loop
    ├── TasksFailed    tasks or callers raised, and nobody expected it
    └── SeedFailed     any of these, or an assertion, in one seed of many

They are not in the package's own error tree, because code under test must not catch them.
"""

import logging
import math
import re
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeAlias, final

from pulsar_actors.named_tuple import NamedTuple


class Dice:
    """A stream of random numbers for one use.

    An additional draw in one use does not change the others. It is seeded with text, and only `random()` is called: in
    `random.Random` only these two give the same numbers on every version of Python.
    """

    __slots__ = ("chance",)

    def __init__(self, seed: int, use: str) -> None:
        self.chance = Random(f"{seed}/{use}").random  # noqa: S311 - nothing is secret here
        """Draw a number in [0, 1)."""

    def below(self, bound: int) -> int:
        """Draw a whole number from 0 up to, but not including, the bound."""
        return int(self.chance() * bound)

    def happens(self, probability: float) -> bool:
        """Draw if an event of this probability happens. Probability 0 needs no draw."""
        return probability > 0.0 and self.chance() < probability


LoopTask: TypeAlias = Callable[[Any], object]

PREFERENCES = (0.0, 0.0, 0.5, 0.9)
"""Probabilities of continuing with the queue that became ready last. A run draws one of them."""


class TaskQueue:
    """Steps in order, on one loop, or on none if `loop` is None."""

    __slots__ = ("closed", "items", "loop", "name")

    def __init__(self, name: str, loop: object | None = None) -> None:
        self.name = name
        self.loop = loop
        self.items: deque[tuple[LoopTask, Any]] = deque()
        self.closed = False


class DueTask(NamedTuple):
    """A step for later; the number keeps the order of steps that are due at the same time."""

    time: float
    number: int
    queue: TaskQueue
    function: LoopTask
    argument: Any


class Scheduler:
    """The queues with ready steps, the steps that are due later, and the clock.

    `here` is the loop whose task is running, or None. `spent` is the time that the running blocking work has taken.
    """

    __slots__ = ("_dice", "_due", "_number", "_preference", "_ready", "here", "now", "spent")

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.here: object | None = None
        self.spent = 0.0
        self._dice = Dice(seed, "order")
        self._preference = PREFERENCES[self._dice.below(len(PREFERENCES))]
        self._ready: list[TaskQueue] = []
        self._due: list[DueTask] = []
        self._number = 0

    def add(self, queue: TaskQueue, function: LoopTask, argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Append a step that is ready now. A closed queue takes nothing."""
        if queue.closed:
            return
        if not queue.items:
            self._ready.append(queue)
        queue.items.append((function, argument))

    def at(self, time: float, queue: TaskQueue, function: LoopTask, argument: Any) -> None:  # noqa: ANN401 - the same
        """Schedule a step. Steps of one queue that are due at the same time keep their order; infinity is never."""
        if not time < math.inf:
            return
        self._number += 1
        heappush(self._due, DueTask(max(time, self.now), self._number, queue, function, argument))

    def close(self, queue: TaskQueue) -> None:
        """Drop the steps of a queue, and let it take no more."""
        queue.closed = True
        if queue.items:
            queue.items.clear()
            self._ready.remove(queue)

    def has_ready(self) -> bool:
        """Return whether a step is ready, so that no time has to pass."""
        return bool(self._ready)

    def take(self) -> tuple[TaskQueue, LoopTask, Any]:
        """Draw a queue, and take its first step."""
        ready = self._ready
        index = -1 if self._dice.happens(self._preference) else self._dice.below(len(ready))
        queue = ready[index]
        function, argument = queue.items.popleft()
        if not queue.items:
            ready[index] = ready[-1]
            ready.pop()
        return queue, function, argument

    def take_from(self, queue: TaskQueue) -> tuple[TaskQueue, LoopTask, Any]:
        """Take the first step of a queue that has one."""
        function, argument = queue.items.popleft()
        if not queue.items:
            self._ready.remove(queue)
        return queue, function, argument

    def is_empty(self) -> bool:
        """Return whether no step is ready or due."""
        self._forget_closed()
        return not self._ready and not self._due

    def advance(self, limit: float) -> bool:
        """Let time pass until a step is ready; return whether one is, within the limit."""
        self._forget_closed()
        due = self._due
        if not due or due[0].time > limit:
            return False
        now = self.now = due[0].time
        while due and due[0].time <= now:
            _, _, queue, function, argument = heappop(due)
            self.add(queue, function, argument)
        return True

    def _forget_closed(self) -> None:
        """Drop the first steps if their queue is closed, so that the clock does not move for them."""
        while self._due and self._due[0].queue.closed:
            heappop(self._due)


class History:
    """The steps of a run, and the notes of the network and the test, with their virtual time.

    It has names and no references to objects, so that objects are collected as they would be without it.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[float, str, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time: float, place: str, what: str) -> None:
        """Append a line."""
        self._entries.append((time, place, what))

    def lines(self, last: int | None = None) -> list[str]:
        """Return the last so many lines, or all."""
        entries = self._entries if last is None else self._entries[-last:]
        return [f"{time:12.6f}  {place:<28}  {what}" for time, place, what in entries]


def label(function: Any) -> str:  # noqa: ANN401 - whatever can be called
    """Return the name of something callable, without its address."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


@final
class LogReader(logging.Handler):
    """Reads the log of the package into the history.

    An error with a traceback was caught by code that could only log it, such as a bug of an actor. It is a failure of
    the run, because there may be no caller that gets the error.
    """

    def __init__(self, line: Callable[[str], object], failure: Callable[[str, BaseException], object]) -> None:
        super().__init__()
        self._line = line
        self._failure = failure

    def emit(self, record: logging.LogRecord) -> None:
        """Note a log line in the history, without the addresses of objects, which differ from run to run."""
        text = _ADDRESS.sub("0x…", f"{record.levelname}: {record.getMessage()}")
        self._line(text)
        exc_info: Any = record.exc_info
        if record.levelno >= logging.ERROR and exc_info and exc_info[1] is not None:
            self._failure(text, exc_info[1])

    def __enter__(self) -> "LogReader":
        """Begin to read."""
        logging.getLogger("pulsar_actors").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading."""
        logging.getLogger("pulsar_actors").removeHandler(self)


class TaskFailure(NamedTuple):
    """An exception of a task or a caller, with its time and place."""

    time: float
    place: str
    error: BaseException

    def __str__(self) -> str:
        """Format it with its traceback."""
        trace = "".join(traceback.format_exception(self.error))
        return f"at {self.time:.6f} s, {self.place}:\n{trace}"


class SimulationFailed(Exception):
    """The root of the simulation's errors."""


class Deadlock(SimulationFailed):
    """A caller waits, and no step is left."""


class OutOfTime(SimulationFailed):
    """The awaited condition was not true in time."""


class Livelock(SimulationFailed):
    """Endless steps, while the clock stands still."""


class Unresponsive(SimulationFailed):
    """A caller keeps its turn."""


class Misuse(SimulationFailed):
    """The world was used in a way that is not allowed, such as waiting on a loop."""


class TasksFailed(SimulationFailed):
    """Tasks or callers raised what nobody expected; the text has all of it."""

    def __init__(self, failures: Sequence[TaskFailure]) -> None:
        super().__init__(failures)
        self.failures = failures

    def __str__(self) -> str:
        """Format every failure with its traceback. The first one comes first: it often causes the others."""
        return "\n".join([f"{len(self.failures)} failed:", *map(str, self.failures)])


class SeedFailed(SimulationFailed):
    """One seed of many has failed."""


class Abandoned(BaseException):
    """Ends the thread of a caller that has not returned when the world ends."""
