"""The connection handler: the part of a producer or consumer that keeps it registered with a broker.

A producer or consumer is here called a handler. PRODUCER or SUBSCRIBE registers the handler, over one connection, with
the broker that a lookup names. While it is registered, the handler is *bound*, and the registration is a *binding*.
When a binding is lost, for example with its connection, the handler looks up the topic and registers again, after
growing pauses and without a time limit. Only the first creation has a time limit, and more errors end it.

A PRODUCER or SUBSCRIBE that got no answer may still take effect. If the handler sent a second one on the same
connection, the broker might accept it while it still closes the first. So the handler first sends a close and awaits
the answer. On a new connection that is not needed.

A handler that ends without an answer to its close leaves a producer to the broker, which closes it as soon as it has
written what it was sent: to close the connection would disturb all the other topics of it, and be no faster. But a
consumer that the broker keeps would take messages that nobody receives, so its connection is closed.

A broker that unloads a topic closes its producers and consumers, and may name the broker that serves the topic now:
then no lookup is needed. A handler that came through a proxy reaches that broker through it, too. A topic that has
migrated to another cluster is looked up there from then on.

If a handler is not bound in time, its error names the last failure, and not only the timeout.

A close ends a handler without a binding at once, unless something is pending that it promises to send. Then the handler
*leaves*: it goes on until it is bound, sends what is pending, and closes. All this has the operation timeout.

`handler_rows` and `handler_ignores` are the rows that the charts of producers and consumers share. The other rows are
in `producer.py` and `consumer.py`.
"""

from abc import ABC, abstractmethod
from enum import Enum, unique
from typing import ClassVar, Final, Protocol

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
    ConnectTimeout,
    InvalidArgument,
    OutcomeUnknown,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.chart import INTERNAL, Effects, Event, Ignore, Row
from pulsar_actors.machines.connection_handler_events import (
    AskToClose,
    Attach,
    BrokerClosed,
    Close,
    CloseAnswered,
    CloseCommand,
    CloseTimedOut,
    Detach,
    Detached,
    DrainTimedOut,
    DropConnection,
    EndAtOnce,
    FirstCreationFailed,
    FirstCreationTimedOut,
    HandleEnded,
    LookedUp,
    LookUp,
    LookupAttemptFailed,
    LookupFailed,
    Open,
    RequestRefused,
    RequestTimedOut,
    RetryDue,
    TopicMigrated,
    WrongAnswer,
)
from pulsar_actors.machines.lookup_events import MIGRATED, AssignedBroker
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.server_errors import RetryVerdict, last_failure_text, meaning_of
from pulsar_actors.wire.PulsarApi_pb2 import CommandTopicMigrated
from pulsar_actors.wire.service_url import usable_address

LEAST_CLOSE_TIMEOUT: Final = 1.0
"""The least timeout in seconds of a close command, also if the operation timeout is over before it is sent."""


class FailureEvent(Protocol):
    """An event with the error that caused it."""

    @property
    def error(self) -> PulsarException:
        """The cause."""
        ...


@unique
class CommonState(Enum):
    """The states that both charts have, for the picture of the shared rows. A consumer's CREATING is SUBSCRIBING."""

    IDLE = "Created, but not opened yet."
    LOOKING_UP = "The broker that serves the topic is being found."
    CONNECTING = "The broker is known; a connection to it is awaited."
    CREATING = "PRODUCER or SUBSCRIBE is sent; the broker has to accept or refuse."
    READY = "Registered with a broker: messages are sent or received."
    CLOSE_PENDING = "The broker must answer our close before the next PRODUCER or SUBSCRIBE is sent."
    WAITING = "Something failed; after a pause the topic is looked up again."
    CLOSING = "Closed by the user, or after a timeout of the creation; the close is sent."
    CLOSED = "Closed by the user, or closed after the first creation timed out."
    FAILED = "Ended by an error that a retry cannot cure."


