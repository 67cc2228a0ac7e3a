"""The state machine of one consumer on one topic partition: from the first lookup to the close.

The chart here decides when to look up, when to subscribe, what a seek and an unsubscribe mean for the binding, and when
to fail. `connection_handler.py` has the rows and actions with which a consumer registers with a broker and loses it,
and explains *bound* and *binding*. Four parts have charts of their own: `consumer_messages.py`, `consumer_acks.py`, and
for calls `consumer_seek_unsubscribe.py` and `consumer_queries.py`. An event of a part goes to the part first. The chart
here tells the parts when a binding begins and ends, and when the consumer ends.

Before a consumer requests a connection, it drops the queued entries, because the next broker sends them again. The
event of the new connection has the id of the last opened entry: a reader resumes after it. For a durable subscription
the next broker also sends the opened messages again, so these are dropped, too. Of a non-persistent topic nothing
comes again, and nothing is dropped. A broker that has just accepted SUBSCRIBE has no permits; it gets those for the
room in the queue, once.

For a seek, a broker closes the consumer, and only its answer shows where to subscribe again: so the consumer waits in
SEEKING_UNBOUND. SUBSCRIBE can name a time as the start only roughly, and a reader would get messages from before it. So
after such a SUBSCRIBE the consumer sends SEEK to the time, and waits in PLACING, without permits and calls.

A broker closes the consumer for an UNSUBSCRIBE, too, and only then deletes the subscription. If that fails, the broker
refuses the UNSUBSCRIBE, and does not say that the consumer is closed. So after a refusal the consumer asks for the last
message of the topic: the answer shows if the broker still knows the consumer. If the answer to a query is "Consumer not
found", the consumer subscribes again. It sends CLOSE_CONSUMER first, as the answer may be for an earlier binding.

A reader that starts at LATEST, once bound, asks its broker for the last entry before its start. The creation is
complete for the user only after the answer. If the connection were lost before that, the reader would start again at a
later LATEST, and miss the messages between. So if the broker refuses to answer, the consumer is closed, and created
again.
"""

from enum import Enum, unique
from typing import ClassVar, Final

from pulsar_actors.exceptions import BrokerRefusal, ConnectionLost, PulsarException, SubscriptionNotFound
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Event, Ignore, Row
from pulsar_actors.machines.connection_handler import (
    ConnectionHandler,
    HandlerStates,
    handler_ignores,
    handler_rows,
)
from pulsar_actors.machines.connection_handler_events import (
    BrokerClosed,
    Close,
    CloseTimedOut,
    Detach,
    Detached,
    EndAtOnce,
    FirstCreationTimedOut,
    Open,
    TopicMigrated,
)
from pulsar_actors.machines.consumer_acks import ConsumerAcks
from pulsar_actors.machines.consumer_events import (
    ActiveConsumerChanged,
    AskToGetLastMessageId,
    AskToSeek,
    AskToSubscribe,
    Bound,
    Closing,
    ClusterLeft,
    ConsumerAttached,
    ConsumerOpened,
    Ended,
    FlushAcks,
    LastMessageIdAnswered,
    NotifyActiveConsumerChange,
    QueryFailed,
    SeekAnswered,
    SeekFailed,
    SeekTimedOut,
    Subscribed,
    Unbound,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.consumer_messages import ConsumerMessages
from pulsar_actors.machines.consumer_queries import ConsumerQueries
from pulsar_actors.machines.consumer_seek_unsubscribe import (
    ANY_UNSUBSCRIBING,
    SEEKING,
    SeekAndUnsubscribe,
)
from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.server_errors import RetryVerdict, is_consumer_not_found, meaning_of
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseConsumer,
    CommandGetLastMessageId,
    CommandSeek,
    CommandSubscribe,
)

LATEST_QUERY: Final = 0
"""The number of the query for the start of a reader. Those of callers are counted from 1."""

CHECK_QUERY: Final = -1
"""The number of the query that shows if the broker still knows the consumer."""


