"""Futures: `SlimFuture`, which is cheap while no thread waits for it, `OwnedFuture`, and a handle's `PendingCalls`.

Every message that is sent without a callback has a future, and most futures are only looked at once they are done. The
standard future creates a condition, its lock and two lists at once, which takes longer than sending the message. A
`SlimFuture` has only a lock, and makes the rest when a waiter or a callback needs it. Otherwise it is a
`concurrent.futures.Future`: `wait()`, `as_completed()` and `asyncio.wrap_future` take it.

A result and the first waiter cannot miss each other:

1. The condition is made of the future's own lock, so both are held together.
2. `set_result` looks whether there is a condition and stores the result while it holds the lock. The first waiter makes
   the condition under the lock too, so it comes either before or after.
3. If the waiter comes before, `set_result` finds a condition and calls the base class, which notifies under the lock.
4. If the waiter comes after, the state is FINISHED, and each waiter reads the state, under the lock, before it sleeps.
5. `done`, and `result` of a future that is done, take no lock: the result is stored before the state changes.

The lock is re-entrant, as the standard future's is: `wait()` asks futures whose locks it holds, and a signal handler or
the garbage collector may run in between.

`SlimFuture` relies on these names of the base class, the same from Python 3.10 to 3.14, which `wait()` and
`as_completed()` use on every future: `_condition`, `_waiters`, `_state` with its values RUNNING and FINISHED,
`_result`, `_exception`; and on `_done_callbacks` with `_invoke_callbacks`.

Two events may complete the same future, for example an answer and the end of the client. Both call `settle`; the first
one counts.

In a forked child nothing completes the futures that were pending in the parent, so to wait for one raises there. After
a fork, the child replaces `_running` by an equal string that is another object. A `SlimFuture` that was pending still
has the old object as its state, which a comparison with `is` detects. To store the process id in each future would cost
more for each message. An `OwnedFuture`, of which there are few, stores it.

A thread that waits for a future sleeps. In a simulation, it would sleep for ever, so `wait_by` replaces its `Waits`.
"""

import copy
import os
import threading
from _thread import RLock
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, TypeGuard, TypeVar

from pulsar_actors.exceptions import ProcessForked
from pulsar_actors.runtime.interrupts import is_ctrl_c
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import THREADS, Interleaving

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

FINISHED: Final = "FINISHED"
CANCELLED: Final = "CANCELLED"
ORPHANED: Final = "the process was forked while this was pending, in the parent: make a new Client in the child"
_running = "RUNNING"


def orphan_pending() -> None:
    """Mark all pending futures as the parent's, in a forked child: to wait for one raises."""
    global _running  # noqa: PLW0603 - it belongs to the process
    _running = "".join(_running)  # equal, but another object


class Waits:
    """The wait of threads for futures: they sleep until the future is done."""

    def begin(self, future: Future[Any], timeout: float | None) -> float | None:
        """Wait in another way, if there is one. Return for how long the thread may sleep after that; None for ever."""
        return timeout

    def waiters(self) -> list[Any]:
        """Make the list of a future to which `concurrent.futures` appends its waiters."""
        return []


_waits = Waits()


@contextmanager
def wait_by(make: Callable[[Waits], Waits]) -> Generator[None, None, None]:
    """Have the threads of this process wait in another way in a block. The argument gets the way before."""
    global _waits  # noqa: PLW0603 - it belongs to the process
    before, _waits = _waits, make(_waits)
    try:
        yield
    finally:
        _waits = before