class HandlerStates:
    """The states that both charts have, and the sets of them that both charts name.

    `creating` are the states with an unfinished PRODUCER or SUBSCRIBE: in `requested` the broker has not answered, and
    the request can time out; in `in_line` the broker has told a producer to wait for its turn (WaitForExclusive).
    `unannounced`, `placing` and `paused` are states of one chart only. In `unannounced` there is a binding, but the
    creation is not complete for the user yet. In `placing` the broker has yet to move the start of a consumer, and the
    binding begins after that. In `paused` there is no binding and no connection.
    """

    def __init__(  # noqa: PLR0913 - one for each kind of state
        self,
        states: type[Enum],
        *,
        creating: tuple[Enum, ...],
        final: tuple[Enum, ...],
        unannounced: tuple[Enum, ...] = (),
        placing: tuple[Enum, ...] = (),
        paused: tuple[Enum, ...] = (),
    ) -> None:
        self.idle, self.looking_up, self.connecting = states["IDLE"], states["LOOKING_UP"], states["CONNECTING"]
        self.ready, self.close_pending = states["READY"], states["CLOSE_PENDING"]
        self.waiting, self.closing = states["WAITING"], states["CLOSING"]
        self.closed, self.failed = states["CLOSED"], states["FAILED"]
        self.creating = creating
        self.requested, *self.in_line = creating
        self.placing = placing
        self.paused = paused
        self.unattached = (self.looking_up, self.connecting, self.waiting)
        self.retrying = (*self.unattached, *creating, self.close_pending)
        self.without_binding = (*self.retrying, *placing, *paused)
        self.bound = (*unannounced, self.ready)
        self.registered = (*placing, *self.bound)
        self.found = (*creating, self.close_pending, *self.registered, *paused)
        self.opened = (*self.without_binding, *self.bound)
        self.final = final
        self.ending = (self.closing, *final)


