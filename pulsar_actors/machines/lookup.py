"""One question about topics, until it is answered: where one is served, how many partitions it has, which there are.

A broker that does not serve the topic may send the asker on to another, and that one on to a third. Each redirect says
whether the broker it names has the last word, and the next question repeats that flag as it came. More than twenty
redirects in a row are taken for a circle and end the lookup. Anything that may pass (a broker that is starting, a
broken connection) is asked again after a while, from the service URL on, as long as the operation timeout allows. Each
such failure is told at once, for whoever wants to know may give up earlier than this does.

In the binary protocol other questions are never redirected; all else holds for them too. Whether the question travels
in that or over HTTP is the actor's business. A redirect over HTTP is an address that has the flag in it. How many may
be on their way at once is a ledger's (`turns.py`): a lookup waits for its turn.

If the service URL changes meanwhile, the walk begins again at the new one: whatever the old cluster says is of no use.
"""

import math
from collections.abc import Callable
from enum import Enum, unique
from typing import Any, Final

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    Misdirected,
    OutcomeUnknown,
    PulsarException,
    Timeout,
    TooManyLookupRequestException,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Row
from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.broker_address import leads_to_a_broker, names_a_broker
from pulsar_actors.machines.ledgers.last_failure import after
from pulsar_actors.machines.ledgers.server_errors import Verdict, meaning_of, refusal
from pulsar_actors.machines.lookup_events import (
    Answered,
    Attached,
    AttachFailed,
    AttachTo,
    BackoffOver,
    Begin,
    Cancel,
    Found,
    GiveTurn,
    Inquire,
    NotFound,
    OperationTimedOut,
    Queue,
    Redirected,
    Refused,
    ServiceChanged,
    Stumbled,
    TakeTurn,
    Target,
    TurnAway,
)
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.wire.excerpt import excerpt
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
"""What fails within so many seconds of the end has failed for want of time."""
MOST_PARTITIONS: Final = 100_000
"""Far beyond what a cluster has use for. A broker that claims more, up to 2^32, would have as many members made."""
SERVICE_URL: Final = Target(None, None)

ANSWERS: Final[dict[type[Message], type[Message]]] = {
    CommandLookupTopic: CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata: CommandPartitionedTopicMetadataResponse,
    CommandGetTopicsOfNamespace: CommandGetTopicsOfNamespaceResponse,
    CommandGetSchema: CommandGetSchemaResponse,
}


@unique
class State(Enum):
    """Where a lookup can be."""

    IDLE = "Made, but not asked for yet."
    QUEUED = "Waits for its turn: only so many lookups are on their way at once."
    ATTACHING = "Gets a connection to the broker that is to be asked."
    ASKING = "Has asked, and waits for the broker's answer."
    WAITING = "Pauses after a failure that may pass, before it starts again from the service URL."
    DONE = "Answered."
    FAILED = "Refused for good, or out of time."


IDLE, QUEUED, ATTACHING, ASKING, WAITING, DONE, FAILED = State

UNBEGUN: Final = (IDLE, QUEUED)
BUSY: Final = (ATTACHING, ASKING, WAITING)
ENDED: Final = (DONE, FAILED)

