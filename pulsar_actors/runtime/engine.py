"""What carries one client: its loops, the threads of its listeners, and the way in which callers wait.

Callers' threads and the loops meet here and in the hand-over queues, nowhere else. An engine starts its loops and its
workers, and it alone stops them: a client that ends calls `stop`, once, for all of it. Like the loop, it has two
implementations: `thread_engine.py`, and the simulation's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from pulsar_actors.exceptions import OperationNotSupported
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.loop import Loop

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

    def now(self) -> float:
        """Read the monotonic clock, in seconds; all its loops have the same."""
        return self.loops[0].now()

    def wall_clock_ms(self) -> int:
        """Read the calendar's clock, in milliseconds since 1970."""
        return self.loops[0].wall_clock_ms()

    def refuse_inside(self, what: str, instead: str) -> None:
        """Refuse to wait on a loop: it would wait for itself."""
        if self.is_inside():
            raise OperationNotSupported(f"{what} would block the I/O thread, in a callback: use {instead} there")
