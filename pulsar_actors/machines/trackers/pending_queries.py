"""The pending queries of one consumer. Each is sent until it is answered, or until its time limit is over.

A query changes nothing at a broker, so after a lost connection it is sent again to the next broker. It gets a new
number each time it is sent. An answer to an earlier number is dropped.

Each query remembers the last failure since it was asked, even if it has been sent again since. If its time limit passes
in the end, the error names that failure, and not just that the last broker did not answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.named_tuple import NamedTuple

T = TypeVar("T")


class QueryToSend(NamedTuple):
    """A query to send now, with its number and its deadline."""

    number: int
    token: Any
    deadline: float


@dataclass(frozen=True, slots=True)
class LateQuery(Generic[T]):
    """A query whose time limit is over, and the last failure meanwhile, if there was one."""

    token: T
    failure: PulsarException | None


class _PendingQuery(Generic[T]):
    __slots__ = ("deadline", "failure", "token")

    def __init__(self, token: T, deadline: float, failure: PulsarException | None) -> None:
        self.token = token
        self.deadline = deadline
        self.failure = failure

    def late(self) -> LateQuery[T]:
        return LateQuery(self.token, self.failure)


class PendingQueries(Generic[T]):
    """The open queries of one consumer, oldest first. There are few."""

    __slots__ = ("_asked", "_number", "_unasked")

    def __init__(self) -> None:
        self._number = 0
        self._unasked: list[_PendingQuery[T]] = []
        self._asked: dict[int, _PendingQuery[T]] = {}

    def add(self, token: T, deadline: float, failure: PulsarException | None = None) -> None:
        """Add a query; `failure` is why it cannot be sent at once."""
        self._unasked.append(_PendingQuery(token, deadline, failure))

    def take_unasked(self) -> list[QueryToSend]:
        """Take the queries to send now."""
        askings: list[QueryToSend] = []
        for one in self._unasked:
            self._number += 1
            self._asked[self._number] = one
            askings.append(QueryToSend(self._number, one.token, one.deadline))
        self._unasked = []
        return askings

    def note_failure(self, failure: PulsarException) -> None:
        """Remember a failure for all open queries."""
        for one in self._open():
            one.failure = failure

    def unbind(self) -> None:
        """Mark all queries as unsent: the connection is lost, and no answer will come."""
        self._unasked = [*self._asked.values(), *self._unasked]
        self._asked = {}

    def retry_later(self, number: int, failure: PulsarException) -> None:
        """Mark one query as unsent: its broker does not know the consumer."""
        found = self._asked.pop(number, None)
        if found is not None:
            found.failure = failure
            self._unasked.append(found)

    def answered(self, number: int) -> T | None:
        """End the query of this number; None if it has ended, or was sent again since."""
        found = self._asked.pop(number, None)
        return None if found is None else found.token

    def late(self, number: int) -> LateQuery[T] | None:
        """End the query of this number, whose time limit is over; None as in `answered`."""
        found = self._asked.pop(number, None)
        return None if found is None else found.late()

    def expire(self, now: float) -> list[LateQuery[T]]:
        """End the queries whose time limit is over."""
        late = [one.late() for one in self._open() if one.deadline <= now]
        self._asked = {number: one for number, one in self._asked.items() if one.deadline > now}
        self._unasked = [one for one in self._unasked if one.deadline > now]
        return late

    def next_deadline(self) -> float | None:
        """Return the time to call `expire` next; None if no query is open."""
        return min((one.deadline for one in self._open()), default=None)

    def drain(self) -> list[T]:
        """End all queries, and return their tokens."""
        tokens = [one.token for one in self._open()]
        self._asked, self._unasked = {}, []
        return tokens

    def _open(self) -> Iterator[_PendingQuery[T]]:
        yield from self._asked.values()
        yield from self._unasked
