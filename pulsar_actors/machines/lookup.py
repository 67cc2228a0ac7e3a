"""One lookup: the broker that serves a topic, the partitions of a topic, the topics of a namespace, or a schema.

A broker that does not serve the topic may redirect the lookup to another broker, which may redirect it again. Each
redirect says if the broker that it names is authoritative, and the next request repeats that flag. More than twenty
redirects in a row count as a circle and end the lookup. Only the lookup of a topic's broker is redirected in the binary
protocol; over HTTP a redirect is an address that has the flag in it. The actor decides which of the two protocols
carries a request.

After a temporary failure, such as a broker that is starting or a lost connection, the lookup starts again at the
service URL after a backoff, until the operation timeout. Each such failure is reported at once, so that a caller that
times out earlier can name it. If the service URL changes meanwhile, the lookup starts again at the new one, because an
answer of the old cluster is useless.

A host of the service URL may accept connections, but answer no lookup, or refuse each. So if there are several, each
try asks another one, and the answer may take only half of the time that is left; that of the last host may take all of
it. Equal shares would leave too little to a service that is slow with all its hosts. HTTP requests try the hosts in
turn themselves.

A process that starts ten thousand producers would send ten thousand lookups in one moment, and a broker refuses lookups
when there are too many. So `LookupLimiter` allows only a limited number to ask at a time. The others wait in order.
When too many wait already, a lookup fails at once. One that backs off has no permit meanwhile, or else lookups that
fail would keep others from asking.
"""

