"""Questions to the broker that outlive its connection: each is asked until it is answered, or until its time is up.

A question has no effect at a broker, so one that lost its broker is simply asked again, of the next. It gets a new
number whenever it is asked: an answer to an earlier asking finds nothing here, and is dropped.
"""

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Asking(NamedTuple):
    """A question that is to be asked now, under this number, and until when its answer counts."""

    number: int
    deadline: float


class Questions(Generic[T]):
    """The open questions of one consumer, oldest first. There are few."""

    __slots__ = ("_asked", "_number", "_unasked")

    def __init__(self) -> None:
        self._number = 0
        self._unasked: list[tuple[T, float]] = []
        self._asked: dict[int, tuple[T, float]] = {}

    def add(self, token: T, deadline: float) -> None:
        """Take one on."""
        self._unasked.append((token, deadline))

    def take_unasked(self) -> list[Asking]:
        """Give those that are to be asked, and count them as asked."""
        askings: list[Asking] = []
        for token, deadline in self._unasked:
            self._number += 1
            self._asked[self._number] = (token, deadline)
            askings.append(Asking(self._number, deadline))
        self._unasked = []
        return askings

    def unbind(self) -> None:
        """Have all be asked again: whom they were put to will not answer."""
        self._unasked = [*self._asked.values(), *self._unasked]
        self._asked = {}

    def answered(self, number: int) -> T | None:
        """End the one that was asked under this number; None if it has ended, or was asked again since."""
        found = self._asked.pop(number, None)
        return None if found is None else found[0]

    def expire(self, now: float) -> list[T]:
        """End those whose time is up."""
        late = [token for token, deadline in self._open() if deadline <= now]
        self._asked = {number: one for number, one in self._asked.items() if one[1] > now}
        self._unasked = [one for one in self._unasked if one[1] > now]
        return late

    def next_deadline(self) -> float | None:
        """When to call `expire` next; None when nothing is open."""
        return min((deadline for _, deadline in self._open()), default=None)

    def drain(self) -> list[T]:
        """End all."""
        tokens = [token for token, _ in self._open()]
        self._asked, self._unasked = {}, []
        return tokens

    def _open(self) -> list[tuple[T, float]]:
        return [*self._asked.values(), *self._unasked]
