"""The rules of scripted faults: each has an action for certain commands or connections, and counts its occurrences.

`faults.py` sets the rules, and `session/fault_injection.py` carries out their actions. An action is a value, works in
either direction, and has the call that sets it as its text.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from google.protobuf.message import Message

from pulsar_actors.broker.fault_commands import command_name, nearest, plain_command
from pulsar_actors.broker.session.answers import ServerErrorCode
from pulsar_actors.exceptions import InvalidArgument, Timeout
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import Buffer
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import ServerError


class Side(Enum):
    """The sender of a command."""

    CLIENT = "client"
    BROKER = "broker"


EntryBuffers: TypeAlias = Sequence[Buffer]
"""The bytes after a command: the buffers of an entry, or none."""


class InterceptedCommand(NamedTuple):
    """A command on its way; `connection` is the connection's number, counted from 1 in the order of arrival."""

    command: Message
    entry: EntryBuffers
    connection: int
    sent_by: Side


@dataclass(frozen=True, slots=True)
class Drop:
    """The command is lost."""

    def __str__(self) -> str:
        return "drop()"


@dataclass(frozen=True, slots=True)
class Delay:
    """The command is passed on after so many seconds. Later commands do not wait for it."""

    seconds: float

    def __str__(self) -> str:
        return f"delay({self.seconds})"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The command is passed on twice."""

    def __str__(self) -> str:
        return "duplicate()"


@dataclass(frozen=True, slots=True)
class Reorder:
    """The command is passed on after the next one in its direction."""

    def __str__(self) -> str:
        return "reorder()"


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """The command is lost, and the connection ends."""

    def __str__(self) -> str:
        return "close_connection()"


@dataclass(frozen=True, slots=True)
class Answer:
    """The command is lost, and the client gets these commands instead.

    Ids that an answer leaves unset (of the request, the producer, the consumer, the sequence) are those of the
    command.
    """

    commands: tuple[Message, ...]

    def __str__(self) -> str:
        return f"answer({', '.join(repr(plain_command(command)) for command in self.commands)})"


@dataclass(frozen=True, slots=True)
class Refuse:
    """The command is lost, and the client gets the error instead, in the form that refusals of this command have."""

    error: ServerErrorCode
    text: str

    def __post_init__(self) -> None:
        if self.error not in ServerError.values():
            names = ServerError.keys()
            hint = f"{', '.join(names)}{nearest(self.error, names)}"
            raise InvalidArgument(f"a refusal takes the name of an error, not {excerpt(self.error)}: {hint}")
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers need not be typed
            raise TypeError(f"the text of a refusal is a str, not {type(self.text).__name__}")

    def __str__(self) -> str:
        return f"refuse({ServerError.Name(self.error)!r}, {self.text!r})"


@dataclass(frozen=True, slots=True)
class Stall:
    """The command and all later ones in its direction wait until the stall is released."""

    def __str__(self) -> str:
        return "stall()"


Action: TypeAlias = Drop | Delay | Duplicate | Reorder | CloseConnection | Answer | Refuse | Stall


class Reception(NamedTuple):
    """A fault of a whole connection.

    `hang_up` ends the connection at once; `silent` never answers; otherwise the connection ends after so many bytes in
    one direction.
    """

    hang_up: bool = False
    silent: bool = False
    received: int | None = None
    sent: int | None = None

    def __str__(self) -> str:
        if self.hang_up:
            return "hang_up()"
        return "say_nothing()" if self.silent else f"cut_after(received={self.received}, sent={self.sent})"


Predicate: TypeAlias = Callable[[Message], bool]
Control: TypeAlias = Callable[[InterceptedCommand], Action | None]


class Occurrences:
    """The occurrences that a fault applies to: `times` of them, starting with the `nth`."""

    __slots__ = ("_first", "_last", "_seen", "_text")

    def __init__(self, nth: int, times: int | None) -> None:
        if type(nth) is not int or nth < 1:
            raise InvalidArgument(f"nth counts from 1, and is {excerpt(nth)}")
        if times is not None and (type(times) is not int or times < 1):
            raise InvalidArgument(f"times is how often, at least once, or None for always; it is {excerpt(times)}")
        self._text = f"nth={nth}, times={times}"
        self._first = nth
        self._last = None if times is None else nth + times - 1
        self._seen = 0

    def matches_next(self) -> bool:
        """Count one more occurrence, and return whether the fault applies to it."""
        self._seen += 1
        return self._seen >= self._first and (self._last is None or self._seen <= self._last)

    def __str__(self) -> str:
        return self._text


class Fault:
    """A fault that was set. `happened` counts how often it happened."""

    def __init__(self, remove: Callable[["Fault"], None], release: Callable[[], None]) -> None:
        self._remove = remove
        self._release = release
        self._changed = threading.Condition()
        self.happened = 0

    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until the fault has happened `count` times. Raise Timeout after so many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.happened >= count, timeout):
                raise Timeout(f"in {timeout} s it did not happen {count} times: {self!r}")

    def remove(self) -> None:
        """Remove the fault. Commands that it has stalled wait until `release`."""
        self._remove(self)

    def release(self) -> None:
        """Remove the fault, and pass on all stalled commands, on every connection."""
        self._remove(self)
        self._release()

    def note(self) -> None:
        """Count one more occurrence. Called on the broker's loop."""
        with self._changed:
            self.happened += 1
            self._changed.notify_all()

    def __repr__(self) -> str:
        times = "once" if self.happened == 1 else f"{self.happened} times"
        return f"<Fault {self._script()}: happened {times}>"

    def _script(self) -> str:
        """Describe the fault by the call that set it."""
        raise NotImplementedError


class CommandRule(Fault):
    """A fault for commands of one class."""

    def __init__(
        self,
        remove: Callable[[Fault], None],
        release: Callable[[], None],
        what: tuple[type[Message], Side, Occurrences, Predicate | None],
        action: Action,
    ) -> None:
        super().__init__(remove, release)
        self._kind, self._side, self._which, self._when = what
        self.action = action

    def applies(self, seen: InterceptedCommand) -> bool:
        """Count this command if the rule matches it, and return whether the fault applies."""
        return (
            type(seen.command) is self._kind
            and seen.sent_by is self._side
            and (self._when is None or self._when(seen.command))
            and self._which.matches_next()
        )

    def _script(self) -> str:
        when = "" if self._when is None else f", when={self._when!r}"
        return f"on({command_name(self._kind)!r}, {self._which}, sent_by={self._side.value!r}{when}).{self.action}"


class ControlRule(Fault):
    """A fault that a function decides."""

    def __init__(self, remove: Callable[[Fault], None], release: Callable[[], None], function: Control) -> None:
        super().__init__(remove, release)
        self.function = function

    def _script(self) -> str:
        return f"control({self.function!r})"


class AcceptRule(Fault):
    """A fault for new connections."""

    def __init__(
        self, remove: Callable[[Fault], None], release: Callable[[], None], which: Occurrences, reception: Reception
    ) -> None:
        super().__init__(remove, release)
        self.which = which
        self.reception = reception

    def _script(self) -> str:
        return f"on_accept({self.which}).{self.reception}"
