"""Callers that run a loop themselves while they wait, beside its own thread, in every order that a seed draws.

The loop is the real one, and each line of its code may be the last before another thread continues. Only the things
that block are simulated: its lock, its selector, its sockets and the clock.
"""

import selectors
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from pulsar_actors.runtime import tcp, thread_loop
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.thread_loop import ThreadLoop
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.simulation.explore import explore
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import World

ATTENDS = 0.05
PATIENCE = 60.0
TRACED = {thread_loop.__file__, tcp.__file__}
SWITCHES = NetworkConditions(yields=0.2)


class SimulatedTurn:
    """The lock of a loop."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_held = False

    def acquire(self, *, blocking: bool = True, timeout: float | None = None) -> bool:
        while self.is_held:
            if not blocking or not self._world.block(lambda: not self.is_held, timeout):
                return False
        self.is_held = True
        return True

    def release(self) -> None:
        assert self.is_held
        self.is_held = False


class Pipe:
    """A socket: one end of a connection, or of the pair that wakes the loop."""

    def __init__(self) -> None:
        self.incoming: list[bytes] = []
        self.written: Callable[[bytes], object] = lambda _: None
        self.is_closed = False

    def sendmsg(self, buffers: Sequence[bytes]) -> int:
        data = b"".join(buffers)
        self.written(data)
        return len(data)

    def send(self, data: bytes) -> None:
        self.written(data)

    def arrive(self, data: bytes) -> None:
        if not self.is_closed:
            self.incoming.append(data)

    def recv(self, _: int) -> bytes:
        if self.is_closed:
            raise OSError("closed")
        if not self.incoming:
            raise BlockingIOError
        return self.incoming.pop(0)

    def close(self) -> None:
        self.is_closed = True
        self.incoming.clear()


class SimulatedSelector:
    """A selector of pipes. Registering one while another thread sleeps here takes effect at once, as with epoll."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.watched: dict[Pipe, Callable[[int], object]] = {}
        self.lent: set[Pipe] = set()

    def register(self, pipe: Pipe, mask: int, data: Callable[[int], object]) -> None:
        assert mask == selectors.EVENT_READ
        self.watched[pipe] = data

    def unregister(self, pipe: Pipe) -> None:
        del self.watched[pipe]
        self.lent.discard(pipe)

    def modify(self, pipe: Pipe, events: int) -> None:
        """Do as epoll does."""
        assert pipe in self.watched
        if events:
            self.lent.remove(pipe)
        else:
            self.lent.add(pipe)

    def select(self, timeout: float | None) -> list[Any]:
        self._world.block(self._is_ready, timeout)
        events = [(self._key(pipe, data), 1) for pipe, data in self.watched.items() if self._is_ready_there(pipe)]
        self._world.checkpoint()
        return events

    def _is_ready(self) -> bool:
        return any(map(self._is_ready_there, self.watched))

    def _is_ready_there(self, pipe: Pipe) -> bool:
        return bool(pipe.incoming) and pipe not in self.lent

    def _key(self, pipe: Pipe, data: Callable[[int], object]) -> Any:
        def called(mask: int) -> None:
            assert pipe in self.watched
            assert pipe not in self.lent, "told of a socket that is lent"
            data(mask)

        return SimpleNamespace(data=called)

    def get_map(self) -> dict[int, Any]:
        return {number: SimpleNamespace(fileobj=pipe) for number, pipe in enumerate(self.watched)}

    def close(self) -> None:
        """Nothing is open."""


class Poll:
    """What a caller waits with."""

    def __init__(self, world: World, pipe: Pipe) -> None:
        self._world = world
        self._pipe = pipe

    def poll(self, milliseconds: float) -> None:
        self._world.block(lambda: bool(self._pipe.incoming) or self._pipe.is_closed, milliseconds / 1000)


