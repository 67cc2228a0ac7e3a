"""The state machine of one producer on one topic partition: from the first lookup to the last receipt.

The machine decides when to look up, when to ask a broker to create the producer, when to write which batches, what a
receipt or a refusal completes, and when to fail. `connection_handler.py` has the rows and actions with which a producer
registers with a broker, and loses it. `trackers/pending_messages.py` keeps the pending batches in their order, and
`trackers/server_errors.py` lists what each error means.

Every PRODUCER has a higher epoch than the one before, so that brokers can tell an old registration from a new one. With
a new binding all pending batches are written again before any new one. A batch that is published without a binding
waits, and may time out while it waits.

A producer that waits for its turn (WaitForExclusive) would wait for ever after an unload of the topic: the broker
forgets all that wait but the first, and tells none of them. So from time to time the producer asks if the topic is
taken, by a PRODUCER that brokers refuse in any case. If it is not, or is elsewhere now, the producer registers again.

A close of a bound producer sends CLOSE_PRODUCER at once. The broker answers it only after the receipts of all earlier
SENDs. But while a topic is transferred to another broker, its broker drops SENDs without a word, and still answers.

Without a binding, a producer with pending batches *leaves*: it registers once more, writes them, and sends
CLOSE_PRODUCER behind them. It does so again if it loses that binding before all receipts have come, if CLOSE_PRODUCER
is answered before, or if it drops the connection, which has lost a receipt or refused a batch that may be taken later.

Messages of a transaction are published when its coordinator knows the topic, and those behind them wait, too. While a
closed send queue still has such messages, a bound producer *drains*: it publishes them, and CLOSE_PRODUCER comes last.
The operation timeout is for all steps of a close together.
"""

from collections.abc import Callable
from enum import Enum, unique
from itertools import dropwhile
from operator import attrgetter
from typing import Any, ClassVar, Final

from pulsar_actors.exceptions import (
    BrokerRefusal,
    ConnectionLost,
    InvalidTxnStatusError,
    OutcomeUnknown,
    ProducerBusy,
    ProducerFenced,
    PulsarException,
    Timeout,
)
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
    CloseAnswered,
    CloseTimedOut,
    Detached,
    DrainTimedOut,
    EndAtOnce,
    Fail,
    FirstCreationTimedOut,
    LookedUp,
    LookupAttemptFailed,
    LookupFailed,
    Open,
    RequestRefused,
    RequestTimedOut,
    RetryDue,
    TopicMigrated,
    WrongAnswer,
)
from pulsar_actors.machines.producer_events import (
    AskIfTaken,
    AskToCreate,
    Drained,
    DropTransaction,
    FeedRemainingReceipts,
    Flush,
    Flushed,
    LineCheckDue,
    LineChecked,
    LineCheckTimedOut,
    ProducerAttached,
    ProducerCreated,
    ProducerOpened,
    Publish,
    ReceiptsArrived,
    SendBatches,
    SendRefused,
    SendsCompleted,
    SendTimeoutDue,
    StopDraining,
    TakeWaiting,
)
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.pending_messages import (
    FailedSend,
    PendingFlushes,
    PendingMessages,
    PendingSend,
    ReceiptVerdict,
    StoredSend,
)
from pulsar_actors.machines.trackers.producer_identity import ProducerIdentity, SequenceIds
from pulsar_actors.machines.trackers.server_errors import SendVerdict, last_failure_text, meaning_of, not_sent_error
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import position_of
from pulsar_actors.wire.protobuf import signed
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseProducer, CommandProducer, CommandSendReceipt


@unique
class State(Enum):
    """The states of a producer."""

    IDLE = "Created, but not opened yet."
    LOOKING_UP = "The broker that serves the topic is being found."
    CONNECTING = "The broker is known; a connection to it is awaited."
    CREATING = "PRODUCER is sent; the broker has to accept or refuse."
    QUEUED = "Accepted, but another producer has the topic: waits for its turn, without a time limit."
    READY = "Registered with a broker: batches are written as they come, and receipts complete them."
    CLOSE_PENDING = "A PRODUCER got no answer; CLOSE_PRODUCER has to be answered before the next one."
    WAITING = "Something failed; after a pause the topic is looked up again."
    DRAINING = "Closed by the user; messages that wait for a transaction's coordinator are sent before CLOSE_PRODUCER."
    CLOSING = "Closed by the user; CLOSE_PRODUCER is sent and receipts still come."
    CLOSED = "Closed by the user, or closed after the first creation timed out."
    FENCED = "Ended: another producer has taken the topic."
    TERMINATED = "Ended: the topic takes no more messages."
    FAILED = "Ended by an error of its creation that a retry cannot cure."


