"""The state machine of one consumer's messages: permits, redelivery, dead letters, and their acknowledgement.

Each row is an event of messages. Its action asks the consumer's trackers, and returns grants of permits, requests for
redelivery, dead letters, and acknowledgements that the user does not make. `incoming_entries.py` filters the entries
that arrive. `consumer_acks.py` sends all acknowledgements.

`consumer.py` tells this machine when a binding begins or ends, and `consumer_seek_unsubscribe.py` tells it of seeks.
Without a binding no redelivery needs to be requested: brokers redeliver unacknowledged messages with the next
SUBSCRIBE. The acknowledgements that are held are sent before a redelivery is requested, or acknowledged messages would
come again.

A reader acknowledges each message that it has handed out, and all before it, because its user does not.

In a non-persistent topic all messages have the id (0, 0), and there is no position. So duplicates cannot be recognised
there, and every message is delivered. Nothing is redelivered there, so no redelivery is requested, and what is queued
stays queued when a binding ends. The next binding gets permits for the rest of the queue.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import ConnectionLost, PulsarException
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.consumer_acks import ConsumerAcks
from pulsar_actors.machines.consumer_events import (
    AcknowledgeCorrupt,
    AcknowledgeHandedOut,
    AcknowledgeUnneeded,
    AcksHeld,
    AcksInDoubt,
    AcksVoided,
    Bound,
    ClearQueue,
    Closing,
    ClusterLeft,
    ConsumerAttached,
    DeadLetterFailed,
    DeadLetterSent,
    EndOfTopicReached,
    EntryCorrupt,
    EntryUndecryptable,
    FlushAcks,
    HandedOut,
    MarkEndOfTopic,
    MessagesArrived,
    MessagesDiscarded,
    NegativeAcknowledge,
    NotePassed,
    NoteSkipped,
    QueueEntries,
    ReceiverGaveUp,
    ReceiverWaits,
    RedeliverUnacknowledged,
    RedeliveryDue,
    RedeliveryRequested,
    ResizeQueue,
    ResizeReceiverQueue,
    SeekInDoubt,
    SendConsumerCommand,
    SendToDeadLetters,
    Sought,
    Unbound,
)
from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.machines.incoming_entries import DeliveredEntry, IncomingEntries, IncomingOutcome, Skipped
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers import ack_set
from pulsar_actors.machines.trackers.entry_map import EntryKey, Generation, is_real
from pulsar_actors.machines.trackers.flow_permits import MOST_PERMITS
from pulsar_actors.machines.trackers.negative_acks_tracker import RedeliverAll
from pulsar_actors.machines.trackers.start_message_id import SubscribeStart
from pulsar_actors.machines.trackers.undecryptable_entries import HeldPermits
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
    """The states of a consumer's messages."""

    UNBOUND = "No broker sends messages."
    BOUND = "Messages come as permits allow, and redelivery can be requested."
    OVER = "The consumer is closing or closed."


UNBOUND, BOUND, OVER = State

