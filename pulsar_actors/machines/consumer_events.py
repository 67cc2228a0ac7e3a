"""Events and effects that only a consumer has: those of `consumer.py` and of the machines that are its parts.

Those that it shares with a producer are in `connection_handler_events.py`, which also explains `attempt` and
`connection`. A `Generation` dates the messages that are queued for the user: the effect `ClearQueue` sets it, and each
report about queued messages carries it. (An int `generation` in an event of time is the number of a timer.)
"""

from google.protobuf.message import Message

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.incoming_entries import DeliveredEntry, IncomingEntry, Skipped
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckToken
from pulsar_actors.machines.trackers.entry_map import EntryKey, Generation
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAck
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.message_id import EARLIEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
)
from pulsar_actors.wire.transaction_id import TransactionId


class LastMessage(NamedTuple):
    """The topic's last message, and the subscription's mark-delete position, if the broker sends it."""

    message_id: MessageId
    acknowledged: MessageId | None

    @property
    def skipped_up_to(self) -> EntryKey:
        """The last entry that the broker does not send any more: a reader has it, or it has expired or was skipped.

        An id below 0 stands for the beginning: in a compacted topic it may be in a later ledger than the last message.
        """
        acknowledged = self.acknowledged
        return EARLIEST.position if acknowledged is None or acknowledged.entry_id < 0 else acknowledged.position


# Events of the user.


class Seek(NamedTuple):
    """Seek to a message, or to the first one published at a time (wall-clock ms) or later."""

    token: object
    target: MessageId | int


class Unsubscribe(NamedTuple):
    """Delete the subscription, and end the consumer. With `force`, even if other consumers are connected."""

    token: object
    force: bool = False


class GetLastMessageId(NamedTuple):
    """Get the ID of the topic's last message, until `deadline` (monotonic seconds)."""

    token: object
    deadline: float


class GetConsumerStats(NamedTuple):
    """Get the broker's statistics of this consumer, until `deadline`."""

    token: object
    deadline: float


class Acknowledge(NamedTuple):
    """Acknowledge messages one by one; `tokens`, if given, has one for each.

    `parts` are sets of messages of batches (see `ack_set.py`); the ids have the size of each batch.
    """

    generation: Generation
    message_ids: tuple[MessageId, ...]
    tokens: tuple[AckToken, ...] | None = None
    parts: tuple[tuple[MessageId, int], ...] = ()


class AcknowledgeUpTo(NamedTuple):
    """Acknowledge a message and all before it."""

    generation: Generation
    message_id: MessageId
    token: AckToken | None = None


class AcknowledgeInTransaction(NamedTuple):
    """Acknowledge messages as a part of a transaction, in which their subscription is registered.

    `dropped` is the error of a transaction that was over before the event came, and `home` the number of its cluster.
    Nothing is sent of one that is over, or in another cluster than the topic.
    """

    ack: TransactionalAck
    dropped: PulsarException | None = None
    home: int = 0


class DropTransactionalAcks(NamedTuple):
    """Fail the acknowledgements of a transaction that is over, with this error. Those that wait are not sent."""

    transaction: TransactionId
    error: PulsarException


class NegativeAcknowledge(NamedTuple):
    """Request the redelivery of messages after their delay. Each comes with its redelivery count."""

    generation: Generation
    messages: tuple[tuple[MessageId, int], ...]


class RedeliverUnacknowledged(NamedTuple):
    """Request the redelivery of everything unacknowledged, now.

    With the generation of a message, unless everything since that message comes again already.
    """

    generation: Generation | None = None


class HandedOut(NamedTuple):
    """So many messages were handed out. `message_ids` has the last one of each of their entries, in order.

    If `messages` is 0, `message_ids` has the entry whose messages will be handed out next (for acknowledgement
    timeouts). `counts` are the redelivery counts.
    """

    generation: Generation
    messages: int
    message_ids: tuple[MessageId, ...] = ()
    counts: tuple[int, ...] = ()


class MessagesDiscarded(NamedTuple):
    """So many messages were dropped before they were handed out, for example because they are compacted out."""

    generation: Generation
    messages: int


class EntryCorrupt(NamedTuple):
    """An entry was found corrupt when it was opened; none of its messages was handed out."""

    generation: Generation
    entry: EntryKey
    messages: int
    validation_error: "CommandAck.ValidationError.ValueType"


class EntryUndecryptable(NamedTuple):
    """No key decrypts an entry, and none of its messages is handed out. It holds its permits until it comes again."""

    generation: Generation
    message_id: MessageId
    redelivery_count: int
    messages: int


class ReceiverWaits(NamedTuple):
    """A caller waits for a message. A queue of size 0 requests one."""


class ResizeQueue(NamedTuple):
    """Hold so many messages at most from now on: the queues of several topics share their room."""

    size: int


