"""One lookup: the broker that serves a topic, the partitions of a topic, the topics of a namespace, or a schema.

A broker that does not serve the topic may redirect the lookup to another broker, and that one to a third. Each
redirect says whether the broker that it names is authoritative, and the next request repeats that flag as it came. More
than twenty redirects in a row are taken for a circle and end the lookup. Only the lookup of a topic's broker is
redirected in the binary protocol; over HTTP a redirect is an address that has the flag in it. The actor decides which
of the two protocols carries a request.

Anything that may pass, such as a broker that is starting or a broken connection, is tried again after a backoff, from
the service URL on, for as long as the operation timeout allows. Each such failure is reported at once, so that a caller
that gives up earlier can name it. If the service URL changes meanwhile, the lookup starts again at the new one: an
answer of the old cluster is of no use.

A process that starts ten thousand producers would send ten thousand lookups in one moment, and a broker refuses lookups
when there are too many. So `LookupTurns` lets only some run at a time. The others wait in the order in which they came;
when too many wait already, a lookup fails at once.
"""

import math
from collections import deque
from collections.abc import Callable
from enum import Enum, unique
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    InvalidArgument,
    Misdirected,
    OutcomeUnknown,
    PulsarException,
    Timeout,
    TooManyLookupRequestException,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.lookup_events import (
    AttachTo,
    AttemptFailed,
    BackoffOver,
    Cancel,
    Enqueue,
    Found,
    GiveTurn,
    LookupAnswered,
    LookupAttached,
    LookupAttachFailed,
    LookupRefused,
    LookupTarget,
    NotFound,
    OperationTimedOut,
    Redirected,
    SendLookup,
    ServiceChanged,
    TakeTurn,
    TurnCame,
    TurnDenied,
    is_broker_address,
    is_broker_name,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.server_errors import RetryVerdict, last_failure_text, meaning_of, refusal
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
)

MAX_REDIRECTS: Final = 20
LAST_MOMENT: Final = 0.001
"""A failure within so many seconds of the deadline is a consequence of the deadline, and not reported as the reason."""
MAX_PARTITIONS: Final = 100_000
"""Far beyond what a cluster can use. A broker that claims more, up to 2^32, would have as many producers created."""
SERVICE_URL: Final = LookupTarget(None, None)

ANSWER_TYPES: Final[dict[type[Message], type[Message]]] = {
    CommandLookupTopic: CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata: CommandPartitionedTopicMetadataResponse,
    CommandGetTopicsOfNamespace: CommandGetTopicsOfNamespaceResponse,
    CommandGetSchema: CommandGetSchemaResponse,
}


@unique
class State(Enum):
    """The states of a lookup."""

    IDLE = "Created, but not started."
    QUEUED = "Waits for its turn: only so many lookups run at a time."
    ATTACHING = "Waits for a connection to the broker to ask."
    ASKING = "The request is sent; the broker has to answer."
    WAITING = "Backs off after a failure that may pass, before it starts again from the service URL."
    DONE = "Answered."
    FAILED = "Refused for good, or out of time."


IDLE, QUEUED, ATTACHING, ASKING, WAITING, DONE, FAILED = State

NOT_STARTED: Final = (IDLE, QUEUED)
RUNNING: Final = (ATTACHING, ASKING, WAITING)
ENDED: Final = (DONE, FAILED)

