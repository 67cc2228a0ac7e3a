"""What can be done to a command on its way, in either direction, and the gate that does it.

Every connection has two gates, one for what its client sends and one for what the broker sends. A gate asks the faults
about each command and then passes it on, or not, or later. It knows nothing of what commands mean: whatever passes goes
to the function it was made with.

A delayed or reordered command is overtaken by those behind it. A stall is different: from the command that met it on,
nothing passes in that direction, in order, until it is released.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from google.protobuf.message import Message

from pulsar_actors.broker.session.answers import Error, refusal_of
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.loop import Buffer, Loop
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import ServerError

__all__ = [
    "Action",
    "Answer",
    "CloseConnection",
    "Delay",
    "Drop",
    "Duplicate",
    "Gate",
    "Refuse",
    "Reorder",
    "Seen",
    "Side",
    "Stall",
]

Entry: TypeAlias = Sequence[Buffer]
"""What follows a command: the buffers of an entry, or none."""


class Side(Enum):
    """Who sent a command."""

    CLIENT = "client"
    BROKER = "broker"


class Seen(NamedTuple):
    """A command on its way: `connection` is the connection's number, counted from 1 as they came."""

    command: Message
    entry: Entry
    connection: int
    sent_by: Side


@dataclass(frozen=True, slots=True)
class Drop:
    """It is lost."""


@dataclass(frozen=True, slots=True)
class Delay:
    """It goes on after so many seconds; what is behind it does not wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Duplicate:
    """It goes on twice."""


@dataclass(frozen=True, slots=True)
class Reorder:
    """It goes on after the next command in its direction."""


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """It is lost, and the connection ends."""


@dataclass(frozen=True, slots=True)
class Answer:
    """It is lost, and the client gets these commands instead.

    Ids that an answer leaves unset (of the request, the producer, the consumer, the sequence) are those of the command.
    """

    commands: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """It is lost, and the client gets the error instead, in the form that the command's refusals have."""

    error: Error
    text: str

    def __post_init__(self) -> None:
        if self.error not in ServerError.values():
            labels = ", ".join(ServerError.keys())
            raise InvalidArgument(f"a refusal takes a label of ServerError, not {excerpt(self.error)}: {labels}")
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers need not be typed
            raise TypeError(f"the text of a refusal is a str, not {type(self.text).__name__}")


@dataclass(frozen=True, slots=True)
class Stall:
    """It waits, and everything behind it, until the stall is released."""


Action: TypeAlias = Drop | Delay | Duplicate | Reorder | CloseConnection | Answer | Refuse | Stall


class Judge(Protocol):
    """Whoever knows the faults."""

    active: bool

    def judge(self, seen: Seen) -> Action | None:
        """Say what happens to a command; None lets it pass."""
        ...


class Connection(Protocol):
    """The connection that a gate belongs to."""

    number: int

    def reply(self, command: Message) -> None:
        """Send the client a command that no fault looks at."""
        ...

    def close(self, reason: str) -> None:
        """End it."""
        ...


class Gate:
    """The gate of one direction of one connection."""

    __slots__ = ("_connection", "_held", "_judge", "_loop", "_pass_on", "_side", "_stalled")

    def __init__(
        self,
        loop: Loop,
        judge: Judge,
        connection: Connection,
        side: Side,
        pass_on: Callable[[Message, Entry], None],
    ) -> None:
        self._loop = loop
        self._judge = judge
        self._connection = connection
        self._side = side
        self._pass_on = pass_on
        self._held: list[tuple[Message, Entry]] = []  # by a reorder, until the next one has passed
        self._stalled: list[tuple[Message, Entry]] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether a command may go past this gate: there is no fault to look for, and nothing waits here."""
        return not (self._judge.active or self._held or self._stalled is not None)

    def take(self, command: Message, entry: Entry) -> None:
        """Take a command that arrived at the gate."""
        if self._stalled is not None:
            self._stalled.append((command, entry))
            return
        action = self._judge.judge(Seen(command, entry, self._connection.number, self._side))
        if action is None:
            self._let_pass(command, entry)
        else:
            self._perform(action, command, entry)

    def release(self) -> None:
        """End a stall: what waited arrives again, and may meet another fault."""
        waiting, self._stalled = self._stalled or [], None
        for command, entry in waiting:
            self.take(command, entry)

    def _perform(self, action: Action, command: Message, entry: Entry) -> None:
        match action:
            case Drop():
                return
            case Delay(seconds):
                self._loop.later(seconds, self._go_on, (command, entry))
            case Duplicate():
                self._let_pass(command, entry)
                self._let_pass(command, entry)
            case Reorder():
                self._held.append((command, entry))
            case CloseConnection():  # when this turn is over: the model may be in the middle of a round of deliveries
                self._stalled = []
                self._loop.post(self._connection.close, "a scripted fault")
            case Stall():
                self._stalled = [(command, entry)]
            case _:
                for answer in _answers(action, command):
                    self._connection.reply(answer)

    def _let_pass(self, command: Message, entry: Entry) -> None:
        held, self._held = self._held, []
        self._pass_on(command, entry)
        for late in held:
            self._pass_on(*late)

    def _go_on(self, delayed: tuple[Message, Entry]) -> None:
        self._pass_on(*delayed)


def _answers(action: Answer | Refuse, command: Message) -> list[Message]:
    if isinstance(action, Answer):
        return [_addressed(answer, command) for answer in action.commands]
    refusal = refusal_of(command, action.error, action.text)
    return [] if refusal is None else [refusal]


_IDS = ("request_id", "producer_id", "consumer_id", "watcher_id", "sequence_id")


def _addressed(answer: Message, command: Message) -> Message:
    """Fill in whom an answer is for, where it does not say so."""
    filled: Any = type(answer)()
    filled.CopyFrom(answer)
    asked: Any = command
    fields, known = answer.DESCRIPTOR.fields_by_name, command.DESCRIPTOR.fields_by_name
    for name in _IDS:
        if name in fields and name in known and not filled.HasField(name):
            setattr(filled, name, getattr(asked, name))
    addressed: Message = filled
    return addressed
