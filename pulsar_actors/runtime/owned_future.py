"""A future that belongs to the process that made it.

In a forked child nobody ends what was pending in the parent. Whoever waits for it there is told so, as by `SlimFuture`,
which has a cheaper way to know, for there is one of those for each message.
"""

import os
from concurrent.futures import Future
from typing import TypeVar

from pulsar_actors.exceptions import ProcessForked
from pulsar_actors.runtime.future import FINISHED, ORPHANED

T = TypeVar("T")


class OwnedFuture(Future[T]):
    """A standard future, otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the error."""
        self._refuse_orphans()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome, and return the error or None."""
        self._refuse_orphans()
        return super().exception(timeout)

    def _refuse_orphans(self) -> None:  # without a look under the lock, which may have been held when it forked
        if os.getpid() != self._process and self._state != FINISHED:
            raise ProcessForked(ORPHANED)