# fmt: off
ROWS: Final = (
    #   trigger            source      dest        guard                         does
    Row(Queue,             IDLE,       QUEUED,     None,                         "get_in_line"),
    Row(Begin,             QUEUED,     ATTACHING,  None,                         "start_walk"),
    Row(TurnAway,          QUEUED,     FAILED,     None,                         "fail_turned_away"),
    Row(Attached,          ATTACHING,  ASKING,     None,                         "inquire"),
    Row(AttachFailed,      ATTACHING,  WAITING,    "may_pass",                   "pause"),
    Row(AttachFailed,      ATTACHING,  FAILED,     None,                         "give_up"),
    Row(Answered,          ASKING,     FAILED,     "is_another_answer",          "reject_answer"),
    Row(Answered,          ASKING,     WAITING,    "is_refusal_that_may_pass",   "pause_after_refusal"),
    Row(Answered,          ASKING,     FAILED,     "is_refusal",                 "give_up_after_refusal"),
    Row(Answered,          ASKING,     FAILED,     "names_no_broker",            "reject_nameless"),
    Row(Answered,          ASKING,     FAILED,     "claims_too_many_partitions", "reject_claim"),
    Row(Answered,          ASKING,     FAILED,     "is_one_redirect_too_many",   "stop_walking"),
    Row(Answered,          ASKING,     ATTACHING,  "is_redirect",                "follow_redirect"),
    Row(Answered,          ASKING,     DONE,       None,                         "finish"),
    Row(Redirected,        ASKING,     FAILED,     "leads_astray",               "reject_address"),
    Row(Redirected,        ASKING,     FAILED,     "has_walked_enough",          "stop_walking"),
    Row(Redirected,        ASKING,     ATTACHING,  None,                         "follow_address"),
    Row(Refused,           ASKING,     WAITING,    "may_pass",                   "pause"),
    Row(Refused,           ASKING,     FAILED,     None,                         "give_up"),
    Row(BackoffOver,       WAITING,    ATTACHING,  None,                         "start_walk"),
    Row(ServiceChanged,    UNBEGUN,    INTERNAL,   None,                         "note_service"),
    Row(ServiceChanged,    BUSY,       ATTACHING,  None,                         "start_over"),

    # The end.
    Row(OperationTimedOut, QUEUED,     FAILED,     None,                         "time_out_in_line"),
    Row(OperationTimedOut, BUSY,       FAILED,     None,                         "time_out"),
    Row(Cancel,            UNBEGUN,    FAILED,     None,                         "cancel_unbegun"),
    Row(Cancel,            BUSY,       FAILED,     None,                         "cancel_begun"),

    # Too late, or too early to mean anything.
    Row(Begin,             ENDED,                              INTERNAL,  None,  "pass_turn_on"),
    Row(Cancel,            ENDED,                              INTERNAL),
    Row(Attached,          (IDLE, QUEUED, ASKING, WAITING, *ENDED),    INTERNAL),
    Row(AttachFailed,      (IDLE, QUEUED, ASKING, WAITING, *ENDED),    INTERNAL),
    Row(Answered,          (IDLE, QUEUED, ATTACHING, WAITING, *ENDED), INTERNAL),
    Row(Redirected,        (IDLE, QUEUED, ATTACHING, WAITING, *ENDED), INTERNAL),
    Row(Refused,           (IDLE, QUEUED, ATTACHING, WAITING, *ENDED), INTERNAL),
    Row(ServiceChanged,    ENDED,                              INTERNAL),
    Row(BackoffOver,       (IDLE, QUEUED, ATTACHING, ASKING, *ENDED),  INTERNAL),
    Row(OperationTimedOut, (IDLE, *ENDED),                             INTERNAL),
)
# fmt: on

OURS: Final = (Queue, Begin, TurnAway, Cancel, ServiceChanged)

CHART: Final = Chart("lookup", states=State, initial=IDLE, final=ENDED, ours=OURS, rows=ROWS)


