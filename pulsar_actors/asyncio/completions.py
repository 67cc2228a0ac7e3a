"""Completes futures of an event loop from other threads, many at a time.

A batch of a thousand messages ends at once on an I/O thread. One `call_soon_threadsafe` for each message would cost
more than the messages. So a thread appends the outcome to a list, and *then* looks if the loop was called already; the
loop notes that it has come, and *then* takes what is in the list (the rule "append, then look" of `runtime/loop.py`).
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from pulsar_actors.runtime.future import SlimFuture

T = TypeVar("T")


class Completion(Protocol):
    """An outcome, or an event, on its way to a loop."""

    def complete(self) -> None:
        """Hand it over, on the loop."""
        ...


class Completions:
    """Outcomes on their way to one event loop. `loop_closed` is called, on any thread, if the loop is closed."""

    __slots__ = ("_called", "_ended", "_loop_closed", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, loop_closed: Callable[[], object]) -> None:
        self.loop = loop
        self._loop_closed = loop_closed
        self._ended: list[Completion] = []
        self._called = False

    def add(self, reply: Completion) -> None:
        """Have a reply completed on the loop. Called on any thread."""
        self._ended.append(reply)
        if self._called:
            return
        self._called = True
        try:
            self.loop.call_soon_threadsafe(self._complete)
        except RuntimeError:  # the loop was closed: nobody waits any longer
            self._ended.clear()
            self._loop_closed()

    def _complete(self) -> None:
        self._called = False
        ended = self._ended
        count = len(ended)
        replies = ended[:count]
        del ended[:count]
        for reply in replies:
            reply.complete()


class LoopReply(SlimFuture[T]):
    """The reply of one send or call, or one waiter of a queue: it completes an asyncio future.

    It looks like a SlimFuture to those who complete it, and nobody else has it. Only the first outcome counts.
    """

    __slots__ = ("_completions", "_error", "_value", "abandoned", "future", "is_late")

    def __init__(self, completions: Completions) -> None:  # pyright: ignore[reportMissingSuperCall]
        # The base's lock and state are not used, and would cost as much as the rest.
        self._completions = completions
        self._error: BaseException | None = None
        self.is_late = False
        self.abandoned: Callable[[T], object] | None = None
        self.future: asyncio.Future[T] = completions.loop.create_future()

    def set_result(self, result: T) -> None:
        """Complete it with a result. Called on any thread."""
        self._value = result
        self._completions.add(self)

    def set_exception(self, exception: BaseException | None) -> None:
        """Complete it with an error. Called on any thread."""
        self._error = exception
        self._completions.add(self)

    def __repr__(self) -> str:
        return f"<LoopReply for {self.future!r}>"

    def complete(self) -> None:
        """Complete the future, on the loop. If its caller was cancelled, `abandoned` gets the result."""
        future = self.future
        if future.done():
            if self.abandoned is not None and self._error is None:
                self.abandoned(self._value)
        elif self._error is None:
            future.set_result(self._value)
        else:
            future.set_exception(self._error)

    def complete_late(self) -> None:
        """Complete the future without an outcome, at a deadline, on the loop."""
        if not self.future.done():
            self.is_late = True
            self.future.set_result(None)  # type: ignore[arg-type]
