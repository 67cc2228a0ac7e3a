"""The state machine of one consumer's acknowledgements: when they are sent, and when their callers are completed.

`trackers/ack_grouping_tracker.py` holds acknowledgements, and makes commands of them. `runtime/ack_queue.py` decides
when a group of them is complete. A command requests a receipt if `ack_receipt_enabled` is set. A caller waits for the
receipt no longer than the operation timeout; the error then names the last failure. A refused acknowledgement counts as
never made, so the acknowledgement timeout of its message starts again.

Acknowledgements without a binding wait for the next one. They are also held during a seek: one that came after SEEK
would acknowledge messages after the new position. If the seek has no answer, nobody knows whether they would, so they
fail: messages that come again are better than messages that never come. So do those that are made later, of messages
from before. Acknowledgements of corrupt entries are sent at once, even during a seek. They have no caller that waits,
and request no receipt.

A topic that is not persistent keeps no acknowledgements, so an acknowledgement there completes at once.

An acknowledgement in a transaction is not grouped. It is sent once, and is not held again after the loss of its
connection: see `trackers/transactional_acks.py`. Once its transaction is over, it is not sent at all. A cumulative one
waits for a message in chunks that begins before it and is not read yet, as it would without a transaction.
"""

from collections.abc import Iterable
from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import ConnectionLost, InvalidTxnStatusError, PulsarException, Timeout
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler import ConnectionHandler
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeCorrupt,
    AcknowledgeHandedOut,
    AcknowledgeInTransaction,
    AcknowledgeUnneeded,
    AcknowledgeUpTo,
    AckReceiptsDue,
    AcksAnswered,
    AcksDue,
    AcksHeld,
    AcksInDoubt,
    AcksSettled,
    AcksVoided,
    AskToAck,
    AskToAckInTransaction,
    Bound,
    Closing,
    DropTransactionalAcks,
    Ended,
    FlushAcks,
    RedeliveryDue,
    SeekRefused,
    SeekSent,
    SendConsumerCommand,
    TransactionalAckAnswered,
    Unbound,
)
from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.ack_grouping_tracker import (
    AckGroup,
    AckOutcome,
    AckReceipts,
    AckToken,
    DroppedAcks,
    corrupt_group,
)
from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.machines.trackers.server_errors import last_failure_text, not_sent_error, unconfirmed_error
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAck, transactional_command
from pulsar_actors.wire.message_id import MessageId


@unique
class State(Enum):
    """The states of a consumer's acknowledgements."""

    UNBOUND = "Acknowledgements wait for the next binding."
    SENDING = "Acknowledgements are sent, group by group."
    HELD = "SEEK is sent: acknowledgements wait for its answer."
    CLOSING = "The consumer is closing; acknowledgements that were sent may still be answered."
    OVER = "The consumer is closed."


UNBOUND, SENDING, HELD, CLOSING, OVER = State

WITH_BINDING: Final = (SENDING, HELD)
NOT_ENDING: Final = (UNBOUND, *WITH_BINDING)
ENDING: Final = (CLOSING, OVER)
NOT_OVER: Final = (*NOT_ENDING, CLOSING)