def traced(world: World, function: Callable[[], object]) -> Callable[[], object]:
    """Return the function, in which another thread may continue at each line of the code under test."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            world.checkpoint()
        return trace

    def run() -> None:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            function()
        finally:
            sys.settrace(before)

    return run


class Scene:
    """A loop with one connection. The peer answers each request, some of them late, and sends more unasked."""

    def __init__(self, world: World, clock: Callable[[Callable[[], float]], object]) -> None:
        clock(lambda: world.now)
        self.world = world
        self.dice = Dice(world.seed, "attending")
        self.loop = ThreadLoop("simulated")
        for end in (self.loop._woken, self.loop._waker):
            end.close()
        self.loop._selector.close()
        woken, waker = Pipe(), Pipe()
        waker.written = self.wake(woken)
        self.loop._woken, self.loop._waker = woken, waker  # type: ignore[assignment]
        self.turn = SimulatedTurn(world)
        self.loop._turn = self.turn  # type: ignore[assignment]
        self.selector = SimulatedSelector(world)
        self.loop._selector = self.selector  # type: ignore[assignment]
        if self.loop.epoll is not None:
            self.loop.epoll.close()
        self.loop.epoll = self.selector
        self.selector.register(woken, selectors.EVENT_READ, self.loop._drain_wake_ups)
        self.pipe = Pipe()
        self.pipe.written = self.requested
        self.transport = tcp.TcpTransport(self.loop, self.selector)  # type: ignore[arg-type]
        self.transport.set_owner(self)  # type: ignore[arg-type]
        self.transport._socket = self.pipe  # type: ignore[assignment]
        self.transport._is_open = True
        self.transport._poll = Poll(world, self.pipe)
        self.transport._watch(selectors.EVENT_READ)
        self.futures: dict[bytes, SlimFuture[bytes]] = {}
        self.running: str | None = None
        self.unasked, self.ran, self.timers, self.wake_ups = 0, 0, 0, 0
        self.attended = 0
        self.thread: threading.Thread | None = None
        self.unasked_before, self.unasked_after = 0.0, 0.0
        self.has_timers = True

    def wake(self, woken: Pipe) -> Callable[[bytes], object]:
        def wake(data: bytes) -> None:
            self.wake_ups += 1
            woken.incoming[:] = [data]

        return wake

    def requested(self, request: bytes) -> None:
        """Answer as the peer, mostly before the caller has lost its patience; now and then with bytes of its own."""
        self.world.after(self.delay(), lambda: self.pipe.arrive(request))
        if self.dice.happens(self.unasked_after):
            self.world.after(self.dice.chance() * 0.1, lambda: self.pipe.arrive(b"unasked"))

    def delay(self) -> float:
        return self.dice.chance() * ATTENDS * (4 if self.dice.happens(0.2) else 0.5)

    def posted(self, at: float) -> None:
        with self.alone("posted"):
            assert self.world.now == at, "a function was posted, and nobody woke up"
            self.ran += 1

    def lose(self, _: None) -> None:
        self.transport._lose("planted")

    def received(self, data: bytes) -> None:
        with self.alone("received"):
            if data == b"unasked":
                self.unasked += 1
            else:
                if threading.current_thread() is not self.thread:
                    self.attended += 1
                self.loop.post(self.answer, data)
                self.world.checkpoint()

    def lost(self, reason: str) -> None:
        with self.alone("lost"):
            self.loop.later(0.01, self.give_up, None)  # as if there were another connection by then

    def give_up(self, _: None) -> None:
        with self.alone("give up"):
            for future in self.futures.values():
                if not future.done():
                    future.set_result(b"lost")

    def answer(self, data: bytes) -> None:
        with self.alone("answer"):
            future = self.futures[data]
            if not future.done():
                future.set_result(data)

    def write(self, data: bytes) -> None:
        with self.alone("write"):
            if self.has_timers:
                self.loop.later(0.001, self.timer, self.world.now + 0.001)
            if self.transport.send([data]) == 0:
                self.futures[data].set_result(b"lost")

    def timer(self, due: float) -> None:
        with self.alone("timer"):
            assert self.world.now == pytest.approx(due), "a timer is late"
            self.timers += 1

    def alone(self, what: str) -> "Alone":
        assert self.loop.is_here()
        return Alone(self, what)

    def send(self, data: bytes) -> None:
        """Do what a caller does that waits for an answer."""
        self.futures[data] = future = SlimFuture()
        if self.dice.happens(self.unasked_before):
            self.pipe.arrive(b"unasked")
            for _ in range(self.dice.below(5)):
                self.world.checkpoint()
        self.loop.attend(lambda: self.loop.post(self.write, data), future, ATTENDS)
        assert self.world.block(future, PATIENCE), "an answer was not heard"
        assert future.result(0) in (data, b"lost")

    def run_loop(self) -> None:
        self.thread = threading.current_thread()
        self.loop._run()


class Alone:
    """A function of the loop, during which no other one runs."""

    def __init__(self, scene: Scene, what: str) -> None:
        self._scene = scene
        self._what = what

    def __enter__(self) -> None:
        assert self._scene.running is None, f"{self._what} during {self._scene.running}"
        self._scene.running = self._what
        self._scene.world.checkpoint()

    def __exit__(self, *_: object) -> None:
        self._scene.running = None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], float]], None]:
    """Return a function that sets the clock of loops."""

    def read(now: Callable[[], float]) -> None:
        monkeypatch.setattr(thread_loop, "time", SimpleNamespace(monotonic=now))

    monkeypatch.setattr(
        thread_loop, "socket", SimpleNamespace(socket=(Pipe, socket.socket), socketpair=socket.socketpair)
    )
    return read


def spawned(scene: Scene, *functions: Callable[[], object]) -> list[Caller]:
    """Start the loop's thread and callers."""
    scene.world.spawn(traced(scene.world, scene.run_loop), "the loop's thread")
    return [scene.world.spawn(traced(scene.world, function)) for function in functions]