class SlimFuture(Future[T]):
    """A future that is running from the start and cannot be cancelled."""

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
        """The condition and the list of waiters; the first waiter creates them."""
        with self._lock:
            if self._made is None:
                if not self._has_waiters:
                    self._has_waiters = True
                    self._waiters = _waits.waiters()
                if not self._has_callbacks:
                    self._done_callbacks = []
                self._made = threading.Condition(self._lock)
            return self._made

    def cancel(self) -> bool:
        """Return False: a sent message cannot be recalled."""
        return False

    def cancelled(self) -> bool:
        """Return False: it cannot be cancelled."""
        return False

    def running(self) -> bool:
        """Return whether there is no outcome yet."""
        return self._state != FINISHED

    def done(self) -> bool:
        """Return whether there is a result or an error."""
        return self._state == FINISHED

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the error; a TimeoutError of `concurrent.futures` after so long.

        The error is the same object each time. It is raised with its original traceback, so that the frames of several
        callers do not add up in it.
        """
        if self._state == FINISHED and self._exception is None:  # without a call
            return self._result  # type: ignore[return-value] # the base class knows no better
        error = self.exception(timeout)
        if error is None:
            return self._result  # type: ignore[return-value] # the base class knows no better
        try:
            raise error.with_traceback(self._raised_at)
        finally:
            del error, self  # the traceback has this frame: a reference cycle otherwise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome, and return the error or None."""
        state = self._state
        if state == FINISHED:
            return self._exception
        if state is not _running:
            raise ProcessForked(ORPHANED)
        return super().exception(_waits.begin(self, timeout))

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call a function with this future when it is done, on the thread that completes it; at once if it is done."""
        with self._lock:
            if self._state != FINISHED:
                if not self._has_callbacks:
                    self._has_callbacks = True
                    self._done_callbacks = []
                self._done_callbacks.append(fn)
                return
        super().add_done_callback(fn)

    def set_result(self, result: T) -> None:
        """Complete the future with a result."""
        with self._lock:
            unwatched = self._made is None and self._state == _running
            if unwatched:
                self._result = result
                self._state = FINISHED
        if not unwatched:
            with self._dropping_waiters():
                super().set_result(result)
        elif self._has_callbacks:
            self._invoke_callbacks()
            self._done_callbacks.clear()

    def set_exception(self, exception: BaseException | None) -> None:
        """Complete the future with an error."""
        with self._lock:
            if exception is not None and self._state == _running:
                self._raised_at = exception.__traceback__
        with self._dropping_waiters():
            super().set_exception(exception)

    @contextmanager
    def _dropping_waiters(self) -> Generator[None, None, None]:
        """Drop the condition, a kilobyte, and the callbacks that were called: a user may keep the future for long."""
        try:
            yield
            if self._has_callbacks:
                self._done_callbacks.clear()
        finally:
            with self._lock:
                self._made = None


def is_slim_future(token: object) -> TypeGuard[SlimFuture[Any]]:
    """Return whether a token is a SlimFuture."""
    return isinstance(token, SlimFuture)


def settle(future: Future[T], outcome: T | Exception) -> None:
    """Complete a future with a result or an error; the first one counts."""
    try:
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except InvalidStateError:
        return
    except BaseException as raised:  # such as sys.exit() in a callback, which must not keep results from others
        if is_ctrl_c(raised):
            raise
        LOG.exception("a callback of a future raised what is no Exception, as sys.exit() does")


def copy_error(error: E) -> E:
    """Copy an error with its cause and without its traceback, to raise it.

    A closed handle keeps the error that says why, and raises it in each call; one connection's error ends many calls,
    and is kept as the last error of handles. If callers got the same object, it would collect the traceback of every
    call, and keep all their frames alive, and the client in them.
    """
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    notes: Any = getattr(error, "__notes__", None)
    if notes is not None:
        vars(fresh)["__notes__"] = [*notes]  # a caller may add one
    return fresh


def result_of(future: Future[T]) -> T:
    """Return the result of a future that is done, or raise a copy of its error.

    The traceback gets the frames of all callers. Some of these have the future, which would have the error: a reference
    cycle, which would keep all that the frames of the program refer to until the garbage collector comes. A transaction
    that nobody refers to any longer would stay open.
    """
    error = future.exception()
    if error is None:
        return future.result()
    raise copied(error).with_traceback(error.__traceback__)


def copied(error: BaseException) -> BaseException:
    """Copy an error if it can be copied."""
    if isinstance(error, Exception):
        with suppress(Exception):  # a class of somebody else's says itself how it is copied
            return copy_error(error)
    return error


class OwnedFuture(Future[T]):
    """A standard future, which raises in a forked child while it is pending."""

    def __init__(self) -> None:
        super().__init__()
        self._waiters = _waits.waiters()
        self._process = os.getpid()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the error."""
        self._refuse_orphans()
        return super().result(self._begin_to_wait(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome, and return the error or None."""
        self._refuse_orphans()
        return super().exception(self._begin_to_wait(timeout))

    def cancel_and_notify(self) -> bool:
        """Cancel the future, and have `concurrent.futures.wait` hear of it. Another call changes nothing."""
        is_cancelled = super().cancel()
        with self._condition:
            if self._state == CANCELLED:
                self.set_running_or_notify_cancel()
        return is_cancelled

    def _begin_to_wait(self, timeout: float | None) -> float | None:
        return timeout if self.done() else _waits.begin(self, timeout)

    def _refuse_orphans(self) -> None:  # without the lock, which may have been held during the fork
        if os.getpid() != self._process and self._state != FINISHED:
            raise ProcessForked(ORPHANED)


class WaiterQueue(list[SlimFuture[Any]]):
    """Callers that wait for a message or for room, each on a future, in the order of their calls.

    Any thread may use it: each change of a list is one step for the interpreter, and an empty list is small, as an
    empty deque is not.
    """

    __slots__ = ()

    def wake(self, most: int) -> None:
        """Wake so many callers at most, those that came first."""
        for _ in range(most):
            if not self._wake_first():
                return

    def wake_all(self) -> None:
        """Wake all callers."""
        while self._wake_first():
            pass

    def _wake_first(self) -> bool:
        try:
            first = self.pop(0)
        except IndexError:  # there is none, or another thread was faster
            return False
        first.set_result(None)
        return True


class PendingCalls:
    """The pending calls of one handle. Any thread may use them.

    A caller's thread creates a future, tracks it, and tells an actor. If the actor ends at the same moment, it will
    never answer. So the caller adds the future and *then* checks if the calls are closed. The actor marks the calls as
    closed and *then* fails all futures that are there (the rule "append, then look" of `loop.py`). A future that both
    see ends only once.
    """

    __slots__ = ("_checkpoint", "_open", "closed")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.closed: Exception | None = None
        self._open: dict[Future[Any], None] = {}  # in the order of the calls, in which they will end
        self._checkpoint = interleaving.checkpoint

    def track(self, future: SlimFuture[T]) -> SlimFuture[T]:
        """Add the future of a call. It ends with the handle's actor at the latest."""
        self._open[future] = None
        self._checkpoint()
        if self.closed is not None:
            self.fail(future, self.closed)
        return future

    def untrack(self, future: "Future[Any]") -> None:
        """Remove a future that has ended."""
        self._open.pop(future, None)

    def resolve(self, future: SlimFuture[T], result: T) -> None:
        """End a call with its result, unless it has ended."""
        self._open.pop(future, None)
        settle(future, result)

    def fail(self, future: "Future[Any]", error: Exception) -> None:
        """End a call with an error of its own, unless it has ended."""
        self._open.pop(future, None)
        settle(future, copy_error(error))

    def end(self, error: Exception) -> None:
        """Fail all calls, and refuse further ones."""
        if self.closed is None:
            self.closed = error
        self._checkpoint()
        for future in list(self._open):
            self.fail(future, error)
