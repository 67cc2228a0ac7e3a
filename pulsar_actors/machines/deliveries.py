"""What one consumer was given, and what it owes the broker for it.

Here the ledgers of a consumer (`consumer_ledgers.py`) are told what happens, and what they say becomes effects: grants
of permits, requests for redelivery, dead letters. Each method is one thing that happened, and gives what follows from
it. How acknowledgements leave is told in `acknowledging.py`.

Whether anything can be said to the broker at the moment is the chart's knowledge. A method whose effects go to the
broker is called while there is a binding; what happens without one has methods of its own, which only take notes.

Without a binding nothing needs to be asked for again: a broker redelivers what is unacknowledged to whoever subscribes.

A reader acknowledges what it has handed out by itself, and all before it: nobody else would.

A topic that is not stored gives all its messages the id (0, 0) and has no place to go on from. There nothing is ever
taken for a message that came before.
"""

from collections.abc import Iterable, Iterator, Sequence

from google.protobuf.message import Message

from pulsar_actors.machines.acknowledging import Acknowledging
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeUpTo,
    ClearQueue,
    DeadLetterSent,
    HandedOut,
    HandOver,
    MessagesArrived,
    NoteLeftOut,
    NotePassed,
    Refuse,
    Returned,
    SendToDeadLetters,
    Spoiled,
    Tell,
    WantedAgain,
)
from pulsar_actors.machines.consumer_ledgers import Ledgers
from pulsar_actors.machines.entry_intake import Delivery, EntryIntake, Intake
from pulsar_actors.machines.ledgers import ack_set
from pulsar_actors.machines.ledgers.ack_command import corrupt
from pulsar_actors.machines.ledgers.entry_key import EntryKey, is_real
from pulsar_actors.machines.ledgers.permits import MOST_PERMITS
from pulsar_actors.machines.ledgers.redelivery import RedeliverAll
from pulsar_actors.machines.ledgers.start_position import StartAt
from pulsar_actors.machines.left_out import LeftOut
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.frames import message_limit
from pulsar_actors.wire.ids import unsigned
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandFlow,
    CommandRedeliverUnacknowledgedMessages,
    MessageIdData,
)


