"""The connection handler of a producer or a consumer: how it is bound to a broker, stays bound, and lets go.

PRODUCER or SUBSCRIBE binds a handler, on one connection, to the broker that a lookup names. A handler outlives its
bindings: when it loses one, it looks up again, after pauses that grow, for as long as it takes. Only the first creation
has a time limit, and more errors that end it.

A PRODUCER or SUBSCRIBE without an answer may still take effect. A second one on the same connection could be answered
by the broker just before it closes the first. So the handler sends a close first and awaits its answer; on a new
connection it need not.

A broker that gives a topic away closes its producers and consumers, and may name the broker that has the topic now:
then no lookup is needed. A topic that has migrated to another cluster is looked up there from then on.

An error of a handler that did not get its binding in time names the last failure, and not only that time is up.

`handler_rows` and `handler_ignores` are the part of the chart that producers and consumers share. Their other rows
stand in `producer.py` and `consumer.py`.
"""

from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar, Protocol

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
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
    CreationFailed,
    CreationTimedOut,
    Detach,
    Detached,
    DropConnection,
    EndAtOnce,
    HandleEnded,
    LookedUp,
    LookUp,
    LookupAttemptFailed,
    LookupFailed,
    Open,
    RetryDue,
    TopicMigrated,
    WrongAnswer,
)
from pulsar_actors.machines.lookup_events import usable_address
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.server_errors import RetryVerdict, last_failure_text, meaning_of
from pulsar_actors.wire.PulsarApi_pb2 import CommandTopicMigrated


class FailureEvent(Protocol):
    """An event with the error that caused it."""

    @property
    def error(self) -> PulsarException:
        """The cause."""
        ...


class HandlerStates:
    """The states that both charts have, and the sets of them that both charts name.

    `creating` are the states with an unanswered PRODUCER or SUBSCRIBE, in the first of which the answer may be late.
    `paused` are states of one chart alone, in which there is no binding and no connection is held.
    """

    def __init__(
        self,
        states: type[Enum],
        *,
        creating: tuple[Enum, ...],
        over: tuple[Enum, ...],
        paused: tuple[Enum, ...] = (),
    ) -> None:
        self.idle, self.looking_up, self.connecting = states["IDLE"], states["LOOKING_UP"], states["CONNECTING"]
        self.ready, self.close_pending = states["READY"], states["CLOSE_PENDING"]
        self.waiting, self.closing = states["WAITING"], states["CLOSING"]
        self.closed, self.failed = states["CLOSED"], states["FAILED"]
        self.creating = creating
        self.paused = paused
        self.searching = (self.looking_up, self.connecting, self.waiting)
        self.unbound = (*self.searching, *creating, self.close_pending, *paused)
        self.found = (*creating, self.close_pending, self.ready, *paused)
        self.live = (*self.unbound, self.ready)
        self.over = over
        self.ending = (self.closing, *over)