(
    IDLE, LOOKING_UP, CONNECTING, CREATING, QUEUED, READY, CLOSE_PENDING, WAITING, DRAINING, CLOSING,
    CLOSED, FENCED, TERMINATED, FAILED,
) = State  # fmt: skip

LINE_CHECK_INTERVAL: Final = 60.0
"""The seconds between two questions of a producer that waits for its turn whether the topic is taken."""

FREE_TEXT: Final = "epoch has already moved"
"""A part of a broker's text with which it refuses the question of a topic that no producer has or waits for."""

ASKED: Final = (CREATING, QUEUED)
FINAL: Final = (CLOSED, FENCED, TERMINATED, FAILED)
STATES: Final = HandlerStates(State, creating=ASKED, final=FINAL)
UNATTACHED, WITHOUT_BINDING, OPENED, ENDING = STATES.unattached, STATES.without_binding, STATES.opened, STATES.ending
BEING_CLOSED: Final = (DRAINING, CLOSING)
UNENDED: Final = (*OPENED, *BEING_CLOSED)

# fmt: off
ROWS: Final = (
    #   trigger           source              dest        guard                 does
    Row(ProducerAttached, CONNECTING,         CREATING,   None,                 "create"),
    Row(ProducerCreated,  CREATING,           QUEUED,     "must_queue",         "wait_in_line"),
    Row(ProducerCreated,  QUEUED,             INTERNAL,   "must_queue"),
    Row(LineCheckDue,     QUEUED,             INTERNAL,   None,                 "ask_if_taken"),
    Row(LineChecked,      QUEUED,             INTERNAL,   "is_taken",           "check_again_later"),
    Row(LineChecked,      QUEUED,             CLOSE_PENDING, None,              "register_again"),
    Row(LineCheckTimedOut, QUEUED,            CLOSE_PENDING, None,              "close_first"),
    Row(ProducerCreated,  ASKED,              DRAINING,   "leaves_later",       "bind_and_drain"),
    Row(ProducerCreated,  ASKED,              CLOSING,    "is_leaving",         "bind_and_close"),
    Row(ProducerCreated,  ASKED,              READY,      "repeats_would_count", "bind_without_repeats"),
    Row(ProducerCreated,  ASKED,              READY,      None,                 "bind"),
    Row(RequestRefused,   ASKED,              FENCED,     "is_fenced",          "end_refused"),
    Row(RequestRefused,   ASKED,              TERMINATED, "is_terminated",      "end_refused"),
    Row(Close,            READY,              DRAINING,   "holds_messages",     "leave"),
    Row(Close,            READY,              CLOSING,    "has_unsent",         "close_with_pending"),
    Row(CloseAnswered,    CLOSING,            WAITING,    "has_unconfirmed",    "release_unconfirmed"),
    Row(BrokerClosed,     CLOSING,            CONNECTING, "moves_unconfirmed",  "move"),
    Row(BrokerClosed,     CLOSING,            WAITING,    "has_unconfirmed",    "release_after_close"),
    Row(Detached,         CLOSING,            WAITING,    "has_unconfirmed",    "back_off"),
    Row(RetryDue,         WAITING,            CLOSED,     "has_left_nothing",   "end_unbound"),
    *handler_rows(STATES),

    # Bound.
    Row(Publish,          READY,              INTERNAL,   None,                 "write"),
    Row(ReceiptsArrived,  READY,              WAITING,    "comes_out_of_order", "drop_out_of_order"),
    Row(ReceiptsArrived,  READY,              INTERNAL,   None,                 "match_receipts"),
    Row(SendRefused,      READY,              FENCED,     "is_fenced",          "end_send_refused"),
    Row(SendRefused,      READY,              TERMINATED, "is_terminated",      "end_send_refused"),
    Row(SendRefused,      READY,              WAITING,    "must_be_resent",     "drop_refusing"),
    Row(SendRefused,      READY,              INTERNAL,   "is_for_nothing_pending"),
    Row(SendRefused,      READY,              INTERNAL,   None,                 "fail_one"),

    # Whether bound or not.
    Row(Publish,          WITHOUT_BINDING,    INTERNAL,   None,                 "keep"),
    Row(Flush,            UNENDED,            INTERNAL,   None,                 "register_flush"),
    Row(SendTimeoutDue,   UNENDED,            INTERNAL,   "a_send_is_late",     "fail_late"),
    Row(SendTimeoutDue,   UNENDED,            INTERNAL,   None,                 "watch_again"),
    Row(DropTransaction,  UNENDED,            INTERNAL,   None,                 "fail_transaction"),

    # The end.
    Row(Publish,          DRAINING,           INTERNAL,   None,                 "write"),
    Row(DrainTimedOut,    DRAINING,           INTERNAL,   None,                 "stop_draining"),
    Row(Drained,          DRAINING,           CLOSING,    None,                 "close_drained"),
    Row(BrokerClosed,     DRAINING,           CONNECTING, "names_a_broker",     "move"),
    Row(BrokerClosed,     DRAINING,           WAITING,    None,                 "release_after_close"),
    Row(Detached,         DRAINING,           WAITING,    None,                 "back_off"),
    Row(EndAtOnce,        DRAINING,           CLOSED,     None,                 "end_immediately"),
    Row(ReceiptsArrived,  BEING_CLOSED,       WAITING,    "skips_in_time",      "drop_out_of_order"),
    Row(ReceiptsArrived,  BEING_CLOSED,       INTERNAL,   "comes_out_of_order", "drop_skipping_receipts"),
    Row(ReceiptsArrived,  BEING_CLOSED,       INTERNAL,   None,                 "match_receipts"),
    Row(SendRefused,      BEING_CLOSED,       INTERNAL,   "is_for_nothing_pending"),
    Row(SendRefused,      BEING_CLOSED,       WAITING,    "can_be_resent",      "drop_refusing"),
    Row(SendRefused,      BEING_CLOSED,       INTERNAL,   None,                 "fail_one"),
    Row(Publish,          ENDING,             INTERNAL,   None,                 "fail_sends_after_end"),
    Row(Flush,            FINAL,              INTERNAL,   None,                 "fail_flush_after_end"),
)

