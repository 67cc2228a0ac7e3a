"""How a producer or a consumer comes to be bound to a broker, stays so, and lets go.

A binding is made by PRODUCER or SUBSCRIBE, on one connection, to the broker that a lookup names. Producers and
consumers outlive their bindings: when one is lost they look up again, after pauses that grow, for as long as it takes;
only the first creation has a time limit, and more errors that end it.

A PRODUCER or SUBSCRIBE without an answer may still take effect. Asking again on that connection could be answered for
the one that is about to be closed, so a close goes first and its answer is awaited. A new connection owes no close.

A broker that gives a topic away closes what is bound to it, and may say who has the topic now: then no lookup is
needed. A topic that has moved to another cluster is looked up there, from then on.

Whoever waits for a binding in vain is told what went wrong last, and not only that time is up.

Answers to questions asked earlier, and whatever comes over a connection that was given up, never reach the chart.

The rows that name these guards and actions stand in `producer.py` and `consumer.py`, for the states differ.
"""

from abc import ABC, abstractmethod
from typing import Protocol

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
from pulsar_actors.machines.binding_events import (
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
    Ended,
    LookedUp,
    LookUp,
    LookupFailed,
    LookupStumbled,
    Migrated,
    Misanswered,
    Open,
    RetryDue,
)
from pulsar_actors.machines.chart import Effect, Effects, Event
from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.broker_address import address_of_our_kind
from pulsar_actors.machines.ledgers.last_failure import after
from pulsar_actors.machines.ledgers.server_errors import Verdict, meaning_of
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.wire.PulsarApi_pb2 import CommandTopicMigrated


class Failure(Protocol):
    """An event that says what went wrong."""

    @property
    def error(self) -> PulsarException:
        """What went wrong."""
        ...


