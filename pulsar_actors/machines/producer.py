"""The state machine of one producer on one topic partition: from the first lookup to the last receipt.

The machine decides when to look up, when to ask a broker to create the producer, when to write which batches, what a
receipt or a refusal completes, and when to give up. `connection_handler.py` tells how a producer gets and loses its
broker, and has the rows and actions for that. `trackers/pending_messages.py` keeps the pending batches in their order,
and `trackers/server_errors.py` lists what each error means.

Every PRODUCER has a higher epoch than the one before, so that brokers can tell an old binding from a new one. On a new
binding all pending batches are written again before anything new. A batch that is published without a binding waits,
and may time out while it waits.

Closing sends CLOSE_PRODUCER at once. The broker stores what it was sent before it answers. So written batches still get
their receipts while the answer is awaited, and fail only if they have none by then. Nothing is sent again.
"""

from collections.abc import Callable
from enum import Enum, unique
from itertools import dropwhile
from typing import Any, ClassVar, Final, NamedTuple

from pulsar_actors.exceptions import BrokerRefusal, ConnectionLost, PulsarException, Timeout
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler import (
    ConnectionHandler,
    HandlerStates,
    handler_ignores,
    handler_rows,
)
from pulsar_actors.machines.connection_handler_events import Close, CreationTimedOut, EndAtOnce, Fail, Open
from pulsar_actors.machines.producer_events import (
    AskToCreate,
    Created,
    CreateRefused,
    CreateTimedOut,
    Flush,
    Flushed,
    HandleRemainingReceipts,
    ProducerAttached,
    ProducerOpened,
    Publish,
    ReceiptsArrived,
    SendBatches,
    SendRefused,
    SendsCompleted,
    SendTimeoutDue,
)
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.pending_messages import (
    FailedSend,
    PendingFlushes,
    PendingMessages,
    PendingSend,
    ReceiptVerdict,
    StoredSend,
    not_sent_error,
)
from pulsar_actors.machines.trackers.producer_identity import ProducerIdentity, SequenceIds
from pulsar_actors.machines.trackers.server_errors import MEANINGS, SendVerdict, last_failure_text
from pulsar_actors.wire.protobuf import signed
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseProducer, CommandProducer


@unique
class State(Enum):
    """The states of a producer."""

    IDLE = "Made, but not asked to open yet."
    LOOKING_UP = "The broker that serves the topic is being found."
    CONNECTING = "The broker is known; a connection to it is awaited."
    CREATING = "PRODUCER is sent; the broker has to accept or refuse."
    QUEUED = "The broker accepts, but another producer has the topic: its turn may never come."
    READY = "Bound: batches are written as they come, and receipts end them."
    CLOSE_PENDING = "A PRODUCER was given up; CLOSE_PRODUCER has to be answered before the next one."
    WAITING = "Something failed; after a pause the topic is looked up again."
    CLOSING = "Closed by our side; CLOSE_PRODUCER is sent and receipts still come."
    CLOSED = "Over, as the user wished, or tidied up after a first creation that took too long."
    FENCED = "Over: another producer has taken the topic."
    TERMINATED = "Over: the topic takes no more messages."
    FAILED = "Over: it could not be created, and trying again would not help."


(
    IDLE, LOOKING_UP, CONNECTING, CREATING, QUEUED, READY, CLOSE_PENDING, WAITING, CLOSING,
    CLOSED, FENCED, TERMINATED, FAILED,
) = State  # fmt: skip

ASKED: Final = (CREATING, QUEUED)
OVER: Final = (CLOSED, FENCED, TERMINATED, FAILED)
STATES: Final = HandlerStates(State, creating=ASKED, over=OVER)
SEARCHING, UNBOUND, LIVE, ENDING = STATES.searching, STATES.unbound, STATES.live, STATES.ending

