"""What carries one client: its loops, the threads of its listeners, and the way in which callers wait.

Callers' threads and the loops meet here and in the hand-over queues, nowhere else. Like the loop, an engine has two
implementations: threads, here, and the simulation's.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import SimpleQueue
from typing import TypeVar

from pulsar_actors.exceptions import Interrupted, OperationNotSupported, Timeout
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.threads import ThreadLoop

T = TypeVar("T")

Task = Callable[[], object]


class Worker(ABC):
    """A thread, or what stands for one, on which listeners are called: one task after the other."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Have it done, after what was submitted before. After the engine has stopped, nothing is."""


class Engine(ABC):
    """The loops and threads of one client."""

    loops: Sequence[Loop]
    workers: Sequence[Worker]
    interleaving: Interleaving = THREADS

    @abstractmethod
    def block(self, future: Future[T], timeout: float | None, what: str) -> T:
        """Wait in the caller's thread, for so many seconds at most; `what` says, in errors, who waits."""

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """End all threads, and wait for that no longer than told. From one of its own threads: do not wait."""

    @abstractmethod
    def forget_everything(self) -> None:
        """Let go of what a forked child has inherited."""

    @abstractmethod
    def is_inside(self) -> bool:
        """Tell whether the caller is on one of the loops, where nothing may wait."""

    def refuse_inside(self, what: str, instead: str) -> None:
        """Refuse to wait on a loop: it would wait for itself."""
        if self.is_inside():
            raise OperationNotSupported(f"{what} would block the I/O thread, in a callback: use {instead} there")


class ThreadWorker(Worker):
    """A thread that does tasks."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._name = name
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, task: Task) -> None:
        """Start the thread if it is the first task."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._tasks.put(task)

    def stop(self, timeout: float) -> None:
        """End the thread after the task in hand."""
        self._tasks.put(None)
        if self._thread is not None and not self.is_here():
            self._thread.join(timeout)

    def is_here(self) -> bool:
        """Tell whether the caller is this thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # while the thread waits it keeps nothing alive


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