def handler_rows(s: HandlerStates) -> tuple[Row, ...]:
    """Return the rows of both charts. Rows of one chart that take the same event first stand before them."""
    # fmt: off
    return (
        #   trigger              source           dest             guard                 does
        Row(Open,                s.idle,          s.looking_up,    None,                 "start"),
        Row(LookedUp,            s.looking_up,    s.connecting,    None,                 "attach_looked_up"),
        Row(LookupAttemptFailed, s.looking_up,    INTERNAL,        None,                 "note_failure"),
        Row(LookupFailed,        s.looking_up,    s.failed,        "is_final",           "end_refused"),
        Row(LookupFailed,        s.looking_up,    s.waiting,       None,                 "back_off"),
        Row(RetryDue,            s.waiting,       s.looking_up,    None,                 "look_up_again"),
        Row(Detached,            s.connecting,    s.failed,        "is_final",           "end_refused"),
        Row(Detached,            s.connecting,    s.waiting,       None,                 "back_off"),
        Row(Detached,            s.creating,      s.failed,        "is_final",           "end_refused"),
        Row(Detached,            s.creating,      s.waiting,       None,                 "back_off"),

        # A PRODUCER or SUBSCRIBE that was given up is closed before the next one.
        Row(BrokerClosed,        s.creating,      s.close_pending, None,                 "close_first_then_move"),
        Row(TopicMigrated,       s.creating,      s.close_pending, "names_a_cluster",    "close_first_then_migrate"),
        Row(BrokerClosed,        s.close_pending, INTERNAL,        None,                 "note_broker"),
        Row(TopicMigrated,       s.close_pending, INTERNAL,        "names_a_cluster",    "note_cluster"),
        Row(CloseAnswered,       s.close_pending, s.connecting,    "has_assigned_broker", "attach_assigned"),
        Row(CloseAnswered,       s.close_pending, s.waiting,       None,                 "let_go"),
        Row(CloseTimedOut,       s.close_pending, s.waiting,       None,                 "drop_unanswering"),
        Row(Detached,            s.close_pending, s.waiting,       None,                 "back_off"),

        # Bound.
        Row(BrokerClosed,        s.ready,         s.connecting,    "names_a_broker",     "move"),
        Row(BrokerClosed,        s.ready,         s.waiting,       None,                 "let_go_closed"),
        Row(TopicMigrated,       s.ready,         s.looking_up,    "names_a_cluster",    "migrate"),
        Row(Detached,            s.ready,         s.waiting,       None,                 "back_off"),

        # Whether bound or not.
        Row(WrongAnswer,         (*s.found, s.closing), INTERNAL,  None,                 "drop_after_wrong_answer"),
        Row(CreationTimedOut,    s.searching,     s.failed,        None,                 "stop_trying"),
        Row(CreationTimedOut,    s.creating[0],   s.closing,       None,                 "give_up_asking"),
        Row(CreationTimedOut,    s.close_pending, s.closing,       None,                 "give_up_waiting"),

        # The end.
        Row(Close,               (s.idle, *s.searching, *s.paused), s.closed, None,      "end_unbound"),
        Row(Close,               s.creating,      s.closing,       None,                 "abandon"),
        Row(Close,               s.close_pending, s.closing,       None,                 "await_close"),
        Row(Close,               s.ready,         s.closing,       None,                 "finish"),
        Row(CloseAnswered,       s.closing,       s.closed,        None,                 "end_closed"),
        Row(CloseTimedOut,       s.closing,       s.closed,        None,                 "end_unanswered"),
        Row(Detached,            s.closing,       s.closed,        None,                 "end_closed"),
        Row(EndAtOnce,           (s.idle, *s.live, s.closing), s.closed, None,           "end_immediately"),
    )
    # fmt: on


def handler_ignores(s: HandlerStates) -> tuple[Ignore, ...]:
    """Return what both charts ignore: what comes too late, or too early to mean anything."""
    return (
        Ignore(Close, s.ending),
        Ignore(EndAtOnce, s.over),
        Ignore((LookedUp, LookupAttemptFailed, LookupFailed), (s.idle, s.connecting, s.waiting, *s.found, *s.ending)),
        Ignore(RetryDue, (s.idle, s.looking_up, s.connecting, *s.found, *s.ending)),
        Ignore(Detached, (s.idle, s.looking_up, s.waiting, *s.over)),
        Ignore(WrongAnswer, (s.idle, *s.searching, *s.over)),
        Ignore((CloseAnswered, CloseTimedOut), (s.idle, *s.searching, *s.creating, s.ready, *s.paused, *s.over)),
        Ignore(BrokerClosed, (s.idle, *s.searching, *s.ending)),
        Ignore(TopicMigrated, (s.idle, *s.live, *s.ending)),  # without the address of a cluster, or not bound
        Ignore(CreationTimedOut, (s.idle, *s.creating[1:], *s.paused, *s.ending)),
    )


