"""The loop: where actors live, timers wait and sockets are served. One interface, two implementations.

Everything that happens in the runtime happens on a loop, one thing after the other: a message to an actor, a timer,
what a socket has to say. Nothing on a loop ever waits. Callers' threads reach it through `post`; what may block is sent
away with `off_loop` and comes back as one more thing that happens.

`thread_loop.py` runs it on a thread, with real sockets and the real clock; `simulated/` runs it on a virtual clock and
an in-memory network, in an order that a seed decides. Whatever is written against this file runs on both. Nothing on a
loop can stop it: that is for whoever made it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

Buffer: TypeAlias = bytes | bytearray | memoryview

MOST_BUFFERS = 512
"""For one `Transport.send`: fewer than any system's limit."""

T = TypeVar("T")


class Owner(Protocol):
    """Whoever owns a transport. All of these are called on the loop, and none after `Transport.close`."""

    def opened(self) -> None:
        """Hear that the connection that was asked for is there; not for accepted ones, which are there already."""
        ...

    def received(self, data: bytes) -> None:
        """Take what came; it is never empty."""
        ...

    def writable(self) -> None:
        """Hear that there is room again, after `await_room`."""
        ...

    def lost(self, reason: str) -> None:
        """Hear that it could not be opened, or has ended; nothing comes after it."""
        ...


class Transport(ABC):
    """A stream of bytes to a peer. Used on its loop only."""

    @abstractmethod
    def send(self, buffers: Sequence[Buffer]) -> int:
        """Write as much as fits now, from the first buffer on, and tell how many bytes that was.

        Of more than `MOST_BUFFERS` the rest may be left for the next time.

        An error is not raised: the owner hears of it as `lost`, later.
        """

    @abstractmethod
    def await_room(self) -> None:
        """Call the owner's `writable` once, as soon as something fits again."""

    @abstractmethod
    def close(self) -> None:
        """End it; the owner hears nothing more. Doing it again does nothing."""


class Listener(ABC):
    """A port on which connections are accepted."""

    @property
    @abstractmethod
    def port(self) -> int:
        """The port, also where 0 was asked for."""

    @abstractmethod
    def close(self) -> None:
        """Accept no more; what was accepted stays."""


class Loop(ABC):
    """One loop. `post` and `now` are for any thread, all else for the loop's own."""

    @abstractmethod
    def now(self) -> float:
        """Read the monotonic clock, in seconds."""

    @abstractmethod
    def wall_clock_ms(self) -> int:
        """Read the calendar's clock, in milliseconds since 1970."""

    @abstractmethod
    def chance(self) -> float:
        """Draw a number in [0, 1)."""

    @abstractmethod
    def is_here(self) -> bool:
        """Tell whether the caller is on this loop."""

    @abstractmethod
    def post(self, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Call it on the loop, after what was posted before. After the loop has stopped, nothing is called."""

    @abstractmethod
    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - the same
        """Call it after so many seconds. It cannot be taken back: whoever sets a timer recognises a stale one."""

    @abstractmethod
    def off_loop(
        self, work: Callable[[], T], done: Callable[[T | Exception], object], *, timeout: float, helper: str = "helper"
    ) -> None:
        """Do what may block elsewhere, and give the result or the error to `done` on the loop, in time.

        After so many seconds `done` gets a TimeoutError, and what comes of the work then is thrown away. A helper does
        one piece of work after the other, so what may take its time has one of another name.
        """

    @abstractmethod
    def connect(self, host: str, port: int, owner: Owner, *, no_delay: bool = True) -> Transport:
        """Open a connection; the owner hears `opened` or `lost`. Without `no_delay` small writes may wait."""

    @abstractmethod
    def listen(self, host: str, port: int, accept: Callable[[Transport, str], Owner]) -> Listener:
        """Accept connections: `accept` gets each with the peer's address, and says who owns it.

        Raises OSError if the port cannot be had.
        """
