"""The state machine of one consumer on one topic partition: from the first lookup to the close.

The chart here decides when to look up, when to ask a broker to subscribe, what a seek and an unsubscribe mean for the
binding, and when to give up. `connection_handler.py` tells how a consumer gets and loses its broker, and has the rows
and actions for that. Three parts have charts of their own: `deliveries.py` for messages and acknowledgements,
`consumer_seek_unsubscribe.py` and `consumer_queries.py` for calls. `ConsumerMachine.handle` gives each event to the
part whose chart has it. The chart here tells the parts when a binding begins and ends, and when the consumer does.

Before a consumer asks for a connection, it drops what is queued, because the next broker sends it again. With the
connection comes the ID of the entry that was opened last: a reader goes on after that one. A broker that has just
accepted SUBSCRIBE knows of no permits; it gets those for the whole queue, once.

To seek, a broker closes its consumers, and only its answer tells where to subscribe again: so the consumer waits in
SEEKING_UNBOUND. A reader that starts at the end of its topic asks its broker, once bound, for the entry behind which it
began. The user is told of the reader only after the answer. If the connection were lost before it, the reader would
start again at an end that has moved, and miss what came between.
"""

from enum import Enum, unique
from typing import ClassVar, Final, NamedTuple

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Event, Ignore, Row
from pulsar_actors.machines.connection_handler import (
    ConnectionHandler,
    HandlerStates,
    handler_ignores,
    handler_rows,
)
from pulsar_actors.machines.connection_handler_events import (
    BrokerClosed,
    Close,
    CreationTimedOut,
    Detach,
    Detached,
    EndAtOnce,
    Open,
    TopicMigrated,
)
from pulsar_actors.machines.consumer_acks import ConsumerTrackers
from pulsar_actors.machines.consumer_events import (
    ActiveConsumerChanged,
    AskToGetLastMessageId,
    AskToSubscribe,
    Bound,
    Closing,
    ConsumerAttached,
    ConsumerOpened,
    Ended,
    FlushAcks,
    LastMessageIdAnswered,
    NotifyActiveConsumerChange,
    QueryFailed,
    SeekAnswered,
    SeekFailed,
    Subscribed,
    SubscribeRefused,
    SubscribeTimedOut,
    Unbound,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.consumer_queries import CHART as QUERIES
from pulsar_actors.machines.consumer_queries import ConsumerQueries
from pulsar_actors.machines.consumer_seek_unsubscribe import ANY_UNSUBSCRIBING, SEEKING, SeekAndUnsubscribe
from pulsar_actors.machines.consumer_seek_unsubscribe import CHART as CALLS
from pulsar_actors.machines.deliveries import CHART as DELIVERIES
from pulsar_actors.machines.deliveries import INNER, Deliveries
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.server_errors import is_consumer_not_found
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseConsumer, CommandGetLastMessageId, CommandSubscribe

START_QUERY: Final = 0
"""The number of the query for the start of a reader. Those of callers are counted from 1."""


@unique
class State(Enum):
    """The states of a consumer's binding."""

    IDLE = "Made, but not asked to subscribe yet."
    LOOKING_UP = "The broker that serves the topic is being found."
    CONNECTING = "The broker is known; a connection to it is awaited and the queue is cleared."
    SUBSCRIBING = "SUBSCRIBE is sent; the broker has to accept or refuse."
    READY = "Bound: messages come as permits allow, and calls can be made."
    SEEKING_UNBOUND = "SEEK is sent and the broker has closed the consumer for it; the answer says where to go on."
    CLOSE_PENDING = "A SUBSCRIBE was given up; CLOSE_CONSUMER has to be answered before the next one."
    WAITING = "Something failed; after a pause the topic is looked up again."
    CLOSING = "Closed by our side, or given up; CLOSE_CONSUMER is sent."
    CLOSED = "Over, as the user wished."
    FAILED = "Over: the topic or subscription is gone, or subscribing failed, and trying again would not help."


(
    IDLE, LOOKING_UP, CONNECTING, SUBSCRIBING, READY, SEEKING_UNBOUND, CLOSE_PENDING, WAITING, CLOSING, CLOSED, FAILED,
) = State  # fmt: skip

OVER: Final = (CLOSED, FAILED)
STATES: Final = HandlerStates(State, creating=(SUBSCRIBING,), paused=(SEEKING_UNBOUND,), over=OVER)
SEARCHING, UNBOUND, ENDING = STATES.searching, STATES.unbound, STATES.ending

# fmt: off
ROWS: Final = (
    #   trigger                source           dest             guard                          does
    Row(ConsumerAttached,      CONNECTING,      SUBSCRIBING,     None,                          "ask_to_subscribe"),
    Row(Subscribed,            SUBSCRIBING,     READY,           "begins_at_unresolved_latest", "begin_unannounced"),
    Row(Subscribed,            SUBSCRIBING,     READY,           None,                          "begin"),
    Row(SubscribeRefused,      SUBSCRIBING,     FAILED,          "is_final",                    "end_refused"),
    Row(SubscribeRefused,      SUBSCRIBING,     WAITING,         None,                          "let_go_refused"),
    Row(SubscribeTimedOut,     SUBSCRIBING,     CLOSE_PENDING,   None,                          "close_first"),
    Row(LastMessageIdAnswered, READY,           INTERNAL,        "tells_the_start",             "note_start"),
    Row(LastMessageIdAnswered, READY,           INTERNAL,        "is_for_the_start",            "announce"),
    Row(QueryFailed,           READY,           INTERNAL,        "leaves_the_start_unknown",    "announce"),
    Row(CreationTimedOut,      READY,           CLOSING,         None,                          "give_up_asking"),
    Row(ActiveConsumerChanged, (SUBSCRIBING, READY), INTERNAL,   None,                          "notify_activity"),

    # A seek or an unsubscribe.
    Row(BrokerClosed,          READY,           SEEKING_UNBOUND, "a_seek_is_sent",              "await_seek"),
    Row(BrokerClosed,          READY,           WAITING,         "an_unsubscribe_is_sent",      "let_go_closed"),
    Row(BrokerClosed,          SEEKING_UNBOUND, INTERNAL,        None,                          "note_broker"),
    Row(SeekAnswered,          SEEKING_UNBOUND, CONNECTING,      "has_assigned_broker",         "attach_assigned"),
    Row(SeekAnswered,          SEEKING_UNBOUND, LOOKING_UP,      None,                          "look_up_sought"),
    Row(SeekAnswered,          READY,           INTERNAL,        None,                          "ask_for_start"),
    Row(SeekFailed,            READY,           WAITING,         "broker_forgot_consumer",      "let_go_refused"),
    Row(SeekFailed,            SEEKING_UNBOUND, WAITING,         None,                          "let_go_refused"),
    Row(UnsubscribeFailed,     READY,           WAITING,         "broker_forgot_consumer",      "let_go_refused"),
    Row(UnsubscribeAnswered,   READY,           CLOSED,          None,                          "end_unsubscribed"),
    Row(TopicMigrated,         SEEKING_UNBOUND, LOOKING_UP,      "names_a_cluster",             "migrate"),
    Row(Detached,              SEEKING_UNBOUND, WAITING,         None,                          "back_off"),
    *handler_rows(STATES),
)

IGNORES: Final = (
    Ignore(ConsumerAttached, (IDLE, LOOKING_UP, WAITING, *STATES.found, *ENDING)),
    Ignore(
        (Subscribed, SubscribeRefused, SubscribeTimedOut),
        (IDLE, *SEARCHING, CLOSE_PENDING, READY, SEEKING_UNBOUND, *ENDING),
    ),
    Ignore((LastMessageIdAnswered, QueryFailed), (IDLE, *UNBOUND, READY, *ENDING)),
    Ignore(ActiveConsumerChanged, (IDLE, *SEARCHING, CLOSE_PENDING, SEEKING_UNBOUND, *ENDING)),
    Ignore(SeekAnswered, (IDLE, *SEARCHING, SUBSCRIBING, CLOSE_PENDING, *ENDING)),
    Ignore(SeekFailed, (IDLE, *SEARCHING, SUBSCRIBING, CLOSE_PENDING, READY, *ENDING)),
    Ignore(UnsubscribeFailed, (IDLE, *UNBOUND, READY, *ENDING)),
    Ignore(UnsubscribeAnswered, (IDLE, *UNBOUND, *ENDING)),
    *handler_ignores(STATES),
)
# fmt: on

OURS: Final = (Open, Close, EndAtOnce)

CHART: Final = Chart("consumer", states=State, initial=IDLE, final=OVER, ours=OURS, rows=ROWS, ignores=IGNORES)

_PARTS: Final = {"deliveries": DELIVERIES, "calls": CALLS, "queries": QUERIES}

_PART_OF: Final = {
    trigger: part for part, chart in _PARTS.items() for trigger in chart.triggers if trigger not in INNER
}
"""The part whose chart has an event that comes from outside."""

_SHARED: Final = frozenset(_PART_OF) & frozenset(CHART.triggers)
"""Events of a part and of the chart here, in this order."""


class ConsumerSettings(NamedTuple):
    """The settings of a consumer. `command` carries what the user chose; a reader `reads`."""

    command: CommandSubscribe
    operation_timeout: float = 30.0
    tls: bool = False
    stored: bool = True
    reads: bool = False


class ConsumerMachine(ConnectionHandler, chart=CHART):
    """The guards and actions of the consumer's own rows, in the chart's order."""

    __slots__ = ("_command", "calls", "deliveries", "queries")

    states: ClassVar = STATES

    def __init__(self, settings: ConsumerSettings, trackers: ConsumerTrackers, backoff: Backoff) -> None:
        command = settings.command
        super().__init__(command.topic, backoff, settings.operation_timeout, tls=settings.tls)
        self._command = command
        self.deliveries = Deliveries(self, command.consumer_id, trackers, stored=settings.stored, reads=settings.reads)
        self.calls = SeekAndUnsubscribe(self, command.consumer_id, self.deliveries)
        self.queries = ConsumerQueries(self, command.consumer_id)

    @property
    def state_name(self) -> str:
        """Its state in errors: a call that runs on the binding is part of it."""
        if self.state is READY and self.calls.state is SEEKING:
            return "SEEKING"
        if self.state is READY and self.calls.state in ANY_UNSUBSCRIBING:
            return "UNSUBSCRIBING"
        return self.state.name

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Give the event to the part whose chart has it, or to the chart here, or to both."""
        kind = event.__class__
        part = _PART_OF.get(kind)
        if part is None:
            return super().handle(event, now)
        effects: list[Effect] = getattr(self, part).handle(event, now)
        return [*effects, *super().handle(event, now)] if kind in _SHARED else effects

    def note_error(self, error: PulsarException) -> None:
        """Remember what went wrong last, for the calls that are open as well."""
        super().note_error(error)
        self.calls.note_error(error)
        self.queries.note_error(error)

    def close_request(self) -> CommandCloseConsumer:
        """Make CLOSE_CONSUMER."""
        return CommandCloseConsumer(consumer_id=self._command.consumer_id)

    # Getting bound.

    def ask_to_subscribe(self, event: ConsumerAttached, now: float) -> Effects:
        """Send SUBSCRIBE, with the epoch, and with the start position if the broker does not keep that."""
        start = self.deliveries.subscribe(event.max_message_size, event.opened, event.now_ms)
        command = CommandSubscribe()
        command.CopyFrom(self._command)
        command.consumer_epoch = self.deliveries.generation.epoch
        if start.message_id is not None:
            command.start_message_id.CopyFrom(start.message_id.to_data())
        if start.rollback_seconds:
            command.start_message_rollback_duration_sec = start.rollback_seconds
        return [AskToSubscribe(self.next_attempt(), command, self.operation_timeout)]

    def begins_at_unresolved_latest(self, event: Subscribed, now: float) -> bool:
        """Check for a new reader at the end of its topic, as long as the entry that it stands for is not known."""
        return self._awaited and self.deliveries.starts_at_unresolved_latest

    def begin_unannounced(self, event: Subscribed, now: float) -> Effects:
        """Begin, but do not complete the creation yet."""
        return self._begin(now)

    def begin(self, event: Subscribed, now: float) -> Effects:
        """Complete the creation, grant permits, and make the calls that wait."""
        return [*self._announce(), *self._begin(now)]

    def tells_the_start(self, event: LastMessageIdAnswered, now: float) -> bool:
        """Check for an answer that tells the entry behind which a reader began."""
        return self.is_for_the_start(event, now) and event.command.HasField("consumer_mark_delete_position")

    def note_start(self, event: LastMessageIdAnswered, now: float) -> Effects:
        """Start there on the next binding, unless an entry is opened until then, and complete the creation."""
        self.deliveries.trackers.start.resolve_latest(MessageId.from_data(event.command.consumer_mark_delete_position))
        return self._announce()

    def is_for_the_start(self, event: LastMessageIdAnswered | QueryFailed, now: float) -> bool:
        """Check for an answer to our own query, which an old broker, for example, cannot answer."""
        return event.query_number == START_QUERY

    def announce(self, event: LastMessageIdAnswered | QueryFailed, now: float) -> Effects:
        """Complete the creation all the same: nobody can know where the reader began."""
        return self._announce()

    def leaves_the_start_unknown(self, event: QueryFailed, now: float) -> bool:
        """Check for a failure of our own query, unless it is asked again on the next binding."""
        return self.is_for_the_start(event, now) and not is_consumer_not_found(event.error)

    def notify_activity(self, event: ActiveConsumerChanged, now: float) -> Effects:
        """Tell the listener."""
        return [NotifyActiveConsumerChange(event.is_active)]

    # A seek or an unsubscribe.

    def a_seek_is_sent(self, event: BrokerClosed, now: float) -> bool:
        """Check whether the broker may have closed the consumer to seek."""
        return self.calls.state is SEEKING

    def await_seek(self, event: BrokerClosed, now: float) -> Effects:
        """Await the answer; the calls go on, the rest has lost its binding."""
        return [*self._unbind_deliveries("", now), *self.note_broker(event, now)]

    def an_unsubscribe_is_sent(self, event: BrokerClosed, now: float) -> bool:
        """Check whether the broker may have closed the consumer to unsubscribe it."""
        return self.calls.state in ANY_UNSUBSCRIBING

    def look_up_sought(self, event: SeekAnswered, now: float) -> Effects:
        """Subscribe again at the new position."""
        return [Detach(self.connection), self._look_up()]

    def ask_for_start(self, event: SeekAnswered, now: float) -> Effects:
        """Ask which entry the end of the topic is, if a reader has sought it."""
        return self._ask_for_start()

    def broker_forgot_consumer(self, event: SeekFailed | UnsubscribeFailed, now: float) -> bool:
        """Check whether the broker has no such consumer any longer."""
        return is_consumer_not_found(event.error)

    def end_unsubscribed(self, event: UnsubscribeAnswered, now: float) -> Effects:
        """End, since a consumer without a subscription gets nothing."""
        return self._end(None, now)

    # The end.

    def finish(self, event: Close, now: float) -> Effects:
        """Send the acknowledgements that are held, then close; a running call is not waited for."""
        acks = self.deliveries.handle(FlushAcks(), now)
        return [*acks, *self._fail_everything(now), self._ask_to_close()]

    def _attaching(self) -> Effects:
        return [self.deliveries.attach(self.connection)]

    def _begin(self, now: float) -> Effects:
        self._backoff.reset()
        granted = self.deliveries.handle(Bound(), now)
        asked = [*self._ask_for_start(), *self.queries.handle(Bound(), now)]
        return [*granted, *asked, *self.calls.handle(Bound(), now)]

    def _unbind(self, reason: str, now: float) -> Effects:
        return [*self.calls.handle(Unbound(reason), now), *self._unbind_deliveries(reason, now)]

    def _unbind_deliveries(self, reason: str, now: float) -> Effects:
        unbound = Unbound(reason)
        return [*self.deliveries.handle(unbound, now), *self.queries.handle(unbound, now)]

    def _fail_calls(self, error: PulsarException, now: float) -> Effects:
        closing = Closing(error)
        calls = [*self.calls.handle(closing, now), *self.queries.handle(closing, now)]
        return [*calls, *self.deliveries.handle(closing, now)]

    def _fail_rest(self, error: PulsarException, now: float) -> Effects:
        return self.deliveries.handle(Ended(error), now)

    def _announce(self) -> Effects:
        """Complete the creation, if this is the first binding."""
        return [ConsumerOpened()] if self._accepted() else []

    def _ask_for_start(self) -> Effects:
        """Ask for the entry behind which a reader begins at the end of its topic."""
        if not self.deliveries.starts_at_unresolved_latest:
            return []
        command = CommandGetLastMessageId(consumer_id=self._command.consumer_id, request_id=0)
        return [AskToGetLastMessageId(START_QUERY, command, self.operation_timeout)]