@unique
class State(Enum):
    """The states of a consumer's binding."""

    IDLE = "Created, but not opened yet."
    LOOKING_UP = "The broker that serves the topic is being found."
    CONNECTING = "The broker is known; a connection to it is awaited and the queue is cleared."
    SUBSCRIBING = "SUBSCRIBE is sent; the broker has to accept or refuse."
    PLACING = "Registered with a broker, at a rough time; SEEK moves the start to the exact one before messages come."
    FINDING_START = "Registered with a broker; a new reader asks for the last entry before its start."
    READY = "Registered with a broker: messages come as permits allow, and calls can be made."
    SEEKING_UNBOUND = "SEEK is sent and the broker has closed the consumer for it; the answer is awaited."
    CLOSE_PENDING = "A SUBSCRIBE got no answer; CLOSE_CONSUMER has to be answered before the next one."
    WAITING = "Something failed; after a pause the topic is looked up again."
    CLOSING = "Closed by the user, or after a timeout of the creation; CLOSE_CONSUMER is sent."
    CLOSED = "Closed by the user."
    FAILED = "Ended by an error that a retry cannot cure, such as a deleted topic or subscription."


(
    IDLE, LOOKING_UP, CONNECTING, SUBSCRIBING, PLACING, FINDING_START, READY, SEEKING_UNBOUND, CLOSE_PENDING, WAITING,
    CLOSING, CLOSED, FAILED,
) = State  # fmt: skip

FINAL: Final = (CLOSED, FAILED)
STATES: Final = HandlerStates(
    State,
    creating=(SUBSCRIBING,),
    placing=(PLACING,),
    unannounced=(FINDING_START,),
    paused=(SEEKING_UNBOUND,),
    final=FINAL,
)
UNATTACHED, WITHOUT_BINDING, WITH_BINDING, ENDING = (
    STATES.unattached, STATES.without_binding, STATES.bound, STATES.ending,
)  # fmt: skip

# fmt: off
ROWS: Final = (
    #   trigger                source           dest             guard                       does
    Row(ConsumerAttached,      CONNECTING,      SUBSCRIBING,     None,                       "ask_to_subscribe"),
    Row(Subscribed,            SUBSCRIBING,     CLOSING,         "is_leaving",               "send_kept_and_close"),
    Row(Subscribed,            SUBSCRIBING,     PLACING,         "starts_roughly",           "place_start"),
    Row(Subscribed,            SUBSCRIBING,     FINDING_START,   "has_unresolved_latest",    "bind_unannounced"),
    Row(Subscribed,            SUBSCRIBING,     READY,           None,                       "bind"),
    Row(SeekAnswered,          PLACING,         READY,           None,                       "bind_placed"),
    Row(SeekFailed,            PLACING,         CLOSE_PENDING,   None,                       "close_unplaced"),
    Row(SeekTimedOut,          PLACING,         CLOSE_PENDING,   None,                       "close_unplaced"),
    Row(BrokerClosed,          PLACING,         SEEKING_UNBOUND, None,                       "note_broker"),
    Row(LastMessageIdAnswered, FINDING_START,   READY,           "resolves_latest",          "resolve_and_announce"),
    Row(LastMessageIdAnswered, FINDING_START,   READY,           None,                       "announce"),
    Row(QueryFailed,           FINDING_START,   CLOSE_PENDING,   "may_find_start_later",     "close_to_subscribe"),
    Row(QueryFailed,           FINDING_START,   READY,           None,                       "announce"),
    Row(FirstCreationTimedOut, FINDING_START,   CLOSING,         None,                       "give_up_asking"),
    Row(LastMessageIdAnswered, READY,           INTERNAL,        "resolves_latest",          "resolve_latest"),
    Row(QueryFailed,           READY,           CLOSE_PENDING,   "is_forgotten",             "close_to_subscribe"),
    Row(ActiveConsumerChanged, (SUBSCRIBING, *STATES.registered), INTERNAL, "is_passed_over", "leave_the_rest"),
    Row(ActiveConsumerChanged, (SUBSCRIBING, *STATES.registered), INTERNAL, None,             "notify_activity"),

    # A seek or an unsubscribe.
    Row(BrokerClosed,          READY,           SEEKING_UNBOUND, "a_seek_is_sent",           "await_seek"),
    Row(BrokerClosed,          READY,           WAITING,         "an_unsubscribe_is_sent",   "release_after_close"),
    Row(BrokerClosed,          SEEKING_UNBOUND, INTERNAL,        None,                       "note_broker"),
    Row(SeekAnswered,          SEEKING_UNBOUND, CONNECTING,      "has_assigned_broker",      "attach_sought"),
    Row(SeekAnswered,          SEEKING_UNBOUND, LOOKING_UP,      None,                       "look_up_sought"),
    Row(SeekAnswered,          READY,           INTERNAL,        None,                       "ask_for_latest"),
    Row(SeekFailed,            READY,           WAITING,         "broker_forgot_consumer",   "release_after_refusal"),
    Row(SeekFailed,            SEEKING_UNBOUND, WAITING,         None,                       "release_after_refusal"),
    Row(SeekTimedOut,          (READY, SEEKING_UNBOUND), WAITING, None,                      "drop_unanswered_seek"),
    Row(UnsubscribeFailed,     READY,           WAITING,         "broker_forgot_consumer",   "release_after_refusal"),
    Row(UnsubscribeFailed,     READY,           CLOSED,          "is_unsubscribed",          "end_unsubscribed"),
    Row(UnsubscribeFailed,     READY,           INTERNAL,        None,                       "ask_if_known"),
    Row(UnsubscribeAnswered,   READY,           CLOSED,          None,                       "end_unsubscribed"),
    Row(TopicMigrated,         SEEKING_UNBOUND, LOOKING_UP,      "names_a_cluster",          "migrate"),
    Row(Detached,              SEEKING_UNBOUND, WAITING,         None,                       "back_off"),
    *handler_rows(STATES),
)

