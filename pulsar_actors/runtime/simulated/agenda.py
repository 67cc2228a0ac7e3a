"""The agenda: what is ready to happen, what is due later, and what goes next.

Things to do wait in lanes. A lane keeps its order: the tasks posted to one loop, the timers of one loop, what arrives
at one end of a connection. Between lanes there is none, so whoever goes next is drawn among all lanes that have
something ready. Time passes only when none has: then the clock jumps to what is due first.

Equal chances for all would hardly ever leave a lane waiting for long, which is where many bugs live. So each run has a
leaning, drawn once, to go on with whatever became ready last.
"""

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from pulsar_actors.runtime.simulated.dice import Dice

Task: TypeAlias = Callable[[Any], object]

LEANINGS = (0.0, 0.0, 0.5, 0.9)


class Lane:
    """Things to do one after the other, on one loop or, where that is None, on none."""

    __slots__ = ("closed", "items", "loop", "name")

    def __init__(self, name: str, loop: object | None = None) -> None:
        self.name = name
        self.loop = loop
        self.items: deque[tuple[Task, Any]] = deque()
        self.closed = False


class Due(NamedTuple):
    """Something for later; the number keeps the order of what is due at the same time."""

    time: float
    number: int
    lane: Lane
    function: Task
    argument: Any


class Agenda:
    """The lanes that have something ready, what is due later, and the clock.

    `here` is the loop whose task is running, if one is.
    """

    __slots__ = ("_dice", "_due", "_leaning", "_number", "_ready", "here", "now")

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.here: object | None = None
        self._dice = Dice(seed, "order")
        self._leaning = LEANINGS[self._dice.below(len(LEANINGS))]
        self._ready: list[Lane] = []
        self._due: list[Due] = []
        self._number = 0

    def add(self, lane: Lane, function: Task, argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Let it happen now, after what is in the lane already. A closed lane takes nothing."""
        if lane.closed:
            return
        if not lane.items:
            self._ready.append(lane)
        lane.items.append((function, argument))

    def at(self, time: float, lane: Lane, function: Task, argument: Any) -> None:  # noqa: ANN401 - the same
        """Let it happen then. What is due at the same time in one lane keeps its order; infinity is never."""
        if not time < math.inf:
            return
        self._number += 1
        heappush(self._due, Due(max(time, self.now), self._number, lane, function, argument))

    def close(self, lane: Lane) -> None:
        """Forget what waits in the lane, and let it take nothing more."""
        lane.closed = True
        if lane.items:
            lane.items.clear()
            self._ready.remove(lane)

    def has_ready(self) -> bool:
        """Tell whether something can happen without time passing."""
        return bool(self._ready)

    def take(self) -> tuple[Lane, Task, Any]:
        """Draw a lane, and take its first thing."""
        ready = self._ready
        index = -1 if self._dice.happens(self._leaning) else self._dice.below(len(ready))
        lane = ready[index]
        function, argument = lane.items.popleft()
        if not lane.items:
            ready[index] = ready[-1]
            ready.pop()
        return lane, function, argument

    def take_from(self, lane: Lane) -> tuple[Lane, Task, Any]:
        """Take the first thing of a lane that has something."""
        function, argument = lane.items.popleft()
        if not lane.items:
            self._ready.remove(lane)
        return lane, function, argument

    def is_empty(self) -> bool:
        """Tell whether nothing will ever happen."""
        self._forget_closed()
        return not self._ready and not self._due

    def advance(self, limit: float) -> bool:
        """Let time pass until something is ready; tell whether it is, within the limit."""
        self._forget_closed()
        due = self._due
        if not due or due[0].time > limit:
            return False
        now = self.now = due[0].time
        while due and due[0].time <= now:
            _, _, lane, function, argument = heappop(due)
            self.add(lane, function, argument)
        return True

    def _forget_closed(self) -> None:
        """Drop what comes first and would not happen, so that the clock does not move for it."""
        while self._due and self._due[0].lane.closed:
            heappop(self._due)