class Binding(StateMachine, ABC):
    """The guards and actions that both charts name. What differs between them is abstract."""

    __slots__ = (
        "_assigned", "_attempt", "_awaited", "_backoff", "_cluster_url", "_last_error", "_operation_timeout", "_over",
        "_tls", "_was_bound", "connection", "topic",
    )  # fmt: skip

    def __init__(self, topic: str, backoff: Backoff, operation_timeout: float, *, tls: bool) -> None:
        super().__init__()
        self.connection = 0
        self._was_bound = False
        self.topic = topic
        self._backoff = backoff
        self._operation_timeout = operation_timeout
        self._tls = tls
        self._attempt = 0
        self._awaited = False
        self._assigned = ""
        self._cluster_url: str | None = None
        self._last_error: PulsarException | None = None
        self._over: PulsarException = AlreadyClosed(f"the {self.kind} is closed")

    @property
    def kind(self) -> str:
        """What it is, in errors: a producer or a consumer."""
        return self.running.chart.name

    @property
    def ending(self) -> PulsarException:
        """Tell what it ends with, or will, as far as is known."""
        return self._over

    @property
    @abstractmethod
    def is_bound(self) -> bool:
        """Tell whether the broker has accepted it, on a connection that stands."""

    @abstractmethod
    def attaching(self) -> Effects:
        """Prepare for the connection that is asked for next."""

    @abstractmethod
    def unbound(self, now: float) -> None:
        """Take note that nothing can be sent for the time being."""

    @abstractmethod
    def close_request(self) -> CloseCommand:
        """Make the command that closes any binding."""

    @abstractmethod
    def fail_calls(self, error: PulsarException) -> Effects:
        """Fail what cannot end well once closing has begun."""

    @abstractmethod
    def fail_leftovers(self, error: PulsarException) -> Effects:
        """Fail what had hope until the end."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Drop answers to earlier questions, and whatever comes over an earlier connection."""
        attempt: int = getattr(event, "attempt", self._attempt)
        connection: int = getattr(event, "connection", self.connection)
        if attempt != self._attempt or connection != self.connection:
            return []
        return super().handle(event, now)

    def blame(self, error: PulsarException) -> None:
        """Remember what went wrong, for whoever waits and may do so in vain."""
        self._last_error = error

    # Getting bound.

    def start(self, event: Open, now: float) -> Effects:
        """Start the user's clock and look up."""
        self._awaited = True
        return [self.timers.start(CreationTimedOut, self._operation_timeout), self._look_up()]

    def attach_looked_up(self, event: LookedUp, now: float) -> Effects:
        """Go where the lookup says."""
        return self._attach(event.broker)

    def is_final(self, event: Failure, now: float) -> bool:
        """Hold for errors that trying again would not cure: many for a first creation, few after it."""
        error, looked_up = event.error, isinstance(event, LookupFailed)
        if isinstance(error, CertificateRefused):
            return not self._was_bound
        if not isinstance(error, BrokerRefusal):
            may_be = looked_up or isinstance(error, InvalidArgument)
            return may_be and not self._was_bound and not isinstance(error, (OutcomeUnknown, ConnectError))
        meaning = meaning_of(error)
        if self._was_bound:
            return meaning.once_created is Verdict.FAIL
        return (meaning.lookup if looked_up else meaning.first_creation) is Verdict.FAIL

    def note_failure(self, event: LookupStumbled, now: float) -> Effects:
        """Have something to say if time is up before the lookup has ended."""
        self.blame(event.error)
        return []

    def end_refused(self, event: Failure, now: float) -> Effects:
        """Pass the error on to everybody who waits."""
        return self._end(event.error)

    def back_off(self, event: Failure, now: float) -> Effects:
        """Pause before looking up again."""
        self.blame(event.error)
        return [self._pause(now)]

    def let_go_refused(self, event: Failure, now: float) -> Effects:
        """Keep the connection for others, and pause before looking up again."""
        return [Detach(self.connection), *self.back_off(event, now)]

    def look_up_again(self, event: RetryDue, now: float) -> Effects:
        """Look up anew: the topic may have moved."""
        return [self._look_up()]

    def let_go(self, event: Event, now: float) -> Effects:
        """Keep the connection for others, and pause before looking up again."""
        return [Detach(self.connection), self._pause(now)]

    def let_go_closed(self, event: BrokerClosed, now: float) -> Effects:
        """Likewise."""
        self.blame(self._closed_by_broker())
        return self.let_go(event, now)

    # A request that was given up.

    def close_first(self, event: Event, now: float) -> Effects:
        """Have the broker forget what it may yet do."""
        self.blame(Timeout(f"the broker has not answered in time to the creation of the {self.kind}"))
        return [self._ask_to_close()]

    def close_first_then_move(self, event: BrokerClosed, now: float) -> Effects:
        """Close too: our own request is still unanswered. The assigned broker comes after."""
        self.blame(self._closed_by_broker())
        return [*self.note_broker(event, now), self._ask_to_close()]

    def close_first_then_migrate(self, event: Migrated, now: float) -> Effects:
        """Leave nothing behind in the old cluster."""
        return [*self.note_cluster(event, now), self._ask_to_close()]

    def note_broker(self, event: BrokerClosed, now: float) -> Effects:
        """Remember where to go later. The broker's close is never answered."""
        self._assigned = self._broker_in(event.command) or self._assigned
        return []

    def note_cluster(self, event: Migrated, now: float) -> Effects:
        """From now on, look up there."""
        self._cluster_url = self._cluster_in(event.command)
        self._assigned = ""
        return []

    def tells_a_cluster(self, event: Migrated, now: float) -> bool:
        """Hold when the broker gives a URL of our kind. If not, the close that it sends next is what counts."""
        return bool(self._cluster_in(event.command))

    def was_told_a_broker(self, event: Event, now: float) -> bool:
        """Hold when the broker said who serves the topic now."""
        return bool(self._assigned)

    def attach_assigned(self, event: Event, now: float) -> Effects:
        """Go there without a lookup."""
        return [Detach(self.connection), *self._attach(self._assigned)]

    def drop_unanswering(self, event: CloseTimedOut, now: float) -> Effects:
        """End the connection; a new one owes no close."""
        return self._drop(self._close_timeout(), now)

    # Bound.

    def tells_a_broker(self, event: BrokerClosed, now: float) -> bool:
        """Hold when the broker says who serves the topic now."""
        return bool(self._broker_in(event.command))

    def move(self, event: BrokerClosed, now: float) -> Effects:
        """Go there without a lookup."""
        self.blame(self._closed_by_broker())
        self.unbound(now)
        return [Detach(self.connection), *self._attach(self._broker_in(event.command))]

    def migrate(self, event: Migrated, now: float) -> Effects:
        """Look up in the new cluster."""
        self.note_cluster(event, now)
        self.unbound(now)
        return [Detach(self.connection), self._look_up()]

    # Whether bound or not.

    def drop_misanswering(self, event: Misanswered, now: float) -> Effects:
        """End the connection: who can tell what else the broker mixes up."""
        question, answer = event.question.__name__, type(event.answer).__name__
        error = ConnectionLost(f"the broker broke the protocol: it answered {question} with {answer}")
        self.blame(error)
        return [DropConnection(self.connection, error)]

    # The end.

    def stop_trying(self, event: CreationTimedOut, now: float) -> Effects:
        """Tell the user that time is up; nothing is left at a broker."""
        return self._end(self._creation_timeout())

    def give_up_asking(self, event: CreationTimedOut, now: float) -> Effects:
        """Tell the user now, and see to it that nothing is left at the broker."""
        return [*self.give_up_waiting(event, now), self._ask_to_close()]

    def give_up_waiting(self, event: CreationTimedOut, now: float) -> Effects:
        """Tell the user now; the close is on its way."""
        self._over = self._creation_timeout()
        return self._fail_everything()

    def end_unbound(self, event: Close, now: float) -> Effects:
        """There is nothing to close at a broker."""
        return self._end(None)

    def abandon(self, event: Close, now: float) -> Effects:
        """Close what the broker may still make of a request without an answer."""
        return [*self._fail_everything(), self._ask_to_close()]

    def await_close(self, event: Close, now: float) -> Effects:
        """Wait: the close is on its way already."""
        return self._fail_everything()

    def end_without_goodbye(self, event: EndAtOnce, now: float) -> Effects:
        """Leave the broker to find out; what it was asked, it may have done."""
        return self._end(event.error)

    def end_closed(self, event: CloseAnswered | Detached, now: float) -> Effects:
        """End, now that the broker has let go; a binding ends with its connection, too."""
        return self._end(None)

    def end_unanswered(self, event: CloseTimedOut, now: float) -> Effects:
        """End, though the broker may keep the binding until the connection ends: what waited for it is told so.

        Whoever comes later is told that it is closed. A Timeout would have a loop of `receive` go on for ever.
        """
        late = self._close_timeout()
        return [*self.fail_calls(late), *self.fail_leftovers(late), *self._end(None)]

    def _next_attempt(self) -> int:
        self._attempt += 1
        return self._attempt

    def _look_up(self) -> LookUp:
        return LookUp(self._next_attempt(), self.topic, self._cluster_url)

    def _attach(self, broker: object) -> Effects:
        self._assigned = ""
        self.connection += 1
        return [*self.attaching(), Attach(self.connection, broker)]

    def _accepted(self) -> bool:
        """Begin a binding, and tell whether the user waits to hear of it."""
        awaited, self._awaited, self._was_bound = self._awaited, False, True
        self.timers.stop(CreationTimedOut)
        return awaited

    def _pause(self, now: float) -> Effect:
        self._assigned = ""
        self.unbound(now)
        return self.timers.start(RetryDue, self._backoff.next_delay())

    def _drop(self, error: PulsarException, now: float) -> Effects:
        self.blame(error)
        return [DropConnection(self.connection, error), self._pause(now)]

    def _ask_to_close(self) -> AskToClose:
        return AskToClose(self._next_attempt(), self.close_request(), self._operation_timeout)

    def _broker_in(self, command: CloseCommand) -> str:
        plain, encrypted = command.assignedBrokerServiceUrl, command.assignedBrokerServiceUrlTls
        return address_of_our_kind(plain, encrypted, tls=self._tls)

    def _cluster_in(self, command: CommandTopicMigrated) -> str:
        return address_of_our_kind(command.brokerServiceUrl, command.brokerServiceUrlTls, tls=self._tls)

    def _creation_timeout(self) -> Timeout:
        seconds, stage = self._operation_timeout, f"still {self.state.name}{after(self._last_error)}"
        return Timeout(f"the {self.kind} could not be created within {seconds:g} s: {stage}")

    def _closed_by_broker(self) -> ConnectionLost:
        return ConnectionLost(f"the broker closed the {self.kind}")

    def _close_timeout(self) -> Timeout:
        return Timeout(f"the broker has not answered in time to the close of the {self.kind}")

    def _fail_everything(self) -> Effects:
        creation = [CreationFailed(self._over)] if self._awaited else []
        self._awaited = False
        return [*creation, *self.fail_calls(self._over)]

    def _end(self, error: PulsarException | None) -> Effects:
        if error is not None:
            self._over = error
        failed = [*self._fail_everything(), *self.fail_leftovers(self._over)]
        return [*failed, Detach(self.connection), Ended(error)]