class ReceiverGaveUp(NamedTuple):
    """A caller does not wait any longer."""


class DeadLetterSent(NamedTuple):
    """The dead letter topic has all messages of an entry."""

    generation: Generation
    message_id: MessageId


class DeadLetterFailed(NamedTuple):
    """The dead letter topic does not have an entry."""

    generation: Generation
    message_id: MessageId


# Events from `consumer.py` to its parts, and between these.


class Bound(NamedTuple):
    """The broker has accepted SUBSCRIBE."""


class Unbound(NamedTuple):
    """The binding is lost, for this reason: no command can be sent before the next SUBSCRIBE is accepted."""

    reason: str


class SeekSent(NamedTuple):
    """SEEK is about to be sent, after the acknowledgements that are held."""


class SeekRefused(NamedTuple):
    """The broker has refused the seek. The position is unchanged."""


class SeekInDoubt(NamedTuple):
    """The seek has no answer, for this reason: the position may have moved."""

    reason: str


class Sought(NamedTuple):
    """The broker has moved the subscription to this target."""

    target: MessageId | int


class FlushAcks(NamedTuple):
    """Send the acknowledgements that are held, before a command that must not overtake them."""


class AcknowledgeUnneeded(NamedTuple):
    """Acknowledge messages that the user does not: incomplete chunks, duplicates, and dead letters."""

    generation: Generation
    message_ids: tuple[MessageId, ...]


class AcknowledgeHandedOut(NamedTuple):
    """Acknowledge for a reader the messages that it has handed out: this one and all before it."""

    generation: Generation
    message_id: MessageId


class AcknowledgeCorrupt(NamedTuple):
    """Acknowledge corrupt entries, with this validation error."""

    entries: tuple[EntryKey, ...]
    validation_error: "CommandAck.ValidationError.ValueType"


class ClusterLeft(NamedTuple):
    """The topic is in another cluster now. Its messages are others, whatever their ids."""

    error: PulsarException


class AcksVoided(NamedTuple):
    """A seek has started this generation, or a move to another cluster: acknowledgements of earlier messages are void.

    After a move they fail with this error.
    """

    generation: Generation
    error: PulsarException | None = None


class AcksInDoubt(NamedTuple):
    """A seek without an answer has started this generation: acknowledgements of earlier messages fail with this error.

    The generation goes on if the subscription is not durable, because the client keeps the position of that one.
    """

    generation: Generation
    error: PulsarException


class Closing(NamedTuple):
    """The consumer is closing: calls that need a broker fail with this error."""

    error: PulsarException


class Ended(NamedTuple):
    """The consumer is closed: all remaining calls fail with this error."""

    error: PulsarException


# Events of the connection.


class ConsumerAttached(NamedTuple):
    """There is a connection to the broker.

    `opened` is the last entry that was opened since the last seek, before the queue was cleared. `max_message_size` is
    the broker's limit for an entry. `connection_id` is another for each TCP connection, while `connection` counts the
    times that the consumer was attached to one.
    """

    connection: int
    opened: MessageId | None
    max_message_size: int
    now_ms: int  # wall clock
    connection_id: str


# Events of the broker.


class Subscribed(NamedTuple):
    """SUCCESS, in answer to SUBSCRIBE."""

    attempt: int


class SeekAnswered(NamedTuple):
    """SUCCESS, in answer to SEEK."""

    attempt: int


class SeekFailed(NamedTuple):
    """ERROR, in answer to SEEK."""

    attempt: int
    error: PulsarException


class SeekTimedOut(NamedTuple):
    """No answer to SEEK in time. The broker may still do it."""

    attempt: int
    error: PulsarException


class UnsubscribeAnswered(NamedTuple):
    """SUCCESS, in answer to UNSUBSCRIBE."""

    attempt: int


class UnsubscribeFailed(NamedTuple):
    """ERROR, in answer to UNSUBSCRIBE."""

    attempt: int
    error: PulsarException


class LastMessageIdAnswered(NamedTuple):
    """GET_LAST_MESSAGE_ID_RESPONSE."""

    query_number: int
    command: CommandGetLastMessageIdResponse


class ConsumerStatsAnswered(NamedTuple):
    """CONSUMER_STATS_RESPONSE."""

    query_number: int
    command: CommandConsumerStatsResponse


class QueryFailed(NamedTuple):
    """ERROR, in answer to GET_LAST_MESSAGE_ID or CONSUMER_STATS, or none in time."""

    query_number: int
    error: PulsarException


class AcksAnswered(NamedTuple):
    """ACK_RESPONSE, or none in time. `error` is set if the acknowledgements do not count."""

    ack: int
    error: PulsarException | None


