"""The requests on one connection: commands that have an answer, from the send to the reply.

A part of the connection's machine. A request gets exactly one reply: the answer, the broker's error, a timeout, or the
loss of the connection. Only a producer that waits for its topic (WaitForExclusive) gets two: first that it is queued,
then the outcome.

The request id ties the answer to the request; it is unique per connection. Each id is used once, and removed when its
answer comes, when the request times out, or when the connection ends. An answer with any other id is late, or not for a
request of this connection.

A request that is made before the broker has accepted the client is held until then; its timeout starts with the call. A
request may have a shorter one, which starts when it is sent.

A broker ends the connection if it gets a command that it cannot read. All producers and consumers on the connection
then lose it, again with each retry. So the client refuses two kinds of requests: a command that is larger than the
broker's limit, for example because of long names and properties, and a command of a later protocol version than the
broker's.
"""

import heapq
from collections.abc import Mapping
from enum import Enum, unique
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConnectError,
    InvalidArgument,
    PulsarException,
    Timeout,
    UnsupportedVersionError,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.connection_events import (
    Answered,
    BrokerAccepted,
    ConnectionOver,
    GiveReply,
    Refused,
    RequestsDue,
    SendRequest,
    Unawaited,
    WriteCommand,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.wire.frames import DEFAULT_FRAME_LIMIT, frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandConsumerStats,
    CommandError,
    CommandGetLastMessageId,
    CommandGetTopicsOfNamespace,
    CommandProducerSuccess,
    CommandTcClientConnectRequest,
    ServerError,
)


@unique
class State(Enum):
    """The states of a connection's requests."""

    WAITING = "The broker has not accepted the client yet: requests wait."
    OPEN = "Requests are sent as they come."
    OVER = "The connection has ended, and every request has its reply."


WAITING, OPEN, OVER = State

# fmt: off
ROWS: Final = (
    #   trigger         source           dest      guard                     does
    Row(SendRequest,    WAITING,         INTERNAL, None,                     "hold_request"),
    Row(RequestsDue,    WAITING,         INTERNAL, None,                     "expire_held_requests"),
    Row(BrokerAccepted, WAITING,         OPEN,     None,                     "send_held_requests"),
    Row(SendRequest,    OPEN,            INTERNAL, "is_unsupported",         "reject_unsupported"),
    Row(SendRequest,    OPEN,            INTERNAL, None,                     "write_request"),
    Row(Answered,       OPEN,            INTERNAL, "is_queued",              "give_queued_answer"),
    Row(Answered,       OPEN,            INTERNAL, "is_awaited",             "give_answer"),
    Row(Answered,       OPEN,            INTERNAL, None,                     "report_unawaited"),
    Row(Refused,        OPEN,            INTERNAL, "is_awaited",             "give_refusal"),
    Row(Refused,        OPEN,            INTERNAL, "concerns_connection"),
    Row(Refused,        OPEN,            INTERNAL, None,                     "report_unawaited"),
    Row(RequestsDue,    OPEN,            INTERNAL, None,                     "expire_requests"),
    Row(ConnectionOver, (WAITING, OPEN), OVER,     None,                     "fail_requests"),
    Row(SendRequest,    OVER,            INTERNAL, None,                     "reject_request"),
)

IGNORES: Final = (
    Ignore((Answered, Refused),           (WAITING, OVER)),
    Ignore((RequestsDue, ConnectionOver), OVER),
)
# fmt: on

CHART: Final = Chart(
    "connection_requests",
    states=State,
    initial=WAITING,
    final=(OVER,),
    ours=(SendRequest,),
    rows=ROWS,
    ignores=IGNORES,
    inner=(BrokerAccepted, ConnectionOver),
)