# fmt: off
ROWS: Final = (
    #   trigger           source           dest           guard                  does
    Row(ProducerAttached, CONNECTING,      CREATING,      None,                  "create"),
    Row(Created,          CREATING,        QUEUED,        "must_queue",          "wait_in_line"),
    Row(Created,          QUEUED,          INTERNAL,      "must_queue"),
    Row(Created,          ASKED,           READY,         None,                  "begin"),
    Row(CreateRefused,    ASKED,           FENCED,        "is_fenced",           "end_refused"),
    Row(CreateRefused,    ASKED,           TERMINATED,    "is_terminated",       "end_refused"),
    Row(CreateRefused,    ASKED,           FAILED,        "is_final",            "end_refused"),
    Row(CreateRefused,    ASKED,           WAITING,       None,                  "let_go_refused"),
    Row(CreateTimedOut,   CREATING,        CLOSE_PENDING, None,                  "close_first"),
    *handler_rows(STATES),

    # Bound.
    Row(Publish,          READY,           INTERNAL,      None,                  "write"),
    Row(ReceiptsArrived,  READY,           WAITING,       "skips_the_head",      "drop_skipping"),
    Row(ReceiptsArrived,  READY,           INTERNAL,      None,                  "match_receipts"),
    Row(SendRefused,      READY,           FENCED,        "is_fenced",           "end_send_refused"),
    Row(SendRefused,      READY,           TERMINATED,    "is_terminated",       "end_send_refused"),
    Row(SendRefused,      READY,           WAITING,       "must_be_resent",      "drop_refusing"),
    Row(SendRefused,      READY,           INTERNAL,      "is_for_nothing_pending"),
    Row(SendRefused,      READY,           INTERNAL,      None,                  "fail_one"),

    # Whether bound or not.
    Row(Publish,          UNBOUND,         INTERNAL,      None,                  "keep"),
    Row(Flush,            (*LIVE, CLOSING), INTERNAL,     None,                  "mark"),
    Row(SendTimeoutDue,   (*LIVE, CLOSING), INTERNAL,     "a_send_is_late",      "fail_late"),
    Row(SendTimeoutDue,   (*LIVE, CLOSING), INTERNAL,     None,                  "watch_again"),

    # The end.
    Row(ReceiptsArrived,  CLOSING,         INTERNAL,      "skips_the_head",      "pass_over"),
    Row(ReceiptsArrived,  CLOSING,         INTERNAL,      None,                  "match_receipts"),
    Row(SendRefused,      CLOSING,         INTERNAL,      "is_for_nothing_pending"),
    Row(SendRefused,      CLOSING,         INTERNAL,      None,                  "fail_one"),
    Row(Publish,          ENDING,          INTERNAL,      None,                  "turn_away"),
    Row(Flush,            OVER,            INTERNAL,      None,                  "turn_flush_away"),
)

IGNORES: Final = (
    Ignore(ProducerAttached,               (IDLE, LOOKING_UP, WAITING, *ASKED, CLOSE_PENDING, READY, *ENDING)),
    Ignore((Created, CreateRefused),       (IDLE, *SEARCHING, CLOSE_PENDING, READY, *ENDING)),
    Ignore(CreateTimedOut,                 (IDLE, *SEARCHING, QUEUED, CLOSE_PENDING, READY, *ENDING)),
    Ignore((ReceiptsArrived, SendRefused), (IDLE, *UNBOUND, *OVER)),
    Ignore(SendTimeoutDue,                 (IDLE, *OVER)),
    Ignore(CreationTimedOut,               READY),
    *handler_ignores(STATES),
)
# fmt: on

OURS: Final = (Open, Publish, Flush, Close, EndAtOnce)

CHART: Final = Chart("producer", states=State, initial=IDLE, final=OVER, ours=OURS, rows=ROWS, ignores=IGNORES)


class ProducerSettings(NamedTuple):
    """The settings of a producer. `command` carries what the user chose, with the producer's name if one was given.

    `is_intact` gets the token of a batch and tells whether the batch still agrees with its checksum.
    """

    command: CommandProducer
    is_intact: Callable[[Any], bool]
    operation_timeout: float = 30.0
    tls: bool = False