def handler_rows(s: HandlerStates) -> tuple[Row, ...]:
    """Return the rows of both charts. Rows of a single chart that take precedence must come before them."""
    # fmt: off
    return (
        #   trigger                source           dest             guard                 does
        Row(Open,                  s.idle,          s.looking_up,    None,                 "start"),
        Row(LookedUp,              s.looking_up,    s.connecting,    "is_elsewhere",       "enter_cluster"),
        Row(LookedUp,              s.looking_up,    s.connecting,    None,                 "attach_looked_up"),
        Row(LookupAttemptFailed,   s.looking_up,    INTERNAL,        None,                 "note_failure"),
        Row(LookupFailed,          s.looking_up,    s.failed,        "is_final",           "end_refused"),
        Row(LookupFailed,          s.looking_up,    s.waiting,       None,                 "back_off"),
        Row(RetryDue,              s.waiting,       s.looking_up,    None,                 "look_up_again"),
        Row(RequestRefused,        s.creating,      s.failed,        "is_final",           "end_refused"),
        Row(RequestRefused,        s.creating,      s.waiting,       None,                 "release_after_refusal"),
        Row(Detached,              (s.connecting, *s.creating), s.failed, "is_final",      "end_refused"),
        Row(Detached,              (s.connecting, *s.creating), s.waiting, None,           "back_off"),

        # After a PRODUCER or SUBSCRIBE that timed out, a close is sent before the next one.
        Row(RequestTimedOut,       s.requested,     s.close_pending, None,                 "close_first"),
        Row(BrokerClosed,          s.creating,      s.close_pending, None,                 "close_first_then_move"),
        Row(TopicMigrated,         s.creating,      s.close_pending, "names_a_cluster",    "close_first_then_migrate"),
        Row(BrokerClosed,          s.close_pending, INTERNAL,        None,                 "note_broker"),
        Row(TopicMigrated,         s.close_pending, INTERNAL,        "names_a_cluster",    "note_cluster"),
        Row(CloseAnswered,         s.close_pending, s.connecting,    "has_assigned_broker", "attach_assigned"),
        Row(CloseAnswered,         s.close_pending, s.waiting,       None,                 "release_and_back_off"),
        Row(CloseTimedOut,         s.close_pending, s.waiting,       None,                 "drop_unanswering"),

        # Bound.
        Row(BrokerClosed,          s.bound,         s.connecting,    "names_a_broker",     "move"),
        Row(BrokerClosed,          s.bound,         s.waiting,       None,                 "release_after_close"),
        Row(TopicMigrated,         s.registered,    s.looking_up,    "names_a_cluster",    "migrate"),
        Row(Detached,              (s.close_pending, *s.registered), s.waiting, None,      "back_off"),

        # Whether bound or not.
        Row(WrongAnswer,           (*s.found, s.closing), INTERNAL,  None,                 "drop_after_wrong_answer"),
        Row(FirstCreationTimedOut, s.unattached,    s.failed,        None,                 "stop_trying"),
        Row(FirstCreationTimedOut, s.requested,     s.closing,       None,                 "give_up_asking"),
        Row(FirstCreationTimedOut, s.close_pending, s.closing,       None,                 "give_up_waiting"),

        # The end.
        Row(Close,                 s.retrying,      INTERNAL,        "is_leaving"),
        Row(Close,                 s.retrying,      INTERNAL,        "has_unsent",         "leave"),
        Row(DrainTimedOut,         s.unattached,    s.closed,        None,                 "end_unsent"),
        Row(DrainTimedOut,         s.creating,      s.closing,       None,                 "give_up_leaving"),
        Row(DrainTimedOut,         s.close_pending, s.closed,        None,                 "end_unsent"),
        Row(Close,                 (s.idle, *s.unattached, *s.paused), s.closed, None,     "end_unbound"),
        Row(Close,                 s.creating,      s.closing,       None,                 "close_while_creating"),
        Row(Close,                 s.close_pending, s.closing,       None,                 "await_close"),
        Row(Close,                 s.registered,    s.closing,       None,                 "close_bound"),
        Row(CloseAnswered,         s.closing,       s.closed,        None,                 "end_closed"),
        Row(CloseTimedOut,         s.closing,       s.closed,        "may_get_messages",   "end_and_drop"),
        Row(CloseTimedOut,         s.closing,       s.closed,        None,                 "end_unanswered"),
        Row(Detached,              s.closing,       s.closed,        None,                 "end_closed"),
        Row(EndAtOnce,             (s.idle, *s.opened, s.closing), s.closed, None,         "end_immediately"),
    )
    # fmt: on


def handler_ignores(s: HandlerStates) -> tuple[Ignore, ...]:
    """Return the events that both charts ignore, because they come too late or too early."""
    return (
        Ignore(Close, s.ending),
        Ignore(EndAtOnce, s.final),
        Ignore((LookedUp, LookupAttemptFailed, LookupFailed), (s.idle, s.connecting, s.waiting, *s.found, *s.ending)),
        Ignore(RequestRefused, (s.idle, *s.unattached, s.close_pending, *s.registered, *s.paused, *s.ending)),
        Ignore(
            RequestTimedOut, (s.idle, *s.unattached, *s.in_line, s.close_pending, *s.registered, *s.paused, *s.ending)
        ),
        Ignore(RetryDue, (s.idle, s.looking_up, s.connecting, *s.found, *s.ending)),
        Ignore(Detached, (s.idle, s.looking_up, s.waiting, *s.final)),
        Ignore(WrongAnswer, (s.idle, *s.unattached, *s.final)),
        Ignore(
            (CloseAnswered, CloseTimedOut), (s.idle, *s.unattached, *s.creating, *s.registered, *s.paused, *s.final)
        ),
        Ignore(BrokerClosed, (s.idle, *s.unattached, *s.ending)),
        Ignore(TopicMigrated, (s.idle, *s.unattached, *s.ending)),
        Ignore(TopicMigrated, s.found),  # without the address of a cluster
        Ignore(DrainTimedOut, (s.idle, *s.registered, *s.paused, *s.ending)),
        Ignore(FirstCreationTimedOut, (s.idle, *s.in_line, *s.placing, s.ready, *s.paused, *s.ending)),
    )