# fmt: off
ROWS: Final = (
    #   trigger             source       dest       guard                         does
    Row(Enqueue,            IDLE,        QUEUED,    None,                         "request_turn"),
    Row(TurnCame,           QUEUED,      ATTACHING, None,                         "start_at_service_url"),
    Row(TurnDenied,         QUEUED,      FAILED,    None,                         "fail_turn_denied"),
    Row(LookupAttached,     ATTACHING,   ASKING,    None,                         "send_request"),
    Row(LookupAttachFailed, ATTACHING,   WAITING,   "may_pass",                   "back_off"),
    Row(LookupAttachFailed, ATTACHING,   FAILED,    None,                         "fail"),
    Row(LookupAnswered,     ASKING,      FAILED,    "answers_another_request",    "reject_wrong_answer"),
    Row(LookupAnswered,     ASKING,      WAITING,   "is_refusal_that_may_pass",   "back_off_refused"),
    Row(LookupAnswered,     ASKING,      FAILED,    "is_refusal",                 "fail_refused"),
    Row(LookupAnswered,     ASKING,      FAILED,    "names_no_broker",            "reject_missing_broker"),
    Row(LookupAnswered,     ASKING,      FAILED,    "claims_too_many_partitions", "reject_partition_count"),
    Row(LookupAnswered,     ASKING,      FAILED,    "is_one_redirect_too_many",   "fail_too_many_redirects"),
    Row(LookupAnswered,     ASKING,      ATTACHING, "is_redirect",                "follow_redirect"),
    Row(LookupAnswered,     ASKING,      DONE,      None,                         "finish"),
    Row(Redirected,         ASKING,      FAILED,    "is_unsafe_redirect",         "reject_unsafe_redirect"),
    Row(Redirected,         ASKING,      FAILED,    "has_used_all_redirects",     "fail_too_many_redirects"),
    Row(Redirected,         ASKING,      ATTACHING, None,                         "follow_redirect_address"),
    Row(LookupRefused,      ASKING,      WAITING,   "may_pass",                   "back_off"),
    Row(LookupRefused,      ASKING,      FAILED,    None,                         "fail"),
    Row(BackoffOver,        WAITING,     ATTACHING, None,                         "start_at_service_url"),
    Row(ServiceChanged,     NOT_STARTED, INTERNAL,  None,                         "note_tls"),
    Row(ServiceChanged,     RUNNING,     ATTACHING, None,                         "restart"),

    # The end.
    Row(OperationTimedOut, QUEUED,      FAILED,   None, "time_out_queued"),
    Row(OperationTimedOut, RUNNING,     FAILED,   None, "time_out"),
    Row(Cancel,            NOT_STARTED, FAILED,   None, "cancel_queued"),
    Row(Cancel,            RUNNING,     FAILED,   None, "cancel_running"),
    Row(TurnCame,          ENDED,       INTERNAL, None, "return_late_turn"),
)

# Too late, or too early to mean anything.
IGNORES: Final = (
    #      events                                       states
    Ignore((Cancel, ServiceChanged),                    ENDED),
    Ignore((LookupAttached, LookupAttachFailed),        (*NOT_STARTED, ASKING, WAITING, *ENDED)),
    Ignore((LookupAnswered, Redirected, LookupRefused), (*NOT_STARTED, ATTACHING, WAITING, *ENDED)),
    Ignore(BackoffOver,                                 (*NOT_STARTED, ATTACHING, ASKING, *ENDED)),
    Ignore(OperationTimedOut,                           (IDLE, *ENDED)),
)
# fmt: on

OURS: Final = (Enqueue, TurnCame, TurnDenied, Cancel, ServiceChanged)

CHART: Final = Chart("lookup", states=State, initial=IDLE, final=ENDED, ours=OURS, rows=ROWS, ignores=IGNORES)


