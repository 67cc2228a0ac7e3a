"""What only a consumer hears and answers with: the events and effects of `consumer.py`.

Those that it shares with a producer, and what `attempt` and `connection` mean, stand in `binding_events.py`. A
`generation` is what the hand-off queue last was told with `ClearQueue`, and whatever its users report carries that.
"""

from typing import Any, NamedTuple

from pulsar_actors.exceptions import BrokerRefusal, InvalidArgument, PulsarException
from pulsar_actors.machines.entry_intake import Delivery, Incoming
from pulsar_actors.machines.ledgers.ack_command import Token
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.left_out import LeftOut
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

# Events of our own side.


class Seek(NamedTuple):
    """Go to a message, or to the first one published at a time (wall-clock ms) or later."""

    token: object
    target: MessageId | int


class Unsubscribe(NamedTuple):
    """Delete the subscription, and end the consumer; `force` does so even with other consumers connected."""

    token: object
    force: bool = False


class AskForLast(NamedTuple):
    """Ask for the last message of the topic, until `deadline` (monotonic seconds)."""

    token: object
    deadline: float


class AskForStats(NamedTuple):
    """Ask what the broker counts of this consumer, until `deadline`."""

    token: object
    deadline: float


class LastMessage(NamedTuple):
    """The answer: the last message, and how far its subscription has acknowledged without a gap, if the broker says."""

    message_id: MessageId
    acknowledged: MessageId | None


class Acknowledge(NamedTuple):
    """Acknowledge messages one by one; `tokens`, if given, is one for each. `at_once` if a caller waits for it.

    `parts` are many at once: of entries that are batches, whose size their ids tell, sets of messages (`ack_set.py`).
    """

    generation: Generation
    message_ids: tuple[MessageId, ...]
    tokens: tuple[Token, ...] | None = None
    at_once: bool = False
    parts: tuple[tuple[MessageId, int], ...] = ()


class AcknowledgeUpTo(NamedTuple):
    """Acknowledge a message and all before it."""

    generation: Generation
    message_id: MessageId
    token: Token | None = None
    at_once: bool = False


class Refuse(NamedTuple):
    """Ask for messages again, after their delay; each with the number of times that it was redelivered."""

    generation: Generation
    messages: tuple[tuple[MessageId, int], ...]


class Redeliver(NamedTuple):
    """Ask for everything unacknowledged again, now."""


class HandedOut(NamedTuple):
    """So many messages went to the user; `message_ids` has the last of each entry they came from, in order.

    Or none has yet, and `message_ids` has the entry whose are next. `counts` says how often each was redelivered.
    """

    generation: Generation
    messages: int
    message_ids: tuple[MessageId, ...] = ()
    counts: tuple[int, ...] = ()


class Returned(NamedTuple):
    """So many messages were dropped before the user saw them: compacted out, undecryptable, ..."""

    generation: Generation
    messages: int


class Spoiled(NamedTuple):
    """An entry turned out corrupt when it was opened; none of its messages was handed out."""

    generation: Generation
    entry: EntryKey
    messages: int
    validation_error: "CommandAck.ValidationError.ValueType"


class Await(NamedTuple):
    """Somebody waits for a message: what makes a queue of size 0 ask."""


class GiveUp(NamedTuple):
    """Somebody waits no longer."""


class DeadLetterSent(NamedTuple):
    """The dead letter topic has all messages of an entry."""

    generation: Generation
    message_id: MessageId


class DeadLetterFailed(NamedTuple):
    """The dead letter topic does not have an entry."""

    message_id: MessageId


# Events of the connection.


