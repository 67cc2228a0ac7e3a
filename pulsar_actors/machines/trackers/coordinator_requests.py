"""The requests to one transaction coordinator that have no outcome yet.

A request survives a lost connection, and a coordinator that moves to another broker: it is sent again there, until its
deadline. All of them may be repeated: to register twice is to register once, a transaction that was opened twice times
out, and END_TXN is told apart by `sends`, the number of times that a request was sent.
"""

from collections.abc import Iterable

from google.protobuf.message import Message

from pulsar_actors.named_tuple import NamedTuple


class PendingRequest:
    """One request. It is `sent` while an answer may come on the current connection."""

    __slots__ = ("command", "deadline", "refusals", "sends", "sent", "token")

    def __init__(self, token: object, command: Message, deadline: float) -> None:
        self.token = token
        self.command = command
        self.deadline = deadline
        self.sent = False
        self.sends = 0
        self.refusals = 0


class RequestToSend(NamedTuple):
    """A request to send now, and the seconds that are left for its answer."""

    number: int
    command: Message
    timeout: float


class CoordinatorRequests:
    """The pending requests, in the order of their calls, which is the order in which they are sent."""

    __slots__ = ("_next", "_pending")

    def __init__(self) -> None:
        self._pending: dict[int, PendingRequest] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, token: object, command: Message, deadline: float) -> None:
        """Add a request, which is not sent yet."""
        self._pending[self._next] = PendingRequest(token, command, deadline)
        self._next += 1

    def take_unsent(self, now: float) -> list[RequestToSend]:
        """Take the requests to send now; they count as sent."""
        unsent: list[RequestToSend] = []
        for number, request in self._pending.items():
            if not request.sent:
                request.sent = True
                request.sends += 1
                unsent.append(RequestToSend(number, request.command, max(0.0, request.deadline - now)))
        return unsent

    def unsend_all(self) -> None:
        """Note that no answer will come to what was sent: the connection is lost, or the coordinator has moved."""
        for request in self._pending.values():
            request.sent = False

    def start_over_with(self, kind: type[Message]) -> None:
        """Keep the requests of this kind only. They get other numbers, so that an answer to one that was sent is none.

        The others have no outcome.
        """
        kept = [request for request in self._pending.values() if isinstance(request.command, kind)]
        self._pending = {}
        for request in kept:
            self.add(request.token, request.command, request.deadline)

    def find(self, number: int) -> PendingRequest | None:
        """Return a request; None if it has ended."""
        return self._pending.get(number)

    def put_back(self, number: int) -> None:
        """Note that the coordinator refused a request for now: it is to be sent again."""
        request = self._pending[number]
        request.sent = False
        request.refusals += 1

    def end(self, number: int) -> PendingRequest | None:
        """Remove a request that has its outcome; None if it has ended already."""
        return self._pending.pop(number, None)

    def expire(self, now: float) -> list[PendingRequest]:
        """Remove the requests whose deadline has passed, and return them."""
        late = [number for number, request in self._pending.items() if request.deadline <= now]
        return [self._pending.pop(number) for number in late]

    def next_deadline(self) -> float | None:
        """Return the time to call `expire` next; None without a request."""
        return min((request.deadline for request in self._pending.values()), default=None)

    def drain(self) -> Iterable[PendingRequest]:
        """Remove all requests, and return them."""
        pending, self._pending = self._pending, {}
        return pending.values()