# fmt: off
ROWS: Final = (
    #   trigger                   source              dest      guard          does
    Row(Acknowledge,              NOT_ENDING,         INTERNAL, "is_in_doubt", "fail_in_doubt"),
    Row(AcknowledgeUpTo,          NOT_ENDING,         INTERNAL, "is_in_doubt", "fail_cumulative_in_doubt"),
    Row(Acknowledge,              NOT_ENDING,         INTERNAL, None,          "hold"),
    Row(AcknowledgeUpTo,          NOT_ENDING,         INTERNAL, None,          "hold_cumulative"),
    Row(AcknowledgeUnneeded,      NOT_ENDING,         INTERNAL, None,          "hold_unneeded"),
    Row(AcknowledgeHandedOut,     WITH_BINDING,       INTERNAL, None,          "hold_handed_out"),
    Row(AcknowledgeCorrupt,       WITH_BINDING,       INTERNAL, None,          "send_corrupt"),
    Row(AcksDue,                  SENDING,            INTERNAL, None,          "send_all"),
    Row(FlushAcks,                SENDING,            INTERNAL, None,          "send_all"),

    # Transactions.
    Row(AcknowledgeInTransaction, NOT_ENDING,         INTERNAL, "is_dropped",  "fail_dropped"),
    Row(AcknowledgeInTransaction, NOT_ENDING,         INTERNAL, "is_in_doubt", "fail_in_transaction_in_doubt"),
    Row(AcknowledgeInTransaction, SENDING,            INTERNAL, None,          "send_in_transaction"),
    Row(AcknowledgeInTransaction, (UNBOUND, HELD),    INTERNAL, None,          "hold_in_transaction"),
    Row(TransactionalAckAnswered, NOT_OVER,           INTERNAL, None,          "end_in_transaction"),
    Row(DropTransactionalAcks,    NOT_OVER,           INTERNAL, None,          "drop_of_transaction"),

    # Receipts.
    Row(AcksAnswered,             WITH_BINDING,       INTERNAL, None,          "end_answered_and_forget_failure"),
    Row(AcksAnswered,             (UNBOUND, CLOSING), INTERNAL, None,          "end_answered"),
    Row(AckReceiptsDue,           NOT_ENDING,         INTERNAL, None,          "fail_late"),

    # Bindings and seeks.
    Row(Bound,                    UNBOUND,            SENDING,  None,          "send_kept"),
    Row(Unbound,                  WITH_BINDING,       UNBOUND,  None,          "keep_unanswered"),
    Row(SeekSent,                 SENDING,            HELD,     None,          "send_all"),
    Row(SeekRefused,              HELD,               SENDING,  None,          "send_later"),
    Row(AcksInDoubt,              (UNBOUND, HELD),    INTERNAL, None,          "drop_in_doubt"),
    Row(AcksVoided,               HELD,               SENDING,  None,          "end_void"),
    Row(AcksVoided,               UNBOUND,            INTERNAL, None,          "end_void"),

    # The end.
    Row(Closing,                  NOT_ENDING,         CLOSING),
    Row(Ended,                    CLOSING,            OVER,     None,          "fail_unanswered"),
    Row(Acknowledge,              ENDING,             INTERNAL, None,          "fail_after_end"),
    Row(AcknowledgeUpTo,          ENDING,             INTERNAL, None,          "fail_cumulative_after_end"),
    Row(AcknowledgeInTransaction, ENDING,             INTERNAL, None,          "fail_in_transaction_after_end"),
)

IGNORES: Final = (
    Ignore(AcksDue, (UNBOUND, HELD, *ENDING)),
    Ignore(FlushAcks, (UNBOUND, HELD)),
    Ignore((AcksAnswered, TransactionalAckAnswered, DropTransactionalAcks), OVER),
    Ignore(AckReceiptsDue, ENDING),
    Ignore((Unbound, SeekRefused), UNBOUND),
    Ignore(Closing, ENDING),
    Ignore(Ended, OVER),
)
# fmt: on

CHART: Final = Chart(
    "consumer_acks",
    states=State,
    initial=UNBOUND,
    final=(OVER,),
    ours=(Acknowledge, AcknowledgeUpTo, AcknowledgeInTransaction, DropTransactionalAcks),
    rows=ROWS,
    ignores=IGNORES,
    inner=(
        AcknowledgeUnneeded, AcknowledgeHandedOut, AcknowledgeCorrupt, FlushAcks, Bound, Unbound, SeekSent, SeekRefused,
        AcksInDoubt, AcksVoided, Closing, Ended,
    ),
)  # fmt: skip


_NO_FORMER_CLUSTER: Final[tuple[int, PulsarException | None]] = (0, None)
"""Messages with a lower seek counter are of a former cluster, and their acknowledgements fail with this error."""

_NO_DOUBT: Final = (0, ConnectionLost("no seek is in doubt"))
"""Messages with a lower seek counter are from before a seek in doubt; their acknowledgements fail with this error."""


