"""Events and effects that only a consumer has: those of `consumer.py` and of the machines that are its parts.

Those that it shares with a producer stand in `connection_handler_events.py`, which also tells what `attempt` and
`connection` mean. A `generation` labels what is queued for the user: it comes with `ClearQueue`, and each report of a
queued entry carries it.
"""

from typing import NamedTuple

from google.protobuf.message import Message

from pulsar_actors.exceptions import BrokerRefusal, InvalidArgument, PulsarException
from pulsar_actors.machines.incoming_entries import DeliveredEntry, IncomingEntry, Skipped
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckToken
from pulsar_actors.machines.trackers.entry_map import EntryKey, Generation
from pulsar_actors.wire.message_id import MessageId
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

# Events of the user.


class Seek(NamedTuple):
    """Seek to a message, or to the first one published at a time (wall-clock ms) or later."""

    token: object
    target: MessageId | int


class Unsubscribe(NamedTuple):
    """Delete the subscription, and end the consumer; `force` does so even with other consumers connected."""

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


class LastMessage(NamedTuple):
    """The last message, and how far the subscription has acknowledged without a gap, if the broker tells."""

    message_id: MessageId
    acknowledged: MessageId | None


class Acknowledge(NamedTuple):
    """Acknowledge messages one by one; `tokens`, if given, has one for each.

    `parts` are sets of messages of batches (see `ack_set.py`); the ids tell the size of each batch.
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


class NegativeAcknowledge(NamedTuple):
    """Have messages redelivered after their delay; each with the number of its redeliveries."""

    generation: Generation
    messages: tuple[tuple[MessageId, int], ...]


class RedeliverUnacknowledged(NamedTuple):
    """Have everything unacknowledged redelivered now."""


class HandedOut(NamedTuple):
    """So many messages went to the user; `message_ids` has the last of each entry they came from, in order.

    With no messages, `message_ids` has the entry whose messages are next. `counts` are the redeliveries of each.
    """

    generation: Generation
    messages: int
    message_ids: tuple[MessageId, ...] = ()
    counts: tuple[int, ...] = ()


class MessagesDiscarded(NamedTuple):
    """So many messages were dropped before the user saw them, for instance compacted out or not decryptable."""

    generation: Generation
    messages: int


class EntryCorrupt(NamedTuple):
    """An entry was found corrupt when it was opened; none of its messages was handed out."""

    generation: Generation
    entry: EntryKey
    messages: int
    validation_error: "CommandAck.ValidationError.ValueType"


class ReceiveWaiting(NamedTuple):
    """A caller waits for a message; a queue of size 0 asks for one then."""


class ReceiveGivenUp(NamedTuple):
    """A caller waits no longer."""


class DeadLetterSent(NamedTuple):
    """The dead letter topic has all messages of an entry."""

    generation: Generation
    message_id: MessageId


class DeadLetterFailed(NamedTuple):
    """The dead letter topic does not have an entry."""

    message_id: MessageId


# Events from `consumer.py` to its parts, and between these.


class Bound(NamedTuple):
    """The broker has accepted SUBSCRIBE."""


class Unbound(NamedTuple):
    """Nothing can be sent before the next SUBSCRIBE is accepted, for this reason."""

    reason: str


class SeekSent(NamedTuple):
    """SEEK is about to be sent, behind the acknowledgements that are held."""


class SeekRefused(NamedTuple):
    """The broker has not sought; the position is the old one."""


class Sought(NamedTuple):
    """The broker has sought this target."""

    target: MessageId | int


class FlushAcks(NamedTuple):
    """Send the acknowledgements that are held, before a command that ends the consumer."""


class Closing(NamedTuple):
    """The consumer is closing: calls that need a broker fail with this error."""

    error: PulsarException


class Ended(NamedTuple):
    """The consumer is closed: all that is left fails with this error."""

    error: PulsarException


# Events of the connection.


class ConsumerAttached(NamedTuple):
    """There is a connection to the broker.

    `opened` is the last entry that was opened since the last seek, before the queue was cleared. `max_message_size` is
    the broker's limit for an entry.
    """

    connection: int
    opened: MessageId | None
    max_message_size: int
    now_ms: int  # wall clock


# Events of the broker.


class Subscribed(NamedTuple):
    """SUCCESS, in answer to SUBSCRIBE."""

    attempt: int


class SubscribeRefused(NamedTuple):
    """ERROR, in answer to SUBSCRIBE; or SUBSCRIBE is too large for the broker."""

    attempt: int
    error: BrokerRefusal | InvalidArgument


class SeekAnswered(NamedTuple):
    """SUCCESS, in answer to SEEK."""

    attempt: int


class SeekFailed(NamedTuple):
    """ERROR, in answer to SEEK, or none in time."""

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
    """ACK_RESPONSE, or none in time; `error` if the acknowledgements do not count."""

    ack: int
    error: PulsarException | None


class MessagesArrived(NamedTuple):
    """MESSAGE commands: all of one read, in their order."""

    connection: int
    messages: tuple[IncomingEntry, ...]
    now_ms: int  # wall clock


class EndOfTopicReached(NamedTuple):
    """REACHED_END_OF_TOPIC: the topic was terminated, and nothing comes after what was sent."""

    connection: int


class ActiveConsumerChanged(NamedTuple):
    """ACTIVE_CONSUMER_CHANGE: whether this is the consumer of a Failover subscription that gets the messages."""

    connection: int
    is_active: bool


# Events of time.


class SubscribeTimedOut(NamedTuple):
    """SUBSCRIBE got no answer; the broker may still act on it."""

    attempt: int


class CallTimedOut(NamedTuple):
    """The time limit is over of a seek without a binding, or of an unsubscribe."""

    generation: int


class QueriesDue(NamedTuple):
    """The time limit of a query may be over."""

    generation: int


class AcksDue(NamedTuple):
    """The group of acknowledgements is complete: send what is held."""


class AckReceiptsDue(NamedTuple):
    """The time limit of an acknowledgement's receipt may be over."""

    generation: int


class SweepDue(NamedTuple):
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


class SendConsumerCommand(NamedTuple):
    """Send a command that has no answer."""

    command: Message


class ClearQueue(NamedTuple):
    """Drop what is queued, remember what was opened last, and label with the generation what comes from now on.

    Opened batches are dropped, too, unless their generation `still_delivers`.
    """

    generation: Generation


class QueueEntries(NamedTuple):
    """Queue entries for the user."""

    entries: tuple[DeliveredEntry, ...]


class NoteSkipped(NamedTuple):
    """Tell a reader which entries it does not get, before the entries behind them."""

    skipped: tuple[Skipped, ...]


class NotePassed(NamedTuple):
    """Tell a reader how far it is, where it gets nothing of that entry."""

    entry: EntryKey


class MarkEndOfTopic(NamedTuple):
    """Queue the end of the topic behind the entries."""


class NotifyActiveConsumerChange(NamedTuple):
    """Tell the user's listener whether the consumer is the active one."""

    is_active: bool


class RedeliveryRequested(NamedTuple):
    """Entries were asked for again: those negatively acknowledged, and those not acknowledged in time."""

    refused: tuple[EntryKey, ...]
    late: tuple[EntryKey, ...]


class SendToDeadLetters(NamedTuple):
    """Send entries to the dead letter topic; answer with a DeadLetter event for each."""

    entries: tuple[DeliveredEntry, ...]


class AcksHeld(NamedTuple):
    """Answer `AcksDue` after the group time: acknowledgements are held that no caller has queued."""


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
