"""The acknowledgements of one consumer: the commands that carry them, and the callers that wait for their receipts.

`trackers/ack_grouping_tracker.py` groups acknowledgements; here they become commands, and answers complete their
callers. A command asks for a receipt if the user wants to know that acknowledgements count. Nobody waits for the
acknowledgement of a corrupt entry, and no receipt is asked for it. A refused acknowledgement counts as never made, so
the time limit for acknowledging its message starts again.

A topic that is not persistent keeps no acknowledgements, so an acknowledgement there completes at once.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    AcknowledgeUpTo,
    AcksAnswered,
    AcksHeld,
    AcksSettled,
    AskToAck,
    SendConsumerCommand,
)
from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.machines.trackers.ack_grouping_tracker import (
    AckGroup,
    AckGroupingTracker,
    AckOutcome,
    AckReceipts,
    AckToken,
)
from pulsar_actors.machines.trackers.chunked_messages import ChunkedMessages
from pulsar_actors.machines.trackers.dead_letters import DeadLetters
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.flow_permits import FlowPermits
from pulsar_actors.machines.trackers.negative_acks_tracker import NegativeAcksTracker
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.machines.trackers.unacked_message_tracker import UnackedMessageTracker
from pulsar_actors.wire.message_id import MessageId


class ConsumerTrackers(NamedTuple):
    """The trackers of one consumer, and what concerns several of them at once. Times are monotonic seconds.

    An acknowledged message needs no redelivery, whether it was negatively acknowledged, late or on its last try. The
    next broker redelivers by itself what is unacknowledged, so a lost binding clears what was to be asked for. A seek
    makes void what is known of earlier messages.
    """

    permits: FlowPermits
    acks: AckGroupingTracker
    negative_acks: NegativeAcksTracker
    chunks: ChunkedMessages
    start: StartMessageId
    unacked_messages: UnackedMessageTracker | None = None  # with an ack timeout
    dead_letters: DeadLetters[DeliveredEntry] | None = None  # with a dead letter policy

    def settle(self, outcome: AckOutcome) -> None:
        """Forget what an acknowledgement settles."""
        for entry in outcome.entries:
            self.negative_acks.acknowledged(entry)
            if self.unacked_messages is not None:
                self.unacked_messages.acknowledged(entry)
            if self.dead_letters is not None:
                self.dead_letters.acknowledged(entry)
        if outcome.up_to is not None:
            self.negative_acks.acknowledged_up_to(outcome.up_to)
            self.chunks.acknowledged_up_to(outcome.up_to)
            if self.unacked_messages is not None:
                self.unacked_messages.acknowledged_up_to(outcome.up_to)
            if self.dead_letters is not None:
                self.dead_letters.acknowledged_up_to(outcome.up_to)

    def unbind(self) -> None:
        """Hold unanswered acknowledgements; the next broker sends everything else again."""
        self.acks.disconnected()
        self.negative_acks.clear()
        self.chunks.drop_unfinished()
        self._clear_redeliveries()

    def seek(self, target: MessageId | int, generation: Generation) -> tuple[AckToken, ...]:
        """Start again at the target; return the tokens of acknowledgements that are void."""
        if isinstance(target, int):
            self.start.sought_time(target)
        else:
            self.start.sought(target)
        self.negative_acks.clear()
        self.chunks.clear()
        self._clear_redeliveries()
        return self.acks.sought(generation)

    def next_sweep(self) -> float | None:
        """Return the time at which the first redelivery or unfinished chunk is due."""
        times = [self.negative_acks.next_due(), self.chunks.next_expiry()]
        if self.unacked_messages is not None:
            times.append(self.unacked_messages.next_due())
        return min((time for time in times if time is not None), default=None)

    def _clear_redeliveries(self) -> None:
        if self.unacked_messages is not None:
            self.unacked_messages.clear()
        if self.dead_letters is not None:
            self.dead_letters.clear()


class ConsumerAcks:
    """The acknowledgements of one consumer. Times are monotonic seconds."""

    __slots__ = ("_commands_sent", "_consumer_id", "_stored", "_timeout", "_trackers", "receipts")

    def __init__(self, consumer_id: int, trackers: ConsumerTrackers, *, timeout: float, stored: bool) -> None:
        self.receipts = AckReceipts(timeout)
        self._trackers = trackers
        self._consumer_id = consumer_id
        self._timeout = timeout
        self._stored = stored
        self._commands_sent = 0

    def acknowledge(self, event: Acknowledge, now: float) -> Effects:
        """Add acknowledgements to the group that is sent next."""
        if event.tokens:
            self.receipts.awaited(event.tokens, now)
        if not self._stored:
            ids = (*event.message_ids, *(entry for entry, _ in event.parts))
            return self._settle(AckOutcome([one.position for one in ids], tokens=event.tokens or ()))
        acks = self._trackers.acks
        settled = self._settle(acks.acknowledge(event.message_ids, event.generation, event.tokens))
        if event.parts:
            settled = [*settled, *self._settle(acks.acknowledge_parts(event.parts, event.generation))]
        return settled

    def acknowledge_up_to(self, event: AcknowledgeUpTo, now: float) -> Effects:
        """Acknowledge a message and all before it."""
        tokens = None if event.token is None else (event.token,)
        if not self._stored:
            return self.acknowledge(Acknowledge(event.generation, (event.message_id,), tokens), now)
        if tokens:
            self.receipts.awaited(tokens, now)
        return self._settle(self._trackers.acks.acknowledge_up_to(event.message_id, event.generation, event.token))

    def acknowledge_own(self, message_ids: Iterable[MessageId], generation: Generation, now: float) -> Effects:
        """Acknowledge messages that the user does not acknowledge."""
        ids = tuple(message_ids)
        return [*self.acknowledge(Acknowledge(generation, ids), now), *self.send_later()] if ids else []

    def send_later(self) -> Effects:
        """Have what is held sent with the next group, since no caller has queued it."""
        return [AcksHeld()] if self._trackers.acks.is_holding else []

    def send_all(self) -> Effects:
        """Send all acknowledgements that are held."""
        return [self.send(group) for group in self._trackers.acks.drain()]

    def send(self, group: AckGroup) -> AskToAck | SendConsumerCommand:
        """Send one command."""
        command = group.command(self._consumer_id)
        if not self._trackers.acks.receipts or group.validation_error is not None:
            return SendConsumerCommand(command)
        self._commands_sent += 1
        self._trackers.acks.awaits(self._commands_sent, group)
        return AskToAck(self._commands_sent, command, self._timeout)

    def answer(self, event: AcksAnswered, now: float) -> Effects:
        """Complete the acknowledgements of one command; if it was refused, their messages are unacknowledged again."""
        tokens, refused = self._trackers.acks.answered(event.ack, failed=event.error is not None)
        if refused and self._trackers.unacked_messages is not None:
            self._trackers.unacked_messages.refused(refused, now)
        return self.complete(tokens, event.error)

    def fail_late_receipts(self, reason: str, now: float) -> Effects:
        """Fail the callers whose receipt is late. Their acknowledgements stay in the queue or on their way."""
        late = self.receipts.expire(now)
        text = f"the broker has not confirmed the acknowledgement in time, which is still on its way: {reason}"
        return [AcksSettled(late, Timeout(text))] if late else []

    def abandon(self, error: PulsarException) -> Effects:
        """Fail all acknowledgements that have no answer."""
        return self.complete(self._trackers.acks.abandon(), error)

    def complete(self, tokens: Iterable[AckToken], error: PulsarException | None) -> Effects:
        """Complete those of the callers that still wait."""
        waiting = self.receipts.ended(tokens)
        return [AcksSettled(waiting, error)] if waiting else []

    def _settle(self, outcome: AckOutcome) -> Effects:
        self._trackers.settle(outcome)
        failed = [
            effect for token, fault in outcome.faults if token is not None for effect in self.complete((token,), fault)
        ]
        return [*self.complete(outcome.tokens, None), *failed]
