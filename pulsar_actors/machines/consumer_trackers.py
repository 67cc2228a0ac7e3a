"""The trackers of one consumer, and the updates of several trackers at once.

An acknowledged message needs no redelivery, even if it was negatively acknowledged, late or on its last try. When a
binding is lost, pending redeliveries are dropped, because the next broker redelivers all unacknowledged messages by
itself. A seek voids all data about earlier messages, and so does a move to another cluster.
"""

from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckGroupingTracker, AckOutcome
from pulsar_actors.machines.trackers.chunked_messages import ChunkedMessages
from pulsar_actors.machines.trackers.dead_letters import DeadLetters
from pulsar_actors.machines.trackers.entry_map import EntryKey
from pulsar_actors.machines.trackers.flow_permits import FlowPermits
from pulsar_actors.machines.trackers.negative_acks_tracker import NegativeAcksTracker
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAcks
from pulsar_actors.machines.trackers.unacked_message_tracker import UnackedMessageTracker
from pulsar_actors.machines.trackers.undecryptable_entries import UndecryptableEntries
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import MessageId


class ConsumerTrackers(NamedTuple):
    """The trackers of one consumer. Times are monotonic seconds."""

    permits: FlowPermits
    ack_grouping: AckGroupingTracker
    negative_acks: NegativeAcksTracker
    chunks: ChunkedMessages
    start: StartMessageId
    transactional_acks: TransactionalAcks
    unacked_messages: UnackedMessageTracker | None = None  # with an ack timeout
    dead_letters: DeadLetters[DeliveredEntry] | None = None  # with a dead letter policy
    undecryptable: UndecryptableEntries | None = None  # with an ack timeout

    @property
    def is_waiting_for_chunks(self) -> bool:
        """True while a cumulative acknowledgement waits to be sent, maybe for a message that is not read yet."""
        return self.ack_grouping.is_holding_cumulative or self.transactional_acks.is_holding

    def settle(self, outcome: AckOutcome) -> None:
        """Forget the redeliveries of acknowledged entries."""
        for entry in outcome.entries:
            self.negative_acks.acknowledged(entry)
            if self.unacked_messages is not None:
                self.unacked_messages.acknowledged(entry)
            if self.dead_letters is not None:
                self.dead_letters.acknowledged(entry)
        if outcome.up_to is not None:
            self.negative_acks.acknowledged_up_to(outcome.up_to, self.chunks.is_dropped)
            self.chunks.acknowledged_up_to(outcome.up_to)
            if self.unacked_messages is not None:
                self.unacked_messages.acknowledged_up_to(outcome.up_to)
            if self.dead_letters is not None:
                self.dead_letters.acknowledged_up_to(outcome.up_to)

    def negatively_acknowledged(self, entry: EntryKey, redelivery_count: int, now: float) -> None:
        """Note a negative acknowledgement of a message of the entry."""
        self.negative_acks.negatively_acknowledged(entry, redelivery_count, now)
        if self.unacked_messages is not None:
            self.unacked_messages.negatively_acknowledged(entry)

    def unbind(self) -> None:
        """Forget pending redeliveries: the next broker redelivers by itself."""
        self.negative_acks.clear()
        self.chunks.drop_unfinished(is_lost=True)
        self._clear_redeliveries()

    def seek(self, target: MessageId | int) -> None:
        """Start again at the target."""
        if isinstance(target, int):
            self.start.sought_time(target)
        else:
            self.start.sought(target)
        self.void()

    def leave_cluster(self) -> None:
        """Start in another cluster."""
        self.start.leave_cluster()
        self.void()

    def void(self) -> None:
        """Forget all messages."""
        self.negative_acks.clear()
        self.chunks.clear()
        self._clear_redeliveries()
        if self.dead_letters is not None:
            self.dead_letters.void()

    def next_redelivery(self) -> float | None:
        """Return the time at which the first redelivery or unfinished chunk is due."""
        times = [self.negative_acks.next_due(), self.chunks.next_expiry()]
        if self.unacked_messages is not None:
            times.append(self.unacked_messages.next_due())
        if self.undecryptable is not None:
            times.append(self.undecryptable.next_due())
        return min((time for time in times if time is not None), default=None)

    def _clear_redeliveries(self) -> None:
        if self.unacked_messages is not None:
            self.unacked_messages.clear()
        if self.undecryptable is not None:
            self.undecryptable.clear()
        if self.dead_letters is not None:
            self.dead_letters.clear()
