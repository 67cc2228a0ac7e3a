"""A loop that a test runs by hand, and the broker's end of a connection whose other end is the test."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from pulsar_actors.runtime.loop import Listener, Loop, Transport, TransportOwner


class BenchListener(Listener):
    def __init__(self, loop: "BenchLoop", port: int) -> None:
        self._loop = loop
        self._port = port

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        del self._loop.open_ports[self._port]


class BenchLoop(Loop):
    """A loop that runs posted functions, and lets time pass, when the test says so."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.open_ports: dict[int, Callable[[Transport, str], TransportOwner]] = {}
        self.taken_ports: set[int] = set()
        self._free_ports = count(10_000)
        self._serial = count()
        self._posted: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._timers: list[tuple[float, int, Callable[[Any], object], Any]] = []

    def now(self) -> float:
        return self.time

    def wall_clock_ms(self) -> int:
        return int(self.time * 1000)

    def chance(self) -> float:
        return 0.5

    def is_here(self) -> bool:
        return True

    def post(self, function: Callable[[Any], object], argument: Any) -> None:
        self._posted.append((function, argument))

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:
        heapq.heappush(self._timers, (self.time + delay, next(self._serial), function, argument))

    def run_blocking(
        self, work: Callable[[], Any], done: Callable[[Any], object], *, timeout: float, executor: str = "blocking"
    ) -> None:
        raise NotImplementedError

    def give_up_executor(self, executor: str) -> None:
        raise NotImplementedError

    def connect(self, host: str, port: int, owner: TransportOwner) -> Transport:
        raise NotImplementedError

    def listen(self, host: str, port: int, accept: Callable[[Transport, str], TransportOwner]) -> Listener:
        port = port or next(self._free_ports)
        if port in self.taken_ports:
            raise OSError(98, "Address already in use")
        self.open_ports[port] = accept
        return BenchListener(self, port)

    def run(self) -> None:
        while self._posted:
            function, argument = self._posted.popleft()
            function(argument)

    def advance(self, seconds: float) -> None:
        """Let time pass, and run the timers and functions that are due in it."""
        end = self.time + seconds
        self.run()
        while self._timers and self._timers[0][0] <= end:
            self.time, _, function, argument = heapq.heappop(self._timers)
            function(argument)
            self.run()
        self.time = end


class Wire(Transport):
    """The broker's end of a connection; `room` is how many bytes it takes at most, None for any number."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.writes = 0
        self.room: int | None = None
        self.waiting = False
        self.closed = False

    def send(self, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
        data = b"".join(buffers)[: self.room]
        self.written += data
        self.writes += 1
        if self.room is not None:
            self.room -= len(data)
        return len(data)

    def await_room(self) -> None:
        self.waiting = True

    def close(self) -> None:
        self.closed = True
