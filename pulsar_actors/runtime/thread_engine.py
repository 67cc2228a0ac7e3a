"""The engine with real threads: one for each loop from the start, and one for each worker from its first task.

`stop` tells all threads to end before it waits for any, and the timeout is for all together. A thread of the engine
that calls `stop` does not wait for itself. All threads are daemons: an interpreter that ends does not wait for them.

Python handles signals in the main thread, between two of its steps. If the system delivers a signal to another thread,
a main thread that sleeps is not woken by it. So a main thread that waits wakes up every `LONGEST_SLEEP` seconds.
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from pulsar_actors.exceptions import Interrupted, Timeout
from pulsar_actors.runtime.engine import Engine, Task, Worker
from pulsar_actors.runtime.future import result_of
from pulsar_actors.runtime.interrupts import is_main_thread, undisturbed
from pulsar_actors.runtime.thread_loop import ThreadLoop


class ThreadWorker(Worker):
    """A thread that calls listeners."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._name = name
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, task: Task) -> None:
        """Append a task; the first one starts the thread."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._tasks.put(task)

    def stop(self, timeout: float) -> None:
        """End the thread after its current task. One that is just being started ends by itself."""
        self._tasks.put(None)
        if self._thread is not None and self._thread.is_alive() and not self.is_here():
            self._thread.join(timeout)

    def is_here(self) -> bool:
        """Return whether the caller is this thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # a thread that waits keeps nothing alive


T = TypeVar("T")

LONGEST_SLEEP: Final = 0.2

LONGEST_ATTENDANCE: Final = 0.05
"""For so many seconds a caller handles its request itself. Meanwhile it may miss Ctrl-C, and a failure of its call."""


class ThreadEngine(Engine):
    """Loops and workers on real threads."""

    def __init__(self, io_threads: int, listener_threads: int) -> None:
        loops = [ThreadLoop(f"pulsar-io-{number}") for number in range(io_threads)]
        workers = [ThreadWorker(f"pulsar-listener-{number}") for number in range(listener_threads)]
        self.loops, self._loops = loops, loops
        self.workers, self._workers = workers, workers
        for loop in loops:
            loop.start()

    def attend(self, start: Callable[[], object], future: "Future[Any]", what: str) -> None:
        """Let the caller attend the loop, if there is only one, and nothing can interrupt it there."""
        block = undisturbed() if len(self._loops) == 1 else None
        if block is None:
            start()
            return
        try:
            with block:
                self._loops[0].attend(start, future, LONGEST_ATTENDANCE)
        except KeyboardInterrupt as interrupt:
            raise _interrupted(what) from interrupt

    def block(self, future: Future[T], timeout: float | None, what: str) -> T:
        """Wait for the future."""
        try:
            if not future.done():
                if is_main_thread():
                    _wait_in_main_thread(future, timeout)
                else:
                    future.exception(timeout)
        except FutureTimeout:
            if not future.done():  # or else it was completed just in time
                raise Timeout(f"{what} took longer than {timeout:g} s") from None
        except KeyboardInterrupt as interrupt:
            raise _interrupted(what) from interrupt
        return result_of(future)

    def stop(self, timeout: float) -> None:
        """Tell all threads to end, and then wait for them."""
        deadline = time.monotonic() + timeout
        threads: tuple[ThreadWorker | ThreadLoop, ...] = (*self._workers, *self._loops)
        for thread in threads:
            thread.stop(0.0)
        for thread in threads:
            thread.stop(max(0.0, deadline - time.monotonic()))

    def is_on_io_thread(self) -> bool:
        """Return whether the caller is on one of the loops."""
        thread = threading.get_ident()
        for loop in self._loops:  # noqa: SIM110 - any() would take longer
            if loop.runner == thread:
                return True
        return False

    def forget_everything(self) -> None:
        """Close what a forked child has inherited."""
        for loop in self._loops:
            loop.forget_everything()


def _interrupted(what: str) -> Interrupted:
    return Interrupted(f"{what} was interrupted while it waited")


def _wait_in_main_thread(future: Future[Any], timeout: float | None) -> None:
    """Wait for the future, and wake up now and then."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    left = LONGEST_SLEEP if timeout is None else timeout
    while True:
        try:
            future.exception(min(left, LONGEST_SLEEP))
        except FutureTimeout:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
        else:
            return