class ConnectionRequests(StateMachine, chart=CHART):
    """The requests on one connection: the guards and actions in the chart's order."""

    __slots__ = ("_broker_version", "_connection", "_frame_limit", "_held", "_pending", "_refusal")

    def __init__(self, connection: StateMachine) -> None:
        super().__init__(connection)
        self._connection = connection
        self._pending: PendingRequests[object] = PendingRequests()
        self._held: list[tuple[Any, float]] = []  # until the broker accepts the client: commands with their request ids
        self._frame_limit = DEFAULT_FRAME_LIMIT
        self._broker_version = 0
        self._refusal: PulsarException = AlreadyClosed("the connection is closed")

    @property
    def has_pending(self) -> bool:
        """True while a request has no answer."""
        return len(self._pending) > 0

    def drain(self) -> list[object]:
        """Forget all requests, and return their tokens."""
        self._held = []
        return self._pending.drain()

    def hold_request(self, event: SendRequest, now: float) -> Effects:
        """Keep the request until the broker accepts the client."""
        command, timer = self._track(event, now + event.timeout, now)
        self._held.append((command, event.answer_within))
        return timer

    def expire_held_requests(self, event: RequestsDue, now: float) -> Effects:
        """Fail requests that were never sent."""
        return self._expire(ConnectError(f"it was not sent: still {self._connection.state.name}"), now)

    def send_held_requests(self, event: BrokerAccepted, now: float) -> Effects:
        """Send the requests that were held, except those that have timed out and those that the broker cannot take."""
        self._frame_limit = frame_limit(event.command.max_message_size)
        self._broker_version = event.command.protocol_version
        held, self._held = self._held, []
        effects: list[Effect] = []
        for command, answer_within in held:
            if command.request_id not in self._pending:
                continue
            objection = self._objection_to(command)
            if objection is None:
                self._pending.hasten(command.request_id, now + answer_within)
                effects.append(WriteCommand(command))
            else:
                effects.append(GiveReply(self._pending.resolve(command.request_id), objection))
        return [*effects, *self._watch(now)]

    def is_unsupported(self, event: SendRequest, now: float) -> bool:
        """Return whether the command is over the broker's size limit, or newer than its protocol version."""
        return self._objection_to(event.command) is not None

    def reject_unsupported(self, event: SendRequest, now: float) -> Effects:
        """Reply with the reason why the broker cannot take the request."""
        return [GiveReply(event.token, self._objection_to(event.command))]

    def write_request(self, event: SendRequest, now: float) -> Effects:
        """Send the request, with an id."""
        command, timer = self._track(event, now + min(event.timeout, event.answer_within), now)
        return [WriteCommand(command), *timer]

    def is_queued(self, event: Answered, now: float) -> bool:
        """Return whether a producer has to wait for its turn. Its request is then answered a second time."""
        command = event.command
        return (
            isinstance(command, CommandProducerSuccess)
            and not command.producer_ready
            and command.request_id in self._pending
        )

    def give_queued_answer(self, event: Answered, now: float) -> Effects:
        """Reply that the producer is queued, and wait for the final answer without a time limit."""
        return [GiveReply(self._pending.drop_deadline(event.command.request_id), event.command)]

    def is_awaited(self, event: Answered | Refused, now: float) -> bool:
        """Return whether the request is pending: it has not timed out, and was not answered before."""
        return event.command.request_id in self._pending

    def give_answer(self, event: Answered, now: float) -> Effects:
        """Reply to the request with the answer."""
        return [GiveReply(self._pending.resolve(event.command.request_id), event.command)]

    def report_unawaited(self, event: Answered | Refused, now: float) -> Effects:
        """Drop an answer to no request, but report it for the log."""
        return [Unawaited(event.command)]

    def give_refusal(self, event: Refused, now: float) -> Effects:
        """Reply to the request with the broker's error."""
        error = refusal(event.command.error, event.command.message)
        return [GiveReply(self._pending.resolve(event.command.request_id), error)]

    def concerns_connection(self, event: Refused, now: float) -> bool:
        """Return whether the broker does not accept the client's credentials any longer: then the connection ends."""
        return revokes_credentials(event.command)

    def expire_requests(self, event: RequestsDue, now: float) -> Effects:
        """Fail the requests whose timeout is over."""
        return self._expire(Timeout("the broker has not answered in time; it may still do what was asked"), now)

    def fail_requests(self, event: ConnectionOver, now: float) -> Effects:
        """Reply to all requests that have no answer."""
        self._refusal = event.refusal
        return [GiveReply(token, event.answer) for token in self.drain()]

    def reject_request(self, event: SendRequest, now: float) -> Effects:
        """Reply to a request that came after the end."""
        return [GiveReply(event.token, self._refusal)]

    def _track(self, event: SendRequest, deadline: float, now: float) -> tuple[Any, Effects]:
        """Copy the command, which belongs to the caller, and set the copy's request id."""
        command = type(event.command)()
        command.CopyFrom(event.command)
        command.request_id = self._pending.track(event.token, deadline)
        return command, self._watch(now)

    def _watch(self, now: float) -> Effects:
        return self.timers.ensure(RequestsDue, self._pending.next_deadline(), now)

    def _expire(self, error: PulsarException, now: float) -> Effects:
        return [*(GiveReply(token, error) for token in self._pending.expire(now)), *self._watch(now)]

    def _objection_to(self, command: Message) -> PulsarException | None:
        return objection_to(command, self._frame_limit, self._broker_version)


def revokes_credentials(error: CommandError) -> bool:
    """Return whether an error says that the credentials of an accepted client have become invalid.

    Such an error answers no request.
    """
    return error.request_id == NO_REQUEST and error.error == ServerError.AuthenticationError


T = TypeVar("T")

NO_REQUEST = 2**64 - 1
"""The id in a command that answers no request. So it is never used as an id."""


class PendingRequests(Generic[T]):
    """The ids in use, each with the token of its request and the deadline for the answer.

    Deadlines are kept in a heap. The deadline of a request that has ended is skipped when it comes to the top.
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

    def hasten(self, request_id: int, deadline: float) -> None:
        """Let an answer be due by this deadline, if that is earlier than the present one."""
        token, present = self._open[request_id]
        if present is not None and deadline < present:
            self._open[request_id] = (token, deadline)
            heapq.heappush(self._deadlines, (deadline, request_id))

    def resolve(self, request_id: int) -> T | None:
        """End a request and return its token; None if it is not pending."""
        found = self._open.pop(request_id, None)
        return None if found is None else found[0]

    def drop_deadline(self, request_id: int) -> T | None:
        """Handle an answer that means "wait": the request stays pending without a deadline."""
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
        """Return the time to call `expire` next; None if no pending request has a deadline."""
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
"""Bytes that are reserved for the frame around a command."""

SINCE: Mapping[type[Message], int] = MappingProxyType(
    {
        CommandConsumerStats: 8,
        CommandGetLastMessageId: 12,
        CommandGetTopicsOfNamespace: 12,
        CommandAck: 17,  # one that wants an answer; no other is a request
        CommandTcClientConnectRequest: 19,  # the requests of transactions follow it
    }
)
"""The protocol version that introduced each request.

Only optional requests are listed. Those that every client needs are older than any release of Apache Pulsar, and topic
list watchers have a feature flag of their own.
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
