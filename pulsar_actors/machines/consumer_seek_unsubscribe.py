"""The seek and unsubscribe calls of a consumer. One of them runs at a time.

For a seek in a persistent topic, a broker closes the consumer. The position for the next SUBSCRIBE depends on the
success of the seek, so the answer is awaited first. The seek is done when the consumer is bound again. If the
connection ends before the answer, the outcome of the seek is unknown. The call fails with an error that says so, and
the consumer goes on. It does not repeat the seek, because others may have moved the subscription meanwhile. It drops
what it has to acknowledge: the broker would take it for messages that the seek has brought back. An answer that does
not come in time leaves the outcome unknown, too. `consumer.py` then closes the connection.

An unsubscribe is handled in the same way, but a late answer still counts. The caller has been told by then that the
outcome is unknown; the consumer ends, because without its subscription it would get no messages. It does not subscribe
again meanwhile: that could create a deleted subscription again, which its user wanted to be rid of.

A call after that does not wait for the late answer, which may be lost. It closes the connection, so that no late answer
comes, and is sent with the next binding. If the subscription was deleted, it is created again. A second unsubscribe
deletes that one, and so knows that it is gone. An unsubscribe is also done if a broker answers SubscriptionNotFound, to
it or to a SUBSCRIBE that may not create the subscription.

A broker that is unloading the topic may have removed the consumer already, and then answers "Consumer not found". It
has done nothing, and the call is sent again with the next binding.

A call without a binding waits for the next one, and fails when its time limit is over. So does a seek that has
succeeded, if there is no new binding in time. A call that was never sent fails with a ConnectError: it was not done,
and may be repeated. The error of a call that timed out names the last failure meanwhile.

A seek that is not complete when the topic goes to another cluster is sent there, to EARLIEST, LATEST or a time. One to
a message fails, because the message stays in the former cluster.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import (
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    OutcomeUnknown,
    PulsarException,
    SubscriptionNotFound,
    Timeout,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler import ConnectionHandler
from pulsar_actors.machines.connection_handler_events import DropConnection, Fail
from pulsar_actors.machines.consumer_acks import ConsumerAcks
from pulsar_actors.machines.consumer_events import (
    AskToSeek,
    AskToUnsubscribe,
    Bound,
    CallTimedOut,
    Closing,
    ClusterLeft,
    ConsumerCallDone,
    FlushAcks,
    Seek,
    SeekAnswered,
    SeekFailed,
    SeekInDoubt,
    SeekRefused,
    SeekSent,
    SeekTimedOut,
    Sought,
    Unbound,
    Unsubscribe,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.consumer_messages import ConsumerMessages
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.entry_map import LONGEST_WAIT
from pulsar_actors.machines.trackers.server_errors import is_consumer_not_found, last_failure_text
from pulsar_actors.machines.trackers.start_message_id import is_message, seek_command
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandUnsubscribe


@unique
class State(Enum):
    """The states of a consumer's call."""

    IDLE = "No call is running."
    QUEUED = "A call waits for the next binding."
    SEEKING = "SEEK is sent; the broker has to answer, and may close the consumer before."
    SOUGHT = "The seek has succeeded; it is done when the consumer is registered again."
    UNSUBSCRIBING = "UNSUBSCRIBE is sent; the broker may still refuse."
    UNSUBSCRIBING_LATE = "The caller of an unsubscribe has got a timeout; the answer may still come."
    OVER = "The consumer is closing or closed."


IDLE, QUEUED, SEEKING, SOUGHT, UNSUBSCRIBING, UNSUBSCRIBING_LATE, OVER = State

SENT: Final = (SEEKING, UNSUBSCRIBING)
ANY_UNSUBSCRIBING: Final = (UNSUBSCRIBING, UNSUBSCRIBING_LATE)
AWAITED: Final = (QUEUED, SEEKING, SOUGHT, UNSUBSCRIBING)
REBINDING: Final = (IDLE, QUEUED, SOUGHT)