IGNORES: Final = (
    Ignore(ProducerAttached,                          (IDLE, LOOKING_UP, WAITING, *STATES.found, DRAINING, *ENDING)),
    Ignore(ProducerCreated,                           (IDLE, *UNATTACHED, CLOSE_PENDING, READY, DRAINING, *ENDING)),
    Ignore((ReceiptsArrived, SendRefused),            (IDLE, *WITHOUT_BINDING, *FINAL)),
    Ignore((SendTimeoutDue, DropTransaction),         (IDLE, *FINAL)),
    Ignore(Drained,                                   (IDLE, *OPENED, *ENDING)),
    Ignore((Close, CloseAnswered, CloseTimedOut, TopicMigrated, RetryDue, FirstCreationTimedOut), DRAINING),
    Ignore((LookedUp, LookupAttemptFailed, LookupFailed, RequestRefused, RequestTimedOut, WrongAnswer), DRAINING),
    Ignore((LineCheckDue, LineChecked, LineCheckTimedOut),
           (IDLE, *UNATTACHED, CREATING, READY, CLOSE_PENDING, DRAINING, *ENDING)),
    *handler_ignores(STATES),
)
# fmt: on

OURS: Final = (Open, Publish, Flush, DropTransaction, Drained, Close, EndAtOnce)

CHART: Final = Chart("producer", states=State, initial=IDLE, final=FINAL, ours=OURS, rows=ROWS, ignores=IGNORES)


class ProducerSettings(NamedTuple):
    """The settings of a producer. `command` carries what the user chose, with the producer's name if one was given.

    `is_intact` returns, for the token of a batch, if the batch still matches its checksum; `largest_entry`, the size of
    the largest entry that is to be written of it, from a frame on.
    """

    command: CommandProducer
    is_intact: Callable[[Any], bool]
    largest_entry: Callable[[Any, int], int]
    operation_timeout: float = 30.0