class TransactionalAckAnswered(NamedTuple):
    """ACK_RESPONSE to an acknowledgement in a transaction, or none in time. `error` is set if it does not count."""

    ack: int
    error: PulsarException | None


class MessagesArrived(NamedTuple):
    """MESSAGE commands: all of one read, in order."""

    connection: int
    messages: tuple[IncomingEntry, ...]
    now_ms: int  # wall clock


class EndOfTopicReached(NamedTuple):
    """REACHED_END_OF_TOPIC: the topic was terminated, and no more messages will come."""

    connection: int


class ActiveConsumerChanged(NamedTuple):
    """ACTIVE_CONSUMER_CHANGE: this consumer of a Failover subscription gets the messages, or does not any longer."""

    connection: int
    is_active: bool


# Events of time.


class CallTimedOut(NamedTuple):
    """The time limit of a seek without a binding, or of an unsubscribe, is over."""

    generation: int


class QueriesDue(NamedTuple):
    """The time limit of a query may be over."""

    generation: int


class AcksDue(NamedTuple):
    """The group of acknowledgements is complete: send those that are held."""


class AckReceiptsDue(NamedTuple):
    """The time limit of an acknowledgement's receipt may be over."""

    generation: int


class RedeliveryDue(NamedTuple):
    """A redelivery or an incomplete chunked message is due."""

    generation: int


# Effects.


class AskToSubscribe(NamedTuple):
    """Send SUBSCRIBE; answer with one of the Subscribe events."""

    attempt: int
    command: CommandSubscribe
    timeout: float


class AskToSeek(NamedTuple):
    """Send SEEK; answer with one of the Seek events."""

    attempt: int
    command: CommandSeek
    timeout: float


class AskToUnsubscribe(NamedTuple):
    """Send UNSUBSCRIBE; answer with one of the Unsubscribe events."""

    attempt: int
    command: CommandUnsubscribe
    timeout: float


class AskToGetLastMessageId(NamedTuple):
    """Send GET_LAST_MESSAGE_ID; answer `LastMessageIdAnswered` or `QueryFailed`."""

    query_number: int
    command: CommandGetLastMessageId
    timeout: float


class AskToGetConsumerStats(NamedTuple):
    """Send CONSUMER_STATS; answer `ConsumerStatsAnswered` or `QueryFailed`."""

    query_number: int
    command: CommandConsumerStats
    timeout: float


class AskToAck(NamedTuple):
    """Send ACK and answer `AcksAnswered`."""

    ack: int
    command: CommandAck
    timeout: float


class AskToAckInTransaction(NamedTuple):
    """Send ACK and answer `TransactionalAckAnswered`."""

    ack: int
    command: CommandAck
    timeout: float


class SendConsumerCommand(NamedTuple):
    """Send a command that has no answer."""

    command: Message


class ClearQueue(NamedTuple):
    """Drop the queued entries, remember the last opened one, and use this generation for later entries.

    Opened batches are dropped, too, unless their generation `still_delivers`.
    """

    generation: Generation


class ResizeReceiverQueue(NamedTuple):
    """Report freed room to this machine once half of so many messages is free."""

    size: int


class QueueEntries(NamedTuple):
    """Queue entries for the user."""

    entries: tuple[DeliveredEntry, ...]


class NoteSkipped(NamedTuple):
    """Report the entries that a reader does not get, before later entries are queued."""

    skipped: tuple[Skipped, ...]


class NotePassed(NamedTuple):
    """Report that a reader has passed an entry that queued no message; None if it begins again in another cluster."""

    entry: EntryKey | None


class MarkEndOfTopic(NamedTuple):
    """Note the end of the topic, after all queued entries."""


class NotifyActiveConsumerChange(NamedTuple):
    """Tell the user's listener if the consumer is the active one."""

    is_active: bool


class RedeliveryRequested(NamedTuple):
    """The redelivery of entries was requested: negatively acknowledged ones, and those not acknowledged in time."""

    negatively_acknowledged: tuple[EntryKey, ...]
    late: tuple[EntryKey, ...]


class SendToDeadLetters(NamedTuple):
    """Send entries to the dead letter topic; answer with a DeadLetter event for each."""

    entries: tuple[DeliveredEntry, ...]


class AcksHeld(NamedTuple):
    """Answer with `AcksDue` after the group time: acknowledgements are held that no caller has queued."""


class AcksSettled(NamedTuple):
    """Complete the callers of acknowledgements."""

    tokens: tuple[AckToken, ...]
    error: PulsarException | None


class ConsumerOpened(NamedTuple):
    """The first subscribe has succeeded."""


class ConsumerCallDone(NamedTuple):
    """Complete a call, with the answer if it was a query."""

    token: object
    answer: LastMessage | CommandConsumerStatsResponse | None = None
