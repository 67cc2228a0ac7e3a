"""Requests on one connection that the broker has not answered yet, and the requests that a broker cannot take.

A request is a command that has an answer. The request id ties the answer to the request; it is unique per connection.
Each id is handed out once, and forgotten when its answer comes, when the request times out, or when the connection
ends. An answer with any other id is late or foreign.

An id is 64 bits on the wire. All ones mark a command of the broker that wants no answer, so that value is never handed
out and never counts as an answer.

A broker ends the connection over a command that it cannot read, and takes it from every producer and consumer that
shares it, again with each retry. So two kinds of requests are refused by the client: a command that is larger than the
broker takes, as long names and properties make one, and a command of a later protocol version than the broker speaks.
"""

import heapq
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import InvalidArgument, PulsarException, UnsupportedVersionError
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandConsumerStats,
    CommandGetLastMessageId,
    CommandGetTopicsOfNamespace,
)

T = TypeVar("T")

NO_REQUEST = 2**64 - 1


class PendingRequests(Generic[T]):
    """The ids in use, each with the token of its request and the deadline for the answer.

    Deadlines are kept in a heap; an entry whose request has gone is skipped when it comes to the top.
    """

    __slots__ = ("_deadlines", "_next", "_open")

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, tuple[T, float | None]] = {}
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._open

    def track(self, token: T, deadline: float) -> int:
        """Return an id for a request whose answer is due by `deadline` (monotonic seconds)."""
        request_id = self._next
        while request_id in self._open or request_id == NO_REQUEST:
            request_id = 0 if request_id == NO_REQUEST else request_id + 1
        self._open[request_id] = (token, deadline)
        heapq.heappush(self._deadlines, (deadline, request_id))
        self._next = request_id + 1
        return request_id

    def resolve(self, request_id: int) -> T | None:
        """End a request; None if it is not, or no longer, pending."""
        found = self._open.pop(request_id, None)
        return None if found is None else found[0]

    def drop_deadline(self, request_id: int) -> T | None:
        """Take an answer that means "later": the request stays pending, for as long as it takes."""
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
        """Return when to call `expire` next; None if no pending request has a deadline."""
        while self._deadlines:
            deadline, request_id = self._deadlines[0]
            found = self._open.get(request_id)
            if found is not None and found[1] == deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return None

    def drain(self) -> list[T]:
        """End all requests, in the order in which they came."""
        tokens = [token for token, _ in self._open.values()]
        self._open.clear()
        self._deadlines.clear()
        return tokens


FRAME_OVERHEAD: Final = 64
"""Bytes that are kept free for what surrounds a command in its frame."""

SINCE: Mapping[type[Message], int] = MappingProxyType(
    {
        CommandConsumerStats: 8,
        CommandGetLastMessageId: 12,
        CommandGetTopicsOfNamespace: 12,
        CommandAck: 17,  # one that wants an answer; no other is a request
    }
)
"""The protocol version that introduced each request.

Only requests that a user can do without are listed. Those that every client needs are older than any release of Apache
Pulsar, and watching topics has a feature flag of its own.
"""


def objection_to(request: Message, frame_limit: int, broker_version: int) -> PulsarException | None:
    """Return the error for a request that this broker cannot take; None if it can."""
    name, largest = type(request).__name__, frame_limit - FRAME_OVERHEAD
    size = len(request.SerializePartialToString())  # ByteSize fails as long as the request has no id
    if size > largest:
        what = f"{name} takes {size:,} bytes, and the broker takes {largest:,} at most"
        return InvalidArgument(f"{what}: names and properties have to be shorter")
    since = SINCE.get(type(request), 0)
    if since > broker_version:
        what = f"{name} came with version {since} of the protocol, and the broker speaks version {broker_version}"
        return UnsupportedVersionError("UnsupportedVersionError", what)
    return None
