"""The engine of real threads: a thread for each loop from the start, and one for each worker once it has a task.

All of them are told to end before anybody waits for one, and the time to wait is shared. Whoever stops the engine from
one of its own threads does not wait for that.
"""

import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from pulsar_actors.exceptions import Interrupted, Timeout
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.thread_loop import ThreadLoop
from pulsar_actors.runtime.thread_worker import ThreadWorker

T = TypeVar("T")


class ThreadEngine(Engine):
    """Real threads."""

    def __init__(self, io_threads: int, listener_threads: int) -> None:
        loops = [ThreadLoop(f"pulsar-io-{number}") for number in range(io_threads)]
        workers = [ThreadWorker(f"pulsar-listener-{number}") for number in range(listener_threads)]
        self.loops, self._loops = loops, loops
        self.workers, self._workers = workers, workers
        for loop in loops:
            loop.start()

    def block(self, future: Future[T], timeout: float | None, what: str) -> T:
        """Wait on the future."""
        try:
            return future.result(timeout)
        except FutureTimeout:
            if future.done():  # just in time, or it is the future's own error
                return future.result(0)
            raise Timeout(f"{what} took longer than {timeout:g} s") from None
        except KeyboardInterrupt as interrupt:
            raise Interrupted(f"{what} was interrupted while it waited") from interrupt

    def stop(self, timeout: float) -> None:
        """Tell all of them to end, and only then wait."""
        deadline = time.monotonic() + timeout
        threads: tuple[ThreadWorker | ThreadLoop, ...] = (*self._workers, *self._loops)
        for thread in threads:
            thread.stop(0.0)
        for thread in threads:
            thread.stop(max(0.0, deadline - time.monotonic()))

    def is_inside(self) -> bool:
        """Ask the loops."""
        return any(loop.is_here() for loop in self.loops)

    def forget_everything(self) -> None:
        """Let go of what a forked child has inherited."""
        for loop in self._loops:
            loop.forget_everything()
