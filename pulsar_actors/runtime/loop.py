"""The event loop's interface: actors run on a loop, and so do their timers and sockets.

Everything in the runtime runs on a loop, one call after another: messages to actors, timers, events of sockets. Nothing
on a loop may wait. Callers' threads reach a loop through `post`. Blocking work goes to `run_blocking`, and its outcome
comes back to the loop. Code on a loop cannot stop it; only its engine can.

There are two implementations. `thread_loop.py` has a thread, real sockets and the real clock. `simulation/world.py` has
a virtual clock and an in-memory network, and a seed decides the order of events. Code that uses this interface runs on
both.

**Append, then look.** Callers and actors share most data without a lock, by this rule: each side first publishes its
own change, and only *then* reads what the other side publishes. For example, a caller appends an item to a list, and
*then* reads a flag: does the loop sleep, is the actor idle, is the queue closed? The other side sets the flag, and
*then* reads the list. If the caller does not see the flag, it appended before the flag was set; so the other side,
which reads the list after that, finds the item. At least one side sees the other. Both may, which must do no harm. If
one side looked first and published afterwards, both could miss each other, and the item would stay in the list. The
rule needs steps that are atomic, and that all threads see in the same order. An append to a list or a deque and an
assignment to an attribute are such steps in Python. An emphasised *then* in other texts refers to this rule.

`Interleaving` has the locks and checkpoints of data that callers share with actors. With threads, a lock is a lock and
a checkpoint does nothing, because the operating system switches threads at any time. Under simulation the seed decides,
and threads are switched only at a checkpoint and where a lock is taken or released. So there is a checkpoint between
two steps if their order matters. The path of each single message has none.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

from pulsar_actors.named_tuple import NamedTuple

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_BUFFERS = 512
"""The most buffers in one `Transport.send`: fewer than any operating system's limit."""

T = TypeVar("T")


class TransportOwner(Protocol):
    """The owner of a transport. All of these are called on the loop, and none after `Transport.close`."""

    def opened(self) -> None:
        """Handle that the transport is connected. An accepted transport is connected from the start."""
        ...

    def received(self, data: bytes) -> None:
        """Handle bytes that have arrived, at least one."""
        ...

    def writable(self) -> None:
        """Handle that the transport takes bytes again, after `await_room`."""
        ...

    def lost(self, reason: str) -> None:
        """Handle that the transport could not be opened, or has ended. This is the last call."""
        ...


class Transport(ABC):
    """A stream of bytes to a peer. Used on its loop only."""

    @abstractmethod
    def send(self, buffers: Sequence[Buffer]) -> int:
        """Write as much as fits now, from the first buffer on, and return the number of bytes.

        Buffers beyond `MAX_BUFFERS` may be left for the next call. An error is not raised: `lost` is called later.
        """

    @abstractmethod
    def await_room(self) -> None:
        """Call the owner's `writable` once, as soon as the transport takes bytes again."""

    @abstractmethod
    def close(self) -> None:
        """Close the transport. The owner is not called again. A second call does nothing."""


class Listener(ABC):
    """A listening port."""

    @property
    @abstractmethod
    def port(self) -> int:
        """The port number that is in use, also if the caller asked for port 0."""

    @abstractmethod
    def close(self) -> None:
        """Accept no more. Accepted connections stay open."""


class Loop(ABC):
    """An event loop. `post`, the clocks and `is_here` are for any thread, the rest for the loop's own."""

    @abstractmethod
    def now(self) -> float:
        """Read the monotonic clock, in seconds."""

    @abstractmethod
    def wall_clock_ms(self) -> int:
        """Read the wall clock, in milliseconds since 1970."""

    @abstractmethod
    def chance(self) -> float:
        """Draw a random number in [0, 1)."""

    @abstractmethod
    def is_here(self) -> bool:
        """Return whether the caller is on this loop."""

    @abstractmethod
    def post(self, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Call a function on the loop, after those posted before. A loop that has stopped calls nothing."""

    @abstractmethod
    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - the same
        """Call a function after so many seconds.

        There is no cancelling: the function has to recognise a stale timer.
        """

    @abstractmethod
    def run_blocking(
        self,
        work: Callable[[], T],
        done: Callable[[T | Exception], object],
        *,
        timeout: float,
        executor: str = "blocking",
    ) -> None:
        """Run work that may block in the thread of an executor, and call `done` on the loop with the result or error.

        After so many seconds `done` gets a TimeoutError, and the outcome of the work is dropped. An executor runs one
        piece of work after another, so work that may be slow has an executor of its own, by another name.
        """

    @abstractmethod
    def give_up_executor(self, executor: str) -> None:
        """Answer no work that an executor has, and begin none of it. Later work does not wait for it."""

    @abstractmethod
    def connect(self, host: str, port: int, owner: TransportOwner, *, no_delay: bool = True) -> Transport:
        """Connect; the owner's `opened` or `lost` is called later. Without `no_delay` small writes may wait."""

    @abstractmethod
    def listen(self, host: str, port: int, accept: Callable[[Transport, str], TransportOwner]) -> Listener:
        """Accept connections: `accept` takes each with the peer's address, and returns its owner.

        Raises OSError if the port is not available.
        """


class Interleaving(NamedTuple):
    """A factory of locks, and a function to call where the simulation may switch threads."""

    lock: Callable[[], AbstractContextManager[Any]]
    checkpoint: Callable[[], object]


THREADS = Interleaving(threading.Lock, bool)  # bool() does nothing: the operating system decides when to switch threads
