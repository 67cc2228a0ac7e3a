"""The event loop on a thread, with real sockets and the real clock.

One thread waits in a selector for sockets, for timers and for functions that other threads post. To post is to append
to a deque, which is atomic in Python, and to wake the loop if it sleeps, with a byte through a pair of sockets. The
loop notes that it is about to sleep and *then* checks if a function was posted. A poster appends and *then* checks if
the loop sleeps. So one of the two sees the other (the rule "append, then look" of `loop.py`).

**Callers attend.** A caller that waits for the broker's answer may run the loop's functions itself, in its own thread:
it writes the request, waits at the socket, reads the answer and handles it. So neither thread has to wake the other,
which is most of the time that a short request takes on this side. Beside a thread that computes, each of the two
wake-ups would also cost a switch interval of the interpreter, 5 ms.

A lock, the *turn*, is held while functions run. The loop's thread releases it to sleep in the selector. A caller takes
the turn only if it is free, runs functions until none are left, and borrows the connection that these have written to:
epoll does not report it any longer, so the loop's thread sleeps on. (Other selectors cannot be changed while a thread
sleeps there; without epoll, no caller attends.) The caller releases the turn, waits at the socket, takes the turn
again, and reads. All other sockets and timers are still handled by the loop's thread. A caller attends no longer than
it is allowed to; then it waits as other callers do, and the loop's thread reads its answer.

While a caller has its turn, the loop counts as awake. At its end the caller restores the note that the loop sleeps, and
*then* checks if a function was posted, or a timer is due before the loop wakes up. The loop's thread may have been told
of a socket that a caller has closed meanwhile. So if a caller had its turn while the thread slept, the thread asks the
selector again.

An exception is logged and does not stop the loop. The loop runs until its engine or its embedded broker stops it. Then
it runs the functions posted before, and closes all its sockets in its own thread. The thread is a daemon: an
interpreter that ends does not wait for it.
"""

import heapq
import math
import os
import random
import select
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from typing import Any, Final, TypeVar

from pulsar_actors.runtime.blocking_executor import BlockingExecutor
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Listener, Transport, TransportOwner
from pulsar_actors.runtime.tcp import SocketLoop, TcpListener, TcpTransport

T = TypeVar("T")

_WAKE_UP_BYTES = 4096
LONGEST_SLEEP = 86_400.0
"""In seconds. A timer may be due in years, which is more milliseconds than a selector can count."""

MOST_FUNCTIONS: Final = 100
"""The most functions that one turn of a caller runs. The loop's thread runs further ones."""