# fmt: off
ROWS: Final = (
    #   trigger                  source            dest      guard               does
    Row(Bound,                   UNBOUND,          BOUND,    "epoch_has_moved",  "announce_epoch_and_grant"),
    Row(Bound,                   UNBOUND,          BOUND,    None,               "grant_whole_queue"),
    Row(Sought,                  BOUND,            INTERNAL, None,               "seek_while_bound"),
    Row(Sought,                  UNBOUND,          INTERNAL, None,               "seek"),
    Row(SeekInDoubt,             (UNBOUND, BOUND), INTERNAL, "broker_remembers", "void_in_doubt"),
    Row(SeekInDoubt,             (UNBOUND, BOUND), INTERNAL, None,               "drop_acks_in_doubt"),
    Row(ClusterLeft,             UNBOUND,          INTERNAL, None,               "void_all"),
    Row(Unbound,                 BOUND,            UNBOUND,  None,               "unbind"),
    Row(Closing,                 (UNBOUND, BOUND), OVER),

    # Messages that come, and permits.
    Row(MessagesArrived,         BOUND,            INTERNAL, None,               "take_in"),
    Row(HandedOut,               BOUND,            INTERNAL, None,               "return_permits"),
    Row(HandedOut,               UNBOUND,          INTERNAL, None,               "note_served"),
    Row(MessagesDiscarded,       BOUND,            INTERNAL, None,               "free_discarded"),
    Row(EntryCorrupt,            BOUND,            INTERNAL, "comes_after_seek", "refuse_corrupt"),
    Row(EntryUndecryptable,      BOUND,            INTERNAL, "comes_again",      "keep_undecryptable"),
    Row(EntryUndecryptable,      BOUND,            INTERNAL, None,               "free_discarded"),
    Row(MessagesDiscarded,       UNBOUND,          INTERNAL, None,               "note_freed"),
    Row(EntryCorrupt,            UNBOUND,          INTERNAL, None,               "note_freed"),
    Row(EntryUndecryptable,      UNBOUND,          INTERNAL, None,               "note_freed"),
    Row(ReceiverWaits,           BOUND,            INTERNAL, None,               "ask_for_one"),
    Row(ReceiverWaits,           UNBOUND,          INTERNAL, None,               "note_waiting"),
    Row(ReceiverGaveUp,          (UNBOUND, BOUND), INTERNAL, None,               "note_receiver_gave_up"),
    Row(ResizeQueue,             BOUND,            INTERNAL, None,               "resize_and_grant"),
    Row(ResizeQueue,             UNBOUND,          INTERNAL, None,               "resize"),
    Row(EndOfTopicReached,       BOUND,            INTERNAL, None,               "mark_end"),

    # Redelivery and dead letters.
    Row(NegativeAcknowledge,     BOUND,            INTERNAL, "is_still_here",    "note_negative_acks"),
    Row(RedeliverUnacknowledged, BOUND,            INTERNAL, "has_to_rewind",    "redeliver_all"),
    Row(RedeliverUnacknowledged, UNBOUND,          INTERNAL, "has_to_rewind",    "begin_epoch"),
    Row(RedeliveryDue,           BOUND,            INTERNAL, None,               "redeliver_due"),
    Row(DeadLetterSent,          (UNBOUND, BOUND), INTERNAL, "comes_after_seek", "acknowledge_dead_letter"),
    Row(DeadLetterFailed,        BOUND,            INTERNAL, "comes_after_seek", "set_dead_letter_aside"),
    Row(DeadLetterFailed,        UNBOUND,          INTERNAL, "comes_after_seek", "forget_dead_letter"),
)

IGNORES: Final = (
    Ignore(Unbound, UNBOUND),
    Ignore(ClusterLeft, (BOUND, OVER)),
    Ignore(Closing, OVER),
    # With the next binding the broker sends everything unacknowledged again.
    Ignore(NegativeAcknowledge, UNBOUND),
    # Events from before a seek, or from before a redelivery of everything.
    Ignore((EntryCorrupt, NegativeAcknowledge), BOUND),
    Ignore((DeadLetterSent, DeadLetterFailed), (UNBOUND, BOUND)),
    # The broker of a non-persistent topic has nothing to send again, or the messages come again already.
    Ignore(RedeliverUnacknowledged, (UNBOUND, BOUND)),
    Ignore((HandedOut, MessagesDiscarded, EntryCorrupt, EntryUndecryptable), OVER),
    Ignore((NegativeAcknowledge, RedeliverUnacknowledged, ReceiverWaits, ReceiverGaveUp, ResizeQueue), OVER),
    # Too late to mean anything.
    Ignore((MessagesArrived, EndOfTopicReached, RedeliveryDue), (UNBOUND, OVER)),
    Ignore((DeadLetterSent, DeadLetterFailed), OVER),
)
# fmt: on

OURS: Final = (
    NegativeAcknowledge, RedeliverUnacknowledged, HandedOut, MessagesDiscarded, EntryCorrupt, EntryUndecryptable,
    ReceiverWaits, ReceiverGaveUp, ResizeQueue,
)  # fmt: skip

