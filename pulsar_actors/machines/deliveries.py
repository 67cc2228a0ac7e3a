"""The state machine of one consumer's messages: what a broker delivers, and what becomes of it.

Here a consumer's trackers meet: each row is one thing that happens to messages, and its action turns what the trackers
answer into grants of permits, requests for redelivery, acknowledgements and dead letters. `incoming_entries.py` judges
each entry that arrives, and `consumer_acks.py` has the commands for acknowledgements.

Whether a broker can be asked for anything is decided in `consumer.py`, which tells this machine of a binding that
begins or ends; `consumer_seek_unsubscribe.py` tells it of seeks. Without a binding nothing needs to be asked for again:
a broker redelivers unacknowledged messages to the next consumer. Acknowledgements made without a binding wait for the
next one. They are held during a seek as well: one that overtook SEEK would skip messages of the new position.

A reader acknowledges by itself each message that it has handed out, and all before it, for its user does not.

A topic that is not persistent gives all its messages the id (0, 0) and keeps no position. There no message is ever
taken for one that came before.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, unique
from typing import Final

from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler import ConnectionHandler
from pulsar_actors.machines.consumer_acks import ConsumerAcks, ConsumerTrackers
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeUpTo,
    AckReceiptsDue,
    AcksAnswered,
    AcksDue,
    AcksSettled,
    Bound,
    ClearQueue,
    Closing,
    DeadLetterFailed,
    DeadLetterSent,
    Ended,
    EndOfTopicReached,
    EntryCorrupt,
    FlushAcks,
    HandedOut,
    MarkEndOfTopic,
    MessagesArrived,
    MessagesDiscarded,
    NegativeAcknowledge,
    NotePassed,
    NoteSkipped,
    QueueEntries,
    ReceiveGivenUp,
    ReceiveWaiting,
    RedeliverUnacknowledged,
    RedeliveryRequested,
    SeekRefused,
    SeekSent,
    SendConsumerCommand,
    SendToDeadLetters,
    Sought,
    SweepDue,
    Unbound,
)
from pulsar_actors.machines.incoming_entries import DeliveredEntry, IncomingEntries, IncomingOutcome, Skipped
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers import ack_set
from pulsar_actors.machines.trackers.ack_grouping_tracker import corrupt_group
from pulsar_actors.machines.trackers.entry_map import EntryKey, Generation, is_real
from pulsar_actors.machines.trackers.flow_permits import MOST_PERMITS
from pulsar_actors.machines.trackers.negative_acks_tracker import RedeliverAll
from pulsar_actors.machines.trackers.server_errors import last_failure_text
from pulsar_actors.machines.trackers.start_message_id import SubscribeStart
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.frames import message_limit
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.protobuf import unsigned
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandFlow,
    CommandRedeliverUnacknowledgedMessages,
    MessageIdData,
)


@unique
class State(Enum):
    """The states of a consumer's deliveries."""

    UNBOUND = "No broker sends messages; acknowledgements wait for the next one that does."
    BOUND = "Messages come as permits allow, and acknowledgements go out."
    SEEKING = "SEEK is sent: messages come, but acknowledgements wait for its answer."
    CLOSING = "The consumer is closing; acknowledgements that were sent may still be answered."
    OVER = "The consumer is closed."


UNBOUND, BOUND, SEEKING, CLOSING, OVER = State

RECEIVING: Final = (BOUND, SEEKING)
LIVE: Final = (UNBOUND, *RECEIVING)
ENDING: Final = (CLOSING, OVER)