class ThreadLoop(SocketLoop):
    """A loop that has a thread between `start` and `stop`."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self.epoll = _epoll_of(self._selector)
        self._ready: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._timers: list[tuple[float, int, Callable[[Any], object], Any]] = []
        self._serial = count()
        self._asleep = False
        self._wakes_at = math.inf  # when the selector returns at the latest
        self._turn = threading.Lock()
        self.runner: int | None = None  # the thread that has the turn
        self._callers_turns = 0
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

    now = staticmethod(time.monotonic)  # pyright: ignore[reportAssignmentType] - a method around it would take longer

    def wall_clock_ms(self) -> int:
        """Read the wall clock."""
        return time.time_ns() // 1_000_000

    def chance(self) -> float:
        """Draw a random number."""
        return self._random.random()

    def is_here(self) -> bool:
        """Return whether the caller has the turn."""
        return self.runner == threading.get_ident()

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

    def give_up_executor(self, executor: str) -> None:
        """Stop the executor of that name. Later work has another one."""
        given_up = self._executors.pop(executor, None)
        if given_up is not None:
            given_up.stop()

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

    def attend(self, start: Callable[[], object], future: "Future[Any]", seconds: float) -> None:
        """Call `start`, which posts functions, and run this loop in the caller's thread until the future is done.

        Return earlier if the loop's thread is awake, if nothing was written, or after so many seconds; then the loop's
        thread goes on, as after any other `post`. A turn of another thread is not waited for any longer either.
        """
        if self.epoll is None or not self._turn.acquire(blocking=False):
            start()
            return
        was_asleep = self._begin_turn()
        transport = None
        try:
            start()
            if self._running:
                self._run_all()
            if not future.done() and self.written is not None and self.written.lend():
                transport = self.written
        finally:
            self._end_turn(was_asleep=was_asleep)
        if transport is not None:
            self._await(transport, future, time.monotonic() + seconds)

    def _await(self, transport: TcpTransport, future: "Future[Any]", deadline: float) -> None:
        """Read what arrives at a borrowed transport until the future is done, and then give the transport back."""
        is_over = False
        while not is_over:
            transport.wait(max(0.0, deadline - time.monotonic()))
            is_mine = self._turn.acquire(blocking=False)  # mostly; in less time than with a timeout
            if not is_mine and not self._turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
                self.post(_take_back, transport)  # after a function that takes long, such as a callback of the user's
                return
            was_asleep = self._begin_turn()
            try:
                if self._running:
                    transport.read()
                    self._run_all()
            except BaseException as bug:  # noqa: BLE001 - the loop goes on
                _report(bug)
            is_over = future.done() or not transport.is_lent or not self._running or time.monotonic() >= deadline
            if is_over and self._running:
                transport.take_back()
            self._end_turn(was_asleep=was_asleep)

    def _begin_turn(self) -> bool:
        """Begin a turn of a caller; return whether the loop's thread sleeps."""
        was_asleep, self._asleep = self._asleep, False
        self.runner = threading.get_ident()
        self._callers_turns += 1
        self.written = None
        return was_asleep

    def _run_all(self) -> None:
        """Run the functions that are posted, and those that these post."""
        ready, left = self._ready, MOST_FUNCTIONS
        while ready and left:
            left -= 1
            function, argument = ready.popleft()
            try:
                function(argument)
            except BaseException as bug:  # noqa: BLE001 - the loop goes on
                _report(bug)

    def _end_turn(self, *, was_asleep: bool) -> None:
        self.runner = None
        if was_asleep:
            self._asleep = True
            is_early = bool(self._timers) and self._timers[0][0] < self._wakes_at
            if self._ready or is_early or not self._running:
                self._wake()
        self._turn.release()

    def _run(self) -> None:
        self._turn.acquire()
        self.runner = threading.get_ident()
        while self._running:
            self._run_ready()
            for key, mask in self._sleep():
                self._call(key.data, mask)
            self._run_due()
        self._close_sockets()
        self.runner = None  # another thread may get the number of this one
        self._turn.release()
        for executor in self._executors.values():
            executor.stop()

    def _sleep(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Sleep until a socket is ready, a timer is due or a function is posted; return the sockets that are ready."""
        timeout, turns = self._time_to_sleep(), self._callers_turns
        self._wakes_at = self._timers[0][0] if self._timers else math.inf
        self._asleep = True
        if self._ready or not self._running:
            timeout = 0.0
        self.runner = None
        self._turn.release()
        events = self._selector.select(timeout)
        self._turn.acquire()
        self.runner = threading.get_ident()
        self._asleep = False
        return events if self._callers_turns == turns else self._selector.select(0.0)

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
        if self.epoll is not None:
            self.epoll.close()
        self._waker.close()


def _epoll_of(selector: selectors.BaseSelector) -> Any:  # noqa: ANN401 - epoll is not everywhere
    """Return the epoll of a selector, on a descriptor of its own; None if the system has another kind of selector."""
    if sys.platform == "linux" and isinstance(selector, selectors.EpollSelector):
        return select.epoll.fromfd(os.dup(selector.fileno()))
    return None


def _take_back(transport: TcpTransport) -> None:
    transport.take_back()


def _registered(selector: selectors.BaseSelector) -> list[selectors.SelectorKey]:
    """List the sockets of a selector; a closed one has none."""
    watched: Mapping[Any, selectors.SelectorKey] | None = selector.get_map()
    return list(watched.values()) if watched else []


def _report(bug: BaseException) -> None:
    LOG.error("something on an I/O thread raised; it goes on without it", exc_info=bug)
