"""What a handle still owes to its callers: the futures of its calls, and the error with which all of them end.

A caller's thread makes a future, owes it, and tells an actor. If the actor ends at that very moment, nobody would be
left to answer. So: the caller adds the future and *then* looks whether it is over; whoever ends it says so and *then*
fails what is there. One of the two sees the other, and a future that both see ends once.
"""

import copy
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeGuard, TypeVar

from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.interrupts import is_ctrl_c
from pulsar_actors.runtime.log import LOG

T = TypeVar("T")


class Debts:
    """The open calls of one handle. Any thread may use it."""

    __slots__ = ("_checkpoint", "_owed", "closed")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.closed: Exception | None = None
        self._owed: dict[Future[Any], None] = {}  # in the order in which they came, so that they end in it
        self._checkpoint = interleaving.checkpoint

    def owe(self, future: SlimFuture[T]) -> SlimFuture[T]:
        """Promise that it will end."""
        self._owed[future] = None
        self._checkpoint()
        if self.closed is not None:
            self.fail(future, self.closed)
        return future

    def pay(self, future: SlimFuture[T], result: T) -> None:
        """End it well, unless it has ended."""
        self._owed.pop(future, None)
        settle(future, result)

    def fail(self, future: SlimFuture[T], error: Exception) -> None:
        """End it with an error, unless it has ended."""
        self._owed.pop(future, None)
        settle(future, error)

    def end(self, error: Exception) -> None:
        """End all, and whatever is owed from now on."""
        if self.closed is None:
            self.closed = error
        self._checkpoint()
        for future in list(self._owed):
            self._owed.pop(future, None)
            settle(future, error)


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


def anew(error: Exception) -> Exception:
    """Give an error that many callers hear of to one of them: raised, it would keep the frames of them all alive."""
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    return fresh