class ConnectionHandler(StateMachine, ABC, current=("attempt", "connection")):
    """The guards and actions of the rows that both charts share; what differs between the two is abstract."""

    __slots__ = (
        "_assigned", "_awaited", "_backoff", "_cluster_url", "_tls", "_was_bound", "attempt", "connection", "ending",
        "last_error", "operation_timeout", "topic",
    )  # fmt: skip

    states: ClassVar[HandlerStates]

    def __init__(self, topic: str, backoff: Backoff, operation_timeout: float, *, tls: bool) -> None:
        super().__init__()
        self.topic = topic
        self.operation_timeout = operation_timeout
        self.attempt = 0
        self.connection = 0
        self.last_error: PulsarException | None = None  # named by errors of what was not done in time
        self.ending: PulsarException = AlreadyClosed(f"the {self.kind} is closed")  # as far as it is known
        self._backoff = backoff
        self._tls = tls
        self._was_bound = False
        self._awaited = False  # the user waits for the first creation
        self._assigned = ""  # the URL of the broker that has the topic now, if a broker named it
        self._cluster_url: str | None = None

    @property
    def kind(self) -> str:
        """Its name in errors: producer or consumer."""
        return self.running.chart.name

    @property
    def is_bound(self) -> bool:
        """True while the broker accepts commands for it."""
        return self.state is self.states.ready

    @property
    def state_name(self) -> str:
        """Its state in errors."""
        return self.state.name

    @abstractmethod
    def close_request(self) -> CloseCommand:
        """Make the command that closes any binding."""

    @abstractmethod
    def finish(self, event: Close, now: float) -> Effects:
        """Close a bound handler."""

    @abstractmethod
    def _attaching(self) -> Effects:
        """Prepare for the connection that is asked for next."""

    @abstractmethod
    def _unbind(self, reason: str, now: float) -> Effects:
        """Note that nothing can be sent, for this reason; the handler may have been unbound before."""

    @abstractmethod
    def _fail_calls(self, error: PulsarException, now: float) -> Effects:
        """Fail what cannot end well once closing has begun."""

    @abstractmethod
    def _fail_rest(self, error: PulsarException, now: float) -> Effects:
        """Fail what could still end well while the close was awaited."""

    def note_error(self, error: PulsarException) -> None:
        """Remember what went wrong last."""
        self.last_error = error

    def next_attempt(self) -> int:
        """Give a number to a request to a lookup or a broker; answers to earlier ones are stale from now on."""
        self.attempt += 1
        return self.attempt

    # Getting bound.

    def start(self, event: Open, now: float) -> Effects:
        """Start the time limit of the creation, and look up."""
        self._awaited = True
        return [self.timers.start(CreationTimedOut, self.operation_timeout), self._look_up()]

    def attach_looked_up(self, event: LookedUp, now: float) -> Effects:
        """Attach to the broker that the lookup names."""
        return self._attach(event.broker)

    def is_final(self, event: FailureEvent, now: float) -> bool:
        """Check for errors that a retry does not cure: many for a first creation, few after it."""
        error, looked_up = event.error, isinstance(event, LookupFailed)
        if isinstance(error, CertificateRefused):
            return not self._was_bound
        if not isinstance(error, BrokerRefusal):
            may_be = looked_up or isinstance(error, InvalidArgument)
            return may_be and not self._was_bound and not isinstance(error, (OutcomeUnknown, ConnectError))
        meaning = meaning_of(error)
        if self._was_bound:
            return meaning.once_created is RetryVerdict.FAIL
        return (meaning.lookup if looked_up else meaning.first_creation) is RetryVerdict.FAIL

    def note_failure(self, event: LookupAttemptFailed, now: float) -> Effects:
        """Remember the error, for when time is up before the lookup has ended."""
        self.note_error(event.error)
        return []

    def end_refused(self, event: FailureEvent, now: float) -> Effects:
        """End with the error."""
        return self._end(event.error, now)

    def back_off(self, event: FailureEvent, now: float) -> Effects:
        """Pause before the next lookup."""
        self.note_error(event.error)
        return self._pause(str(event.error), now)

    def let_go_refused(self, event: FailureEvent, now: float) -> Effects:
        """Leave the connection, which stays open for others, and pause before the next lookup."""
        return [Detach(self.connection), *self.back_off(event, now)]

    def look_up_again(self, event: RetryDue, now: float) -> Effects:
        """Look up again, since the topic may have moved."""
        return [self._look_up()]

    def let_go(self, event: Event, now: float) -> Effects:
        """Leave the connection, which stays open for others, and pause before the next lookup."""
        return [Detach(self.connection), *self._pause("", now)]

    # A request that was given up.

    def close_first(self, event: Event, now: float) -> Effects:
        """Close what the broker may yet create."""
        self.note_error(Timeout(f"the broker has not answered in time to the creation of the {self.kind}"))
        return [self._ask_to_close()]

    def close_first_then_move(self, event: BrokerClosed, now: float) -> Effects:
        """Close, because our request is still unanswered; attach to the assigned broker afterwards."""
        self.note_error(self._closed_by_broker())
        return [*self.note_broker(event, now), self._ask_to_close()]

    def close_first_then_migrate(self, event: TopicMigrated, now: float) -> Effects:
        """Close, so that nothing is left in the old cluster."""
        return [*self.note_cluster(event, now), self._ask_to_close()]

    def note_broker(self, event: BrokerClosed, now: float) -> Effects:
        """Remember the assigned broker. The broker's close gets no answer."""
        self._assigned = self._broker_in(event.command) or self._assigned
        return []

    def note_cluster(self, event: TopicMigrated, now: float) -> Effects:
        """Look up in the new cluster from now on."""
        self._cluster_url = self._cluster_in(event.command)
        self._assigned = ""
        return []

    def names_a_cluster(self, event: TopicMigrated, now: float) -> bool:
        """Check that the command has a URL of our kind. Without one, the close that the broker sends next counts."""
        return bool(self._cluster_in(event.command))

    def has_assigned_broker(self, event: Event, now: float) -> bool:
        """Check whether the broker has named the one that serves the topic now."""
        return bool(self._assigned)

    def attach_assigned(self, event: Event, now: float) -> Effects:
        """Attach to the assigned broker, without a lookup."""
        return [Detach(self.connection), *self._attach(self._assigned)]

    def drop_unanswering(self, event: CloseTimedOut, now: float) -> Effects:
        """Close the connection; on a new one nothing is left to close."""
        return self._drop(self._close_timeout(), now)

    # Bound.

    def names_a_broker(self, event: BrokerClosed, now: float) -> bool:
        """Check whether the command names the broker that serves the topic now."""
        return bool(self._broker_in(event.command))

    def move(self, event: BrokerClosed, now: float) -> Effects:
        """Attach to the assigned broker, without a lookup."""
        error = self._closed_by_broker()
        self.note_error(error)
        unbound = self._unbind(str(error), now)
        return [*unbound, Detach(self.connection), *self._attach(self._broker_in(event.command))]

    def let_go_closed(self, event: BrokerClosed, now: float) -> Effects:
        """Leave the connection, which stays open for others, and pause before the next lookup."""
        error = self._closed_by_broker()
        self.note_error(error)
        return [Detach(self.connection), *self._pause(str(error), now)]

    def migrate(self, event: TopicMigrated, now: float) -> Effects:
        """Look up in the new cluster."""
        self.note_cluster(event, now)
        unbound = self._unbind("the topic migrated to another cluster", now)
        return [*unbound, Detach(self.connection), self._look_up()]

    # Whether bound or not.

    def drop_after_wrong_answer(self, event: WrongAnswer, now: float) -> Effects:
        """Close the connection: its broker may confuse other answers, too."""
        question, answer = event.question.__name__, type(event.answer).__name__
        error = ConnectionLost(f"the broker broke the protocol: it answered {question} with {answer}")
        self.note_error(error)
        return [DropConnection(self.connection, error)]

    # The end.

    def stop_trying(self, event: CreationTimedOut, now: float) -> Effects:
        """Fail the creation; nothing is left at a broker."""
        return self._end(self._creation_timeout(), now)

    def give_up_asking(self, event: CreationTimedOut, now: float) -> Effects:
        """Fail the creation, and close what the broker may have made of it."""
        return [*self.give_up_waiting(event, now), self._ask_to_close()]

    def give_up_waiting(self, event: CreationTimedOut, now: float) -> Effects:
        """Fail the creation; the close is already sent."""
        self.ending = self._creation_timeout()
        return self._fail_everything(now)

    def end_unbound(self, event: Close, now: float) -> Effects:
        """End; no broker has anything to close."""
        return self._end(None, now)

    def abandon(self, event: Close, now: float) -> Effects:
        """Close what the broker may make of a request without an answer."""
        return [*self._fail_everything(now), self._ask_to_close()]

    def await_close(self, event: Close, now: float) -> Effects:
        """Wait for the answer to the close that is already sent."""
        return self._fail_everything(now)

    def end_immediately(self, event: EndAtOnce, now: float) -> Effects:
        """End without a word to the broker, which may have done what it was asked."""
        return self._end(event.error, now)

    def end_closed(self, event: CloseAnswered | Detached, now: float) -> Effects:
        """End, now that the broker has closed it; without its connection it is closed, too."""
        return self._end(None, now)

    def end_unanswered(self, event: CloseTimedOut, now: float) -> Effects:
        """End, though the broker may keep the binding until the connection ends: what waited for it fails saying so.

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

    def _accepted(self) -> bool:
        """Begin a binding; True if the user still waits for the first."""
        awaited, self._awaited, self._was_bound = self._awaited, False, True
        self.timers.stop(CreationTimedOut)
        return awaited

    def _pause(self, reason: str, now: float) -> Effects:
        self._assigned = ""
        return [*self._unbind(reason, now), self.timers.start(RetryDue, self._backoff.next_delay())]

    def _drop(self, error: PulsarException, now: float) -> Effects:
        self.note_error(error)
        return [DropConnection(self.connection, error), *self._pause(str(error), now)]

    def _ask_to_close(self) -> AskToClose:
        return AskToClose(self.next_attempt(), self.close_request(), self.operation_timeout)

    def _broker_in(self, command: CloseCommand) -> str:
        plain, encrypted = command.assignedBrokerServiceUrl, command.assignedBrokerServiceUrlTls
        return usable_address(plain, encrypted, tls=self._tls)

    def _cluster_in(self, command: CommandTopicMigrated) -> str:
        return usable_address(command.brokerServiceUrl, command.brokerServiceUrlTls, tls=self._tls)

    def _creation_timeout(self) -> Timeout:
        seconds, stage = self.operation_timeout, f"still {self.state_name}{last_failure_text(self.last_error)}"
        return Timeout(f"the {self.kind} could not be created within {seconds:g} s: {stage}")

    def _closed_by_broker(self) -> ConnectionLost:
        return ConnectionLost(f"the broker closed the {self.kind}")

    def _close_timeout(self) -> Timeout:
        return Timeout(f"the broker has not answered in time to the close of the {self.kind}")

    def _fail_everything(self, now: float) -> Effects:
        creation = [CreationFailed(self.ending)] if self._awaited else []
        self._awaited = False
        return [*creation, *self._fail_calls(self.ending, now)]

    def _end(self, error: PulsarException | None, now: float) -> Effects:
        if error is not None:
            self.ending = error
        failed = [*self._fail_everything(now), *self._fail_rest(self.ending, now)]
        return [*failed, Detach(self.connection), HandleEnded(error)]