class Deliveries(Acknowledging):
    """The ledgers of one consumer, together. Times are monotonic seconds."""

    __slots__ = ("_intake", "_reads")

    def __init__(
        self, consumer_id: int, ledgers: Ledgers, *, timeout: float, stored: bool = True, reads: bool = False
    ) -> None:
        super().__init__(consumer_id, ledgers, timeout=timeout, stored=stored)
        ledgers.acks.chunks_of = ledgers.chunks.take_chunks_of
        self._reads = reads
        self._intake = EntryIntake(
            redelivery=ledgers.redelivery,
            ack_groups=ledgers.acks,
            start=ledgers.start,
            chunks=ledgers.chunks,
            dead=ledgers.dead,
        )
        self._intake.leaves_out_acknowledged = not reads

    # A binding comes and goes.

    def attaching(self, connection: int) -> ClearQueue:
        """Drop what is queued: the next broker sends it again."""
        self.generation = self.generation.attached_to(connection)
        return ClearQueue(self.generation)

    def limit_batches(self, max_message_size: int) -> None:
        """Believe in no batch that could not have been sent to this broker."""
        self.ledgers.acks.largest_batch = ack_set.largest_batch(message_limit(max_message_size))

    @property
    def starts_adrift(self) -> bool:
        """Hold where the start is the end of a stored topic, and nobody knows which entry that was."""
        return self._stored and self.ledgers.start.is_adrift

    def start_at(self, opened: MessageId | None, now_ms: int) -> StartAt:
        """Give the place to subscribe from, after the last entry that was opened."""
        if opened is not None and self._stored:
            self.ledgers.start.opened(opened, self.ledgers.chunks.unread_from(opened.position))
        return self.ledgers.start.subscribe(now_ms)

    def subscribed(self) -> Effects:
        """Grant the whole queue, and send the acknowledgements that waited for a connection."""
        self.ledgers.acks.rebound()
        self.ledgers.chunks.rebound()
        return [*self.send_acks(), *self._flow(self.ledgers.permits.subscribed(self.generation))]

    def unbound(self, now: float) -> None:
        """Expect again what was on its way."""
        self.ledgers.unbound(now)

    # Messages come in.

    def arrived(self, event: MessagesArrived, now: float) -> Effects:
        """Hand over what the user is to see, and give the permits of the rest back."""
        intake = self._intake.take(event.messages, now, event.now_ms)
        permits = self.ledgers.permits
        permits.arrived(self.generation, intake.arrived)
        due = permits.returned(self.generation, intake.returned)
        handed: Effects = [HandOver(tuple(intake.deliver))] if intake.deliver else []
        if self._reads:
            handed = [*_left_out(intake), *handed, *_passed(intake)]
        dead = [SendToDeadLetters(tuple(intake.dead))] if intake.dead else []
        return [*handed, *dead, *self._judged(intake, now), *self._flow(due)]

    def _judged(self, intake: Intake, now: float) -> Effects:
        """Acknowledge what is corrupt, by kind of fault, and what is to go."""
        faults: dict[CommandAck.ValidationError.ValueType, list[EntryKey]] = {}
        for entry, fault in intake.corrupt:
            faults.setdefault(fault, []).append(entry)
        refused = [self.ack(corrupt(entries, fault)) for fault, entries in faults.items()]
        acked = self.acknowledged(Acknowledge(self.generation, tuple(intake.acknowledge)), now)
        return [*refused, *acked]

    def handed_out(self, event: HandedOut, now: float) -> Effects:
        """Free places, and wait for the acknowledgements."""
        if self.ledgers.timeouts is not None and event.generation.still_delivers(self.generation):
            counts = event.counts or (0,) * len(event.message_ids)
            handed = zip(event.message_ids, counts, strict=True)
            self.ledgers.timeouts.handed_out(
                [(entry, count) for one, count in handed for entry in self.ledgers.chunks.chunks_of(one)], now
            )
        read: Effects = []
        if self._reads and event.message_ids:
            read = self.acknowledged_up_to(AcknowledgeUpTo(event.generation, event.message_ids[-1]), now)
        return [*read, *self._flow(self.ledgers.permits.handed_out(event.generation, event.messages))]

    def returned(self, event: Returned) -> Effects:
        """Free places."""
        return self._flow(self.ledgers.permits.returned(event.generation, event.messages))

    def spoiled(self, event: Spoiled) -> Effects:
        """Tell the broker not to send the entry again, and free its places."""
        if not event.generation.still_acknowledges(self.generation):
            return []
        flow = self._flow(self.ledgers.permits.returned(event.generation, event.messages))
        return [self.ack(corrupt([event.entry], event.validation_error)), *flow]

    def awaited(self) -> Effects:
        """Ask for a message, if the queue has no places of its own."""
        return self._flow(self.ledgers.permits.awaited())

    # Messages are asked for again.

    def refused(self, event: Refuse, now: float) -> None:
        """Note what the user wants again; a redelivery of everything since then has brought it already.

        An id that no message has is passed over: nobody waits for an answer, and there is nothing to ask for.
        """
        if not event.generation.still_delivers(self.generation):
            return
        for message_id, redelivery_count in event.messages:
            for entry in filter(is_real, self.ledgers.chunks.chunks_of(message_id)):
                self.ledgers.redelivery.refused(entry, redelivery_count, now)

    def sweep(self, now: float) -> Effects:
        """Ask again for what is due, and give up chunks whose message will not be finished."""
        refused = self.ledgers.redelivery.take_due(now)
        late = [] if self.ledgers.timeouts is None else self.ledgers.timeouts.take_due(now)
        due = [*refused, *late]
        expired = self.ledgers.chunks.expire(now)
        acked = self.acknowledged(Acknowledge(self.generation, tuple(expired)), now)
        dead = self._dead_among(due)
        given_up = set(self._entries(one.message_id for one in dead))
        again = self._ask_again([entry for entry in due if entry not in given_up])
        told = [WantedAgain(tuple(refused), tuple(late))] if due else []
        return [*([SendToDeadLetters(dead)] if dead else []), *acked, *again, *told]

    def _dead_among(self, entries: Iterable[EntryKey]) -> tuple[Delivery, ...]:
        """Give those that have failed their last try, without what of them was acknowledged."""
        if self.ledgers.dead is None:
            return ()
        return tuple(self._left_of(one) for entry in entries for one in self.ledgers.dead.refused(entry))

    def _left_of(self, delivery: Delivery) -> Delivery:
        if not is_batch(delivery.entry.metadata):
            return delivery
        return delivery._replace(wanted=self.ledgers.acks.left_of(delivery.message_id.position, delivery.wanted))

    def _ask_again(self, entries: Sequence[EntryKey]) -> Effects:
        effects: list[object] = []
        for request in self.ledgers.redelivery.request(entries):
            if isinstance(request, RedeliverAll):
                return self._redeliver_all(request)
            self.ledgers.acks.forget(request.entries)
            ids = [
                MessageIdData(ledgerId=unsigned(ledger), entryId=unsigned(entry)) for ledger, entry in request.entries
            ]
            effects.append(self._tell_redeliver(ids, None))
        return effects

    def redeliver_all(self) -> Effects:
        """Ask for everything again."""
        return self._redeliver_all(self.ledgers.redelivery.request_all())

    def _redeliver_all(self, request: RedeliverAll) -> Effects:
        cleared = self._begin_epoch(request)
        flow = self._flow(self.ledgers.permits.cleared(self.generation))
        return [cleared, self.tell_epoch(), *flow]

    def tell_epoch(self) -> Tell:
        """Ask for everything again in the epoch that has begun already."""
        return self._tell_redeliver([], self.generation.epoch)

    def begin_epoch(self) -> Effects:
        """Drop everything that is here: the next broker sends it again, in an epoch of its own."""
        return [self._begin_epoch(self.ledgers.redelivery.request_all())]

    def _begin_epoch(self, request: RedeliverAll) -> ClearQueue:
        self.generation = self.generation.redelivered_to(request.epoch)
        self.ledgers.chunks.drop_unfinished()
        if self.ledgers.timeouts is not None:
            self.ledgers.timeouts.clear()
        return ClearQueue(self.generation)

    def dead_letter_sent(self, event: DeadLetterSent, now: float) -> Effects:
        """Acknowledge what the dead letter topic has."""
        if self.ledgers.dead is not None:
            self.ledgers.dead.sent(event.message_id.position)
        return self.acknowledged(Acknowledge(event.generation, (event.message_id,)), now)

    def dead_letter_lost(self, message_id: MessageId) -> None:
        """Let the broker's next delivery of it count."""
        if self.ledgers.dead is not None:
            self.ledgers.dead.failed(message_id.position)

    def dead_letter_failed(self, message_id: MessageId, now: float) -> None:
        """Ask for the entry again after a rest: what has failed once may well fail again."""
        failed = () if self.ledgers.dead is None else self.ledgers.dead.failed(message_id.position)
        count = max((one.redelivery_count for one in failed), default=0)
        for entry in self.ledgers.chunks.chunks_of(message_id):
            self.ledgers.redelivery.set_aside(entry, count, now)

    # A seek.

    def sought(self, target: MessageId | int) -> Effects:
        """Begin anew elsewhere: everything known of earlier messages is void."""
        self.generation = self.generation.sought()
        void = self.ledgers.sought(target, self.generation)
        return [ClearQueue(self.generation), *self.acked(void, None)]

    def sought_while_bound(self, target: MessageId | int) -> Effects:
        """Begin anew, on the same binding."""
        sought = self.sought(target)
        self.ledgers.start.stays_bound()
        return [*sought, *self._flow(self.ledgers.permits.cleared(self.generation))]

    def _entries(self, message_ids: Iterable[MessageId]) -> Iterator[EntryKey]:
        return (entry for one in message_ids for entry in self.ledgers.chunks.chunks_of(one))

    def _flow(self, permits: int) -> Sequence[Tell]:
        """Grant permits, in as many commands as it takes."""
        parts = (min(permits - said, MOST_PERMITS) for said in range(0, permits, MOST_PERMITS))
        return [self._tell(CommandFlow(consumer_id=self._consumer_id, messagePermits=part)) for part in parts]

    def _tell_redeliver(self, ids: Sequence[MessageIdData], epoch: int | None) -> Tell:
        consumer_id = self._consumer_id
        command = CommandRedeliverUnacknowledgedMessages
        return self._tell(command(consumer_id=consumer_id, message_ids=ids, consumer_epoch=epoch))

    def _tell(self, command: Message) -> Tell:
        return Tell(self.generation.connection, command)


def _left_out(intake: Intake) -> Sequence[NoteLeftOut]:
    left_out: list[LeftOut] = [*intake.corrupt, *intake.unfinished]
    return [NoteLeftOut(tuple(left_out))] if left_out else []


def _passed(intake: Intake) -> Sequence[NotePassed]:
    """Say how far that was, where what is handed over does not show it."""
    shown = intake.deliver[-1].message_id.position if intake.deliver else None
    return [] if intake.passed is None or intake.passed == shown else [NotePassed(intake.passed)]
