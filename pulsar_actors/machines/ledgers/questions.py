"""Questions to the broker that outlive its connection: each is asked until it is answered, or until its time is up.

A question has no effect at a broker, so one that lost its broker is simply asked again, of the next. It gets a new
number whenever it is asked: an answer to an earlier asking finds nothing here, and is dropped.

Each remembers what went wrong last while it was open, however often it has been asked since: if its time is up in the
end, that is worth more than the silence of whoever was asked last.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pulsar_actors.exceptions import PulsarException

T = TypeVar("T")


class Asking(NamedTuple):
    """A question that is to be asked now, under this number, and until when its answer counts."""

    number: int
    token: Any
    deadline: float


@dataclass(frozen=True, slots=True)
class Late(Generic[T]):
    """A question whose time is up, and what went wrong meanwhile, if anything did."""

    token: T
    failure: PulsarException | None


class _Open(Generic[T]):
    __slots__ = ("deadline", "failure", "token")

    def __init__(self, token: T, deadline: float, failure: PulsarException | None) -> None:
        self.token = token
        self.deadline = deadline
        self.failure = failure

    def late(self) -> Late[T]:
        return Late(self.token, self.failure)


class Questions(Generic[T]):
    """The open questions of one consumer, oldest first. There are few."""

    __slots__ = ("_asked", "_number", "_unasked")

    def __init__(self) -> None:
        self._number = 0
        self._unasked: list[_Open[T]] = []
        self._asked: dict[int, _Open[T]] = {}

    def add(self, token: T, deadline: float, failure: PulsarException | None = None) -> None:
        """Take one on; a failure is why it cannot be asked at once."""
        self._unasked.append(_Open(token, deadline, failure))

    def take_unasked(self) -> list[Asking]:
        """Give those that are to be asked, and count them as asked."""
        askings: list[Asking] = []
        for one in self._unasked:
            self._number += 1
            self._asked[self._number] = one
            askings.append(Asking(self._number, one.token, one.deadline))
        self._unasked = []
        return askings

    def note_failure(self, failure: PulsarException) -> None:
        """Remember it for all that are open."""
        for one in self._open():
            one.failure = failure

    def unbind(self) -> None:
        """Have all be asked again: whom they were put to will not answer."""
        self._unasked = [*self._asked.values(), *self._unasked]
        self._asked = {}

    def put_off(self, number: int, failure: PulsarException) -> None:
        """Have one be asked again: whom it was put to does not know whom it is about."""
        found = self._asked.pop(number, None)
        if found is not None:
            found.failure = failure
            self._unasked.append(found)

    def answered(self, number: int) -> T | None:
        """End the one that was asked under this number; None if it has ended, or was asked again since."""
        found = self._asked.pop(number, None)
        return None if found is None else found.token

    def late(self, number: int) -> Late[T] | None:
        """End one whose time is up, likewise."""
        found = self._asked.pop(number, None)
        return None if found is None else found.late()

    def expire(self, now: float) -> list[Late[T]]:
        """End those whose time is up."""
        late = [one.late() for one in self._open() if one.deadline <= now]
        self._asked = {number: one for number, one in self._asked.items() if one.deadline > now}
        self._unasked = [one for one in self._unasked if one.deadline > now]
        return late

    def next_deadline(self) -> float | None:
        """When to call `expire` next; None when nothing is open."""
        return min((one.deadline for one in self._open()), default=None)

    def drain(self) -> list[T]:
        """End all."""
        tokens = [one.token for one in self._open()]
        self._asked, self._unasked = {}, []
        return tokens

    def _open(self) -> Iterator[_Open[T]]:
        yield from self._asked.values()
        yield from self._unasked