# fmt: off
ROWS: Final = (
    #   trigger                  source           dest        guard               does
    Row(Bound,                   UNBOUND,         BOUND,      "epoch_has_moved",  "begin_in_new_epoch"),
    Row(Bound,                   UNBOUND,         BOUND,      None,               "begin"),
    Row(SeekSent,                BOUND,           SEEKING,    None,               "send_acks"),
    Row(SeekRefused,             SEEKING,         BOUND,      None,               "go_on"),
    Row(Sought,                  SEEKING,         BOUND,      None,               "seek_while_bound"),
    Row(Sought,                  UNBOUND,         INTERNAL,   None,               "seek"),
    Row(Unbound,                 RECEIVING,       UNBOUND,    None,               "unbind"),
    Row(Closing,                 LIVE,            CLOSING),
    Row(Ended,                   CLOSING,         OVER,       None,               "abandon_acks"),

    # Messages that come, and permits.
    Row(MessagesArrived,         RECEIVING,       INTERNAL,   None,               "take_in"),
    Row(HandedOut,               RECEIVING,       INTERNAL,   None,               "return_permits"),
    Row(HandedOut,               UNBOUND,         INTERNAL,   None,               "note_served"),
    Row(MessagesDiscarded,       RECEIVING,       INTERNAL,   None,               "free_discarded"),
    Row(EntryCorrupt,            RECEIVING,       INTERNAL,   None,               "refuse_corrupt"),
    Row(ReceiveWaiting,          RECEIVING,       INTERNAL,   None,               "ask_for_one"),
    Row(ReceiveWaiting,          UNBOUND,         INTERNAL,   None,               "note_waiting"),
    Row(ReceiveGivenUp,          LIVE,            INTERNAL,   None,               "note_receive_given_up"),
    Row(EndOfTopicReached,       RECEIVING,       INTERNAL,   None,               "mark_end"),

    # Redelivery and dead letters.
    Row(NegativeAcknowledge,     RECEIVING,       INTERNAL,   None,               "note_negative_acks"),
    Row(RedeliverUnacknowledged, RECEIVING,       INTERNAL,   None,               "redeliver_all"),
    Row(RedeliverUnacknowledged, UNBOUND,         INTERNAL,   None,               "begin_epoch"),
    Row(SweepDue,                RECEIVING,       INTERNAL,   None,               "sweep"),
    Row(DeadLetterSent,          LIVE,            INTERNAL,   None,               "acknowledge_dead_letter"),
    Row(DeadLetterFailed,        RECEIVING,       INTERNAL,   None,               "set_dead_letter_aside"),
    Row(DeadLetterFailed,        UNBOUND,         INTERNAL,   None,               "forget_dead_letter"),

    # Acknowledgements.
    Row(Acknowledge,             LIVE,            INTERNAL,   None,               "mark"),
    Row(AcknowledgeUpTo,         LIVE,            INTERNAL,   None,               "mark_up_to"),
    Row(AcksDue,                 BOUND,           INTERNAL,   None,               "send_acks"),
    Row(FlushAcks,               BOUND,           INTERNAL,   None,               "send_acks"),
    Row(AcksAnswered,            (*LIVE, CLOSING), INTERNAL,  None,               "end_acks"),
    Row(AckReceiptsDue,          LIVE,            INTERNAL,   None,               "fail_late_receipts"),
    Row(Acknowledge,             ENDING,          INTERNAL,   None,               "turn_acks_away"),
    Row(AcknowledgeUpTo,         ENDING,          INTERNAL,   None,               "turn_ack_away"),
)

IGNORES: Final = (
    Ignore(SeekRefused, UNBOUND),
    Ignore(Unbound, UNBOUND),
    Ignore(Closing, ENDING),
    Ignore(Ended, OVER),
    Ignore(FlushAcks, (UNBOUND, SEEKING)),
    # The next binding brings everything unacknowledged again.
    Ignore((MessagesDiscarded, EntryCorrupt, NegativeAcknowledge), (UNBOUND, *ENDING)),
    Ignore((HandedOut, RedeliverUnacknowledged, ReceiveWaiting, ReceiveGivenUp), ENDING),
    # Too late to mean anything.
    Ignore((MessagesArrived, EndOfTopicReached, SweepDue), (UNBOUND, *ENDING)),
    Ignore(AcksDue, (UNBOUND, SEEKING, *ENDING)),
    Ignore((AckReceiptsDue, DeadLetterSent, DeadLetterFailed), ENDING),
    Ignore(AcksAnswered, OVER),
)
# fmt: on

INNER: Final = (Bound, Unbound, SeekSent, SeekRefused, Sought, FlushAcks, Closing, Ended)

OURS: Final = (
    *INNER, Acknowledge, AcknowledgeUpTo, NegativeAcknowledge, RedeliverUnacknowledged, HandedOut, MessagesDiscarded,
    EntryCorrupt, ReceiveWaiting, ReceiveGivenUp,
)  # fmt: skip

