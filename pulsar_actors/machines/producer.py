"""One producer on one topic partition: from the first lookup to the last receipt.

The machine decides when to look up, when a broker may be asked to create the producer, what is written when, what a
receipt or a refusal ends, and when to give up. Connections, lookups and the bytes of a batch are others' business. What
is pending, and in which order, is a ledger's (`pending_sends.py`); what each error means stands in `server_errors.py`.
How a producer gets and loses its binding to a broker is told in `binding.py`, with the actions for it.

Every PRODUCER has a higher epoch than the one before, so that brokers can tell an old binding from a new one. Before
anything new is written on a new binding, all that is pending is written again. What is published without a binding
waits, and may time out while it waits.

Closing sends CLOSE_PRODUCER at once. The broker stores what it was sent before it answers, so what is written still
gets its receipts while the answer is awaited, and fails only if it has none by then. Nothing is sent again.
"""

from collections.abc import Callable
from enum import Enum, unique
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from pulsar_actors.exceptions import BrokerRefusal, ConnectionLost, PulsarException, Timeout
from pulsar_actors.machines.binding import Binding
from pulsar_actors.machines.binding_events import (
    BrokerClosed,
    Close,
    CloseAnswered,
    CloseTimedOut,
    CreationTimedOut,
    Detached,
    EndAtOnce,
    Fail,
    LookedUp,
    LookupFailed,
    LookupStumbled,
    Migrated,
    Misanswered,
    Open,
    RetryDue,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Row
from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.flushes import Flushes
from pulsar_actors.machines.ledgers.last_failure import after
from pulsar_actors.machines.ledgers.pending_sends import Failed, Pending, PendingSends, Receipt, Stored, unsent
from pulsar_actors.machines.ledgers.producer_identity import ProducerIdentity
from pulsar_actors.machines.ledgers.sequence_ids import SequenceIds
from pulsar_actors.machines.ledgers.server_errors import MEANINGS, SendVerdict
from pulsar_actors.machines.producer_events import (
    AskToCreate,
    Attached,
    Complete,
    Created,
    CreateRefused,
    CreateTimedOut,
    Flush,
    Flushed,
    HearRest,
    Opened,
    Persisted,
    Publish,
    Send,
    SendRefused,
    SendsDue,
)
from pulsar_actors.wire.ids import signed
from pulsar_actors.wire.PulsarApi_pb2 import CommandCloseProducer, CommandProducer


@unique
class State(Enum):
    """Where a producer can be."""

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

SEARCHING: Final = (LOOKING_UP, CONNECTING, WAITING)
ASKED: Final = (CREATING, QUEUED)
FOUND: Final = (*ASKED, CLOSE_PENDING, READY)
UNBOUND: Final = (*SEARCHING, *ASKED, CLOSE_PENDING)
LIVE: Final = (*UNBOUND, READY, CLOSING)
OVER: Final = (CLOSED, FENCED, TERMINATED, FAILED)
ENDING: Final = (CLOSING, *OVER)
UNATTACHED: Final = (IDLE, *SEARCHING)


# fmt: off
ROWS: Final = (
    #   trigger           source         dest           guard                  does
    Row(Open,             IDLE,          LOOKING_UP,    None,                  "start"),
    Row(LookedUp,         LOOKING_UP,    CONNECTING,    None,                  "attach_looked_up"),
    Row(LookupStumbled,   LOOKING_UP,    INTERNAL,      None,                  "note_failure"),
    Row(LookupFailed,     LOOKING_UP,    FAILED,        "is_final",            "end_refused"),
    Row(LookupFailed,     LOOKING_UP,    WAITING,       None,                  "back_off"),
    Row(RetryDue,         WAITING,       LOOKING_UP,    None,                  "look_up_again"),
    Row(Attached,         CONNECTING,    CREATING,      None,                  "create"),
    Row(Detached,         CONNECTING,    FAILED,        "is_final",            "end_refused"),
    Row(Detached,         CONNECTING,    WAITING,       None,                  "back_off"),
    Row(Created,          CREATING,      QUEUED,        "must_queue",          "wait_in_line"),
    Row(Created,          QUEUED,        INTERNAL,      "must_queue"),
    Row(Created,          ASKED,         READY,         None,                  "begin"),
    Row(CreateRefused,    ASKED,         FENCED,        "is_fenced",           "end_refused"),
    Row(CreateRefused,    ASKED,         TERMINATED,    "is_terminated",       "end_refused"),
    Row(CreateRefused,    ASKED,         FAILED,        "is_final",            "end_refused"),
    Row(CreateRefused,    ASKED,         WAITING,       None,                  "let_go_refused"),
    Row(Detached,         ASKED,         FAILED,        "is_final",            "end_refused"),
    Row(Detached,         ASKED,         WAITING,       None,                  "back_off"),

    # A PRODUCER that was given up is closed before the next one.
    Row(CreateTimedOut,   CREATING,      CLOSE_PENDING, None,                  "close_first"),
    Row(BrokerClosed,     ASKED,         CLOSE_PENDING, None,                  "close_first_then_move"),
    Row(Migrated,         ASKED,         CLOSE_PENDING, "tells_a_cluster",     "close_first_then_migrate"),
    Row(BrokerClosed,     CLOSE_PENDING, INTERNAL,      None,                  "note_broker"),
    Row(Migrated,         CLOSE_PENDING, INTERNAL,      "tells_a_cluster",     "note_cluster"),
    Row(CloseAnswered,    CLOSE_PENDING, CONNECTING,    "was_told_a_broker",   "attach_assigned"),
    Row(CloseAnswered,    CLOSE_PENDING, WAITING,       None,                  "let_go"),
    Row(CloseTimedOut,    CLOSE_PENDING, WAITING,       None,                  "drop_unanswering"),
    Row(Detached,         CLOSE_PENDING, WAITING,       None,                  "back_off"),

    # Bound.
    Row(Publish,          READY,         INTERNAL,      None,                  "write"),
    Row(Persisted,        READY,         WAITING,       "skips_the_head",      "drop_skipping"),
    Row(Persisted,        READY,         INTERNAL,      None,                  "match_receipts"),
    Row(SendRefused,      READY,         FENCED,        "is_fenced",           "end_send_refused"),
    Row(SendRefused,      READY,         TERMINATED,    "is_terminated",       "end_send_refused"),
    Row(SendRefused,      READY,         WAITING,       "is_no_fault_of_it",   "drop_refusing"),
    Row(SendRefused,      READY,         INTERNAL,      "names_nothing"),
    Row(SendRefused,      READY,         INTERNAL,      None,                  "fail_one"),
    Row(BrokerClosed,     READY,         CONNECTING,    "tells_a_broker",      "move"),
    Row(BrokerClosed,     READY,         WAITING,       None,                  "let_go_closed"),
    Row(Migrated,         READY,         LOOKING_UP,    "tells_a_cluster",     "migrate"),
    Row(Detached,         READY,         WAITING,       None,                  "back_off"),

    # Whether bound or not.
    Row(Publish,          UNBOUND,       INTERNAL,      None,                  "keep"),
    Row(Flush,            LIVE,          INTERNAL,      None,                  "mark"),
    Row(SendsDue,         LIVE,          INTERNAL,      "a_send_is_late",      "fail_late"),
    Row(SendsDue,         LIVE,          INTERNAL,      None,                  "watch_again"),
    Row(Misanswered,      (*FOUND, CLOSING), INTERNAL,  None,                  "drop_misanswering"),
    Row(CreationTimedOut, SEARCHING,     FAILED,        None,                  "stop_trying"),
    Row(CreationTimedOut, CREATING,      CLOSING,       None,                  "give_up_asking"),
    Row(CreationTimedOut, CLOSE_PENDING, CLOSING,       None,                  "give_up_waiting"),

    # The end.
    Row(Close,            UNATTACHED,    CLOSED,        None,                  "end_unbound"),
    Row(Close,            ASKED,         CLOSING,       None,                  "abandon"),
    Row(Close,            CLOSE_PENDING, CLOSING,       None,                  "await_close"),
    Row(Close,            READY,         CLOSING,       None,                  "finish"),
    Row(Persisted,        CLOSING,       INTERNAL,      "skips_the_head",      "pass_over"),
    Row(Persisted,        CLOSING,       INTERNAL,      None,                  "match_receipts"),
    Row(SendRefused,      CLOSING,       INTERNAL,      "names_nothing"),
    Row(SendRefused,      CLOSING,       INTERNAL,      None,                  "fail_one"),
    Row(CloseAnswered,    CLOSING,       CLOSED,        None,                  "end_closed"),
    Row(CloseTimedOut,    CLOSING,       CLOSED,        None,                  "end_unanswered"),
    Row(Detached,         CLOSING,       CLOSED,        None,                  "end_closed"),
    Row(EndAtOnce,        (IDLE, *LIVE), CLOSED,        None,                  "end_without_goodbye"),
    Row(Publish,          ENDING,        INTERNAL,      None,                  "turn_away"),
    Row(Flush,            OVER,          INTERNAL,      None,                  "turn_flush_away"),
    Row(Close,            ENDING,        INTERNAL),
    Row(EndAtOnce,        OVER,          INTERNAL),

    # Too late, or too early to mean anything.
    Row(LookedUp,         (IDLE, CONNECTING, WAITING, *FOUND, *ENDING),                    INTERNAL),
    Row(LookupStumbled,   (IDLE, CONNECTING, WAITING, *FOUND, *ENDING),                    INTERNAL),
    Row(LookupFailed,     (IDLE, CONNECTING, WAITING, *FOUND, *ENDING),                    INTERNAL),
    Row(Attached,         (IDLE, LOOKING_UP, WAITING, *FOUND, *ENDING),                    INTERNAL),
    Row(Detached,         (IDLE, LOOKING_UP, WAITING, *OVER),                              INTERNAL),
    Row(Misanswered,      (IDLE, *SEARCHING, *OVER),                                       INTERNAL),
    Row(Created,          (IDLE, *SEARCHING, CLOSE_PENDING, READY, *ENDING),               INTERNAL),
    Row(CreateRefused,    (IDLE, *SEARCHING, CLOSE_PENDING, READY, *ENDING),               INTERNAL),
    Row(CreateTimedOut,   (IDLE, *SEARCHING, QUEUED, CLOSE_PENDING, READY, *ENDING),       INTERNAL),
    Row(CloseAnswered,    (IDLE, *SEARCHING, *ASKED, READY, *OVER),                        INTERNAL),
    Row(CloseTimedOut,    (IDLE, *SEARCHING, *ASKED, READY, *OVER),                        INTERNAL),
    Row(BrokerClosed,     (IDLE, *SEARCHING, CLOSING, *OVER),                              INTERNAL),
    Row(Migrated,         tuple(State),                                                    INTERNAL),
    Row(Persisted,        (IDLE, *UNBOUND, *OVER),                                         INTERNAL),
    Row(SendRefused,      (IDLE, *UNBOUND, *OVER),                                         INTERNAL),
    Row(CreationTimedOut, (IDLE, QUEUED, READY, *ENDING),                                  INTERNAL),
    Row(RetryDue,         (IDLE, LOOKING_UP, CONNECTING, *FOUND, *ENDING),                 INTERNAL),
    Row(SendsDue,         (IDLE, *OVER),                                                   INTERNAL),
)
# fmt: on

OURS: Final = (Open, Publish, Flush, Close, EndAtOnce)

CHART: Final = Chart("producer", states=State, initial=IDLE, final=OVER, ours=OURS, rows=ROWS)


class ProducerSettings(NamedTuple):
    """What a producer is told when it is made: `command` carries all that the user chose, the name if one was given.

    `is_intact` gets the token of a batch and says whether the batch still agrees with its checksum.
    """

    command: CommandProducer
    is_intact: Callable[[Any], bool]
    operation_timeout: float = 30.0
    tls: bool = False


class Producer(Binding, chart=CHART):
    """The guards and actions that only producers have, in the chart's order."""

    __slots__ = ("_flushes", "_is_intact", "_watching", "identity", "pending", "sequence_ids")

    def __init__(
        self, settings: ProducerSettings, pending: PendingSends[Any], sequence_ids: SequenceIds, backoff: Backoff
    ) -> None:
        super().__init__(settings.command.topic, backoff, settings.operation_timeout, tls=settings.tls)
        self.pending = pending
        self.sequence_ids = sequence_ids
        self.identity = ProducerIdentity(settings.command)
        self._is_intact = settings.is_intact
        self._watching = False
        self._flushes: Flushes[object] = Flushes()

    @property
    def is_bound(self) -> bool:
        """Hold in use."""
        return self.state is READY

    def attaching(self) -> Effects:
        """Do nothing: what is pending is kept."""
        return []

    def unbound(self, now: float) -> None:
        """Have what was written wait to be written again."""
        self.pending.unbind()

    def close_request(self) -> CommandCloseProducer:
        """Close by id."""
        return self.identity.close_request()

    def fail_calls(self, error: PulsarException) -> Effects:
        """Fail what is pending."""
        return self._fail_pending(error)

    def fail_leftovers(self, error: PulsarException) -> Effects:
        """Fail nothing: what is pending has failed as a call."""
        return []

    # Getting bound.

    def create(self, event: Attached, now: float) -> Effects:
        """Send PRODUCER."""
        return [AskToCreate(self._next_attempt(), self.identity.next_request(), self._operation_timeout)]

    def must_queue(self, event: Created, now: float) -> bool:
        """Hold while another producer has the topic."""
        return not event.command.producer_ready

    def wait_in_line(self, event: Created, now: float) -> Effects:
        """Wait for as long as it takes: the user chose to."""
        self.timers.stop(CreationTimedOut)
        return []

    def begin(self, event: Created, now: float) -> Effects:
        """Note what the broker says, and write all that is pending before anything new."""
        opened = [Opened(event.command.producer_name)] if self._accepted() else []
        self.identity.adopt(event.command)
        self.sequence_ids.created(event.command.last_sequence_id)
        self.pending.bind(self.connection)
        if not len(self.pending):
            self._forget_trouble()  # with something pending, a binding is only good once the broker stores
        return [*opened, *self._write()]

    def is_fenced(self, event: CreateRefused | SendRefused, now: float) -> bool:
        """Hold when another producer has taken over."""
        return _code(event) == "ProducerFenced"

    def is_terminated(self, event: CreateRefused | SendRefused, now: float) -> bool:
        """Hold when the topic was ended for good."""
        return _code(event) == "TopicTerminatedError"

    # Bound.

    def write(self, event: Publish, now: float) -> Effects:
        """Account, then write."""
        return [*self.keep(event, now), *self._write()]

    def skips_the_head(self, event: Persisted, now: float) -> bool:
        """Hold when what was written first got no receipt, and something behind it does."""
        return self.pending.skips_head(event.connection, signed(event.commands[0].sequence_id))

    def drop_skipping(self, event: Persisted, now: float) -> Effects:
        """Send all again on a new connection, for this one has lost something."""
        sequence_id = signed(event.commands[0].sequence_id)
        return self._drop(ConnectionLost(f"a receipt for {sequence_id} came out of order"), now)

    def pass_over(self, event: Persisted, now: float) -> Effects:
        """Let go of the receipts that skip the head: it can be sent no more, and ends in doubt with the close."""
        skips = self.pending.skips_head
        rest = tuple(dropwhile(lambda each: skips(event.connection, signed(each.sequence_id)), event.commands))
        return [HearRest(event._replace(commands=rest))] if rest else []

    def match_receipts(self, event: Persisted, now: float) -> Effects:
        """End the head of the queue as often as a receipt is for it, up to one that skips it."""
        ended: list[Stored[Any]] = []
        rest: list[HearRest] = []
        for place, command in enumerate(event.commands):
            message_id = command.message_id
            where = (signed(message_id.ledgerId), signed(message_id.entryId))
            stored = self.pending.receipt(event.connection, signed(command.sequence_id), where)
            if stored is Receipt.SKIPS_HEAD:
                rest = [HearRest(event._replace(commands=event.commands[place:]))]
                break
            if not isinstance(stored, Receipt):
                self.sequence_ids.published(stored.last)
                self._flushes.head_ended()
                ended.append(stored)
        if not ended:
            return [*self._finished_flushes(), *rest]
        self._forget_trouble()
        return [Complete(tuple(ended)), *self._finished_flushes(), *rest]

    def end_send_refused(self, event: SendRefused, now: float) -> Effects:
        """Pass the error on to everybody who waits. Only the batch that it names is known not to be stored."""
        item = self._refused(event)
        failed = self._fail_pending(event.error, item.token if item is not None and item.writes == 1 else None)
        return [*failed, *self.end_refused(event, now)]

    def is_no_fault_of_it(self, event: SendRefused, now: float) -> bool:
        """Hold unless the batch itself is at fault, being not allowed or corrupted in memory, or has ended already."""
        verdict = MEANINGS[event.command.error].send
        if verdict is SendVerdict.CHECK:
            item = self._refused(event)
            return item is not None and self._is_intact(item.token)
        return verdict is SendVerdict.RECONNECT

    def drop_refusing(self, event: SendRefused, now: float) -> Effects:
        """Send all again on a new connection."""
        return self._drop(ConnectionLost(f"the broker refused a message: {event.error}"), now)

    def names_nothing(self, event: SendRefused, now: float) -> bool:
        """Hold when what was refused has ended already."""
        return self._refused(event) is None

    def fail_one(self, event: SendRefused, now: float) -> Effects:
        """Fail what was refused and nothing else."""
        item = self._refused(event)
        assert item is not None  # noqa: S101 - the guard has looked
        failed = self.pending.fail(item)
        return [Fail(failed.token, failed.told(event.error)), *self._finished_flushes()]

    # Whether bound or not.

    def keep(self, event: Publish, now: float) -> Effects:
        """Queue behind what is pending."""
        for item in event.items:
            self.pending.add(item)
        return [] if self._watching else self._watch(now)

    def mark(self, event: Flush, now: float) -> Effects:
        """Remember who waits for what is pending."""
        self._flushes.ask(event.token, len(self.pending))
        return self._finished_flushes()

    def a_send_is_late(self, event: SendsDue, now: float) -> bool:
        """Hold when the oldest batch has waited for as long as was agreed."""
        return self.pending.is_late(now)

    def fail_late(self, event: SendsDue, now: float) -> Effects:
        """Fail everything, in order, for nothing may overtake what failed."""
        failure = after(self._last_error)
        late = [Fail(one.token, _late(one, failure)) for one in self.pending.fail_all()]
        self._watching = False
        return [*late, *self._finished_flushes()]

    def watch_again(self, event: SendsDue, now: float) -> Effects:
        """Look again when the batch that is the oldest now is due."""
        return self._watch(now)

    # The end.

    def finish(self, event: Close, now: float) -> Effects:
        """Close at once; what is written gets its receipts before the answer."""
        return [self._ask_to_close()]

    def turn_away(self, event: Publish, now: float) -> Effects:
        """Fail what came after the end, and free its room."""
        for item in event.items:
            self.pending.give_back(item.messages, item.size)
        return [Fail(item.token, unsent(self._over)) for item in event.items]

    def turn_flush_away(self, event: Flush, now: float) -> Effects:
        """Say why there is nothing to flush."""
        return [Fail(event.token, self._over)]

    def _forget_trouble(self) -> None:
        self._backoff.reset()
        self._last_error = None

    def _refused(self, event: SendRefused) -> Pending[Any] | None:
        return self.pending.find(event.connection, signed(event.command.sequence_id))

    def _write(self) -> Effects:
        items = self.pending.take_unwritten()
        return [Send(self.connection, tuple(items))] if items else []

    def _watch(self, now: float) -> Effects:
        deadline = self.pending.next_deadline()
        self._watching = deadline is not None
        return [] if deadline is None else [self.timers.start(SendsDue, max(0.0, deadline - now))]

    def _finished_flushes(self) -> Effects:
        return [Flushed(token) for token in self._flushes.take_finished(len(self.pending))]

    def _fail_pending(self, error: PulsarException, refused: object = None) -> Effects:
        failed = self.pending.fail_all()
        sends = [Fail(one.token, error if one.token is refused else one.told(error)) for one in failed]
        return [*sends, *self._finished_flushes()]


def _code(event: CreateRefused | SendRefused) -> str:
    return event.error.code if isinstance(event.error, BrokerRefusal) else ""


def _late(failed: Failed[Any], failure: str) -> Timeout:
    """Say the same in the same class, as callers of a send with a timeout expect, but say what is known."""
    if failed.may_be_stored:
        return Timeout(f"no receipt came in time: it may be stored all the same{failure}")
    return Timeout(f"no broker took it in time: it is not stored{failure}")