import math
from collections import OrderedDict
from enum import Enum, unique
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ConnectTimeout,
    InvalidArgument,
    Misdirected,
    OutcomeUnknown,
    PulsarException,
    Timeout,
    TooManyLookupRequestException,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.lookup_events import (
    AcquireLookupPermit,
    AttachTo,
    AttemptFailed,
    BackoffOver,
    Cancel,
    Enqueue,
    Found,
    LookupAnswered,
    LookupAttached,
    LookupPermitDenied,
    LookupPermitGranted,
    LookupRefused,
    LookupTarget,
    NotFound,
    OperationTimedOut,
    Redirected,
    ReleaseLookupPermit,
    SendLookup,
    ServiceChanged,
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
from pulsar_actors.wire.service_url import is_broker_address, is_broker_name

MAX_REDIRECTS: Final = 20
LAST_MOMENT: Final = 0.001
"""A failure within so many seconds before the deadline is caused by the deadline, and not reported as the reason."""
MAX_PARTITIONS: Final = 100_000
"""Far more than a cluster supports.

A broker that claims more, up to 2^32, would make the client create as many producers.
"""
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
    QUEUED = "Waits for a permit: only so many lookups ask at a time."
    ATTACHING = "Waits for a connection to the broker to ask."
    ASKING = "The request is sent; the broker has to answer."
    WAITING = "Backs off after a temporary failure, without a permit, before it starts again at the service URL."
    DONE = "Answered."
    FAILED = "Refused by an error that a retry cannot cure, or timed out."


IDLE, QUEUED, ATTACHING, ASKING, WAITING, DONE, FAILED = State

NOT_STARTED: Final = (IDLE, QUEUED)
TRYING: Final = (ATTACHING, ASKING)
WITH_PERMIT: Final = (QUEUED, *TRYING)
"""It has a permit, or has asked for one."""
FINAL: Final = (DONE, FAILED)

# fmt: off
ROWS: Final = (
    #   trigger              source       dest       guard                         does
    Row(Enqueue,             IDLE,        QUEUED,    None,                         "request_permit"),
    Row(LookupPermitGranted, QUEUED,      ATTACHING, None,                         "start_at_service_url"),
    Row(LookupPermitDenied,  QUEUED,      FAILED,    None,                         "fail_permit_denied"),
    Row(LookupAttached,      ATTACHING,   ASKING,    None,                         "send_request"),
    Row(LookupAnswered,      ASKING,      FAILED,    "answers_another_request",    "reject_wrong_answer"),
    Row(LookupAnswered,      ASKING,      WAITING,   "is_retryable_refusal",       "back_off_refused"),
    Row(LookupAnswered,      ASKING,      FAILED,    "is_refusal",                 "fail_refused"),
    Row(LookupAnswered,      ASKING,      FAILED,    "names_no_broker",            "reject_missing_broker"),
    Row(LookupAnswered,      ASKING,      FAILED,    "claims_too_many_partitions", "reject_partition_count"),
    Row(LookupAnswered,      ASKING,      FAILED,    "is_one_redirect_too_many",   "fail_too_many_redirects"),
    Row(LookupAnswered,      ASKING,      ATTACHING, "is_redirect",                "follow_redirect"),
    Row(LookupAnswered,      ASKING,      DONE,      None,                         "end_with_answer"),
    Row(Redirected,          ASKING,      FAILED,    "is_unsafe_redirect",         "reject_unsafe_redirect"),
    Row(Redirected,          ASKING,      FAILED,    "has_used_all_redirects",     "fail_too_many_redirects"),
    Row(Redirected,          ASKING,      ATTACHING, None,                         "follow_redirect_address"),
    Row(LookupRefused,       TRYING,      WAITING,   "is_retryable",               "back_off"),
    Row(LookupRefused,       TRYING,      FAILED,    None,                         "fail"),
    Row(BackoffOver,         WAITING,     QUEUED,    None,                         "request_permit_again"),
    Row(ServiceChanged,      QUEUED,      INTERNAL,  None,                         "note_tls"),
    Row(ServiceChanged,      WAITING,     QUEUED,    None,                         "stop_waiting"),
    Row(ServiceChanged,      TRYING,      ATTACHING, None,                         "restart"),

    # The end.
    Row(OperationTimedOut,   WAITING,     FAILED,    None,                         "time_out_without_permit"),
    Row(OperationTimedOut,   WITH_PERMIT, FAILED,    None,                         "time_out"),
    Row(Cancel,              WAITING,     FAILED,    None,                         "cancel_without_permit"),
    Row(Cancel,              WITH_PERMIT, FAILED,    None,                         "cancel"),
)

# Too late, or too early to mean anything.
IGNORES: Final = (
    #      events                        states
    Ignore((Cancel, ServiceChanged),     FINAL),
    Ignore(LookupAttached,               (*NOT_STARTED, ASKING, WAITING, *FINAL)),
    Ignore((LookupAnswered, Redirected), (*NOT_STARTED, ATTACHING, WAITING, *FINAL)),
    Ignore(LookupRefused,                (*NOT_STARTED, WAITING, *FINAL)),
    Ignore(BackoffOver,                  (*NOT_STARTED, *TRYING, *FINAL)),
    Ignore(OperationTimedOut,            (IDLE, *FINAL)),
)
# fmt: on

OURS: Final = (Enqueue, LookupPermitGranted, LookupPermitDenied, Cancel, ServiceChanged)

CHART: Final = Chart("lookup", states=State, initial=IDLE, final=FINAL, ours=OURS, rows=ROWS, ignores=IGNORES)


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
        "_tries",
    )

    def __init__(self, request: Message, *, tls: bool, backoff: Backoff, timeout: float) -> None:
        super().__init__()
        self._request = request
        self._tls = tls
        self._backoff = backoff
        self._timeout = timeout
        self._deadline = math.inf
        self._authoritative = False
        self._redirects = 0
        self._tries = 0  # at the service URL
        self._last_error: PulsarException | None = None

    def request_permit(self, event: Enqueue, now: float) -> Effects:
        """Request a permit, and start the operation timeout, which includes the time in the queue."""
        self._deadline = now + self._timeout
        return [self.timers.start(OperationTimedOut, self._timeout), AcquireLookupPermit()]

    def start_at_service_url(self, event: LookupPermitGranted | ServiceChanged, now: float) -> Effects:
        """Start at a broker of the service URL, which need not be authoritative."""
        self._authoritative, self._redirects = False, 0
        self._tries += 1
        return [AttachTo(SERVICE_URL)]

    def fail_permit_denied(self, event: LookupPermitDenied, now: float) -> Effects:
        """Fail at once, without a request."""
        return [NotFound(TooManyLookupRequestException("too many lookups are waiting already"))]

    def send_request(self, event: LookupAttached, now: float) -> Effects:
        """Send the request, with the authoritative flag of the redirect that led here.

        If there are hosts that have not been asked, one that does not answer must leave time for them.
        """
        command: Any = type(self._request)()
        command.CopyFrom(self._request)
        if isinstance(command, CommandLookupTopic):
            command.authoritative = self._authoritative
        left = max(0.0, self._deadline - now)
        return [SendLookup(command, left, left / 2 if self._tries < event.hosts else left)]

    def is_retryable(self, event: LookupRefused, now: float) -> bool:
        """Return whether another broker, or the same one a moment later, may answer differently."""
        return _is_retryable(event.error)

    def back_off(self, event: LookupRefused, now: float) -> Effects:
        """Wait longer than after the failure before."""
        return self._back_off(event.error, now)

    def fail(self, event: LookupRefused, now: float) -> Effects:
        """Fail with the error."""
        return [ReleaseLookupPermit(), NotFound(event.error)]

    def answers_another_request(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the answer is of another kind than the request.

        A refusal of another kind may come from a proxy.
        """
        is_ours = type(event.command) is ANSWER_TYPES[type(self._request)]
        return not is_ours and _refusal_in(event.command) is None

    def reject_wrong_answer(self, event: LookupAnswered, now: float) -> Effects:
        """Fail: a broker that mixes up requests would do so again."""
        request, answer = type(self._request).__name__, type(event.command).__name__
        return [ReleaseLookupPermit(), NotFound(Misdirected(f"the broker answered {request} with {answer}"))]

    def is_retryable_refusal(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the answer is an error that a retry may cure."""
        refused = _refusal_in(event.command)
        return refused is not None and _is_retryable(refused)

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
        return [ReleaseLookupPermit(), NotFound(refused)]

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
        return [
            ReleaseLookupPermit(),
            NotFound(Misdirected(f"the broker's answer names no broker: {kind} is {name!r}")),
        ]

    def claims_too_many_partitions(self, event: LookupAnswered, now: float) -> bool:
        """Return whether the number of partitions is implausible."""
        is_count = isinstance(event.command, CommandPartitionedTopicMetadataResponse)
        return is_count and event.command.partitions > MAX_PARTITIONS

    def reject_partition_count(self, event: LookupAnswered, now: float) -> Effects:
        """Fail with the number that the broker claims."""
        claim = f"{event.command.partitions:,} partitions, which is more than {MAX_PARTITIONS:,}"
        return [ReleaseLookupPermit(), NotFound(Misdirected(f"the broker says that the topic has {claim}"))]

    def is_one_redirect_too_many(self, event: LookupAnswered, now: float) -> bool:
        """Return whether this would be the twenty-first redirect."""
        return self.is_redirect(event, now) and self._redirects >= MAX_REDIRECTS

    def fail_too_many_redirects(self, event: LookupAnswered | Redirected, now: float) -> Effects:
        """Fail without a retry: brokers that disagree about a topic's owner would not agree on the next try."""
        return [
            ReleaseLookupPermit(),
            NotFound(Misdirected(f"redirected more than {MAX_REDIRECTS} times: the brokers disagree")),
        ]

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

    def end_with_answer(self, event: LookupAnswered, now: float) -> Effects:
        """End with the answer."""
        is_topic = isinstance(event.command, CommandLookupTopicResponse)
        return [ReleaseLookupPermit(), Found(event.command, self._named(event.command) if is_topic else None)]

    def is_unsafe_redirect(self, event: Redirected, now: float) -> bool:
        """Return whether the address is not HTTP, or leads from an encrypted connection to plain text."""
        return not event.url.startswith("https://" if self._tls else ("https://", "http://"))

    def reject_unsafe_redirect(self, event: Redirected, now: float) -> Effects:
        """Fail with the scheme of the address; the rest may hold a secret."""
        scheme, kind = event.url.partition(":")[0], "https" if self._tls else "http"
        return [
            ReleaseLookupPermit(),
            NotFound(Misdirected(f"a redirect leads from {kind} to {excerpt(scheme)}: not followed")),
        ]

    def has_used_all_redirects(self, event: Redirected, now: float) -> bool:
        """Return whether this would be the twenty-first redirect."""
        return self._redirects >= MAX_REDIRECTS

    def follow_redirect_address(self, event: Redirected, now: float) -> Effects:
        """Ask the server that the redirect names."""
        self._redirects += 1
        return [AttachTo(LookupTarget(event.url, event.url))]

    def note_tls(self, event: ServiceChanged, now: float) -> Effects:
        """Note if the new service URL uses TLS; the lookup has not started yet."""
        self._tls = event.tls
        return []

    def request_permit_again(self, event: BackoffOver | ServiceChanged, now: float) -> Effects:
        """Request a permit for the next try."""
        return [AcquireLookupPermit()]

    def stop_waiting(self, event: ServiceChanged, now: float) -> Effects:
        """Try the new service at once."""
        self._tls = event.tls
        self.timers.stop(BackoffOver)
        return self.request_permit_again(event, now)

    def restart(self, event: ServiceChanged, now: float) -> Effects:
        """Start again at once, without a backoff: nothing has failed."""
        self._tls = event.tls
        return self.start_at_service_url(event, now)

    def time_out(self, event: OperationTimedOut, now: float) -> Effects:
        """Fail with a Timeout that names the last failure."""
        return [ReleaseLookupPermit(), *self.time_out_without_permit(event, now)]

    def time_out_without_permit(self, event: OperationTimedOut, now: float) -> Effects:
        """Fail with a Timeout that names the last failure."""
        return [NotFound(Timeout(f"no broker has answered in time{last_failure_text(self._last_error)}"))]

    def cancel(self, event: Cancel, now: float) -> Effects:
        """Fail: nobody waits for the answer any longer."""
        return [ReleaseLookupPermit(), *self.cancel_without_permit(event, now)]

    def cancel_without_permit(self, event: Cancel, now: float) -> Effects:
        """Fail: nobody waits for the answer any longer."""
        return [NotFound(AlreadyClosed("the client was closed during a lookup"))]

    def _back_off(self, error: PulsarException, now: float) -> Effects:
        timer = self.timers.start(BackoffOver, self._backoff.next_delay())
        if self._last_error is None or now < self._deadline - LAST_MOMENT:
            self._last_error = error
        return [timer, ReleaseLookupPermit(), AttemptFailed(self._last_error)]

    def _broker(self, command: CommandLookupTopicResponse) -> str:
        return command.brokerServiceUrlTls if self._tls else command.brokerServiceUrl

    def _named(self, command: CommandLookupTopicResponse) -> LookupTarget:
        broker = self._broker(command)
        return LookupTarget(logical=broker, physical=None if command.proxy_through_service_url else broker)


def _is_retryable(error: PulsarException) -> bool:
    if isinstance(error, BrokerRefusal):
        return meaning_of(error).lookup is RetryVerdict.RETRY
    is_final = isinstance(error, (CertificateRefused, ConnectTimeout))
    return isinstance(error, (ConnectError, OutcomeUnknown)) and not is_final


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

MAX_LOOKUPS = 50_000


class LookupPermit(Enum):
    """The answer to a lookup that requests a permit."""

    NOW = "ask"
    LATER = "wait in the queue"
    NEVER = "too many wait already"


class LookupLimiter(Generic[T]):
    """Limits the lookups of one client: `limit` ask at a time, and `capacity` ask or wait for that."""

    __slots__ = ("_capacity", "_limit", "_queue", "_running")

    def __init__(self, limit: int, capacity: int | None = None) -> None:
        capacity = max(limit, MAX_LOOKUPS) if capacity is None else capacity
        if not 0 < limit <= capacity:
            raise InvalidArgument(f"from 1 to {capacity} lookups may be on their way at once, not {limit}")
        self._limit = limit
        self._capacity = capacity
        self._running = 0
        self._queue: OrderedDict[T, None] = OrderedDict()

    def acquire(self, token: T) -> LookupPermit:
        """Let a lookup run now, or queue it."""
        if self._running < self._limit:
            self._running += 1
            return LookupPermit.NOW
        if self._running + len(self._queue) >= self._capacity:
            return LookupPermit.NEVER
        self._queue[token] = None
        return LookupPermit.LATER

    def release(self, token: T) -> T | None:
        """Note that a lookup has ended, which ran or waited.

        Return the token of the next one, which gets its permit; None if there is no permit, or none waits for it.
        """
        if token in self._queue:
            del self._queue[token]
        elif self._queue:
            return self._queue.popitem(last=False)[0]
        else:
            self._running -= 1
        return None
