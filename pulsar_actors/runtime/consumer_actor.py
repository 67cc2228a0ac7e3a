"""The actor of one consumer on one topic partition.

Messages from the broker go through its machine into the receiver queue, still as entries; callers open the entries.
Acknowledgements that callers have queued go to the machine before any other message to the actor is handled, so no
close, seek or lost connection overtakes them.
"""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pulsar_actors.exceptions import BrokerRefusal, InternalError, PulsarException
from pulsar_actors.machines.chart import Event
from pulsar_actors.machines.connection_events import SendCommand
from pulsar_actors.machines.connection_handler_events import RequestRefused, RequestTimedOut
from pulsar_actors.machines.consumer import ConsumerMachine
from pulsar_actors.machines.consumer_events import (
    AcknowledgeInTransaction,
    AcksAnswered,
    AcksDue,
    AcksHeld,
    AcksSettled,
    ActiveConsumerChanged,
    AskToAck,
    AskToAckInTransaction,
    AskToGetConsumerStats,
    AskToGetLastMessageId,
    AskToSeek,
    AskToSubscribe,
    AskToUnsubscribe,
    ClearQueue,
    ConsumerAttached,
    ConsumerCallDone,
    ConsumerOpened,
    ConsumerStatsAnswered,
    DeadLetterFailed,
    DeadLetterSent,
    EndOfTopicReached,
    EntryCorrupt,
    EntryUndecryptable,
    LastMessageIdAnswered,
    MarkEndOfTopic,
    MessagesArrived,
    NotePassed,
    NoteSkipped,
    NotifyActiveConsumerChange,
    QueryFailed,
    QueueEntries,
    RedeliveryRequested,
    ResizeReceiverQueue,
    SeekAnswered,
    SeekFailed,
    SeekTimedOut,
    SendConsumerCommand,
    SendToDeadLetters,
    Subscribed,
    TransactionalAckAnswered,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.incoming_entries import CorruptEntry, DeliveredEntry, IncomingEntry
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAck
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.ack_queue import AckQueue, AcksQueued
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.decryption_queue import NO_DECRYPTION, Decryption, DecryptionQueue
from pulsar_actors.runtime.future import is_slim_future, settle
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.handler_actor import HandlerActor, Outcomes, by_attempt
from pulsar_actors.runtime.log import Fields
from pulsar_actors.runtime.messages import ConnectionReady, Registration
from pulsar_actors.runtime.receiver_queue import ReceiverQueue
from pulsar_actors.wire.frames import message_limit
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandConsumerStatsResponse,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandReachedEndOfTopic,
)

if TYPE_CHECKING:
    from pulsar_actors.runtime.transaction_work import TransactionWork

TellActor = Callable[[object], object]
SendDeadLetter = Callable[[DeliveredEntry, Generation, Callable[[Exception | None], None]], None]
"""Sends an entry to the dead letter topic and reports the outcome. Called on the loop; the report, on any thread."""


class ServeReceiveFutures(NamedTuple):
    """From a caller: there is a future that waits for a message."""


class RunAfter(NamedTuple):
    """From a caller: call `end` on this loop after so many seconds."""

    seconds: float
    end: Callable[[], object]


class AcknowledgeIn(NamedTuple):
    """From a caller: acknowledge messages in a transaction, unless it is over by then."""

    work: "TransactionWork"
    ack: TransactionalAck


class ConsumerHooks(NamedTuple):
    """The callbacks of a consumer's actor, called on its loop; None for those that are not needed."""

    send_dead_letter: SendDeadLetter | None = None
    messages_arrived: Callable[[], None] | None = None
    active_changed: Callable[[bool], None] | None = None
    redelivery_requested: Callable[[RedeliveryRequested], None] | None = None