IGNORES: Final = (
    Ignore(ConsumerAttached,        (IDLE, LOOKING_UP, WAITING, *STATES.found, *ENDING)),
    Ignore(Subscribed,              (IDLE, *UNATTACHED, CLOSE_PENDING, *STATES.registered, SEEKING_UNBOUND, *ENDING)),
    Ignore(LastMessageIdAnswered,   (IDLE, *WITHOUT_BINDING, *ENDING)),
    Ignore(LastMessageIdAnswered,   READY),  # for a caller's query
    Ignore(QueryFailed,             (IDLE, *WITHOUT_BINDING, READY, *ENDING)),
    Ignore(ActiveConsumerChanged,   (IDLE, *UNATTACHED, CLOSE_PENDING, SEEKING_UNBOUND, *ENDING)),
    Ignore(SeekAnswered,            (IDLE, *UNATTACHED, SUBSCRIBING, CLOSE_PENDING, FINDING_START, *ENDING)),
    Ignore(SeekFailed,              (IDLE, *UNATTACHED, SUBSCRIBING, CLOSE_PENDING, *WITH_BINDING, *ENDING)),
    Ignore(SeekTimedOut,            (IDLE, *UNATTACHED, SUBSCRIBING, CLOSE_PENDING, FINDING_START, *ENDING)),
    Ignore(UnsubscribeFailed,       (IDLE, *WITHOUT_BINDING, FINDING_START, *ENDING)),
    Ignore(UnsubscribeAnswered,     (IDLE, *WITHOUT_BINDING, FINDING_START, *ENDING)),
    *handler_ignores(STATES),
)
# fmt: on

OURS: Final = (Open, Close, EndAtOnce)

CHART: Final = Chart("consumer", states=State, initial=IDLE, final=FINAL, ours=OURS, rows=ROWS, ignores=IGNORES)

# Events that are neither in a row nor ignored are for one of these.
PARTS: Final = {
    "messages": ConsumerMessages,
    "acks": ConsumerAcks,
    "calls": SeekAndUnsubscribe,
    "queries": ConsumerQueries,
}


class ConsumerSettings(NamedTuple):
    """The settings of a consumer or a reader. `command` has the user's options."""

    command: CommandSubscribe
    operation_timeout: float = 30.0
    persistent: bool = True
    is_reader: bool = False