# fmt: off
ROWS: Final = (
    #   trigger              source              dest                guard                     does
    Row(Seek,                IDLE,               SEEKING,            "is_bound",               "send_seek"),
    Row(Seek,                IDLE,               QUEUED,             None,                     "queue_call"),
    Row(Unsubscribe,         IDLE,               UNSUBSCRIBING,      "is_bound",               "send_unsubscribe"),
    Row(Unsubscribe,         IDLE,               QUEUED,             None,                     "queue_call"),
    Row(Bound,               QUEUED,             SEEKING,            "a_seek_is_queued",       "unqueue_seek"),
    Row(Bound,               QUEUED,             UNSUBSCRIBING,      None,                     "unqueue_unsubscribe"),
    Row(CallTimedOut,        QUEUED,             IDLE,               None,                     "fail_unsent"),
    Row(ClusterLeft,         QUEUED,             IDLE,               "seeks_a_message",        "fail_unsendable"),

    # Seek.
    Row(SeekAnswered,        SEEKING,            IDLE,               "is_bound",               "finish_seek"),
    Row(SeekAnswered,        SEEKING,            SOUGHT,             None,                     "await_binding"),
    Row(SeekFailed,          SEEKING,            QUEUED,             "broker_forgot_consumer", "queue_again"),
    Row(SeekFailed,          SEEKING,            IDLE,               None,                     "fail_seek"),
    Row(SeekTimedOut,        SEEKING,            IDLE,               None,                     "fail_late_seek"),
    Row(Bound,               SOUGHT,             IDLE,               None,                     "complete_call"),
    Row(CallTimedOut,        SOUGHT,             IDLE,               None,                     "fail_unbound"),
    Row(ClusterLeft,         SOUGHT,             IDLE,               "seeks_a_message",        "fail_left_behind"),
    Row(ClusterLeft,         SOUGHT,             QUEUED,             None,                     "queue_again"),

    # Unsubscribe.
    Row(UnsubscribeAnswered, UNSUBSCRIBING,      OVER,               None,                     "complete_call"),
    Row(UnsubscribeAnswered, UNSUBSCRIBING_LATE, OVER),
    Row(UnsubscribeFailed,   UNSUBSCRIBING,      QUEUED,             "broker_forgot_consumer", "queue_again"),
    Row(UnsubscribeFailed,   UNSUBSCRIBING,      OVER,               "is_unsubscribed",        "complete_call"),
    Row(UnsubscribeFailed,   UNSUBSCRIBING,      IDLE,               None,                     "fail"),
    Row(UnsubscribeFailed,   UNSUBSCRIBING_LATE, IDLE),
    Row(CallTimedOut,        UNSUBSCRIBING,      UNSUBSCRIBING_LATE, None,                     "fail_unanswered"),
    Row(Seek,                UNSUBSCRIBING_LATE, QUEUED,             None,                     "drop_and_queue"),
    Row(Unsubscribe,         UNSUBSCRIBING_LATE, QUEUED,             None,                     "drop_and_queue"),

    # A second call, a lost binding, and the end.
    Row(Seek,                AWAITED,            INTERNAL,           None,                     "refuse_second"),
    Row(Unsubscribe,         AWAITED,            INTERNAL,           None,                     "refuse_second"),
    Row(Unbound,             SEEKING,            IDLE,               None,                     "fail_lost_seek"),
    Row(Unbound,             UNSUBSCRIBING,      IDLE,               None,                     "fail_lost"),
    Row(Unbound,             UNSUBSCRIBING_LATE, IDLE),
    Row(Closing,             QUEUED,             OVER,               "is_unsubscribed",        "complete_call"),
    Row(Closing,             QUEUED,             OVER,               None,                     "fail_unsent_at_end"),
    Row(Closing,             (*SENT, SOUGHT),    OVER,               None,                     "fail_in_doubt"),
    Row(Closing,             (IDLE, UNSUBSCRIBING_LATE), OVER),
    Row(Seek,                OVER,               INTERNAL,           None,                     "fail_call_after_end"),
    Row(Unsubscribe,         OVER,               INTERNAL,           None,                     "fail_call_after_end"),
)

IGNORES: Final = (
    Ignore(Bound, IDLE),
    Ignore(Unbound, (*REBINDING, OVER)),
    Ignore(ClusterLeft, (IDLE, *SENT, UNSUBSCRIBING_LATE, OVER)),
    Ignore(ClusterLeft, QUEUED),  # it is sent in the new cluster
    Ignore(Closing, OVER),
    # Too late; the request of a seek has its own time limit.
    Ignore((SeekAnswered, SeekFailed, SeekTimedOut), (*REBINDING, *ANY_UNSUBSCRIBING, OVER)),
    Ignore((UnsubscribeAnswered, UnsubscribeFailed), (*REBINDING, SEEKING, OVER)),
    Ignore(CallTimedOut, (IDLE, SEEKING, UNSUBSCRIBING_LATE, OVER)),
)
# fmt: on

CHART: Final = Chart(
    "consumer_seek_unsubscribe",
    states=State,
    initial=IDLE,
    final=(OVER,),
    ours=(Seek, Unsubscribe),
    rows=ROWS,
    ignores=IGNORES,
    inner=(Bound, Unbound, ClusterLeft, Closing),
)