class LookupMachine(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = (
        "_authoritative",
        "_backoff",
        "_deadline",
        "_last_error",
        "_redirects",
        "_request",
        "_timeout",
        "_tls",
    )

    def __init__(self, request: Message, *, tls: bool, jitter: Callable[[], float], timeout: float) -> None:
        super().__init__()
        self._request = request
        self._tls = tls
        self._backoff = Backoff(jitter)
        self._timeout = timeout
        self._deadline = math.inf
        self._authoritative = False
        self._redirects = 0
        self._last_error: PulsarException | None = None

    def request_turn(self, event: Enqueue, now: float) -> Effects:
        """Start the operation timeout: it covers the time in the queue as well."""
        self._deadline = now + self._timeout
        return [self.timers.start(OperationTimedOut, self._timeout), TakeTurn()]

    def start_at_service_url(self, event: TurnCame | BackoffOver | ServiceChanged, now: float) -> Effects:
        """Start at a broker of the service URL, which need not be authoritative."""
        self._authoritative, self._redirects = False, 0
        return [AttachTo(SERVICE_URL)]

    def fail_turn_denied(self, event: TurnDenied, now: float) -> Effects:
        """Fail at once, without a request."""
        return [NotFound(TooManyLookupRequestException("more lookups than may wait are waiting already"))]

    def send_request(self, event: LookupAttached, now: float) -> Effects:
        """Send the request, with the authoritative flag of the redirect that led here."""
        command: Any = type(self._request)()
        command.CopyFrom(self._request)
        if isinstance(command, CommandLookupTopic):
            command.authoritative = self._authoritative
        return [SendLookup(command, max(0.0, self._deadline - now))]

    def may_pass(self, event: LookupAttachFailed | LookupRefused, now: float) -> bool:
        """Return whether another broker, or the same one a moment later, may answer differently."""
        return _may_pass(event.error)

    def back_off(self, event: LookupAttachFailed | LookupRefused, now: float) -> Effects:
        """Wait longer than after the failure before."""
        return self._back_off(event.error, now)

    def fail(self, event: LookupAttachFailed | LookupRefused, now: float) -> Effects:
        """Fail with the error."""
        return [GiveTurn(), NotFound(event.error)]

    def answers_another_request(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the answer is of another kind than the request; a proxy refuses all kinds with one class."""
        is_ours = type(event.command) is ANSWER_TYPES[type(self._request)]
        return not is_ours and _refusal_in(event.command) is None

    def reject_wrong_answer(self, event: LookupAnswered, now: float) -> Effects:
        """Fail: a broker that mixes requests up will do so again."""
        request, answer = type(self._request).__name__, type(event.command).__name__
        return [GiveTurn(), NotFound(Misdirected(f"the broker answered {request} with {answer}"))]

    def is_refusal_that_may_pass(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the answer is an error that may pass."""
        refused = _refusal_in(event.command)
        return refused is not None and _may_pass(refused)

    def back_off_refused(self, event: LookupAnswered, now: float) -> Effects:
        """Wait longer than after the failure before."""
        refused = _refusal_in(event.command)
        assert refused is not None  # noqa: S101 - the guard has looked
        return self._back_off(refused, now)

    def is_refusal(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the answer is an error."""
        return _refusal_in(event.command) is not None

    def fail_refused(self, event: LookupAnswered, now: float) -> Effects:
        """Fail with the broker's error."""
        refused = _refusal_in(event.command)
        assert refused is not None  # noqa: S101 - the guard has looked
        return [GiveTurn(), NotFound(refused)]

    def names_no_broker(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the answer names no broker that can be dialled, with TLS or without as the user chose."""
        command = event.command
        if not isinstance(command, CommandLookupTopicResponse):
            return False
        broker = self._broker(command)
        if command.proxy_through_service_url:
            return not is_broker_name(broker)
        return not is_broker_address(broker, tls=self._tls)

    def reject_missing_broker(self, event: LookupAnswered, now: float) -> Effects:
        """Fail with the name of the address that is missing."""
        kind = "brokerServiceUrlTls" if self._tls else "brokerServiceUrl"
        name = self._broker(event.command)
        return [GiveTurn(), NotFound(Misdirected(f"the broker's answer names no broker: {kind} is {name!r}"))]

    def claims_too_many_partitions(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the number of partitions is implausible."""
        is_count = isinstance(event.command, CommandPartitionedTopicMetadataResponse)
        return is_count and event.command.partitions > MAX_PARTITIONS

    def reject_partition_count(self, event: LookupAnswered, now: float) -> Effects:
        """Fail with the number that the broker claims."""
        claim = f"{event.command.partitions:,} partitions, which is more than {MAX_PARTITIONS:,}"
        return [GiveTurn(), NotFound(Misdirected(f"the broker says that the topic has {claim}"))]

    def is_one_redirect_too_many(self, event: LookupAnswered, now: float) -> bool:
        """Return whether this would be the twenty-first redirect."""
        return self.is_redirect(event, now) and self._redirects >= MAX_REDIRECTS

    def fail_too_many_redirects(self, event: LookupAnswered | Redirected, now: float) -> Effects:
        """Fail without another try: brokers that disagree about a topic's owner go on disagreeing."""
        return [GiveTurn(), NotFound(Misdirected(f"redirected more than {MAX_REDIRECTS} times: the brokers disagree"))]

    def is_redirect(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the answer names another broker to ask."""
        command = event.command
        redirect = CommandLookupTopicResponse.Redirect
        return isinstance(command, CommandLookupTopicResponse) and command.response == redirect

    def follow_redirect(self, event: LookupAnswered, now: float) -> Effects:
        """Ask the broker that the redirect names."""
        self._authoritative = event.command.authoritative
        self._redirects += 1
        return [AttachTo(self._named(event.command))]

    def finish(self, event: LookupAnswered, now: float) -> Effects:
        """End with the answer."""
        is_topic = isinstance(event.command, CommandLookupTopicResponse)
        return [GiveTurn(), Found(event.command, self._named(event.command) if is_topic else None)]

    def is_unsafe_redirect(self, event: Redirected, now: float) -> bool:
        """Return whether the address is not HTTP, or leads from an encrypted connection to plain text."""
        return not event.url.startswith("https://" if self._tls else ("https://", "http://"))

    def reject_unsafe_redirect(self, event: Redirected, now: float) -> Effects:
        """Fail with the scheme of the address; the rest may hold a secret."""
        scheme, kind = event.url.partition(":")[0], "https" if self._tls else "http"
        return [GiveTurn(), NotFound(Misdirected(f"a redirect leads from {kind} to {excerpt(scheme)}: not followed"))]

    def has_used_all_redirects(self, event: Redirected, now: float) -> bool:
        """Return whether this would be the twenty-first redirect."""
        return self._redirects >= MAX_REDIRECTS

    def follow_redirect_address(self, event: Redirected, now: float) -> Effects:
        """Ask the server that the redirect names."""
        self._redirects += 1
        return [AttachTo(LookupTarget(event.url, event.url))]

    def note_tls(self, event: ServiceChanged, now: float) -> Effects:
        """Note whether the new service URL uses TLS, for when the turn comes."""
        self._tls = event.tls
        return []

    def restart(self, event: ServiceChanged, now: float) -> Effects:
        """Start again at once, without a backoff: nothing has failed."""
        self._tls = event.tls
        self.timers.stop(BackoffOver)
        return self.start_at_service_url(event, now)

    def time_out_queued(self, event: OperationTimedOut, now: float) -> Effects:
        """Fail without a request."""
        return [NotFound(Timeout("its turn did not come in time: too many lookups are on their way"))]

    def time_out(self, event: OperationTimedOut, now: float) -> Effects:
        """Fail with the last failure, which says more than that time is up."""
        return [GiveTurn(), NotFound(Timeout(f"no broker has answered in time{last_failure_text(self._last_error)}"))]

    def cancel_queued(self, event: Cancel, now: float) -> Effects:
        """Fail without a request."""
        return [NotFound(AlreadyClosed("the client was closed during a lookup"))]

    def cancel_running(self, event: Cancel, now: float) -> Effects:
        """Fail, and let the next lookup run."""
        return [GiveTurn(), *self.cancel_queued(event, now)]

    def return_late_turn(self, event: TurnCame, now: float) -> Effects:
        """Return a turn that came after the end."""
        return [GiveTurn()]

    def _back_off(self, error: PulsarException, now: float) -> Effects:
        timer = self.timers.start(BackoffOver, self._backoff.next_delay())
        if self._last_error is None or now < self._deadline - LAST_MOMENT:
            self._last_error = error
        return [timer, AttemptFailed(self._last_error)]

    def _broker(self, command: CommandLookupTopicResponse) -> str:
        return command.brokerServiceUrlTls if self._tls else command.brokerServiceUrl

    def _named(self, command: CommandLookupTopicResponse) -> LookupTarget:
        broker = self._broker(command)
        return LookupTarget(logical=broker, physical=None if command.proxy_through_service_url else broker)


def _may_pass(error: PulsarException) -> bool:
    if isinstance(error, BrokerRefusal):
        return meaning_of(error).lookup is RetryVerdict.RETRY
    return isinstance(error, (ConnectError, OutcomeUnknown)) and not isinstance(error, CertificateRefused)


def _refusal_in(answer: Any) -> BrokerRefusal | None:  # noqa: ANN401 - any of the answers
    match answer:
        case CommandGetSchemaResponse() if answer.HasField("error_code"):
            return refusal(answer.error_code, answer.error_message)
        case CommandLookupTopicResponse() if answer.response == CommandLookupTopicResponse.Failed:
            return refusal(answer.error, answer.message)
        case CommandPartitionedTopicMetadataResponse() if answer.response == answer.Failed:
            return refusal(answer.error, answer.message)
        case _:
            return None


T = TypeVar("T")

MAX_TURNS = 50_000


class Turn(Enum):
    """The answer to a lookup that wants a turn."""

    NOW = "run"
    LATER = "wait in the queue"
    NEVER = "too many wait already"


class LookupTurns(Generic[T]):
    """Limits the lookups of one client: so many run at a time, and so many run or wait."""

    __slots__ = ("_capacity", "_limit", "_queue", "_running")

    def __init__(self, limit: int, capacity: int | None = None) -> None:
        capacity = max(limit, MAX_TURNS) if capacity is None else capacity
        if not 0 < limit <= capacity:
            raise InvalidArgument(f"from 1 to {capacity} lookups may be on their way at once, not {limit}")
        self._limit = limit
        self._capacity = capacity
        self._running = 0
        self._queue: deque[T] = deque()

    def take(self, token: T) -> Turn:
        """Let a lookup run now, or queue it."""
        if self._running < self._limit:
            self._running += 1
            return Turn.NOW
        if self._running + len(self._queue) >= self._capacity:
            return Turn.NEVER
        self._queue.append(token)
        return Turn.LATER

    def give_back(self) -> T | None:
        """Note that a lookup has ended; return the token of the one whose turn it is now."""
        if self._queue:
            return self._queue.popleft()
        self._running -= 1
        return None