class ConsumerMachine(ConnectionHandler, chart=CHART, parts=PARTS):
    """The guards and actions of the consumer's own rows, in the chart's order."""

    __slots__ = ("acks", "calls", "command", "messages", "queries")

    states: ClassVar = STATES

    def __init__(self, settings: ConsumerSettings, trackers: ConsumerTrackers, backoff: Backoff) -> None:
        command = settings.command
        super().__init__(command.topic, backoff, settings.operation_timeout)
        self.command = command
        self.acks = ConsumerAcks(self, command.consumer_id, trackers, persistent=settings.persistent)
        self.messages = ConsumerMessages(
            self,
            self.acks,
            command.consumer_id,
            trackers,
            persistent=settings.persistent,
            is_reader=settings.is_reader,
        )
        self.calls = SeekAndUnsubscribe(self, command.consumer_id, self.messages, self.acks)
        self.queries = ConsumerQueries(self, command.consumer_id)

    @property
    def state_name(self) -> str:
        """The name of the state, for errors. It names a running seek or unsubscribe, too."""
        if self.state is READY and self.calls.state is SEEKING:
            return "SEEKING"
        if self.state is READY and self.calls.state in ANY_UNSUBSCRIBING:
            return "UNSUBSCRIBING"
        return self.state.name

    def note_error(self, error: PulsarException) -> None:
        """Remember the last failure, also for callers that wait for a receipt or an answer.

        While the consumer is not bound, the topic may be moving, away from the broker that knows where a seek has gone.
        """
        super().note_error(error)
        self.messages.trackers.start.forget_position()
        self.acks.note_error(error)
        self.calls.note_error(error)
        self.queries.note_error(error)

    def close_request(self) -> CommandCloseConsumer:
        """Write CLOSE_CONSUMER."""
        return CommandCloseConsumer(consumer_id=self.command.consumer_id)

    # Getting bound.

    def ask_to_subscribe(self, event: ConsumerAttached, now: float) -> Effects:
        """Send SUBSCRIBE, with the epoch, and with the start position unless the broker keeps it."""
        start = self.messages.subscribe(event)
        command = CommandSubscribe()
        command.CopyFrom(self.command)
        command.consumer_epoch = self.messages.generation.epoch
        if start.message_id is not None:
            command.start_message_id.CopyFrom(start.message_id.to_data())
        if start.rollback_seconds:
            command.start_message_rollback_duration_sec = start.rollback_seconds
        return [AskToSubscribe(self.next_attempt(), command, self.operation_timeout)]

    def has_unresolved_latest(self, event: Subscribed, now: float) -> bool:
        """Return whether this is a new reader at LATEST, and the entry before its start is not known."""
        return self._awaited and self.messages.has_unresolved_latest

    def bind_unannounced(self, event: Subscribed, now: float) -> Effects:
        """Begin the binding, but do not complete the creation yet."""
        return self._bind(now)

    def bind(self, event: Subscribed, now: float) -> Effects:
        """Complete the creation, grant permits, and send the calls that wait."""
        return [*self._announce(), *self._bind(now)]

    def starts_roughly(self, event: Subscribed, now: float) -> bool:
        """Return whether SUBSCRIBE has named a time: the start may be up to a second before it."""
        return self.messages.trackers.start.is_rough

    def place_start(self, event: Subscribed, now: float) -> Effects:
        """Send SEEK to the time. The parts learn of the binding after the answer."""
        time = self.messages.trackers.start.time
        command = CommandSeek(consumer_id=self.command.consumer_id, message_publish_time=time)
        return [AskToSeek(self.next_attempt(), command, self.operation_timeout)]

    def bind_placed(self, event: SeekAnswered, now: float) -> Effects:
        """Begin the binding: this broker did not close the consumer for the SEEK."""
        return self._bind(now)

    def close_unplaced(self, event: SeekFailed | SeekTimedOut, now: float) -> Effects:
        """Close the consumer, to subscribe and send SEEK again."""
        self.note_error(event.error)
        return [self._ask_to_close(now)]

    def resolves_latest(self, event: LastMessageIdAnswered, now: float) -> bool:
        """Return whether the answer has the last entry before a reader's start. An old broker does not send it."""
        return event.query_number == LATEST_QUERY and event.command.HasField("consumer_mark_delete_position")

    def resolve_and_announce(self, event: LastMessageIdAnswered, now: float) -> Effects:
        """Note the last entry before the reader's start, and complete the creation."""
        return [*self.resolve_latest(event, now), *self._announce()]

    def announce(self, event: LastMessageIdAnswered | QueryFailed, now: float) -> Effects:
        """Complete the creation, although the last entry before the reader's start is unknown."""
        return self._announce()

    def may_find_start_later(self, event: QueryFailed, now: float) -> bool:
        """Return whether the broker has refused for a reason that a retry may cure."""
        error = event.error
        return isinstance(error, BrokerRefusal) and meaning_of(error).first_creation is RetryVerdict.RETRY

    def close_to_subscribe(self, event: QueryFailed, now: float) -> Effects:
        """Close the consumer, to subscribe again. A reader without its start would miss messages after a lost binding.

        The parts lose their binding now: what they sent on would be lost.
        """
        self.note_error(event.error)
        return [*self._unbind(str(event.error), now), self._ask_to_close(now)]

    def resolve_latest(self, event: LastMessageIdAnswered, now: float) -> Effects:
        """Note the last entry before the reader's start, for the next SUBSCRIBE."""
        self.messages.trackers.start.resolve_latest(MessageId.from_data(event.command.consumer_mark_delete_position))
        return []

    def is_forgotten(self, event: QueryFailed, now: float) -> bool:
        """Return whether the broker does not know the consumer, but for a call on its way, whose answer decides."""
        return self.calls.state not in (SEEKING, *ANY_UNSUBSCRIBING) and is_consumer_not_found(event.error)

    def notify_activity(self, event: ActiveConsumerChanged, now: float) -> Effects:
        """Tell the listener if the consumer is the active one."""
        return [NotifyActiveConsumerChange(event.is_active)]

    def is_passed_over(self, event: ActiveConsumerChanged, now: float) -> bool:
        """Return whether another consumer is the active one."""
        return not event.is_active

    def leave_the_rest(self, event: ActiveConsumerChanged, now: float) -> Effects:
        """Drop incomplete messages, of which all chunks come to the active consumer. Tell the listener."""
        self.messages.trackers.chunks.drop_unfinished(is_lost=True)
        return self.notify_activity(event, now)

    # A seek or an unsubscribe.

    def a_seek_is_sent(self, event: BrokerClosed, now: float) -> bool:
        """Return whether the broker may have closed the consumer for a seek."""
        return self.calls.state is SEEKING

    def await_seek(self, event: BrokerClosed, now: float) -> Effects:
        """Wait for the answer to SEEK. All other parts have lost their binding."""
        return [*self._unbind_messages("", now), *self.note_broker(event, now)]

    def an_unsubscribe_is_sent(self, event: BrokerClosed, now: float) -> bool:
        """Return whether the broker may have closed the consumer for an unsubscribe."""
        return self.calls.state in ANY_UNSUBSCRIBING

    def attach_sought(self, event: SeekAnswered, now: float) -> Effects:
        """Attach to the broker that has the topic now, to subscribe again at the new position."""
        self.messages.trackers.start.note_position()
        return self.attach_assigned(event, now)

    def look_up_sought(self, event: SeekAnswered, now: float) -> Effects:
        """Find the broker, to subscribe again at the new position."""
        self.messages.trackers.start.note_position()
        return [Detach(self.connection), self._look_up()]

    def ask_for_latest(self, event: SeekAnswered, now: float) -> Effects:
        """Ask for the last entry before the start, if a reader has sought LATEST."""
        return self._ask_for_latest()

    def broker_forgot_consumer(self, event: SeekFailed | UnsubscribeFailed, now: float) -> bool:
        """Return whether the broker does not know the consumer any longer."""
        return is_consumer_not_found(event.error)

    def drop_unanswered_seek(self, event: SeekTimedOut, now: float) -> Effects:
        """Close the connection, so that no late answer comes, and all that is not acknowledged comes again."""
        return self._drop(event.error, now)

    def is_unsubscribed(self, event: UnsubscribeFailed, now: float) -> bool:
        """Return whether the broker has no such subscription any longer."""
        return isinstance(event.error, SubscriptionNotFound)

    def ask_if_known(self, event: UnsubscribeFailed, now: float) -> Effects:
        """Ask for the last message: the broker may have closed the consumer before it refused the unsubscribe."""
        command = CommandGetLastMessageId(consumer_id=self.command.consumer_id, request_id=0)
        return [AskToGetLastMessageId(CHECK_QUERY, command, self.operation_timeout)]

    def end_unsubscribed(self, event: UnsubscribeAnswered | UnsubscribeFailed, now: float) -> Effects:
        """End: a consumer without a subscription gets no messages."""
        return self._end(None, now)

    # The end.

    def has_unsent(self, event: Close, now: float) -> bool:
        """Return whether acknowledgements are held that a broker would keep."""
        return self.command.durable and self.acks.is_holding

    def leave(self, event: Event, now: float) -> Effects:
        """Fail running calls. Go on until the acknowledgements are sent, but no longer than an operation may take."""
        closing = Closing(self.ending)
        failed = [*self.calls.handle(closing, now), *self.queries.handle(closing, now)]
        return [*failed, *super().leave(event, now)]

    def send_kept_and_close(self, event: Subscribed, now: float) -> Effects:
        """Send the acknowledgements that waited for the binding, then close. No permits are granted."""
        self._accepted()
        kept = self.acks.handle(Bound(), now)
        return [*kept, *self._fail_everything(now), self._ask_to_close(now)]

    def close_bound(self, event: Close, now: float) -> Effects:
        """Send the acknowledgements that are held, then close, without waiting for a running call."""
        acks = self.acks.handle(FlushAcks(), now)
        return [*acks, *self._fail_everything(now), self._ask_to_close(now)]

    def may_get_messages(self, event: CloseTimedOut, now: float) -> bool:
        """Return whether it has granted permits: it has not if it was bound only to send its acknowledgements."""
        return not self.is_leaving(event, now)

    def _attaching(self) -> Effects:
        return self.messages.attach(self.connection)

    def _bind(self, now: float) -> Effects:
        self._backoff.reset()
        self.last_error = None  # calls, queries and acknowledgements keep their own last failures
        granted = self.messages.handle(Bound(), now)  # this first sends the acknowledgements that waited
        asked = [*self._ask_for_latest(), *self.queries.handle(Bound(), now)]
        return [*granted, *asked, *self.calls.handle(Bound(), now)]

    def _unbind(self, reason: str, now: float) -> Effects:
        return [*self.calls.handle(Unbound(reason), now), *self._unbind_messages(reason, now)]

    def _unbind_messages(self, reason: str, now: float) -> Effects:
        unbound = Unbound(reason)
        parts = (self.messages, self.acks, self.queries)
        return [effect for part in parts for effect in part.handle(unbound, now)]

    def _leave_cluster(self, why: str, now: float) -> Effects:
        left = ClusterLeft(ConnectionLost(f"{why}: the message stays in the former one"))
        return [*self.calls.handle(left, now), *self.messages.handle(left, now)]

    def _fail_calls(self, error: PulsarException, now: float) -> Effects:
        closing = Closing(error)
        parts = (self.calls, self.queries, self.messages, self.acks)
        return [effect for part in parts for effect in part.handle(closing, now)]

    def _fail_rest(self, error: PulsarException, now: float) -> Effects:
        return self.acks.handle(Ended(error), now)

    def _announce(self) -> Effects:
        """Complete the creation, if this is the first binding."""
        return [ConsumerOpened()] if self._accepted() else []

    def _ask_for_latest(self) -> Effects:
        """Ask for the last entry before the start of a reader at LATEST."""
        if not self.messages.has_unresolved_latest:
            return []
        command = CommandGetLastMessageId(consumer_id=self.command.consumer_id, request_id=0)
        return [AskToGetLastMessageId(LATEST_QUERY, command, self.operation_timeout)]