class ConsumerCall(NamedTuple):
    """A seek or an unsubscribe, its deadline, and the last failure since the call, or the one that delayed it."""

    request: Seek | Unsubscribe
    deadline: float
    failure: PulsarException | None = None

    @property
    def name(self) -> str:
        """The name of the call, for errors."""
        return type(self.request).__name__.lower()


class SeekAndUnsubscribe(StateMachine, chart=CHART, current=("attempt",)):
    """The seek or unsubscribe of one consumer: the guards and actions in the chart's order."""

    __slots__ = ("_acks", "_call", "_consumer_id", "_handler", "_messages", "attempt")

    def __init__(
        self, handler: ConnectionHandler, consumer_id: int, messages: ConsumerMessages, acks: ConsumerAcks
    ) -> None:
        super().__init__(handler)
        self.attempt = 0
        self._handler = handler
        self._consumer_id = consumer_id
        self._messages = messages
        self._acks = acks
        self._call: ConsumerCall | None = None  # in every state but IDLE, UNSUBSCRIBING_LATE and OVER

    def note_error(self, error: PulsarException) -> None:
        """Remember the error for the running call."""
        if self._call is not None:
            self._call = self._call._replace(failure=error)

    def is_bound(self, event: Seek | Unsubscribe | SeekAnswered, now: float) -> bool:
        """Return whether the consumer is bound."""
        return self._handler.is_bound

    def send_seek(self, event: Seek, now: float) -> Effects:
        """Send the acknowledgements that are held, then SEEK."""
        return self._send_seek(ConsumerCall(event, now + self._handler.operation_timeout), now)

    def queue_call(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Keep the call for the next binding; its time limit runs."""
        handler = self._handler
        return self._await(ConsumerCall(event, now + handler.operation_timeout, handler.last_error), now)

    def send_unsubscribe(self, event: Unsubscribe, now: float) -> Effects:
        """Send the acknowledgements that are held, then UNSUBSCRIBE."""
        return self._send_unsubscribe(ConsumerCall(event, now + self._handler.operation_timeout), now)

    def a_seek_is_queued(self, event: Bound, now: float) -> bool:
        """Return whether the call that waits is a seek."""
        return isinstance(self._running.request, Seek)

    def unqueue_seek(self, event: Bound, now: float) -> Effects:
        """Send the seek that has waited for a binding, maybe once more."""
        return self._send_seek(self._running, now)

    def unqueue_unsubscribe(self, event: Bound, now: float) -> Effects:
        """Send the unsubscribe that has waited."""
        return self._send_unsubscribe(self._running, now)

    def fail_unsent(self, event: CallTimedOut, now: float) -> Effects:
        """Fail the call as not done, and name the reason why there was no binding."""
        return self._fail(
            ConnectError(f"the {self._running.name} of {self._handler.topic} was not sent in time: {self._where()}")
        )

    def seeks_a_message(self, event: ClusterLeft, now: float) -> bool:
        """Return whether the call is a seek to a message, which has its id in the former cluster only."""
        request = self._running.request
        return isinstance(request, Seek) and is_message(request.target)

    def fail_unsendable(self, event: ClusterLeft, now: float) -> Effects:
        """Fail the seek as not done: there is no such message in the new cluster."""
        return self._fail(
            ConnectError(f"the {self._running.name} of {self._handler.topic} was not sent: {event.error}")
        )

    # Seek.

    def finish_seek(self, event: SeekAnswered, now: float) -> Effects:
        """Start again at the target with the same binding: this broker did not close the consumer."""
        return [*self._sought(now), *self._done()]

    def await_binding(self, event: SeekAnswered, now: float) -> Effects:
        """Start again at the target with the next binding."""
        return [*self._sought(now), *self._await(self._running, now)]

    def broker_forgot_consumer(self, event: SeekFailed | UnsubscribeFailed, now: float) -> bool:
        """Return whether the broker did not know the consumer any longer, and so did nothing."""
        return is_consumer_not_found(event.error)

    def queue_again(self, event: SeekFailed | UnsubscribeFailed | ClusterLeft, now: float) -> Effects:
        """Send the call again with the next binding."""
        return self._await(self._running, now)

    def fail_seek(self, event: SeekFailed, now: float) -> Effects:
        """Fail the seek, and go on at the old position."""
        return [*self._acks.handle(SeekRefused(), now), *self._fail(self._with_failure(event.error))]

    def fail_late_seek(self, event: SeekTimedOut, now: float) -> Effects:
        """Fail the seek with an unknown outcome, and go on without the acknowledgements from before it."""
        in_doubt = self._messages.handle(SeekInDoubt(str(event.error)), now)
        return [*in_doubt, *self._fail(self._with_failure(event.error))]

    def complete_call(self, event: Bound | UnsubscribeAnswered | UnsubscribeFailed | Closing, now: float) -> Effects:
        """Complete the call."""
        return self._done()

    def fail_unbound(self, event: CallTimedOut, now: float) -> Effects:
        """Fail a seek that has succeeded, but after which there was no binding in time."""
        what = f"the {self._running.name} of {self._handler.topic} is done"
        return self._fail(Timeout(f"{what}, but there was no new subscription in time: {self._where()}"))

    def fail_left_behind(self, event: ClusterLeft, now: float) -> Effects:
        """Fail a seek that was done in the former cluster only: there is no such message in the new one."""
        return self._fail(event.error)

    # Unsubscribe.

    def is_unsubscribed(self, event: UnsubscribeFailed | Closing, now: float) -> bool:
        """Return whether the call is an unsubscribe, and the subscription that it is to delete is gone."""
        return isinstance(self._running.request, Unsubscribe) and isinstance(event.error, SubscriptionNotFound)

    def fail(self, event: UnsubscribeFailed, now: float) -> Effects:
        """Fail the call."""
        return self._fail(self._with_failure(event.error))

    def fail_unanswered(self, event: CallTimedOut, now: float) -> Effects:
        """Fail the call with an unknown outcome. The answer may still come, and counts then."""
        failure = last_failure_text(self._running.failure)
        return self._fail(Timeout(self._in_doubt(f"the broker has not answered in time{failure}")))

    def drop_and_queue(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Give up the late answer with its connection, and keep the call for the next binding."""
        self.attempt = self._handler.next_attempt()
        error = Timeout("the broker has not answered in time to the unsubscribe")
        return [DropConnection(self._handler.connection, error), *self.queue_call(event, now)]

    # A second call, a lost binding, and the end.

    def refuse_second(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Fail a call while another runs."""
        return [Fail(event.token, InvalidArgument(f"a running {self._running.name} has to end first: wait for it"))]

    def fail_lost_seek(self, event: Unbound, now: float) -> Effects:
        """Fail the seek with an unknown outcome, and go on without the acknowledgements from before it."""
        return [*self._messages.handle(SeekInDoubt(event.reason), now), *self.fail_lost(event, now)]

    def fail_lost(self, event: Unbound, now: float) -> Effects:
        """Fail the call with an unknown outcome, and go on."""
        return self._fail(ConnectionLost(self._in_doubt(event.reason)))

    def fail_unsent_at_end(self, event: Closing, now: float) -> Effects:
        """Fail a call that was not done."""
        return self._fail(event.error)

    def fail_in_doubt(self, event: Closing, now: float) -> Effects:
        """Fail a call that may have been done."""
        return self._fail(OutcomeUnknown(self._in_doubt(str(event.error))))

    def fail_call_after_end(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Fail a call after the end."""
        return [Fail(event.token, self._handler.ending)]

    @property
    def _running(self) -> ConsumerCall:
        assert self._call is not None  # noqa: S101 - the states that come here have a call
        return self._call

    def _send_seek(self, call: ConsumerCall, now: float) -> Effects:
        self._call = call
        acks = self._acks.handle(SeekSent(), now)
        command = seek_command(self._consumer_id, self._target, self._messages.trackers.ack_grouping.largest_batch)
        self.attempt = self._handler.next_attempt()
        return [*acks, AskToSeek(self.attempt, command, max(0.0, call.deadline - now))]

    def _send_unsubscribe(self, call: ConsumerCall, now: float) -> Effects:
        assert isinstance(call.request, Unsubscribe)  # noqa: S101 - a seek is sent elsewhere
        acks = self._acks.handle(FlushAcks(), now)
        command = CommandUnsubscribe(consumer_id=self._consumer_id, force=call.request.force)
        self.attempt = self._handler.next_attempt()
        return [*acks, AskToUnsubscribe(self.attempt, command, LONGEST_WAIT), *self._await(call, now)]

    def _sought(self, now: float) -> Effects:
        return self._messages.handle(Sought(self._target), now)

    @property
    def _target(self) -> MessageId | int:
        request = self._running.request
        assert isinstance(request, Seek)  # noqa: S101 - the states that come here have a seek
        return request.target

    def _await(self, call: ConsumerCall, now: float) -> Effects:
        """Remember the call, and start its time limit."""
        self._call = call
        return [self.timers.start(CallTimedOut, max(0.0, call.deadline - now))]

    def _where(self) -> str:
        return f"the consumer is {self._handler.state_name}{last_failure_text(self._running.failure)}"

    def _in_doubt(self, reason: str) -> str:
        return f"the {self._running.name} may have taken effect, or not: {reason}"

    def _with_failure(self, error: PulsarException) -> PulsarException:
        """Add the last failure to a Timeout; other errors are returned unchanged."""
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