class ProducerMachine(ConnectionHandler, chart=CHART):
    """The guards and actions of the producer's own rows, in the chart's order."""

    __slots__ = ("_flushes", "_is_intact", "_largest_entry", "identity", "pending", "sequence_ids")

    states: ClassVar = STATES

    def __init__(
        self, settings: ProducerSettings, pending: PendingMessages[Any], sequence_ids: SequenceIds, backoff: Backoff
    ) -> None:
        super().__init__(settings.command.topic, backoff, settings.operation_timeout)
        self.pending = pending
        self.sequence_ids = sequence_ids
        self.identity = ProducerIdentity(settings.command)
        self._is_intact = settings.is_intact
        self._largest_entry = settings.largest_entry
        self._flushes: PendingFlushes[object] = PendingFlushes()

    def close_request(self) -> CommandCloseProducer:
        """Make CLOSE_PRODUCER."""
        return self.identity.close_request()

    # Getting bound.

    def create(self, event: ProducerAttached, now: float) -> Effects:
        """Note the size limit of the broker, and send PRODUCER."""
        self.pending.largest = event.largest
        return [AskToCreate(self.next_attempt(), self.identity.next_request(), self.operation_timeout)]

    def must_queue(self, event: ProducerCreated, now: float) -> bool:
        """Return whether another producer still has the topic."""
        return not event.command.producer_ready

    def wait_in_line(self, event: ProducerCreated, now: float) -> Effects:
        """Wait without a time limit, as WaitForExclusive requires."""
        self.timers.stop(FirstCreationTimedOut)
        return [self.timers.start(LineCheckDue, LINE_CHECK_INTERVAL)]

    def ask_if_taken(self, event: LineCheckDue, now: float) -> Effects:
        """Ask the broker if any producer has the topic, or waits for it."""
        return [AskIfTaken(self.attempt, self.identity.probe(), self.operation_timeout)]

    def is_taken(self, event: LineChecked, now: float) -> bool:
        """Return whether another producer has the topic, or the line of the topic is not empty."""
        if isinstance(event.error, ProducerFenced):
            return FREE_TEXT not in event.error.reason
        return isinstance(event.error, ProducerBusy)  # it takes no more producers at present

    def check_again_later(self, event: LineChecked, now: float) -> Effects:
        """Go on waiting."""
        return [self.timers.start(LineCheckDue, LINE_CHECK_INTERVAL)]

    def register_again(self, event: LineChecked, now: float) -> Effects:
        """Close the producer that waits in vain, and register again."""
        self.note_error(event.error)
        return [self._ask_to_close(now)]

    def repeats_would_count(self, event: ProducerCreated, now: float) -> bool:
        """Return whether something of a transaction may be stored, and its repeat might be, too, or be dropped unseen.

        A broker that drops repeats names the last sequence id that it has stored.
        """
        return self.pending.has_unrepeatable(signed(event.command.last_sequence_id))

    def bind_without_repeats(self, event: ProducerCreated, now: float) -> Effects:
        """Fail what may be stored of transactions, which cannot be committed then. Bind with the rest."""
        return [*self._fail_repeats(event, now), *self.bind(event, now)]

    def bind(self, event: ProducerCreated, now: float) -> Effects:
        """Adopt the broker's answer, and write all pending batches before any new one. Fail those over its limit."""
        opened = [ProducerOpened(event.command.producer_name)] if self._accepted() else []
        self.identity.adopt(event.command)
        self.sequence_ids.created(event.command.last_sequence_id)
        self.pending.bind(self.connection, now, signed(event.command.last_sequence_id))
        oversized = [Fail(one.failed.token, one.error) for one in self.pending.fail_oversized(self._largest_entry)]
        if not len(self.pending):
            self._reset_failures()  # with pending batches, only a receipt counts as success
        return [*opened, *oversized, *self._write(), *self._finished_flushes()]

    def is_fenced(self, event: RequestRefused | SendRefused, now: float) -> bool:
        """Return whether another producer has taken the topic."""
        return _verdict(event) is SendVerdict.FENCED

    def is_terminated(self, event: RequestRefused | SendRefused, now: float) -> bool:
        """Return whether the topic was terminated."""
        return _verdict(event) is SendVerdict.TERMINATED

    def leaves_later(self, event: ProducerCreated, now: float) -> bool:
        """Return whether the producer is closed, and messages wait for the transaction coordinator."""
        return self.is_leaving(event, now) and bool(self.pending.held)

    def bind_and_drain(self, event: ProducerCreated, now: float) -> Effects:
        """Write all pending batches. Those that wait come behind them, and then CLOSE_PRODUCER."""
        return self.bind_without_repeats(event, now)

    def bind_and_close(self, event: ProducerCreated, now: float) -> Effects:
        """Write all pending batches, and CLOSE_PRODUCER behind them."""
        return [*self.bind_and_drain(event, now), self._ask_to_close(now)]

    def _attaching(self) -> Effects:
        return []  # pending batches are kept

    def _unbind(self, reason: str, now: float) -> Effects:
        self.pending.unbind()
        return []

    # Bound.

    def write(self, event: Publish, now: float) -> Effects:
        """Add the batches to the pending ones, then write them."""
        return [*self.keep(event, now), *self._write()]

    def comes_out_of_order(self, event: ReceiptsArrived, now: float) -> bool:
        """Return whether the receipt is for a later batch than the first pending one."""
        return self._skips_head(event.connection, event.commands[0])

    def drop_out_of_order(self, event: ReceiptsArrived, now: float) -> Effects:
        """Close the connection, which has lost a receipt, and write all batches again on a new one."""
        sequence_id = signed(event.commands[0].sequence_id)
        return self._drop(ConnectionLost(f"a receipt for {sequence_id} came out of order"), now)

    def match_receipts(self, event: ReceiptsArrived, now: float) -> Effects:
        """Complete the first pending batch with each receipt, or one that has overtaken others.

        It ends at a receipt that skips batches.
        """
        ended: list[StoredSend] = []
        rest: list[FeedRemainingReceipts] = []
        for index, command in enumerate(event.commands):
            position = position_of(command.message_id)
            stored = self.pending.receipt(event.connection, signed(command.sequence_id), position)
            if stored is ReceiptVerdict.SKIPS_HEAD:
                rest = [FeedRemainingReceipts(event._replace(commands=event.commands[index:]))]
                break
            if stored is ReceiptVerdict.CHUNK:
                self.pending.chunk_stored(now)
            elif not isinstance(stored, ReceiptVerdict):
                ended.append(stored)
        if not ended:
            return [*self._finished_flushes(), *rest]
        self.sequence_ids.published(max(map(_highest_id_of, ended)))
        self._flushes.heads_ended(sum(not one.overtook for one in ended))
        self._reset_failures()
        return [SendsCompleted(tuple(ended)), *self._finished_flushes(), *rest]

    def end_send_refused(self, event: SendRefused, now: float) -> Effects:
        """Fail all batches with the error. Only the batch that it names is known not to be stored."""
        item = self._refused(event)
        failed = self._fail_pending(event.error, item.token if item is not None and item.writes == 1 else None)
        return [*failed, *self.end_refused(event, now)]

    def must_be_resent(self, event: SendRefused, now: float) -> bool:
        """Return whether the batch must be sent again: it is pending, allowed, and not corrupted in memory."""
        verdict = _verdict(event)
        if verdict is SendVerdict.CHECK:
            item = self._refused(event)
            return item is not None and self._is_intact(item.token)
        return verdict is not SendVerdict.FAIL_ONE

    def drop_refusing(self, event: SendRefused, now: float) -> Effects:
        """Close the connection, and write all batches again on a new one."""
        return self._drop(ConnectionLost(f"the broker refused a message: {event.error}"), now)

    def is_for_nothing_pending(self, event: SendRefused, now: float) -> bool:
        """Return whether the refused batch has ended already."""
        return self._refused(event) is None

    def fail_one(self, event: SendRefused, now: float) -> Effects:
        """Fail only the refused batch."""
        item = self._refused(event)
        assert item is not None  # noqa: S101 - the guard has looked
        failed = self.pending.fail(item)
        return [Fail(failed.token, failed.error_for(event.error)), *self._finished_flushes()]

    # Whether bound or not.

    def keep(self, event: Publish, now: float) -> Effects:
        """Add the batches to the pending ones."""
        for item in event.items:
            self.pending.add(item)
        return self._watch(now)

    def register_flush(self, event: Flush, now: float) -> Effects:
        """Complete the flush when all batches that are pending now have ended."""
        self._flushes.ask(event.token, len(self.pending))
        return self._finished_flushes()

    def a_send_is_late(self, event: SendTimeoutDue, now: float) -> bool:
        """Return whether the send timeout of the oldest batch is over."""
        return self.pending.is_late(now)

    def fail_late(self, event: SendTimeoutDue, now: float) -> Effects:
        """Fail all plain batches, in order, because none may overtake a failed one. Transactions end with their own."""
        failure = last_failure_text(self.last_error)
        late = [Fail(one.token, _late(one, failure)) for one in self.pending.fail_plain()]
        return [*late, *self._finished_flushes()]

    def watch_again(self, event: SendTimeoutDue, now: float) -> Effects:
        """Start the timer for the batch that is the oldest now."""
        return self._watch(now)

    def fail_transaction(self, event: DropTransaction, now: float) -> Effects:
        """Fail what belongs to the transaction. A broker that stores it all the same hides it from readers."""
        failed = self.pending.fail_transaction(event.transaction)
        return [*(Fail(one.token, event.error) for one in failed), *self._finished_flushes()]

    # The end.

    def holds_messages(self, event: Close, now: float) -> bool:
        """Return whether messages that were enqueued before the close wait for the transaction coordinator."""
        return bool(self.pending.held)

    def has_unsent(self, event: Event, now: float) -> bool:
        """Return whether batches are pending, or wait for the transaction coordinator."""
        return bool(len(self.pending) or self.pending.held)

    def close_with_pending(self, event: Close, now: float) -> Effects:
        """Send CLOSE_PRODUCER at once. If the binding is lost before all receipts have come, there is another one."""
        return [*self.leave(event, now), self._ask_to_close(now)]

    def has_unconfirmed(self, event: CloseAnswered | BrokerClosed | Detached, now: float) -> bool:
        """Return whether batches have no receipt yet, and there is time to write them again."""
        return bool(len(self.pending)) and self.timers.left(DrainTimedOut, now) > 0

    def release_unconfirmed(self, event: CloseAnswered, now: float) -> Effects:
        """Leave the connection, and pause before the next lookup: the broker has dropped what has no receipt."""
        self.note_error(ConnectionLost("the broker closed the producer before all receipts had come"))
        return self.release_and_back_off(event, now)

    def moves_unconfirmed(self, event: BrokerClosed, now: float) -> bool:
        """Return whether such batches can be written to the broker that serves the topic now."""
        return self.has_unconfirmed(event, now) and self.names_a_broker(event, now)

    def has_left_nothing(self, event: RetryDue, now: float) -> bool:
        """Return whether a closed producer has nothing pending any longer: all of it has failed."""
        return self.is_leaving(event, now) and not self.has_unsent(event, now)

    def close_bound(self, event: Close, now: float) -> Effects:
        """Send CLOSE_PRODUCER. Nothing is pending."""
        return [self._ask_to_close(now)]

    def stop_draining(self, event: DrainTimedOut, now: float) -> Effects:
        """Give up what is not registered. All else is published, and then everything is drained."""
        what = "its transaction's coordinator did not register the topic in time for the close of the producer"
        return [StopDraining(Timeout(f"{what}: it is not stored"))]

    def close_drained(self, event: Drained, now: float) -> Effects:
        """Send CLOSE_PRODUCER, for which the rest of the time is left."""
        return [self._ask_to_close(now)]

    def skips_in_time(self, event: ReceiptsArrived, now: float) -> bool:
        """Return whether the receipt is for a later batch than the first one, and there is time to write both again."""
        return self.comes_out_of_order(event, now) and self.timers.left(DrainTimedOut, now) > 0

    def drop_skipping_receipts(self, event: ReceiptsArrived, now: float) -> Effects:
        """Ignore receipts for later batches: it is too late to send the first one again. It fails as OutcomeUnknown."""
        rest = tuple(dropwhile(lambda each: self._skips_head(event.connection, each), event.commands))
        return [FeedRemainingReceipts(event._replace(commands=rest))] if rest else []

    def can_be_resent(self, event: SendRefused, now: float) -> bool:
        """Return whether the batch must be sent again, and there is time.

        A terminated topic, or one that another producer has taken, takes nothing later: each batch fails by itself.
        """
        has_ended = self.is_fenced(event, now) or self.is_terminated(event, now)
        return not has_ended and self.timers.left(DrainTimedOut, now) > 0 and self.must_be_resent(event, now)

    def fail_sends_after_end(self, event: Publish, now: float) -> Effects:
        """Fail batches that are published after the end, and free their room."""
        for item in event.items:
            self.pending.give_back(item.messages, item.size)
        return [Fail(item.token, not_sent_error(self.ending)) for item in event.items]

    def fail_flush_after_end(self, event: Flush, now: float) -> Effects:
        """Fail a flush after the end."""
        return [Fail(event.token, self.ending)]

    def foreign_error(self, home: int) -> PulsarException | None:
        """Return the error for messages of a transaction of an earlier cluster than the one that has the topic."""
        return _foreign("the transaction belongs to another cluster than the topic") if home < self.home else None

    def _leave_cluster(self, why: str, now: float) -> Effects:
        failed = self.pending.fail_transactions()
        self.pending.leave_cluster()
        return [*(Fail(one.token, _foreign(why)) for one in failed), TakeWaiting()]

    def _fail_calls(self, error: PulsarException, now: float) -> Effects:
        held = [StopDraining(not_sent_error(error))] if self.pending.held else []
        return [*self._fail_pending(error), *held]

    def _fail_rest(self, error: PulsarException, now: float) -> Effects:
        return []

    def _fail_repeats(self, event: ProducerCreated, now: float) -> Effects:
        """Fail what may be stored of transactions, if the broker may store it again, or drop what it has not stored."""
        last = signed(event.command.last_sequence_id)
        why = "the topic does not drop repeats" if last < 0 else "the broker might take it for a repeat in any case"
        what = f"the connection was lost before the broker's receipt, and {why}"
        error = OutcomeUnknown(f"a message of a transaction is not sent again: {what}")
        return [Fail(one.token, error) for one in self.pending.fail_unrepeatable(last)]

    def _reset_failures(self) -> None:
        self._backoff.reset()
        self.last_error = None

    def _refused(self, event: SendRefused) -> PendingSend[Any] | None:
        return self.pending.find(event.connection, signed(event.command.sequence_id))

    def _skips_head(self, connection: int, receipt: CommandSendReceipt) -> bool:
        return self.pending.skips_head(connection, signed(receipt.sequence_id), position_of(receipt.message_id))

    def _write(self) -> Effects:
        items = self.pending.take_unwritten()
        return [SendBatches(self.connection, tuple(items))] if items else []

    def _watch(self, now: float) -> Effects:
        """Ensure the timer of what is pending first."""
        return self.timers.ensure(SendTimeoutDue, self.pending.next_deadline(), now)

    def _finished_flushes(self) -> Effects:
        if not self._flushes.waiting:
            return []
        return [Flushed(token) for token in self._flushes.take_finished(len(self.pending))]

    def _fail_pending(self, error: PulsarException, refused: object = None) -> Effects:
        failed = self.pending.fail_all()
        sends = [Fail(one.token, error if one.token is refused else one.error_for(error)) for one in failed]
        return [*sends, *self._finished_flushes()]


_highest_id_of: Callable[[StoredSend], int] = attrgetter("highest_sequence_id")


def _verdict(event: RequestRefused | SendRefused) -> SendVerdict | None:
    """Return the verdict of the table of errors on a refusal; None for a PRODUCER that was never sent."""
    error = event.error
    return meaning_of(error).send if isinstance(error, BrokerRefusal) else None


def _late(failed: FailedSend, failure: str) -> Timeout:
    """Return a Timeout, which callers expect of a send timeout, with a text that says if the batch may be stored."""
    if failed.may_be_stored:
        return Timeout(f"no receipt came in time: it may be stored all the same{failure}")
    return Timeout(f"no broker took it in time: it is not stored{failure}")


def _foreign(why: str) -> InvalidTxnStatusError:
    return InvalidTxnStatusError("InvalidTxnStatus", f"{why}: the message is not a part of it")
