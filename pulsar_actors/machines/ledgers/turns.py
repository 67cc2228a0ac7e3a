"""How many lookups may be on their way at once, and who is next.

A process that starts ten thousand producers asks ten thousand questions in one moment, and a broker refuses them all
when there are too many. So only some are on their way, the others wait in the order in which they came, and when even
the line is too long, whoever comes is turned away at once rather than kept waiting for nothing.
"""

from collections import deque
from enum import Enum
from typing import Generic, TypeVar

from pulsar_actors.exceptions import InvalidArgument

T = TypeVar("T")

MAX_TOGETHER = 50_000


class Turn(Enum):
    """The answer to somebody who wants a turn."""

    NOW = "begin"
    LATER = "wait in line"
    NEVER = "there are too many"


class Turns(Generic[T]):
    """The turns of one client: so many at once, and so many together with those in line."""

    __slots__ = ("_limit", "_line", "_on_the_way", "_together")

    def __init__(self, limit: int, together: int | None = None) -> None:
        together = max(limit, MAX_TOGETHER) if together is None else together
        if not 0 < limit <= together:
            raise InvalidArgument(f"from 1 to {together} lookups may be on their way at once, not {limit}")
        self._limit = limit
        self._together = together
        self._on_the_way = 0
        self._line: deque[T] = deque()

    def take(self, token: T) -> Turn:
        """Take a turn, or get in line."""
        if self._on_the_way < self._limit:
            self._on_the_way += 1
            return Turn.NOW
        if self._on_the_way + len(self._line) >= self._together:
            return Turn.NEVER
        self._line.append(token)
        return Turn.LATER

    def give_back(self) -> T | None:
        """End a turn, and give whose turn it is now."""
        if self._line:
            return self._line.popleft()
        self._on_the_way -= 1
        return None