CHART: Final = Chart("deliveries", states=State, initial=UNBOUND, final=(OVER,), ours=OURS, rows=ROWS, ignores=IGNORES)


class Deliveries(StateMachine, chart=CHART, current=("connection",)):
    """The deliveries of one consumer: the guards and actions in the chart's order."""

    __slots__ = (
        "_consumer_id", "_handler", "_incoming", "_reads", "_stored", "_subscribed_epoch", "acks", "connection",
        "generation", "trackers",
    )  # fmt: skip

    def __init__(
        self, handler: ConnectionHandler, consumer_id: int, trackers: ConsumerTrackers, *, stored: bool, reads: bool
    ) -> None:
        super().__init__(handler.timers)
        self.connection = 0
        self.generation = Generation()
        self.trackers = trackers
        self.acks = ConsumerAcks(consumer_id, trackers, timeout=handler.operation_timeout, stored=stored)
        self._handler = handler
        self._consumer_id = consumer_id
        self._stored = stored
        self._reads = reads
        self._subscribed_epoch = 0
        self._incoming = IncomingEntries(
            negative_acks=trackers.negative_acks,
            acks=trackers.acks,
            start=trackers.start,
            chunks=trackers.chunks,
            dead_letters=trackers.dead_letters,
            reads=reads,
        )

    @property
    def starts_at_unresolved_latest(self) -> bool:
        """True if the start is the end of a persistent topic, and the entry it stands for is not known yet."""
        return self._stored and self.trackers.start.is_unresolved_latest

    # Before and after SUBSCRIBE.

    def attach(self, connection: int) -> ClearQueue:
        """Begin with a connection; drop what is queued, since the next broker sends it again."""
        self.connection = connection
        self.generation = self.generation.attached_to(connection)
        return ClearQueue(self.generation)

    def subscribe(self, max_message_size: int, opened: MessageId | None, now_ms: int) -> SubscribeStart:
        """Return the position to subscribe from, which is behind the last entry that was opened.

        A batch that could not have been sent to a broker with this limit is taken for corrupt.
        """
        self.trackers.acks.largest_batch = ack_set.largest_batch(message_limit(max_message_size))
        self._subscribed_epoch = self.generation.epoch
        if opened is not None and self._stored:
            self.trackers.start.opened(opened, self.trackers.chunks.unread_from(opened.position))
        return self.trackers.start.subscribe(now_ms)

    def epoch_has_moved(self, event: Bound, now: float) -> bool:
        """Check whether a redelivery of everything began after SUBSCRIBE was sent, which has the epoch before."""
        return self._subscribed_epoch != self.generation.epoch

    def begin_in_new_epoch(self, event: Bound, now: float) -> Effects:
        """Send the new epoch first: messages of the old one are dropped as too early."""
        return [self._send_redeliver([], self.generation.epoch), *self.begin(event, now)]

    def begin(self, event: Bound, now: float) -> Effects:
        """Send the acknowledgements that waited for a connection, and grant the whole queue."""
        self._forget_failure()
        self.trackers.acks.rebound()
        self.trackers.chunks.rebound()
        acks = self.acks.send_all()
        return [*acks, *self._flow(self.trackers.permits.subscribed(self.generation)), *self._watch(now)]

    def go_on(self, event: SeekRefused, now: float) -> Effects:
        """Send the acknowledgements that were held for the seek with the next group."""
        return [*self.acks.send_later(), *self._watch(now)]

    def seek_while_bound(self, event: Sought, now: float) -> Effects:
        """Start again at the target on the same binding, which the broker did not close."""
        sought = self.seek(event, now)
        self.trackers.start.stays_bound()
        granted = self._flow(self.trackers.permits.cleared(self.generation))
        return [*sought, *granted, *self.acks.send_later(), *self._watch(now)]

    def seek(self, event: Sought, now: float) -> Effects:
        """Start again at the target: everything known of earlier messages is void."""
        self.generation = self.generation.sought()
        void = self.trackers.seek(event.target, self.generation)
        return [ClearQueue(self.generation), *self.acks.complete(void, None)]

    def unbind(self, event: Unbound, now: float) -> Effects:
        """Expect again what was on its way."""
        self.trackers.unbind()
        return []

    def abandon_acks(self, event: Ended, now: float) -> Effects:
        """Fail the acknowledgements that have no answer."""
        return self.acks.abandon(event.error)

    # Messages that come, and permits.

    def take_in(self, event: MessagesArrived, now: float) -> Effects:
        """Queue what the user is to see, and return the permits of the rest."""
        outcome = self._incoming.take(event.messages, now, event.now_ms)
        permits = self.trackers.permits
        permits.arrived(self.generation, outcome.arrived)
        due = permits.returned(self.generation, outcome.returned)
        queued: Effects = [QueueEntries(tuple(outcome.deliver))] if outcome.deliver else []
        if self._reads:
            queued = [*_skipped(outcome), *queued, *_passed(outcome)]
        dead = [SendToDeadLetters(tuple(outcome.dead))] if outcome.dead else []
        judged = self._acknowledge_judged(outcome, now) if outcome.corrupt or outcome.acknowledge else ()
        swept = self._watch(now) if outcome.has_chunks else ()  # nothing else that arrives sets a deadline
        return [*queued, *dead, *judged, *self._flow(due), *swept]

    def return_permits(self, event: HandedOut, now: float) -> Effects:
        """Grant new permits once half of the queue is free, and await acknowledgements."""
        unacked = self.trackers.unacked_messages
        if unacked is not None and event.generation.still_delivers(self.generation):
            counts = event.counts or (0,) * len(event.message_ids)
            handed = zip(event.message_ids, counts, strict=True)
            unacked.handed_out(
                [(entry, count) for one, count in handed for entry in self.trackers.chunks.chunks_of(one)], now
            )
        read: Effects = []
        if self._reads and event.message_ids:
            last = AcknowledgeUpTo(event.generation, event.message_ids[-1])
            read = [*self.acks.acknowledge_up_to(last, now), *self.acks.send_later()]
        flow = self._flow(self.trackers.permits.handed_out(event.generation, event.messages))
        return [*read, *flow, *self._watch(now)]

    def note_served(self, event: HandedOut, now: float) -> Effects:
        """Ask for no more messages for the callers that have theirs."""
        self.trackers.permits.waiting_served(event.messages)
        return []

    def free_discarded(self, event: MessagesDiscarded, now: float) -> Effects:
        """Grant new permits once half of the queue is free."""
        return self._flow(self.trackers.permits.returned(event.generation, event.messages))

    def refuse_corrupt(self, event: EntryCorrupt, now: float) -> Effects:
        """Acknowledge the entry at once, with what is wrong with it, and return its permits."""
        if not event.generation.still_acknowledges(self.generation):
            return []
        flow = self._flow(self.trackers.permits.returned(event.generation, event.messages))
        return [self.acks.send(corrupt_group([event.entry], event.validation_error)), *flow]

    def ask_for_one(self, event: ReceiveWaiting, now: float) -> Effects:
        """Ask for a message, if the queue has no room of its own."""
        return self._flow(self.trackers.permits.add_waiting_and_grant())

    def note_waiting(self, event: ReceiveWaiting, now: float) -> Effects:
        """Count the caller, for the permits of the next binding."""
        self.trackers.permits.add_waiting()
        return []

    def note_receive_given_up(self, event: ReceiveGivenUp, now: float) -> Effects:
        """Ask for no more messages for the caller."""
        self.trackers.permits.remove_waiting()
        return []

    def mark_end(self, event: EndOfTopicReached, now: float) -> Effects:
        """Queue the end of the topic behind its messages; the binding stays."""
        return [MarkEndOfTopic()]

    # Redelivery and dead letters.

    def note_negative_acks(self, event: NegativeAcknowledge, now: float) -> Effects:
        """Ask for messages again after their delay, unless a redelivery of everything has brought them already.

        An id that no message has is passed over: no caller waits, and there is nothing to ask for.
        """
        if event.generation.still_delivers(self.generation):
            for message_id, redelivery_count in event.messages:
                for entry in filter(is_real, self.trackers.chunks.chunks_of(message_id)):
                    self.trackers.negative_acks.refused(entry, redelivery_count, now)
        return self._watch(now)

    def redeliver_all(self, event: RedeliverUnacknowledged, now: float) -> Effects:
        """Ask for everything again, in a new epoch."""
        return self._redeliver_all(self.trackers.negative_acks.request_all())

    def begin_epoch(self, event: RedeliverUnacknowledged, now: float) -> Effects:
        """Drop everything that is here: the next broker sends it again, in the new epoch."""
        return [self._begin_epoch(self.trackers.negative_acks.request_all())]

    def sweep(self, event: SweepDue, now: float) -> Effects:
        """Ask again for what is due, and give up chunks whose message will not be complete."""
        unacked = self.trackers.unacked_messages
        refused = self.trackers.negative_acks.take_due(now)
        late = [] if unacked is None else unacked.take_due(now)
        due = [*refused, *late]
        expired = self.trackers.chunks.expire(now)
        acked = self.acks.acknowledge_own(expired, self.generation, now)
        dead = self._dead_among(due)
        given_up = set(self._entries(one.message_id for one in dead))
        again = self._ask_again([entry for entry in due if entry not in given_up])
        requested = [RedeliveryRequested(tuple(refused), tuple(late))] if due else []
        return [*([SendToDeadLetters(dead)] if dead else []), *acked, *again, *requested, *self._watch(now)]

    def acknowledge_dead_letter(self, event: DeadLetterSent, now: float) -> Effects:
        """Acknowledge the original, now that the dead letter topic has it."""
        if self.trackers.dead_letters is not None:
            self.trackers.dead_letters.sent(event.message_id.position)
        acked = self.acks.acknowledge_own([event.message_id], event.generation, now)
        return [*acked, *self._watch(now)]

    def set_dead_letter_aside(self, event: DeadLetterFailed, now: float) -> Effects:
        """Ask for the entry again after a rest, since what has failed once may well fail again."""
        dead_letters = self.trackers.dead_letters
        failed = () if dead_letters is None else dead_letters.failed(event.message_id.position)
        count = max((one.redelivery_count for one in failed), default=0)
        for entry in self.trackers.chunks.chunks_of(event.message_id):
            self.trackers.negative_acks.set_aside(entry, count, now)
        return self._watch(now)

    def forget_dead_letter(self, event: DeadLetterFailed, now: float) -> Effects:
        """Let the next broker's delivery of it count."""
        if self.trackers.dead_letters is not None:
            self.trackers.dead_letters.failed(event.message_id.position)
        return []

    # Acknowledgements.

    def mark(self, event: Acknowledge, now: float) -> Effects:
        """Hold acknowledgements until a command of them is worth sending."""
        acked = self.acks.acknowledge(event, now)
        receipts = self._watch_receipts(now) if event.tokens else ()
        return [*acked, *receipts, *self._watch(now)]

    def mark_up_to(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Hold a cumulative acknowledgement until a command is worth sending."""
        acked = self.acks.acknowledge_up_to(event, now)
        receipts = () if event.token is None else self._watch_receipts(now)
        return [*acked, *receipts, *self._watch(now)]

    def send_acks(self, event: AcksDue | FlushAcks | SeekSent, now: float) -> Effects:
        """Send the acknowledgements that are held."""
        return self.acks.send_all()

    def end_acks(self, event: AcksAnswered, now: float) -> Effects:
        """Complete the callers that wait for the receipt."""
        answered = self.acks.answer(event, now)
        if self._handler.is_bound:
            self._forget_failure()
        return [*answered, *self._watch(now)]

    def fail_late_receipts(self, event: AckReceiptsDue, now: float) -> Effects:
        """Fail the callers whose receipt is late, and name the last failure."""
        handler = self._handler
        reason = f"the consumer of {handler.topic} is {handler.state_name}{last_failure_text(handler.last_error)}"
        return [*self.acks.fail_late_receipts(reason, now), *self._watch_receipts(now)]

    def turn_acks_away(self, event: Acknowledge, now: float) -> Effects:
        """Fail acknowledgements after the end."""
        return [AcksSettled(event.tokens, self._handler.ending)] if event.tokens else []

    def turn_ack_away(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Fail an acknowledgement after the end."""
        return [] if event.token is None else [AcksSettled((event.token,), self._handler.ending)]

    def _watch(self, now: float) -> Effects:
        """Ensure the timer for the next redelivery."""
        return self.timers.ensure(SweepDue, self.trackers.next_sweep(), now)

    def _watch_receipts(self, now: float) -> Effects:
        return self.timers.ensure(AckReceiptsDue, self.acks.receipts.next_deadline(), now)

    def _forget_failure(self) -> None:
        """Forget what went wrong before this binding, unless a caller has waited for a receipt since then.

        Queries and calls remember by themselves what went wrong while they waited.
        """
        if self.acks.receipts.next_deadline() is None:
            self._handler.last_error = None

    def _acknowledge_judged(self, outcome: IncomingOutcome, now: float) -> Effects:
        """Acknowledge corrupt entries, in one command for each kind of fault, and those that nobody needs."""
        faults: dict[CommandAck.ValidationError.ValueType, list[EntryKey]] = {}
        for entry, fault in outcome.corrupt:
            faults.setdefault(fault, []).append(entry)
        refused = [self.acks.send(corrupt_group(entries, fault)) for fault, entries in faults.items()]
        return [*refused, *self.acks.acknowledge_own(outcome.acknowledge, self.generation, now)]

    def _dead_among(self, entries: Iterable[EntryKey]) -> tuple[DeliveredEntry, ...]:
        """Return the entries that have failed their last try, without what of them was acknowledged."""
        dead_letters = self.trackers.dead_letters
        if dead_letters is None:
            return ()
        return tuple(self._unacknowledged(one) for entry in entries for one in dead_letters.refused(entry))

    def _unacknowledged(self, delivery: DeliveredEntry) -> DeliveredEntry:
        if not is_batch(delivery.entry.metadata):
            return delivery
        return delivery._replace(
            wanted=self.trackers.acks.unacknowledged_of(delivery.message_id.position, delivery.wanted)
        )

    def _ask_again(self, entries: Sequence[EntryKey]) -> Effects:
        effects: list[object] = []
        for request in self.trackers.negative_acks.request(entries):
            if isinstance(request, RedeliverAll):
                return self._redeliver_all(request)
            self.trackers.acks.forget(request.entries)
            ids = [
                MessageIdData(ledgerId=unsigned(ledger), entryId=unsigned(entry)) for ledger, entry in request.entries
            ]
            effects.append(self._send_redeliver(ids, None))
        return effects

    def _redeliver_all(self, request: RedeliverAll) -> Effects:
        cleared = self._begin_epoch(request)
        flow = self._flow(self.trackers.permits.cleared(self.generation))
        return [cleared, self._send_redeliver([], self.generation.epoch), *flow]

    def _begin_epoch(self, request: RedeliverAll) -> ClearQueue:
        self.generation = self.generation.redelivered_to(request.epoch)
        self.trackers.chunks.drop_unfinished()
        if self.trackers.unacked_messages is not None:
            self.trackers.unacked_messages.clear()
        return ClearQueue(self.generation)

    def _entries(self, message_ids: Iterable[MessageId]) -> Iterator[EntryKey]:
        return (entry for one in message_ids for entry in self.trackers.chunks.chunks_of(one))

    def _flow(self, permits: int) -> Sequence[SendConsumerCommand]:
        """Grant permits, in as many commands as it takes."""
        parts = (min(permits - granted, MOST_PERMITS) for granted in range(0, permits, MOST_PERMITS))
        return [SendConsumerCommand(CommandFlow(consumer_id=self._consumer_id, messagePermits=part)) for part in parts]

    def _send_redeliver(self, ids: Sequence[MessageIdData], epoch: int | None) -> SendConsumerCommand:
        consumer_id = self._consumer_id
        command = CommandRedeliverUnacknowledgedMessages
        return SendConsumerCommand(command(consumer_id=consumer_id, message_ids=ids, consumer_epoch=epoch))


def _skipped(outcome: IncomingOutcome) -> Sequence[NoteSkipped]:
    skipped: list[Skipped] = [*outcome.corrupt, *outcome.unfinished]
    return [NoteSkipped(tuple(skipped))] if skipped else []


def _passed(outcome: IncomingOutcome) -> Sequence[NotePassed]:
    """Note how far the broker is, where the queued entries do not show it."""
    shown = outcome.deliver[-1].message_id.position if outcome.deliver else None
    return [] if outcome.passed is None or outcome.passed == shown else [NotePassed(outcome.passed)]
