"""The seek and unsubscribe calls of a consumer. One of them runs at a time.

To seek in a persistent topic, a broker closes its consumers. The position to subscribe again from depends on whether
the seek succeeds, so its answer is awaited first; the seek is done when the consumer is bound again. If the connection
ends before the answer, nobody knows whether the seek took effect. The call fails saying so and the consumer goes on. It
does not seek again by itself, since others may have moved the subscription meanwhile.

An unsubscribe is treated in the same way, except that its late answer still counts: the caller is told that the outcome
is unknown, but a consumer without its subscription gets nothing any longer and has to end.

A broker that is about to give the topic away may have forgotten the consumer already, and then answers that it finds
none. Nothing was done then, and the call is made again with the next binding.

A call without a binding waits for the next one. It fails when its time limit is over, and so does a seek that is done
but for the binding. A call that was never sent fails with a ConnectError: it was not done, and may be repeated. The
error of a call that ran out of time names what went wrong last meanwhile.
"""

from enum import Enum, unique
from typing import Final, NamedTuple

from pulsar_actors.exceptions import (
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    OutcomeUnknown,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler import ConnectionHandler
from pulsar_actors.machines.connection_handler_events import Fail
from pulsar_actors.machines.consumer_events import (
    AskToSeek,
    AskToUnsubscribe,
    Bound,
    CallTimedOut,
    Closing,
    ConsumerCallDone,
    FlushAcks,
    Seek,
    SeekAnswered,
    SeekFailed,
    SeekRefused,
    SeekSent,
    Sought,
    Unbound,
    Unsubscribe,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.deliveries import Deliveries
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.entry_map import LONGEST_WAIT
from pulsar_actors.machines.trackers.server_errors import is_consumer_not_found, last_failure_text
from pulsar_actors.machines.trackers.start_message_id import seek_command, seek_fault
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandUnsubscribe


@unique
class State(Enum):
    """The states of a consumer's call."""

    NONE = "No call runs."
    KEPT = "A call waits for the next binding."
    SEEKING = "SEEK is sent; the broker has to answer, and may close the consumer before."
    SOUGHT = "The broker has sought; the seek is done once the consumer is bound again."
    UNSUBSCRIBING = "UNSUBSCRIBE is sent; the broker may still refuse."
    UNSUBSCRIBING_LATE = "The caller of an unsubscribe has waited in vain; the answer may still come."
    OVER = "The consumer is closing or closed."


NONE, KEPT, SEEKING, SOUGHT, UNSUBSCRIBING, UNSUBSCRIBING_LATE, OVER = State

SENT: Final = (SEEKING, UNSUBSCRIBING)
ANY_UNSUBSCRIBING: Final = (UNSUBSCRIBING, UNSUBSCRIBING_LATE)
RUNNING: Final = (KEPT, SEEKING, SOUGHT, UNSUBSCRIBING)
REBINDING: Final = (NONE, KEPT, SOUGHT)

# fmt: off
ROWS: Final = (
    #   trigger              source              dest                guard                     does
    Row(Seek,                REBINDING,          INTERNAL,           "has_invalid_target",     "refuse_target"),
    Row(Seek,                NONE,               SEEKING,            "is_bound",               "send_seek"),
    Row(Seek,                NONE,               KEPT,               None,                     "keep"),
    Row(Unsubscribe,         NONE,               UNSUBSCRIBING,      "is_bound",               "send_unsubscribe"),
    Row(Unsubscribe,         NONE,               KEPT,               None,                     "keep"),
    Row(Bound,               KEPT,               SEEKING,            "keeps_a_seek",           "send_kept_seek"),
    Row(Bound,               KEPT,               UNSUBSCRIBING,      None,                     "send_kept_unsubscribe"),
    Row(CallTimedOut,        KEPT,               NONE,               None,                     "fail_unsent"),

    # Seek.
    Row(SeekAnswered,        SEEKING,            NONE,               "is_bound",               "finish_seek"),
    Row(SeekAnswered,        SEEKING,            SOUGHT,             None,                     "await_binding"),
    Row(SeekFailed,          SEEKING,            KEPT,               "broker_forgot_consumer", "keep_again"),
    Row(SeekFailed,          SEEKING,            NONE,               None,                     "fail_seek"),
    Row(Bound,               SOUGHT,             NONE,               None,                     "finish"),
    Row(CallTimedOut,        SOUGHT,             NONE,               None,                     "fail_unbound"),

    # Unsubscribe.
    Row(UnsubscribeAnswered, UNSUBSCRIBING,      OVER,               None,                     "finish"),
    Row(UnsubscribeAnswered, UNSUBSCRIBING_LATE, OVER),
    Row(UnsubscribeFailed,   UNSUBSCRIBING,      KEPT,               "broker_forgot_consumer", "keep_again"),
    Row(UnsubscribeFailed,   UNSUBSCRIBING,      NONE,               None,                     "fail"),
    Row(UnsubscribeFailed,   UNSUBSCRIBING_LATE, NONE),
    Row(CallTimedOut,        UNSUBSCRIBING,      UNSUBSCRIBING_LATE, None,                     "fail_unanswered"),
    Row(Unsubscribe,         UNSUBSCRIBING_LATE, UNSUBSCRIBING,      None,                     "await_answer"),

    # A second call, a lost binding, and the end.
    Row(Seek,                (*RUNNING, UNSUBSCRIBING_LATE), INTERNAL, None,                   "refuse_second"),
    Row(Unsubscribe,         RUNNING,            INTERNAL,           None,                     "refuse_second"),
    Row(Unbound,             SENT,               NONE,               None,                     "fail_lost"),
    Row(Unbound,             UNSUBSCRIBING_LATE, NONE),
    Row(Closing,             KEPT,               OVER,               None,                     "fail_unsent_at_end"),
    Row(Closing,             (*SENT, SOUGHT),    OVER,               None,                     "fail_in_doubt"),
    Row(Closing,             (NONE, UNSUBSCRIBING_LATE), OVER),
    Row(Seek,                OVER,               INTERNAL,           None,                     "turn_away"),
    Row(Unsubscribe,         OVER,               INTERNAL,           None,                     "turn_away"),
)

IGNORES: Final = (
    Ignore(Bound, NONE),
    Ignore(Unbound, (*REBINDING, OVER)),
    Ignore(Closing, OVER),
    # Too late to mean anything; the request of a seek has a time limit of its own.
    Ignore((SeekAnswered, SeekFailed), (*REBINDING, *ANY_UNSUBSCRIBING, OVER)),
    Ignore((UnsubscribeAnswered, UnsubscribeFailed), (*REBINDING, SEEKING, OVER)),
    Ignore(CallTimedOut, (NONE, SEEKING, UNSUBSCRIBING_LATE, OVER)),
)
# fmt: on

INNER: Final = (Bound, Unbound, Closing)

CHART: Final = Chart(
    "consumer_seek_unsubscribe",
    states=State,
    initial=NONE,
    final=(OVER,),
    ours=(*INNER, Seek, Unsubscribe),
    rows=ROWS,
    ignores=IGNORES,
)


class ConsumerCall(NamedTuple):
    """A seek or an unsubscribe, its time limit, and what went wrong last since it was made, or kept it from leaving."""

    request: Seek | Unsubscribe
    deadline: float
    failure: PulsarException | None = None

    @property
    def name(self) -> str:
        """Its name in errors."""
        return type(self.request).__name__.lower()


class SeekAndUnsubscribe(StateMachine, chart=CHART, current=("attempt",)):
    """The seek or unsubscribe of one consumer: the guards and actions in the chart's order."""

    __slots__ = ("_call", "_consumer_id", "_deliveries", "_handler", "attempt")

    def __init__(self, handler: ConnectionHandler, consumer_id: int, deliveries: Deliveries) -> None:
        super().__init__(handler.timers)
        self.attempt = 0
        self._handler = handler
        self._consumer_id = consumer_id
        self._deliveries = deliveries
        self._call: ConsumerCall | None = None  # in every state but NONE, UNSUBSCRIBING_LATE and OVER

    def note_error(self, error: PulsarException) -> None:
        """Remember the error for the call that runs."""
        if self._call is not None:
            self._call = self._call._replace(failure=error)

    def has_invalid_target(self, event: Seek, now: float) -> bool:
        """Check for a target that no topic has."""
        return seek_fault(event.target) is not None

    def refuse_target(self, event: Seek, now: float) -> Effects:
        """Fail the seek, and name what is wrong with its target."""
        problem = seek_fault(event.target)
        assert problem is not None  # noqa: S101 - the guard has looked
        return [Fail(event.token, problem)]

    def is_bound(self, event: Seek | Unsubscribe | SeekAnswered, now: float) -> bool:
        """Check whether there is a binding."""
        return self._handler.is_bound

    def send_seek(self, event: Seek, now: float) -> Effects:
        """Send the acknowledgements that are held, then SEEK."""
        return self._send_seek(ConsumerCall(event, now + self._handler.operation_timeout), now)

    def keep(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Keep the call for the next binding; its time limit runs."""
        handler = self._handler
        return self._await(ConsumerCall(event, now + handler.operation_timeout, handler.last_error), now)

    def send_unsubscribe(self, event: Unsubscribe, now: float) -> Effects:
        """Send the acknowledgements that are held, then UNSUBSCRIBE."""
        return self._send_unsubscribe(ConsumerCall(event, now + self._handler.operation_timeout), now)

    def keeps_a_seek(self, event: Bound, now: float) -> bool:
        """Check whether the call that waits is a seek."""
        return isinstance(self._running.request, Seek)

    def send_kept_seek(self, event: Bound, now: float) -> Effects:
        """Send the seek that has waited."""
        return self._send_seek(self._running, now)

    def send_kept_unsubscribe(self, event: Bound, now: float) -> Effects:
        """Send the unsubscribe that has waited."""
        return self._send_unsubscribe(self._running, now)

    def fail_unsent(self, event: CallTimedOut, now: float) -> Effects:
        """Fail the call as not done, and name what there was instead of a binding."""
        return self._fail(
            ConnectError(f"the {self._running.name} of {self._handler.topic} was not sent in time: {self._where()}")
        )

    # Seek.

    def finish_seek(self, event: SeekAnswered, now: float) -> Effects:
        """Start again at the target on the same binding: this broker closed nothing."""
        return [*self._sought(now), *self._done()]

    def await_binding(self, event: SeekAnswered, now: float) -> Effects:
        """Start again at the target with the next binding."""
        return [*self._sought(now), *self._await(self._running, now)]

    def broker_forgot_consumer(self, event: SeekFailed | UnsubscribeFailed, now: float) -> bool:
        """Check whether the broker has no such consumer any longer, and so did nothing."""
        return is_consumer_not_found(event.error)

    def keep_again(self, event: SeekFailed | UnsubscribeFailed, now: float) -> Effects:
        """Make the call again with the next binding."""
        return self._await(self._running, now)

    def fail_seek(self, event: SeekFailed, now: float) -> Effects:
        """Go on at the old position."""
        return [*self._deliveries.handle(SeekRefused(), now), *self._fail(self._with_failure(event.error))]

    def finish(self, event: Bound | UnsubscribeAnswered, now: float) -> Effects:
        """Complete the call."""
        return self._done()

    def fail_unbound(self, event: CallTimedOut, now: float) -> Effects:
        """Fail a seek that is done but for the binding."""
        what = f"the {self._running.name} of {self._handler.topic} is done"
        return self._fail(Timeout(f"{what}, but there was no new subscription in time: {self._where()}"))

    # Unsubscribe.

    def fail(self, event: UnsubscribeFailed, now: float) -> Effects:
        """Go on as if nothing had been asked. Subscribing again would bring back what an unsubscribe has deleted."""
        return self._fail(self._with_failure(event.error))

    def fail_unanswered(self, event: CallTimedOut, now: float) -> Effects:
        """Fail the call with an unknown outcome. The answer may still come, and counts then."""
        failure = last_failure_text(self._running.failure)
        return self._fail(Timeout(self._in_doubt(f"the broker has not answered in time{failure}")))

    def await_answer(self, event: Unsubscribe, now: float) -> Effects:
        """Wait for the answer that the caller before has not waited for to the end."""
        return self._await(ConsumerCall(event, now + self._handler.operation_timeout), now)

    # A second call, a lost binding, and the end.

    def refuse_second(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Fail a call while another runs."""
        name = "unsubscribe" if self._call is None else self._call.name
        return [Fail(event.token, InvalidArgument(f"a running {name} has to end first: wait for it"))]

    def fail_lost(self, event: Unbound, now: float) -> Effects:
        """Fail the call with an unknown outcome, and go on."""
        return self._fail(ConnectionLost(self._in_doubt(event.reason)))

    def fail_unsent_at_end(self, event: Closing, now: float) -> Effects:
        """Fail a call that was not done."""
        return self._fail(event.error)

    def fail_in_doubt(self, event: Closing, now: float) -> Effects:
        """Fail a call that may have been done."""
        return self._fail(OutcomeUnknown(self._in_doubt(str(event.error))))

    def turn_away(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Fail a call after the end."""
        return [Fail(event.token, self._handler.ending)]

    @property
    def _running(self) -> ConsumerCall:
        assert self._call is not None  # noqa: S101 - the states that come here have a call
        return self._call

    def _send_seek(self, call: ConsumerCall, now: float) -> Effects:
        self._call = call
        acks = self._deliveries.handle(SeekSent(), now)
        command = seek_command(self._consumer_id, self._target, self._deliveries.trackers.acks.largest_batch)
        self.attempt = self._handler.next_attempt()
        return [*acks, AskToSeek(self.attempt, command, max(0.0, call.deadline - now))]

    def _send_unsubscribe(self, call: ConsumerCall, now: float) -> Effects:
        assert isinstance(call.request, Unsubscribe)  # noqa: S101 - a seek is sent elsewhere
        acks = self._deliveries.handle(FlushAcks(), now)
        command = CommandUnsubscribe(consumer_id=self._consumer_id, force=call.request.force)
        self.attempt = self._handler.next_attempt()
        return [*acks, AskToUnsubscribe(self.attempt, command, LONGEST_WAIT), *self._await(call, now)]

    def _sought(self, now: float) -> Effects:
        return self._deliveries.handle(Sought(self._target), now)

    @property
    def _target(self) -> MessageId | int:
        request = self._running.request
        assert isinstance(request, Seek)  # noqa: S101 - the states that come here have a seek
        return request.target

    def _await(self, call: ConsumerCall, now: float) -> Effects:
        """Remember the call, and start the timer that ends its caller's wait."""
        self._call = call
        return [self.timers.start(CallTimedOut, max(0.0, call.deadline - now))]

    def _where(self) -> str:
        return f"the consumer is {self._handler.state_name}{last_failure_text(self._running.failure)}"

    def _in_doubt(self, reason: str) -> str:
        return f"the {self._running.name} may have taken effect, or not: {reason}"

    def _with_failure(self, error: PulsarException) -> PulsarException:
        """Add the last failure to an error that tells only that time is up; a refusal needs none."""
        failure = last_failure_text(self._running.failure)
        return Timeout(f"{error}{failure}") if failure and isinstance(error, Timeout) else error

    def _done(self) -> Effects:
        return [ConsumerCallDone(self._end_call())]

    def _fail(self, error: PulsarException) -> Effects:
        return [Fail(self._end_call(), error)]

    def _end_call(self) -> object:
        """End the call and return its token."""
        self.timers.stop(CallTimedOut)
        token, self._call = self._running.request.token, None
        return token
