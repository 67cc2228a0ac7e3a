"""The faults that are set: which command or connection each waits for, and how often it has happened."""

import threading
from collections.abc import Callable
from typing import TypeAlias

from google.protobuf.message import Message

from pulsar_actors.broker.session.fault_actions import Action, Seen, Side
from pulsar_actors.broker.session.reception import Reception
from pulsar_actors.exceptions import InvalidArgument, Timeout
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["AcceptRule", "CommandRule", "Control", "ControlRule", "Count", "Fault", "Predicate"]

Predicate: TypeAlias = Callable[[Message], bool]
Control: TypeAlias = Callable[[Seen], Action | None]


class Count:
    """Which of the things that come are meant: the `nth`, and as many from there on as `times` says."""

    __slots__ = ("_first", "_last", "_said", "_seen")

    def __init__(self, nth: int, times: int | None) -> None:
        if nth < 1:
            raise InvalidArgument(f"nth counts from 1, and is {excerpt(nth)}")
        if times is not None and times < 1:
            raise InvalidArgument(f"times is how often, at least once, or None for always; it is {excerpt(times)}")
        self._said = f"nth={nth}, times={times}"
        self._first = nth
        self._last = None if times is None else nth + times - 1
        self._seen = 0

    def meets(self) -> bool:
        """Count one more, and tell whether it is meant."""
        self._seen += 1
        return self._seen >= self._first and (self._last is None or self._seen <= self._last)

    def __str__(self) -> str:
        return self._said


class Fault:
    """A fault that was set. `happened` says how often it has happened."""

    def __init__(self, remove: Callable[["Fault"], None], release: Callable[[], None]) -> None:
        self._remove = remove
        self._release = release
        self._changed = threading.Condition()
        self.happened = 0

    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until it has happened so often; raises Timeout if it does not within so many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.happened >= count, timeout):
                raise Timeout(f"in {timeout} s it did not happen {count} times: {self!r}")

    def remove(self) -> None:
        """Let it happen no more. What stalled stays so until `release`."""
        self._remove(self)

    def release(self) -> None:
        """Remove it, and let everything go on that stalled, on every connection."""
        self._remove(self)
        self._release()

    def note(self) -> None:
        """Count that it has happened once more; the broker does that, on its loop."""
        with self._changed:
            self.happened += 1
            self._changed.notify_all()

    def __repr__(self) -> str:
        times = "once" if self.happened == 1 else f"{self.happened} times"
        return f"<Fault {self._script()}: happened {times}>"

    def _script(self) -> str:
        """Tell what it waits for and what happens then, in the words that set it."""
        raise NotImplementedError


class CommandRule(Fault):
    """Waits for commands of a class."""

    def __init__(
        self,
        remove: Callable[[Fault], None],
        release: Callable[[], None],
        what: tuple[type[Message], Side, Count, Predicate | None],
        action: Action,
    ) -> None:
        super().__init__(remove, release)
        self._kind, self._side, self._which, self._when = what
        self.action = action

    def applies(self, seen: Seen) -> bool:
        """Tell whether this command is one that it waits for; counts it."""
        return (
            type(seen.command) is self._kind
            and seen.sent_by is self._side
            and (self._when is None or self._when(seen.command))
            and self._which.meets()
        )

    def _script(self) -> str:
        when = "" if self._when is None else f", when={self._when!r}"
        return f"on({self._kind.__name__}, {self._which}, sent_by={self._side}{when}).do({self.action!r})"


class ControlRule(Fault):
    """Asks a function."""

    def __init__(self, remove: Callable[[Fault], None], release: Callable[[], None], function: Control) -> None:
        super().__init__(remove, release)
        self.function = function

    def _script(self) -> str:
        return f"control({self.function!r})"


class AcceptRule(Fault):
    """Waits for connections."""

    def __init__(
        self, remove: Callable[[Fault], None], release: Callable[[], None], which: Count, reception: Reception
    ) -> None:
        super().__init__(remove, release)
        self.which = which
        self.reception = reception

    def _script(self) -> str:
        return f"on_accept({self.which}), {self.reception!r}"