class ConsumerAcks(StateMachine, chart=CHART):
    """The acknowledgements of one consumer: the guards and actions in the chart's order."""

    __slots__ = (
        "_commands_sent", "_consumer_id", "_doubt", "_failure", "_former_cluster", "_handler", "_persistent",
        "_receipts", "_tracker", "_trackers", "_transactional",
    )  # fmt: skip

    def __init__(
        self, handler: ConnectionHandler, consumer_id: int, trackers: ConsumerTrackers, *, persistent: bool
    ) -> None:
        super().__init__(handler)
        self._handler = handler
        self._consumer_id = consumer_id
        self._trackers = trackers
        self._tracker = trackers.ack_grouping
        self._persistent = persistent
        self._receipts = AckReceipts(handler.operation_timeout)
        self._transactional = trackers.transactional_acks
        self._failure: PulsarException | None = None  # the last one of this binding, or of this wait
        self._commands_sent = 0
        self._former_cluster = _NO_FORMER_CLUSTER
        self._doubt: tuple[int, PulsarException] = _NO_DOUBT

    @property
    def is_holding(self) -> bool:
        """True while acknowledgements wait to be sent."""
        return self._tracker.is_holding or self._transactional.is_holding

    def note_error(self, error: PulsarException) -> None:
        """Remember the last failure."""
        self._failure = error

    def known_id(self, message_id: MessageId) -> MessageId:
        """Return the id to acknowledge, or raise if it names no message. Any thread may call this.

        A topic that is not persistent has one id for all its messages, and acknowledges none of them.
        """
        return self._tracker.known_id(message_id) if self._persistent else message_id

    def drop_all(self) -> tuple[AckToken, ...]:
        """Drop everything because of a bug, and return the tokens that have no answer."""
        never_sent, sent = self._drop_all()
        return (*never_sent, *sent)

    def is_in_doubt(self, event: Acknowledge | AcknowledgeUpTo | AcknowledgeInTransaction, now: float) -> bool:
        """Return whether the messages are from before a seek that may have brought them back."""
        generation = event.ack.generation if isinstance(event, AcknowledgeInTransaction) else event.generation
        return generation.seek < self._doubt[0]

    def fail_in_doubt(self, event: Acknowledge, now: float) -> Effects:
        """Fail the acknowledgements: their messages may come again."""
        return _failed(event.tokens or (), self._doubt[1])

    def fail_cumulative_in_doubt(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Fail the acknowledgement: its messages may come again."""
        return _failed(() if event.token is None else (event.token,), self._doubt[1])

    def hold(self, event: Acknowledge, now: float) -> Effects:
        """Hold acknowledgements until their group is complete."""
        if event.tokens:
            self._receipts.awaited(event.tokens, now)
        settled = self._hold(event)
        return [*settled, *self._watch(now)] if event.tokens else settled

    def hold_cumulative(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Hold a cumulative acknowledgement until its group is complete."""
        if event.token is None:
            return self._hold_up_to(event)
        self._receipts.awaited((event.token,), now)
        return [*self._hold_up_to(event), *self._watch(now)]

    def hold_unneeded(self, event: AcknowledgeUnneeded, now: float) -> Effects:
        """Hold acknowledgements of messages that the user does not acknowledge."""
        return [*self._hold(Acknowledge(event.generation, event.message_ids)), *self._send_later()]

    def hold_handed_out(self, event: AcknowledgeHandedOut, now: float) -> Effects:
        """Hold the acknowledgement of messages that a reader has handed out."""
        return [*self._hold_up_to(AcknowledgeUpTo(event.generation, event.message_id)), *self._send_later()]

    def send_corrupt(self, event: AcknowledgeCorrupt, now: float) -> Effects:
        """Acknowledge corrupt entries at once, with their validation error."""
        return [self._send(corrupt_group(event.entries, event.validation_error))]

    def send_all(self, event: AcksDue | FlushAcks | SeekSent, now: float) -> Effects:
        """Send the acknowledgements that are held."""
        return self._send_all()

    # Transactions.

    def is_dropped(self, event: AcknowledgeInTransaction, now: float) -> bool:
        """Return whether the transaction is over, or in another cluster than the topic."""
        return event.dropped is not None or event.home != self._handler.home

    def fail_dropped(self, event: AcknowledgeInTransaction, now: float) -> Effects:
        """Fail the caller. The broker would hold the messages back for an end of the transaction that never comes."""
        return [AcksSettled((event.ack.token,), event.dropped or _foreign())]

    def fail_in_transaction_in_doubt(self, event: AcknowledgeInTransaction, now: float) -> Effects:
        """Fail the acknowledgement: its messages may come again."""
        return _failed((event.ack.token,), self._doubt[1])

    def send_in_transaction(self, event: AcknowledgeInTransaction, now: float) -> Effects:
        """Send an acknowledgement of a transaction, at once if it covers no chunks of a message that is not read."""
        self._receipts.awaited((event.ack.token,), now)
        self._transactional.hold(event.ack)
        return [*self._send_held_in_transactions(), *self._watch(now)]

    def hold_in_transaction(self, event: AcknowledgeInTransaction, now: float) -> Effects:
        """Keep it until there is a binding, or until the seek is answered."""
        self._receipts.awaited((event.ack.token,), now)
        self._transactional.hold(event.ack)
        return self._watch(now)

    def end_in_transaction(self, event: TransactionalAckAnswered, now: float) -> Effects:
        """Complete the caller."""
        return self._end(self._transactional.answered(event.ack), event.error)

    def drop_of_transaction(self, event: DropTransactionalAcks, now: float) -> Effects:
        """Fail what waits to be sent, or for its answer."""
        return self._end(self._transactional.drop_of(event.transaction), event.error)

    # Receipts.

    def end_answered_and_forget_failure(self, event: AcksAnswered, now: float) -> Effects:
        """Complete the callers, and forget the last failure: the broker answers again."""
        answered = self.end_answered(event, now)
        self._forget_failure()
        return answered

    def end_answered(self, event: AcksAnswered, now: float) -> Effects:
        """Complete the callers of one command. If it was refused, its messages count as unacknowledged again."""
        tokens, refused = self._tracker.answered(event.ack, failed=event.error is not None)
        ended = self._end(tokens, event.error)
        if not refused or self._trackers.unacked_messages is None:
            return ended
        self._trackers.unacked_messages.refused(refused, now)
        return [*ended, *self.timers.ensure(RedeliveryDue, self._trackers.next_redelivery(), now)]

    def fail_late(self, event: AckReceiptsDue, now: float) -> Effects:
        """Fail the callers whose receipt is late. Their acknowledgements stay held or sent, but for transactions."""
        late, handler = self._receipts.expire(now), self._handler
        never_sent = self._transactional.drop_held(late)
        sent = tuple(token for token in late if token not in never_sent)
        reason = f"the consumer of {handler.topic} is {handler.state_name}{last_failure_text(self._failure)}"
        unread = "it would cover chunks of a message that is not acknowledged" if self.state is SENDING else reason
        text = f"the broker has not confirmed the acknowledgement in time, which is still on its way: {reason}"
        return [
            *([AcksSettled(sent, Timeout(text))] if sent else []),
            *([AcksSettled(never_sent, Timeout(f"the acknowledgement was not sent: {unread}"))] if never_sent else []),
            *self._watch(now),
        ]

    # Bindings and seeks.

    def send_kept(self, event: Bound, now: float) -> Effects:
        """Send the acknowledgements that have waited for the binding."""
        self._forget_failure()
        self._tracker.rebound()
        return self._send_all()

    def keep_unanswered(self, event: Unbound, now: float) -> Effects:
        """Hold again the acknowledgements that were sent and have no answer, and fail those of transactions."""
        self._tracker.disconnected()
        lost = ConnectionLost("the connection was lost before the broker answered the acknowledgement")
        return self._end(self._transactional.drop_unanswered(), lost)

    def send_later(self, event: SeekRefused, now: float) -> Effects:
        """Send the acknowledgements that were held for the seek with the next group, those of transactions now."""
        return [*self._send_later(), *self._send_held_in_transactions()]

    def drop_in_doubt(self, event: AcksInDoubt, now: float) -> Effects:
        """Drop the acknowledgements from before the seek, as it is not known what they would acknowledge now."""
        self._doubt = event.generation.seek, event.error
        failed = self._fail_all(event.error)
        self._tracker.sought(event.generation)
        return failed

    def end_void(self, event: AcksVoided, now: float) -> Effects:
        """Complete the callers of acknowledgements from before the seek, which are void. After a move they fail."""
        void = (*self._tracker.sought(event.generation), *(ack.token for ack in self._transactional.take_held()))
        if event.error is not None:
            self._former_cluster = event.generation.seek, event.error
        return self._end(void, event.error)

    # The end.

    def fail_unanswered(self, event: Ended, now: float) -> Effects:
        """Fail the acknowledgements that have no answer. The broker may have done those that were sent."""
        return self._fail_all(event.error)

    def fail_after_end(self, event: Acknowledge, now: float) -> Effects:
        """Fail acknowledgements after the end."""
        return _failed(event.tokens or (), self._handler.ending)

    def fail_cumulative_after_end(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Fail an acknowledgement after the end."""
        return _failed(() if event.token is None else (event.token,), self._handler.ending)

    def fail_in_transaction_after_end(self, event: AcknowledgeInTransaction, now: float) -> Effects:
        """Fail an acknowledgement after the end."""
        return _failed((event.ack.token,), self._handler.ending)

    def _fail_all(self, error: PulsarException) -> Effects:
        never_sent, sent = self._drop_all()
        unconfirmed = unconfirmed_error(error, "the acknowledgement was sent, and has no receipt")
        return [*self._end(never_sent, not_sent_error(error)), *self._end(sent, unconfirmed)]

    def _drop_all(self) -> DroppedAcks:
        never_sent, sent = self._tracker.drop_all()
        held = tuple(ack.token for ack in self._transactional.take_held())
        return DroppedAcks((*never_sent, *held), (*sent, *self._transactional.drop_unanswered()))

    def _send_held_in_transactions(self) -> Effects:
        """Send those that wait. All are noted first: one may read the message that holds back another before it."""
        ended: list[Effect] = []
        noted: list[tuple[TransactionalAck, dict[EntryKey, tuple[int, int]]]] = []
        for ack in self._transactional.take_held():
            fault: PulsarException | None = ack.fault(self._tracker.largest_batch)
            if fault is None and ack.generation.seek < self._former_cluster[0]:
                fault = self._former_cluster[1]  # that of a message of the former cluster
            if fault is not None or not ack.generation.still_acknowledges(self._tracker.generation):
                ended += self._end((ack.token,), fault)
                continue
            left = ack.left(self._trackers.chunks.take_in_transaction)
            self._trackers.settle(self._tracker.acknowledge_in_transaction(left, cumulative=ack.cumulative))
            noted.append((ack, left))
        return [*ended, *(effect for ack, left in noted for effect in self._send_in_transaction(ack, left))]

    def _send_in_transaction(self, ack: TransactionalAck, left: dict[EntryKey, tuple[int, int]]) -> Effects:
        if self._first_unread(ack) is not None:
            self._transactional.hold(ack)
            return []
        command = transactional_command(self._consumer_id, ack, left)
        return [AskToAckInTransaction(self._transactional.sent(ack), command, self._handler.operation_timeout)]

    def _first_unread(self, ack: TransactionalAck) -> EntryKey | None:
        """Return the first chunk that must not be covered; None for one that covers nothing but its messages."""
        return self._trackers.chunks.first_unread(ack.message_ids[0].position) if ack.cumulative else None

    def _hold(self, event: Acknowledge) -> Effects:
        if not self._persistent:
            ids = (*event.message_ids, *(entry for entry, _ in event.parts))
            return self._settle(AckOutcome([one.position for one in ids], tokens=event.tokens or ()))
        settled = self._settle(self._tracker.acknowledge(event.message_ids, event.generation, event.tokens))
        if event.parts:
            settled = [*settled, *self._settle(self._tracker.acknowledge_parts(event.parts, event.generation))]
        return settled

    def _hold_up_to(self, event: AcknowledgeUpTo) -> Effects:
        generation, message_id, token = event
        if not self._persistent:
            return self._hold(Acknowledge(generation, (message_id,), None if token is None else (token,)))
        return self._settle(self._tracker.acknowledge_up_to(message_id, generation, token))

    def _settle(self, outcome: AckOutcome) -> Effects:
        self._trackers.settle(outcome)
        failed = [
            effect for token, fault in outcome.faults if token is not None for effect in self._end((token,), fault)
        ]
        return [*self._end(outcome.tokens, None), *failed]

    def _send_later(self) -> Effects:
        """Request a group for the held acknowledgements, because no caller has queued them."""
        return [AcksHeld()] if self._tracker.is_holding else []

    def _send_all(self) -> Effects:
        return [*(self._send(group) for group in self._tracker.drain()), *self._send_held_in_transactions()]

    def _send(self, group: AckGroup) -> AskToAck | SendConsumerCommand:
        command = group.command(self._consumer_id)
        if not self._tracker.receipts or group.validation_error is not None:
            return SendConsumerCommand(command)
        self._commands_sent += 1
        self._tracker.awaits(self._commands_sent, group)
        return AskToAck(self._commands_sent, command, self._handler.operation_timeout)

    def _end(self, tokens: Iterable[AckToken], error: PulsarException | None) -> Effects:
        """Complete the callers that still wait."""
        waiting = self._receipts.ended(tokens)
        return [AcksSettled(waiting, error)] if waiting else []

    def _forget_failure(self) -> None:
        """Forget the failures before this binding, unless a caller has waited for a receipt since then."""
        if self._receipts.next_deadline() is None:
            self._failure = None

    def _watch(self, now: float) -> Effects:
        return self.timers.ensure(AckReceiptsDue, self._receipts.next_deadline(), now)


def _failed(tokens: tuple[AckToken, ...], error: PulsarException) -> Effects:
    return [AcksSettled(tokens, error)] if tokens else []


def _foreign() -> InvalidTxnStatusError:
    what = "the transaction belongs to another cluster than the topic: nothing is acknowledged in it"
    return InvalidTxnStatusError("InvalidTxnStatus", what)
