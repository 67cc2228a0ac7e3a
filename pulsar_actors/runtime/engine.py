"""The engine of one client: its loops, the worker threads of its listeners, and the method by which callers wait.

Callers' threads and loops share only the engine and the queues. An engine starts its loops and workers, and only the
engine stops them: a client that ends calls `stop` once. There are two implementations: `thread_engine.py` and
`simulation/engine.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from pulsar_actors.exceptions import OperationNotSupported
from pulsar_actors.runtime.loop import THREADS, Interleaving, Loop

T = TypeVar("T")

Task = Callable[[], object]


class Worker(ABC):
    """Runs tasks one after another, such as the calls of listeners."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Run a task after those submitted before. After the engine has stopped, it is dropped."""

    @abstractmethod
    def is_here(self) -> bool:
        """Return whether the caller is a task of this worker."""


class Engine(ABC):
    """The loops and threads of one client."""

    loops: Sequence[Loop]
    workers: Sequence[Worker]
    interleaving: Interleaving = THREADS

    @abstractmethod
    def block(self, future: Future[T], timeout: float | None, what: str) -> T:
        """Wait for a future in the caller's thread, for so many seconds at most; `what` names the call in errors."""

    def attend(self, start: Callable[[], object], future: "Future[Any]", what: str) -> None:
        """Call `start`, which posts a request of a caller that is about to wait for the future.

        An engine may let the caller handle its request and the answer itself, in its own thread. `what` names the call
        in errors.
        """
        start()

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """End all threads, and wait for that no longer than `timeout`. Called on one of these threads, do not wait."""

    @abstractmethod
    def forget_everything(self) -> None:
        """Close what a forked child has inherited."""

    @abstractmethod
    def is_on_io_thread(self) -> bool:
        """Return whether the caller is on one of the loops, where no call may wait."""

    def now(self) -> float:
        """Read the monotonic clock, in seconds; all loops have the same."""
        return self.loops[0].now()

    def wall_clock_ms(self) -> int:
        """Read the wall clock, in milliseconds since 1970."""
        return self.loops[0].wall_clock_ms()

    def refuse_on_io_thread(self, what: str, instead: str) -> None:
        """Raise if called on a loop, because the loop would wait for itself."""
        if self.is_on_io_thread():
            raise OperationNotSupported(f"{what} would block the I/O thread, in a callback: use {instead} there")
