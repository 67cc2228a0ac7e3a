"""The actor of one producer on one topic partition.

Callers leave messages in its outbox. Once for each batch it takes them out, packs them, and tells its machine, which
decides when they are written and what each receipt ends. An incomplete batch waits in the outbox for the batching
delay, unless somebody flushes: a blocking send does, for there is nothing to wait for when its caller waits.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

from pulsar_actors.exceptions import InternalError, InvalidArgument, PulsarException
from pulsar_actors.machines.binding_events import Fail
from pulsar_actors.machines.connection_events import Ship
from pulsar_actors.machines.ledgers.batching import count_complete
from pulsar_actors.machines.ledgers.pending_sends import Pending, Stored, unsent
from pulsar_actors.machines.producer import Producer
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
)
from pulsar_actors.runtime.binding_actor import BindingActor
from pulsar_actors.runtime.binding_messages import Place
from pulsar_actors.runtime.future import SlimFuture, is_promise, settle
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Bound
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.outcomes import Outcomes, by_attempt
from pulsar_actors.runtime.outgoing import Ended, Outgoing, SentTo
from pulsar_actors.runtime.packing import Moment, Packed, Sender
from pulsar_actors.runtime.publication import Manner, Publication
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE, message_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
)


class MessagesLeft(NamedTuple):
    """There is a first message in the outbox, or a full batch."""


class TakeAll(NamedTuple):
    """Send what is in the outbox, and wait for no more."""


class FlushAll(NamedTuple):
    """Likewise, and end the future when all of it has ended."""

    done: SlimFuture[None]


class ProducerActor(BindingActor[Producer]):
    """One producer."""

    def __init__(  # noqa: PLR0913 - what a producer is made of
        self, loop: Loop, place: Place, ties: Ties, machine: Producer, outbox: Outbox, manner: Manner
    ) -> None:
        super().__init__(loop, place, ties)
        self.machine = machine
        self._outbox = outbox
        self._manner = manner
        self._largest = DEFAULT_MAX_MESSAGE_SIZE
        self._fill = 0  # counts how often the outbox began to fill
        self._publishing: tuple[Pending[Packed], ...] = ()

    def call(self, message: object) -> None:
        """Take what callers ask for."""
        match message:
            case MessagesLeft():
                self._take(incomplete=False)
            case TakeAll():
                self._take(incomplete=True)
            case FlushAll(done):
                self._take(incomplete=True)
                self.feed(Flush(done))
            case _:
                self.feed(message)

    def bound(self, message: Bound) -> None:
        """Note the broker's limit, and ask it for the producer."""
        self._largest = message_limit(message.max_message_size)
        self.feed(Attached(message.number))

    def hear(self, commands: tuple[tuple[Any, memoryview], ...]) -> None:
        """Take receipts, as many as come together, and refusals, and the end of the binding."""
        for are_receipts, group in groupby(commands, _is_receipt):
            if are_receipts:
                self.feed(Persisted(self.machine.connection, tuple(command for command, _ in group)))
                continue
            for command, _ in group:
                if isinstance(command, CommandSendError):
                    self.feed(SendRefused(self.machine.connection, command))
                else:
                    self.hear_closing(command)

    def before_closing(self) -> None:
        """Send what is in the outbox, and refuse more: somebody who goes on sending would keep this busy for ever."""
        self._take(incomplete=True)
        self._outbox.end(unsent(self.machine.ending))

    def end(self, error: PulsarException) -> None:
        """Fail what is in the outbox, and refuse more of it."""
        self._outbox.end(unsent(error))
        super().end(error)

    def abandon(self, bug: InternalError) -> None:
        """Fail what is pending, too, and what a bug has kept from being so."""
        pending = self.machine.pending
        try:
            for failed in pending.fail_all():
                self._report_failure(failed.token, bug)
            for item in self._publishing:
                if item.token.parcel(0).buffers():  # it has not been reported
                    pending.give_back(item.messages, item.size)
                    self._report_failure(item.token, bug)
        finally:
            super().abandon(bug)

    # From the outbox to the machine.

    def _take(self, *, incomplete: bool) -> None:
        """Send full batches, or all that is there and is not batched anyway; the rest waits for the delay."""
        if self._outbox.closed is not None:  # whoever still finds room in it sees that too, and fails what is there
            return
        messages = self._outbox.look()
        limits = self._outbox.limits
        count = len(messages)
        if limits is not None and not incomplete:
            count = count_complete(messages.sizes, limits, messages.alone)
        if count:
            self._publish(messages.at(range(count)))
        if self._outbox.has_more():
            self._wait_for_more()

    def _wait_for_more(self) -> None:
        """Look again after the delay: by a timer of our own, for one of the machine's costs two events a batch."""
        limits = self._outbox.limits
        self._fill += 1
        if limits is None or not limits.delay:
            self.loop.post(self._delay_over, self._fill)
        else:
            self.loop.later(limits.delay, self._delay_over, self._fill)

    def _delay_over(self, fill: int) -> None:
        if fill == self._fill:
            self.guarded(lambda _: self._take(incomplete=True), None)

    def _publish(self, messages: Outgoing) -> None:
        try:
            ids = self._sequence_ids(messages)
        except InvalidArgument as error:  # there are no more of them
            self._outbox.take(len(messages), messages.size)
            self._refuse(messages, error)
            return
        moment = Moment(self.loop.wall_clock_ms(), self._deadline(), self._largest)
        publication = Publication(messages, ids, self._sender(), self._manner, moment)
        publication.pack(self._outbox.limits)
        self._outbox.take(len(messages), messages.size)
        for refused, reason in publication.refused:
            self._refuse(refused, reason)
        self._publishing = tuple(publication.items)
        self.feed(Publish(self._publishing))
        self._publishing = ()

    def _refuse(self, messages: Outgoing, error: PulsarException) -> None:
        """Fail messages that cannot be packed, and free their room."""
        self.machine.pending.give_back(len(messages), messages.size)
        self._outbox.report([(messages.replies, error)])
        self._outbox.freed()

    def _sequence_ids(self, messages: Outgoing) -> Sequence[int]:
        source = self.machine.sequence_ids
        chosen = [None if one is None else one.sequence_id for one in messages.said] if messages.says else []
        if chosen.count(None) == len(chosen):
            first = source.take(len(messages))
            return range(first, first + len(messages))
        return [source.take() if one is None else source.take_given(one) for one in chosen]

    def _sender(self) -> Sender:
        identity = self.machine.identity
        return Sender(self._place.id, identity.name, self._manner.codec, identity.schema_version)

    def _deadline(self) -> float | None:
        timeout = self._manner.send_timeout
        return None if timeout is None else self.loop.now() + timeout

    def _report_failure(self, packed: Packed, error: Exception) -> None:
        self._outbox.report([(packed.release(), error)])
        self._outbox.freed()

    # One method for each effect.

    def _send(self, effect: Send) -> None:
        self.say(Ship(tuple([item.token.parcel(item.next_frame) for item in effect.items])))

    def _opened(self, effect: Opened) -> None:
        settle(self.created, None)

    def _complete_batches(self, effect: Complete) -> None:
        self._outbox.report(map(_ended, effect.items))
        self._outbox.freed()

    def _fail(self, effect: Fail) -> None:
        if isinstance(effect.token, Packed):
            self._report_failure(effect.token, effect.error)
        else:
            super()._fail(effect)

    def _hear_rest(self, effect: HearRest) -> None:
        self.feed(effect.event)

    def _flushed(self, effect: Flushed) -> None:
        done = effect.token
        assert is_promise(done)  # noqa: S101 - the token of a flush
        self.debts.pay(done, None)

    OUTCOMES: ClassVar = {
        **BindingActor.OUTCOMES,
        AskToCreate: Outcomes(Created, CreateRefused, by_attempt(CreateTimedOut), CommandProducerSuccess),
    }
    PERFORMS: ClassVar = {
        **BindingActor.PERFORMS,
        AskToCreate: BindingActor[Producer].ask_attempt,
        Send: _send,
        Opened: _opened,
        Complete: _complete_batches,
        Fail: _fail,
        HearRest: _hear_rest,
        Flushed: _flushed,
    }


def _ended(stored: Stored[Packed]) -> Ended:
    packed = stored.token
    return packed.release(), SentTo(stored.message_ids, packed.batched, packed.size)


def _is_receipt(heard: tuple[Any, memoryview]) -> bool:
    return isinstance(heard[0], CommandSendReceipt)
