"""One consumer on one topic partition: from the first lookup to the last acknowledgement.

The machine decides when to look up, when a broker may be asked to subscribe, what a seek and an unsubscribe mean for
the binding, and when to give up. Connections and lookups are others' business. What was delivered and what is owed for
it is the ledgers': `entry_intake.py` judges each entry and says how many permits a corrupt one cost, `permits.py`
counts them, `deliveries.py` brings them together. What each error means stands in `server_errors.py`. How a consumer
gets and loses its binding to a broker is told in `binding.py`, with the actions for it.

Before it asks for a connection, a consumer drops what is queued, because the next broker sends it again. With the
connection it hears which entry was opened last: a reader goes on after that one. A broker that has just accepted
SUBSCRIBE knows of no permits; it gets those for the whole queue, once. Acknowledgements made without a binding wait for
the next one.

What becomes of a seek and an unsubscribe is told in `consumer_calls.py`, and what of a question in
`consumer_questions.py`, likewise with the actions for it.
"""

from enum import Enum, unique
from typing import Final, NamedTuple

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.binding_events import (
    BrokerClosed,
    Close,
    CloseAnswered,
    CloseTimedOut,
    CreationTimedOut,
    Detached,
    EndAtOnce,
    LookedUp,
    LookupFailed,
    LookupStumbled,
    Migrated,
    Misanswered,
    Open,
    RetryDue,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Row
from pulsar_actors.machines.consumer_calls import Calls
from pulsar_actors.machines.consumer_events import (
    Acked,
    Acknowledge,
    AcknowledgeUpTo,
    AcksAnswered,
    AcksDue,
    ActiveChange,
    ActiveChanged,
    AskForLast,
    AskForStats,
    AskToSubscribe,
    Attached,
    Await,
    CallTimedOut,
    DeadLetterFailed,
    DeadLetterSent,
    EndReached,
    GiveUp,
    HandedOut,
    LastTold,
    MarkEnd,
    MessagesArrived,
    NotTold,
    QuestionsDue,
    ReceiptsDue,
    Redeliver,
    Refuse,
    Returned,
    Seek,
    SeekAnswered,
    SeekFailed,
    Spoiled,
    StatsTold,
    Subscribed,
    SubscribeRefused,
    SubscribeTimedOut,
    SweepDue,
    Unsubscribe,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.deliveries import Deliveries
from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.last_failure import after
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseConsumer,
    CommandSubscribe,
)


@unique
class State(Enum):
    """Where a consumer can be."""

    IDLE = "Made, but not asked to subscribe yet."
    LOOKING_UP = "The broker that serves the topic is being found."
    CONNECTING = "The broker is known; a connection to it is awaited and the queue is cleared."
    SUBSCRIBING = "SUBSCRIBE is sent; the broker has to accept or refuse."
    READY = "Bound: messages come as permits allow, and acknowledgements go out."
    SEEKING = "SEEK is sent; acknowledgements wait for its answer."
    SEEKING_UNBOUND = "SEEK is sent and the broker has closed the consumer for it; the answer says where to go on."
    UNSUBSCRIBING = "UNSUBSCRIBE is sent; the broker may still refuse, so all goes on as before."
    CLOSE_PENDING = "A SUBSCRIBE was given up; CLOSE_CONSUMER has to be answered before the next one."
    WAITING = "Something failed; after a pause the topic is looked up again."
    CLOSING = "Closed by our side, or given up; CLOSE_CONSUMER is sent."
    CLOSED = "Over, as the user wished."
    FAILED = "Over: the topic or subscription is gone, or subscribing failed, and trying again would not help."


(
    IDLE, LOOKING_UP, CONNECTING, SUBSCRIBING, READY, SEEKING, SEEKING_UNBOUND, UNSUBSCRIBING, CLOSE_PENDING, WAITING,
    CLOSING, CLOSED, FAILED,
) = State  # fmt: skip

SEARCHING: Final = (LOOKING_UP, CONNECTING, WAITING)
ASKING: Final = (SEEKING, SEEKING_UNBOUND, UNSUBSCRIBING)
BOUND: Final = (READY, SEEKING, UNSUBSCRIBING)
UNBOUND: Final = (*SEARCHING, SUBSCRIBING, CLOSE_PENDING, SEEKING_UNBOUND)
REBINDING: Final = (*SEARCHING, SUBSCRIBING, CLOSE_PENDING)
FOUND: Final = (SUBSCRIBING, CLOSE_PENDING, READY, *ASKING)
OVER: Final = (CLOSED, FAILED)
LIVE: Final = (*BOUND, *UNBOUND)
SENDING: Final = (READY, UNSUBSCRIBING)
SOUGHT: Final = (SEEKING, SEEKING_UNBOUND)
UNANSWERED: Final = (SUBSCRIBING, SEEKING)
UNATTACHED: Final = (IDLE, *SEARCHING, SEEKING_UNBOUND)
ENDING: Final = (CLOSING, *OVER)

# fmt: off
ROWS: Final = (
    #   trigger              source           dest             guard                  does
    Row(Open,                IDLE,            LOOKING_UP,      None,                  "start"),
    Row(LookedUp,            LOOKING_UP,      CONNECTING,      None,                  "attach_looked_up"),
    Row(LookupStumbled,      LOOKING_UP,      INTERNAL,        None,                  "note_failure"),
    Row(LookupFailed,        LOOKING_UP,      FAILED,          "is_final",            "end_refused"),
    Row(LookupFailed,        LOOKING_UP,      WAITING,         None,                  "back_off"),
    Row(RetryDue,            WAITING,         LOOKING_UP,      None,                  "look_up_again"),
    Row(Attached,            CONNECTING,      SUBSCRIBING,     None,                  "ask_to_subscribe"),
    Row(Detached,            CONNECTING,      FAILED,          "is_final",            "end_refused"),
    Row(Detached,            CONNECTING,      WAITING,         None,                  "back_off"),
    Row(Subscribed,          SUBSCRIBING,     SEEKING,         "seek_waits",          "begin_to_seek"),
    Row(Subscribed,          SUBSCRIBING,     UNSUBSCRIBING,   "unsubscribe_waits",   "begin_to_unsubscribe"),
    Row(Subscribed,          SUBSCRIBING,     READY,           "epoch_has_moved",     "begin_in_new_epoch"),
    Row(Subscribed,          SUBSCRIBING,     READY,           "begins_adrift",       "begin_unannounced"),
    Row(Subscribed,          SUBSCRIBING,     READY,           None,                  "begin"),
    Row(SubscribeRefused,    SUBSCRIBING,     FAILED,          "is_final",            "end_refused"),
    Row(SubscribeRefused,    SUBSCRIBING,     WAITING,         None,                  "let_go_refused"),
    Row(Detached,            SUBSCRIBING,     FAILED,          "is_final",            "end_refused"),
    Row(Detached,            SUBSCRIBING,     WAITING,         None,                  "back_off"),

    # A SUBSCRIBE that was given up is closed before the next one.
    Row(SubscribeTimedOut,   SUBSCRIBING,     CLOSE_PENDING,   None,                  "close_first"),
    Row(BrokerClosed,        SUBSCRIBING,     CLOSE_PENDING,   None,                  "close_first_then_move"),
    Row(Migrated,            SUBSCRIBING,     CLOSE_PENDING,   "tells_a_cluster",     "close_first_then_migrate"),
    Row(BrokerClosed,        CLOSE_PENDING,   INTERNAL,        None,                  "note_broker"),
    Row(Migrated,            CLOSE_PENDING,   INTERNAL,        "tells_a_cluster",     "note_cluster"),
    Row(CloseAnswered,       CLOSE_PENDING,   CONNECTING,      "was_told_a_broker",   "attach_assigned"),
    Row(CloseAnswered,       CLOSE_PENDING,   WAITING,         None,                  "let_go"),
    Row(CloseTimedOut,       CLOSE_PENDING,   WAITING,         None,                  "drop_unanswering"),
    Row(Detached,            CLOSE_PENDING,   WAITING,         None,                  "back_off"),

    # Bound.
    Row(MessagesArrived,     BOUND,           INTERNAL,        None,                  "take_in"),
    Row(HandedOut,           BOUND,           INTERNAL,        None,                  "free_places"),
    Row(Returned,            BOUND,           INTERNAL,        None,                  "free_returned"),
    Row(Spoiled,             BOUND,           INTERNAL,        None,                  "refuse_spoiled"),
    Row(Refuse,              BOUND,           INTERNAL,        None,                  "note_refusals"),
    Row(Redeliver,           BOUND,           INTERNAL,        None,                  "redeliver_all"),
    Row(Await,               BOUND,           INTERNAL,        None,                  "ask_for_one"),
    Row(SweepDue,            BOUND,           INTERNAL,        None,                  "sweep"),
    Row(AcksDue,             SENDING,         INTERNAL,        None,                  "send_acks"),
    Row(DeadLetterFailed,    BOUND,           INTERNAL,        None,                  "ask_for_dead_letter"),
    Row(EndReached,          BOUND,           INTERNAL,        None,                  "mark_end"),
    Row(ActiveChanged,       (SUBSCRIBING, *BOUND), INTERNAL,  None,                  "pass_activity_on"),
    Row(BrokerClosed,        READY,           CONNECTING,      "tells_a_broker",      "move"),
    Row(BrokerClosed,        READY,           WAITING,         None,                  "let_go_closed"),
    Row(Migrated,            READY,           LOOKING_UP,      "tells_a_cluster",     "migrate"),
    Row(Detached,            READY,           WAITING,         None,                  "back_off"),

    # Seek.
    Row(Seek,                (READY, *REBINDING), INTERNAL,    "names_no_place",      "refuse_place"),
    Row(Seek,                READY,           SEEKING,         None,                  "ask_to_seek"),
    Row(SeekAnswered,        SEEKING,         READY,           None,                  "finish_seek"),
    Row(SeekFailed,          SEEKING,         WAITING,         "has_lost_us",         "try_again_when_bound"),
    Row(SeekFailed,          SEEKING,         READY,           None,                  "fail_call"),
    Row(BrokerClosed,        SEEKING,         SEEKING_UNBOUND, None,                  "await_seek"),
    Row(BrokerClosed,        SEEKING_UNBOUND, INTERNAL,        None,                  "note_broker"),
    Row(SeekAnswered,        SEEKING_UNBOUND, CONNECTING,      "was_told_a_broker",   "attach_sought"),
    Row(SeekAnswered,        SEEKING_UNBOUND, LOOKING_UP,      None,                  "look_up_sought"),
    Row(SeekFailed,          SEEKING_UNBOUND, WAITING,         "has_lost_us",         "try_again_when_bound"),
    Row(SeekFailed,          SEEKING_UNBOUND, WAITING,         None,                  "fail_seek_unbound"),
    Row(Migrated,            SOUGHT,          LOOKING_UP,      "tells_a_cluster",     "lose_call_and_migrate"),
    Row(Detached,            SOUGHT,          WAITING,         None,                  "lose_call"),
    Row(Seek,                ASKING,          INTERNAL,        None,                  "refuse_second_call"),
    Row(Seek,                REBINDING,       INTERNAL,        "a_call_waits",        "refuse_second_call"),
    Row(Seek,                REBINDING,       INTERNAL,        None,                  "keep_call"),
    Row(CallTimedOut,        REBINDING,       INTERNAL,        None,                  "fail_late_call"),

    # Unsubscribe.
    Row(Unsubscribe,         READY,           UNSUBSCRIBING,   None,                  "ask_to_unsubscribe"),
    Row(UnsubscribeAnswered, UNSUBSCRIBING,   CLOSED,          None,                  "end_unsubscribed"),
    Row(UnsubscribeFailed,   UNSUBSCRIBING,   WAITING,         "has_lost_us",         "try_again_when_bound"),
    Row(UnsubscribeFailed,   UNSUBSCRIBING,   READY,           None,                  "fail_call"),
    Row(CallTimedOut,        UNSUBSCRIBING,   INTERNAL,        None,                  "fail_unanswered_call"),
    Row(BrokerClosed,        UNSUBSCRIBING,   WAITING,         None,                  "lose_call_and_let_go"),
    Row(Migrated,            UNSUBSCRIBING,   LOOKING_UP,      "tells_a_cluster",     "lose_call_and_migrate"),
    Row(Detached,            UNSUBSCRIBING,   WAITING,         None,                  "lose_call"),
    Row(Unsubscribe,         SOUGHT,          INTERNAL,        None,                  "refuse_second_call"),
    Row(Unsubscribe,         UNSUBSCRIBING,   INTERNAL,        "a_call_waits",        "refuse_second_call"),
    Row(Unsubscribe,         UNSUBSCRIBING,   INTERNAL,        None,                  "await_answer"),
    Row(Unsubscribe,         REBINDING,       INTERNAL,        "a_call_waits",        "refuse_second_call"),
    Row(Unsubscribe,         REBINDING,       INTERNAL,        None,                  "keep_call"),

    # Which message is the last, and what the broker counts.
    Row(AskForLast,          BOUND,           INTERNAL,        None,                  "put_question"),
    Row(AskForStats,         BOUND,           INTERNAL,        None,                  "put_question"),
    Row(LastTold,            BOUND,           INTERNAL,        "tells_the_start",     "note_start"),
    Row(LastTold,            BOUND,           INTERNAL,        "is_our_own",          "announce"),
    Row(LastTold,            BOUND,           INTERNAL,        None,                  "answer_question"),
    Row(StatsTold,           BOUND,           INTERNAL,        None,                  "pass_stats_on"),
    Row(NotTold,             BOUND,           INTERNAL,        "has_lost_us",         "ask_again_when_bound"),
    Row(NotTold,             BOUND,           INTERNAL,        "is_our_own",          "announce"),
    Row(NotTold,             BOUND,           INTERNAL,        "is_out_of_time",      "fail_late_question"),
    Row(NotTold,             BOUND,           INTERNAL,        None,                  "fail_question"),
    Row(AskForLast,          UNBOUND,         INTERNAL,        None,                  "note_question"),
    Row(AskForStats,         UNBOUND,         INTERNAL,        None,                  "note_question"),
    Row(QuestionsDue,        LIVE,            INTERNAL,        None,                  "fail_late_questions"),

    # Whether bound or not.
    Row(Acknowledge,         LIVE,            INTERNAL,        None,                  "mark"),
    Row(AcknowledgeUpTo,     LIVE,            INTERNAL,        None,                  "mark_up_to"),
    Row(AcksAnswered,        (*BOUND, *UNBOUND, CLOSING), INTERNAL, None,             "end_acks"),
    Row(ReceiptsDue,         LIVE,            INTERNAL,        None,                  "fail_late_receipts"),
    Row(DeadLetterSent,      LIVE,            INTERNAL,        None,                  "mark_dead_letter"),
    Row(GiveUp,              LIVE,            INTERNAL,        None,                  "note_giving_up"),
    Row(HandedOut,           UNBOUND,         INTERNAL,        None,                  "note_served"),
    Row(Redeliver,           UNBOUND,         INTERNAL,        None,                  "begin_epoch"),
    Row(Await,               UNBOUND,         INTERNAL,        None,                  "note_waiting"),
    Row(DeadLetterFailed,    UNBOUND,         INTERNAL,        None,                  "forget_dead_letter"),
    Row(Misanswered,         (*FOUND, CLOSING), INTERNAL,      None,                  "drop_misanswering"),
    Row(CreationTimedOut,    SEARCHING,       FAILED,          None,                  "stop_trying"),
    Row(CreationTimedOut,    (SUBSCRIBING, READY), CLOSING,    None,                  "give_up_asking"),
    Row(CreationTimedOut,    CLOSE_PENDING,   CLOSING,         None,                  "give_up_waiting"),

    # The end.
    Row(Close,               UNATTACHED,      CLOSED,          None,                  "end_unbound"),
    Row(Close,               UNANSWERED,      CLOSING,         None,                  "abandon"),
    Row(Close,               CLOSE_PENDING,   CLOSING,         None,                  "await_close"),
    Row(Close,               SENDING,         CLOSING,         None,                  "finish"),
    Row(CloseAnswered,       CLOSING,         CLOSED,          None,                  "end_closed"),
    Row(CloseTimedOut,       CLOSING,         CLOSED,          None,                  "end_unanswered"),
    Row(Detached,            CLOSING,         CLOSED,          None,                  "end_closed"),
    Row(EndAtOnce,           (IDLE, *LIVE, CLOSING), CLOSED,   None,                  "end_without_goodbye"),
    Row(Acknowledge,         ENDING,          INTERNAL,        None,                  "turn_acks_away"),
    Row(AcknowledgeUpTo,     ENDING,          INTERNAL,        None,                  "turn_ack_away"),
    Row(Seek,                ENDING,          INTERNAL,        None,                  "turn_away"),
    Row(Unsubscribe,         ENDING,          INTERNAL,        None,                  "turn_away"),
    Row(AskForLast,          ENDING,          INTERNAL,        None,                  "turn_away"),
    Row(AskForStats,         ENDING,          INTERNAL,        None,                  "turn_away"),
    Row(Close,               ENDING,          INTERNAL),
    Row(EndAtOnce,           OVER,            INTERNAL),

    # Nothing comes of these without a binding: the next one brings everything unacknowledged again.
    Row(HandedOut,           ENDING,                                   INTERNAL),
    Row(Returned,            (*UNBOUND, *ENDING),                      INTERNAL),
    Row(Spoiled,             (*UNBOUND, *ENDING),                      INTERNAL),
    Row(Refuse,              (*UNBOUND, *ENDING),                      INTERNAL),
    Row(Redeliver,           ENDING,                                   INTERNAL),
    Row(Await,               ENDING,                                   INTERNAL),
    Row(GiveUp,              ENDING,                                   INTERNAL),

    # Too late, or too early to mean anything.
    Row(LookedUp,            (IDLE, CONNECTING, WAITING, *FOUND, *ENDING),                         INTERNAL),
    Row(LookupStumbled,      (IDLE, CONNECTING, WAITING, *FOUND, *ENDING),                         INTERNAL),
    Row(LookupFailed,        (IDLE, CONNECTING, WAITING, *FOUND, *ENDING),                         INTERNAL),
    Row(Attached,            (IDLE, LOOKING_UP, WAITING, *FOUND, *ENDING),                         INTERNAL),
    Row(RetryDue,            (IDLE, LOOKING_UP, CONNECTING, *FOUND, *ENDING),                      INTERNAL),
    Row(Detached,            (IDLE, LOOKING_UP, WAITING, *OVER),                                   INTERNAL),
    Row(Subscribed,          (IDLE, *SEARCHING, CLOSE_PENDING, READY, *ASKING, *ENDING),           INTERNAL),
    Row(SubscribeRefused,    (IDLE, *SEARCHING, CLOSE_PENDING, READY, *ASKING, *ENDING),           INTERNAL),
    Row(SubscribeTimedOut,   (IDLE, *SEARCHING, CLOSE_PENDING, READY, *ASKING, *ENDING),           INTERNAL),
    Row(Misanswered,         (IDLE, *SEARCHING, *OVER),                                            INTERNAL),
    Row(CloseAnswered,       (IDLE, *SEARCHING, SUBSCRIBING, READY, *ASKING, *OVER),               INTERNAL),
    Row(CloseTimedOut,       (IDLE, *SEARCHING, SUBSCRIBING, READY, *ASKING, *OVER),               INTERNAL),
    Row(SeekAnswered,        (IDLE, *REBINDING, READY, UNSUBSCRIBING, *ENDING),                    INTERNAL),
    Row(SeekFailed,          (IDLE, *REBINDING, READY, UNSUBSCRIBING, *ENDING),                    INTERNAL),
    Row(UnsubscribeAnswered, (IDLE, *UNBOUND, READY, SEEKING, *ENDING),                            INTERNAL),
    Row(UnsubscribeFailed,   (IDLE, *UNBOUND, READY, SEEKING, *ENDING),                            INTERNAL),
    Row(LastTold,            (IDLE, *UNBOUND, *ENDING),                                            INTERNAL),
    Row(StatsTold,           (IDLE, *UNBOUND, *ENDING),                                            INTERNAL),
    Row(NotTold,             (IDLE, *UNBOUND, *ENDING),                                            INTERNAL),
    Row(BrokerClosed,        (IDLE, *SEARCHING, *ENDING),                                          INTERNAL),
    Row(Migrated,            tuple(State),                                                         INTERNAL),
    Row(MessagesArrived,     (IDLE, *UNBOUND, *ENDING),                                            INTERNAL),
    Row(EndReached,          (IDLE, *UNBOUND, *ENDING),                                            INTERNAL),
    Row(ActiveChanged,       (IDLE, *SEARCHING, CLOSE_PENDING, SEEKING_UNBOUND, *ENDING),          INTERNAL),
    Row(AcksAnswered,        (IDLE, *OVER),                                                        INTERNAL),
    Row(DeadLetterSent,      (IDLE, *ENDING),                                                      INTERNAL),
    Row(DeadLetterFailed,    (IDLE, *ENDING),                                                      INTERNAL),
    Row(CreationTimedOut,    (IDLE, *ASKING, *ENDING),                                             INTERNAL),
    Row(CallTimedOut,        (IDLE, READY, *SOUGHT, *ENDING),                                      INTERNAL),
    Row(QuestionsDue,        (IDLE, *ENDING),                                                      INTERNAL),
    Row(AcksDue,             (IDLE, *UNBOUND, SEEKING, *ENDING),                                   INTERNAL),
    Row(ReceiptsDue,         (IDLE, *ENDING),                                                      INTERNAL),
    Row(SweepDue,            (IDLE, *UNBOUND, *ENDING),                                            INTERNAL),
)
# fmt: on

OURS: Final = (
    Open, Seek, Unsubscribe, AskForLast, AskForStats, Close, EndAtOnce, Acknowledge, AcknowledgeUpTo, Refuse, Redeliver,
    HandedOut, Returned, Spoiled, Await, GiveUp,
)  # fmt: skip

CHART: Final = Chart("consumer", states=State, initial=IDLE, final=OVER, ours=OURS, rows=ROWS)


class ConsumerSettings(NamedTuple):
    """What a consumer is told when it is made: `command` carries all that the user chose."""

    command: CommandSubscribe
    operation_timeout: float = 30.0
    tls: bool = False


class Consumer(Calls, chart=CHART):
    """The guards and actions that only consumers have, in the chart's order."""

    __slots__ = ("_acks_at", "_command", "_epoch_said", "_receipts_at", "_sweep_at")

    def __init__(self, settings: ConsumerSettings, deliveries: Deliveries, backoff: Backoff) -> None:
        super().__init__(settings.command, deliveries, backoff, settings.operation_timeout, tls=settings.tls)
        self._command = settings.command
        self._epoch_said = 0
        self._acks_at: float | None = None
        self._sweep_at: float | None = None
        self._receipts_at: float | None = None

    @property
    def is_bound(self) -> bool:
        """Hold in use, calls under way or not."""
        return self.state in BOUND

    def attaching(self) -> Effects:
        """Drop what is queued."""
        return [self.deliveries.attaching(self.connection)]

    def unbound(self, now: float) -> None:
        """Hold again what was not answered."""
        self.deliveries.unbound(now)
        self._questions.unbind()

    def close_request(self) -> CommandCloseConsumer:
        """Close by id."""
        return CommandCloseConsumer(consumer_id=self._command.consumer_id)

    def fail_leftovers(self, error: PulsarException) -> Effects:
        """Fail the acknowledgements that will have no answer."""
        return self.deliveries.abandon_acks(error)

    # Getting bound.

    def ask_to_subscribe(self, event: Attached, now: float) -> Effects:
        """Send SUBSCRIBE, with the epoch, and where to start if the broker does not keep that."""
        self.deliveries.limit_batches(event.max_message_size)
        start = self.deliveries.start_at(event.opened, event.now_ms)
        command = CommandSubscribe()
        command.CopyFrom(self._command)
        command.consumer_epoch = self.deliveries.generation.epoch
        if start.message_id is not None:
            command.start_message_id.CopyFrom(start.message_id.to_data())
        if start.rollback_seconds:
            command.start_message_rollback_duration_sec = start.rollback_seconds
        self._epoch_said = command.consumer_epoch
        return [AskToSubscribe(self._next_attempt(), command, self._operation_timeout)]

    def seek_waits(self, event: Subscribed, now: float) -> bool:
        """Hold when the user has asked for a seek meanwhile."""
        return isinstance(self.waiting_call(), Seek)

    def begin_to_seek(self, event: Subscribed, now: float) -> Effects:
        """Begin, and send the seek at once."""
        begin = self.begin_in_new_epoch if self.epoch_has_moved(event, now) else self.begin
        return [*begin(event, now), *self.send_waiting(now)]

    def unsubscribe_waits(self, event: Subscribed, now: float) -> bool:
        """Hold when the user has asked to unsubscribe meanwhile."""
        return isinstance(self.waiting_call(), Unsubscribe)

    def begin_to_unsubscribe(self, event: Subscribed, now: float) -> Effects:
        """Begin, and send the unsubscribe at once."""
        return self.begin_to_seek(event, now)

    def epoch_has_moved(self, event: Subscribed, now: float) -> bool:
        """Hold when everything was asked for again after SUBSCRIBE had left, which names the epoch before."""
        return self._epoch_said != self.deliveries.generation.epoch

    def begin_in_new_epoch(self, event: Subscribed, now: float) -> Effects:
        """Tell the broker of the epoch first, or all that it sends is taken for older."""
        return [self.deliveries.tell_epoch(), *self.begin(event, now)]

    def begins_adrift(self, event: Subscribed, now: float) -> bool:
        """Hold for a new reader at the end of its topic, until the broker has said which entry that is."""
        return self._awaited and self.deliveries.starts_adrift

    def begin_unannounced(self, event: Subscribed, now: float) -> Effects:
        """Begin, and tell the user once a lost connection cannot lose what has come since."""
        return self._begin(now)

    def begin(self, event: Subscribed, now: float) -> Effects:
        """Tell the user, end a seek that waited for this, let messages come, and ask what waits to be asked."""
        return [*self.announced(), *self._begin(now)]

    def _begin(self, now: float) -> Effects:
        self._backoff.reset()
        self.forget_failures()
        granted = self.deliveries.subscribed()
        asked = [*self.ask_where_it_began(), *self.ask_all(now)]
        return [*self.end_sought(), *granted, *asked, *self.watch_anew(now)]

    # Bound.

    def take_in(self, event: MessagesArrived, now: float) -> Effects:
        """Hand over what the user is to see."""
        return [*self.deliveries.arrived(event, now), *self._watch(now)]

    def free_places(self, event: HandedOut, now: float) -> Effects:
        """Grant new permits once half of the queue is free."""
        return [*self.deliveries.handed_out(event, now), *self._watch(now)]

    def free_returned(self, event: Returned, now: float) -> Effects:
        """Grant new permits likewise."""
        return self.deliveries.returned(event)

    def refuse_spoiled(self, event: Spoiled, now: float) -> Effects:
        """Acknowledge it at once, with what is wrong with it."""
        return self.deliveries.spoiled(event)

    def note_refusals(self, event: Refuse, now: float) -> Effects:
        """Ask for them again after their delay."""
        self.deliveries.refused(event, now)
        return self._watch(now)

    def redeliver_all(self, event: Redeliver, now: float) -> Effects:
        """Ask for everything again, in a new epoch."""
        return self.deliveries.redeliver_all()

    def ask_for_one(self, event: Await, now: float) -> Effects:
        """Ask for a message, if there is no queue to take it from."""
        return self.deliveries.awaited()

    def sweep(self, event: SweepDue, now: float) -> Effects:
        """Ask again for what is due, and look again when the next is."""
        self._sweep_at = None
        return [*self.deliveries.sweep(now), *self._watch(now)]

    def send_acks(self, event: AcksDue, now: float) -> Effects:
        """Send what is held."""
        return [*self.deliveries.send_acks(), *self._watch(now)]

    def ask_for_dead_letter(self, event: DeadLetterFailed, now: float) -> Effects:
        """Have the broker send it again, after a rest."""
        self.deliveries.dead_letter_failed(event.message_id, now)
        return self._watch(now)

    def mark_end(self, event: EndReached, now: float) -> Effects:
        """Let the user read what is queued, and then the end; the binding stays."""
        return [MarkEnd()]

    def pass_activity_on(self, event: ActiveChanged, now: float) -> Effects:
        """Tell the listener."""
        return [ActiveChange(event.is_active)]

    # Whether bound or not.

    def mark(self, event: Acknowledge, now: float) -> Effects:
        """Hold acknowledgements until a command of them is worth sending."""
        return [*self.deliveries.acknowledged(event, now), *self._watch_receipts(now), *self._watch(now)]

    def mark_up_to(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Hold a cumulative one likewise."""
        return [*self.deliveries.acknowledged_up_to(event, now), *self._watch_receipts(now), *self._watch(now)]

    def end_acks(self, event: AcksAnswered, now: float) -> Effects:
        """Tell those who wait for the receipt."""
        answered = self.deliveries.answered(event, now)
        if self.is_bound:
            self.forget_failures()
        return [*answered, *self._watch(now)]

    def fail_late_receipts(self, event: ReceiptsDue, now: float) -> Effects:
        """Say what there was instead of a receipt."""
        why = f"the consumer of {self.topic} is {self.state.name}{after(self._last_error)}"
        self._receipts_at = None
        return [*self.deliveries.late_receipts(why, now), *self._watch_receipts(now)]

    def mark_dead_letter(self, event: DeadLetterSent, now: float) -> Effects:
        """Acknowledge the original, now that nothing can be lost."""
        return [*self.deliveries.dead_letter_sent(event, now), *self._watch(now)]

    def note_giving_up(self, event: GiveUp, now: float) -> Effects:
        """Ask no more in their name."""
        self.deliveries.ledgers.permits.gave_up()
        return []

    def note_served(self, event: HandedOut, now: float) -> Effects:
        """Ask for no more in the name of those who have their message."""
        self.deliveries.ledgers.permits.served(event.messages)
        return []

    def begin_epoch(self, event: Redeliver, now: float) -> Effects:
        """Drop everything here; subscribing brings it again."""
        return self.deliveries.begin_epoch()

    def note_waiting(self, event: Await, now: float) -> Effects:
        """Count them: subscribing grants anew."""
        self.deliveries.ledgers.permits.waits()
        return []

    def forget_dead_letter(self, event: DeadLetterFailed, now: float) -> Effects:
        """Let it come again."""
        self.deliveries.dead_letter_lost(event.message_id)
        return []

    # The end.

    def finish(self, event: Close, now: float) -> Effects:
        """Send the acknowledgements that are held, then close; a call that runs is not waited for."""
        return [*self.deliveries.send_acks(), *self._fail_everything(), self._ask_to_close()]

    def turn_acks_away(self, event: Acknowledge, now: float) -> Effects:
        """Say that it is too late."""
        return [Acked(event.tokens, self._over)] if event.tokens else []

    def turn_ack_away(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Say that it is too late."""
        return [] if event.token is None else [Acked((event.token,), self._over)]

    def _watch(self, now: float) -> Effects:
        """Set the timers for what the ledgers wait for, unless they are set for that already."""
        started: list[Effect] = []
        acks_at = self.deliveries.ledgers.acks.due_at
        if self.deliveries.ledgers.acks.is_due(now):
            acks_at = now if self._acks_at is None else min(now, self._acks_at)
        if acks_at != self._acks_at:
            self._acks_at = acks_at
            started += [] if acks_at is None else [self.timers.start(AcksDue, acks_at - now)]
        sweep_at = self.deliveries.ledgers.next_sweep()
        if sweep_at != self._sweep_at:
            self._sweep_at = sweep_at
            started += [] if sweep_at is None else [self.timers.start(SweepDue, max(0.0, sweep_at - now))]
        return started

    def _watch_receipts(self, now: float) -> Effects:
        """Set the timer for who has waited longest, unless it is set; it may come too early."""
        deadline = self.deliveries.receipts.next_deadline()
        if deadline is None or self._receipts_at is not None:
            return []
        self._receipts_at = deadline
        return [self.timers.start(ReceiptsDue, max(0.0, deadline - now))]

    def watch_anew(self, now: float) -> Effects:
        """Set the timers that may have passed unheard while there was no use for them."""
        self._acks_at = self._sweep_at = None
        return self._watch(now)
