"""What a connection says to the producers, consumers and watches of topics that use it, and what they ask of it.

A member is one such use of one connection. Its `number` counts such uses, so that what is said of
an earlier one is told apart from what is said now.
"""

from typing import Any, NamedTuple

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.runtime.actor import Address

PRODUCER = "producer"
CONSUMER = "consumer"
WATCHER = "watcher"


class Member(NamedTuple):
    """One use of a connection. `kind` and `id` are what commands name, and `address` whose it is."""

    kind: str
    id: int
    address: Address
    number: int


class Token(NamedTuple):
    """Whom an answer is for, and what it answers."""

    address: Address
    question: Any


class Bound(NamedTuple):
    """The connection can be used."""

    number: int
    connection: Address
    max_message_size: int
    can_watch: bool = False


class Unbound(NamedTuple):
    """It cannot, or no longer."""

    number: int
    error: PulsarException


class Heard(NamedTuple):
    """The broker spoke to the member: all commands of one read, each with its entry if it has one."""

    number: int
    commands: tuple[tuple[Any, memoryview], ...]


class Replied(NamedTuple):
    """The answer to a question: a command of the broker's, or an error in its place."""

    question: Any
    answer: Any
