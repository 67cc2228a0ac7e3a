"""The questions of one connection that the broker has not answered yet.

A request id ties an answer to its question. Each id is handed out once and forgotten when it is answered, when it times
out, or when the connection ends; an answer that finds nothing here is late or foreign, and is dropped. Deadlines are
kept in a heap, and an entry there whose request has gone is skipped when it surfaces.

An id is 64 bits on the wire. All ones is how a broker marks a command of its own that wants no answer, so that value is
never handed out and never counts as an answer.
"""

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")

NO_REQUEST = 2**64 - 1


class RequestIds(Generic[T]):
    """Ids in use, what each was for, and until when its answer is awaited."""

    __slots__ = ("_deadlines", "_next", "_open")

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, tuple[T, float | None]] = {}
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._open

    def ask(self, token: T, deadline: float) -> int:
        """Hand out an id for a request that is to be answered by `deadline` (monotonic seconds)."""
        request_id = self._next
        while request_id in self._open or request_id == NO_REQUEST:
            request_id = 0 if request_id == NO_REQUEST else request_id + 1
        self._open[request_id] = (token, deadline)
        heapq.heappush(self._deadlines, (deadline, request_id))
        self._next = request_id + 1
        return request_id

    def answered(self, request_id: int) -> T | None:
        """End a request; None when nobody waits for it (any longer)."""
        found = self._open.pop(request_id, None)
        return None if found is None else found[0]

    def queued(self, request_id: int) -> T | None:
        """Take an answer that says "later": the request stays open, and its deadline no longer applies."""
        found = self._open.get(request_id)
        if found is None:
            return None
        self._open[request_id] = (found[0], None)
        return found[0]

    def expire(self, now: float) -> list[T]:
        """End every request whose deadline has come, oldest deadline first."""
        late: list[T] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, request_id = heapq.heappop(self._deadlines)
            late.append(self._open.pop(request_id)[0])
        return late

    def next_deadline(self) -> float | None:
        """When to call `expire` next; None when nothing is awaited by a deadline."""
        while self._deadlines:
            deadline, request_id = self._deadlines[0]
            found = self._open.get(request_id)
            if found is not None and found[1] == deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return None

    def drain(self) -> list[T]:
        """End everything, in the order it was asked: the connection is gone."""
        tokens = [token for token, _ in self._open.values()]
        self._open.clear()
        self._deadlines.clear()
        return tokens