CHART: Final = Chart(
    "consumer_messages",
    states=State,
    initial=UNBOUND,
    final=(OVER,),
    ours=OURS,
    rows=ROWS,
    ignores=IGNORES,
    inner=(Bound, Unbound, Sought, SeekInDoubt, ClusterLeft, Closing),
)


class ConsumerMessages(StateMachine, chart=CHART, current=("connection",)):
    """The messages of one consumer: the guards and actions in the chart's order."""

    __slots__ = (
        "_acks", "_consumer_id", "_incoming", "_persistent", "_subscribed_epoch",
        "connection", "generation", "is_reader", "trackers",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - a part is built whole
        self,
        handler: StateMachine,
        acks: ConsumerAcks,
        consumer_id: int,
        trackers: ConsumerTrackers,
        *,
        persistent: bool,
        is_reader: bool,
    ) -> None:
        super().__init__(handler)
        self.connection = 0
        self.generation = Generation()
        self.trackers = trackers
        self._acks = acks
        self._consumer_id = consumer_id
        self._persistent = persistent
        self.is_reader = is_reader
        self._subscribed_epoch = 0
        self._incoming = IncomingEntries(
            negative_acks=trackers.negative_acks,
            ack_grouping=trackers.ack_grouping,
            start=trackers.start,
            chunks=trackers.chunks,
            dead_letters=trackers.dead_letters,
            is_reader=is_reader,
        )

    @property
    def has_unresolved_latest(self) -> bool:
        """True if the start is LATEST in a persistent topic, and the last entry before it is not known yet."""
        return self._persistent and self.trackers.start.has_unresolved_latest

    # Before and after SUBSCRIBE.

    def attach(self, connection: int) -> Effects:
        """Note the new connection, and drop the queued entries if the next broker sends them again.

        If the broker keeps the position of the subscription, it also sends the opened messages again.
        """
        self.connection = connection
        if not self._persistent:
            return []
        self.generation = self.generation.attached_to(connection, broker_resends=self.trackers.start.durable)
        return [ClearQueue(self.generation)]

    def subscribe(self, attached: ConsumerAttached) -> SubscribeStart:
        """Return the position to subscribe at, which is after the last entry that was opened.

        A batch that is too large for this broker's limit counts as corrupt.
        """
        self.trackers.ack_grouping.largest_batch = ack_set.largest_batch(message_limit(attached.max_message_size))
        self._subscribed_epoch = self.generation.epoch
        opened = attached.opened
        if opened is not None and self._persistent:
            self.trackers.start.opened(opened, self.trackers.chunks.unread_from(opened.position))
        self.trackers.start.attached(attached.connection_id)
        return self.trackers.start.subscribe(attached.now_ms)

    def epoch_has_moved(self, event: Bound, now: float) -> bool:
        """Return whether a redelivery of everything was requested after SUBSCRIBE, which has the epoch before it."""
        return self._subscribed_epoch != self.generation.epoch

    def announce_epoch_and_grant(self, event: Bound, now: float) -> Effects:
        """Send the new epoch first, because messages of the old one are dropped."""
        return [self._send_redeliver([], self.generation.epoch), *self.grant_whole_queue(event, now)]

    def grant_whole_queue(self, event: Bound, now: float) -> Effects:
        """Send the acknowledgements that waited for a connection, and grant the room of the whole queue."""
        acks = self._acks.handle(event, now)
        self.trackers.chunks.rebound()
        self.trackers.start.accepted()
        return [*acks, *self._flow(self.trackers.permits.subscribed(self.generation), now), *self._watch(now)]

    def seek_while_bound(self, event: Sought, now: float) -> Effects:
        """Start again at the target with the same binding: the broker did not close the consumer."""
        sought = self.seek(event, now)
        return [*sought, *self._flow(self.trackers.permits.cleared(self.generation), now)]

    def seek(self, event: Sought, now: float) -> Effects:
        """Start again at the target. All data about earlier messages is void."""
        self.trackers.seek(event.target)
        return self._void(None, now)

    def broker_remembers(self, event: SeekInDoubt, now: float) -> bool:
        """Return whether the next broker begins where the seek may have gone. If not, the client names the position."""
        return self._persistent and self.trackers.start.durable

    def void_in_doubt(self, event: SeekInDoubt, now: float) -> Effects:
        """Forget all messages. All that is not acknowledged comes again, from wherever the seek has gone."""
        self.trackers.void()
        return [self._begin_generation(), *self.drop_acks_in_doubt(event, now)]

    def drop_acks_in_doubt(self, event: SeekInDoubt, now: float) -> Effects:
        """Have the acknowledgements fail that were made before the answer."""
        lost = ConnectionLost(f"a seek may have moved the subscription: {event.reason}")
        return self._acks.handle(AcksInDoubt(self.generation, lost), now)

    def void_all(self, event: ClusterLeft, now: float) -> Effects:
        """Forget all messages. Those of the new cluster have other ids, maybe the same ones."""
        self.trackers.leave_cluster()
        passed = [NotePassed(None)] if self.is_reader else []
        return [*self._void(event.error, now), *passed]

    def unbind(self, event: Unbound, now: float) -> Effects:
        """Forget pending redeliveries and incomplete chunks: the broker sends all of that again."""
        self.trackers.unbind()
        return []

    # Messages that come, and permits.

    def take_in(self, event: MessagesArrived, now: float) -> Effects:
        """Queue entries for the user, and return the permits of those that are not queued."""
        outcome = self._incoming.take(event.messages, now, event.now_ms)
        permits = self.trackers.permits
        permits.arrived(self.generation, outcome.arrived)
        due = permits.returned(self.generation, outcome.returned)
        queued: Effects = [QueueEntries(tuple(outcome.deliver))] if outcome.deliver else []
        if self.is_reader:
            queued = [*_skipped(outcome), *queued, *_passed(outcome)]
        dead = [SendToDeadLetters(tuple(outcome.dead))] if outcome.dead else []
        judged = self._acknowledge_judged(outcome, now) if outcome.corrupt or outcome.acknowledge else ()
        gone = outcome.passed is not None and self.trackers.chunks.came_up_to(outcome.passed)
        # Other entries set no deadline, and let no acknowledgement go on.
        if not (gone or outcome.has_chunks or outcome.ends_chunks):
            return [*queued, *dead, *judged, *self._flow(due, now)]
        held = [AcksHeld()] if self.trackers.is_waiting_for_chunks else []
        return [*queued, *dead, *judged, *self._flow(due, now), *self._watch(now), *held]

    def return_permits(self, event: HandedOut, now: float) -> Effects:
        """Grant new permits once half of the queue is free, and start acknowledgement timeouts."""
        unacked = self.trackers.unacked_messages
        if unacked is not None and event.generation.still_delivers(self.generation):
            counts = event.counts or (0,) * len(event.message_ids)
            handed = zip(event.message_ids, counts, strict=True)
            unacked.handed_out(
                [(entry, count) for one, count in handed for entry in self.trackers.chunks.chunks_of(one)], now
            )
        read: Effects = []
        if self.is_reader and event.message_ids:
            read = self._acks.handle(AcknowledgeHandedOut(event.generation, event.message_ids[-1]), now)
        flow = self._flow(self.trackers.permits.handed_out(event.generation, event.messages), now)
        return [*read, *flow, *self._watch(now)]

    def note_served(self, event: HandedOut, now: float) -> Effects:
        """Count down the callers that wait: these have their messages."""
        self.trackers.permits.waiting_served(event.messages)
        return self.note_freed(event, now)

    def note_freed(
        self, event: HandedOut | MessagesDiscarded | EntryCorrupt | EntryUndecryptable, now: float
    ) -> Effects:
        """Free the room of the messages. The next binding gets the permits."""
        self.trackers.permits.freed_unbound(event.generation, event.messages)
        return []

    def free_discarded(self, event: MessagesDiscarded | EntryUndecryptable, now: float) -> Effects:
        """Grant new permits once half of the queue is free."""
        return self._flow(self.trackers.permits.returned(event.generation, event.messages), now)

    def comes_after_seek(self, event: EntryCorrupt | DeadLetterSent | DeadLetterFailed, now: float) -> bool:
        """Return whether acknowledgements of the entry still count: there was no seek since."""
        return event.generation.still_acknowledges(self.generation)

    def refuse_corrupt(self, event: EntryCorrupt, now: float) -> Effects:
        """Acknowledge the entry at once, with its validation error, and return its permits."""
        acked = self._acks.handle(AcknowledgeCorrupt((event.entry,), event.validation_error), now)
        return [*acked, *self._flow(self.trackers.permits.returned(event.generation, event.messages), now)]

    def comes_again(self, event: EntryUndecryptable, now: float) -> bool:
        """Return whether the entry is still held here and will be redelivered: the queue was not cleared since."""
        return self._persistent and event.generation == self.generation

    def keep_undecryptable(self, event: EntryUndecryptable, now: float) -> Effects:
        """Start the acknowledgement timeout of the entry, so that it comes again. Until then it keeps its permits.

        Java and C++ keep them for good: a consumer stops after one queue of such messages, even with a new key.
        """
        undecryptable = self.trackers.undecryptable
        if undecryptable is None:
            return []
        entries = self.trackers.chunks.chunks_of(event.message_id)
        undecryptable.put(entries, HeldPermits(event.generation, event.messages), event.redelivery_count, now)
        return self._watch(now)

    def ask_for_one(self, event: ReceiverWaits, now: float) -> Effects:
        """Request a message, if the queue prefetches none."""
        return self._flow(self.trackers.permits.add_waiting_and_grant(), now)

    def note_waiting(self, event: ReceiverWaits, now: float) -> Effects:
        """Count the caller, for the permits of the next binding."""
        self.trackers.permits.add_waiting()
        return []

    def note_receiver_gave_up(self, event: ReceiverGaveUp, now: float) -> Effects:
        """Count down the callers that wait."""
        self.trackers.permits.remove_waiting()
        return []

    def resize_and_grant(self, event: ResizeQueue, now: float) -> Effects:
        """Change the size of the queue, and grant new permits if half of it is free now."""
        resized = self.resize(event, now)
        return [*resized, *self._flow(self.trackers.permits.returned(self.generation, 0), now)]

    def resize(self, event: ResizeQueue, now: float) -> Effects:
        """Change the size of the queue. The next binding gets permits for it."""
        self.trackers.permits.resize(event.size)
        return [ResizeReceiverQueue(event.size)]

    def mark_end(self, event: EndOfTopicReached, now: float) -> Effects:
        """Note the end of the topic, after its queued messages. The binding stays."""
        return [MarkEndOfTopic()]

    # Redelivery and dead letters.

    def is_still_here(self, event: NegativeAcknowledge, now: float) -> bool:
        """Return whether there was neither a redelivery of everything nor a seek since the messages were opened."""
        return event.generation.still_delivers(self.generation)

    def note_negative_acks(self, event: NegativeAcknowledge, now: float) -> Effects:
        """Note the messages, for redelivery after their delay, which counts instead of an acknowledgement timeout.

        An id that no message can have is ignored: no caller waits for an answer.
        """
        for message_id, redelivery_count in event.messages:
            for entry in filter(is_real, self.trackers.chunks.chunks_of(message_id)):
                self.trackers.negatively_acknowledged(entry, redelivery_count, now)
        return self._watch(now)

    def has_to_rewind(self, event: RedeliverUnacknowledged, now: float) -> bool:
        """Return whether messages can come again, because the topic stores them, and do not come again already."""
        since = event.generation
        return self._persistent and (since is None or since.still_delivers(self.generation))

    def redeliver_all(self, event: RedeliverUnacknowledged, now: float) -> Effects:
        """Request the redelivery of everything, in a new epoch."""
        return self._redeliver_all(self.trackers.negative_acks.request_all(), now)

    def begin_epoch(self, event: RedeliverUnacknowledged, now: float) -> Effects:
        """Drop the queued and opened messages: the next broker sends them again, in the new epoch."""
        return [self._begin_epoch(self.trackers.negative_acks.request_all())]

    def redeliver_due(self, event: RedeliveryDue, now: float) -> Effects:
        """Request the redelivery of due entries, and acknowledge or give back the chunks of expired messages."""
        unacked, undecryptable = self.trackers.unacked_messages, self.trackers.undecryptable
        expired = self.trackers.chunks.expire(now)
        nacked = [*self.trackers.negative_acks.take_due(now), *(one.position for one in expired.redeliver_later)]
        unread, held = ([], ()) if undecryptable is None else undecryptable.take_due(now)
        late = [*([] if unacked is None else unacked.take_due(now)), *unread]
        due = [*nacked, *late]
        acked = self._acknowledge(expired.acknowledge, self.generation, now)
        dead = self._dead_among(due)
        given_up = set(self._entries(one.message_id for one in dead))
        again = self._ask_again([entry for entry in due if entry not in given_up], now)
        requested = [RedeliveryRequested(tuple(nacked), tuple(late))] if due else []
        flow = self._return_held(held, now)
        return [*([SendToDeadLetters(dead)] if dead else []), *acked, *again, *requested, *flow, *self._watch(now)]

    def acknowledge_dead_letter(self, event: DeadLetterSent, now: float) -> Effects:
        """Acknowledge the original: the dead letter topic has stored the message."""
        if self.trackers.dead_letters is not None:
            self.trackers.dead_letters.sent(event.message_id.position)
        return self._acknowledge([event.message_id], event.generation, now)

    def set_dead_letter_aside(self, event: DeadLetterFailed, now: float) -> Effects:
        """Request the redelivery of the entry after a delay, because at once it would probably fail again."""
        dead_letters = self.trackers.dead_letters
        failed = () if dead_letters is None else dead_letters.failed(event.message_id.position)
        count = max((one.redelivery_count for one in failed), default=0)
        for entry in self.trackers.chunks.chunks_of(event.message_id):
            self.trackers.negative_acks.set_aside(entry, count, now)
        return self._watch(now)

    def forget_dead_letter(self, event: DeadLetterFailed, now: float) -> Effects:
        """Forget the entry: the next broker delivers it again."""
        if self.trackers.dead_letters is not None:
            self.trackers.dead_letters.failed(event.message_id.position)
        return []

    def _return_held(self, held: Sequence[HeldPermits], now: float) -> Effects:
        """Return the permits of undecryptable entries, which come again with new ones."""
        returned = self.trackers.permits.returned
        return [effect for generation, count in held for effect in self._flow(returned(generation, count), now)]

    def _watch(self, now: float) -> Effects:
        """Ensure the timer for the next redelivery."""
        return self.timers.ensure(RedeliveryDue, self.trackers.next_redelivery(), now)

    def _acknowledge_judged(self, outcome: IncomingOutcome, now: float) -> Effects:
        """Acknowledge corrupt entries, in one command for each kind of fault, and entries that are not needed."""
        faults: dict[CommandAck.ValidationError.ValueType, list[EntryKey]] = {}
        for entry, fault in outcome.corrupt:
            faults.setdefault(fault, []).append(entry)
        refused = [
            effect
            for fault, entries in faults.items()
            for effect in self._acks.handle(AcknowledgeCorrupt(tuple(entries), fault), now)
        ]
        return [*refused, *self._acknowledge(outcome.acknowledge, self.generation, now)]

    def _void(self, error: PulsarException | None, now: float) -> Effects:
        return [self._begin_generation(), *self._acks.handle(AcksVoided(self.generation, error), now)]

    def _begin_generation(self) -> ClearQueue:
        self.generation = self.generation.sought()
        return ClearQueue(self.generation)

    def _acknowledge(self, message_ids: Sequence[MessageId], generation: Generation, now: float) -> Effects:
        """Acknowledge messages that the user does not acknowledge."""
        return self._acks.handle(AcknowledgeUnneeded(generation, tuple(message_ids)), now) if message_ids else []

    def _dead_among(self, entries: Iterable[EntryKey]) -> tuple[DeliveredEntry, ...]:
        """Return the entries that have failed their last try, without their acknowledged messages."""
        dead_letters = self.trackers.dead_letters
        if dead_letters is None:
            return ()
        return tuple(self._unacknowledged(one) for entry in entries for one in dead_letters.last_try_failed(entry))

    def _unacknowledged(self, delivery: DeliveredEntry) -> DeliveredEntry:
        if not is_batch(delivery.entry.metadata):
            return delivery
        return delivery._replace(
            wanted=self.trackers.ack_grouping.unacknowledged_of(delivery.message_id.position, delivery.wanted)
        )

    def _ask_again(self, entries: Sequence[EntryKey], now: float) -> Effects:
        effects: list[object] = []
        for request in self.trackers.negative_acks.request(entries):
            if isinstance(request, RedeliverAll):
                return self._redeliver_all(request, now)
            effects += self._acks.handle(FlushAcks(), now)
            self.trackers.ack_grouping.forget(request.entries)
            self.trackers.chunks.redelivered(request.entries)
            ids = [
                MessageIdData(ledgerId=unsigned(ledger), entryId=unsigned(entry)) for ledger, entry in request.entries
            ]
            effects.append(self._send_redeliver(ids, None))
        return effects

    def _redeliver_all(self, request: RedeliverAll, now: float) -> Effects:
        cleared, acks = self._begin_epoch(request), self._acks.handle(FlushAcks(), now)
        flow = self._flow(self.trackers.permits.cleared(self.generation), now)
        return [cleared, *acks, self._send_redeliver([], self.generation.epoch), *flow]

    def _begin_epoch(self, request: RedeliverAll) -> ClearQueue:
        self.generation = self.generation.redelivered_to(request.epoch)
        self.trackers.chunks.drop_unfinished(is_lost=False)
        if self.trackers.unacked_messages is not None:
            self.trackers.unacked_messages.clear()
        if self.trackers.undecryptable is not None:
            self.trackers.undecryptable.clear()
        return ClearQueue(self.generation)

    def _entries(self, message_ids: Iterable[MessageId]) -> Iterator[EntryKey]:
        return (entry for one in message_ids for entry in self.trackers.chunks.chunks_of(one))

    def _flow(self, permits: int, now: float) -> Effects:
        """Grant permits, in as many commands as necessary. After a large batch, the broker may still have none."""
        goes_on = False
        if self.trackers.permits.at_broker <= 0 and self._persistent:  # or it drops chunks for which it has none
            self.trackers.chunks.pause()
        else:
            goes_on = self.trackers.chunks.resume(now)
        parts = (min(permits - granted, MOST_PERMITS) for granted in range(0, permits, MOST_PERMITS))
        flow = [SendConsumerCommand(CommandFlow(consumer_id=self._consumer_id, messagePermits=part)) for part in parts]
        return [*flow, *self._watch(now)] if goes_on else flow

    def _send_redeliver(self, ids: Sequence[MessageIdData], epoch: int | None) -> SendConsumerCommand:
        consumer_id = self._consumer_id
        command = CommandRedeliverUnacknowledgedMessages
        return SendConsumerCommand(command(consumer_id=consumer_id, message_ids=ids, consumer_epoch=epoch))


def _skipped(outcome: IncomingOutcome) -> Sequence[NoteSkipped]:
    skipped: list[Skipped] = [*outcome.corrupt, *outcome.unfinished]
    return [NoteSkipped(tuple(skipped))] if skipped else []


def _passed(outcome: IncomingOutcome) -> Sequence[NotePassed]:
    """Return the last entry that was passed, unless it is the last queued one."""
    shown = outcome.deliver[-1].message_id.position if outcome.deliver else None
    return [] if outcome.passed is None or outcome.passed == shown else [NotePassed(outcome.passed)]