class Attached(NamedTuple):
    """There is a connection to the broker.

    `opened` is the last entry that was opened, since the last seek if there was one, before the queue was cleared.
    `max_message_size` is the broker's limit for an entry.
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
    """ERROR, in answer to SUBSCRIBE; or it is too large for the broker."""

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


class LastTold(NamedTuple):
    """GET_LAST_MESSAGE_ID_RESPONSE."""

    question: int
    command: CommandGetLastMessageIdResponse


class StatsTold(NamedTuple):
    """CONSUMER_STATS_RESPONSE."""

    question: int
    command: CommandConsumerStatsResponse


class NotTold(NamedTuple):
    """A refusal to answer GET_LAST_MESSAGE_ID or CONSUMER_STATS, or no answer in time."""

    question: int
    error: PulsarException


class AcksAnswered(NamedTuple):
    """ACK_RESPONSE, or none in time; `error` if the acknowledgements do not count."""

    ack: int
    error: PulsarException | None


class MessagesArrived(NamedTuple):
    """MESSAGE: all of one read, in their order."""

    connection: int
    messages: tuple[Incoming, ...]
    now_ms: int  # wall clock


class EndReached(NamedTuple):
    """REACHED_END_OF_TOPIC: the topic was ended, and nothing comes after what was sent."""

    connection: int


class ActiveChanged(NamedTuple):
    """ACTIVE_CONSUMER_CHANGE: of a Failover subscription's consumers, this one is served now, or no longer."""

    connection: int
    is_active: bool


# Events of time.


class SubscribeTimedOut(NamedTuple):
    """SUBSCRIBE got no answer; the broker may still act on it."""

    attempt: int


class CallTimedOut(NamedTuple):
    """A seek has waited for a binding, or an unsubscribe for that or its answer, as long as was agreed."""

    generation: int


class QuestionsDue(NamedTuple):
    """The time of a question for the last message may be up."""

    generation: int


class AcksDue(NamedTuple):
    """Acknowledgements have been held for long enough."""

    generation: int


class ReceiptsDue(NamedTuple):
    """Somebody has waited for a receipt as long as was agreed."""

    generation: int


class SweepDue(NamedTuple):
    """Something refused, unacknowledged or unfinished is due."""

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


class AskToTellLast(NamedTuple):
    """Send GET_LAST_MESSAGE_ID; answer `LastTold` or `NotTold`."""

    question: int
    command: CommandGetLastMessageId
    timeout: float


class AskToTellStats(NamedTuple):
    """Send CONSUMER_STATS; answer `StatsTold` or `NotTold`."""

    question: int
    command: CommandConsumerStats
    timeout: float


class AskToAck(NamedTuple):
    """Send ACK and answer `AcksAnswered`."""

    ack: int
    command: CommandAck
    timeout: float


class Tell(NamedTuple):
    """Send a command that has no answer."""

    connection: int
    command: Any


class ClearQueue(NamedTuple):
    """Drop what is queued, remember what was opened last, and label what comes and what is reported from now on.

    Opened batches go too if `still_delivers` says so of their generation.
    """

    generation: Generation


class HandOver(NamedTuple):
    """Queue entries for the user."""

    entries: tuple[Delivery, ...]


class NoteLeftOut(NamedTuple):
    """Tell a reader what it is not given, before what comes behind it."""

    left_out: tuple[LeftOut, ...]


class NotePassed(NamedTuple):
    """Tell a reader how far it is, where it is given nothing of that entry."""

    entry: EntryKey


class MarkEnd(NamedTuple):
    """Queue the end of the topic: after what is queued, receiving says so."""


class ActiveChange(NamedTuple):
    """Tell the user's listener."""

    is_active: bool


class WantedAgain(NamedTuple):
    """Tell who listens which entries were asked for again: those refused, and those not acknowledged in time."""

    refused: tuple[EntryKey, ...]
    late: tuple[EntryKey, ...]


class SendToDeadLetters(NamedTuple):
    """Send entries to the dead letter topic; answer with a DeadLetter event for each."""

    entries: tuple[Delivery, ...]


class Acked(NamedTuple):
    """Tell the tokens what became of their acknowledgements."""

    tokens: tuple[Token, ...]
    error: PulsarException | None


class Opened(NamedTuple):
    """Tell the user that the consumer exists."""


class Done(NamedTuple):
    """Tell whoever holds the token that it is done, and what was asked for, if it was a question."""

    token: object
    answer: LastMessage | CommandConsumerStatsResponse | None = None
