"""The actor of a producer of one topic partition.

Callers enqueue messages in its send queue. For each batch, the actor takes messages out, packs them and feeds them to
its machine. The machine decides when they are written and which of them a receipt completes. An incomplete batch waits
in the queue for the batching delay, or until a caller flushes. A blocking send flushes, because its caller waits.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ClassVar

from pulsar_actors.exceptions import CryptoError, InternalError, InvalidArgument, PulsarException
from pulsar_actors.machines.connection_events import WriteFrames
from pulsar_actors.machines.connection_handler_events import Fail, RequestRefused, RequestTimedOut
from pulsar_actors.machines.producer import ProducerMachine
from pulsar_actors.machines.producer_events import (
    AskIfTaken,
    AskToCreate,
    Drained,
    FeedRemainingReceipts,
    Flush,
    Flushed,
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
    StopDraining,
    TakeWaiting,
)
from pulsar_actors.machines.trackers.batching import count_complete
from pulsar_actors.machines.trackers.pending_messages import PendingSend, StoredSend
from pulsar_actors.machines.trackers.server_errors import not_sent_error
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.batch_builder import (
    BatchBuilder,
    BatchBuilderSettings,
    PackedMessages,
    PackingLimits,
    ProducerFields,
    send_encoder,
)
from pulsar_actors.runtime.future import SlimFuture, is_slim_future, settle
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.handler_actor import HandlerActor, Outcomes, by_attempt
from pulsar_actors.runtime.log import LOG, Fields
from pulsar_actors.runtime.message_crypto import KEY_READER_TIMEOUT, ProducerKeys
from pulsar_actors.runtime.messages import ConnectionReady, Registration
from pulsar_actors.runtime.observer import BatchTimes, ClientObserver
from pulsar_actors.runtime.send_queue import MessageHeader, OutgoingMessages, SendOutcome, SendQueue, new_sent_to
from pulsar_actors.wire.fast_encode import SendEncoder
from pulsar_actors.wire.frames import message_limit
from pulsar_actors.wire.PulsarApi_pb2 import CommandError, CommandProducerSuccess, CommandSendError, CommandSendReceipt
from pulsar_actors.wire.transaction_id import TransactionId

if TYPE_CHECKING:
    from pulsar_actors.runtime.transaction_work import TransactionRun, TransactionWork


class MessagesEnqueued(NamedTuple):
    """The send queue has a first message, or a full batch."""


class TriggerFlush(NamedTuple):
    """Send the messages in the queue, without waiting for the batching delay."""


class TransactionRegistered(NamedTuple):
    """Messages that waited for their transaction's registration may be sent, or are refused."""


class FlushAll(NamedTuple):
    """Send the messages in the queue, and complete the future when all pending messages have ended."""

    done: SlimFuture[None]