class ProducerMachine(ConnectionHandler, chart=CHART):
    """The guards and actions of the producer's own rows, in the chart's order."""

    __slots__ = ("_flushes", "_is_intact", "_watching", "identity", "pending", "sequence_ids")

    states: ClassVar = STATES

    def __init__(
        self, settings: ProducerSettings, pending: PendingMessages[Any], sequence_ids: SequenceIds, backoff: Backoff
    ) -> None:
        super().__init__(settings.command.topic, backoff, settings.operation_timeout, tls=settings.tls)
        self.pending = pending
        self.sequence_ids = sequence_ids
        self.identity = ProducerIdentity(settings.command)
        self._is_intact = settings.is_intact
        self._watching = False  # a timer runs for the head; deadlines only grow, so a new batch needs no other
        self._flushes: PendingFlushes[object] = PendingFlushes()

    def close_request(self) -> CommandCloseProducer:
        """Make CLOSE_PRODUCER."""
        return self.identity.close_request()

    # Getting bound.

    def create(self, event: ProducerAttached, now: float) -> Effects:
        """Send PRODUCER."""
        return [AskToCreate(self.next_attempt(), self.identity.next_request(), self.operation_timeout)]

    def must_queue(self, event: Created, now: float) -> bool:
        """Check whether another producer has the topic still."""
        return not event.command.producer_ready

    def wait_in_line(self, event: Created, now: float) -> Effects:
        """Wait without a time limit, as the access mode says."""
        self.timers.stop(CreationTimedOut)
        return []

    def begin(self, event: Created, now: float) -> Effects:
        """Adopt the broker's answer, and write all that is pending before anything new."""
        opened = [ProducerOpened(event.command.producer_name)] if self._accepted() else []
        self.identity.adopt(event.command)
        self.sequence_ids.created(event.command.last_sequence_id)
        self.pending.bind(self.connection)
        if not len(self.pending):
            self._reset_failures()  # with something pending, a binding is only good once the broker stores
        return [*opened, *self._write()]

    def is_fenced(self, event: CreateRefused | SendRefused, now: float) -> bool:
        """Check whether another producer has taken the topic."""
        return _code(event) == "ProducerFenced"

    def is_terminated(self, event: CreateRefused | SendRefused, now: float) -> bool:
        """Check whether the topic was terminated."""
        return _code(event) == "TopicTerminatedError"

    def _attaching(self) -> Effects:
        return []  # pending batches are kept

    def _unbind(self, reason: str, now: float) -> Effects:
        self.pending.unbind()
        return []

    # Bound.

    def write(self, event: Publish, now: float) -> Effects:
        """Add the batches to the pending ones, then write them."""
        return [*self.keep(event, now), *self._write()]

    def skips_the_head(self, event: ReceiptsArrived, now: float) -> bool:
        """Check whether the batch written first got no receipt, though one behind it did."""
        return self.pending.skips_head(event.connection, signed(event.commands[0].sequence_id))

    def drop_skipping(self, event: ReceiptsArrived, now: float) -> Effects:
        """Close the connection, which has lost something, and write everything again on a new one."""
        sequence_id = signed(event.commands[0].sequence_id)
        return self._drop(ConnectionLost(f"a receipt for {sequence_id} came out of order"), now)

    def match_receipts(self, event: ReceiptsArrived, now: float) -> Effects:
        """Complete the head of the queue as often as a receipt is for it, up to a receipt that skips it."""
        ended: list[StoredSend[Any]] = []
        rest: list[HandleRemainingReceipts] = []
        for index, command in enumerate(event.commands):
            message_id = command.message_id
            position = (signed(message_id.ledgerId), signed(message_id.entryId))
            stored = self.pending.receipt(event.connection, signed(command.sequence_id), position)
            if stored is ReceiptVerdict.SKIPS_HEAD:
                rest = [HandleRemainingReceipts(event._replace(commands=event.commands[index:]))]
                break
            if not isinstance(stored, ReceiptVerdict):
                self.sequence_ids.published(stored.last)
                self._flushes.head_ended()
                ended.append(stored)
        if not ended:
            return [*self._finished_flushes(), *rest]
        self._reset_failures()
        return [SendsCompleted(tuple(ended)), *self._finished_flushes(), *rest]

    def end_send_refused(self, event: SendRefused, now: float) -> Effects:
        """Fail everything with the error. Only the batch that it names is known not to be stored."""
        item = self._refused(event)
        failed = self._fail_pending(event.error, item.token if item is not None and item.writes == 1 else None)
        return [*failed, *self.end_refused(event, now)]

    def must_be_resent(self, event: SendRefused, now: float) -> bool:
        """Check that the batch is not at fault itself: not allowed, or corrupted in memory. Nor may it have ended."""
        verdict = MEANINGS[event.command.error].send
        if verdict is SendVerdict.CHECK:
            item = self._refused(event)
            return item is not None and self._is_intact(item.token)
        return verdict is SendVerdict.RECONNECT

    def drop_refusing(self, event: SendRefused, now: float) -> Effects:
        """Write everything again on a new connection."""
        return self._drop(ConnectionLost(f"the broker refused a message: {event.error}"), now)

    def is_for_nothing_pending(self, event: SendRefused, now: float) -> bool:
        """Check whether the refused batch has ended already."""
        return self._refused(event) is None

    def fail_one(self, event: SendRefused, now: float) -> Effects:
        """Fail the refused batch and nothing else."""
        item = self._refused(event)
        assert item is not None  # noqa: S101 - the guard has looked
        failed = self.pending.fail(item)
        return [Fail(failed.token, failed.error_for(event.error)), *self._finished_flushes()]

    # Whether bound or not.

    def keep(self, event: Publish, now: float) -> Effects:
        """Add the batches to the pending ones."""
        for item in event.items:
            self.pending.add(item)
        return [] if self._watching else self._watch(now)

    def mark(self, event: Flush, now: float) -> Effects:
        """Complete the flush once what is pending now has ended."""
        self._flushes.ask(event.token, len(self.pending))
        return self._finished_flushes()

    def a_send_is_late(self, event: SendTimeoutDue, now: float) -> bool:
        """Check whether the send timeout of the oldest batch is over."""
        return self.pending.is_late(now)

    def fail_late(self, event: SendTimeoutDue, now: float) -> Effects:
        """Fail everything, in order, since nothing may overtake what failed."""
        failure = last_failure_text(self.last_error)
        late = [Fail(one.token, _late(one, failure)) for one in self.pending.fail_all()]
        self._watching = False
        return [*late, *self._finished_flushes()]

    def watch_again(self, event: SendTimeoutDue, now: float) -> Effects:
        """Look again when the batch that is the oldest now is due."""
        return self._watch(now)

    # The end.

    def finish(self, event: Close, now: float) -> Effects:
        """Close at once; written batches get their receipts before the answer."""
        return [self._ask_to_close()]

    def pass_over(self, event: ReceiptsArrived, now: float) -> Effects:
        """Drop the receipts that skip the head: it cannot be sent again, and fails in doubt with the close."""
        skips = self.pending.skips_head
        rest = tuple(dropwhile(lambda each: skips(event.connection, signed(each.sequence_id)), event.commands))
        return [HandleRemainingReceipts(event._replace(commands=rest))] if rest else []

    def turn_away(self, event: Publish, now: float) -> Effects:
        """Fail batches that come after the end, and free their room."""
        for item in event.items:
            self.pending.give_back(item.messages, item.size)
        return [Fail(item.token, not_sent_error(self.ending)) for item in event.items]

    def turn_flush_away(self, event: Flush, now: float) -> Effects:
        """Fail a flush after the end."""
        return [Fail(event.token, self.ending)]

    def _fail_calls(self, error: PulsarException, now: float) -> Effects:
        return self._fail_pending(error)

    def _fail_rest(self, error: PulsarException, now: float) -> Effects:
        return []

    def _reset_failures(self) -> None:
        self._backoff.reset()
        self.last_error = None

    def _refused(self, event: SendRefused) -> PendingSend[Any] | None:
        return self.pending.find(event.connection, signed(event.command.sequence_id))

    def _write(self) -> Effects:
        items = self.pending.take_unwritten()
        return [SendBatches(self.connection, tuple(items))] if items else []

    def _watch(self, now: float) -> Effects:
        deadline = self.pending.next_deadline()
        self._watching = deadline is not None
        return self.timers.ensure(SendTimeoutDue, deadline, now)

    def _finished_flushes(self) -> Effects:
        return [Flushed(token) for token in self._flushes.take_finished(len(self.pending))]

    def _fail_pending(self, error: PulsarException, refused: object = None) -> Effects:
        failed = self.pending.fail_all()
        sends = [Fail(one.token, error if one.token is refused else one.error_for(error)) for one in failed]
        return [*sends, *self._finished_flushes()]


def _code(event: CreateRefused | SendRefused) -> str:
    return event.error.code if isinstance(event.error, BrokerRefusal) else ""


def _late(failed: FailedSend[Any], failure: str) -> Timeout:
    """Tell in one class of error, which callers of a send with a timeout expect, whether the batch may be stored."""
    if failed.may_be_stored:
        return Timeout(f"no receipt came in time: it may be stored all the same{failure}")
    return Timeout(f"no broker took it in time: it is not stored{failure}")
