"""What is asked over a connection, until it is answered.

A request is anything that has an answer. It gets its id here, because ids are unique per connection, and the answer,
the broker's error, a timeout or the loss of the connection goes to the token that came with it: exactly one of these,
exactly once. Only a producer that has to queue for its topic hears twice: first that it waits, then how it ended.

A broker ends the connection over a command that is larger than it takes, as long names and properties make one. Such
a one is refused here: it would take the connection from everybody who shares it, again with each try. Likewise what
came with a later version of the protocol than the broker speaks.

The rows that name these guards and actions stand in `connection.py`.
"""

from typing import Any, Final

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConnectError,
    InvalidArgument,
    PulsarException,
    Timeout,
    UnsupportedVersionError,
)
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.connection_events import Answered, Ask, Refused, Reply, RequestsDue, Unawaited, Write
from pulsar_actors.machines.ledgers.protocol_versions import SINCE, is_too_new
from pulsar_actors.machines.ledgers.request_ids import RequestIds
from pulsar_actors.machines.ledgers.server_errors import refusal
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.wire.frames import DEFAULT_FRAME_LIMIT
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducerSuccess

ROOM_TO_FRAME: Final = 64
"""For what stands around a command in its frame, in bytes."""


class Requests(StateMachine):
    """The guards and actions for requests, in the order of the connection's chart."""

    __slots__ = ("_frame_limit", "_held", "_over", "_requests", "_spoken", "_watched")

    def __init__(self) -> None:
        super().__init__()
        self._frame_limit = DEFAULT_FRAME_LIMIT
        self._spoken = 0  # the broker's version of the protocol
        self._held: list[Any] = []  # commands with a request_id each, that wait for the broker to accept us
        self._requests: RequestIds[object] = RequestIds()
        self._watched: float | None = None  # when the timer that runs is due
        self._over: PulsarException = AlreadyClosed("the connection is closed")

    # Asked before it is ready.

    def hold(self, event: Ask, now: float) -> Effects:
        """Keep the request until the broker accepts us; its time runs already."""
        command, watch = self._register(event, now)
        self._held.append(command)
        return watch

    def expire_held(self, event: RequestsDue, now: float) -> Effects:
        """Fail requests that never left."""
        return self._expire(ConnectError(f"it was not sent: still {self.state.name}"), now)

    # In use.

    def is_beyond_broker(self, event: Ask, now: float) -> bool:
        """Hold for a command that is larger than the broker takes, or newer than its version of the protocol."""
        return self._objection_to(event.command) is not None

    def refuse_beyond_broker(self, event: Ask, now: float) -> Effects:
        """Say what the broker would not take, and what it does."""
        return [Reply(event.token, self._objection_to(event.command))]

    def request(self, event: Ask, now: float) -> Effects:
        """Give the request its id and send it."""
        command, watch = self._register(event, now)
        return [Write(command), *watch]

    def means_queued(self, event: Answered, now: float) -> bool:
        """Hold for a producer that waits its turn: the same request is answered again when the turn comes."""
        command = event.command
        return (
            isinstance(command, CommandProducerSuccess)
            and not command.producer_ready
            and command.request_id in self._requests
        )

    def give_interim_answer(self, event: Answered, now: float) -> Effects:
        """Pass the word on, and await the final answer for as long as it takes."""
        return [Reply(self._requests.queued(event.command.request_id), event.command)]

    def is_awaited(self, event: Answered | Refused, now: float) -> bool:
        """Hold unless the request timed out before its answer came."""
        return event.command.request_id in self._requests

    def give_answer(self, event: Answered, now: float) -> Effects:
        """Match the answer with its request."""
        return [Reply(self._requests.answered(event.command.request_id), event.command)]

    def give_refusal(self, event: Refused, now: float) -> Effects:
        """Match the error with its request."""
        error = refusal(event.command.error, event.command.message)
        return [Reply(self._requests.answered(event.command.request_id), error)]

    def note_unawaited(self, event: Answered | Refused, now: float) -> Effects:
        """Drop it; that it came may help whoever reads the log."""
        return [Unawaited(event.command)]

    def expire_requests(self, event: RequestsDue, now: float) -> Effects:
        """Fail the requests whose time is up, and look again when the next one's is."""
        return self._expire(Timeout("the broker has not answered in time; it may still do what was asked"), now)

    # The end.

    def refuse(self, event: Ask, now: float) -> Effects:
        """Answer a request that came after the end."""
        return [Reply(event.token, self._over)]

    def send_held(self) -> Effects:
        """Send what was asked before the broker accepted us, but for what has timed out, and what it cannot take."""
        held, self._held = self._held, []
        return [self._send_or_refuse(command) for command in held if command.request_id in self._requests]

    def fail_requests(self, answer: PulsarException) -> Effects:
        """Give all that wait this answer."""
        self._held = []
        return [Reply(token, answer) for token in self._requests.drain()]

    def _send_or_refuse(self, command: Any) -> Write | Reply:  # noqa: ANN401 - any command with a request_id
        objection = self._objection_to(command)
        return Write(command) if objection is None else Reply(self._requests.answered(command.request_id), objection)

    def _objection_to(self, command: Message) -> PulsarException | None:
        name, largest = type(command).__name__, self._frame_limit - ROOM_TO_FRAME
        size = len(command.SerializePartialToString())  # one that has no request id yet does not tell its size
        if size > largest:
            what = f"{name} takes {size:,} bytes, and the broker takes {largest:,} at most"
            return InvalidArgument(f"{what}: names and properties have to be shorter")
        if is_too_new(command, self._spoken):
            since = SINCE[type(command)]
            what = f"{name} came with version {since} of the protocol, and the broker speaks version {self._spoken}"
            return UnsupportedVersionError("UnsupportedVersionError", what)
        return None

    def _register(self, event: Ask, now: float) -> tuple[Any, Effects]:
        command = type(event.command)()
        command.CopyFrom(event.command)
        command.request_id = self._requests.ask(event.token, now + event.timeout)
        return command, self._watch_requests(now)

    def _expire(self, error: PulsarException, now: float) -> Effects:
        self._watched = None
        return [*(Reply(token, error) for token in self._requests.expire(now)), *self._watch_requests(now)]

    def _watch_requests(self, now: float) -> Effects:
        """Start a timer; one that is due early enough stays, though what it was for is answered: most requests are."""
        deadline = self._requests.next_deadline()
        if deadline is None or (self._watched is not None and self._watched <= deadline):
            return []
        self._watched = deadline
        return [self.timers.start(RequestsDue, max(0.0, deadline - now))]
