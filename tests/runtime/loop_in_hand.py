"""A loop in the hands of a test: what is posted, due, wanted elsewhere or dialled happens when the test says so."""

import heapq
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from pulsar_actors.runtime.actor import Address, LoopActor
from pulsar_actors.runtime.interleaving import Interleaving
from pulsar_actors.runtime.loop import Buffer, Listener, Loop, Owner, Transport


class Line(Transport):
    """Our end of a connection; `room` is how many bytes it takes, None for any number."""

    def __init__(self, host: str = "broker", port: int = 6650, owner: Owner | None = None) -> None:
        self.host = host
        self.port = port
        self.owner: Any = owner
        self.written = bytearray()
        self.writes: list[int] = []
        self.room: int | None = None
        self.awaits_room = False
        self.closed = False

    def send(self, buffers: Sequence[Buffer]) -> int:
        assert not self.closed
        data = b"".join(buffers)[: self.room]
        self.written += data
        self.writes.append(len(data))
        if self.room is not None:
            self.room -= len(data)
        return len(data)

    def await_room(self) -> None:
        assert not self.closed
        self.awaits_room = True

    def close(self) -> None:
        self.closed = True

    def make_room(self, room: int | None) -> None:
        self.room = room
        assert self.awaits_room
        self.awaits_room = False
        self.owner.writable()


class LoopInHand(Loop):
    """Every call is on it, unless `outside` says otherwise."""

    def __init__(self) -> None:
        self.time = 100.0
        self.outside = False
        self.lines: list[Line] = []
        self.errands: list[tuple[Callable[[], Any], Callable[[Any], object], float]] = []
        self.posted: deque[tuple[Callable[[Any], object], Any]] = deque()
        self.timers: list[tuple[float, int, Callable[[Any], object], Any]] = []
        self._serial = count()

    def now(self) -> float:
        return self.time

    def wall_clock_ms(self) -> int:
        return 1_750_000_000_000 + int(self.time * 1000)

    def chance(self) -> float:
        return 0.0

    def is_here(self) -> bool:
        return not self.outside

    def post(self, function: Callable[[Any], object], argument: Any) -> None:
        self.posted.append((function, argument))

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:
        heapq.heappush(self.timers, (self.time + delay, next(self._serial), function, argument))

    def off_loop(
        self, work: Callable[[], Any], done: Callable[[Any], object], *, timeout: float, helper: str = "helper"
    ) -> None:
        self.errands.append((work, done, timeout))

    def connect(self, host: str, port: int, owner: Owner, *, no_delay: bool = True) -> Line:
        line = Line(host, port, owner)
        self.lines.append(line)
        return line

    def listen(self, host: str, port: int, accept: Callable[[Transport, str], Owner]) -> Listener:
        raise NotImplementedError

    def run(self) -> None:
        """Do what is posted, and what that posts."""
        while self.posted:
            function, argument = self.posted.popleft()
            function(argument)

    def pass_time(self, seconds: float) -> None:
        """Do what is due meanwhile."""
        self.run()
        end = self.time + seconds
        while self.timers and self.timers[0][0] <= end:
            self.time, _, function, argument = heapq.heappop(self.timers)
            function(argument)
            self.run()
        self.time = end

    def do_errands(self) -> None:
        """Do what was to be done off the loop."""
        errands, self.errands = self.errands, []
        for work, done, _ in errands:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
                result = error
            done(result)
        self.run()


class Confidant(LoopActor):
    """Whoever an actor tells things to: it remembers them, before and after its end."""

    def __init__(self, loop: Loop, heard: list[Any]) -> None:
        super().__init__(loop, None)
        self._heard = heard

    def receive(self, message: object) -> None:
        self._heard.append(message)


class Confidants:
    """Those of one test, and what each has heard."""

    def __init__(self, loop: LoopInHand) -> None:
        self._loop = loop
        self._heard: dict[Address, list[Any]] = {}

    def make(self) -> Address:
        heard: list[Any] = []
        address = Confidant.start(self._loop, heard)
        self._heard[address] = heard
        return address

    def heard(self, address: Address) -> list[Any]:
        """Give what it was told since it was last asked for."""
        self._loop.run()
        heard = list(self._heard[address])
        self._heard[address].clear()
        return heard


class NoLock:
    """Stands for a lock that nobody else holds."""

    def __enter__(self) -> None:
        """Nothing is in the way."""

    def __exit__(self, *_: object) -> None:
        """Nothing was in the way."""


class Interloper:
    """Does something at one of the places where threads may change."""

    def __init__(self) -> None:
        self._plans: dict[int, Callable[[], object]] = {}
        self._seen = 0
        self.interleaving = Interleaving(NoLock, self._checkpoint)

    def at(self, checkpoint: int, action: Callable[[], object]) -> None:
        """Do it at the so many next checkpoint; 0 is the first."""
        self._plans[self._seen + checkpoint] = action

    def _checkpoint(self) -> None:
        action = self._plans.pop(self._seen, None)
        self._seen += 1
        if action is not None:
            action()


def actor_of(address: Address) -> Any:
    """Reach inside."""
    inbox: Any = address.actor_inbox
    return inbox._actor


def of_kind(kind: type | tuple[type, ...], things: Iterable[Any]) -> list[Any]:
    return [thing for thing in things if isinstance(thing, kind)]


def effects_of(module: Any) -> set[type]:
    """List the classes of a machine's events and effects file that stand under its heading for effects."""
    source = inspect.getsource(module)
    _, _, below = source.partition("# Effects.\n")
    return {
        thing
        for name, thing in vars(module).items()
        if isinstance(thing, type) and f"\nclass {name}(NamedTuple):" in below
    }