class ConsumerActor(HandlerActor[ConsumerMachine]):
    """The actor of one consumer. Callers use its `receiver_queue` and `ack_queue` from their own threads."""

    def __init__(  # noqa: PLR0913 - an actor is built whole
        self,
        registration: Registration,
        link: HandleLink,
        machine: ConsumerMachine,
        new_queue: Callable[[TellActor], ReceiverQueue],
        new_acks: Callable[[TellActor], AckQueue],
        hooks: ConsumerHooks,
        decryption: Decryption = NO_DECRYPTION,
    ) -> None:
        super().__init__(registration, link)
        self.machine = machine
        tell_actor = partial(tell, self.actor_ref)
        self.receiver_queue = new_queue(tell_actor)
        self.ack_queue = new_acks(tell_actor)
        self._hooks = hooks
        self.decryption = DecryptionQueue(
            decryption,
            self.run_blocking,
            deliver=self._deliver,
            fail=self._keep_undecryptable,
            discard=self._discard,
            count=self._count_undecryptable,
        )
        self._freed = 0  # the room that the queue was told of
        self._acks_due_at: float | None = None  # when the open group of acknowledgements ends
        self._has_acks_timer = False

    def log_fields(self) -> Fields:
        """Return the topic, the subscription and the consumer's name."""
        command = self.machine.command
        return {
            "pulsar_topic": command.topic,
            "pulsar_subscription": command.subscription,
            "pulsar_consumer": command.consumer_name,
        }

    def receive(self, message: object) -> None:
        """Take queued acknowledgements first, so that nothing overtakes them."""
        if isinstance(message, AcksQueued):
            self._end_acks_in(message.delay)
            return
        if self.ack_queue.queued:
            self._drain_acks()
        super().receive(message)

    def feed(self, event: Event) -> None:
        """Feed the machine, and tell the queue if other room is free now and not granted."""
        super().feed(event)
        freed = self.machine.messages.trackers.permits.freed
        if freed != self._freed:
            self._freed = freed
            self.receiver_queue.note_freed(freed)

    def time_over(self, event: Event) -> None:
        """Take queued acknowledgements first: they may be what the timer waits for."""
        self._drain_acks()
        self.feed(event)

    def call(self, message: object) -> None:
        """Handle a request of a caller."""
        match message:
            case ServeReceiveFutures():
                self.receiver_queue.serve()
            case RunAfter(seconds, end):
                self.later(seconds, lambda _: end(), None)
            case AcknowledgeIn(work, ack):
                self.feed(AcknowledgeInTransaction(ack, work.dropped, work.home))
            case _:
                self.feed(message)

    def attached(self, message: ConnectionReady) -> None:
        """Note the broker's limit, and have the machine subscribe."""
        self.receiver_queue.max_message_size = message_limit(message.max_message_size)
        opened, now_ms = self.receiver_queue.progress.opened, self.loop.wall_clock_ms()
        connection_id = message.connection.actor_urn
        self.feed(ConsumerAttached(message.number, opened, message.max_message_size, now_ms, connection_id))

    def handle_commands(self, number: int, commands: tuple[tuple[Any, bytes], ...]) -> None:
        """Feed the messages of one read as one event, and other commands in their order among them."""
        incoming: list[IncomingEntry] = []
        for received in commands:
            if type(received[0]) is CommandMessage:
                incoming.append(received)
                continue
            self._feed_messages(number, incoming)
            incoming = []
            self._feed_command(number, received[0])
        self._feed_messages(number, incoming)

    def end(self, error: PulsarException) -> None:
        """Fail the calls of the handle, and stop handing out messages."""
        super().end(error)
        self.decryption.clear()
        self.receiver_queue.end(error)
        self._notify_listener()

    def abandon(self, bug: InternalError) -> None:
        """Fail the acknowledgements that wait for an answer, too."""
        try:
            for token in self.machine.acks.drop_all():
                settle(token, bug)
        finally:
            super().abandon(bug)

    def _feed_messages(self, number: int, incoming: Sequence[IncomingEntry]) -> None:
        if incoming:
            self.feed(MessagesArrived(number, tuple(incoming), self.loop.wall_clock_ms()))

    def _feed_command(self, number: int, command: Any) -> None:  # noqa: ANN401 - any command to a consumer
        if isinstance(command, CommandReachedEndOfTopic):
            self.feed(EndOfTopicReached(number))
        elif isinstance(command, CommandActiveConsumerChange):
            self.feed(ActiveConsumerChanged(number, command.is_active))
        else:
            self.handle_close_command(number, command)

    # Acknowledgements.

    def _drain_acks(self) -> None:
        for event in self.ack_queue.drain():
            self.feed(event)

    def _end_acks_in(self, delay: float) -> None:
        """End the group after so many seconds. Only one timer is running at a time, even if its delay is hours.

        As rows of a chart this would be two events more for each group. With receipts that callers wait for, each
        message is a group: two events more cost a fifth of the time of such an acknowledgement.
        """
        if not delay:
            self._end_acks()
            return
        self._acks_due_at = self.loop.now() + delay
        if not self._has_acks_timer:
            self._start_acks_timer(delay)

    def _end_acks(self) -> None:
        self._acks_due_at = None
        for event in self.ack_queue.end_group():
            self.feed(event)
        self.feed(AcksDue())

    def _start_acks_timer(self, delay: float) -> None:
        self._has_acks_timer = True
        self.loop.later(delay, _acks_timer_over, weakref.ref(self))

    def acks_timer_over(self, _: None) -> None:
        """End the group, or wait on if the timer was for an earlier group."""
        self._has_acks_timer = False
        if self._acks_due_at is None:
            return
        left = self._acks_due_at - self.loop.now()
        if left > 0:
            self._start_acks_timer(left)
        else:
            self._end_acks()

    # One method for each effect.

    def _ask_query(self, effect: AskToGetLastMessageId | AskToGetConsumerStats) -> None:
        self.ask(effect, effect.query_number)

    def _ask_to_ack(self, effect: AskToAck | AskToAckInTransaction) -> None:
        self.ask(effect, effect.ack)

    def _send_command(self, effect: SendConsumerCommand) -> None:
        self.tell_connection(SendCommand(effect.command))

    def _clear_queue(self, effect: ClearQueue) -> None:
        self.decryption.clear()
        self.receiver_queue.clear(effect.generation)

    def _resize_queue(self, effect: ResizeReceiverQueue) -> None:
        self.receiver_queue.resize(effect.size)

    def _queue_entries(self, effect: QueueEntries) -> None:
        self.decryption.put(effect.entries)

    def _deliver(self, entries: Sequence[DeliveredEntry]) -> None:
        self.receiver_queue.add(entries)
        self._notify_listener()

    def _count_undecryptable(self) -> None:
        self.receiver_queue.undecryptable += 1

    def _keep_undecryptable(self, delivery: DeliveredEntry) -> None:
        generation, message_id = self.receiver_queue.generation, delivery.message_id
        self.receiver_queue.progress.passed = message_id.position
        self.feed(EntryUndecryptable(generation, message_id, delivery.redelivery_count, delivery.messages))
        self.receiver_queue.wake_all_callers()  # a table view is told that it is incomplete

    def _discard(self, delivery: DeliveredEntry) -> None:
        generation, fault = self.receiver_queue.generation, CommandAck.ValidationError.DecryptionError
        *earlier, last = self.machine.messages.trackers.chunks.chunks_of(delivery.message_id)
        for entry in earlier:
            self.feed(EntryCorrupt(generation, entry, 0, fault))
        self.receiver_queue.progress.found_corrupt(CorruptEntry(last, fault))
        self.feed(EntryCorrupt(generation, last, delivery.messages, fault))

    def _note_skipped(self, effect: NoteSkipped) -> None:
        self.decryption.in_order(lambda: self.receiver_queue.progress.add_skipped(effect.skipped))

    def _note_passed(self, effect: NotePassed) -> None:
        def note() -> None:
            self.receiver_queue.progress.passed = effect.entry
            self.receiver_queue.wake_all_callers()  # one may wait for the end of the topic, as a table view does

        self.decryption.in_order(note)

    def _mark_end(self, _: MarkEndOfTopic) -> None:
        self.decryption.in_order(self._end_of_topic)

    def _end_of_topic(self) -> None:
        self.receiver_queue.mark_end()
        self._notify_listener()

    def _notify_listener(self) -> None:
        if self._hooks.messages_arrived is not None:
            self._hooks.messages_arrived()

    def _notify_active_change(self, effect: NotifyActiveConsumerChange) -> None:
        if self._hooks.active_changed is not None:
            self._hooks.active_changed(effect.is_active)

    def _notify_redelivery(self, effect: RedeliveryRequested) -> None:
        self.counters.ack_timeouts += len(effect.late)
        if self._hooks.redelivery_requested is not None:
            self._hooks.redelivery_requested(effect)

    def _send_to_dead_letters(self, effect: SendToDeadLetters) -> None:
        send = self._hooks.send_dead_letter
        assert send is not None  # noqa: S101 - only a consumer with a policy has dead letters
        generation = self.receiver_queue.generation
        for delivery in effect.entries:
            report = self._dead_letter_report(delivery.message_id, delivery.wanted.bit_count(), generation)
            self.decryption.decrypt_apart(delivery, partial(_send_decrypted, send, generation, report))

    def _dead_letter_report(
        self, message_id: MessageId, messages: int, generation: Generation
    ) -> Callable[[Exception | None], None]:
        def report(error: Exception | None) -> None:
            if error is None:
                self.loop.post(self._count_dead_letters, messages)
            tell(self.actor_ref, (DeadLetterFailed if error else DeadLetterSent)(generation, message_id))

        return report

    def _count_dead_letters(self, messages: int) -> None:
        self.counters.dead_letters += messages

    def _acks_held(self, _: AcksHeld) -> None:
        self.ack_queue.begin_group()

    def _settle_acks(self, effect: AcksSettled) -> None:
        for token in effect.tokens:
            if effect.error is None:
                self.pending_calls.resolve(token, None)
            else:
                self.pending_calls.fail(token, effect.error)

    def _opened(self, effect: ConsumerOpened) -> None:
        settle(self.created, None)

    def _done(self, effect: ConsumerCallDone) -> None:
        done = effect.token
        assert is_slim_future(done)  # noqa: S101 - the token of a call
        self.pending_calls.resolve(done, effect.answer)

    @staticmethod
    def _stats_outcome(query: int, answer: CommandConsumerStatsResponse) -> ConsumerStatsAnswered | QueryFailed:
        if answer.HasField("error_code"):
            return QueryFailed(query, refusal(answer.error_code, answer.error_message))
        return ConsumerStatsAnswered(query, answer)

    @staticmethod
    def _acks_outcome(ack: int, answer: CommandAckResponse) -> AcksAnswered:
        return AcksAnswered(ack, _error_in(answer))

    @staticmethod
    def _transactional_ack_outcome(ack: int, answer: CommandAckResponse) -> TransactionalAckAnswered:
        return TransactionalAckAnswered(ack, _error_in(answer))

    OUTCOMES: ClassVar = {
        **HandlerActor.OUTCOMES,
        AskToSubscribe: Outcomes(by_attempt(Subscribed), RequestRefused, by_attempt(RequestTimedOut)),
        AskToSeek: Outcomes(by_attempt(SeekAnswered), SeekFailed, SeekTimedOut),
        AskToUnsubscribe: Outcomes(by_attempt(UnsubscribeAnswered), UnsubscribeFailed, UnsubscribeFailed),
        AskToGetLastMessageId: Outcomes(
            LastMessageIdAnswered, QueryFailed, QueryFailed, CommandGetLastMessageIdResponse
        ),
        AskToGetConsumerStats: Outcomes(_stats_outcome, QueryFailed, QueryFailed, CommandConsumerStatsResponse),
        AskToAck: Outcomes(_acks_outcome, AcksAnswered, AcksAnswered, CommandAckResponse),
        AskToAckInTransaction: Outcomes(
            _transactional_ack_outcome, TransactionalAckAnswered, TransactionalAckAnswered, CommandAckResponse
        ),
    }
    PERFORMS: ClassVar = {
        **HandlerActor.PERFORMS,
        AskToSubscribe: HandlerActor[ConsumerMachine].ask_attempt,
        AskToSeek: HandlerActor[ConsumerMachine].ask_attempt,
        AskToUnsubscribe: HandlerActor[ConsumerMachine].ask_attempt,
        AskToGetLastMessageId: _ask_query,
        AskToGetConsumerStats: _ask_query,
        AskToAck: _ask_to_ack,
        AskToAckInTransaction: _ask_to_ack,
        SendConsumerCommand: _send_command,
        ClearQueue: _clear_queue,
        ResizeReceiverQueue: _resize_queue,
        QueueEntries: _queue_entries,
        NoteSkipped: _note_skipped,
        NotePassed: _note_passed,
        MarkEndOfTopic: _mark_end,
        NotifyActiveConsumerChange: _notify_active_change,
        RedeliveryRequested: _notify_redelivery,
        SendToDeadLetters: _send_to_dead_letters,
        AcksHeld: _acks_held,
        AcksSettled: _settle_acks,
        ConsumerOpened: _opened,
        ConsumerCallDone: _done,
    }


def _error_in(answer: CommandAckResponse) -> BrokerRefusal | None:
    return refusal(answer.error, answer.message) if answer.HasField("error") else None


def _send_decrypted(
    send: SendDeadLetter,
    generation: Generation,
    report: Callable[[Exception | None], None],
    decrypted: DeliveredEntry | Exception,
) -> None:
    if isinstance(decrypted, DeliveredEntry):
        send(decrypted, generation, report)
    else:
        report(decrypted)


def _acks_timer_over(actor: "weakref.ref[ConsumerActor]") -> None:
    """End a group of acknowledgements. The timer does not keep an actor alive that has ended."""
    alive = actor()
    if alive is not None:
        alive.guarded(alive.acks_timer_over, None)
