"""The event loop on a thread, with real sockets and the real clock.

One thread waits in a selector for sockets, for timers and for functions that other threads post. To post is to append
to a deque, which is atomic in Python, and to wake the loop if it sleeps, with a byte through a pair of sockets. The
loop notes that it is about to sleep and *then* checks if a function was posted. A poster appends and *then* checks if
the loop sleeps. So one of the two sees the other (the rule "append, then look" of `loop.py`).

An exception is logged and does not stop the loop. The loop runs until its engine or its embedded broker stops it. Then
it runs the functions posted before, and closes all its sockets in its own thread. The thread is a daemon: an
interpreter that ends does not wait for it.
"""

import heapq
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeVar

from pulsar_actors.runtime.blocking_executor import BlockingExecutor
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Listener, Loop, Transport, TransportOwner
from pulsar_actors.runtime.tcp import TcpListener, TcpTransport

T = TypeVar("T")

_WAKE_UP_BYTES = 4096
LONGEST_SLEEP = 86_400.0
"""In seconds. A timer may be due in years, which is more milliseconds than a selector can count."""


class ThreadLoop(Loop):
    """A loop that has a thread between `start` and `stop`."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._ready: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._timers: list[tuple[float, int, Callable[[Any], object], Any]] = []
        self._serial = count()
        self._asleep = False
        self._running = True
        self._random = random.Random()  # noqa: S311 - for the jitter of retries
        self._name = name
        self._executors: dict[str, BlockingExecutor] = {}
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.settimeout(0)
        self._selector.register(self._woken, selectors.EVENT_READ, self._drain_wake_ups)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Run the functions posted before, close every socket, and end the thread; wait for that until the timeout."""
        self.post(self._end, None)
        if not self.is_here():
            self._thread.join(timeout)

    def now(self) -> float:
        """Read the monotonic clock."""
        return time.monotonic()

    def wall_clock_ms(self) -> int:
        """Read the wall clock."""
        return time.time_ns() // 1_000_000

    def chance(self) -> float:
        """Draw a random number."""
        return self._random.random()

    def is_here(self) -> bool:
        """Return whether the caller is this thread."""
        return threading.current_thread() is self._thread

    def post(self, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Append the function, and *then* wake the loop if it sleeps."""
        try:
            self._ready.append((function, argument))
            if self._asleep:
                self._wake()
        except KeyboardInterrupt:  # the loop must not sleep on what was appended
            self._wake()
            raise

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - the same
        """Push a timer onto the heap."""
        heapq.heappush(self._timers, (time.monotonic() + delay, next(self._serial), function, argument))

    def run_blocking(
        self,
        work: Callable[[], T],
        done: Callable[[T | Exception], object],
        *,
        timeout: float,
        executor: str = "blocking",
    ) -> None:
        """Submit the work to the executor of that name."""
        if executor not in self._executors:
            self._executors[executor] = BlockingExecutor(f"{self._name}-{executor}")
        self._executors[executor].submit(self, work, done, timeout)

    def connect(self, host: str, port: int, owner: TransportOwner, *, no_delay: bool = True) -> Transport:
        """Open a TCP connection."""
        transport = TcpTransport(self, self._selector, no_delay=no_delay)
        transport.dial(host, port, owner)
        return transport

    def listen(self, host: str, port: int, accept: Callable[[Transport, str], TransportOwner]) -> Listener:
        """Listen on TCP."""
        return TcpListener(self, self._selector, (host, port), accept)

    def forget_everything(self) -> None:
        """Close the inherited sockets in a forked child, where this loop has no thread.

        Nothing is sent, and nothing is unregistered from the selector, which the parent shares.
        """
        self._running = False
        self._close_sockets()

    def _run(self) -> None:
        while self._running:
            self._run_ready()
            self._asleep = True
            events = self._selector.select(0.0 if self._ready or not self._running else self._time_to_sleep())
            self._asleep = False
            for key, mask in events:
                self._call(key.data, mask)
            self._run_due()
        self._close_sockets()
        for executor in self._executors.values():
            executor.stop()

    def _run_ready(self) -> None:
        ready = self._ready
        for _ in range(len(ready)):  # functions that these post run after the sockets
            function, argument = ready.popleft()
            try:
                function(argument)
            except BaseException as bug:  # noqa: BLE001 - the loop goes on
                _report(bug)

    def _run_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= time.monotonic():
            _, _, function, argument = heapq.heappop(timers)
            self._call(function, argument)

    def _call(self, function: Callable[[Any], object], argument: object) -> None:
        try:
            function(argument)
        except BaseException as bug:  # noqa: BLE001 - the loop goes on
            _report(bug)

    def _time_to_sleep(self) -> float | None:
        return min(max(0.0, self._timers[0][0] - time.monotonic()), LONGEST_SLEEP) if self._timers else None

    def _wake(self) -> None:
        self._asleep = False
        try:
            self._waker.send(b"\0")
        except OSError:  # there are unread wake-ups already, or the loop has ended
            return

    def _drain_wake_ups(self, _: int) -> None:
        self._woken.recv(_WAKE_UP_BYTES)

    def _end(self, _: None) -> None:
        self._running = False

    def _close_sockets(self) -> None:
        for key in list(_registered(self._selector)):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self._waker.close()


def _registered(selector: selectors.BaseSelector) -> list[selectors.SelectorKey]:
    """List the sockets of a selector; a closed one has none."""
    watched: Mapping[Any, selectors.SelectorKey] | None = selector.get_map()
    return list(watched.values()) if watched else []


def _report(bug: BaseException) -> None:
    LOG.error("something on an I/O thread raised; it goes on without it", exc_info=bug)