class ConnectionHandler(StateMachine, ABC, current=("attempt", "connection")):
    """The guards and actions of the rows that both charts share; what differs between the two is abstract."""

    __slots__ = (
        "_assigned", "_awaited", "_backoff", "_cluster_url", "_proxied", "_tls", "_was_bound", "attempt", "connection",
        "ending", "home", "last_error", "operation_timeout", "topic",
    )  # fmt: skip

    states: ClassVar[HandlerStates]

    def __init__(self, topic: str, backoff: Backoff, operation_timeout: float) -> None:
        super().__init__()
        self.topic = topic
        self.operation_timeout = operation_timeout
        self.attempt = 0
        self.connection = 0
        self.home = 0  # the number of the cluster, or MIGRATED
        self.last_error: PulsarException | None = None  # named in timeouts
        self.ending: PulsarException = AlreadyClosed(f"the {self.kind} is closed")  # the best known reason
        self._backoff = backoff
        self._tls = False  # the service URL encrypts, as of the last lookup
        self._was_bound = False
        self._awaited = False  # the user waits for the first creation
        self._assigned = ""  # the URL of the broker that has the topic now, if a broker named it
        self._cluster_url: str | None = None
        self._proxied = False  # the brokers of the topic are reached through a proxy

    @property
    def kind(self) -> str:
        """The handler's name in errors: producer or consumer."""
        return self.running.chart.name

    @property
    def is_bound(self) -> bool:
        """True while the handler is registered with a broker."""
        return self.state in self.states.bound

    @property
    def state_name(self) -> str:
        """The name of the state, for errors."""
        return self.state.name

    @abstractmethod
    def close_request(self) -> CloseCommand:
        """Return CLOSE_PRODUCER or CLOSE_CONSUMER."""

    @abstractmethod
    def has_unsent(self, event: Close, now: float) -> bool:
        """Return whether something is pending that a close promises to send."""

    @abstractmethod
    def close_bound(self, event: Close, now: float) -> Effects:
        """Close a bound handler."""

    @abstractmethod
    def _attaching(self) -> Effects:
        """Return effects to perform before the next connection is requested."""

    @abstractmethod
    def _unbind(self, reason: str, now: float) -> Effects:
        """Note that there is no binding, for this reason. There may have been none before."""

    @abstractmethod
    def _leave_cluster(self, why: str, now: float) -> Effects:
        """Forget all that belongs to messages and transactions of the former cluster. There is no binding."""

    @abstractmethod
    def _fail_calls(self, error: PulsarException, now: float) -> Effects:
        """Fail the calls and messages that cannot succeed once closing has begun."""

    @abstractmethod
    def _fail_rest(self, error: PulsarException, now: float) -> Effects:
        """Fail the calls that could still succeed while the close was awaited."""

    def note_error(self, error: PulsarException) -> None:
        """Remember the last failure."""
        self.last_error = error

    def next_attempt(self) -> int:
        """Return the number of the next request to a lookup or a broker.

        Answers to earlier ones are stale from now on.
        """
        self.attempt += 1
        return self.attempt

    # Getting bound.

    def start(self, event: Open, now: float) -> Effects:
        """Start the time limit of the creation, and look up."""
        self._awaited = True
        return [self.timers.start(FirstCreationTimedOut, self.operation_timeout), self._look_up()]

    def is_elsewhere(self, event: LookedUp, now: float) -> bool:
        """Return whether the client has gone to another cluster since the last lookup.

        A topic that has migrated stays where it is, as long as the client's new service URL allows that.
        """
        return event.home != self.home

    def enter_cluster(self, event: LookedUp, now: float) -> Effects:
        """Leave the former cluster behind, and attach to the broker."""
        self.home, self._cluster_url = event.home, None
        left = self._leave_cluster("the client has gone to another cluster", now)
        return [*left, *self.attach_looked_up(event, now)]

    def attach_looked_up(self, event: LookedUp, now: float) -> Effects:
        """Attach to the broker that the lookup names."""
        self._proxied, self._tls = event.proxied, event.tls
        return self._attach(event.broker)

    def is_final(self, event: FailureEvent, now: float) -> bool:
        """Return whether a retry cannot cure the error.

        That holds for many errors during a first creation, for few later.
        """
        error, looked_up = event.error, isinstance(event, LookupFailed)
        if isinstance(error, CertificateRefused) or (looked_up and isinstance(error, ConnectTimeout)):
            return not self._was_bound  # a broker that does not answer may be replaced; the service URL is all there is
        if not isinstance(error, BrokerRefusal):
            may_be = looked_up or isinstance(error, InvalidArgument)
            return may_be and not self._was_bound and not isinstance(error, (OutcomeUnknown, ConnectError))
        meaning = meaning_of(error)
        if self._was_bound:
            return meaning.once_created is RetryVerdict.FAIL
        return (meaning.lookup if looked_up else meaning.first_creation) is RetryVerdict.FAIL

    def note_failure(self, event: LookupAttemptFailed, now: float) -> Effects:
        """Remember the error, for a timeout before the lookup has ended."""
        self.note_error(event.error)
        return []

    def end_refused(self, event: FailureEvent, now: float) -> Effects:
        """End with the error."""
        return self._end(event.error, now)

    def back_off(self, event: FailureEvent, now: float) -> Effects:
        """Remember the error, and pause before the next lookup."""
        self.note_error(event.error)
        return self._pause(str(event.error), now)

    def release_after_refusal(self, event: FailureEvent, now: float) -> Effects:
        """Leave the connection, which stays open for others, and pause before the next lookup."""
        return [Detach(self.connection), *self.back_off(event, now)]

    def look_up_again(self, event: RetryDue, now: float) -> Effects:
        """Look up again, because the topic may have moved."""
        return [self._look_up()]

    def release_and_back_off(self, event: Event, now: float) -> Effects:
        """Leave the connection, which stays open for others, and pause before the next lookup."""
        return [Detach(self.connection), *self._pause("", now)]

    # A request that was given up.

    def close_first(self, event: Event, now: float) -> Effects:
        """Close the producer or consumer that the broker may still create."""
        self.note_error(Timeout(f"the broker has not answered in time to the creation of the {self.kind}"))
        return [self._ask_to_close(now)]

    def close_first_then_move(self, event: BrokerClosed, now: float) -> Effects:
        """Close first, because our request is unanswered; then attach to the assigned broker."""
        self.note_error(self._closed_by_broker())
        return [*self.note_broker(event, now), self._ask_to_close(now)]

    def close_first_then_migrate(self, event: TopicMigrated, now: float) -> Effects:
        """Close first, so that the old cluster keeps no producer or consumer."""
        return [*self.note_cluster(event, now), self._ask_to_close(now)]

    def note_broker(self, event: BrokerClosed, now: float) -> Effects:
        """Remember the assigned broker. The broker's close gets no answer."""
        self._assigned = self._broker_in(event.command) or self._assigned
        return []

    def note_cluster(self, event: TopicMigrated, now: float) -> Effects:
        """Look up in the new cluster from now on."""
        self._cluster_url = self._cluster_in(event.command)
        self._assigned = ""
        self.home = MIGRATED
        return self._leave_cluster("the topic has migrated to another cluster", now)

    def names_a_cluster(self, event: TopicMigrated, now: float) -> bool:
        """Return whether the command has a usable URL. Without one, the broker's close, which comes next, decides."""
        return bool(self._cluster_in(event.command))

    def has_assigned_broker(self, event: Event, now: float) -> bool:
        """Return whether a broker has named the one that serves the topic now."""
        return bool(self._assigned)

    def attach_assigned(self, event: Event, now: float) -> Effects:
        """Attach to the assigned broker, without a lookup."""
        return [Detach(self.connection), *self._attach(self._assigned_broker(self._assigned))]

    def drop_unanswering(self, event: CloseTimedOut, now: float) -> Effects:
        """Close the connection: on a new one no close is needed."""
        return self._drop(self._close_timeout(), now)

    # Bound.

    def names_a_broker(self, event: BrokerClosed, now: float) -> bool:
        """Return whether the command names the broker that serves the topic now."""
        return bool(self._broker_in(event.command))

    def move(self, event: BrokerClosed, now: float) -> Effects:
        """Attach to the assigned broker, without a lookup."""
        error = self._closed_by_broker()
        self.note_error(error)
        unbound = self._unbind(str(error), now)
        broker = self._assigned_broker(self._broker_in(event.command))
        return [*unbound, Detach(self.connection), *self._attach(broker)]

    def release_after_close(self, event: BrokerClosed, now: float) -> Effects:
        """Leave the connection, which stays open for others, and pause before the next lookup."""
        error = self._closed_by_broker()
        self.note_error(error)
        return [Detach(self.connection), *self._pause(str(error), now)]

    def migrate(self, event: TopicMigrated, now: float) -> Effects:
        """Look up in the new cluster."""
        unbound = self._unbind("the topic migrated to another cluster", now)
        return [*unbound, *self.note_cluster(event, now), Detach(self.connection), self._look_up()]

    # Whether bound or not.

    def drop_after_wrong_answer(self, event: WrongAnswer, now: float) -> Effects:
        """Close the connection: its broker may mix up other answers, too."""
        question, answer = event.question.__name__, type(event.answer).__name__
        error = ConnectionLost(f"the broker broke the protocol: it answered {question} with {answer}")
        self.note_error(error)
        return [DropConnection(self.connection, error)]

    # The end.

    def stop_trying(self, event: FirstCreationTimedOut, now: float) -> Effects:
        """Fail the creation. No broker has to close anything."""
        return self._end(self._creation_timeout(), now)

    def give_up_asking(self, event: FirstCreationTimedOut, now: float) -> Effects:
        """Fail the creation, and close the producer or consumer that the broker may have created."""
        return [*self.give_up_waiting(event, now), self._ask_to_close(now)]

    def give_up_waiting(self, event: FirstCreationTimedOut, now: float) -> Effects:
        """Fail the creation. The close is already sent."""
        self.ending = self._creation_timeout()
        return self._fail_everything(now)

    def is_leaving(self, event: Event, now: float) -> bool:
        """Return whether the handler was closed before, and is bound once more only to send what was pending."""
        return DrainTimedOut in self.timers.generations

    def leave(self, event: Event, now: float) -> Effects:
        """Go on until what is pending is sent, but no longer than an operation may take."""
        return self.timers.ensure(DrainTimedOut, now + self.operation_timeout, now)

    def give_up_leaving(self, event: DrainTimedOut, now: float) -> Effects:
        """Close the producer or consumer that the broker may create for the unanswered request."""
        self.ending = self._too_late_to_send()
        return [*self._fail_everything(now), self._ask_to_close(now)]

    def end_unsent(self, event: DrainTimedOut, now: float) -> Effects:
        """End, and fail what is pending. No broker has to close anything, or the close is sent already."""
        self.ending = self._too_late_to_send()
        return self._end(None, now)

    def end_unbound(self, event: Close | RetryDue, now: float) -> Effects:
        """End. No broker has to close anything."""
        return self._end(None, now)

    def close_while_creating(self, event: Close, now: float) -> Effects:
        """Close the producer or consumer that the broker may create for the unanswered request."""
        return [*self._fail_everything(now), self._ask_to_close(now)]

    def await_close(self, event: Close, now: float) -> Effects:
        """Wait for the answer to the close that is already sent."""
        return self._fail_everything(now)

    def end_immediately(self, event: EndAtOnce, now: float) -> Effects:
        """End without a command to the broker. Requests without an answer may have been performed."""
        return self._end(event.error, now)

    def end_closed(self, event: CloseAnswered | BrokerClosed | Detached, now: float) -> Effects:
        """End: the broker has closed the producer or consumer. The loss of the connection closes it, too."""
        return self._end(None, now)

    def may_get_messages(self, event: CloseTimedOut, now: float) -> bool:
        """Return whether the broker would go on to send messages here, which nobody would receive."""
        return False

    def end_and_drop(self, event: CloseTimedOut, now: float) -> Effects:
        """End, and close the connection: the broker gives what it has sent there to others."""
        return [DropConnection(self.connection, self._close_timeout()), *self.end_unanswered(event, now)]

    def end_unanswered(self, event: CloseTimedOut, now: float) -> Effects:
        """End without an answer: the broker may keep the producer or consumer until the connection ends.

        Callers that wait get a Timeout that says so.

        Later calls are refused as closed. A Timeout would make a loop of `receive` go on for ever.
        """
        late = self._close_timeout()
        return [*self._fail_calls(late, now), *self._fail_rest(late, now), *self._end(None, now)]

    def _look_up(self) -> LookUp:
        return LookUp(self.next_attempt(), self.topic, self._cluster_url)

    def _attach(self, broker: object) -> Effects:
        self._assigned = ""
        self.connection += 1
        return [*self._attaching(), Attach(self.connection, broker)]

    def _assigned_broker(self, url: str) -> AssignedBroker:
        return AssignedBroker(url, self._proxied, self._cluster_url)

    def _accepted(self) -> bool:
        """Begin a binding. Return True if the user still waits for the first one."""
        awaited, self._awaited, self._was_bound = self._awaited, False, True
        self.timers.stop(FirstCreationTimedOut)
        return awaited

    def _pause(self, reason: str, now: float) -> Effects:
        self._assigned = ""
        return [*self._unbind(reason, now), self.timers.start(RetryDue, self._backoff.next_delay())]

    def _drop(self, error: PulsarException, now: float) -> Effects:
        self.note_error(error)
        return [DropConnection(self.connection, error), *self._pause(str(error), now)]

    def _ask_to_close(self, now: float) -> AskToClose:
        """Send the close. If the handler was closed before, the rest of that time is left for it."""
        leaves = DrainTimedOut in self.timers.generations
        timeout = max(self.timers.left(DrainTimedOut, now), LEAST_CLOSE_TIMEOUT) if leaves else self.operation_timeout
        return AskToClose(self.next_attempt(), self.close_request(), timeout)

    def _broker_in(self, command: CloseCommand) -> str:
        plain, encrypted = command.assignedBrokerServiceUrl, command.assignedBrokerServiceUrlTls
        return usable_address(plain, encrypted, tls=self._tls)

    def _cluster_in(self, command: CommandTopicMigrated) -> str:
        return usable_address(command.brokerServiceUrl, command.brokerServiceUrlTls, tls=self._tls)

    def _creation_timeout(self) -> Timeout:
        seconds, stage = self.operation_timeout, f"still {self.state_name}{last_failure_text(self.last_error)}"
        return Timeout(f"the {self.kind} could not be created within {seconds:g} s: {stage}")

    def _too_late_to_send(self) -> AlreadyClosed:
        return AlreadyClosed(f"the {self.kind} is closed{last_failure_text(self.last_error)}")

    def _closed_by_broker(self) -> ConnectionLost:
        return ConnectionLost(f"the broker closed the {self.kind}")

    def _close_timeout(self) -> Timeout:
        return Timeout(f"the broker has not answered in time to the close of the {self.kind}")

    def _fail_everything(self, now: float) -> Effects:
        creation = [FirstCreationFailed(self.ending)] if self._awaited else []
        self._awaited = False
        return [*creation, *self._fail_calls(self.ending, now)]

    def _end(self, error: PulsarException | None, now: float) -> Effects:
        if error is not None:
            self.ending = error
        failed = [*self._fail_everything(now), *self._fail_rest(self.ending, now)]
        return [*failed, Detach(self.connection), HandleEnded(error)]
