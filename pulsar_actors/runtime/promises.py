"""Futures that want a message: they are served in the order in which they asked, and on the loop only.

A future may be cancelled until there is something for it. Then it is claimed, which nobody can undo, and *then* the
message is taken: so none is taken for a future that does not want it. If the message turns out to be corrupt, the
future stays claimed, and gets the next one.
"""

from collections import deque
from concurrent.futures import Future
from typing import Any, Protocol

from pulsar_actors.runtime.future import settle


class Source(Protocol):
    """Where messages come from."""

    @property
    def over(self) -> Exception | None:
        """Tell why no message will come, if none will."""
        ...

    def is_due(self) -> bool:
        """Tell whether there is a message, or will be none."""
        ...

    def take(self) -> Any:  # noqa: ANN401 - a message
        """Take the next message, or None."""
        ...


class Promises:
    """The futures of one queue that are not done. `line` has those that can still be cancelled; `claimed` cannot."""

    __slots__ = ("claimed", "line")

    def __init__(self) -> None:
        self.line: deque[Future[Any]] = deque()
        self.claimed: Future[Any] | None = None

    def serve(self, source: Source) -> None:
        """Give them messages; if there will be none, an error."""
        while self._claim(source):
            outcome = source.take()
            if outcome is None:
                outcome = source.over
            if outcome is None:
                break
            future, self.claimed = self.claimed, None
            if future is not None:
                settle(future, outcome)

    def take_back(self, future: Future[Any], error: Exception) -> None:
        """Fail one, unless it is being served: then it is no longer in the line, and ends there."""
        try:
            self.line.remove(future)
        except ValueError:
            return
        settle(future, error)

    def _claim(self, source: Source) -> bool:
        """Find the future that gets the next message, once there is one for it."""
        while self.claimed is None and self.line and source.is_due():
            future = self.line.popleft()
            if future.set_running_or_notify_cancel():
                self.claimed = future
        return self.claimed is not None
