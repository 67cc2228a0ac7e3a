"""What can be done to a command on its way, in either direction: values, for a gate (`gate.py`) to carry out."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from google.protobuf.message import Message

from pulsar_actors.broker.session.answers import Error
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.loop import Buffer
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import ServerError

__all__ = [
    "Action",
    "Answer",
    "CloseConnection",
    "Delay",
    "Drop",
    "Duplicate",
    "Entry",
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
