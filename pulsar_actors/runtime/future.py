"""A future that costs little while nobody waits for it.

Every message that is sent without a callback has a future, and most futures are only looked at once they are done. The
standard one makes a condition, its lock and two lists at once, which costs more than sending the message. This one is
born with a bare lock, and makes the rest when somebody first wants it. It is a `concurrent.futures.Future` in every
other respect: `wait()`, `as_completed()` and `asyncio.wrap_future` take it.

Why a result and the first waiter cannot miss each other:

1. The condition, once there, is made of the future's own lock, so whoever holds one holds the other.
2. `set_result` looks whether there is a condition and stores the result in one hold of the lock. The first waiter makes
   the condition under the lock too, so it is either before that or after it.
3. If it was before, `set_result` finds a condition and leaves all to the base class, which notifies under the lock.
4. If it was after, the state already says finished, and the state is what every waiter looks at, under the lock, before
   it goes to sleep.
5. `done`, and `result` of a future that is done, take no lock: the result is stored before the state says so.

The lock is one that its holder may take again, as the standard future's is: `wait()` asks futures whose locks it holds,
and a signal handler or the garbage collector may run in between.

It leans on these names of the base class, the same from Python 3.10 to 3.14, which `wait()` and `as_completed()` use on
every future: `_condition`, `_waiters`, `_state` with its words RUNNING and FINISHED, `_result`, `_exception`; and on
`_done_callbacks` with `_invoke_callbacks`.

Several may want to end the same future, an answer and the end of a client, say. They all `settle` it.

In a forked child nobody ends what was pending in the parent, and whoever waits for it there is told so. What tells
futures of the parent from those of the child is the word for running, which is another object from then on: one that
remembered its process would cost more, for each message.
"""

import threading
from _thread import RLock
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, TypeGuard, TypeVar

from pulsar_actors.exceptions import ProcessForked
from pulsar_actors.runtime.interrupts import is_ctrl_c
from pulsar_actors.runtime.log import LOG

T = TypeVar("T")

FINISHED: Final = "FINISHED"
ORPHANED: Final = "the process was forked while this was pending, in the parent: make a new Client in the child"
_running = "RUNNING"


def give_up_pending() -> None:
    """In a forked child: have all that is not done refuse to be waited for."""
    global _running  # noqa: PLW0603 - it belongs to the process
    _running = "".join(_running)  # an equal one


class SlimFuture(Future[T]):
    """What becomes of something that is on its way already: it is running from the start, and cannot be cancelled."""

    __slots__ = ("_lock", "_result", "_state")

    _exception: BaseException | None = None
    _raised_at: TracebackType | None = None
    _made: threading.Condition | None = None
    _has_waiters: bool = False
    _has_callbacks: bool = False
    _done_callbacks: list[Callable[[Future[T]], object]]
    _invoke_callbacks: Callable[[], None]

    def __init__(self) -> None:
        self._lock = RLock()
        self._state = _running
        self._result = None

    @property
    def _condition(  # type: ignore[override] # pyright: ignore[reportIncompatibleVariableOverride] # nobody assigns it
        self,
    ) -> threading.Condition:
        """Make what waiters need, when the first one comes."""
        with self._lock:
            if self._made is None:
                if not self._has_waiters:
                    self._has_waiters = True
                    self._waiters = []
                if not self._has_callbacks:
                    self._done_callbacks = []
                self._made = threading.Condition(self._lock)
            return self._made

    def cancel(self) -> bool:
        """Return False: what has been sent cannot be called back."""
        return False

    def cancelled(self) -> bool:
        """Return False: it never is."""
        return False

    def running(self) -> bool:
        """Tell whether the outcome is still open."""
        return self._state != FINISHED

    def done(self) -> bool:
        """Tell whether there is a result or an error."""
        return self._state == FINISHED

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the error; a TimeoutError of `concurrent.futures` after so long.

        The error is the same object each time, and is raised with the traceback that it came with: callers do not add
        to one another's.
        """
        error = self.exception(timeout)
        if error is None:
            return self._result  # type: ignore[return-value] # the base class knows no better
        try:
            raise error.with_traceback(self._raised_at)
        finally:
            del error, self  # the traceback knows this frame: a cycle otherwise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome, and return the error or None."""
        state = self._state
        if state == FINISHED:
            return self._exception
        if state is not _running:
            raise ProcessForked(ORPHANED)
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call it with this future when it is done, on the thread that completes it; at once if it is done already."""
        with self._lock:
            if self._state != FINISHED:
                if not self._has_callbacks:
                    self._has_callbacks = True
                    self._done_callbacks = []
                self._done_callbacks.append(fn)
                return
        super().add_done_callback(fn)

    def set_result(self, result: T) -> None:
        """End it with a result."""
        with self._lock:
            unwatched = self._made is None and self._state == _running
            if unwatched:
                self._result = result
                self._state = FINISHED
        if not unwatched:
            with self._forgetting():
                super().set_result(result)
        elif self._has_callbacks:
            self._invoke_callbacks()
            self._done_callbacks.clear()

    def set_exception(self, exception: BaseException | None) -> None:
        """End it with an error."""
        with self._lock:
            if exception is not None and self._state == _running:
                self._raised_at = exception.__traceback__
        with self._forgetting():
            super().set_exception(exception)

    @contextmanager
    def _forgetting(self) -> Generator[None, None, None]:
        """Let go of what waiters needed, a kilobyte, and of callbacks that were called: it may be kept for long."""
        try:
            yield
            if self._has_callbacks:
                self._done_callbacks.clear()
        finally:
            with self._lock:
                self._made = None


def is_promise(token: object) -> TypeGuard[SlimFuture[Any]]:
    """Tell whether it is one of our futures."""
    return isinstance(token, SlimFuture)


def settle(future: Future[T], outcome: T | Exception) -> None:
    """Give a future its result or its error; the first one counts."""
    try:
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except InvalidStateError:
        return
    except BaseException as raised:  # a callback's sys.exit(), say, which must not keep others from their results
        if is_ctrl_c(raised):
            raise
        LOG.exception("a callback of a future raised what is no Exception, as sys.exit() does")