class ProducerActor(HandlerActor[ProducerMachine]):
    """The actor of one producer."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        registration: Registration,
        link: HandleLink,
        machine: ProducerMachine,
        send_queue: SendQueue,
        batch_settings: BatchBuilderSettings,
        observer: ClientObserver | None = None,
    ) -> None:
        super().__init__(registration, link)
        self._batch_times = None if observer is None else BatchTimes(observer, machine.topic)
        self.machine = machine
        self._send_queue = send_queue
        self._batch_settings = batch_settings
        self._fill = 0  # the number of the batching delay that is running: an earlier one is stale
        self._runs: deque[TransactionRun] | tuple[()] = ()  # the messages at the head that wait for a registration
        self._waiting = 0  # their number
        self._was_due = False  # whether only a registration kept an incomplete batch from being sent
        self._flushes: tuple[Future[None], ...] = ()  # those that wait for a registration
        self._publishing: tuple[PendingSend[PackedMessages], ...] = ()
        self._encoding: tuple[ProducerFields, SendEncoder] | None = None  # those of the first message, and later ones

    def log_fields(self) -> Fields:
        """Return the topic and the producer's name, which the broker may give."""
        return {"pulsar_topic": self.machine.topic, "pulsar_producer": self.machine.identity.name}

    @property
    def has_messages(self) -> bool:
        """True if messages wait in the queue: those of a lazy partition come before its producer."""
        return bool(self._send_queue.buffer or self._send_queue.pending.held)

    def receive(self, message: object) -> None:
        """Take messages out of the queue, which is asked for most often, or handle what other handlers get, too."""
        kind = type(message)
        if kind is MessagesEnqueued or kind is TriggerFlush:
            self._take(incomplete=kind is TriggerFlush)
        else:
            super().receive(message)

    def call(self, message: object) -> None:
        """Handle a request of a caller."""
        if isinstance(message, FlushAll):
            self._flushes += (message.done,)
            self._take(incomplete=True)
        elif isinstance(message, TransactionRegistered):
            self._take(incomplete=self._was_due)
        else:
            self.feed(message)

    def attached(self, message: ConnectionReady) -> None:
        """Create the producer at the broker."""
        self.feed(ProducerAttached(message.number, message_limit(message.max_message_size)))

    def handle_commands(self, number: int, commands: tuple[tuple[Any, bytes], ...]) -> None:
        """Handle commands of the broker; receipts that come together are one event."""
        receipts: list[CommandSendReceipt] = []
        for command, _ in commands:
            if type(command) is CommandSendReceipt:
                receipts.append(command)
                continue
            if receipts:
                self.feed(ReceiptsArrived(number, tuple(receipts)))
                receipts = []
            if isinstance(command, CommandSendError):
                self.feed(SendRefused(number, command))
            else:
                self.handle_close_command(number, command)
        if receipts:
            self.feed(ReceiptsArrived(number, tuple(receipts)))

    def before_closing(self) -> None:
        """Refuse further messages, and send those in the queue: a close does not wait for callers that go on."""
        self._send_queue.close(not_sent_error(self.machine.ending))
        self._drain()

    def end(self, error: PulsarException) -> None:
        """Fail the messages in the queue, and refuse further ones."""
        self._send_queue.end(not_sent_error(error))
        self._runs = ()
        self._feed_flushes()
        super().end(error)

    def abandon(self, bug: InternalError) -> None:
        """Fail all messages: the pending ones, and those that were being fed to the machine when the bug occurred."""
        pending = self.machine.pending
        try:
            for failed in pending.fail_all():
                self._report_failure(failed.token, bug)
            for item in self._publishing:
                if item.token.frames_from(0).buffers():  # pending ones have none any more
                    pending.give_back(item.messages, item.size)
                    self._report_failure(item.token, bug)
        finally:
            super().abandon(bug)

    # From the send queue to the machine.

    def _take(self, *, incomplete: bool) -> None:
        """Send full batches and messages that are not batched, or everything. The rest waits for the batching delay."""
        if self._send_queue.closed is not None:  # a caller that enqueues now sees that too, and fails its message
            self._drain()
            return
        is_blocked = self._publish_registered(self._send_queue.begin_take(self._waiting), incomplete=incomplete)
        self._was_due = is_blocked and (incomplete or self._was_due)
        if not is_blocked:
            self._feed_flushes()
        if not self._send_queue.idle_if_empty() and not is_blocked:
            self._wait_for_more()

    def _drain(self, late: PulsarException | None = None) -> None:
        """Send what a closed queue still holds. With an error, nothing waits for a registration any longer."""
        if not self._publish_registered(self._send_queue.held(self._waiting), incomplete=True, late=late):
            self._feed_flushes()
            self.feed(Drained())

    def _publish_registered(
        self, messages: OutgoingMessages, *, incomplete: bool, late: PulsarException | None = None
    ) -> bool:
        """Publish messages up to the first one that has to wait for a registration; return whether there is one."""
        if self._runs or (self._send_queue.transactional and messages.has_headers):
            return self._take_by_transaction(messages, incomplete=incomplete, late=late)
        self._publish_complete(messages, None, incomplete=incomplete)
        return False

    def _feed_flushes(self) -> None:
        """Let the machine flush: all that was enqueued before is pending there, or has failed."""
        flushes, self._flushes = self._flushes, ()
        for done in flushes:
            self.feed(Flush(done))

    def _publish_complete(
        self, messages: OutgoingMessages, transaction: TransactionId | None, *, incomplete: bool
    ) -> None:
        """Publish messages of one transaction, or of none; an incomplete batch at their end only if asked to."""
        limits = self._send_queue.limits
        count = whole = len(messages)
        if limits is not None and not incomplete:
            count = count_complete(messages.sizes, limits, messages.unbatchable)
        if count:
            self._publish(messages if count == whole else messages.at(range(count)), count, transaction)

    def _take_by_transaction(
        self, messages: OutgoingMessages, *, incomplete: bool, late: PulsarException | None
    ) -> bool:
        """Send messages up to the first of a transaction that does not have this topic registered yet.

        Return whether there is such a message. The topic is registered for all transactions in the queue at once. The
        runs that wait are kept: a message is looked at once, however many come after it. If it is too `late` to wait,
        all messages of such a transaction fail.
        """
        from pulsar_actors.runtime.transaction_work import runs_by_transaction  # noqa: PLC0415 - few have transactions

        runs = self._runs or deque()
        for run in runs_by_transaction(messages):
            if runs and runs[-1].work is run.work:
                runs[-1].payloads.extend(run.payloads)
                runs[-1].tags.extend(run.tags)
                continue
            runs.append(run)
            if run.work is not None:
                self._register(run.work)
        self._waiting += len(messages)
        while runs:
            work, payloads, tags = runs[0]
            error, is_pending = (None, False) if work is None else self._register(work)
            if is_pending and late is None:
                break
            error = late if is_pending else error
            runs.popleft()
            self._waiting -= len(payloads)
            part = OutgoingMessages(payloads, tags)
            if error is None:
                transaction = None if work is None else work.id
                self._publish_complete(part, transaction, incomplete=incomplete or bool(runs))
            else:
                self._send_queue.take(len(part), part.size)
                self._refuse(part, error)
        self._runs = runs or ()
        return bool(runs)

    def _register(self, work: "TransactionWork") -> tuple[PulsarException | None, bool]:
        """Return why messages of a transaction cannot be sent, and whether they have to wait for the registration."""
        awaited = work.producers.setdefault(self.actor_ref, None)
        refusal = work.dropped or self.machine.foreign_error(work.home)
        if refusal is not None:
            return refusal, False
        if work.home > self.machine.home:  # the producer is on its way there
            return None, True
        if awaited is not None and awaited.done() and awaited.exception() is not None:
            registered = awaited
        else:
            registered = work.register_partition(self.machine.topic)
        if not registered.done():
            if awaited is not registered:
                work.producers[self.actor_ref] = registered
                registered.add_done_callback(self._registered)
            return None, True
        work.producers[self.actor_ref] = None  # after a failure, messages that are sent later try again
        error = registered.exception()
        assert error is None or isinstance(error, PulsarException)  # noqa: S101 - it is the coordinator's
        return error, False

    def _registered(self, _: "Future[None]") -> None:
        tell(self.actor_ref, TransactionRegistered())

    def _wait_for_more(self) -> None:
        """Take the rest after the batching delay; without one, in the next turn of the loop.

        A timer of the machine would cost two events for each batch.
        """
        limits = self._send_queue.limits
        self._fill += 1
        if limits is None or not limits.delay:
            self.loop.post(self._take_rest, self._fill)
        else:
            self.loop.later(limits.delay, self._take_rest, self._fill)

    def _take_rest(self, fill: int) -> None:
        if fill == self._fill:
            self.guarded(lambda _: self._take(incomplete=True), None)

    def _publish(self, messages: OutgoingMessages, count: int, transaction: TransactionId | None) -> None:
        try:
            ids = self._sequence_ids(messages, count)
        except InvalidArgument as error:  # no sequence ids are left
            self._send_queue.take(count, messages.size)
            self._refuse(messages, error)
            return
        if self._batch_settings.keys is not None:
            self._replace_data_key_if_due(self._batch_settings.keys)
        timeout = self._batch_settings.send_timeout
        deadline = None if timeout is None else self.loop.now() + timeout
        packing = PackingLimits(self.loop.wall_clock_ms(), deadline, self.machine.pending.largest, self.loop.chance)
        fields, encoder = self._fields()
        if transaction is not None:
            fields = fields._replace(transaction=transaction)
        batch_builder = BatchBuilder(messages, ids, fields, encoder, self._batch_settings, packing)
        batch_builder.pack(self._send_queue.limits)
        self._send_queue.take(count, messages.size)
        for refused, reason in batch_builder.refused:
            self._refuse(refused, reason)
        self._publishing = tuple(batch_builder.items)
        self.feed(Publish(self._publishing))
        self._publishing = ()

    def _refuse(self, messages: OutgoingMessages, error: PulsarException) -> None:
        """Fail messages that cannot be sent, and free their room."""
        self.machine.pending.give_back(len(messages), messages.size)
        self._send_queue.report([(messages.replies, error)])
        self._send_queue.room_freed()

    def _sequence_ids(self, messages: OutgoingMessages, count: int) -> Sequence[int]:
        source = self.machine.sequence_ids
        tags = messages.tags if messages.has_headers else ()
        chosen = [tag.sequence_id if type(tag) is MessageHeader else None for tag in tags]
        if chosen.count(None) == len(chosen):
            first = source.take(count)
            return range(first, first + count)
        return [source.take() if one is None else source.take_given(one) for one in chosen]

    def _fields(self) -> tuple[ProducerFields, SendEncoder]:
        """Return what all entries share, and its encoder. A broker may give a producer another name or version."""
        identity = self.machine.identity
        if self._encoding is not None:
            fields, _ = self._encoding
            if fields.producer_name is identity.name and fields.schema_version is identity.schema_version:
                return self._encoding
        settings = self._batch_settings
        fields = ProducerFields(
            self._registration.id, identity.name, settings.codec, identity.schema_version, settings.keys
        )
        self._encoding = fields, send_encoder(fields)
        return self._encoding

    def _replace_data_key_if_due(self, keys: ProducerKeys) -> None:
        """Replace the data key, off the loop. Until then the old one stays in use."""
        now = self.loop.now()
        if keys.is_due(now):
            keys.begin(now)
            self.run_blocking(
                lambda: _replace_data_key(keys, now), _data_key_replaced, timeout=KEY_READER_TIMEOUT, executor="keys"
            )

    def _report_failure(self, packed: PackedMessages, error: Exception) -> None:
        if self._batch_times is not None:
            self._batch_times.note_answered([packed], self.loop.now(), failed=True)
        self._send_queue.report([(packed.release(), error)])
        self._send_queue.room_freed()

    # One method for each effect.

    def _send(self, effect: SendBatches) -> None:
        if self._batch_times is not None:
            self._batch_times.note_written([item.token for item in effect.items], self.loop.now())
        self.tell_connection(WriteFrames(tuple([item.token.frames_from(item.next_frame) for item in effect.items])))

    def _opened(self, effect: ProducerOpened) -> None:
        settle(self.created, None)

    def _complete_batches(self, effect: SendsCompleted) -> None:
        if self._batch_times is not None:
            self._batch_times.note_answered([item.token for item in effect.items], self.loop.now(), failed=False)
        self._send_queue.report(map(_outcome_of, effect.items))
        self._send_queue.room_freed()

    def _fail(self, effect: Fail) -> None:
        if isinstance(effect.token, PackedMessages):
            self._report_failure(effect.token, effect.error)
        else:
            super()._fail(effect)

    def _hear_rest(self, effect: FeedRemainingReceipts) -> None:
        self.feed(effect.event)

    def _stop_draining(self, effect: StopDraining) -> None:
        self._drain(effect.error)

    def _take_waiting(self, effect: TakeWaiting) -> None:
        self._take(incomplete=self._was_due)

    def _flushed(self, effect: Flushed) -> None:
        done = effect.token
        assert is_slim_future(done)  # noqa: S101 - the token of a flush
        self.pending_calls.resolve(done, None)

    OUTCOMES: ClassVar = {
        **HandlerActor.OUTCOMES,
        AskIfTaken: Outcomes(LineChecked, LineChecked, by_attempt(LineCheckTimedOut), CommandError),
        AskToCreate: Outcomes(ProducerCreated, RequestRefused, by_attempt(RequestTimedOut), CommandProducerSuccess),
    }
    PERFORMS: ClassVar = {
        **HandlerActor.PERFORMS,
        AskIfTaken: HandlerActor[ProducerMachine].ask_attempt,
        AskToCreate: HandlerActor[ProducerMachine].ask_attempt,
        SendBatches: _send,
        ProducerOpened: _opened,
        SendsCompleted: _complete_batches,
        Fail: _fail,
        FeedRemainingReceipts: _hear_rest,
        StopDraining: _stop_draining,
        TakeWaiting: _take_waiting,
        Flushed: _flushed,
    }


def _replace_data_key(keys: ProducerKeys, now: float) -> None:
    try:
        keys.replace(now)
    except CryptoError:
        raise
    except BaseException as error:  # noqa: BLE001 - a user's key reader may raise anything, with a key in its text
        kind = type(error).__name__
    else:
        return
    raise CryptoError(f"{kind} was raised")


def _data_key_replaced(outcome: object) -> None:
    if isinstance(outcome, Exception):
        LOG.warning("the data key of a producer was not replaced, and stays in use: %s", outcome)


def _outcome_of(stored: StoredSend) -> SendOutcome:
    packed = stored.token
    return packed.release(), new_sent_to((stored.message_ids, packed.batched, packed.size))