def finish(scene: Scene, callers: Sequence[Caller]) -> None:
    """Wait for the callers, and for what is still on its way; then end the loop."""
    for caller in callers:
        scene.world.run(until=lambda caller=caller: caller.ended)  # type: ignore[misc]
        caller.result()
    scene.world.run(until=lambda: not scene.pipe.incoming and not scene.loop._timers, limit=PATIENCE)
    scene.world.after(0.0, lambda: scene.loop.post(scene.loop._end, None))
    scene.world.run()


def test_callers_that_attend_miss_nothing_and_never_meet_the_loops_own_thread(clock: Any) -> None:
    attended = 0

    def scenario(world: World) -> None:
        nonlocal attended
        scene = Scene(world, clock)
        scene.unasked_before, scene.unasked_after = 0.5, 0.8

        def poster() -> None:
            for _ in range(20):
                world.block(lambda: scene.turn.is_held, scene.dice.chance() * 0.02)
                for _ in range(scene.dice.below(50)):
                    world.checkpoint()
                scene.loop.post(scene.posted, world.now)

        def sender(name: bytes) -> None:
            for number in range(6):
                world.block(lambda: False, scene.dice.chance() * 0.01)
                scene.send(b"%s%d" % (name, number))

        sending = [partial(sender, name) for name in (b"a", b"b")]
        callers = spawned(scene, *sending, poster)
        finish(scene, callers)
        assert scene.ran == 20
        assert scene.pipe in scene.selector.watched
        assert not scene.selector.lent, "nobody reads any longer"
        attended += scene.attended

    explore(150, scenario, SWITCHES)
    assert attended > 150, "callers hardly ever read an answer themselves"


