"""Futures that want a message: they are served in the order in which they asked, and on the loop only.

A future may be cancelled until there is something for it. Then it is claimed, which nobody can undo, and *then* the
message is taken: so none is taken for a future that does not want it. If the message turns out to be corrupt, the
future stays claimed, and gets the next one.

A future that is cancelled leaves the line at once: a program that waits for a second at a time, by `asyncio.wait_for`,
makes a hundred thousand of them a day. Whoever takes it out of the line, its owner or the loop that was faster, says
that it gave up.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from pulsar_actors.runtime.future import settle
from pulsar_actors.runtime.owned_future import OwnedFuture


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


class Promise(OwnedFuture[Any]):
    """A future of a message, which tells those it stands among that it was cancelled."""

    def __init__(self, others: "Promises") -> None:
        super().__init__()
        self._others = others

    def cancel(self) -> bool:
        """Want no message any longer; False if one is being fetched, or is there."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self._others.leave(self)
        return is_cancelled


class Promises:
    """The futures of one queue that are not done. `line` has those that can still be cancelled; `claimed` cannot.

    `gave_up` is called for each that was cancelled.
    """

    __slots__ = ("_gave_up", "claimed", "line")

    def __init__(self, gave_up: Callable[[], object]) -> None:
        self._gave_up = gave_up
        self.line: deque[Promise] = deque()
        self.claimed: Promise | None = None

    def make(self, *, ahead: bool = False) -> Promise:
        """Put one more into the line, or ahead of it."""
        promise = Promise(self)
        if ahead:
            self.line.appendleft(promise)
        else:
            self.line.append(promise)
        return promise

    def leave(self, promise: Promise) -> None:
        """Let one go that was cancelled, unless it has left the line before."""
        try:
            self.line.remove(promise)
        except ValueError:
            return
        promise.set_running_or_notify_cancel()  # or else `concurrent.futures.wait` would not hear of it
        self._gave_up()

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

    def take_back(self, future: Promise, error: Exception) -> None:
        """Fail one, unless it is being served: then it is no longer in the line, and ends there."""
        try:
            self.line.remove(future)
        except ValueError:
            return
        settle(future, error)

    def _claim(self, source: Source) -> bool:
        """Find the future that gets the next message, once there is one for it."""
        while self.claimed is None and self.line and source.is_due():
            try:
                promise = self.line.popleft()
            except IndexError:  # it has just left
                break
            if promise.set_running_or_notify_cancel():
                self.claimed = promise
            else:
                self._gave_up()
        return self.claimed is not None
