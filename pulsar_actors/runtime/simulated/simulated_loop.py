"""The loop of a simulated world: two lanes of its agenda, and a place on its network.

What is posted is one lane, timers are the other: each keeps its order, and between them, as on a thread, either may be
first. Whatever the interface keeps for the loop's own thread is refused elsewhere, since a real loop would break there
once in a while, and nobody would know why.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from pulsar_actors.runtime.loop import Listener, Loop, Owner, Transport
from pulsar_actors.runtime.simulated.agenda import Agenda, Lane
from pulsar_actors.runtime.simulated.dice import Dice
from pulsar_actors.runtime.simulated.errors import Misuse
from pulsar_actors.runtime.simulated.network import Network, Site

T = TypeVar("T")

EPOCH_MS = 1_750_000_000_000
"""What the calendar says when the virtual clock says nought."""


class SimulatedLoop(Loop):
    """A loop of a world."""

    def __init__(self, name: str, agenda: Agenda, network: Network, dice: Dice) -> None:
        self.name = name
        self._agenda = agenda
        self._network = network
        self._dice = dice
        self._site = Site(self, name)
        self._posted = Lane(name, self)
        self._timers = Lane(f"{name} timer", self)
        self._elsewhere = Lane(f"{name} helper")
        self._running = True

    @property
    def is_running(self) -> bool:
        """Tell whether anything will still happen on it."""
        return self._running

    def start(self) -> None:
        """Do nothing: it runs from the beginning, whenever its turn comes."""

    def stop(self, timeout: float | None = None) -> None:
        """End it after what was posted before, and close what it has on the network; nobody waits for that here."""
        self.post(self._end, None)

    def now(self) -> float:
        """Read the virtual clock."""
        return self._agenda.now

    def wall_clock_ms(self) -> int:
        """Read the calendar, which runs with the virtual clock."""
        return EPOCH_MS + int(self._agenda.now * 1000)

    def chance(self) -> float:
        """Draw a number from dice of its own."""
        return self._dice.chance()

    def is_here(self) -> bool:
        """Tell whether one of its tasks is running."""
        return self._agenda.here is self

    def post(self, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Put it into the lane."""
        self._agenda.add(self._posted, function, argument)

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - the same
        """Put it on the agenda."""
        self._check("later")
        self._agenda.at(self._agenda.now + delay, self._timers, function, argument)

    def off_loop(
        self, work: Callable[[], T], done: Callable[[T | Exception], object], *, timeout: float, helper: str = "helper"
    ) -> None:
        """Do it after a while, on no loop, whether or not it is in time."""
        self._check("off_loop")
        helper_latency = self._network.setting.weather.helper_latency
        errand = _Errand(self, work, done)
        now = self._agenda.now
        self._agenda.at(now + helper_latency * self._dice.chance(), self._elsewhere, errand.run, None)
        self._agenda.at(now + timeout, self._timers, errand.give_up, timeout)

    def connect(self, host: str, port: int, owner: Owner, *, no_delay: bool = True) -> Transport:
        """Open a connection within the world."""
        self._check("connect")
        return self._network.connect(self._site, host, port, owner)

    def listen(self, host: str, port: int, accept: Callable[[Transport, str], Owner]) -> Listener:
        """Accept connections from within the world."""
        self._check("listen")
        return self._network.listen(self._site, host, port, accept)

    def _check(self, what: str) -> None:
        if self._agenda.here is not self:
            raise Misuse(f"{what} was called outside of the loop {self.name}: post to it what shall call it")

    def _end(self, _: None) -> None:
        self._running = False
        for lane in (self._posted, self._timers, self._elsewhere):
            self._agenda.close(lane)
        self._network.leave(self)


class _Errand:
    """Work that is done elsewhere; whoever is first, it or the timeout, answers."""

    __slots__ = ("_answered", "_done", "_loop", "_work")

    def __init__(self, loop: Loop, work: Callable[[], Any], done: Callable[[Any], object]) -> None:
        self._loop = loop
        self._work = work
        self._done = done
        self._answered = False

    def run(self, _: None) -> None:
        """Do the work, and bring back what comes of it."""
        try:
            result = self._work()
        except Exception as error:  # noqa: BLE001 - it is for `done` to judge
            result = error
        self._loop.post(self._answer, result)

    def give_up(self, timeout: float) -> None:
        """Answer that the time is over."""
        self._answer(TimeoutError(f"it took longer than {timeout} s"))

    def _answer(self, result: Any) -> None:  # noqa: ANN401 - whatever the work gives
        if not self._answered:
            self._answered = True
            self._done(result)
