"""What the callers of clients did, what they were told, and when: a history, which `promises.py` is held against.

An event has the number of its place in the history. An operation has two: where it began, and where its outcome was
told. So one happened before another if its outcome has a lower number than the other's beginning, whatever threads or
clocks there are.

Every content is sent once, so it names its message. What was asked for and has not been answered has no outcome.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any, NamedTuple, TypeVar

from pulsar_actors import exceptions
from pulsar_actors.client.enums import ConsumerType, Result
from pulsar_actors.client.message_id import MessageId


class Place(NamedTuple):
    """Where a message is stored. Places of one topic compare in the order of storing."""

    ledger: int
    entry: int
    index: int
    """In the batch; -1 where there is none."""

    @classmethod
    def of(cls, message_id: MessageId) -> "Place":
        return cls(message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())


_LEAVE_OPEN = frozenset(
    {
        *(Result.Timeout, Result.ReadError, Result.UnknownError),
        *(Result.ProducerFenced, Result.TopicTerminated, Result.TopicNotFound),
    }
)


@unique
class Outcome(Enum):
    """What a client says of an operation in the end."""

    DONE = "it has happened"
    REFUSED = "it has not happened, and will not"
    UNKNOWN = "it may have happened, or happen yet"

    @classmethod
    def of_error(cls, error: BaseException | None) -> "Outcome":
        if error is None:
            return cls.DONE
        is_open = isinstance(error, (exceptions.OutcomeUnknown, exceptions.InternalError))
        return cls.UNKNOWN if is_open else cls.REFUSED

    @classmethod
    def of_result(cls, result: Result) -> "Outcome":
        """Judge what a callback gets, which is less than an exception says: OutcomeUnknown goes by `UnknownError`.

        What ends a producer is told of all its messages, also of those that it had sent.
        """
        if result is Result.Ok:
            return cls.DONE
        return cls.UNKNOWN if result in _LEAVE_OPEN else cls.REFUSED


@dataclass(slots=True)
class Operation:
    """Something that a caller asked for."""

    began: int
    ended: int | None = field(default=None, kw_only=True)
    outcome: Outcome | None = field(default=None, kw_only=True)
    endings: int = field(default=0, kw_only=True)
    """How often an outcome was told."""

    def happened_before(self, other: "Operation") -> bool:
        return self.ended is not None and self.ended < other.began


@dataclass(slots=True)
class Sent(Operation):
    """A message. Those of one producer on one topic are sent one after the other."""

    producer: str
    topic: str
    content: bytes
    key: str | None = None
    transaction: str | None = None
    once: bool = False
    """True if the broker drops what this producer repeats."""
    line: str = ""
    """Messages of one line have an order."""
    place: Place | None = None


@dataclass(slots=True)
class Subscribed(Operation):
    """A consumer of a subscription; DONE when it can receive."""

    consumer: str
    topics: tuple[str, ...]
    subscription: str
    kind: ConsumerType | None
    """None for a reader."""
    by_index: bool = False
    """True if single messages of a batch are acknowledged; otherwise a batch is when all of them are."""


@dataclass(slots=True)
class Closed(Operation):
    """The close of a consumer. When it is DONE, so is what was acknowledged before."""

    consumer: str


@dataclass(slots=True)
class Acknowledged(Operation):
    """An acknowledgement of one message, or of all up to it."""

    consumer: str
    subscription: str
    topic: str
    place: Place
    cumulative: bool = False
    transaction: str | None = None
    returned: int | None = None
    """When the call returned, if it does not wait for the broker."""


@dataclass(slots=True)
class EndedTransaction(Operation):
    """A transaction that was committed, or aborted."""

    transaction: str
    commit: bool


class Received(NamedTuple):
    """A message that a caller got."""

    at: int
    consumer: str
    subscription: str
    topic: str
    place: Place
    content: bytes


class Stored(NamedTuple):
    """A message that the judge read in the end: a reader of its own, after all faults."""

    topic: str
    place: Place
    content: bytes


class Disturbed(NamedTuple):
    """Something that excuses a break of a promise after it, such as a seek."""

    at: int
    what: str
    subject: str


T = TypeVar("T", bound=Operation)


class History:
    """The events of one run. Any thread may add some."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.received: list[Received] = []
        self.disturbed: list[Disturbed] = []
        self.stored: list[Stored] = []
        self._lock = threading.Lock()
        self._next = 0

    def begin(self, what: type[T], /, **facts: Any) -> T:
        """Note that an operation begins."""
        with self._lock:
            operation = what(began=self._take(), **facts)
            self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome) -> None:
        """Note the outcome of an operation."""
        with self._lock:
            operation.endings += 1
            operation.ended, operation.outcome = self._take(), outcome

    def returned(self, acknowledged: Acknowledged) -> None:
        """Note that a call has returned that does not wait for the broker."""
        with self._lock:
            acknowledged.returned = self._take()

    def receive(self, consumer: Subscribed, topic: str, place: Place, content: bytes) -> None:
        """Note that a caller has a message."""
        with self._lock:
            at = self._take()
            self.received.append(Received(at, consumer.consumer, consumer.subscription, topic, place, content))

    def disturb(self, what: str, subject: str = "") -> None:
        """Note that something happened which excuses a break of a promise."""
        with self._lock:
            self.disturbed.append(Disturbed(self._take(), what, subject))

    def of(self, kind: type[T]) -> Iterator[T]:
        """Give the operations of a kind, in the order of their beginning."""
        return (each for each in self.operations if isinstance(each, kind))

    def _take(self) -> int:
        self._next += 1
        return self._next