class Lookup(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = (
        "_authoritative",
        "_backoff",
        "_deadline",
        "_last_error",
        "_question",
        "_redirects",
        "_timeout",
        "_tls",
    )

    def __init__(self, question: Message, *, tls: bool, jitter: Callable[[], float], timeout: float) -> None:
        super().__init__()
        self._question = question
        self._tls = tls
        self._backoff = Backoff(jitter)
        self._timeout = timeout
        self._deadline = math.inf
        self._authoritative = False
        self._redirects = 0
        self._last_error: PulsarException | None = None

    def get_in_line(self, event: Queue, now: float) -> Effects:
        """Start the clock before the queue: the caller waits in it as well."""
        self._deadline = now + self._timeout
        return [self.timers.start(OperationTimedOut, self._timeout), TakeTurn()]

    def start_walk(self, event: Begin | BackoffOver | ServiceChanged, now: float) -> Effects:
        """Ask whoever the service URL leads to, which need not have the last word."""
        self._authoritative, self._redirects = False, 0
        return [AttachTo(SERVICE_URL)]

    def fail_turned_away(self, event: TurnAway, now: float) -> Effects:
        """Fail at once, without having asked anybody."""
        return [NotFound(TooManyLookupRequestException("more lookups than may wait are waiting already"))]

    def inquire(self, event: Attached, now: float) -> Effects:
        """Ask, with the flag of the redirect that led here."""
        command: Any = type(self._question)()
        command.CopyFrom(self._question)
        if isinstance(command, CommandLookupTopic):
            command.authoritative = self._authoritative
        return [Inquire(command, max(0.0, self._deadline - now))]

    def may_pass(self, event: AttachFailed | Refused, now: float) -> bool:
        """Hold for what another broker, or the same one a moment later, may answer differently."""
        return _may_pass(event.error)

    def pause(self, event: AttachFailed | Refused, now: float) -> Effects:
        """Wait a little longer than the last time."""
        return self._pause(event.error, now)

    def give_up(self, event: AttachFailed | Refused, now: float) -> Effects:
        """Pass the error on."""
        return [GiveTurn(), NotFound(event.error)]

    def is_another_answer(self, event: Answered, now: float) -> bool:
        """Hold when the broker answers a question of another kind. A proxy refuses all kinds as if they were one."""
        is_ours = type(event.command) is ANSWERS[type(self._question)]
        return not is_ours and _refusal(event.command) is None

    def reject_answer(self, event: Answered, now: float) -> Effects:
        """Fail: a broker that mixes questions up will do so again."""
        question, answer = type(self._question).__name__, type(event.command).__name__
        return [GiveTurn(), NotFound(Misdirected(f"the broker answered {question} with {answer}"))]

    def is_refusal_that_may_pass(self, event: Answered, now: float) -> bool:
        """Hold for an error that is worth another try."""
        refused = _refusal(event.command)
        return refused is not None and _may_pass(refused)

    def pause_after_refusal(self, event: Answered, now: float) -> Effects:
        """Wait a little longer than the last time."""
        refused = _refusal(event.command)
        assert refused is not None  # noqa: S101 - the guard has looked
        return self._pause(refused, now)

    def is_refusal(self, event: Answered, now: float) -> bool:
        """Hold for an answer that carries an error."""
        return _refusal(event.command) is not None

    def give_up_after_refusal(self, event: Answered, now: float) -> Effects:
        """Pass the broker's words on."""
        refused = _refusal(event.command)
        assert refused is not None  # noqa: S101 - the guard has looked
        return [GiveTurn(), NotFound(refused)]

    def names_no_broker(self, event: Answered, now: float) -> bool:
        """Hold for a topic's answer without a usable address of our kind."""
        command = event.command
        if not isinstance(command, CommandLookupTopicResponse):
            return False
        broker = self._broker(command)
        if command.proxy_through_service_url:
            return not names_a_broker(broker)
        return not leads_to_a_broker(broker, tls=self._tls)

    def reject_nameless(self, event: Answered, now: float) -> Effects:
        """Say which address was missing."""
        kind = "brokerServiceUrlTls" if self._tls else "brokerServiceUrl"
        name = self._broker(event.command)
        return [GiveTurn(), NotFound(Misdirected(f"the broker's answer names no broker: {kind} is {name!r}"))]

    def claims_too_many_partitions(self, event: Answered, now: float) -> bool:
        """Hold for a number that cannot be meant."""
        is_count = isinstance(event.command, CommandPartitionedTopicMetadataResponse)
        return is_count and event.command.partitions > MOST_PARTITIONS

    def reject_claim(self, event: Answered, now: float) -> Effects:
        """Say what was claimed."""
        claim = f"{event.command.partitions:,} partitions, which is more than {MOST_PARTITIONS:,}"
        return [GiveTurn(), NotFound(Misdirected(f"the broker says that the topic has {claim}"))]

    def is_one_redirect_too_many(self, event: Answered, now: float) -> bool:
        """Hold for the twenty-first redirect of a walk."""
        return self.is_redirect(event, now) and self._redirects >= MAX_REDIRECTS

    def stop_walking(self, event: Answered | Redirected, now: float) -> Effects:
        """Fail without another try: brokers that disagree about a topic's owner go on disagreeing."""
        return [GiveTurn(), NotFound(Misdirected(f"redirected more than {MAX_REDIRECTS} times: the brokers disagree"))]

    def is_redirect(self, event: Answered, now: float) -> bool:
        """Hold when another broker is to be asked."""
        command = event.command
        redirect = CommandLookupTopicResponse.Redirect
        return isinstance(command, CommandLookupTopicResponse) and command.response == redirect

    def follow_redirect(self, event: Answered, now: float) -> Effects:
        """Ask the named broker, with the flag it came with."""
        self._authoritative = event.command.authoritative
        self._redirects += 1
        return [AttachTo(self._named(event.command))]

    def finish(self, event: Answered, now: float) -> Effects:
        """Pass the answer on."""
        is_topic = isinstance(event.command, CommandLookupTopicResponse)
        return [GiveTurn(), Found(event.command, self._named(event.command) if is_topic else None)]

    def leads_astray(self, event: Redirected, now: float) -> bool:
        """Hold for an address that is none of HTTP, or leads from an encrypted connection into the open."""
        return not event.url.startswith("https://" if self._tls else ("https://", "http://"))

    def reject_address(self, event: Redirected, now: float) -> Effects:
        """Say where it leads, as far as that is no secret."""
        scheme, kind = event.url.partition(":")[0], "https" if self._tls else "http"
        return [GiveTurn(), NotFound(Misdirected(f"a redirect leads from {kind} to {excerpt(scheme)}: not followed"))]

    def has_walked_enough(self, event: Redirected, now: float) -> bool:
        """Hold for the twenty-first redirect of a walk."""
        return self._redirects >= MAX_REDIRECTS

    def follow_address(self, event: Redirected, now: float) -> Effects:
        """Ask there."""
        self._redirects += 1
        return [AttachTo(Target(event.url, event.url))]

    def note_service(self, event: ServiceChanged, now: float) -> Effects:
        """Remember which kind of address counts, for when its turn comes."""
        self._tls = event.tls
        return []

    def start_over(self, event: ServiceChanged, now: float) -> Effects:
        """Ask again at once: nothing has failed."""
        self._tls = event.tls
        self.timers.stop(BackoffOver)
        return self.start_walk(event, now)

    def time_out_in_line(self, event: OperationTimedOut, now: float) -> Effects:
        """Fail without having asked anybody."""
        return [NotFound(Timeout("its turn did not come in time: too many lookups are on their way"))]

    def time_out(self, event: OperationTimedOut, now: float) -> Effects:
        """Fail with the last thing that went wrong, which tells more than that time is up."""
        return [GiveTurn(), NotFound(Timeout(f"no broker has answered in time{after(self._last_error)}"))]

    def cancel_unbegun(self, event: Cancel, now: float) -> Effects:
        """End without having asked anybody."""
        return [NotFound(AlreadyClosed("the client was closed during a lookup"))]

    def cancel_begun(self, event: Cancel, now: float) -> Effects:
        """End, and let the next in line begin."""
        return [GiveTurn(), *self.cancel_unbegun(event, now)]

    def pass_turn_on(self, event: Begin, now: float) -> Effects:
        """Do nothing with a turn that came too late, but do not keep it."""
        return [GiveTurn()]

    def _pause(self, error: PulsarException, now: float) -> Effects:
        timer = self.timers.start(BackoffOver, self._backoff.next_delay())
        if self._last_error is None or now < self._deadline - LAST_MOMENT:
            self._last_error = error
        return [timer, Stumbled(self._last_error)]

    def _broker(self, command: CommandLookupTopicResponse) -> str:
        return command.brokerServiceUrlTls if self._tls else command.brokerServiceUrl

    def _named(self, command: CommandLookupTopicResponse) -> Target:
        broker = self._broker(command)
        return Target(logical=broker, physical=None if command.proxy_through_service_url else broker)


def _may_pass(error: PulsarException) -> bool:
    if isinstance(error, BrokerRefusal):
        return meaning_of(error).lookup is Verdict.RETRY
    return isinstance(error, (ConnectError, OutcomeUnknown)) and not isinstance(error, CertificateRefused)


def _refusal(answer: Any) -> BrokerRefusal | None:  # noqa: ANN401 - any of the answers
    match answer:
        case CommandGetSchemaResponse() if answer.HasField("error_code"):
            return refusal(answer.error_code, answer.error_message)
        case CommandLookupTopicResponse() if answer.response == CommandLookupTopicResponse.Failed:
            return refusal(answer.error, answer.message)
        case CommandPartitionedTopicMetadataResponse() if answer.response == answer.Failed:
            return refusal(answer.error, answer.message)
        case _:
            return None
