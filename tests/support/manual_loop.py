"""A loop that a test runs by hand: posted functions, timers and blocking calls run when the test says so."""

import heapq
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from pulsar_actors.runtime.actor import ActorRef, LoopActor, tell
from pulsar_actors.runtime.loop import Buffer, Interleaving, Listener, Loop, Transport, TransportOwner
from pulsar_actors.runtime.messages import ActorStarted
from pulsar_actors.runtime.tcp import SocketLoop


class Line(Transport):
    """A fake transport. `room` is the number of bytes that it takes, or None for any number."""

    def __init__(self, host: str = "broker", port: int = 6650, owner: TransportOwner | None = None) -> None:
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


class ManualLoop(SocketLoop):
    """A loop that a test runs by hand. Every call counts as one on the loop, unless `outside` is set."""

    def __init__(self) -> None:
        self.time = 100.0
        self.outside = False
        self.lines: list[Line] = []
        self.blocking_calls: list[tuple[Callable[[], Any], Callable[[Any], object], float]] = []
        self._given_up: dict[str, list[bool]] = {}  # by executor: a list that is empty until then
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

    def run_blocking(
        self, work: Callable[[], Any], done: Callable[[Any], object], *, timeout: float, executor: str = "blocking"
    ) -> None:
        given_up = self._given_up.setdefault(executor, [])

        def answer(outcome: Any) -> None:
            if not given_up:
                done(outcome)

        self.blocking_calls.append((work, answer, timeout))

    def give_up_executor(self, executor: str) -> None:
        """Leave its calls, but answer none: a thread that has begun one goes on, too."""
        self._given_up.pop(executor, []).append(True)

    def connect(self, host: str, port: int, owner: TransportOwner, *, no_delay: bool = True) -> Line:
        line = Line(host, port, owner)
        self.lines.append(line)
        return line

    def listen(self, host: str, port: int, accept: Callable[[Transport, str], TransportOwner]) -> Listener:
        raise NotImplementedError

    def run(self) -> None:
        """Run the posted functions, and those that they post."""
        while self.posted:
            function, argument = self.posted.popleft()
            function(argument)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and run the timers that are due in it."""
        self.run()
        end = self.time + seconds
        while self.timers and self.timers[0][0] <= end:
            self.time, _, function, argument = heapq.heappop(self.timers)
            function(argument)
            self.run()
        self.time = end

    def run_blocking_calls(self) -> None:
        """Run the blocking calls, and post their outcomes."""
        blocking_calls, self.blocking_calls = self.blocking_calls, []
        for work, done, _ in blocking_calls:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - it is the outcome
                result = error
            done(result)
        self.run()


class RecordingActor(LoopActor):
    """An actor that records the messages it is told."""

    def __init__(self, loop: Loop, heard: list[Any]) -> None:
        super().__init__(loop, None)
        self._heard = heard

    def receive(self, message: object) -> None:
        self._heard.append(message)


class RecordingActors:
    """The recording actors of one test."""

    def __init__(self, loop: ManualLoop) -> None:
        self._loop = loop
        self._heard: dict[ActorRef, list[Any]] = {}

    def make(self) -> ActorRef:
        heard: list[Any] = []
        address = RecordingActor.start(self._loop, heard)
        self._heard[address] = heard
        return address

    def heard(self, address: ActorRef) -> list[Any]:
        """Return the messages since the last call."""
        self._loop.run()
        heard = list(self._heard[address])
        self._heard[address].clear()
        return heard


class ActorBench:
    """An actor on a loop that the test runs by hand, with actors around it that record what they are told."""

    actor: ActorRef

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.actors = RecordingActors(self.loop)
        self.guardian = self.actors.make()

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.actor, message)
        self.loop.run()

    def to_guardian(self) -> list[Any]:
        """Give what the guardian has heard, but for the start of actors."""
        return [heard for heard in self.actors.heard(self.guardian) if not isinstance(heard, ActorStarted)]


class NoLock:
    """A lock that nothing else holds."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class Interrupter:
    """Calls a function at a checkpoint, as if another thread ran there."""

    def __init__(self) -> None:
        self._plans: dict[int, Callable[[], object]] = {}
        self._seen = 0
        self.interleaving = Interleaving(NoLock, self._checkpoint)

    def at(self, checkpoint: int, action: Callable[[], object]) -> None:
        """Call the function at one of the next checkpoints. 0 is the first."""
        self._plans[self._seen + checkpoint] = action

    def _checkpoint(self) -> None:
        action = self._plans.pop(self._seen, None)
        self._seen += 1
        if action is not None:
            action()


def actor_of(address: ActorRef) -> Any:
    """Return the actor of an address."""
    inbox: Any = address.actor_inbox
    return inbox.actor


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