def test_a_function_that_is_posted_at_the_very_end_of_a_callers_turn_runs_at_once(clock: Any) -> None:
    def scenario(world: World) -> None:
        scene = Scene(world, clock)
        scene.has_timers = False

        def sender() -> None:
            for number in range(4):
                scene.send(b"%d" % number)
                world.block(lambda: False, 0.01)

        def poster() -> None:
            for _ in range(4):
                world.block(lambda: scene.running == "answer", ATTENDS)
                for _ in range(scene.dice.below(20)):
                    world.checkpoint()
                scene.loop.post(scene.posted, world.now)
                world.block(lambda: False, 0.001)

        finish(scene, spawned(scene, sender, poster))
        assert scene.ran == 4

    explore(150, scenario, SWITCHES)


def test_a_caller_alone_wakes_nobody_and_is_woken_by_nobody(clock: Any) -> None:
    def scenario(world: World) -> None:
        scene = Scene(world, clock)
        scene.delay = lambda: ATTENDS / 2
        scene.has_timers = False

        def send_twice() -> None:
            for data in (b"1", b"2"):
                world.block(lambda: scene.loop._asleep and not scene.turn.is_held)
                scene.send(data)

        (caller,) = spawned(scene, send_twice)
        world.run(until=lambda: caller.ended)
        assert (scene.attended, scene.wake_ups) == (2, 0)
        finish(scene, [caller])

    explore(20, scenario, SWITCHES)


def test_the_loops_own_thread_reads_what_comes_after_a_callers_time(clock: Any) -> None:
    def scenario(world: World) -> None:
        scene = Scene(world, clock)
        scene.delay = lambda: ATTENDS * 1.5
        finish(scene, spawned(scene, lambda: scene.send(b"1")))
        assert scene.attended == 0

    explore(20, scenario, SWITCHES)


def test_a_caller_does_not_wait_for_a_function_that_takes_longer_than_its_time(clock: Any) -> None:
    def scenario(world: World) -> None:
        scene = Scene(world, clock)
        scene.has_timers = False
        scene.delay = lambda: ATTENDS / 2

        def send() -> None:
            world.block(lambda: scene.loop._asleep and not scene.turn.is_held)
            began = world.now
            scene.futures[b"1"] = future = SlimFuture[bytes]()
            scene.loop.attend(lambda: scene.loop.post(scene.write, b"1"), future, ATTENDS)
            assert world.now - began == pytest.approx(ATTENDS)
            assert world.block(future, PATIENCE)

        def hold_up() -> None:
            world.block(lambda: scene.transport.is_lent)
            scene.loop.post(lambda _: world.block(lambda: False, ATTENDS * 4), None)

        finish(scene, spawned(scene, send, hold_up))
        assert scene.attended == 0
        assert not scene.selector.lent

    explore(20, scenario, SWITCHES)


def test_a_connection_that_is_lost_while_it_is_lent_is_not_given_back(clock: Any) -> None:
    def scenario(world: World) -> None:
        scene = Scene(world, clock)

        def lose() -> None:
            world.block(lambda: False, scene.dice.chance() * ATTENDS)
            scene.loop.post(scene.lose, None)

        finish(scene, spawned(scene, lambda: [scene.send(b"%d" % number) for number in range(3)], lose))
        assert scene.pipe.is_closed
        assert scene.pipe not in scene.selector.watched

    explore(50, scenario, SWITCHES)


def test_a_loop_ends_while_callers_attend_it(clock: Any) -> None:
    def scenario(world: World) -> None:
        scene = Scene(world, clock)

        def attend(data: bytes) -> None:
            scene.futures[data] = future = SlimFuture[bytes]()
            scene.loop.attend(lambda: scene.loop.post(scene.write, data), future, ATTENDS)

        def end() -> None:
            world.block(lambda: False, scene.dice.chance() * ATTENDS / 4)
            world.block(lambda: scene.turn.is_held, ATTENDS)
            scene.loop.post(scene.loop._end, None)

        spawned(scene, lambda: [attend(b"%d" % number) for number in range(3)], end)
        world.run()
        assert not scene.loop._running
        assert scene.pipe.is_closed

    explore(50, scenario, SWITCHES)
